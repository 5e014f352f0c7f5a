// faults_test.go owns what makes two arrivals the same request, and how long the
// first one is remembered.

package main

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

func TestRequestIdentity(t *testing.T) {
	t.Parallel()
	long := make([]byte, identityBody+1)
	changed := make([]byte, identityBody+1)
	changed[identityBody] = 1
	base := identifyRequest("POST", "/s", []byte("a"), 1)
	tests := []struct {
		name string
		a, b identity
		want bool
	}{
		{"the same request", base, identifyRequest("POST", "/s", []byte("a"), 1), true},
		{"another method", base, identifyRequest("PUT", "/s", []byte("a"), 1), false},
		{"another path", base, identifyRequest("POST", "/t", []byte("a"), 1), false},
		{"another query", base, identifyRequest("POST", "/s?q", []byte("a"), 1), false},
		{"another body", base, identifyRequest("POST", "/s", []byte("b"), 1), false},
		{"a length that was not declared", base, identifyRequest("POST", "/s", []byte("a"), -1), false},
		{"a byte moved from path to body", base, identifyRequest("POST", "/", []byte("sa"), 1), false},
		{"the same key", identifyKey("k1"), identifyKey("k1"), true},
		{"another key", identifyKey("k1"), identifyKey("k2"), false},
		{"a key and its quoted spelling, which are the origin's to compare", identifyKey("k1"), identifyKey(`"k1"`), false},
		{"what follows a long beginning does not count", identifyRequest("POST", "/s", long, 1<<20), identifyRequest("POST", "/s", changed, 1<<20), true},
		{"its length does", identifyRequest("POST", "/s", long, 1<<20), identifyRequest("POST", "/s", long, 2<<20), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.a == tt.b; got != tt.want {
				t.Errorf("same = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSeenRequestsForgetTheOldest(t *testing.T) {
	t.Parallel()
	seen := newSeenRequests(3)
	steps := []struct {
		key  string
		want bool
	}{
		{"a", true}, {"a", false}, {"b", true}, {"c", true}, {"a", false},
		{"d", true},  // forgets a, in spite of its second arrival
		{"b", false}, // still known
		{"a", true},  // forgets b
		{"c", false}, {"d", false}, {"b", true},
	}
	for i, step := range steps {
		if got := seen.first(identifyKey(step.key)); got != step.want {
			t.Errorf("step %d: first(%s) = %v, want %v", i, step.key, got, step.want)
		}
		if len(seen.known) > 3 || len(seen.order) > 3 {
			t.Fatalf("step %d: %d known, %d in order, want at most 3", i, len(seen.known), len(seen.order))
		}
	}
}

func TestSeenRequestsAtOnce(t *testing.T) {
	t.Parallel()
	seen := newSeenRequests(seenLimit)
	const keys, callers = 50, 8
	var firsts atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for key := range keys {
				if seen.first(identifyKey(strconv.Itoa(key))) {
					firsts.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := firsts.Load(); n != keys {
		t.Errorf("%d first arrivals, want %d", n, keys)
	}
}
