// keymodel_test.go owns the model of keyed registration, histories of what clients were
// told, and the question whether the model could have given the same answers one at a
// time: linearizability, decided by porcupine. It must not know where histories come from.
//
// A call that got no answer stays open: it may have had its effect at any time after it
// was made, or never. Leaving it out would make a later replay of its effect look like an
// answer out of nowhere.

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// A team is one part of the history, as names are a team's: two credentials, each
	// with the same two keys, and bodies of which two name the same service.
	credentialsPerTeam = 2
	keysPerCredential  = 2
	slots              = credentialsPerTeam * keysPerCredential
	bodies             = 4
)

// nameOfBody is the name that a body registers.
var nameOfBody = [bodies]string{"uno", "uno", "dos", "tres"}

// keyedCall is what a client asks: to register a body under a key, or what became of a
// key.
type keyedCall struct {
	team string
	slot int // which credential's which key
	body int // index of the body; onlyAsks when it is none
	// rival and other tell that a registration under the same key may be at work
	// meanwhile, of the same body and of another one: only then may the server say so.
	// They are filled in when the history is whole.
	rival, other bool
}

// onlyAsks is the body of a call that only asks.
const onlyAsks = -1

// The answers that the model knows.
const (
	toldNothing   = "no answer"
	toldFirst     = "201, not replayed"
	toldReplayed  = "201, replayed"
	toldReused    = "422 llave-reutilizada"
	toldInFlight  = "409 llave-en-curso"
	toldNameInUse = "409 nombre-repetido"
	toldUnknown   = "404 operacion-inexistente"
	toldRunning   = "200 en-curso"
	toldDone      = "200 terminada"
)

// keyedAnswer is what it is told. id is that of the service told about, text all that a
// replay repeats of a registration's answer.
type keyedAnswer struct {
	kind string
	id   int64
	text string
}

// keyedUse is what the model knows of a key: the body that was registered under it, and
// its answer as far as anybody was told.
type keyedUse struct {
	used bool
	body int
	id   int64
	text string
}

// keyedState is a team's keys. Its names are taken by what its keys have registered.
type keyedState [slots]keyedUse

// holder finds the key under which a name was registered, slots when there is none.
func (s keyedState) holder(name string) int {
	for i, use := range s {
		if use.used && nameOfBody[use.body] == name {
			return i
		}
	}
	return slots
}

// told is the state in which somebody heard that slot's service is id: it must be known
// as that, or not yet.
func (s keyedState) told(slot int, id int64, text string) (bool, keyedState) {
	use := &s[slot]
	for i, other := range s {
		if i != slot && other.used && other.id == id {
			return false, s
		}
	}
	if use.id != 0 && use.id != id || use.text != "" && text != "" && use.text != text {
		return false, s
	}
	use.id = id
	if text != "" {
		use.text = text
	}
	return true, s
}

// register is the state after a body was registered.
func (s keyedState) register(c keyedCall) keyedState {
	s[c.slot] = keyedUse{used: true, body: c.body}
	return s
}

// step tells whether the model can answer so, and its state afterwards.
func (s keyedState) step(c keyedCall, a keyedAnswer) (bool, keyedState) {
	use := s[c.slot]
	if c.body == onlyAsks {
		switch a.kind {
		case toldNothing:
			return true, s
		case toldUnknown:
			return !use.used, s
		case toldRunning:
			return c.rival || c.other, s
		case toldDone:
			if use.used {
				return s.told(c.slot, a.id, "")
			}
		}
		return false, s
	}
	holder := s.holder(nameOfBody[c.body])
	free := !use.used && holder == slots
	switch a.kind {
	case toldNothing: // done if it could be; an open call may also come after everything else
		if free {
			return true, s.register(c)
		}
		return true, s
	case toldFirst:
		if free {
			return s.register(c).told(c.slot, a.id, a.text)
		}
	case toldReplayed:
		if use.used && use.body == c.body {
			return s.told(c.slot, a.id, a.text)
		}
	case toldReused:
		return c.other || use.used && use.body != c.body, s
	case toldInFlight:
		return c.rival, s
	case toldNameInUse:
		if !use.used && holder != slots {
			return s.told(holder, a.id, "")
		}
	}
	return false, s
}

// keyedModel is the sequential specification of keyed registration, a team apart from
// the others.
var keyedModel = porcupine.Model{
	Init: func() any { return keyedState{} },
	Step: func(state, call, answer any) (bool, any) {
		return state.(keyedState).step(call.(keyedCall), answer.(keyedAnswer))
	},
}

