// trouble_test.go makes it long: a lock that is held for ten seconds, a flood while the
// writer is held up, a clock that jumps. Every client is told in time, nothing is lost,
// and all is well afterwards, in the same process.

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// residentBytes is how much memory a process has, 0 where the system does not tell.
func residentBytes(pid int) int64 {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(content))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// expectUnavailable holds an answer to saying that the store cannot write now.
func (b *bench) expectUnavailable(what string, got response) {
	b.t.Helper()
	if got.verdict() != "503 almacen-no-disponible" || got.header.Get("Retry-After") != "5" || got.replayed() != "" {
		b.t.Errorf("%s = %s, Retry-After %q, want 503 almacen-no-disponible, \"5\"", what, got.verdict(), got.header.Get("Retry-After"))
	}
}

// TestLockedForTenSeconds: another process holds the database's lock while clients write
// and read. Writers are told the truth within a client's patience, readers notice
// nothing, and what had to wait is done afterwards.
func TestLockedForTenSeconds(t *testing.T) {
	t.Parallel()
	const (
		lockTime = 10 * time.Second
		writers  = 48
		longest  = busyTime + time.Second // with time to spare; a client's patience is 2 s
		growth   = 32 << 20               // bytes of memory
	)
	db := filepath.Join(t.TempDir(), "revisor.db")
	c := demo(t, "--db", db, "--queue-delay", "1s")
	recorded := c.call("POST", "/servicios", "escritura-a", anyService("antes"), "Idempotency-Key: k-antes")
	c.expectFirst(recorded, 201)
	accepted := c.call("POST", "/servicios/1/revisiones", "escritura-a", "", "Idempotency-Key: k-revision")
	c.expectFirst(accepted, 202)
	before := c.call("GET", "/servicios", "escritura-a", "").body
	memory := residentBytes(c.cmd.Process.Pid)

	unlock := lockedBy("BEGIN IMMEDIATE")(c.bench, db)
	end := time.Now().Add(lockTime)
	post := func(i int) (response, error) {
		return c.try(context.Background(), "POST", "/servicios", "escritura-a", anyService(fmt.Sprint("s", i)), fmt.Sprint("Idempotency-Key: k", i))
	}
	var slowest, refused, read atomic.Int64
	var clients sync.WaitGroup
	for i := range writers {
		clients.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				got, err := post(i)
				if err != nil {
					t.Errorf("POST while locked: %v", err)
					return
				}
				c.expectUnavailable("POST while locked", got)
				took := int64(time.Since(began))
				for was := slowest.Load(); took > was && !slowest.CompareAndSwap(was, took); was = slowest.Load() {
				}
				refused.Add(1)
			}
		})
	}
	clients.Go(func() {
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for now := time.Now(); now.Before(end); now = <-pace.C {
			if got := c.call("GET", "/servicios", "escritura-a", "").body; got != before {
				t.Errorf("GET /servicios while locked = %s, want %s", got, before)
			}
			c.expectReplay(c.call("POST", "/servicios", "escritura-a", anyService("antes"), "Idempotency-Key: k-antes"), recorded)
			read.Add(1)
		}
	})
	clients.Wait()
	grown := residentBytes(c.cmd.Process.Pid) - memory
	unlock()
	t.Logf("%d writes refused, the slowest after %v; read %d times meanwhile; memory grew by %d KiB", refused.Load(), time.Duration(slowest.Load()), read.Load(), grown>>10)
	if took := time.Duration(slowest.Load()); took > longest {
		t.Errorf("the slowest refusal took %v, want at most %v", took, longest)
	}
	if grown > growth {
		t.Errorf("memory grew by %d KiB, want at most %d", grown>>10, growth>>10)
	}

	answers := c.atOnce(writers, post)
	for _, got := range answers {
		c.expectFirst(got, 201)
	}
	eventually(t, "the revision is finished", func() bool {
		return c.call("GET", accepted.header.Get("Location"), "escritura-a", "").member("estado") == "terminada"
	})
	c.kill()
	next := demo(t, "--db", db)
	for i, got := range next.atOnce(writers, func(i int) (response, error) {
		return next.try(context.Background(), "POST", "/servicios", "escritura-a", anyService(fmt.Sprint("s", i)), fmt.Sprint("Idempotency-Key: k", i))
	}) {
		next.expectReplay(got, answers[i])
	}
	if got, want := strings.Count(next.call("GET", "/servicios", "admin", "").body, `"id":`), len(practiceServices)+1+writers; got != want {
		t.Errorf("%d services, want %d", got, want)
	}
}

