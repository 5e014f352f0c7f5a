// shared_test.go runs two servers on one database file: whatever races between them,
// there is one effect, and the other gets its answer.

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// twoBenches are two revisors on one file. Their registrations meet at the gate.
func twoBenches(t *testing.T, g *gate, o benchOptions) (one, two *bench) {
	t.Helper()
	o.path = filepath.Join(t.TempDir(), "revisor.db")
	o.resolve = g.resolve
	one = newBench(t, o)
	o.allow = append(o.allow, one.lab)
	return one, newBench(t, o)
}

// TestTwoServersOneKey: both are in the middle of the same work; one effect is made.
func TestTwoServersOneKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// other is whether the second server got another request under the key.
		other bool
		// expired is the age at which an earlier use of the key has just ended; 0 for none.
		expired time.Duration
	}{
		{"same request", false, 0},
		{"same request, under a key that has just expired", false, time.Hour},
		{"other request", true, 0},
		{"other request, under a key that has just expired", true, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			one, two := twoBenches(t, g, benchOptions{ttl: time.Hour})
			url := one.gateURL("/codigo/200")
			if tt.expired > 0 {
				one.expectFirst(one.call("POST", "/servicios", "escritura-a", one.service("antes"), "Idempotency-Key: k1"), 201)
				one.clock.advance(tt.expired)
				two.clock.advance(tt.expired)
			}
			g.close()
			answers := make(chan response, 2)
			for i, b := range []*bench{one, two} {
				name := "avisos"
				if tt.other && i == 1 {
					name = "otro"
				}
				go func() {
					got, err := b.try(context.Background(), "POST", "/servicios", "escritura-a", `{"nombre":"`+name+`","url":"`+url+`"}`, "Idempotency-Key: k1")
					if err != nil {
						t.Error(err)
					}
					answers <- got
				}()
			}
			g.arrived(t)
			g.arrived(t)
			g.open()
			first, second := <-answers, <-answers
			if second.replayed() == "false" {
				first, second = second, first
			}
			one.expectFirst(first, 201)
			if tt.other {
				if second.verdict() != "422 llave-reutilizada" {
					t.Errorf("the other answer = %s, want 422 llave-reutilizada", second.verdict())
				}
			} else {
				one.expectReplay(second, first)
			}
			for _, b := range []*bench{one, two} {
				list := b.call("GET", "/servicios", "escritura-a", "").body
				if n := strings.Count(list, `"nombre":"avisos"`) + strings.Count(list, `"nombre":"otro"`); n != 1 {
					t.Errorf("GET /servicios = %s, want one service", list)
				}
			}
		})
	}
}

// TestTwoServersOneKeyManyTimes: without a gate, as fast as they can.
func TestTwoServersOneKeyManyTimes(t *testing.T) {
	t.Parallel()
	g := newGate()
	one, two := twoBenches(t, g, benchOptions{})
	one.register("base", "escritura-a")
	for round := range 15 {
		for _, path := range []string{"/servicios", "/servicios/1/revisiones"} {
			body := one.service(fmt.Sprint("s", round))
			key := fmt.Sprint("Idempotency-Key: ", path, round)
			one.clock.advance(rateWindow)
			two.clock.advance(rateWindow)
			answers := one.atOnce(8, func(i int) (response, error) {
				return []*bench{one, two}[i%2].try(context.Background(), "POST", path, "escritura-a", body, key, "Prefer: wait=30")
			})
			counts := map[string]int{}
			bodies := map[string]bool{}
			for _, got := range answers {
				counts[fmt.Sprint(got.status < 300, " ", got.replayed())]++
				bodies[got.body] = true
			}
			if counts["true false"] != 1 || counts["true true"] != 7 || len(bodies) != 1 {
				t.Errorf("%s: answers = %v, %d bodies, want one first, 7 replays, all the same", key, counts, len(bodies))
			}
		}
	}
	if n := strings.Count(two.call("GET", "/servicios", "escritura-a", "").body, `"id":`); n != 16 {
		t.Errorf("%d services, want 16", n)
	}
	if got := two.call("GET", "/servicios/1/informe", "escritura-a", ""); got.member("revisiones") != 15.0 {
		t.Errorf("GET informe = %s, want 15 revisions", got.body)
	}
}

// TestTwoServersUnderLoad: many writers and readers, and nobody hears of a lock.
func TestTwoServersUnderLoad(t *testing.T) {
	t.Parallel()
	one, path := testStore(t)
	two := mustOpenStore(t, path)
	const writers, each = 16, 40
	var working sync.WaitGroup
	for i := range writers {
		s := []*store{one, two}[i%2]
		working.Go(func() {
			for n := range each {
				name := fmt.Sprintf("s%d-%d", i, n)
				if err := s.write(context.Background(), inserting(name, fine)); err != nil {
					t.Errorf("write %s = %v, want nil", name, err)
				}
				if _, err := s.recordedKey(-2, name, time.Unix(0, 0)); err != errNotFound {
					t.Errorf("recordedKey = %v, want %v", err, errNotFound)
				}
			}
		})
	}
	working.Wait()
	for _, s := range []*store{one, two} {
		if got := idsByName(t, s); len(got) != writers*each {
			t.Errorf("%d services, want %d", len(got), writers*each)
		}
	}
}

// TestTwoServersShareWhatTheyKnow: what one was told, the other obeys within a second.
func TestTwoServersShareWhatTheyKnow(t *testing.T) {
	t.Parallel()
	one, two := twoBenches(t, newGate(), benchOptions{})
	first := one.call("POST", "/servicios", "escritura-a", one.service("avisos"), "Idempotency-Key: k1")
	one.expectFirst(first, 201)
	two.expectReplay(two.call("POST", "/servicios", "escritura-a", one.service("avisos"), "Idempotency-Key: k1"), first)
	if got := two.call("GET", "/operaciones/k1", "escritura-a", ""); got.member("estado") != "terminada" {
		t.Errorf("GET /operaciones/k1 = %s, want estado terminada", got.body)
	}
	one.call("PUT", "/mantenimiento", "admin", `{"activo":true}`)
	two.clock.advance(time.Second)
	if got := two.call("GET", "/servicios", "escritura-a", ""); got.verdict() != "503 en-mantenimiento" {
		t.Errorf("GET /servicios = %s, want 503 en-mantenimiento", got.verdict())
	}
}
