// failure_test.go reads the promise's row about failures: only a success is recorded,
// and whatever fails without effect leaves its key free and uses up no id.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// failing is a request that fails, and what makes it, or a corrected one, succeed.
type failing struct {
	name       string
	setUp      func(b *bench)
	path, body string // %s is the lab's host:port
	want       string
	repair     func(b *bench)
	path2      string // "" for the same
	body2      string // "" for the same
}

// boom is a rule that makes the insertion of one service fail inside its transaction.
const boom = `CREATE TRIGGER boom BEFORE INSERT ON services WHEN NEW.name = 'avisos' BEGIN SELECT RAISE(ABORT, 'boom'); END`

func onStore(statement string) func(b *bench) {
	return func(b *bench) {
		b.t.Helper()
		mustWrite(b.t, b.store, func(t *tx) error { return t.exec(statement) })
	}
}

func asking(method, path, body string) func(b *bench) {
	return func(b *bench) {
		b.call(method, path, "escritura-a", strings.Replace(body, "%s", b.lab, 1), "If-Match: *")
	}
}

func nothing(*bench) {}

// panicsOnce resolves nothing; the first time it is asked for panico.example it panics.
func panicsOnce() func(context.Context, string) ([]netip.Addr, error) {
	var asked atomic.Bool
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "panico.example" {
			if !asked.Swap(true) {
				panic("boom")
			}
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		}
		return nil, errors.New("no such host")
	}
}

func TestFailureFreesTheKey(t *testing.T) {
	t.Parallel()
	const service, good = "/servicios", `{"nombre":"avisos","url":"http://%s/codigo/200"}`
	const check = "/servicios/1/revisiones"
	threeChecks := func(b *bench) {
		for range checksPerWindow {
			b.call("POST", check, "escritura-a", "")
		}
	}
	tests := []failing{
		{"422 data", nothing, service, `{"nombre":"avisos"}`, "422 datos-invalidos", nothing, "", good},
		{"422 destination", nothing, service, `{"nombre":"avisos","url":"http://10.0.0.1/"}`, "422 destino-prohibido", nothing, "", good},
		{"422 name that does not resolve", nothing, service, `{"nombre":"avisos","url":"http://nadie.example/"}`, "422 destino-prohibido", nothing, "", good},
		{"409 name, another one", nothing, service, `{"nombre":"base","url":"http://%s/codigo/200"}`, "409 nombre-repetido", nothing, "", good},
		{"409 name, free in the end", nothing, service, `{"nombre":"base","url":"http://%s/codigo/200"}`, "409 nombre-repetido",
			asking("DELETE", "/servicios/1", ""), "", ""},
		{"500 panic in prepare", nothing, service, `{"nombre":"avisos","url":"http://panico.example/"}`, "500 error-interno", nothing, "", ""},
		{"500 error in apply", onStore(boom), service, good, "500 error-interno", onStore(`DROP TRIGGER boom`), "", ""},
		{"404 service", nothing, "/servicios/2/revisiones", "x", "404 servicio-inexistente", asking("POST", service, good), "", ""},
		{"404 service, another one", nothing, "/servicios/99/revisiones", "x", "404 servicio-inexistente", nothing, check, ""},
		{"410 service", asking("DELETE", "/servicios/1", ""), check, "x", "410 servicio-retirado", asking("POST", service, good), "/servicios/2/revisiones", ""},
		{"429 limit", threeChecks, check, "x", "429 demasiadas-revisiones", func(b *bench) { b.clock.advance(rateWindow) }, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{resolve: panicsOnce()})
			b.register("base", "escritura-a")
			tt.setUp(b)
			post := func(path, body string) response {
				return b.call("POST", path, "escritura-a", strings.Replace(body, "%s", b.lab, 1), "Idempotency-Key: k1")
			}
			times := 2
			if tt.name == "500 panic in prepare" { // which happens once
				times = 1
			}
			for range times {
				if got := post(tt.path, tt.body); got.verdict() != tt.want || got.replayed() != "" {
					t.Fatalf("POST %s = %s, Idempotency-Replayed %q, want %s, none", tt.path, got.verdict(), got.replayed(), tt.want)
				}
				if got := b.call("GET", "/operaciones/k1", "escritura-a", ""); got.verdict() != "404 operacion-inexistente" {
					t.Errorf("GET /operaciones/k1 = %s, want 404 operacion-inexistente", got.verdict())
				}
			}
			tt.repair(b)
			path, body := tt.path, tt.body
			if tt.path2 != "" {
				path = tt.path2
			}
			if tt.body2 != "" {
				body = tt.body2
			}
			first := post(path, body)
			b.expectFirst(first, map[bool]int{true: 201, false: 202}[path == service])
			b.expectReplay(post(path, body), first)
		})
	}
}

