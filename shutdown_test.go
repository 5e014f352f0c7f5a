// shutdown_test.go stops real processes politely: what runs finishes, the database is
// closed, and the next process goes on where the last one stopped.

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignals: the request that runs gets its answer, nobody new is let in, and the
// process ends well.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db := filepath.Join(dir, "revisor.db")
			c := demo(t, "--db", db, "--save-delay", "1s", "--queue-delay", "20s")
			if got := c.call("POST", "/servicios/1/revisiones", "escritura-a", ""); got.status != 202 {
				t.Fatalf("POST revisiones = %s, want 202", got.verdict())
			}
			answer := make(chan response, 1)
			go func() {
				got, err := c.try(context.Background(), "POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
				if err != nil {
					t.Error(err)
				}
				answer <- got
			}()
			c.expectInFlight("k1")
			c.signal(sig)
			eventually(t, "nobody new is let in", func() bool {
				conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
				if err == nil {
					conn.Close()
				}
				return err != nil
			})
			c.expectFirst(<-answer, 201)
			if code := c.finish(); code != 0 {
				t.Errorf("exit status = %d, want 0", code)
			}
			if files := filesIn(t, dir); len(files) != 1 {
				t.Errorf("files = %v, want the database alone: it was not closed", files)
			}
			next := demo(t, "--db", db, "--queue-delay", "20s")
			if next.named("avisos") != 1 {
				t.Error("the service is not there after the restart")
			}
			if got := next.call("GET", "/revisiones/1", "escritura-a", ""); got.member("estado") != "pendiente" {
				t.Errorf("GET /revisiones/1 = %s, want that it is pending", got.body)
			}
		})
	}
}

// TestStopDoesNotWaitForTheIdle: neither a kept-alive connection, nor a client that
// says nothing, nor the lab's slow answer keeps a process from ending.
func TestStopDoesNotWaitForTheIdle(t *testing.T) {
	t.Parallel()
	c := demo(t)
	idle, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	fmt.Fprintf(idle, "GET /idempotencia HTTP/1.1\r\nHost: revisor\r\n\r\n")
	if _, err := idle.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	slow, err := net.Dial("tcp", c.lab)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "GET /lento/99999 HTTP/1.1\r\nHost: lab\r\n\r\n")
	eventually(t, "the lab is at work", func() bool { // asked on another connection
		conn, err := net.Dial("tcp", c.lab)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /contadores HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")
		answer := make([]byte, 4096)
		n, total := 0, 0
		for err == nil {
			n, err = conn.Read(answer[total:])
			total += n
		}
		return strings.Contains(string(answer[:total]), "/lento/99999")
	})
	began := time.Now()
	c.stop()
	if took := time.Since(began); took > drainTime {
		t.Errorf("stopping took %v, want at most %v", took, drainTime)
	}
}

// TestStoppedAndStarted: between two equal requests there is a whole new process; the
// second one gets the first one's answer to the byte.
func TestStoppedAndStarted(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "revisor.db")
	requests := map[string]string{
		"/servicios":              anyService("avisos"),
		"/servicios/1/revisiones": "ahora",
	}
	varies := regexp.MustCompile(`(?m)^(Date: ).*\r$`)
	answers := func(c *child) map[string]string {
		got := map[string]string{}
		for path, body := range requests {
			raw := c.bytesOf(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: revisor\r\nConnection: close\r\nAuthorization: Bearer escritura-a\r\n"+
				"Content-Type: application/json\r\nIdempotency-Key: \"%s\"\r\nContent-Length: %d\r\n\r\n%s", path, path, len(body), body))
			got[path] = varies.ReplaceAllString(raw, "$1…\r")
		}
		return got
	}
	first := demo(t, "--db", db)
	want := answers(first)
	first.stop()
	second := demo(t, "--db", db)
	for path, got := range answers(second) {
		if want := strings.Replace(want[path], "Idempotency-Replayed: false", "Idempotency-Replayed: true", 1); got != want || got == "" {
			t.Errorf("answer after the restart = %q, want %q", got, want)
		}
	}
	if got := second.named("avisos"); got != 1 {
		t.Errorf("%d services, want 1", got)
	}
}

// TestKeysExpireInARealServer: REVISOR_VIGENCIA_MS, by the real clock.
func TestKeysExpireInARealServer(t *testing.T) {
	t.Parallel()
	c := demo(t, "REVISOR_VIGENCIA_MS=300")
	c.expectFirst(c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1"), 201)
	if got := c.call("GET", "/idempotencia", "", ""); got.member("vigencia_s") != 0.3 {
		t.Errorf("GET /idempotencia = %s, want vigencia_s 0.3", got.body)
	}
	eventually(t, "the key has expired", func() bool {
		return c.call("GET", "/operaciones/k1", "escritura-a", "").verdict() == "404 operacion-inexistente"
	})
	if got := c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1"); got.verdict() != "409 nombre-repetido" {
		t.Errorf("POST = %s, want 409 nombre-repetido: the request is new", got.verdict())
	}
	eventually(t, "the sweep tells of itself", func() bool { return strings.Contains(c.stderr.String(), "msg=sweep") })
}

// TestTemporaryDatabaseGoesAway with the demo that made it.
func TestTemporaryDatabaseGoesAway(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	c := demo(t, "TMPDIR="+tmp)
	if entries, err := os.ReadDir(tmp); err != nil || len(entries) == 0 {
		t.Fatalf("the demo's temporary directory is not in TMPDIR: %v, %v", entries, err)
	}
	c.stop()
	if entries, err := os.ReadDir(tmp); err != nil || len(entries) != 0 {
		t.Errorf("left in the temporary directory = %v, %v, want nothing", entries, err)
	}
	if entries, err := os.ReadDir(c.cmd.Dir); err != nil || len(entries) != 0 {
		t.Errorf("left in the working directory = %v, %v, want nothing", entries, err)
	}
}
