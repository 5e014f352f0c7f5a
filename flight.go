// flight.go owns requests under their keys and the table of keys in flight: who is
// there, who leads, who is told when a leader is done. One mutex, one entry per key,
// freed on every path. It must not know what a request does, nor the store.

package main

import (
	"bytes"
	"sync"
	"time"
)

// scopedKey is a key within its credential: another credential's equal key is another.
type scopedKey struct {
	credential int64
	key        string
}

// claim is an operation under its key.
type claim struct {
	operation
	scope        scopedKey
	print        fingerprint
	method, path string
}

// matches tells whether an answer with this fingerprint was recorded for this request:
// by the scheme that it was recorded under, which may not be today's.
func (c claim) matches(recorded []byte) bool {
	print := c.print
	if len(recorded) > 0 && recorded[0] != print[0] {
		print = c.fingerprint(recorded[0])
	}
	return bytes.Equal(recorded, print[:])
}

// flight is a claim that is being handled in this process. Its leader first looks
// whether the answer is recorded already (until looked is closed), then works (until
// done is closed). recorded and answer are written before their channel closes.
type flight struct {
	claim
	since    time.Time
	looked   chan struct{}
	recorded *recordedAnswer // found by the look-up; nil when the work is to be done
	done     chan struct{}
	answer   *success // of the finished work; nil when it failed
}

// newFlight begins at since: a key's lifetime counts from there.
func newFlight(c claim, since time.Time) *flight {
	return &flight{claim: c, since: since, looked: make(chan struct{}), done: make(chan struct{})}
}

// flightTable is the keys in flight. Safe for concurrent use.
type flightTable struct {
	mu    sync.Mutex
	byKey map[scopedKey]*flight
}

func newFlightTable() *flightTable {
	return &flightTable{byKey: map[scopedKey]*flight{}}
}

// join enters the table, or finds who is there: then the caller does not lead.
func (t *flightTable) join(c claim, now time.Time) (f *flight, leader bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.byKey[c.scope]; ok {
		return f, false
	}
	f = newFlight(c, now)
	t.byKey[c.scope] = f
	return f, true
}

// leave takes a flight out of the table, where nobody else has its place unless a defect
// put it there, and wakes who waits for it.
func (t *flightTable) leave(f *flight) {
	t.mu.Lock()
	if t.byKey[f.scope] == f {
		delete(t.byKey, f.scope)
	}
	t.mu.Unlock()
	close(f.done)
}

// find looks for the flight of a key, for those who only ask.
func (t *flightTable) find(scope scopedKey) (*flight, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.byKey[scope]
	return f, ok
}

// size is how many keys are in flight.
func (t *flightTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey)
}
