// kill_test.go ends real processes with SIGKILL, in the middle of their work and right
// after it, and holds the next one on the same file to what the first one promised.

package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestKilledInTheMiddle: whenever the process dies, repeating the request with its key
// on the next one comes to one service and one answer.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	tests := []struct {
		name string
		// wait returns at the moment of the kill.
		wait func(c *child, answered <-chan response)
		want string // the first retry's Idempotency-Replayed; "" for either
	}{
		{"before the answer", func(c *child, _ <-chan response) { c.expectInFlight("k1") }, "false"},
		{"right after the answer", func(_ *child, answered <-chan response) { <-answered }, "true"},
	}
	for range 4 {
		pause := time.Duration(chance.Int64N(int64(60 * time.Millisecond)))
		tests = append(tests, tests[0])
		last := &tests[len(tests)-1]
		last.name, last.want = "after "+pause.String(), ""
		last.wait = func(_ *child, answered <-chan response) {
			select {
			case <-answered:
			case <-time.After(pause):
			}
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "revisor.db")
			delay := "30ms"
			if tt.want == "false" {
				delay = "20s"
			}
			first := demo(t, "--db", db, "--save-delay", delay)
			post := func(c *child) (response, error) {
				return c.try(context.Background(), "POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
			}
			var heard atomic.Pointer[response] // the answer, if it came
			answered := make(chan response)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if got, err := post(first); err == nil {
					heard.Store(&got)
					close(answered)
				}
			}()
			tt.wait(first, answered)
			first.kill()
			<-done

			second := demo(t, "--db", db)
			retry, err := post(second)
			if err != nil {
				t.Fatal(err)
			}
			if retry.status != 201 || tt.want != "" && retry.replayed() != tt.want {
				t.Fatalf("retry = %s, Idempotency-Replayed %q, want 201, %q", retry.verdict(), retry.replayed(), tt.want)
			}
			if got := heard.Load(); got != nil {
				second.expectFirst(*got, 201)
				second.expectReplay(retry, *got)
			}
			again, err := post(second)
			if err != nil {
				t.Fatal(err)
			}
			second.expectReplay(again, retry)
			if got := second.named("avisos"); got != 1 {
				t.Errorf("%d services, want 1", got)
			}
			if got := retry.header.Get("Location"); got != "/servicios/7" {
				t.Errorf("Location = %s, want /servicios/7", got)
			}
			if got := second.registered("escritura-a", anyService("otro")); got != "/servicios/8" {
				t.Errorf("next service = %s, want /servicios/8", got)
			}
		})
	}
}

// TestKilledRightAfterAnswers: whatever was answered is there, all of it.
func TestKilledRightAfterAnswers(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "revisor.db")
	first := demo(t, "--db", db, "--queue-delay", "20s")
	service := first.call("POST", "/servicios", "escritura-a", anyService("avisos"))
	changed := first.call("PUT", service.header.Get("Location"), "escritura-a", anyService("cambiado"), "If-Match: *")
	first.call("DELETE", "/servicios/1", "escritura-a", "")
	revision := first.call("POST", "/servicios/2/revisiones", "escritura-a", "", "Idempotency-Key: k1")
	first.expectFirst(revision, 202)
	first.kill()

	second := demo(t, "--db", db, "--queue-delay", "20s")
	got := second.call("GET", service.header.Get("Location"), "escritura-a", "")
	if got.body != changed.body || got.header.Get("ETag") != changed.header.Get("ETag") {
		t.Errorf("GET = %s %s, want %s %s", got.body, got.header.Get("ETag"), changed.body, changed.header.Get("ETag"))
	}
	if got := second.call("GET", "/servicios/1", "escritura-a", ""); got.verdict() != "410 servicio-retirado" {
		t.Errorf("GET /servicios/1 = %s, want 410 servicio-retirado", got.verdict())
	}
	second.expectReplay(second.call("POST", "/servicios/2/revisiones", "escritura-a", "", "Idempotency-Key: k1"), revision)
	if got := second.call("POST", "/servicios/2/revisiones", "escritura-a", ""); got.header.Get("Location") != "/revisiones/2" {
		t.Errorf("next revision = %s, want /revisiones/2", got.header.Get("Location"))
	}
}

// TestPendingRevisionsAreTakenUpAgain by the next process, each once.
func TestPendingRevisionsAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer origin.Close()
	db := filepath.Join(t.TempDir(), "revisor.db")
	first := demo(t, "--db", db, "--queue-delay", "20s")
	service := first.registered("escritura-a", `{"nombre":"avisos","url":"`+origin.URL+`"}`)
	const many = 3
	for range many {
		if got := first.call("POST", service+"/revisiones", "escritura-a", ""); got.status != 202 {
			t.Fatalf("POST revisiones = %s, want 202", got.verdict())
		}
	}
	first.kill()
	if asked.Load() != 0 {
		t.Fatalf("the service was asked %d times before the kill, want 0", asked.Load())
	}

	second := demo(t, "--db", db)
	for _, path := range []string{"/revisiones/1", "/revisiones/2", "/revisiones/3"} {
		eventually(t, path+" is finished", func() bool {
			return second.call("GET", path, "escritura-a", "").member("estado") == "terminada"
		})
	}
	if got := second.call("GET", service+"/informe", "escritura-a", ""); got.member("revisiones") != float64(many) || got.member("ultimo_estado") != "ARRIBA" {
		t.Errorf("GET informe = %s, want %d revisions, ARRIBA", got.body, many)
	}
	if asked.Load() != many {
		t.Errorf("the service was asked %d times, want %d", asked.Load(), many)
	}
}
