// faults_test.go owns what makes two arrivals the same request, how long they are
// counted, and which of them a plan spoils.

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// TestOccasions: which of the first arrivals of a request a fault befalls.
func TestOccasions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		when string
		want []uint64 // among the first ten
	}{
		{"first", []uint64{1}},
		{"first=3", []uint64{1, 2, 3}},
		{"nth=1", []uint64{1}},
		{"nth=4", []uint64{4}},
		{"every=1", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{"every=4", []uint64{4, 8}},
		{"rate=1", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
	}
	for _, tt := range tests {
		plan := planOf(t, "after,"+tt.when)
		for _, key := range []string{"a", "b"} { // each counts by itself
			var got []uint64
			for range 10 {
				if v := plan.arrive(identifyKey(key)); v.fault.point != "" {
					got = append(got, v.number)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("after,%s befalls arrivals %v of %s, want %v", tt.when, got, key, tt.want)
			}
		}
	}
}

// spoiled lists which of arrivals×requests a plan spoils, and how.
func spoiled(plan *faultPlan, requests, arrivals int) []string {
	var all []string
	for request := range requests {
		for range arrivals {
			all = append(all, plan.arrive(identifyKey(strconv.Itoa(request))).String())
		}
	}
	return all
}

// TestRate: a share of all arrivals, drawn from the seed alone; another seed draws others,
// and so does another place in the plan.
func TestRate(t *testing.T) {
	t.Parallel()
	const requests, arrivals = 400, 5
	plan := func(seed uint64, specs ...string) *faultPlan {
		return newFaultPlan(planOf(t, specs...).faults, seed)
	}
	for _, rate := range []float64{0.01, 0.2, 0.5, 0.9} {
		spec := fmt.Sprint("after,rate=", rate)
		got := spoiled(plan(7, spec), requests, arrivals)
		if again := spoiled(plan(7, spec), requests, arrivals); !slices.Equal(got, again) {
			t.Errorf("%s: one seed draws two ways", spec)
		}
		if other := spoiled(plan(8, spec), requests, arrivals); slices.Equal(got, other) {
			t.Errorf("%s: two seeds draw alike", spec)
		}
		n := float64(len(got) - len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != "" })))
		if deviation := 5 * math.Sqrt(requests*arrivals*rate*(1-rate)); math.Abs(n-requests*arrivals*rate) > deviation {
			t.Errorf("%s spoils %v of %d, want about %v", spec, n, requests*arrivals, requests*arrivals*rate)
		}
	}
	both := spoiled(plan(7, "before,rate=0.3", "after,rate=0.3"), requests, arrivals)
	if !slices.Contains(both, "before") || !slices.Contains(both, "after") || !slices.Contains(both, "") {
		t.Errorf("two faults of one rate befall %v, want each some and some neither", both)
	}
}

// TestSeveralFaults: delays add up, of the others the first one that applies counts.
func TestSeveralFaults(t *testing.T) {
	t.Parallel()
	plan := planOf(t, "delay=1s,first=2", "after,nth=2", "delay=2s", "delay=4s:after", "before,first=3", "status=503,rate=1")
	want := []verdict{
		{number: 1, before: 3 * time.Second, after: 4 * time.Second, delays: "delay=1s, delay=2s, delay=4s:after", fault: plan.faults[4]},
		{number: 2, before: time.Second, delays: "delay=1s", fault: plan.faults[1]},
		{number: 3, fault: plan.faults[4]},
		{number: 4, fault: plan.faults[5]},
	}
	for _, w := range want {
		if got := plan.arrive(identifyKey("a")); got != w {
			t.Errorf("arrival %d meets %+v, want %+v", w.number, got, w)
		}
	}
}

// TestFaultIsToldAsItIsWritten: in the ledger and the log, without its WHEN; X-Simulado has
// the points alone.
func TestFaultIsToldAsItIsWritten(t *testing.T) {
	t.Parallel()
	tests := []struct{ plan, text, points string }{
		{"before", "before", "before"},
		{"cut-before-headers:reset", "cut-before-headers:reset", "cut-before-headers"},
		{"cut-after-headers:close", "cut-after-headers", "cut-after-headers"},
		{"cut-after=7:reset", "cut-after=7:reset", "cut-after"},
		{"delay=90s:after", "delay=1m30s:after", "delay"},
		{"status=503", "status=503", "status"},
		{"status=503:Wed", "status=503:Wed", "status"},
		{"delay=1s delay=300ms:after duplicate", "delay=1s, delay=300ms:after, duplicate", "delay, duplicate"},
		{"after,nth=2", "", ""},
	}
	for _, tt := range tests {
		v := planOf(t, strings.Fields(tt.plan)...).arrive(identifyKey("a"))
		if v.text() != tt.text || v.String() != tt.points {
			t.Errorf("%s is told as %q and %q, want %q and %q", tt.plan, v.text(), v, tt.text, tt.points)
		}
		for part := range strings.SplitSeq(v.text(), ", ") {
			if _, err := parseFault(part); part != "" && err != nil {
				t.Errorf("%s is told as %q, which cannot be read: %v", tt.plan, part, err)
			}
		}
	}
}

// TestNumbersGivenBack: the next arrival gets the lowest, nobody gets one twice, and what
// is forgotten is not given out again.
func TestNumbersGivenBack(t *testing.T) {
	t.Parallel()
	seen, a := newSeenRequests(2), identifyKey("a")
	arrive := func(want ...uint64) {
		t.Helper()
		for _, number := range want {
			if got := seen.arrive(a); got != number {
				t.Errorf("arrival = %d, want %d", got, number)
			}
		}
	}
	arrive(1, 2, 3)
	for _, number := range []uint64{3, 1, 1, 9} { // twice the same, and one that nobody has
		seen.giveBack(a, number)
	}
	arrive(1, 3, 4)
	seen.giveBack(a, 4)
	seen.arrive(identifyKey("b"))
	seen.arrive(identifyKey("c")) // forgets a
	if len(seen.free) != 0 {
		t.Errorf("%v is kept of what was forgotten, want nothing", seen.free)
	}
	seen.giveBack(a, 2)
	arrive(1, 2)
}

// TestArrivalsAtOnce: of equal arrivals at once each has another number.
func TestArrivalsAtOnce(t *testing.T) {
	t.Parallel()
	const callers = 8
	plan := planOf(t, "after,first=3")
	var met atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if plan.arrive(identifyKey("a")).fault.point != "" {
				met.Add(1)
			}
		})
	}
	all.Wait()
	if n := met.Load(); n != 3 {
		t.Errorf("after,first=3 befell %d of %d arrivals at once, want 3", n, callers)
	}
}
