// logbook_test.go owns the logbook of a torture run: what was asked for, attempt by attempt,
// what each client was told, and which kill took an answer away. It must not know what is
// in the database, but for what comparison_test.go tells it.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// intention is one thing that a client wants once, however often it has to ask.
type intention struct {
	key, token string
	path, body string
	name       string // of the service to be registered; "" for a revision
	service    int64  // whose revision this is; 0 for a service
	abandoned  bool   // its client gave up and will not hear how it ended

	attempts []*posting // in the order of sending
}

// posting is one attempt: one request on the wire, and what came of it.
type posting struct {
	gateway bool // went through the gateway
	lose    bool // which was asked to lose the first answer
	sent    time.Time
	ended   time.Time
	got     response // status 0: no answer
	why     error    // there is none
}

func (p *posting) answered() bool { return p.got.status != 0 }

func (p *posting) succeeded() bool { return p.got.status >= 200 && p.got.status < 300 }

// cut tells whether a kill took the answer away: the client waited for it at that
// time, would have waited longer, and nobody had been asked to lose it.
func (p *posting) cut(k kill) bool {
	return !p.answered() && !p.lose && !errors.Is(p.why, context.DeadlineExceeded) && p.sent.Before(k.at) && p.ended.After(k.at)
}

func (in *intention) String() string {
	return fmt.Sprintf("key %s, POST %s %s", in.key, in.path, in.name)
}

// successes are the attempts that were told of success, in the order of the telling.
func (in *intention) successes() []*posting {
	told := slices.DeleteFunc(slices.Clone(in.attempts), func(p *posting) bool { return !p.succeeded() })
	slices.SortStableFunc(told, func(a, b *posting) int { return a.ended.Compare(b.ended) })
	return told
}

// logbook collects what clients do. It is written as it happens and read at the end.
type logbook struct {
	mu         sync.Mutex
	intentions []*intention
	waiting    int // attempts whose clients wait now
	told       int // attempts that were told of success
}

func (l *logbook) plan(in *intention) *intention {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intentions = append(l.intentions, in)
	return in
}

func (l *logbook) send(in *intention, gateway, lose bool) *posting {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &posting{gateway: gateway, lose: lose, sent: time.Now()}
	in.attempts = append(in.attempts, p)
	l.waiting++
	return p
}

func (l *logbook) end(p *posting, got response, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.ended, p.got, p.why = time.Now(), got, why
	l.waiting--
	if p.succeeded() {
		l.told++
	}
}

// unanswered is how many keyed POSTs are out at this moment.
func (l *logbook) unanswered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// nextAnswer returns when somebody was told of success, or after patience.
func (l *logbook) nextAnswer(patience time.Duration) {
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.told
	}
	before, deadline := count(), time.Now().Add(patience)
	for count() == before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
}

// kill is one life of the process that ended by force.
type kill struct {
	started time.Time // the process
	at      time.Time // just before the signal was sent
	dead    time.Time // when it was known to be gone
}

// catch is what kills came upon: how many took an answer away from somebody, after how
// many of those the effect was there all the same; and how many POSTs that were.
type catch struct {
	kills, caught, committed int
	posts, committedPosts    int
}

func (c catch) String() string {
	return fmt.Sprintf("%d kills; %d caught a keyed POST unanswered (%d POSTs), %d of those had been committed (%d POSTs)",
		c.kills, c.caught, c.posts, c.committed, c.committedPosts)
}

// catch looks at the kills, which are in their order. Committed is what was made by the
// very process that was killed.
func (l *logbook) catch(kills []kill, e effects) catch {
	c := catch{kills: len(kills)}
	caught, committed := make([]bool, len(kills)), make([]bool, len(kills))
	for _, in := range l.intentions {
		for _, p := range in.attempts {
			i := sort.Search(len(kills), func(i int) bool { return kills[i].at.After(p.sent) })
			if i == len(kills) || !p.cut(kills[i]) {
				continue
			}
			caught[i] = true
			c.posts++
			if slices.ContainsFunc(e.of(in), kills[i].made) {
				committed[i] = true
				c.committedPosts++
			}
		}
	}
	for i := range kills {
		if caught[i] {
			c.caught++
		}
		if committed[i] {
			c.committed++
		}
	}
	return c
}

// made tells whether the process that was killed had made an effect.
func (k kill) made(f effect) bool {
	return !f.created.Before(k.started.Truncate(time.Millisecond)) && !f.created.After(k.dead)
}

// story tells the attempts of an intention, one a line.
func (in *intention) story() string {
	var text strings.Builder
	for i, p := range in.attempts {
		way := "direct"
		if p.gateway {
			way = "gateway"
		}
		if p.lose {
			way = "gateway, to be lost"
		}
		end := "waits"
		switch {
		case p.answered():
			end = fmt.Sprintf("%s, Idempotency-Replayed %q, Location %s", p.got.verdict(), p.got.replayed(), p.got.header.Get("Location"))
		case p.why != nil:
			end = p.why.Error()
		}
		fmt.Fprintf(&text, "\n    %d. %s to %s (%s): %s", i+1, p.sent.Format("15:04:05.000000"), p.ended.Format("15:04:05.000000"), way, end)
	}
	return text.String()
}

// tally is what a logbook holds, in one line.
func (l *logbook) tally() string {
	counts := map[string]int{}
	for _, in := range l.intentions {
		counts["intentions"]++
		if in.abandoned {
			counts["abandoned"]++
		}
		for _, p := range in.attempts {
			counts["attempts"]++
			switch {
			case p.succeeded():
				counts[fmt.Sprintf("%d replayed %s", p.got.status, p.got.replayed())]++
			case p.answered():
				counts[p.got.verdict()]++
			case errors.Is(p.why, errAnswerLost):
				counts["lost on purpose"]++
			case errors.Is(p.why, syscall.ECONNREFUSED), strings.Contains(p.why.Error(), "ECONNREFUSED"):
				counts["nobody there"]++
			case errors.Is(p.why, context.DeadlineExceeded):
				counts["out of patience"]++
			default:
				counts["cut"]++
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// idIn reads the id of the resource in an answer.
func idIn(r response) int64 {
	var object struct {
		ID int64 `json:"id"`
	}
	json.Unmarshal([]byte(r.body), &object)
	return object.ID
}
