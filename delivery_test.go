// delivery_test.go owns what each fault of a plan looks like, read off the wire on both
// sides.

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// planOf is a plan of these faults.
func planOf(t *testing.T, specs ...string) *faultPlan {
	t.Helper()
	var faults []fault
	for _, spec := range specs {
		f, err := parseFault(spec)
		if err != nil {
			t.Fatal(err)
		}
		faults = append(faults, f)
	}
	return newFaultPlan(faults, 1)
}

// tellsHello answers each request with "hola" and closes; it counts by its connections.
func tellsHello(t *testing.T) *rawUpstream {
	t.Helper()
	return serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
		readRequest(in)
		io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\r\nhola")
	})
}

// TestFaultsOnTheWire: what the client reads, how its connection ends, and how often the
// upstream was asked.
func TestFaultsOnTheWire(t *testing.T) {
	t.Parallel()
	const (
		lostBack  = "la respuesta del servidor de detrás se perdió en el camino de vuelta"
		lostThere = "la petición se perdió en el camino de ida; el servidor de detrás no la recibió"
		byGateway = "la pasarela contesta esto a propósito; el servidor de detrás no recibió la petición"
	)
	head := func(point string) string {
		return "HTTP/1.1 201 Created\nContent-Length: 4\nContent-Type: a/b\nX-Simulado: " + point + "\n\n"
	}
	own := func(status int, phrase, point, detail string, more ...string) string {
		body := gatewayProblem(status, phrase, detail)
		lines := append([]string{fmt.Sprintf("HTTP/1.1 %d %s", status, phrase), fmt.Sprintf("Content-Length: %d", len(body)),
			"Content-Type: application/problem+json"}, more...)
		return strings.Join(append(lines, "X-Simulado: "+point), "\n") + "\n\n" + body
	}
	tests := []struct {
		specs string // separated by blanks
		want  string // all that the client reads, the head's lines sorted
		asked int64  // connections at the upstream
		reset bool   // the connection ends in a reset
		goOn  bool   // it does not end
	}{
		{specs: "before", want: own(502, "Bad Gateway", "before", lostThere), goOn: true},
		{specs: "after", want: own(502, "Bad Gateway", "after", lostBack), asked: 1, goOn: true},
		{specs: "cut-before-headers", asked: 1},
		{specs: "cut-before-headers:close", asked: 1},
		{specs: "cut-before-headers:reset", asked: 1, reset: true},
		{specs: "cut-after-headers", want: head("cut-after-headers"), asked: 1},
		{specs: "cut-after-headers:reset", want: head("cut-after-headers"), asked: 1, reset: true},
		{specs: "cut-after=0", want: head("cut-after"), asked: 1},
		{specs: "cut-after=2", want: head("cut-after") + "ho", asked: 1},
		{specs: "cut-after=3:reset", want: head("cut-after") + "hol", asked: 1, reset: true},
		{specs: "cut-after=4", want: head("cut-after") + "hola", asked: 1},
		{specs: "cut-after=5", want: head("cut-after") + "hola", asked: 1},
		{specs: "cut-after=99:reset", want: head("cut-after") + "hola", asked: 1, reset: true},
		{specs: "duplicate", want: head("duplicate") + "hola", asked: 2, goOn: true},
		{specs: "status=503", want: own(503, "Service Unavailable", "status", byGateway), goOn: true},
		{specs: "status=429:2", want: own(429, "Too Many Requests", "status", byGateway, "Retry-After: 2"), goOn: true},
		{specs: "delay=1ms", want: head("delay") + "hola", asked: 1, goOn: true},
		{specs: "delay=1ms:after", want: head("delay") + "hola", asked: 1, goOn: true},
		{specs: "after before", want: own(502, "Bad Gateway", "after", lostBack), asked: 1, goOn: true},
		{specs: "before after", want: own(502, "Bad Gateway", "before", lostThere), goOn: true},
		{specs: "after,nth=2 before", want: own(502, "Bad Gateway", "before", lostThere), goOn: true},
		{specs: "before delay=1ms delay=1ms:after", want: own(502, "Bad Gateway", "delay, before", lostThere), goOn: true},
		{specs: "delay=1ms cut-after=1", want: head("delay, cut-after") + "h", asked: 1},
		{specs: "after,nth=2 delay=1ms,nth=2", want: "HTTP/1.1 201 Created\nContent-Length: 4\nContent-Type: a/b\n\nhola", asked: 1, goOn: true},
	}
	for _, tt := range tests {
		t.Run(tt.specs, func(t *testing.T) {
			t.Parallel()
			up := tellsHello(t)
			gateway := serveGateway(t, up.url, gatewayConfig{plan: planOf(t, strings.Fields(tt.specs)...)})
			conn, in := dialWire(t, gateway)
			io.WriteString(conn, keyedPost)
			got, err := readOne(in)
			if got != tt.want {
				t.Errorf("client read %q, want %q", got, tt.want)
			}
			if n := up.connections.Load(); n != tt.asked {
				t.Errorf("the upstream was asked %d times, want %d", n, tt.asked)
			}
			if tt.goOn {
				io.WriteString(conn, keyedPost)
			}
			if err == nil {
				_, err = in.ReadByte()
			}
			if tt.goOn != (err == nil) || err != nil && tt.reset != errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the connection ended with %v, want that it goes on: %v, a reset: %v", err, tt.goOn, tt.reset)
			}
		})
	}
}

// readOne reads one answer, the head's lines sorted and without the Date; or what there
// is of it, and how the connection ended.
func readOne(in *bufio.Reader) (string, error) {
	if _, err := in.Peek(1); err != nil {
		return "", err
	}
	head := readHead(in)
	length := 0
	for line := range strings.SplitSeq(head, "\r\n") {
		fmt.Sscanf(line, "Content-Length: %d", &length)
	}
	body := make([]byte, length)
	n, err := io.ReadFull(in, body)
	return strings.Join(wireLines(head), "\n") + "\n\n" + string(body[:n]), err
}
