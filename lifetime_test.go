// lifetime_test.go reads the promise's row about a key's lifetime: from its first use,
// to the millisecond, over restarts; and holds the sweep to freeing space only.

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifetime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// live is what happens between the first use at 0 and the look at the end.
		live  func(b *bench, replay func())
		after time.Duration
		alive bool
	}{
		{"at once", func(*bench, func()) {}, 0, true},
		{"its last millisecond", func(*bench, func()) {}, time.Hour - time.Millisecond, true},
		{"its end", func(*bench, func()) {}, time.Hour, false},
		{"long after", func(*bench, func()) {}, 1000 * time.Hour, false},
		{"its end, replayed just before", func(b *bench, replay func()) {
			b.clock.advance(time.Hour - time.Millisecond)
			replay()
			b.clock.advance(-time.Hour + time.Millisecond)
		}, time.Hour, false},
		{"its last millisecond, swept", func(b *bench, _ func()) {
			b.clock.advance(time.Hour - time.Millisecond)
			b.sweep(0)
			b.clock.advance(-time.Hour + time.Millisecond)
		}, time.Hour - time.Millisecond, true},
		{"its end, swept", func(b *bench, _ func()) {
			b.clock.advance(time.Hour)
			b.sweep(1)
			b.clock.advance(-time.Hour)
		}, time.Hour, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onBothRoutes(t, benchOptions{ttl: time.Hour}, func(b *bench, c creation) {
				first := b.keyed(c, "k1")
				b.expectFirst(first, c.status)
				tt.live(b, func() { b.expectReplay(b.keyed(c, "k1"), first) })
				b.clock.advance(tt.after)
				if tt.alive {
					b.expectReplay(b.keyed(c, "k1"), first)
					if got := b.call("POST", c.path, "escritura-a", c.other(b), "Idempotency-Key: k1"); got.verdict() != "422 llave-reutilizada" {
						b.t.Errorf("other request = %s, want 422 llave-reutilizada", got.verdict())
					}
					b.expectMade(c, 1)
					return
				}
				if got := b.call("GET", "/operaciones/k1", "escritura-a", ""); got.status != 404 {
					b.t.Errorf("GET /operaciones/k1 = %s, want 404", got.verdict())
				}
				// The same key is another one now, and lives as long again.
				second := b.call("POST", c.path, "escritura-a", c.other(b), "Idempotency-Key: k1")
				b.expectFirst(second, c.status)
				b.expectMade(c, 2)
				b.clock.advance(time.Hour - time.Millisecond)
				b.expectReplay(b.call("POST", c.path, "escritura-a", c.other(b), "Idempotency-Key: k1"), second)
			})
		})
	}
}

// TestExpiredRequestIsNew: it meets the rules of the present like any other.
func TestExpiredRequestIsNew(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{ttl: time.Hour})
	post := func() response {
		return b.call("POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k1")
	}
	b.expectFirst(post(), 201)
	b.clock.advance(time.Hour)
	if got := post(); got.verdict() != "409 nombre-repetido" || got.member("existente") != "/servicios/1" {
		t.Errorf("same request with an expired key = %s, want 409 nombre-repetido", got.verdict())
	}
}

// TestKeysOutliveTheProcess: they live where services live, with what is left of their
// time.
func TestKeysOutliveTheProcess(t *testing.T) {
	t.Parallel()
	for _, c := range creations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "revisor.db")
			b := newBench(t, benchOptions{path: path, ttl: time.Hour})
			b.register("base", "escritura-a")
			body := b.service("avisos")
			first := b.call("POST", c.path, "escritura-a", body, "Idempotency-Key: k1")
			b.expectFirst(first, c.status)
			b.stop()

			again := newBench(t, benchOptions{path: path, ttl: time.Minute}) // another lifetime is for new keys
			again.clock.advance(time.Hour - time.Millisecond)
			again.expectReplay(again.call("POST", c.path, "escritura-a", body, "Idempotency-Key: k1"), first)
			again.expectMade(c, 1)
			again.clock.advance(time.Millisecond)
			if got := again.call("GET", "/operaciones/k1", "escritura-a", ""); got.status != 404 {
				t.Errorf("GET /operaciones/k1 at its end = %s, want 404", got.verdict())
			}
		})
	}
}

// sweep sweeps once and expects so many keys to go.
func (b *bench) sweep(want int64) {
	b.t.Helper()
	if got, err := b.engine.sweepOnce(context.Background()); err != nil || got != want {
		b.t.Errorf("sweepOnce = %d, %v, want %d", got, err, want)
	}
}

