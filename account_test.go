// account_test.go owns that the ledger's account of an exchange is true: an answer is
// whole when its client got it all, a request counts when it came whole, and nothing that
// came is missing in the file.

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// noLog is for what nobody reads.
func noLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestWholeAnswersUnderACut: a cut that takes nothing of an answer leaves it whole.
func TestWholeAnswersUnderACut(t *testing.T) {
	t.Parallel()
	const ten = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
	const nothing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	tests := []struct {
		spec, method, up string
		bytes            int64
		whole            bool
	}{
		{"cut-after=11", "GET", ten, 10, true},
		{"cut-after=10", "GET", ten, 10, true},
		{"cut-after=10:reset", "GET", ten, 10, true},
		{"cut-after=9", "GET", ten, 9, false},
		{"cut-after-headers", "GET", ten, 0, false},
		{"cut-after-headers", "GET", nothing, 0, true},
		{"cut-after=5", "GET", nothing, 0, true},
		{"cut-after=5", "HEAD", ten[:len(ten)-10], 0, true},
		{"cut-after-headers", "HEAD", ten[:len(ten)-10], 0, true},
		{"cut-after=0", "GET", "HTTP/1.1 204 No Content\r\n\r\n", 0, true},
		{"cut-after-headers", "GET", "HTTP/1.1 204 No Content\r\n\r\n", 0, true},
		{"cut-after=5", "GET", "HTTP/1.1 304 Not Modified\r\n\r\n", 0, true},
		{"cut-after-headers", "GET", "HTTP/1.1 304 Not Modified\r\n\r\n", 0, true},
		{"cut-before-headers", "GET", nothing, 0, false},
		// Its last chunk is not sent, so that the client knows of no end.
		{"cut-after=99", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhola\r\n0\r\n\r\n", 4, false},
	}
	for _, tt := range tests {
		t.Run(tt.spec+" "+tt.method+" "+strings.Fields(tt.up)[1], func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				readHead(in)
				io.WriteString(conn, tt.up)
			})
			book := newLedger(1, nil, noLog())
			conn, _ := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, tt.spec), ledger: book, now: time.Now}))
			fmt.Fprintf(conn, "%s /s HTTP/1.1\r\nHost: a\r\n\r\n", tt.method)
			io.Copy(io.Discard, conn)
			conn.Close()
			if a := book.ended(t, 1)[0]; a.Whole != tt.whole || a.Bytes != tt.bytes {
				t.Errorf("ledger says whole %v, %d bytes, want %v, %d", a.Whole, a.Bytes, tt.whole, tt.bytes)
			}
		})
	}
}

// TestAnswersThatBreakOff: the ledger says what was sent of one, which its client sees.
func TestAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "hola"} {
		up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
			readRequest(in)
			io.WriteString(conn, "HTTP/1.1 203 Otra\r\nX-Uno: 1\r\nContent-Length: 10\r\n\r\n"+body)
		})
		for _, spec := range []string{"after,nth=2", "cut-after=7", "duplicate", "delay=1ms"} {
			book := newLedger(1, nil, noLog())
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, spec), ledger: book, now: time.Now}))
			io.WriteString(conn, keyedPost)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s, %q: %v, want the head that the upstream sent", spec, body, err)
			}
			got, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 203 || resp.Header.Get("X-Uno") != "1" || string(got) != body || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: answer = %d %v %q, %v, want 203 and %q, cut", spec, resp.StatusCode, resp.Header, got, err, body)
			}
			if a := book.ended(t, 1)[0]; a.Status != 203 || a.Bytes != int64(len(body)) || a.Whole {
				t.Errorf("%s: ledger = %+v, want 203, %d bytes, not whole", spec, a, len(body))
			}
		}
	}
}

// TestAnswersToWhoLeft: an answer is not whole when its client was known to have left
// before it was sent.
func TestAnswersToWhoLeft(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"delay=300ms", "delay=300ms duplicate", "delay=300ms before", "delay=300ms after", "delay=300ms:after", "delay=300ms cut-after=99"} {
		for reset := range 2 {
			t.Run(fmt.Sprint(spec, " ", reset), func(t *testing.T) {
				t.Parallel()
				log := &benchLog{}
				book := newLedger(1, nil, noLog())
				gateway := serveGateway(t, tellsHello(t).url, gatewayConfig{plan: planOf(t, strings.Fields(spec)...), ledger: book, now: time.Now, log: log.logger()})
				conn, _ := dialWire(t, gateway)
				io.WriteString(conn, keyedPost)
				eventually(t, "it is at the gateway", func() bool { return strings.Contains(log.String(), "fault on purpose") })
				depart(conn, reset)
				if a := book.ended(t, 1)[0]; a.Whole || a.Number != 1 {
					t.Errorf("ledger = %+v, want an arrival that counts, and no whole answer", a)
				}
			})
		}
	}
	for _, key := range []string{"", "Idempotency-Key: k\r\n"} {
		t.Run("in its body, "+key, func(t *testing.T) {
			t.Parallel()
			book := newLedger(1, nil, noLog())
			conn, _ := dialWire(t, serveGateway(t, tellsHello(t).url, gatewayConfig{ledger: book, now: time.Now}))
			io.WriteString(conn, "POST /s HTTP/1.1\r\nHost: a\r\n"+key+"Content-Length: 10\r\n\r\nhola")
			conn.Close()
			if a := book.ended(t, 1)[0]; a.Whole || a.Status != 400 || a.Number != 0 {
				t.Errorf("ledger = %+v, want a 400 that is not whole, of an arrival that does not count", a)
			}
		})
	}
}

