// unavailable_test.go puts the store in trouble (locked, full, overrun) and holds the
// API to its answer: 503, nothing half-written, and all is well when the trouble ends.

package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// lockedBy is another process's write transaction.
func lockedBy(statement string) func(b *bench, path string) func() {
	return func(b *bench, path string) func() {
		db, err := sql.Open("sqlite", dsn(path, "mode=rw"))
		if err != nil {
			b.t.Fatal(err)
		}
		conn, err := db.Conn(context.Background())
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := conn.ExecContext(context.Background(), statement); err != nil {
			b.t.Fatal(err)
		}
		return func() {
			if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
				b.t.Error(err)
			}
			conn.Close()
			db.Close()
		}
	}
}

// overrun fills the writer's queue.
func overrun(b *bench, _ string) (end func()) {
	release := holdWriter(b.t, b.store)
	for range maxQueued {
		queued(b.t, b.store, context.Background(), func(*tx) error { return nil })
	}
	return release
}

func TestStoreInTrouble(t *testing.T) {
	t.Parallel()
	for _, trouble := range []struct {
		name  string
		begin func(b *bench, path string) (end func())
	}{
		{"locked immediately", lockedBy("BEGIN IMMEDIATE")},
		{"locked exclusively", lockedBy("BEGIN EXCLUSIVE")},
		{"overrun", overrun},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "revisor.db")
			b := newBench(t, benchOptions{path: path})
			b.register("base", "escritura-a")
			recorded := b.call("POST", "/servicios", "escritura-a", b.service("antes"), "Idempotency-Key: k0")
			b.expectFirst(recorded, 201)
			before := b.call("GET", "/servicios", "escritura-a", "").body

			end := trouble.begin(b, path)
			requests := []struct{ method, path, as, body, header string }{
				{"POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k1"},
				{"POST", "/servicios", "escritura-a", b.service("avisos"), ""},
				{"POST", "/servicios/1/revisiones", "escritura-a", "", "Idempotency-Key: k2"},
				{"PUT", "/servicios/1", "escritura-a", b.service("otra"), "If-Match: *"},
				{"DELETE", "/servicios/1", "escritura-a", "", ""},
				{"PUT", "/mantenimiento", "admin", `{"activo":true}`, ""},
			}
			answers := b.atOnce(len(requests), func(i int) (response, error) {
				r := requests[i]
				return b.try(context.Background(), r.method, r.path, r.as, r.body, r.header)
			})
			for i, got := range answers {
				if got.verdict() != "503 almacen-no-disponible" || got.header.Get("Retry-After") != "5" || got.replayed() != "" {
					t.Errorf("%s %s = %s, header %v, want 503 almacen-no-disponible, Retry-After 5", requests[i].method, requests[i].path, got.verdict(), got.header)
				}
			}
			// Who only reads is not concerned: neither lists, nor replays, nor look-ups.
			if got := b.call("GET", "/servicios", "escritura-a", "").body; got != before {
				t.Errorf("GET /servicios = %s, want %s", got, before)
			}
			b.expectReplay(b.call("POST", "/servicios", "escritura-a", b.service("antes"), "Idempotency-Key: k0"), recorded)
			if got := b.call("GET", "/operaciones/k1", "escritura-a", ""); got.verdict() != "404 operacion-inexistente" {
				t.Errorf("GET /operaciones/k1 = %s, want 404 operacion-inexistente", got.verdict())
			}
			end()

			first := b.call("POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k1")
			b.expectFirst(first, 201)
			if got := first.header.Get("Location"); got != "/servicios/3" {
				t.Errorf("Location = %s, want /servicios/3", got)
			}
			if got := b.call("GET", "/servicios/1", "escritura-a", ""); got.status != 200 || got.member("nombre") != "base" {
				t.Errorf("GET /servicios/1 = %d %s, want the service as it was", got.status, got.body)
			}
			if got := b.call("GET", "/servicios/1/informe", "escritura-a", ""); got.member("revisiones") != 0.0 {
				t.Errorf("GET /servicios/1/informe = %s, want no revision", got.body)
			}
		})
	}
}

// TestFullStore: the file may grow no further, which to SQLite is a full disk; the
// limit is gone with the connection.
func TestFullStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.register("base", "escritura-a")
	mustWrite(t, b.store, func(t *tx) error {
		var pages int64
		return t.stmts.queryRow("PRAGMA max_page_count = 1", nil, &pages) // means the present size
	})
	long := `{"nombre":"avisos","url":"http://` + b.lab + `/` + strings.Repeat("x", 12000) + `"}`
	post := func() response {
		return b.call("POST", "/servicios", "escritura-a", long, "Idempotency-Key: k1")
	}
	if got := post(); got.verdict() != "503 almacen-no-disponible" || got.header.Get("Retry-After") != "5" {
		t.Fatalf("POST = %s, Retry-After %q, want 503 almacen-no-disponible, 5", got.verdict(), got.header.Get("Retry-After"))
	}
	if got := strings.Count(b.call("GET", "/servicios", "escritura-a", "").body, `"id":`); got != 1 {
		t.Errorf("%d services, want 1", got)
	}
	first := post()
	b.expectFirst(first, 201)
	b.expectReplay(post(), first)
}

// TestShortLockIsWaitedFor: a lock that ends in time costs nobody an error.
func TestShortLockIsWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	b := newBench(t, benchOptions{path: path})
	unlock := lockedBy("BEGIN IMMEDIATE")(b, path)
	answer := make(chan response, 1)
	go func() {
		got, err := b.try(context.Background(), "POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k1")
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	b.expectInFlight("k1")
	unlock()
	b.expectFirst(<-answer, 201)
}