// keyedOperation is a call with its times, in nanoseconds since the history began.
type keyedOperation struct {
	keyedCall
	keyedAnswer
	begun int64
	ended int64         // open for ever when there was no answer
	by    *atomic.Int64 // when the last process that may have worked on it was gone
}

// over is when its work was over for certain: with its answer, or with its process.
func (o keyedOperation) over() int64 { return min(o.ended, o.by.Load()) }

func (o keyedOperation) String() string {
	what := "what became of it?"
	if o.body != onlyAsks {
		what = fmt.Sprintf("register body %d (%s)", o.body, nameOfBody[o.body])
	}
	end := "open"
	if o.ended != math.MaxInt64 {
		end = time.Duration(o.ended).String()
	}
	return fmt.Sprintf("%v to %s: credential %d, key %d: %s: %s %d", time.Duration(o.begun), end,
		o.slot/keysPerCredential, o.slot%keysPerCredential, what, o.kind, o.id)
}

// history is what happened, in the order of the answers.
type history struct {
	adding     sync.Mutex
	operations []keyedOperation
}

func (h *history) add(o keyedOperation) {
	h.adding.Lock()
	defer h.adding.Unlock()
	h.operations = append(h.operations, o)
}

// teams splits a history. A call may be told of another at work when both are under way
// at some time.
func (h *history) teams() map[string][]keyedOperation {
	teams := map[string][]keyedOperation{}
	for _, o := range h.operations {
		teams[o.team] = append(teams[o.team], o)
	}
	for _, operations := range teams {
		for i := range operations {
			for j, p := range operations {
				o := &operations[i]
				if i == j || p.body == onlyAsks || p.slot != o.slot || p.begun > o.ended || p.over() < o.begun {
					continue
				}
				o.rival = o.rival || p.body == o.body || o.body == onlyAsks
				o.other = o.other || p.body != o.body
			}
		}
	}
	return teams
}

// rejected lists the teams whose history no order explains, each told call by call.
func (h *history) rejected(t *testing.T) (stories []string) {
	t.Helper()
	for team, operations := range h.teams() {
		list := make([]porcupine.Operation, len(operations))
		for i, o := range operations {
			list[i] = porcupine.Operation{Input: o.keyedCall, Output: o.keyedAnswer, Call: o.begun, Return: o.ended}
		}
		switch porcupine.CheckOperationsTimeout(keyedModel, list, 20*time.Second) {
		case porcupine.Unknown:
			t.Errorf("team %s: no verdict on %d calls in time", team, len(list))
		case porcupine.Illegal:
			slices.SortFunc(operations, func(a, b keyedOperation) int { return int(a.begun - b.begun) })
			var story strings.Builder
			fmt.Fprintf(&story, "team %s:", team)
			for _, o := range operations {
				fmt.Fprintf(&story, "\n    %v", o)
			}
			stories = append(stories, story.String())
		}
	}
	return stories
}

func (h *history) count(kind string) (n int) {
	for _, o := range h.operations {
		if o.kind == kind {
			n++
		}
	}
	return n
}