// TestFlood: the writer is held up when two thousand keyed POSTs come at once. As many
// wait as the queue holds. The others are refused at once, so that neither they nor
// their memory wait. When the writer goes on, all is as if nothing had been.
func TestFlood(t *testing.T) {
	t.Parallel()
	const many = 2000
	b := newBench(t, benchOptions{})
	release := holdWriter(t, b.store)
	type client struct {
		conn *net.TCPConn
		in   *bufio.Reader
		post string
	}
	clients := make([]client, many)
	for i := range clients {
		conn, in := b.dial()
		conn.SetDeadline(time.Now().Add(time.Minute))
		_, post := rawRegistration(fmt.Sprint("k", i), b.service(fmt.Sprint("s", i)))
		clients[i] = client{conn, in, post}
		io.WriteString(conn, post)
	}
	eventually(t, "whoever finds no place is refused", func() bool {
		return strings.Count(b.log.String(), "status=503") == many-maxQueued
	})
	if got := b.engine.flights.size(); got != maxQueued {
		t.Errorf("%d keys in flight, want %d", got, maxQueued)
	}
	if got := b.call("GET", "/servicios", "escritura-a", ""); got.body != "{\"servicios\":[]}\n" {
		t.Errorf("GET /servicios = %s, want that it is answered and nothing is there yet", got.body)
	}
	release()
	var refused []client
	for _, c := range clients {
		if got := b.readAnswer(c.in, "POST", "/servicios"); got.status == 503 {
			b.expectUnavailable("POST that found no place", got)
			refused = append(refused, c)
		} else {
			b.expectFirst(got, 201)
		}
	}
	if len(refused) != many-maxQueued {
		t.Fatalf("%d refused, want %d", len(refused), many-maxQueued)
	}
	const again = 100 // of them come again
	for _, c := range refused[:again] {
		io.WriteString(c.conn, c.post)
		b.expectFirst(b.readAnswer(c.in, "POST", "/servicios"), 201)
	}
	b.expectEffects(maxQueued + again)
}

// TestClockJumps: keys go by the time of day, so that a long jump ahead ends their lives,
// whether the clock goes wrong or is put right. Nothing else takes harm, and nothing
// waits for a time that is years away.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	tests := []struct {
		name   string
		jump   time.Duration
		before string // the same request again, its key used before the jump
		window string // Retry-After of a full window; "" when it is over
		after  string // the same request again, its key used after the jump, when the clock is put right
	}{
		{"a second back", -time.Second, "201 true", "60", "201 true"},
		{"an hour back", -time.Hour, "201 true", "60", "201 true"},
		{"ten years back", -10 * year, "201 true", "60", "409 nombre-repetido"},
		{"a second ahead", time.Second, "201 true", "59", "201 true"},
		{"an hour ahead", time.Hour, "201 true", "", "201 true"},
		{"ten years ahead", 10 * year, "409 nombre-repetido", "", "201 true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{queueDelay: 100 * time.Millisecond})
			ana, token, err := newCredential("ana", "a", "writer", b.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			mustWrite(t, b.store, func(t *tx) error { _, err := t.insertCredential(ana); return err })
			post := func(key string) response {
				return b.call("POST", "/servicios", "escritura-a", b.service(key), "Idempotency-Key: "+key)
			}
			again := func(key, want string) {
				t.Helper()
				if got := post(key); strings.TrimSpace(got.verdict()+" "+got.replayed()) != want {
					t.Errorf("same request with %s = %s %s, want %s", key, got.verdict(), got.replayed(), want)
				}
			}
			b.expectFirst(post("k1"), 201)
			if got := b.call("GET", "/servicios", token, ""); got.status != 200 {
				t.Errorf("GET with ana's token = %s, want 200", got.verdict())
			}
			for range checksPerWindow { // each but the first queues behind another one
				if got := b.call("POST", "/servicios/1/revisiones", "escritura-a", ""); got.status != 202 {
					t.Errorf("POST revisiones = %s, want 202", got.verdict())
				}
			}
			mustWrite(t, b.store, func(t *tx) error { _, err := t.revokeCredential("ana", b.clock.Now()); return err })

			b.clock.advance(tt.jump)

			if got := b.call("GET", "/servicios", token, ""); got.verdict() != "401 credencial-invalida" {
				t.Errorf("GET with a revoked token = %s, want 401 credencial-invalida", got.verdict())
			}
			again("k1", tt.before)
			b.expectFirst(post("k2"), 201)
			again("k2", "201 true")
			if got := b.call("POST", "/servicios/1/revisiones", "escritura-a", ""); got.header.Get("Retry-After") != tt.window || (got.status == 202) != (tt.window == "") {
				t.Errorf("POST revisiones = %s, Retry-After %q, want %q", got.verdict(), got.header.Get("Retry-After"), tt.window)
			}
			eventually(t, "the revisions are finished", func() bool {
				return b.call("GET", "/revisiones/3", "escritura-a", "").member("estado") == "terminada"
			})

			b.clock.advance(-tt.jump) // it is put right
			again("k1", "201 true")
			again("k2", tt.after)
			b.expectEffects(2)
		})
	}
}
