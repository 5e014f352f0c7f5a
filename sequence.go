// sequence.go owns the answers that the bench gives one after the other: which is next
// under which name, and the memory of it. It must not know how an answer is sent.

package main

import (
	"slices"
	"sync"
)

const (
	// sequenceNames is how many names are remembered; the oldest is forgotten first, and
	// begins anew. With the bounds of a name and of a list below, they hold less than
	// 1.5 MiB.
	sequenceNames     = 1024
	sequenceNameBytes = 200
	// sequenceBytes bounds a list as it is written: more than a hundred answers.
	sequenceBytes = 1000
)

// sequences remembers how far each name has come. Safe for concurrent use.
type sequences struct {
	mu    sync.Mutex
	names map[string]sequencePlace
	order []string // the names, the oldest first
}

// sequencePlace is how many answers of a list a name got.
type sequencePlace struct {
	list  string
	given int
}

func newSequences() *sequences { return &sequences{names: map[string]sequencePlace{}} }

// next takes the name's next place in a list, from 0. Another list under the same name
// begins anew.
func (s *sequences) next(name, list string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, known := s.names[name]
	if !known {
		if len(s.order) >= sequenceNames {
			delete(s.names, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, name)
	}
	if place.list != list {
		place = sequencePlace{list: list}
	}
	position := place.given
	place.given++
	s.names[name] = place
	return position
}

// forget lets a name begin anew.
func (s *sequences) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
	s.order = slices.DeleteFunc(s.order, func(known string) bool { return known == name })
}
