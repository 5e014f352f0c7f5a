// brokenkey_test.go owns what the defects of the key that public reports describe do on
// the wire, each beside the same requests to a server that is whole.

package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// brokenAndWhole runs a test on both POSTs of a server with a defect, and of one without.
func brokenAndWhole(t *testing.T, d defect, test func(b *bench, c creation, broken bool)) {
	for _, broken := range []bool{true, false} {
		name, o := "whole", benchOptions{}
		if broken {
			name, o.broken = string(d), defects{d: true}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothRoutes(t, o, func(b *bench, c creation) { test(b, c, broken) })
		})
	}
}

// brief is an answer in a line: what it says of itself, and whether it is a replay.
func (r response) brief() string {
	if r.replayed() == "" {
		return r.verdict()
	}
	return r.verdict() + " " + r.replayed()
}

// expectBrief holds an answer to its line.
func (b *bench) expectBrief(what string, got response, want string) {
	b.t.Helper()
	if got.brief() != want {
		b.t.Errorf("%s = %q, want %q\n%s", what, got.brief(), want, got.body)
	}
}

// hangUpAtWork sends a keyed creation on a connection of its own, closes that while the
// original works, and returns when the server has noticed and the work is done.
func (b *bench) hangUpAtWork(c creation, key string) {
	b.t.Helper()
	noticed, done := make(chan struct{}), make(chan struct{})
	served := *b
	served.url = "http://" + serveHandler(b.t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		context.AfterFunc(r.Context(), func() { close(noticed) })
		b.routes.ServeHTTP(w, r)
	}))
	release := holdWriter(b.t, b.store)
	ctx, hangUp := context.WithCancel(b.t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := served.try(ctx, "POST", c.path, "escritura-a", c.body(b), "Idempotency-Key: "+key)
		gone <- err
	}()
	b.expectInFlight(key)
	hangUp()
	if err := <-gone; err == nil {
		b.t.Fatal("the client got an answer, want that it hung up")
	}
	<-noticed
	release()
	<-done
}

// TestCancelOnHangup: the effect of an original whose client hung up stands, and its
// answer is on nobody's record: the retry meets the effect, or makes a second one.
func TestCancelOnHangup(t *testing.T) {
	t.Parallel()
	brokenAndWhole(t, cancelOnHangup, func(b *bench, c creation, broken bool) {
		b.hangUpAtWork(c, "k1")
		b.expectMade(c, 1)
		retry, effects := b.keyed(c, "k1"), 1
		switch {
		case !broken:
			b.expectBrief("retry", retry, fmt.Sprint(c.status, " true"))
		case c.path == "/servicios":
			b.expectBrief("retry", retry, "409 nombre-repetido")
		default:
			b.expectBrief("retry", retry, fmt.Sprint(c.status, " false"))
			effects = 2
		}
		b.expectMade(c, effects)
	})
}

// TestCancelOnHangupWhoStays: the answer of a client that stays is on record.
func TestCancelOnHangupWhoStays(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{broken: defects{cancelOnHangup: true}}, func(b *bench, c creation) {
		first := b.keyed(c, "k1")
		b.expectFirst(first, c.status)
		b.expectReplay(b.keyed(c, "k1"), first)
		b.expectMade(c, 1)
	})
}

// TestLateFingerprint: another body is told that the original works, as if it were the
// same request, and not until that is done that the key is another's.
func TestLateFingerprint(t *testing.T) {
	t.Parallel()
	brokenAndWhole(t, lateFingerprint, func(b *bench, c creation, broken bool) {
		other := func() response {
			return b.call("POST", c.path, "escritura-a", c.other(b), "Idempotency-Key: k1")
		}
		meanwhile := "422 llave-reutilizada"
		if broken {
			meanwhile = "409 llave-en-curso"
		}
		finish := b.inFlight(c, "k1")
		b.expectBrief("another body meanwhile", other(), meanwhile)
		b.expectBrief("the same body meanwhile", b.keyed(c, "k1"), "409 llave-en-curso")
		first := finish()
		b.expectFirst(first, c.status)
		b.expectBrief("another body afterwards", other(), "422 llave-reutilizada")
		b.expectReplay(b.keyed(c, "k1"), first)
		b.expectMade(c, 1)
	})
}