// TestBrokenBodiesUseNothingUp: what is planned for the first arrival befalls the first
// that comes whole.
func TestBrokenBodiesUseNothingUp(t *testing.T) {
	t.Parallel()
	const lose = "X-Simular: perder-primera\r\n"
	short, long := strings.Repeat("x", 100), strings.Repeat("x", 2*identityBody)
	tests := []struct{ name, spec, fields, body string }{
		{"with a key", "after", "Idempotency-Key: k\r\n", short},
		{"with a key, long", "after", "Idempotency-Key: k\r\n", long},
		{"without, long", "after", "", long},
		{"without, short", "after", "", short},
		{"never forwarded", "before", "Idempotency-Key: k\r\n", short},
		{"answered here", "status=503", "Idempotency-Key: k\r\n", short},
		{"cut", "cut-before-headers", "Idempotency-Key: k\r\n", long},
		{"cut in the body", "cut-after=2", "Idempotency-Key: k\r\n", long},
		{"delayed", "delay=1ms", "Idempotency-Key: k\r\n", long},
		{"twice", "duplicate", "Idempotency-Key: k\r\n", long},
		{"lost by X-Simular", "perder-primera", "Idempotency-Key: k\r\n" + lose, long},
		{"lost by X-Simular, without a key", "perder-primera", lose, long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := gatewayConfig{ledger: newLedger(3, nil, noLog()), now: time.Now, simulate: true}
			if tt.spec != "perder-primera" {
				cfg.plan = planOf(t, tt.spec)
			}
			gateway := serveGateway(t, tellsHello(t).url, cfg)
			whole := fmt.Sprintf("POST /s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", tt.fields, len(tt.body), tt.body)
			for i, sent := range []string{whole[:len(whole)-1], whole, whole} {
				conn, in := dialWire(t, gateway)
				io.WriteString(conn, sent)
				if i == 0 {
					conn.CloseWrite()
				}
				io.Copy(io.Discard, in)
				conn.Close()
				cfg.ledger.ended(t, i+1)
			}
			for i, want := range []arrival{{Status: 400}, {Number: 1, Fault: tt.spec}, {Number: 2}} {
				got := cfg.ledger.arrivals()[i]
				if got.Number != want.Number || got.Fault != want.Fault || want.Status != 0 && got.Status != want.Status {
					t.Errorf("arrival %d = %+v, want number %d, fault %q", i+1, got, want.Number, want.Fault)
				}
			}
		})
	}
}

// TestIdentitiesOnTheWire: which spellings of a request are one, and how it is shown.
func TestIdentitiesOnTheWire(t *testing.T) {
	t.Parallel()
	whole, longer := strings.Repeat("x", identityBody), strings.Repeat("x", identityBody+1)
	length := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }
	chunked := func(body string) string {
		return "Transfer-Encoding: chunked\r\n\r\n" + chunk(body[:1]) + chunk(body[1:]) + lastChunk
	}
	tests := []struct {
		name, first, second string // from the method to the end, Host left out
		want                bool   // they are one
		path                string // of both
	}{
		{"a length or chunks", "/s HTTP/1.1\r\n" + length("hola"), "/s HTTP/1.1\r\n" + chunked("hola"), true, "/s"},
		{"the same, as long as can be known", "/s HTTP/1.1\r\n" + length(whole), "/s HTTP/1.1\r\n" + chunked(whole), true, "/s"},
		{"longer, the length of chunks is not known", "/s HTTP/1.1\r\n" + length(longer), "/s HTTP/1.1\r\n" + chunked(longer), false, "/s"},
		{"no body", "/s HTTP/1.1\r\n\r\n", "/s HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + lastChunk, true, "/s"},
		{"an absolute target", "/s%2f?q HTTP/1.1\r\n\r\n", "http://a/s%2f?q HTTP/1.1\r\n\r\n", true, "/s%2f?q"},
		{"of another host too", "/ HTTP/1.1\r\n\r\n", "http://otro:99 HTTP/1.1\r\n\r\n", true, "/"},
		{"an empty key", "/s HTTP/1.1\r\n" + length("hola"), "/s HTTP/1.1\r\nIdempotency-Key:\r\n" + length("hola"), true, "/s"},
		{"a key of blanks", "/s HTTP/1.1\r\n" + length("hola"), "/s HTTP/1.1\r\nIdempotency-Key: \t \r\n" + length("hola"), true, "/s"},
		{"empty keys", "/s HTTP/1.1\r\n" + length("hola"), "/s HTTP/1.1\r\nIdempotency-Key: \"\"\r\nIdempotency-Key:\r\n" + length("hola"), true, "/s"},
		{"empty keys, other bodies", "/s HTTP/1.1\r\nIdempotency-Key:\r\n" + length("a"), "/s HTTP/1.1\r\nIdempotency-Key:\r\n" + length("b"), false, "/s"},
		{"a key beside an empty one", "/s HTTP/1.1\r\nIdempotency-Key: k\r\nIdempotency-Key:\r\n" + length("a"),
			"/s HTTP/1.1\r\nIdempotency-Key: k\r\nIdempotency-Key:\r\n" + length("b"), true, "/s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			book := newLedger(2, nil, noLog())
			gateway := serveGateway(t, tellsHello(t).url, gatewayConfig{ledger: book, now: time.Now})
			for i, request := range []string{tt.first, tt.second} {
				conn, in := dialWire(t, gateway)
				io.WriteString(conn, "POST "+strings.Replace(request, " HTTP/1.1\r\n", " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", 1))
				io.Copy(io.Discard, in)
				book.ended(t, i+1)
			}
			first, second := book.arrivals()[0], book.arrivals()[1]
			if first.Number != 1 || (second.Number == 2) != tt.want || (first.Identity == second.Identity) != tt.want {
				t.Errorf("they are %q, %d and %q, %d, want the same: %v", first.Identity, first.Number, second.Identity, second.Number, tt.want)
			}
			if first.Path != tt.path || second.Path != tt.path {
				t.Errorf("paths = %q, %q, want %q", first.Path, second.Path, tt.path)
			}
		})
	}
}