// TestRefusedRequestsUseUpNoID: keyed or not, and however they fail.
func TestRefusedRequestsUseUpNoID(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{resolve: panicsOnce()})
	b.register("base", "escritura-a")
	onStore(boom)(b)
	first := b.call("POST", "/servicios", "escritura-a", b.service("uno"), "Idempotency-Key: k1")
	b.expectFirst(first, 201)
	for _, key := range []string{"", "Idempotency-Key: k2"} {
		for _, tt := range []struct{ body, want string }{
			{`{}`, "422 datos-invalidos"},
			{b.service("base"), "409 nombre-repetido"},
			{b.service("avisos"), "500 error-interno"},
		} {
			if got := b.call("POST", "/servicios", "escritura-a", tt.body, key); got.verdict() != tt.want {
				t.Errorf("POST %s = %s, want %s", tt.body, got.verdict(), tt.want)
			}
		}
		b.call("POST", "/servicios/99/revisiones", "escritura-a", "", key)
	}
	b.call("POST", "/servicios", "escritura-a", b.service("dos"), "Idempotency-Key: k1") // 422
	b.call("POST", "/servicios", "escritura-a", b.service("uno"), "Idempotency-Key: k1") // a replay
	if got := b.register("tres", "escritura-a"); got != "/servicios/3" {
		t.Errorf("next service = %s, want /servicios/3", got)
	}
	if got := b.call("POST", "/servicios/1/revisiones", "escritura-a", "").header.Get("Location"); got != "/revisiones/1" {
		t.Errorf("next revision = %s, want /revisiones/1", got)
	}
}

// serveOperation answers like a route whose operation has the given second part.
func (b *bench) serveOperation(apply func(t *tx) (success, error)) response {
	b.t.Helper()
	log := slog.New(slog.NewTextHandler(b.log, nil))
	route := &edge{role: "test", log: log, render: renderProblem(log, nil), handle: func(w http.ResponseWriter, r *http.Request) error {
		return b.engine.do(w, withCaller(r, practiceCredentials()[1]), operation{
			read:        func() error { return nil },
			fingerprint: func(byte) fingerprint { return fingerprintBytes("POST", "/servicios", nil) },
			prepare:     func(context.Context) error { return nil },
			apply:       apply,
		})
	}}
	r := httptest.NewRequest("POST", "/servicios", nil)
	r.Header.Set("Idempotency-Key", "k1")
	w := httptest.NewRecorder()
	route.ServeHTTP(w, r)
	got := response{w.Code, w.Header(), w.Body.String()}
	checkAnswer(b.t, "POST", "/servicios", got)
	return got
}

// registering is the second part of an operation: a registration, then what end does.
func registering(end func(t *tx) error) func(t *tx) (success, error) {
	return func(t *tx) (success, error) {
		svc, _, err := t.insertService("a", "avisos", "http://x/", 2000, time.Unix(0, 0))
		if err == nil {
			err = end(t)
		}
		return success{status: 201, location: servicePath(svc.id), body: fmt.Appendf(nil, "{\"id\":%d}\n", svc.id)}, err
	}
}

// commitFails makes the COMMIT fail, and only that.
func commitFails(t *tx) error {
	return errors.Join(t.exec(`PRAGMA defer_foreign_keys = 1`), t.exec(`INSERT INTO revisions (service, created_at) VALUES (77, 0)`))
}

