// departure_test.go has clients and upstreams leave at every byte of a small exchange,
// politely or with a reset, while nothing or each fault befalls it: the gateway serves on
// and no exchange stays open.

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

// everyFault is nothing, and each fault in each of its kinds.
var everyFault = []string{
	"", "before", "after", "cut-before-headers", "cut-before-headers:reset", "cut-after-headers", "cut-after-headers:reset",
	"cut-after=2", "cut-after=2:reset", "delay=1ms", "delay=1ms:after", "duplicate", "status=503",
}

const (
	// departingPost is sent in pieces; the key makes each the first of its own.
	departingPost = "POST /s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIdempotency-Key: %s\r\nContent-Length: 4\r\n\r\nhola"
	// departingAnswer is answered in pieces.
	departingAnswer = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: X-Suma\r\n\r\n4\r\nhola\r\n0\r\nX-Suma: 9\r\n\r\n"
)

// departures runs leave once for each fault, in front of an upstream that cuts its answer
// to POSTs whose key names a length, and holds the gateway to serving on.
// Without a fault it leaves in both ways at each byte, with one in turns.
func departures(t *testing.T, leave func(t *testing.T, gateway string, way int)) {
	t.Helper()
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
	for _, spec := range everyFault {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			cfg := gatewayConfig{ledger: newLedger(ledgerLimit, nil, slog.New(slog.DiscardHandler)), now: time.Now}
			if spec != "" {
				cfg.plan = planOf(t, spec)
			}
			gateway := serveGateway(t, up.url, cfg)
			post(t, gateway, "/s", "whole", "hola") // meets the fault; what follows under this key does not
			leave(t, gateway, 0)
			if spec == "" {
				leave(t, gateway, 1)
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
}

// depart closes the connection in the way that is this byte's turn.
func depart(conn *net.TCPConn, turn int) {
	if turn%2 == 1 {
		conn.SetLinger(0)
	}
	conn.Close()
}

// TestClientDepartsAtEveryByte: of its request, and of the answer.
func TestClientDepartsAtEveryByte(t *testing.T) {
	t.Parallel()
	departures(t, func(t *testing.T, gateway string, way int) {
		for sent := range len(departingPost) + 1 {
			conn, _ := dialWire(t, gateway)
			request := fmt.Sprintf(departingPost, fmt.Sprintf("c-%03d-%d", sent, way))
			io.WriteString(conn, request[:min(sent, len(request))])
			depart(conn, sent+way)
		}
		for read := range len(departingAnswer) + 60 { // its own head is a little longer
			conn, in := dialWire(t, gateway)
			fmt.Fprintf(conn, departingPost, fmt.Sprintf("r-%03d-%d", read, way))
			io.CopyN(io.Discard, in, int64(read))
			depart(conn, read+way)
		}
	})
}

// TestUpstreamDepartsAtEveryByte: of its answer. The client is told the truth: a whole
// answer only when there was one.
func TestUpstreamDepartsAtEveryByte(t *testing.T) {
	t.Parallel()
	departures(t, func(t *testing.T, gateway string, way int) {
		for sent := range len(departingAnswer) + 1 {
			key := fmt.Sprintf("cut-%d-%d", sent, (sent+way)%2)
			got, err := attempt(t.Context(), newTransport(), wireLimit, 1<<20, call{method: "POST", base: mustURL(t, "http://"+gateway), path: "/s",
				header: map[string][]string{"Idempotency-Key": {key}}, body: []byte("hola")})
			if whole := sent == len(departingAnswer); got.status == 201 && err == nil && !whole {
				t.Errorf("after %d bytes and a departure the client was told %d %q, whole", sent, got.status, got.body)
			}
		}
	})
}
