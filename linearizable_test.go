//go:build unix

// linearizable_test.go owns the recording of keyed registrations that are made at the
// same time, crashes included. What is recorded has to be explained by the model of
// keymodel_test.go, and what a server that is broken on purpose says must not be.

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// historian makes the calls and writes the history.
type historian struct {
	history
	bench    *bench
	begin    time.Time
	tokens   map[string][]string // of each team
	services [bodies]string      // the bodies

	mu    sync.Mutex
	alive *atomic.Int64 // when the process is gone; for ever, while it lives
	up    *sync.Cond
	down  bool
}

// newHistorian records what happens at a bench that lives.
func newHistorian(b *bench, tokens map[string][]string, destination string) *historian {
	h := &historian{bench: b, begin: time.Now(), tokens: tokens}
	h.up = sync.NewCond(&h.mu)
	h.lives()
	for i, name := range nameOfBody {
		h.services[i] = fmt.Sprintf(`{"nombre":%q,"url":"http://%s/","limite_ms":%d}`, name, destination, 1000+i)
	}
	return h
}

func (h *historian) now() int64 { return int64(time.Since(h.begin)) }

// lives lets the clients go on: a process is there. dies holds them back until the next
// one: so that a kill opens few calls, those that are under way.
func (h *historian) lives() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive, h.down = new(atomic.Int64), false
	h.alive.Store(math.MaxInt64)
	h.up.Broadcast()
}

func (h *historian) dies(kill func() kill) {
	h.mu.Lock()
	h.down = true
	h.mu.Unlock()
	kill()
	h.alive.Store(h.now())
}

// await waits until there is a process.
func (h *historian) await() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.down {
		h.up.Wait()
	}
}

// latest tells when the latest process is gone.
func (h *historian) latest() *atomic.Int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alive
}

// call makes one call and records it, answered or not.
func (h *historian) call(ctx context.Context, c keyedCall, headers ...string) keyedAnswer {
	key := fmt.Sprint("k", c.slot%keysPerCredential)
	token := h.tokens[c.team][c.slot/keysPerCredential]
	h.await()
	o := keyedOperation{keyedCall: c, begun: h.now()}
	var got response
	var err error
	if c.body == onlyAsks {
		got, err = h.bench.try(ctx, "GET", "/operaciones/"+key, token, "")
	} else {
		got, err = h.bench.try(ctx, "POST", "/servicios", token, h.services[c.body], append(headers, "Idempotency-Key: "+key)...)
	}
	o.ended, o.keyedAnswer = h.now(), readKeyedAnswer(got)
	if err != nil {
		o.ended, o.keyedAnswer = math.MaxInt64, keyedAnswer{kind: toldNothing}
	}
	o.by = h.latest() // which is not before the one that it came to
	h.add(o)
	return o.keyedAnswer
}

// readKeyedAnswer tells which of the model's answers it is. What is none of them is kept
// as it is, and the model will not have it.
func readKeyedAnswer(got response) keyedAnswer {
	a := keyedAnswer{kind: got.verdict()}
	path := ""
	switch {
	case got.status == 201 && got.replayed() == "false":
		a, path = keyedAnswer{kind: toldFirst, text: replayable(got)}, got.header.Get("Location")
	case got.status == 201 && got.replayed() == "true":
		a, path = keyedAnswer{kind: toldReplayed, text: replayable(got)}, got.header.Get("Location")
	case a.kind == toldNameInUse:
		path, _ = got.member("existente").(string)
	case got.status == 200:
		state, _ := got.member("estado").(string)
		a.kind += " " + state
		path, _ = got.member("recurso").(string)
	}
	fmt.Sscanf(path, "/servicios/%d", &a.id)
	return a
}

// waves are the teams in the groups in which they play at the same time: so many that
// their writes meet, and so few that a kill does not open calls of all of them. (What is
// open can have happened at any time, and that is what makes a verdict long.)
func (h *historian) waves() iter.Seq[[]string] {
	return slices.Chunk(slices.Sorted(maps.Keys(h.tokens)), 4)
}

// play lets the clients of some teams make random calls, and then asks each key once more.
func (h *historian) play(seed uint64, teams []string) {
	var playing sync.WaitGroup
	for _, team := range teams {
		playing.Go(func() { h.playTeam(seed, team) })
	}
	playing.Wait()
}

func (h *historian) playTeam(seed uint64, team string) {
	const clients, calls = 3, 4
	var playing sync.WaitGroup
	for i := range clients {
		chance := rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed, team, i))))
		playing.Go(func() {
			for range calls {
				c := randomCall(chance, team)
				for h.randomly(chance, c) == toldNothing && chance.IntN(4) > 0 {
				}
			}
		})
	}
	playing.Wait()
	for slot := range slots {
		for h.call(context.Background(), keyedCall{team: team, slot: slot, body: onlyAsks}).kind == toldNothing {
		}
	}
}