// TestStopIsNoted: what is under way when the process ends has its line in the file.
func TestStopIsNoted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "arribos.jsonl")
	up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
		if head := readHead(in); strings.Contains(head, " /begins ") {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhola")
		}
		io.Copy(io.Discard, in) // until the gateway leaves
	})
	log := &benchLog{}
	p := &process{ctx: t.Context(), now: time.Now, random: func() float64 { return 0 }}
	handler, _, release, err := p.startGateway(serveOptions{target: mustURL(t, up.url), ledger: file, faults: planOf(t, "delay=10m,nth=2").faults}, nil, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	listener := testListener(t)
	server := newHTTPServer(site{role: "test", listener: listener, handler: handler}, noLog())
	go server.Serve(listener)
	for i, path := range []string{"/begins", "/mute", "/mute"} {
		conn, in := dialWire(t, listener.Addr().String())
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
		switch i {
		case 0:
			readHead(in)
			io.ReadFull(in, make([]byte, 4))
		case 1:
			eventually(t, "it is at the upstream", func() bool { return up.connections.Load() == 2 })
		case 2:
			eventually(t, "it waits", func() bool { return strings.Contains(log.String(), "fault on purpose") })
		}
	}
	server.Close()
	release()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(text) {
		var a arrival
		if err := json.Unmarshal(line, &a); err != nil || a.Ended.IsZero() {
			t.Errorf("line %s: %v, want an exchange that has ended", line, err)
		}
		got = append(got, fmt.Sprintf("%s %q %d %d %v", a.Path, a.Fault, a.Status, a.Bytes, a.Whole))
	}
	slices.Sort(got)
	want := []string{`/begins "" 200 4 false`, `/mute "" 0 0 false`, `/mute "delay=10m0s" 0 0 false`}
	if !slices.Equal(got, want) {
		t.Errorf("the file says %q, want %q", got, want)
	}
}

// tornDisk takes half of each second line.
type tornDisk struct {
	bytes.Buffer
	lines int
}

func (d *tornDisk) Write(p []byte) (int, error) {
	if d.lines++; d.lines%2 == 0 {
		n, _ := d.Buffer.Write(p[:len(p)/2])
		return n, errors.New("no space left on device")
	}
	return d.Buffer.Write(p)
}

// TestTornLines: a line begins on a line of its own, whoever was cut off before.
func TestTornLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ before, want string }{{"", ""}, {"{}\n", "{}\n"}, {"{}\n{\"secu", "{}\n{\"secu\n"}} {
		name := filepath.Join(t.TempDir(), "arribos.jsonl")
		if err := os.WriteFile(name, []byte(tt.before), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := openLedgerFile(name)
		if err != nil {
			t.Fatal(err)
		}
		book := newLedger(1, file, noLog())
		book.end(book.begin(arrival{}), func(*arrival) {})
		file.Close()
		text, err := os.ReadFile(name)
		if rest, found := strings.CutPrefix(string(text), tt.want+"{"); err != nil || !found || strings.Count(rest, "\n") != 1 {
			t.Errorf("behind %q the file is %q, %v, want %q and a line", tt.before, text, err, tt.want)
		}
	}
	disk := &tornDisk{}
	book := newLedger(1, disk, noLog())
	for range 4 {
		book.end(book.begin(arrival{}), func(*arrival) {})
	}
	var whole int
	for line := range bytes.Lines(disk.Bytes()) {
		if json.Valid(line) {
			whole++
		}
	}
	if whole != 2 {
		t.Errorf("%d whole lines in %q, want the 2 that were not torn", whole, disk.String())
	}
}
