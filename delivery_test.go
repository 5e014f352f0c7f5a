// delivery_test.go owns what each fault of a plan looks like, read off the wire on both
// sides.

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
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
	return serveRaw(t, saying("HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\r\nhola"))
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

// TestLostByHeaderSaysSo: the 502 of perder-primera names it, and its second arrival
// meets nothing; a plan and X-Simular do not get in each other's way.
func TestLostByHeaderSaysSo(t *testing.T) {
	t.Parallel()
	const lose = "POST /s HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\nX-Simular: perder-primera\r\nContent-Length: 4\r\n\r\nhola"
	tests := []struct {
		name   string
		plan   *faultPlan
		ignore bool // --no-simulate
		want   []string
	}{
		{"alone", nil, false, []string{"perder-primera", ""}},
		{"ignored", nil, true, []string{"", ""}},
		{"before what is planned", planOf(t, "status=503"), false, []string{"perder-primera", ""}},
		{"beside what is planned", planOf(t, "status=503,nth=2"), false, []string{"perder-primera", "status"}},
		{"ignored, beside what is planned", planOf(t, "status=503,nth=2"), true, []string{"", "status"}},
		{"with a delay", planOf(t, "delay=1ms"), false, []string{"delay, perder-primera", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, in := dialWire(t, serveGateway(t, tellsHello(t).url, gatewayConfig{simulate: !tt.ignore, plan: tt.plan}))
			for i, want := range tt.want {
				io.WriteString(conn, lose)
				if _, header, _ := readAnswer(t, in); header.Get("X-Simulado") != want {
					t.Errorf("X-Simulado of answer %d = %q, want %q", i+1, header.Get("X-Simulado"), want)
				}
			}
		})
	}
}

// TestDelays: where the time passes, and that an exchange may take longer for it than the
// upstream's patience.
func TestDelays(t *testing.T) {
	t.Parallel()
	const delay = 150 * time.Millisecond
	tests := []struct {
		spec          string
		before, after time.Duration // at least
	}{
		{"delay=150ms", delay, 0},
		{"delay=150ms:after", 0, delay},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			t.Parallel()
			book := newLedger(1, nil, slog.New(slog.DiscardHandler))
			gateway := serveGateway(t, tellsHello(t).url, gatewayConfig{plan: planOf(t, tt.spec), ledger: book, now: time.Now, patience: delay / 2})
			if got := post(t, gateway, "/s", "k1", "a"); got.status != 201 || got.header.Get("X-Simulado") != "delay" {
				t.Errorf("answer = %d %v, want 201 and X-Simulado: delay", got.status, got.header)
			}
			a := book.ended(t, 1)[0]
			if before, after := a.Forwarded.Sub(a.Arrived), a.Ended.Sub(a.Answered); before < tt.before || after < tt.after {
				t.Errorf("%v passed before it was forwarded and %v after the answer, want at least %v, %v", before, after, tt.before, tt.after)
			}
		})
	}
}

// TestDelayOutlastsTheServersLimits: what is added on purpose comes on top of the time
// that an exchange has.
func TestDelayOutlastsTheServersLimits(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"delay=300ms", "delay=300ms:after"} {
		listener, discard := testListener(t), slog.New(slog.DiscardHandler)
		handler := newGateway(gatewayConfig{target: mustURL(t, tellsHello(t).url), plan: planOf(t, spec), log: discard})
		server := newHTTPServer(site{role: "test", listener: listener, handler: handler}, discard)
		server.ReadTimeout, server.WriteTimeout = 150*time.Millisecond, 150*time.Millisecond
		go server.Serve(listener)
		t.Cleanup(func() { server.Close() })
		if got := post(t, listener.Addr().String(), "/s", "k1", "a"); got.status != 201 || string(got.body) != "hola" {
			t.Errorf("%s: answer = %d %q, want 201 hola", spec, got.status, got.body)
		}
	}
}

// TestDelayedRequestArrivesLate: its client gave up meanwhile, and it arrives all the
// same, whole.
func TestDelayedRequestArrivesLate(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 20<<10)
	tests := []struct{ name, key string }{{"with a key", "Idempotency-Key: k1\r\n"}, {"without", ""}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan int, 1)
			up := serveRaw(t, func(_ *net.TCPConn, in *bufio.Reader) {
				readHead(in)
				n, _ := io.ReadFull(in, make([]byte, len(body)))
				arrived <- n
			})
			log := &benchLog{}
			conn, _ := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, "delay=200ms"), log: log.logger()}))
			fmt.Fprintf(conn, "POST /s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n%s", tt.key, len(body), body)
			eventually(t, "it is at the gateway", func() bool { return strings.Contains(log.String(), "fault on purpose") })
			conn.Close()
			select {
			case n := <-arrived:
				if n != len(body) {
					t.Errorf("%d bytes of the body arrived, want %d", n, len(body))
				}
			case <-time.After(wireLimit):
				t.Error("it never arrived")
			}
		})
	}
}

