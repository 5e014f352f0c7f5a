// budget.go owns how much failure a run of many requests puts up with before it leaves
// the server alone: a bucket of tokens that all its requests share. Pure: it must not
// know what is sent, nor who sends it.

package main

import "sync"

const (
	// tokensEach is what each sender brings along: one whole registration that fails may
	// be bad luck, for all of them at once.
	tokensEach = 4
	// leastTokens is what the smallest run begins with: two such registrations, and some.
	leastTokens = 10
	// wholeToken is one token, in the tenths that the bucket counts. An answer earns one
	// tenth, so a run goes on while fewer than one attempt in ten is in vain.
	wholeToken = 10
)

// budget is a token bucket. An attempt that failed takes a token. A request that was
// answered in the end gives back those that it took, because its retries were not in vain
// (and a gateway that loses every first answer on purpose is no dead server), and a tenth
// besides. When no whole token is left nothing is retried and nothing new is begun.
// Tokens are earned and not poured in by the clock: a server that answers nobody earns
// none, however slowly it is asked. Safe for concurrent use; a nil one is never spent.
type budget struct {
	mu     sync.Mutex
	tenths int // below zero when several attempts failed at once on the last token
	most   int
}

// newBudget is the budget of a run in which so many send at once.
func newBudget(senders int) *budget {
	most := max(leastTokens, senders*tokensEach) * wholeToken
	return &budget{tenths: most, most: most}
}

// fail takes the token of an attempt that failed.
func (b *budget) fail() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenths -= wholeToken
}

// settle tells that a request was answered, after so many attempts that failed.
func (b *budget) settle(failed int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenths = min(b.most, b.tenths+failed*wholeToken+1)
}

// spent tells whether the server has to be left alone now.
func (b *budget) spent() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tenths < wholeToken
}