// TestLateFingerprintWaits: with a preference the other body waits for an original that
// is not its own, and is never given its answer.
func TestLateFingerprintWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ defect, want string }{
		{string(lateFingerprint), "422 llave-reutilizada [wait=5] 3s"},
		{"", "422 llave-reutilizada [] 0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, revisorSettings{broken: defects{defect(tt.defect): true}}, &stages{list: []stage{{takes: 3 * time.Second}}})
			original := b.background(t.Context())
			if got := b.registerNamed(t.Context(), "otro", "Prefer: wait=5"); got.line() != tt.want {
				t.Errorf("%q: another body = %s, want %s", tt.defect, got.line(), tt.want)
			}
			if got := (<-original).line(); got != "201 false [] 3s" {
				t.Errorf("%q: original = %s, want 201 false [] 3s", tt.defect, got)
			}
		})
	}
}

// TestStuckAfterConflict: a key that a duplicate met in flight is in flight until the
// server starts again; others are not.
func TestStuckAfterConflict(t *testing.T) {
	t.Parallel()
	brokenAndWhole(t, stuckOnConflict, func(b *bench, c creation, broken bool) {
		afterwards := fmt.Sprint(c.status, " true")
		if broken {
			afterwards = "409 llave-en-curso"
		}
		finish := b.inFlight(c, "k1")
		for range 2 {
			b.expectBrief("a duplicate meanwhile", b.keyed(c, "k1"), "409 llave-en-curso")
		}
		b.expectFirst(finish(), c.status)
		for range 2 {
			b.expectBrief("a duplicate afterwards", b.keyed(c, "k1"), afterwards)
		}
		if broken {
			b.expectBrief("one that waits", b.keyed(c, "k1", "Prefer: wait=1"), afterwards)
		}
		b.expectMade(c, 1)
		alone := fmt.Sprintf(`{"nombre":"otro","url":"http://%s/"}`, b.lab)
		for _, replayed := range []string{"false", "true"} {
			got := b.call("POST", "/servicios", "escritura-a", alone, "Idempotency-Key: k2")
			b.expectBrief("a key that nobody met", got, "201 "+replayed)
		}
	})
}

// TestStuckUntilRestart: what is stuck is not on file.
func TestStuckUntilRestart(t *testing.T) {
	t.Parallel()
	o := benchOptions{broken: defects{stuckOnConflict: true}, path: filepath.Join(t.TempDir(), "revisor.db")}
	b := newBench(t, o)
	c, body := creations[0], b.service("avisos")
	finish := b.inFlight(c, "k1")
	b.keyed(c, "k1")
	b.expectFirst(finish(), c.status)
	b.expectBrief("afterwards", b.keyed(c, "k1"), "409 llave-en-curso")
	b.stop()
	again := newBench(t, o)
	again.expectBrief("after a restart", again.call("POST", c.path, "escritura-a", body, "Idempotency-Key: k1"), "201 true")
}

// TestBareReplay: of a replay the Location alone is missing.
func TestBareReplay(t *testing.T) {
	t.Parallel()
	brokenAndWhole(t, bareReplay, func(b *bench, c creation, broken bool) {
		first := b.keyed(c, "k1")
		b.expectFirst(first, c.status)
		if first.header.Get("Location") == "" {
			b.t.Errorf("%s has no Location", c.path)
		}
		for _, from := range []string{"memory", "file"} {
			if from == "file" {
				b.forget()
			}
			replay := b.keyed(c, "k1")
			if location, found := replay.header["Location"]; found == broken {
				b.t.Errorf("Location of a replay from %s = %q with the defect %v", from, location, broken)
			}
			replay.header.Set("Location", first.header.Get("Location"))
			b.expectReplay(replay, first)
		}
		b.expectMade(c, 1)
	})
}
