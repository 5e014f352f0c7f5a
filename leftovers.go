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
	mu     sync.Mutex
	begun  []begun
	things []created
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

// found keeps what was seen of an intention, unless it is known, be it under another one.
func (l *leftovers) found(as int, unique, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.things, func(c created) bool { return c.is(as, id) }) {
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
