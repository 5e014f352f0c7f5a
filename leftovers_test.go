// leftovers_test.go tells what is left of a run: what was struck is not, and what two
// intentions were told of is there once.

package main

import (
	"slices"
	"testing"
)

func TestLeftovers(t *testing.T) {
	t.Parallel()
	left := &leftovers{}
	left.remember(0, "u")
	left.remember(0, "v")
	left.remember(0, "u")
	left.remember(1, "u")
	left.made(0, "u", "1")
	left.made(0, "u", "1") // a replay
	left.made(0, "v", "1") // the same answer to another intention
	left.made(0, "u", "2")
	left.made(1, "u", "1") // another's, whose ids may be the same
	left.found(0, "v", "2")
	left.found(0, "v", "3")
	left.found(1, "v", "3") // who sees the same list
	for _, tt := range []struct {
		as     int
		unique string
		want   int
	}{{0, "u", 2}, {0, "v", 2}, {1, "u", 1}, {1, "v", 0}} {
		if got := left.idsOf(tt.as, tt.unique); got != tt.want {
			t.Errorf("idsOf(%d, %s) = %d, want %d", tt.as, tt.unique, got, tt.want)
		}
	}
	intentions, things := left.snapshot()
	if want := []begun{{0, "u"}, {0, "v"}, {1, "u"}}; !slices.Equal(intentions, want) {
		t.Errorf("snapshot() = %v, want %v", intentions, want)
	}
	want := []created{{begun: begun{0, "u"}, id: "1"}, {begun: begun{0, "u"}, id: "2"}, {begun: begun{1, "u"}, id: "1"}, {begun: begun{0, "v"}, id: "3"}}
	if !slices.Equal(things, want) {
		t.Errorf("snapshot() = %v, want %v", things, want)
	}
	left.removed(0, "1")
	left.found(0, "u", "1") // a list may still show it
	if _, things := left.snapshot(); !slices.Equal(things, want[1:]) {
		t.Errorf("snapshot() after a removal = %v, want %v", things, want[1:])
	}
}

func TestLeftoversDoubt(t *testing.T) {
	t.Parallel()
	left := &leftovers{}
	left.doubt(0, "u")
	left.doubt(0, "u")
	left.doubt(1, "u")
	left.doubt(0, "v")
	left.sure(0, "u")
	left.found(0, "v", "1")
	if got, want := left.doubtful(), []begun{{1, "u"}}; !slices.Equal(got, want) {
		t.Errorf("doubtful() = %v, want %v", got, want)
	}
	left.counted(0, "u", 1)
	left.counted(0, "u", 2)
	left.counted(1, "u", 1)
	left.touched(1, "u")
	if got, want := left.expected(), []countedEffects{{begun{0, "u"}, 2}}; !slices.Equal(got, want) {
		t.Errorf("expected() = %v, want %v", got, want)
	}
}