// TestLinearizabilityIsDecided: the checker tells histories that cannot be from those
// that can.
func TestLinearizabilityIsDecided(t *testing.T) {
	t.Parallel()
	never := new(atomic.Int64)
	never.Store(math.MaxInt64)
	// at is a call from begun to ended, by the first team's only slot unless told otherwise.
	at := func(begun, ended int64, body int, kind string, id int64) keyedOperation {
		o := keyedOperation{keyedCall: keyedCall{team: "t", body: body}, keyedAnswer: keyedAnswer{kind: kind, id: id}, begun: begun, ended: ended, by: never}
		if kind == toldFirst || kind == toldReplayed {
			o.text = fmt.Sprint("answer ", id)
		}
		return o
	}
	open := func(begun int64, body int) keyedOperation { return at(begun, math.MaxInt64, body, toldNothing, 0) }
	under := func(slot int, o keyedOperation) keyedOperation {
		o.slot = slot
		return o
	}
	told := func(text string, o keyedOperation) keyedOperation {
		o.text = text
		return o
	}
	dead := new(atomic.Int64)
	dead.Store(25)
	diedAt25 := func(o keyedOperation) keyedOperation {
		o.by = dead
		return o
	}
	tests := []struct {
		name    string
		history []keyedOperation
		want    bool
	}{
		{"first, then replayed", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 0, toldReplayed, 7)}, true},
		{"done twice", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 0, toldFirst, 8)}, false},
		{"done twice, at the same time", []keyedOperation{at(10, 40, 0, toldFirst, 7), at(20, 30, 0, toldFirst, 8)}, false},
		{"replay of nothing", []keyedOperation{at(10, 20, 0, toldReplayed, 7)}, false},
		{"replay of something else", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 0, toldReplayed, 8)}, false},
		{"replay not to the byte", []keyedOperation{at(10, 20, 0, toldFirst, 7), told("answer", at(30, 40, 0, toldReplayed, 7))}, false},
		{"replay of another body", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 1, toldReplayed, 7)}, false},
		{"reused", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 1, toldReused, 0)}, true},
		{"refused as reused, with the same body", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 0, toldReused, 0)}, false},
		{"refused as reused, of nothing", []keyedOperation{at(10, 20, 0, toldReused, 0)}, false},
		{"refused as reused, another at work", []keyedOperation{at(10, 40, 0, toldFirst, 7), at(20, 30, 1, toldReused, 0)}, true},
		{"in flight", []keyedOperation{at(10, 40, 0, toldFirst, 7), at(20, 30, 0, toldInFlight, 0)}, true},
		{"in flight, when nothing is", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 0, toldInFlight, 0)}, false},
		{"in flight, under another key", []keyedOperation{under(1, at(10, 40, 2, toldFirst, 7)), at(20, 30, 0, toldInFlight, 0)}, false},
		{"in flight after its process died", []keyedOperation{diedAt25(open(10, 0)), at(30, 40, 0, toldInFlight, 0)}, false},
		{"name in use", []keyedOperation{at(10, 20, 0, toldFirst, 7), under(1, at(30, 40, 1, toldNameInUse, 7))}, true},
		{"name in use, but free", []keyedOperation{at(10, 20, 0, toldFirst, 7), under(1, at(30, 40, 2, toldNameInUse, 7))}, false},
		{"name in use, by itself", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, 0, toldNameInUse, 7)}, false},
		{"name in use, by a stranger", []keyedOperation{at(10, 20, 0, toldFirst, 7), under(1, at(30, 40, 1, toldNameInUse, 8))}, false},
		{"one name twice", []keyedOperation{at(10, 20, 0, toldFirst, 7), under(1, at(30, 40, 1, toldFirst, 8))}, false},
		{"one id twice", []keyedOperation{at(10, 20, 0, toldFirst, 7), under(1, at(30, 40, 2, toldFirst, 7))}, false},
		{"open, and done", []keyedOperation{open(10, 0), at(30, 40, 0, toldReplayed, 7), under(1, at(50, 60, 1, toldNameInUse, 7))}, true},
		{"open, and not done", []keyedOperation{open(10, 0), at(30, 40, 0, toldFirst, 7)}, true},
		{"open, and done late", []keyedOperation{open(10, 0), at(30, 40, onlyAsks, toldUnknown, 0), at(50, 60, 0, toldReplayed, 7)}, true},
		{"open, done, and not any more", []keyedOperation{open(10, 0), at(30, 40, 0, toldReplayed, 7), at(50, 60, onlyAsks, toldUnknown, 0)}, false},
		{"open, done, and its answer changes", []keyedOperation{open(10, 0), at(30, 40, 0, toldReplayed, 7), at(50, 60, 0, toldReplayed, 8)}, false},
		{"open, done, and its name is nobody's", []keyedOperation{open(10, 0), at(30, 40, 0, toldNameInUse, 7)}, false},
		{"acknowledged and lost", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, onlyAsks, toldUnknown, 0)}, false},
		{"asked and found", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, onlyAsks, toldDone, 7)}, true},
		{"asked and found another", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, onlyAsks, toldDone, 8)}, false},
		{"asked while it ran", []keyedOperation{at(10, 40, 0, toldFirst, 7), at(20, 30, onlyAsks, toldRunning, 0)}, true},
		{"asked, and runs for ever", []keyedOperation{at(10, 20, 0, toldFirst, 7), at(30, 40, onlyAsks, toldRunning, 0)}, false},
		{"an answer that the model has not", []keyedOperation{at(10, 20, 0, "500 error-interno", 0)}, false},
	}
	for _, tt := range tests {
		h := history{operations: tt.history}
		if got := len(h.rejected(t)) == 0; got != tt.want {
			t.Errorf("%s: accepted = %v, want %v", tt.name, got, tt.want)
		}
	}
}
