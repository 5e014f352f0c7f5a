// budget_test.go owns what a run's budget lets through: failures with no end in sight
// empty it, and answers fill it again.

package main

import (
	"sync"
	"testing"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	failures := func(n int) func(*budget) {
		return func(b *budget) {
			for range n {
				b.fail()
			}
		}
	}
	answers := func(n int) func(*budget) {
		return func(b *budget) {
			for range n {
				b.settle(0)
			}
		}
	}
	tests := []struct {
		name    string
		senders int
		happens []func(*budget)
		want    bool // spent
	}{
		{"nothing yet", 4, nil, false},
		{"one failure less than it takes", 4, []func(*budget){failures(15)}, false},
		{"as many failures as tokens", 4, []func(*budget){failures(16)}, true},
		{"a single sender has ten", 1, []func(*budget){failures(9)}, false},
		{"a single sender's ten", 1, []func(*budget){failures(10)}, true},
		{"more senders may lose more at once", 64, []func(*budget){failures(255)}, false},
		{"sixty-four senders' all", 64, []func(*budget){failures(256)}, true},
		{"nine answers after the end are not enough", 1, []func(*budget){failures(10), answers(9)}, true},
		{"ten answers earn a token", 1, []func(*budget){failures(10), answers(10)}, false},
		{"answers before do not count for later", 1, []func(*budget){answers(1000), failures(10)}, true},
		{"failures at once on the last token are owed", 1, []func(*budget){failures(12), answers(29)}, true},
		{"and paid", 1, []func(*budget){failures(12), answers(30)}, false},
		{"an answer gives back what it took", 1, []func(*budget){failures(10), func(b *budget) { b.settle(3) }, failures(2)}, false},
		{"and no more", 1, []func(*budget){failures(10), func(b *budget) { b.settle(3) }, failures(3)}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBudget(tt.senders)
			for _, happen := range tt.happens {
				happen(b)
			}
			if got := b.spent(); got != tt.want {
				t.Errorf("spent() = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestBudgetOfNobody: a single registration has none, and is never stopped by it.
func TestBudgetOfNobody(t *testing.T) {
	t.Parallel()
	var none *budget
	for range 1000 {
		none.fail()
	}
	none.settle(3)
	if none.spent() {
		t.Errorf("spent() = true, want false")
	}
}

// TestBudgetIsShared: whatever many senders do at once is counted.
func TestBudgetIsShared(t *testing.T) {
	t.Parallel()
	b := newBudget(8)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for range 1000 {
				b.fail()
				b.fail()
				b.settle(1)
			}
		})
	}
	senders.Wait()
	if want := 8*tokensEach*wholeToken - 8000*(wholeToken-1); b.tenths != want {
		t.Errorf("tenths = %d, want %d", b.tenths, want)
	}
}