// randomCall mostly registers, and often under the same key as others: so that calls meet.
func randomCall(chance *rand.Rand, team string) keyedCall {
	c := keyedCall{team: team, slot: min(chance.IntN(slots+2), slots-1), body: chance.IntN(bodies)}
	if chance.IntN(8) == 0 {
		c.body = onlyAsks
	}
	return c
}

// randomly makes a call as one client or another would: ready to wait for an original,
// or in a hurry, so that the answer comes too late, or the request does.
func (h *historian) randomly(chance *rand.Rand, c keyedCall) (kind string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var headers []string
	switch chance.IntN(8) {
	case 0:
		headers = []string{"Prefer: wait=1"}
	case 1:
		time.AfterFunc(upTo(chance, 4*time.Millisecond), cancel)
	}
	return h.call(ctx, c, headers...).kind
}

// expectVerdict holds a history to being explained, or, when the server was broken on
// purpose, to not being.
func (h *historian) expectVerdict(t *testing.T, broken defect) {
	t.Helper()
	stories := h.rejected(t)
	t.Logf("%d calls of %d teams: first %d, replayed %d, reused %d, in flight %d, name in use %d, open %d; rejected %d", len(h.operations), len(h.tokens),
		h.count(toldFirst), h.count(toldReplayed), h.count(toldReused), h.count(toldInFlight), h.count(toldNameInUse), h.count(toldNothing), len(stories))
	switch {
	case broken != "" && len(stories) == 0:
		t.Errorf("every history of %s is accepted, want some rejected", broken)
	case broken != "":
		t.Logf("one of the rejected: %s", stories[0])
	default:
		for _, story := range stories {
			t.Errorf("no order explains %s", story)
		}
	}
	for _, kind := range []string{toldFirst, toldReplayed, toldReused, toldInFlight, toldNameInUse, toldNothing, toldDone} {
		if broken == "" && h.count(kind) == 0 {
			t.Errorf("nobody was told %q: the run has not looked there", kind)
		}
	}
}

// newTeams makes the credentials of n teams.
func newTeams(t *testing.T, db string, n int) map[string][]string {
	t.Helper()
	teams := map[string][]string{}
	for i := range n {
		team := fmt.Sprint("t", i)
		teams[team] = newTokens(t, db, team, credentialsPerTeam)
	}
	return teams
}

// TestLinearizable: many at once, each answer as if they had come one at a time.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		broken defect
		teams  int // enough for some of them to meet the defect
	}{{"", 30}, {lateReserve, 30}, {ignoreKey, 8}, {noFingerprint, 8}, {noScope, 8}}
	for _, tt := range tests {
		t.Run(cmp.Or(string(tt.broken), "sound"), func(t *testing.T) {
			t.Parallel()
			seed := drawSeed(t)
			db := filepath.Join(t.TempDir(), "revisor.db")
			teams := newTeams(t, db, tt.teams)
			b := newBench(t, benchOptions{path: db, saveDelay: 5 * time.Millisecond, broken: defects{tt.broken: true}})
			h := newHistorian(b, teams, b.lab)
			for teams := range h.waves() {
				h.play(seed, teams)
			}
			h.expectVerdict(t, tt.broken)
		})
	}
}

// TestLinearizableAcrossCrashes: likewise, while the process is killed and started again.
func TestLinearizableAcrossCrashes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		broken defect
		teams  int
	}{{"", 30}, {volatileKeys, 12}, {splitTransaction, 40}}
	for _, tt := range tests {
		t.Run(cmp.Or(string(tt.broken), "sound"), func(t *testing.T) {
			t.Parallel()
			seed := drawSeed(t)
			db, address := filepath.Join(t.TempDir(), "revisor.db"), reserveAddress(t)
			args := []string{"--db", db, "--listen", address, "--allow", "127.0.0.1", "--save-delay", "2ms"}
			if tt.broken != "" {
				args = append(args, "--break", string(tt.broken))
			}
			teams := newTeams(t, db, tt.teams)
			h := newHistorian(&bench{t: t, url: "http://" + address}, teams, "127.0.0.1:9")
			kills := h.playAcrossCrashes(seed, newVictim(t, args...), db)
			t.Logf("%d kills", kills)
			h.expectVerdict(t, tt.broken)
		})
	}
}

// playAcrossCrashes kills the process twice while each wave plays: at any moment, or,
// every other time, right after a commit.
func (h *historian) playAcrossCrashes(seed uint64, v *victim, db string) (kills int) {
	chance := rand.New(rand.NewPCG(seed, 0))
	v.start()
	for teams := range h.waves() {
		var playing sync.WaitGroup
		playing.Go(func() { h.play(seed, teams) })
		for range 2 {
			<-time.After(upTo(chance, 30*time.Millisecond))
			if chance.IntN(2) == 0 {
				nextCommit(db, 20*time.Millisecond)
			}
			h.dies(v.kill)
			kills++
			v.start()
			h.lives()
		}
		playing.Wait()
	}
	return kills
}
