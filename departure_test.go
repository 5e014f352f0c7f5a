// departure_test.go has clients and upstreams leave at every byte of a small exchange,
// politely or with a reset, while nothing or one of the faults befalls it: the gateway
// serves on and no exchange stays open.

package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// everyFault is each fault in each of its kinds.
var everyFault = []string{
	"before", "after", "cut-before-headers", "cut-before-headers:reset", "cut-after-headers", "cut-after-headers:reset",
	"cut-after=2", "cut-after=2:reset", "delay=1ms", "delay=1ms:after", "duplicate", "status=503",
}

const (
	// departingPost is sent in pieces; the key makes each the first of its own.
	departingPost = "POST /s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIdempotency-Key: %s\r\nContent-Length: 4\r\n\r\nhola"
	// departingAnswer is answered in pieces.
	departingAnswer = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: X-Suma\r\n\r\n4\r\nhola\r\n0\r\nX-Suma: 9\r\n\r\n"
)

// turns are the bytes at which somebody leaves: each step-th, beginning with from; and
// every other time with a reset.
type turns struct{ from, step, way int }

// at runs leave for each of the turns among the bytes from 0 to most.
func (s turns) at(most int, leave func(n, reset int)) {
	for n := s.from; n <= most; n += s.step {
		leave(n, (n/s.step+s.way)%2)
	}
}

// faultStep is how many faults share the bytes among them. Half as many as there are: so
// over all the faults each byte is left at in both ways.
const faultStep = 6

// departures runs leave without a fault, in both ways at each byte, and with each fault at
// its share of them, in front of an upstream that cuts its answer to POSTs whose key names
// a length, and holds the gateway to serving on.
func departures(t *testing.T, leave func(t *testing.T, gateway string, bytes turns)) {
	t.Helper()
	if len(everyFault) < 2*faultStep {
		t.Fatalf("%d faults share the bytes by %d, want at least twice as many", len(everyFault), faultStep)
	}
	up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
		head := readHead(in)
		io.CopyN(io.Discard, in, 4)
		sent, reset := len(departingAnswer), 0
		if _, key, found := strings.Cut(head, "Idempotency-Key: cut-"); found {
			fmt.Sscanf(key, "%d-%d", &sent, &reset)
		}
		io.WriteString(conn, departingAnswer[:sent])
		if reset == 1 {
			conn.SetLinger(0)
		}
	})
	run := func(spec string, shares ...turns) {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			cfg := gatewayConfig{ledger: newLedger(ledgerLimit, nil, slog.New(slog.DiscardHandler)), now: time.Now}
			if spec != "" {
				cfg.plan = planOf(t, spec)
			}
			gateway := serveGateway(t, up.url, cfg)
			post(t, gateway, "/s", "whole", "hola") // meets the fault; what follows under this key does not
			for _, share := range shares {
				leave(t, gateway, share)
			}
			if got := post(t, gateway, "/s", "whole", "hola"); got.status != 201 || string(got.body) != "hola" {
				t.Errorf("the next answer = %d %q, want 201 hola", got.status, got.body)
			}
			eventually(t, "every exchange has ended", func() bool {
				for _, a := range cfg.ledger.arrivals() {
					if a.Ended.IsZero() {
						return false
					}
				}
				return true
			})
		})
	}
	run("", turns{step: 1}, turns{step: 1, way: 1})
	for place, spec := range everyFault {
		run(spec, turns{from: place % faultStep, step: faultStep, way: place / faultStep})
	}
}

// depart closes the connection.
func depart(conn *net.TCPConn, reset int) {
	if reset == 1 {
		conn.SetLinger(0)
	}
	conn.Close()
}

// TestClientDepartsAtEveryByte: of its request, and of the answer.
func TestClientDepartsAtEveryByte(t *testing.T) {
	t.Parallel()
	departures(t, func(t *testing.T, gateway string, bytes turns) {
		post := func(kind string, n, reset int) string {
			return fmt.Sprintf(departingPost, fmt.Sprintf("%s-%03d-%d", kind, n, reset))
		}
		bytes.at(len(post("c", 0, 0)), func(sent, reset int) {
			conn, _ := dialWire(t, gateway)
			io.WriteString(conn, post("c", sent, reset)[:sent])
			depart(conn, reset)
		})
		bytes.at(len(departingAnswer)+60, func(read, reset int) { // its own head is a little longer
			conn, in := dialWire(t, gateway)
			io.WriteString(conn, post("r", read, reset))
			io.CopyN(io.Discard, in, int64(read))
			depart(conn, reset)
		})
	})
}

// TestUpstreamDepartsAtEveryByte: of its answer. The client is told the truth: a whole
// answer only when there was one.
func TestUpstreamDepartsAtEveryByte(t *testing.T) {
	t.Parallel()
	departures(t, func(t *testing.T, gateway string, bytes turns) {
		bytes.at(len(departingAnswer), func(sent, reset int) {
			key := fmt.Sprintf("cut-%d-%d", sent, reset)
			got, err := attempt(t.Context(), newTransport(), wireLimit, 1<<20, call{method: "POST", base: mustURL(t, "http://"+gateway), path: "/s",
				header: map[string][]string{"Idempotency-Key": {key}}, body: []byte("hola")})
			if whole := sent == len(departingAnswer); got.status == 201 && err == nil && !whole {
				t.Errorf("after %d bytes and a departure the client was told %d %q, whole", sent, got.status, got.body)
			}
		})
	})
}