// TestPlanStreams: what comes in pieces is passed on in pieces, both ways, also under a
// plan and a ledger.
func TestPlanStreams(t *testing.T) {
	t.Parallel()
	up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
		readHead(in)
		for _, piece := range []string{"1\r\na\r\n", "1\r\nb\r\n"} { // each is answered before the next one is sent
			got := make([]byte, len(piece))
			io.ReadFull(in, got)
			if string(got) != piece {
				t.Errorf("upstream read %q, want %q", got, piece)
			}
			if piece[3] == 'a' {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			}
			io.WriteString(conn, piece)
		}
		io.WriteString(conn, "0\r\n\r\n")
	})
	book := newLedger(1, nil, slog.New(slog.DiscardHandler))
	for _, spec := range []string{"after,nth=2", "cut-after=99"} {
		conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, spec), ledger: book, now: time.Now}))
		io.WriteString(conn, "POST /s HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
		readHead(in)
		expect := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
				t.Errorf("%s: client read %q, %v, want %q", spec, got, err, want)
			}
		}
		expect("1\r\na\r\n")
		io.WriteString(conn, "1\r\nb\r\n0\r\n\r\n")
		expect("1\r\nb\r\n")
	}
}

// TestCutDoesNotWait: a connection is cut where it is to be cut, although the upstream has
// more to say and does not say it.
func TestCutDoesNotWait(t *testing.T) {
	t.Parallel()
	tests := []struct{ spec, want string }{{"cut-after-headers", ""}, {"cut-after=2", "ho"}}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				readRequest(in)
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"+tt.want)
				io.Copy(io.Discard, in) // until the gateway leaves
			})
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, tt.spec)}))
			io.WriteString(conn, keyedPost)
			readHead(in)
			if got, err := io.ReadAll(in); err != nil || string(got) != tt.want {
				t.Errorf("after the head: %q, %v, want %q and the end", got, err, tt.want)
			}
		})
	}
}

// TestFlushAfterTheCut: httputil's own timer may still flush, and nobody would catch a
// panic there: the program would end.
func TestFlushAfterTheCut(t *testing.T) {
	t.Parallel()
	flushed := make(chan error, 1)
	conn, in := dialWire(t, serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d := &delivery{ResponseWriter: w, limit: -1}
		d.WriteHeader(http.StatusOK)
		io.WriteString(d, "ho")
		if err := d.sever(true); err != nil {
			t.Errorf("sever = %v, want nil", err)
		}
		defer func() {
			if crash := recover(); crash != nil {
				t.Errorf("flush after the cut panics: %v", crash)
				flushed <- nil
			}
		}()
		flushed <- http.NewResponseController(d).Flush()
	})))
	io.WriteString(conn, keyedPost)
	io.Copy(io.Discard, in)
	if err := <-flushed; !errors.Is(err, http.ErrHijacked) {
		t.Errorf("flush after the cut = %v, want %v", err, http.ErrHijacked)
	}
}

// TestLostRequestWithALongBody: the answer reaches a client that sends everything before
// it reads, and the ledger has it.
func TestLostRequestWithALongBody(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"before", "status=503"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			plan, book := planOf(t, spec), newLedger(1, nil, slog.New(slog.DiscardHandler))
			up := tellsHello(t)
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: plan, ledger: book, now: time.Now}))
			const length = 8 << 20
			fmt.Fprintf(conn, "POST /s HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n", length)
			if _, err := conn.Write(make([]byte, length)); err != nil {
				t.Fatal(err)
			}
			status, header, body := readAnswer(t, in)
			if status < 500 || header.Get("X-Simulado") != string(plan.faults[0].point) {
				t.Errorf("answer = %d %v, want the fault's", status, header)
			}
			if got := book.ended(t, 1)[0]; got.Status != status || got.Bytes != int64(len(body)) || !got.Whole || got.Upstream != 0 {
				t.Errorf("ledger = %+v, want status %d, %d bytes, no upstream", got, status, len(body))
			}
			if n := up.connections.Load(); n != 0 {
				t.Errorf("the upstream was asked %d times, want never", n)
			}
		})
	}
}