// TestFailureAtTheLastMoment: the second part of the work, or the commit, goes wrong.
func TestFailureAtTheLastMoment(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(t *tx) error
		want string
	}{
		{"error", func(*tx) error { return errors.New("boom") }, "500 error-interno"},
		{"panic", func(*tx) error { panic("boom") }, "500 error-interno"},
		{"store unavailable", func(*tx) error { return errStoreUnavailable }, "503 almacen-no-disponible"},
		{"commit", commitFails, "500 error-interno"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			if got := b.serveOperation(registering(tt.end)); got.verdict() != tt.want || got.replayed() != "" {
				t.Errorf("POST = %s, Idempotency-Replayed %q, want %s, none", got.verdict(), got.replayed(), tt.want)
			}
			if got := idsByName(t, b.store); len(got) != 0 {
				t.Errorf("services = %v, want none", got)
			}
			fine := func(*tx) error { return nil }
			first := b.serveOperation(registering(fine))
			b.expectFirst(first, 201)
			b.expectReplay(b.serveOperation(registering(fine)), first)
			if got := first.header.Get("Location"); got != "/servicios/1" {
				t.Errorf("Location = %s, want /servicios/1", got)
			}
		})
	}
}

// TestCommitThatCannotBeVerified: a failed COMMIT whose outcome cannot be read back is
// neither "done" nor "nothing was written".
func TestCommitThatCannotBeVerified(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	got := b.serveOperation(registering(func(t *tx) error {
		return errors.Join(commitFails(t), b.store.readDB.Close())
	}))
	if got.verdict() != "500 error-interno" {
		t.Errorf("POST = %s, want 500 error-interno", got.verdict())
	}
	if !strings.Contains(b.log.String(), "outcome unknown") {
		t.Errorf("log = %s, want that the outcome is unknown", b.log)
	}
}

// TestUnknownOutcomeIsNotCalledNothing: when a commit may have happened and nobody can
// look, nobody is told that nothing was written.
func TestUnknownOutcomeIsNotCalledNothing(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	e := newEngine(engineConfig{store: s, now: time.Now})
	if err := s.readDB.Close(); err != nil {
		t.Fatal(err)
	}
	f := newFlight(claim{scope: scopedKey{-2, "k1"}}, time.Now())
	_, err := e.readBack(f, success{}, &commitError{err: errStoreUnavailable, open: true})
	if p, _ := asProblem(err, slog.New(slog.DiscardHandler)); p.slug != "error-interno" {
		t.Errorf("readBack = %v, which is %s to the client, want error-interno", err, p.slug)
	}
}

// TestLookUpFails: not even a store that cannot be read keeps a key in flight.
func TestLookUpFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	if err := b.store.readDB.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := b.serveOperation(registering(func(*tx) error { return nil })); got.verdict() != "500 error-interno" {
			t.Errorf("POST = %s, want 500 error-interno", got.verdict())
		}
	}
	if got := b.log.String(); strings.Contains(got, "panic: ") { // every stack names panic.go
		t.Errorf("log = %s, want no panic", got)
	}
}

// TestKeyIsReadBackAfterAFailedCommit: what another process recorded meanwhile is the
// answer.
func TestKeyIsReadBackAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	answer := success{status: 201, location: "/servicios/9", body: []byte("{\"id\":9}\n")}
	fingerprint := fingerprintBytes("POST", "/servicios", nil)
	var failed atomic.Bool
	b.engine.now = func() time.Time { // asked once more, when the key is read back
		if failed.Swap(false) {
			mustWrite(t, b.store, func(t *tx) error {
				return t.recordKey(-2, "k1", recordedAnswer{
					fingerprint: fingerprint[:], method: "POST", path: "/servicios", answer: answer,
					firstUsed: b.clock.Now(), expires: b.clock.Now().Add(time.Hour),
				})
			})
		}
		return b.clock.Now()
	}
	got := b.serveOperation(registering(func(t *tx) error {
		failed.Store(true)
		return commitFails(t)
	}))
	if got.status != 201 || got.replayed() != "true" || !bytes.Equal([]byte(got.body), answer.body) {
		t.Errorf("POST = %s, Idempotency-Replayed %q, %s, want the recorded answer", got.verdict(), got.replayed(), got.body)
	}
	if got := idsByName(t, b.store); len(got) != 0 {
		t.Errorf("services = %v, want none of this attempt", got)
	}
}
