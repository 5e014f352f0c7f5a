// leftovers.go owns what a run of verify may leave on a server: the intentions that
// something may have come of, and the things that answers told of. It must not know how
// they are found or taken away.

package main

import (
	"slices"
	"sync"
)

// leftovers are those of one run. The zero value has none; for concurrent use.
type leftovers struct {
	mu      sync.Mutex
	begun   []begun
	things  []created
	counts  []countedEffects
	unknown []begun // a request got no answer, and no later one told what became of it
}

// countedEffects are those of an intention that a check has found right.
type countedEffects struct {
	begun
	effects int
}

// begun is what is unique about an intention, and whose it was.
type begun struct {
	as     int
	unique string
}

// created is something that an answer to an intention told of.
type created struct {
	begun
	id      string
	removed bool
}

// is tells whether this thing goes by that id for that credential.
func (c created) is(as int, id string) bool { return c.as == as && c.id == id }

// remember keeps an intention, of which something may come.
func (l *leftovers) remember(as int, unique string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := (begun{as, unique}); !slices.Contains(l.begun, b) {
		l.begun = append(l.begun, b)
	}
}

// made keeps what an answer to an intention says was created.
func (l *leftovers) made(as int, unique, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := begun{as, unique}
	if !slices.ContainsFunc(l.things, func(c created) bool { return c.begun == b && c.id == id }) {
		l.things = append(l.things, created{begun: b, id: id})
	}
}

// found keeps what was seen of an intention, unless it is known, be it under another one,
// or as another credential's: both may see one thing.
func (l *leftovers) found(as int, unique, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(begun{as, unique})
	if !slices.ContainsFunc(l.things, func(c created) bool { return c.is(as, id) || c.unique == unique && c.id == id }) {
		l.things = append(l.things, created{begun: begun{as, unique}, id: id})
	}
}

// removed strikes what is no longer there.
func (l *leftovers) removed(as int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.things {
		if l.things[n].is(as, id) {
			l.things[n].removed = true
		}
	}
}

// idsOf counts the ids that the answers to an intention told.
func (l *leftovers) idsOf(as int, unique string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := 0
	for _, thing := range l.things {
		if thing.begun == (begun{as, unique}) {
			ids++
		}
	}
	return ids
}

// snapshot copies the intentions, and the things that are still there: each once, though
// the answers to several intentions told of it.
func (l *leftovers) snapshot() (intentions []begun, there []created) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, thing := range l.things {
		known := slices.ContainsFunc(there, func(c created) bool { return c.is(thing.as, thing.id) })
		if !thing.removed && !known {
			there = append(there, thing)
		}
	}
	return slices.Clone(l.begun), there
}

// doubt keeps that nobody knows what became of a request of this intention.
func (l *leftovers) doubt(as int, unique string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := (begun{as, unique}); !slices.Contains(l.unknown, b) {
		l.unknown = append(l.unknown, b)
	}
}

// sure ends the doubt about an intention.
func (l *leftovers) sure(as int, unique string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(begun{as, unique})
}

// forget is sure, under the lock.
func (l *leftovers) forget(b begun) {
	l.unknown = slices.DeleteFunc(l.unknown, func(other begun) bool { return other == b })
}

// doubtful copies the intentions of which nobody knows what became.
func (l *leftovers) doubtful() []begun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.unknown)
}

// counted keeps how many effects of an intention were right.
func (l *leftovers) counted(as int, unique string, effects int) {
	l.touched(as, unique)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts = append(l.counts, countedEffects{begun{as, unique}, effects})
}

// touched strikes what was counted of an intention: something is done to it again.
func (l *leftovers) touched(as int, unique string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts = slices.DeleteFunc(l.counts, func(c countedEffects) bool { return c.begun == (begun{as, unique}) })
}

// expected copies what was counted and must still be so.
func (l *leftovers) expected() []countedEffects {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.counts)
}