// recordKeys puts keys on file whose time ends at expires, with a body of that size.
func recordKeys(t *testing.T, s *store, prefix string, many int, expires time.Time, size int) {
	t.Helper()
	mustWrite(t, s, func(tx *tx) error {
		for i := range many {
			err := tx.recordKey(-2, fmt.Sprint(prefix, i), recordedAnswer{
				fingerprint: make([]byte, len(fingerprint{})), method: "POST", path: "/servicios",
				answer:    success{status: 201, location: "/servicios/1", body: make([]byte, size)},
				firstUsed: expires.Add(-time.Hour), expires: expires,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// pagesOf counts a database's pages, and those of them that are free.
func pagesOf(t *testing.T, s *store) (all, free int64) {
	t.Helper()
	err := s.reads.queryRow(`SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count`, nil, &all, &free)
	if err != nil {
		t.Fatal(err)
	}
	return all, free
}

// TestSweep deletes what has expired and nothing else, and gives the space back.
func TestSweep(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{ttl: time.Hour})
	now := b.clock.Now()
	before, _ := pagesOf(t, b.store)
	recordKeys(t, b.store, "dead-", 20*sweepBatch+1, now, 2000)
	recordKeys(t, b.store, "long-dead-", 1, now.Add(-24*time.Hour), 2000)
	recordKeys(t, b.store, "dying-", 3, now.Add(time.Millisecond), 10)
	recordKeys(t, b.store, "young-", 3, now.Add(time.Hour), 10)
	first := b.call("POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k1")
	full, _ := pagesOf(t, b.store)

	b.sweep(20*sweepBatch + 2)
	after, free := pagesOf(t, b.store)
	if free != 0 || after > before+5 || full < before+200 {
		t.Errorf("pages before, full, after, free = %d, %d, %d, %d, want that the sweep gave them back", before, full, after, free)
	}
	for key, want := range map[string]int{"dead-0": 404, "long-dead-0": 404, "dying-0": 200, "young-2": 200, "k1": 200} {
		if got := b.call("GET", "/operaciones/"+key, "escritura-a", ""); got.status != want {
			t.Errorf("GET /operaciones/%s = %s, want %d", key, got.verdict(), want)
		}
	}
	b.expectReplay(b.call("POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k1"), first)
	b.sweep(0)
	b.clock.advance(time.Millisecond)
	b.sweep(3)
}

// TestSweepSparesAKeyThatIsUsedAgain: an expired key that was used again goes by its
// new time, whatever its place on file.
func TestSweepSparesAKeyThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{ttl: time.Hour})
	b.expectFirst(b.call("POST", "/servicios", "escritura-a", b.service("uno"), "Idempotency-Key: k1"), 201)
	b.clock.advance(time.Minute)
	b.expectFirst(b.call("POST", "/servicios", "escritura-a", b.service("dos"), "Idempotency-Key: k2"), 201)
	b.clock.advance(time.Hour - time.Minute)
	again := b.call("POST", "/servicios", "escritura-a", b.service("tres"), "Idempotency-Key: k1")
	b.expectFirst(again, 201)
	b.clock.advance(time.Minute)
	b.sweep(1) // k2
	b.expectReplay(b.call("POST", "/servicios", "escritura-a", b.service("tres"), "Idempotency-Key: k1"), again)
}

// TestSweepKeepsUp: a sweep that has fallen behind deletes at least what comes in.
func TestSweepKeepsUp(t *testing.T) {
	t.Parallel()
	const recorded = sweepBatch + 5
	b := newBench(t, benchOptions{})
	used := 0
	for _, tt := range []struct {
		took time.Duration
		keys int // recorded since the last step
		want int64
	}{
		{0, 0, sweepBatch},
		{sweepPatience - 1, recorded, sweepBatch},
		{sweepPatience, 0, sweepBatch}, // those were counted by the step before
		{sweepPatience, recorded, recorded},
		{sweepPatience, 3, sweepBatch},
	} {
		for range tt.keys {
			used++
			name := fmt.Sprint("s-", used)
			b.expectFirst(b.call("POST", "/servicios", "escritura-a", b.service(name), "Idempotency-Key: "+name), 201)
		}
		if got := b.engine.nextBatch(tt.took); got != tt.want {
			t.Errorf("nextBatch(%v) after %d new keys = %d, want %d", tt.took, tt.keys, got, tt.want)
		}
	}
}

// TestSweepSchedule: it comes by itself, soon where keys are short-lived, and says so
// when it did something.
func TestSweepSchedule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		ttl, first time.Duration // when it comes first
	}{
		{"a day", 24 * time.Hour, time.Minute},
		{"ten seconds", 10 * time.Second, 10 * time.Second},
		{"a millisecond", time.Millisecond, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, revisorSettings{keyTTL: tt.ttl}, &stages{list: []stage{{}}})
				recordKeys(t, b.store, "dead-", 2*sweepBatch, time.Now(), 10)
				swept := func() int { return strings.Count(b.log.String(), "msg=sweep") }
				time.Sleep(tt.first - time.Nanosecond) // the bubble's time, not ours
				synctest.Wait()
				if swept() != 0 {
					t.Errorf("swept before %v", tt.first)
				}
				time.Sleep(time.Second) // the bubble's time, not ours
				synctest.Wait()
				if swept() != 1 || !strings.Contains(b.log.String(), fmt.Sprintf(`"expired keys deleted"=%d`, 2*sweepBatch)) {
					t.Errorf("log after %v = %s, want one sweep of %d keys", tt.first, b.log, 2*sweepBatch)
				}
				time.Sleep(5 * tt.first) // the bubble's time, not ours
				synctest.Wait()
				if swept() != 1 {
					t.Errorf("log = %s, want nothing about sweeps that found nothing", b.log)
				}
			})
		})
	}
}
