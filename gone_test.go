// gone_test.go has clients leave at every stage of a keyed POST, politely or with a
// reset, and holds the retry to one effect and the recorded answer.

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// leaving is a stage at which a client leaves.
type leaving struct {
	name string
	sent func(head, body string) string // how much of the request it has sent by then
	// heard: the request came whole, and is worked on to its end.
	heard bool
	// answered: it stays until it is answered, and does not read it.
	answered bool
}

var leavings = []leaving{
	{name: "connected", sent: func(string, string) string { return "" }},
	{name: "in the request line", sent: func(head, _ string) string { return head[:len("POST /ser")] }},
	{name: "in the header", sent: func(head, _ string) string { return head[:strings.Index(head, "Idempotency-Key")+20] }},
	{name: "before the body", sent: func(head, _ string) string { return head }},
	{name: "in the body", sent: func(head, body string) string { return head + body[:len(body)/2] }},
	{name: "one byte before the end", sent: func(head, body string) string { return head + body[:len(body)-1] }},
	{name: "before the answer", sent: func(head, body string) string { return head + body }, heard: true},
	{name: "without reading the answer", sent: func(head, body string) string { return head + body }, heard: true, answered: true},
}

// waysToLeave is how: with a reset the server hears of it at once.
var waysToLeave = []struct {
	name  string
	leave func(conn *net.TCPConn)
}{
	{"closes", func(conn *net.TCPConn) { conn.Close() }},
	{"resets", func(conn *net.TCPConn) { conn.SetLinger(0); conn.Close() }},
}

// rawRegistration is a keyed registration on the wire, in two parts.
func rawRegistration(key, body string) (head, all string) {
	head = fmt.Sprintf("POST /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer escritura-a\r\n"+
		"Content-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n", key, len(body))
	return head, head + body
}

// goOn sends a keyed registration as far as the stage goes, and returns the connection
// when the server is there too. release lets the writer go on.
func (b *bench) goOn(stage leaving, key, body string, release func()) *net.TCPConn {
	b.t.Helper()
	head, _ := rawRegistration(key, body)
	conn, _ := b.dial()
	if _, err := io.WriteString(conn, stage.sent(head, body)); err != nil {
		b.t.Fatal(err)
	}
	if stage.heard {
		b.expectInFlight(key)
	}
	if stage.answered {
		before := strings.Count(b.log.String(), "status=201")
		release()
		eventually(b.t, "it is answered", func() bool { return strings.Count(b.log.String(), "status=201") > before })
	}
	return conn
}

// TestClientLeaves: what came whole is done to its end, and the retry gets its answer;
// what did not come whole takes no key, and the retry is the first.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	for _, way := range waysToLeave {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			for i, stage := range leavings {
				key, body := fmt.Sprint("k", i), b.service(stage.name)
				release := holdWriter(t, b.store)
				way.leave(b.goOn(stage, key, body, release))
				release()
				retry := b.call("POST", "/servicios", "escritura-a", body, "Idempotency-Key: "+key, "Prefer: wait=30")
				if retry.status != 201 || retry.replayed() != fmt.Sprint(stage.heard) {
					t.Errorf("%s: retry = %s, Idempotency-Replayed %q, want 201, \"%v\"", stage.name, retry.verdict(), retry.replayed(), stage.heard)
				}
				b.expectReplay(b.call("POST", "/servicios", "escritura-a", body, "Idempotency-Key: "+key), retry)
			}
			b.expectEffects(len(leavings))
		})
	}
}

// TestClientLeavesBesideTheOriginal: somebody comes with the same key while the original
// is in work, and leaves. That is no matter of the original's.
func TestClientLeavesBesideTheOriginal(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{wait: true})
	body := b.service("avisos")
	release := holdWriter(t, b.store)
	original := make(chan response, 1)
	go func() {
		got, err := b.try(context.Background(), "POST", "/servicios", "escritura-a", body, "Idempotency-Key: k1")
		if err != nil {
			t.Error(err)
		}
		original <- got
	}()
	b.expectInFlight("k1")
	for _, stage := range leavings {
		for _, way := range waysToLeave {
			if !stage.answered {
				way.leave(b.goOn(stage, "k1", body, nil))
			}
		}
	}
	release()
	first := <-original
	b.expectFirst(first, 201)
	b.expectReplay(b.call("POST", "/servicios", "escritura-a", body, "Idempotency-Key: k1"), first)
	b.expectEffects(1)
}

// TestClientEndsItsSide: who has sent all and says so, and stays to read, gets its
// answer.
func TestClientEndsItsSide(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	release := holdWriter(t, b.store)
	_, request := rawRegistration("k1", b.service("avisos"))
	conn, in := b.dial()
	io.WriteString(conn, request)
	conn.CloseWrite()
	b.expectInFlight("k1")
	release()
	b.expectFirst(b.readAnswer(in, "POST", "/servicios"), 201)
}

// expectEffects holds the bench to so many services, and to a log in which nothing is
// called the server's own failure.
func (b *bench) expectEffects(want int) {
	b.t.Helper()
	if got := strings.Count(b.call("GET", "/servicios", "admin", "").body, `"id":`); got != want {
		b.t.Errorf("%d services, want %d", got, want)
	}
	if log := b.log.String(); strings.Contains(log, "internal error") || strings.Contains(log, "panic") {
		b.t.Errorf("log = %s, want no failure of the server's own", log)
	}
}
