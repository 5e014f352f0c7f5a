// limiter_test.go owns the fixed windows of the rate limit.

package main

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	type step struct {
		at        time.Duration // since the beginning; it may go back
		id        int64
		wantAfter int
		wantOK    bool
	}
	const length = 60 * time.Second
	tests := []struct {
		name  string
		limit int
		steps []step
	}{
		{"three pass and the fourth is told when the window ends", 3, []step{
			{0, 1, 0, true}, {time.Second, 1, 0, true}, {2 * time.Second, 1, 0, true}, {10 * time.Second, 1, 50, false},
		}},
		{"the seconds are rounded up", 1, []step{
			{0, 1, 0, true}, {1, 1, 60, false}, {500 * time.Millisecond, 1, 60, false}, {time.Second, 1, 59, false},
			{length - 1, 1, 1, false},
		}},
		{"the window opens with the first request, not on the minute", 1, []step{
			{47 * time.Second, 1, 0, true}, {60 * time.Second, 1, 47, false}, {106 * time.Second, 1, 1, false}, {107 * time.Second, 1, 0, true},
		}},
		{"a window that ended is over at that instant", 1, []step{
			{0, 1, 0, true}, {length, 1, 0, true},
		}},
		{"the refused are not counted", 1, []step{
			{0, 1, 0, true}, {59 * time.Second, 1, 1, false}, {59 * time.Second, 1, 1, false}, {length, 1, 0, true}, {length, 1, 60, false},
		}},
		{"each credential has its own window", 1, []step{
			{0, 1, 0, true}, {time.Second, 2, 0, true}, {2 * time.Second, 1, 58, false}, {2 * time.Second, 2, 59, false},
		}},
		{"a clock set back does not lengthen a window", 1, []step{
			{time.Hour, 1, 0, true}, {0, 1, 60, false}, {30 * time.Second, 1, 30, false}, {length, 1, 0, true},
		}},
		{"nor another credential's, which asks later", 1, []step{
			{time.Hour, 1, 0, true}, {0, 2, 0, true}, {30 * time.Second, 1, 30, false}, {length, 1, 0, true},
		}},
		{"nor by a small step", 1, []step{
			{10 * time.Second, 1, 0, true}, {0, 1, 60, false}, {length, 1, 0, true},
		}},
		{"no request at all", 0, []step{
			{0, 1, 60, false}, {time.Second, 1, 60, false},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Date(2026, 10, 21, 22, 26, 31, 0, time.UTC)
			now := begin
			l := newLimiter(test.limit, length, func() time.Time { return now })
			for _, step := range test.steps {
				now = begin.Add(step.at)
				after, ok := l.allow(step.id)
				if after != step.wantAfter || ok != step.wantOK {
					t.Errorf("at %v: allow(%d) = %d, %t, want %d, %t", step.at, step.id, after, ok, step.wantAfter, step.wantOK)
				}
			}
		})
	}
}

func TestLimiterForgetsWindowsThatEnded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 21, 22, 26, 31, 0, time.UTC)
	l := newLimiter(1, time.Minute, func() time.Time { return now })
	// Ten credentials a second: no more than two minutes of them are kept.
	const perSecond, bound = 10, 10 * 2 * 60
	for id := range int64(100_000) {
		if id%perSecond == 0 {
			now = now.Add(time.Second)
		}
		if _, ok := l.allow(id); !ok {
			t.Fatalf("allow(%d) is refused, want it admitted", id)
		}
		if got := len(l.windows); got > bound {
			t.Fatalf("after %d credentials the limiter keeps %d windows, want at most %d", id, got, bound)
		}
	}
}

func TestLimiterAdmitsExactlyTheLimitAtOnce(t *testing.T) {
	t.Parallel()
	const limit, requests = 3, 200
	l := newLimiter(limit, time.Hour, time.Now)
	var admitted atomic.Int64
	var wait sync.WaitGroup
	for range requests {
		wait.Go(func() {
			if _, ok := l.allow(1); ok {
				admitted.Add(1)
			}
		})
	}
	wait.Wait()
	if got := admitted.Load(); got != limit {
		t.Errorf("of %d requests at once %d were admitted, want %d", requests, got, limit)
	}
}
