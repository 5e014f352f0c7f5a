// limiter.go owns the rate limit: so many requests per credential in a fixed window
// that opens with the first of them. The clock comes in; it must not know what is
// counted, nor who asks.

package main

import (
	"maps"
	"sync"
	"time"
)

// limiter counts requests per credential id. Safe for concurrent use. It keeps
// no more windows than were opened during the last two window lengths.
type limiter struct {
	limit  int
	length time.Duration
	now    func() time.Time

	mu        sync.Mutex
	windows   map[int64]limitWindow
	latest    time.Time // what the clock said last
	nextSweep time.Time
}

// limitWindow is one credential's window: what was counted in it, until when.
type limitWindow struct {
	end   time.Time
	count int
}

// newLimiter admits limit requests per id in every window of that length.
func newLimiter(limit int, window time.Duration, now func() time.Time) *limiter {
	return &limiter{limit: limit, length: window, now: now, windows: make(map[int64]limitWindow)}
}

// allow counts one request of id if it fits in the window. If it does not, it
// is not counted, and retryAfterSeconds says when the window ends: whole
// seconds, rounded up, at least 1.
func (l *limiter) allow(id int64) (retryAfterSeconds int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.now()
	if now.Before(l.latest) {
		l.shorten(now)
	}
	l.latest = now
	l.sweep(now)

	w, open := l.windows[id]
	if !open || !now.Before(w.end) {
		w = limitWindow{end: now.Add(l.length)}
	}
	if w.count >= l.limit {
		return wholeSecondsUp(w.end.Sub(now)), false
	}
	w.count++
	l.windows[id] = w
	return 0, true
}

// shorten follows a clock that was set back: without it, windows would last
// their length and the whole jump.
func (l *limiter) shorten(now time.Time) {
	latestEnd := now.Add(l.length)
	for id, w := range l.windows {
		if w.end.After(latestEnd) {
			w.end = latestEnd
			l.windows[id] = w
		}
	}
	l.nextSweep = now
}

// sweep drops the windows that ended, at most once per window length, so that
// its cost is spread over the requests that opened them.
func (l *limiter) sweep(now time.Time) {
	if now.Before(l.nextSweep) {
		return
	}
	maps.DeleteFunc(l.windows, func(_ int64, w limitWindow) bool { return !now.Before(w.end) })
	l.nextSweep = now.Add(l.length)
}

// wholeSecondsUp rounds a positive duration up to whole seconds.
func wholeSecondsUp(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
