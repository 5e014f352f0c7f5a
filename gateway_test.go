// gateway_test.go owns the gateway's contract, read off the wire on both sides: raw
// upstreams and raw clients, because what is promised is about bytes.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wireLimit bounds what a test waits for on a connection.
const wireLimit = 10 * time.Second

// serveGateway runs a gateway in front of target as the binary runs it, and returns
// its host and port.
func serveGateway(t *testing.T, target string, cfg gatewayConfig) string {
	t.Helper()
	var err error
	if cfg.target, err = url.Parse(target); err != nil {
		t.Fatal(err)
	}
	if cfg.log == nil {
		cfg.log = slog.New(slog.DiscardHandler)
	}
	return serveHandler(t, newGateway(cfg))
}

// serveHandler runs any handler with the settings that all our servers share.
func serveHandler(t *testing.T, handler http.Handler) string {
	t.Helper()
	listener := testListener(t)
	server := newHTTPServer(site{role: "test", listener: listener, handler: handler}, slog.New(slog.DiscardHandler))
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// rawUpstream is a server that speaks bytes: it counts connections and gives each to
// serve, which may keep it as long as it likes.
type rawUpstream struct {
	url         string
	connections atomic.Int64
}

func serveRaw(t *testing.T, serve func(conn *net.TCPConn, in *bufio.Reader)) *rawUpstream {
	t.Helper()
	listener := testListener(t)
	up := &rawUpstream{url: "http://" + listener.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() { listener.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			up.connections.Add(1)
			conn.SetDeadline(time.Now().Add(wireLimit))
			running.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn), bufio.NewReader(conn))
			})
		}
	})
	return up
}

// saying takes a request off the wire and writes text, to be served by serveRaw.
func saying(text string) func(conn *net.TCPConn, in *bufio.Reader) {
	return func(conn *net.TCPConn, in *bufio.Reader) {
		readRequest(in)
		io.WriteString(conn, text)
	}
}

// readHead reads a message's header section, without the empty line at its end.
func readHead(in *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == "\r\n" {
			return head.String()
		}
		head.WriteString(line)
	}
}

// dialWire opens a connection with a deadline.
func dialWire(t *testing.T, address string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(wireLimit))
	return conn.(*net.TCPConn), bufio.NewReader(conn)
}

// wireLines are a head's lines in an order that does not depend on a map: the first,
// then the rest sorted, without the Date that a server adds.
func wireLines(head string) []string {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n"), "\r\n")
	rest := slices.DeleteFunc(lines[1:], func(line string) bool { return strings.HasPrefix(line, "Date: ") })
	slices.Sort(rest)
	return append(lines[:1:1], rest...)
}

func TestGatewayRequestOnTheWire(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		sent []string // request line and header fields; Host is added
		body string
		want []string // lines at the upstream, sorted; Host is added
		left string   // what follows the head there
	}{
		{name: "nothing is added", sent: []string{"GET /servicios HTTP/1.1"}, want: []string{"GET /servicios HTTP/1.1"}},
		{name: "odd escapes", sent: []string{"GET /a%2Fb;x=1/%41/%zz?no HTTP/1.1"}, want: nil},
		{name: "escapes that Go would spell otherwise", sent: []string{"GET /%41%7e/a%2Fb;v=1/(x) HTTP/1.1"},
			want: []string{"GET /%41%7e/a%2Fb;v=1/(x) HTTP/1.1"}},
		{name: "bytes that should have been escaped", sent: []string{`GET /a"b|c^d\é HTTP/1.1`}, want: []string{`GET /a"b|c^d\é HTTP/1.1`}},
		{name: "dots are not resolved", sent: []string{"GET /a/../b/./c// HTTP/1.1"}, want: []string{"GET /a/../b/./c// HTTP/1.1"}},
		{name: "two slashes at the beginning", sent: []string{"GET //a%2fb/c HTTP/1.1"}, want: []string{"GET //a%2fb/c HTTP/1.1"}},
		{name: "a query with a semicolon and broken escapes", sent: []string{"GET /s?a=1;b=2&c=%zz&%&d HTTP/1.1"},
			want: []string{"GET /s?a=1;b=2&c=%zz&%&d HTTP/1.1"}},
		{name: "an empty query", sent: []string{"GET /s? HTTP/1.1"}, want: []string{"GET /s? HTTP/1.1"}},
		{name: "two question marks", sent: []string{"GET /s?a?b HTTP/1.1"}, want: []string{"GET /s?a?b HTTP/1.1"}},
		{name: "an absolute target is sent as its path, byte for byte", sent: []string{"GET http://revisor.example:99/%41;x%2fy?b=%zz HTTP/1.1"},
			want: []string{"GET /%41;x%2fy?b=%zz HTTP/1.1"}},
		{name: "an absolute target without a path", sent: []string{"GET http://revisor.example:99?a HTTP/1.1"}, want: []string{"GET /?a HTTP/1.1"}},
		{name: "a path that has an address in it", sent: []string{"GET /x/http://a/b?c=d://e HTTP/1.1"}, want: []string{"GET /x/http://a/b?c=d://e HTTP/1.1"}},
		{name: "the asterisk", sent: []string{"OPTIONS * HTTP/1.1"}, want: []string{"OPTIONS * HTTP/1.1"}},
		{name: "an unknown method", sent: []string{"BREW /s HTTP/1.1"}, want: []string{"BREW /s HTTP/1.1"}},
		{name: "what the client says of itself", sent: []string{"GET /s HTTP/1.1", "User-Agent: curl/8", "Accept-Encoding: br, gzip", "Accept: */*"},
			want: []string{"GET /s HTTP/1.1", "Accept-Encoding: br, gzip", "Accept: */*", "User-Agent: curl/8"}},
		{name: "forwarding fields as they came", sent: []string{"GET /s HTTP/1.1", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: x",
			"X-Forwarded-Proto: https", "Forwarded: for=a", "Forwarded: for=b"},
			want: []string{"GET /s HTTP/1.1", "Forwarded: for=a", "Forwarded: for=b", "X-Forwarded-For: 203.0.113.9",
				"X-Forwarded-Host: x", "X-Forwarded-Proto: https"}},
		{name: "hop-by-hop fields and what Connection names are dropped",
			sent: []string{"GET /s HTTP/1.1", "Connection: keep-alive, X-Uno,x-forwarded-for", "X-Uno: 1", "X-Forwarded-For: a", "X-Dos: 2",
				"Keep-Alive: timeout=5", "Proxy-Connection: x", "Proxy-Authorization: x", "TE: gzip", "Upgrade: h2c"},
			want: []string{"GET /s HTTP/1.1", "X-Dos: 2"}},
		{name: "no protocol is switched", sent: []string{"GET /s HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"},
			want: []string{"GET /s HTTP/1.1"}},
		{name: "the key and the fault asked for", sent: []string{"POST /s HTTP/1.1", "Content-Length: 0", "Idempotency-Key: a", "Idempotency-Key: b", "X-Simular: otra-cosa"},
			want: []string{"POST /s HTTP/1.1", "Content-Length: 0", "Idempotency-Key: a", "Idempotency-Key: b", "X-Simular: otra-cosa"}},
		{name: "a body with its length", sent: []string{"POST /s HTTP/1.1", "Content-Length: 4"}, body: "hola",
			want: []string{"POST /s HTTP/1.1", "Content-Length: 4"}, left: "hola"},
		{name: "a body in chunks", sent: []string{"POST /s HTTP/1.1", "Transfer-Encoding: chunked"}, body: "4\r\nhola\r\n0\r\n\r\n",
			want: []string{"POST /s HTTP/1.1", "Transfer-Encoding: chunked"}, left: "4\r\nhola\r\n0\r\n\r\n"},
		{name: "trailers of a request", sent: []string{"POST /s HTTP/1.1", "Transfer-Encoding: chunked", "Trailer: X-Suma"},
			body: "4\r\nhola\r\n0\r\nX-Suma: 9\r\n\r\n",
			want: []string{"POST /s HTTP/1.1", "Trailer: X-Suma", "Transfer-Encoding: chunked"}, left: "4\r\nhola\r\n0\r\nX-Suma: 9\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			arrived, rest := make(chan string, 2), make(chan string, 2)
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				arrived <- readHead(in)
				body := make([]byte, len(tt.left))
				io.ReadFull(in, body)
				rest <- string(body)
				io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			})
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{simulate: true}))
			io.WriteString(conn, strings.Join(append(tt.sent, "Host: revisor.example:99"), "\r\n")+"\r\n\r\n"+tt.body)
			answer := readHead(in)
			if tt.want == nil { // Go's server refuses it before any handler
				if !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
					t.Errorf("answer = %q, want a 400", answer)
				}
				return
			}
			if !strings.HasPrefix(answer, "HTTP/1.1 204 ") {
				t.Fatalf("answer = %q, want a 204", answer)
			}
			want := wireLines(strings.Join(append(tt.want, "Host: revisor.example:99"), "\r\n"))
			if got := wireLines(<-arrived); !slices.Equal(got, want) {
				t.Errorf("upstream read %q, want %q", got, want)
			}
			if got := <-rest; got != tt.left {
				t.Errorf("upstream's body = %q, want %q", got, tt.left)
			}
		})
	}
}

func TestGatewayAnswerOnTheWire(t *testing.T) {
	t.Parallel()
	const early = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	tests := []struct {
		name   string
		method string // GET when empty
		up     string // what the upstream sends, whole
		want   []string
		left   string // what follows the head
	}{
		{name: "length kept", up: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nhola",
			want: []string{"HTTP/1.1 200 OK", "Content-Length: 4", "Content-Type: text/plain"}, left: "hola"},
		{name: "no type is guessed", up: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
			want: []string{"HTTP/1.1 200 OK", "Content-Length: 6"}, left: "<html>"},
		{name: "nothing is unpacked", up: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
			want: []string{"HTTP/1.1 200 OK", "Content-Encoding: gzip", "Content-Length: 3", "Content-Type: a/b"}, left: "\x1f\x8b\x08"},
		{name: "fields in several lines", up: "HTTP/1.1 201 Created\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
			want: []string{"HTTP/1.1 201 Created", "Content-Length: 0", "Set-Cookie: a=1", "Set-Cookie: b=2"}},
		{name: "hop-by-hop fields are dropped", up: "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Uno\r\nX-Uno: 1\r\nKeep-Alive: x\r\nX-Dos: 2\r\nContent-Length: 0\r\n\r\n",
			want: []string{"HTTP/1.1 200 OK", "Content-Length: 0", "X-Dos: 2"}},
		{name: "204", up: "HTTP/1.1 204 No Content\r\nETag: \"a\"\r\n\r\n", want: []string{"HTTP/1.1 204 No Content", `Etag: "a"`}},
		{name: "304", up: "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", want: []string{"HTTP/1.1 304 Not Modified", `Etag: "a"`}},
		{name: "HEAD keeps the length of what was not sent", method: "HEAD", up: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 99\r\n\r\n",
			want: []string{"HTTP/1.1 200 OK", "Content-Length: 99", "Content-Type: a/b"}},
		{name: "HEAD without a length", method: "HEAD", up: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\n",
			want: []string{"HTTP/1.1 200 OK", "Content-Type: a/b"}},
		{name: "a moved path is an answer", up: "HTTP/1.1 301 Moved Permanently\r\nLocation: /otra\r\nContent-Length: 0\r\n\r\n",
			want: []string{"HTTP/1.1 301 Moved Permanently", "Content-Length: 0", "Location: /otra"}},
		{name: "an interim answer goes before", up: early + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			want: []string{"HTTP/1.1 103 Early Hints", "Link: </x>"}, left: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: "},
		{name: "trailers", up: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTrailer: X-Suma\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhola\r\n0\r\nX-Suma: 9\r\n\r\n",
			want: []string{"HTTP/1.1 200 OK", "Content-Type: a/b", "Trailer: X-Suma", "Transfer-Encoding: chunked"}, left: "4\r\nhola\r\n0\r\nX-Suma: 9\r\n\r\n"},
		{name: "an unknown status", up: "HTTP/1.1 799 Nada\r\nContent-Length: 0\r\n\r\n", want: []string{"HTTP/1.1 799 status code 799", "Content-Length: 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, saying(tt.up))
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{}))
			method := tt.method
			if method == "" {
				method = "GET"
			}
			io.WriteString(conn, method+" /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			head := strings.Replace(readHead(in), "Connection: close\r\n", "", 1)
			if got := wireLines(head); !slices.Equal(got, wireLines(strings.Join(tt.want, "\r\n"))) {
				t.Errorf("client read %q, want %q", got, tt.want)
			}
			left, err := io.ReadAll(in)
			if err != nil || !strings.HasPrefix(string(left), tt.left) || tt.left == "" && len(left) > 0 {
				t.Errorf("after the head: %q, %v, want %q", left, err, tt.left)
			}
		})
	}
}

// keyedPost is a whole request whose repetition by a transport would be a second one.
const keyedPost = "POST /servicios HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\nContent-Length: 4\r\n\r\nhola"

// gatewayProblem is the body of the gateway's own problems.
func gatewayProblem(status int, title, detail string) string {
	return fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":%q}`+"\n", title, status, detail)
}

func TestGatewayUpstreamTrouble(t *testing.T) {
	t.Parallel()
	const none = "el servidor de detrás no dio respuesta: "
	reset := func(conn *net.TCPConn, in *bufio.Reader) { readHead(in); conn.SetLinger(0) }
	tests := []struct {
		name   string
		serve  func(conn *net.TCPConn, in *bufio.Reader)
		status int
		want   []string // how the detail begins, one of them
	}{
		{"cut before a byte", func(_ *net.TCPConn, in *bufio.Reader) { readRequest(in) }, 502, []string{none + "la conexión se cortó"}},
		{"reset", reset, 502, []string{none + "ECONNRESET, el otro lado cortó la conexión", none + "la conexión se cortó",
			none + "EPIPE, el otro lado cerró antes de leerlo todo"}},
		{"cut in the status line", saying("HTTP/1.1 20"), 502, []string{none + "lo que llegó no se entiende como HTTP"}},
		{"cut in the header section", saying("HTTP/1.1 201 Created\r\nContent-Le"), 502, []string{none + "lo que llegó no se entiende como HTTP"}},
		{"not HTTP", saying("\x00\xff nada\r\n\r\n"), 502, []string{none + "lo que llegó no se entiende como HTTP"}},
		{"an interim answer and no more", saying("HTTP/1.1 103 Early Hints\r\n\r\n"), 502, []string{none + "la conexión se cortó"}},
		{"a protocol switch that nobody asked for", saying("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), 502, []string{"el servidor de detrás contestó algo que no es una respuesta final de HTTP"}},
		{"a status below 100", saying("HTTP/1.1 042 Nada\r\nContent-Length: 0\r\n\r\n"), 502, []string{"el servidor de detrás contestó algo que no es una respuesta final de HTTP"}},
		{"mute", func(_ *net.TCPConn, in *bufio.Reader) { io.Copy(io.Discard, in) }, 504, []string{"el servidor de detrás no respondió a tiempo"}},
	}
	titles := map[int]string{502: "Bad Gateway", 504: "Gateway Timeout"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, tt.serve)
			log := &benchLog{}
			gateway := serveGateway(t, up.url, gatewayConfig{simulate: true, log: log.logger(), patience: 300 * time.Millisecond})
			conn, in := dialWire(t, gateway)
			io.WriteString(conn, keyedPost)
			status, header, body := readAnswer(t, in)
			if status == 103 {
				status, header, body = readAnswer(t, in)
			}
			begins := func(detail string) bool {
				return strings.HasPrefix(body, strings.TrimSuffix(gatewayProblem(tt.status, titles[tt.status], detail), "\"}\n"))
			}
			if status != tt.status || !slices.ContainsFunc(tt.want, begins) {
				t.Errorf("answer = %d %q, want %d and a detail like %q", status, body, tt.status, tt.want)
			}
			if header.Get("Content-Type") != "application/problem+json" || header["Content-Language"] != nil {
				t.Errorf("header = %v, want application/problem+json and no Content-Language", header)
			}
			if n := up.connections.Load(); n != 1 {
				t.Errorf("%d connections upstream, want exactly 1", n)
			}
			if !strings.Contains(log.String(), "upstream did not answer") {
				t.Errorf("log = %q, want a line about the upstream", log)
			}
		})
	}
}

// readAnswer reads one answer, 1xx included.
func readAnswer(t *testing.T, in *bufio.Reader) (int, http.Header, string) {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read body after %q: %v", body, err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func TestGatewayUpstreamIsNotThere(t *testing.T) {
	t.Parallel()
	conn, in := dialWire(t, serveGateway(t, closedPort(t), gatewayConfig{}))
	for range 2 { // it goes on listening, on the same connection too
		io.WriteString(conn, keyedPost)
		status, _, body := readAnswer(t, in)
		want := gatewayProblem(502, "Bad Gateway", "el servidor de detrás no dio respuesta: ECONNREFUSED, nadie escucha en esa dirección")
		if status != 502 || body != want {
			t.Errorf("answer = %d %q, want 502 %q", status, body, want)
		}
	}
}

// An upstream that takes nothing of a long body is slow too: the limit runs while it
// is the one to act, also before the request is out.
func TestGatewayUpstreamReadsNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	up := serveRaw(t, func(*net.TCPConn, *bufio.Reader) { <-release })
	t.Cleanup(func() { close(release) })
	conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{patience: 300 * time.Millisecond}))
	go func() {
		fmt.Fprintf(conn, "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 64<<20)
		conn.Write(make([]byte, 64<<20))
	}()
	status, _, body := readAnswer(t, in)
	if want := gatewayProblem(504, "Gateway Timeout", "el servidor de detrás no respondió a tiempo"); status != 504 || body != want {
		t.Errorf("answer = %d %q, want 504 %q", status, body, want)
	}
}

func TestGatewayHalfAnswerIsCutForTheClientToo(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, up, want string }{
		{"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhola", "hola"},
		{"in the middle of chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhola\r\n", "hola"},
		{"in a chunk's size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhola\r\n1", "hola"},
		{"before the first byte", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, saying(tt.up))
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{}))
			io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("read answer: %v, want the head that the upstream sent", err)
			}
			body, err := io.ReadAll(resp.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != tt.want {
				t.Errorf("body = %q, %v, want %q, unexpected EOF", body, err, tt.want)
			}
			if n := up.connections.Load(); n != 1 {
				t.Errorf("%d connections upstream, want exactly 1", n)
			}
		})
	}
}

// originCounter answers 201 with a body that says how many requests it has had.
type originCounter struct{ requests atomic.Int64 }

func (o *originCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%d", o.requests.Add(1))
}

func TestGatewayLosesTheFirstAnswer(t *testing.T) {
	t.Parallel()
	lost := gatewayProblem(502, "Bad Gateway", "la respuesta del servidor de detrás se perdió en el camino de vuelta")
	long := strings.Repeat("x", identityBody)
	type request struct{ method, path, key, simulate, body, want string }
	const lose = "perder-primera"
	tests := []struct {
		name     string
		ignore   bool // --no-simulate
		requests []request
	}{
		{"with a key", false, []request{
			{"POST", "/s", "k1", lose, "a", lost}, {"POST", "/s", "k1", lose, "a", "2"}, {"POST", "/s", "k1", lose, "a", "3"}}},
		{"the key alone tells requests apart", false, []request{
			{"POST", "/s", "k1", lose, "a", lost}, {"POST", "/otra", "k1", lose, "b", "2"}, {"POST", "/s", "k2", lose, "a", lost}}},
		{"without a key: method, path and body", false, []request{
			{"POST", "/s", "", lose, "a", lost}, {"POST", "/s", "", lose, "a", "2"},
			{"POST", "/s", "", lose, "b", lost}, {"PUT", "/s", "", lose, "a", lost}, {"POST", "/t", "", lose, "a", lost},
			{"POST", "/s?x", "", lose, "a", lost}, {"POST", "/s", "", lose, "a", "7"}}},
		{"a key is not a body", false, []request{{"POST", "/s", "", lose, "a", lost}, {"POST", "/s", "a", lose, "a", lost}}},
		{"without a body", false, []request{{"GET", "/s", "", lose, "", lost}, {"GET", "/s", "", lose, "", "2"}}},
		{"a long body passes whole and counts by its beginning and length", false, []request{
			{"POST", "/s", "", lose, long + "a", lost}, {"POST", "/s", "", lose, long + "b", "2"}, {"POST", "/s", "", lose, long + "bc", lost}}},
		{"not asked for", false, []request{{"POST", "/s", "k1", "", "a", "1"}, {"POST", "/s", "k1", lose, "a", lost}}},
		{"another value is no fault", false, []request{{"POST", "/s", "k1", "perder", "a", "1"}}},
		{"turned off", true, []request{{"POST", "/s", "k1", lose, "a", "1"}, {"POST", "/s", "", lose, "a", "2"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			origin := &originCounter{}
			log := &benchLog{}
			gateway := serveGateway(t, "http://"+serveHandler(t, origin), gatewayConfig{simulate: !tt.ignore, log: log.logger()})
			losses := 0
			for i, r := range tt.requests {
				req, err := http.NewRequest(r.method, "http://"+gateway+r.path, strings.NewReader(r.body))
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range map[string]string{"Idempotency-Key": r.key, "X-Simular": r.simulate} {
					if value != "" {
						req.Header.Set(name, value)
					}
				}
				resp, err := newTransport().RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != r.want {
					t.Errorf("request %d = %q, %v, want %q", i+1, body, err, r.want)
				}
				if r.want == lost {
					losses++
					if resp.StatusCode != 502 || resp.Header["Content-Language"] != nil {
						t.Errorf("request %d = %d %v, want 502 without Content-Language", i+1, resp.StatusCode, resp.Header)
					}
				}
				if n := origin.requests.Load(); n != int64(i+1) {
					t.Errorf("after request %d the origin had %d", i+1, n)
				}
			}
			if n := strings.Count(log.String(), "answer lost on purpose"); n != losses {
				t.Errorf("%d lines about lost answers, want %d", n, losses)
			}
		})
	}
}

func TestGatewayLosesOneOfEqualsAtOnce(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k1", ""} {
		t.Run("key "+key, func(t *testing.T) {
			t.Parallel()
			gateway := serveGateway(t, "http://"+serveHandler(t, &originCounter{}), gatewayConfig{simulate: true})
			base := &url.URL{Scheme: "http", Host: gateway}
			var lost atomic.Int64
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					header := http.Header{"X-Simular": {"perder-primera"}}
					if key != "" {
						header.Set("Idempotency-Key", key)
					}
					got, err := attempt(t.Context(), newTransport(), wireLimit, 1<<10, call{method: "POST", base: base, path: "/s", header: header, body: []byte("a")})
					if err != nil {
						t.Error(err)
					}
					if got.status == 502 {
						lost.Add(1)
					}
				})
			}
			all.Wait()
			if n := lost.Load(); n != 1 {
				t.Errorf("%d answers lost, want exactly 1", n)
			}
		})
	}
}

// The answer is lost only when there was one: all of it arrives first.
func TestGatewayTakesTheWholeAnswerBeforeItIsLost(t *testing.T) {
	t.Parallel()
	const post = "POST /s HTTP/1.1\r\nHost: a\r\nX-Simular: perder-primera\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n"
	tests := []struct{ name, rest, want string }{
		{"whole", "la", "la respuesta del servidor de detrás se perdió en el camino de vuelta"},
		{"cut", "", "el servidor de detrás no dio respuesta: la conexión se cortó"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			halfway, goOn := make(chan struct{}), make(chan struct{})
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				readHead(in)
				io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nho")
				close(halfway)
				<-goOn
				io.WriteString(conn, tt.rest)
			})
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{simulate: true}))
			io.WriteString(conn, post)
			<-halfway
			conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // nothing may come
			if peeked, err := in.Peek(1); err == nil {
				t.Errorf("the client got %q before the answer was whole", peeked)
			}
			conn.SetReadDeadline(time.Now().Add(wireLimit))
			close(goOn)
			status, _, body := readAnswer(t, in)
			if want := gatewayProblem(502, "Bad Gateway", tt.want); status != 502 || body != want {
				t.Errorf("answer = %d %q, want 502 %q", status, body, want)
			}
		})
	}
}

func TestGatewayExpectContinue(t *testing.T) {
	t.Parallel()
	const post = "POST /s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
	t.Run("the upstream wants the body", func(t *testing.T) {
		t.Parallel()
		up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
			readHead(in)
			io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
			io.CopyN(io.Discard, in, 4)
			io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		})
		conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{}))
		io.WriteString(conn, post)
		status, _, _ := readAnswer(t, in)
		if status != 100 {
			t.Fatalf("first answer = %d, want 100", status)
		}
		io.WriteString(conn, "hola")
		for status == 100 { // the server's own 100 and the upstream's may both come
			status, _, _ = readAnswer(t, in)
		}
		if status != 204 {
			t.Errorf("final answer = %d, want 204", status)
		}
	})
	for _, key := range []string{"Idempotency-Key: k\r\n", ""} {
		t.Run("told once to continue, "+key, func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				readHead(in)
				io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
				io.CopyN(io.Discard, in, 4)
				io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
			})
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, "after,nth=2")}))
			io.WriteString(conn, strings.Replace(post, "Host: a\r\n", "Host: a\r\n"+key, 1))
			for i, want := range []int{100, 103, 204} {
				if i == 1 {
					io.WriteString(conn, "hola")
				}
				if status, _, _ := readAnswer(t, in); status != want {
					t.Fatalf("answer %d = %d, want %d", i+1, status, want)
				}
			}
		})
	}
	t.Run("the upstream refuses without it", func(t *testing.T) {
		t.Parallel()
		up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
			readHead(in)
			io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		})
		conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{}))
		io.WriteString(conn, post)
		if status, _, _ := readAnswer(t, in); status != 403 {
			t.Errorf("answer = %d, want 403 and no 100", status)
		}
	})
}

// A refusal that comes while the body is still on its way reaches a client that sends
// everything before it reads, through the gateway too.
func TestGatewayEarlyAnswerReachesASendingClient(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	tests := []struct{ name, framing string }{
		{"with a length", fmt.Sprintf("Content-Length: %d", size)},
		{"in chunks", "Transfer-Encoding: chunked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			origin := &edge{role: "test", log: slog.New(slog.DiscardHandler), render: renderProblem(slog.New(slog.DiscardHandler), nil),
				handle: func(w http.ResponseWriter, r *http.Request) error {
					_, err := readBody(w, r)
					return err
				}}
			gateway := serveGateway(t, "http://"+serveHandler(t, origin), gatewayConfig{})
			conn, in := dialWire(t, gateway)
			fmt.Fprintf(conn, "POST /s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", tt.framing)
			piece := bytes.Repeat([]byte("x"), 64<<10)
			for sent := 0; sent < size; sent += len(piece) {
				if strings.HasPrefix(tt.framing, "T") {
					fmt.Fprintf(conn, "%x\r\n%s\r\n", len(piece), piece)
				} else if _, err := conn.Write(piece); err != nil {
					t.Fatalf("after %d bytes: %v", sent, err)
				}
			}
			if status, _, _ := readAnswer(t, in); status != 413 {
				t.Errorf("answer = %d, want 413", status)
			}
		})
	}
}

func TestGatewayClientTrouble(t *testing.T) {
	t.Parallel()
	const begun = "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n"
	tests := []struct{ name, sent string }{
		{"leaves in the middle of its body", begun + "\r\nhola"},
		{"leaves in the middle of a body that is read first", begun + "X-Simular: perder-primera\r\n\r\nhola"},
		{"leaves before the answer", keyedPost},
		{"leaves in the middle of chunks", "POST /s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nho"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				if head := readHead(in); strings.HasPrefix(head, "GET ") {
					io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
					return
				}
				io.Copy(io.Discard, in) // until the gateway gives up
			})
			gateway := serveGateway(t, up.url, gatewayConfig{simulate: true})
			conn, _ := dialWire(t, gateway)
			io.WriteString(conn, tt.sent)
			conn.SetLinger(0)
			conn.Close()
			conn, in := dialWire(t, gateway)
			io.WriteString(conn, "GET /s HTTP/1.1\r\nHost: a\r\n\r\n")
			if status, _, _ := readAnswer(t, in); status != 204 {
				t.Errorf("next answer = %d, want 204", status)
			}
		})
	}
}

// A body that ends too soon is the client's fault, and never completed for it.
func TestGatewayShortBodyIsTheClientsFault(t *testing.T) {
	t.Parallel()
	for _, simulate := range []string{"", "perder-primera"} {
		t.Run("X-Simular "+simulate, func(t *testing.T) {
			t.Parallel()
			read := make(chan string, 1)
			up := serveRaw(t, func(_ *net.TCPConn, in *bufio.Reader) {
				readHead(in)
				body, _ := io.ReadAll(in)
				read <- string(body)
			})
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{simulate: true}))
			io.WriteString(conn, "POST /s HTTP/1.1\r\nHost: a\r\nX-Simular: "+simulate+"\r\nContent-Length: 10\r\n\r\nhola")
			conn.CloseWrite()
			status, _, body := readAnswer(t, in)
			if want := gatewayProblem(400, "Bad Request", "el cuerpo de la petición no llegó entero"); status != 400 || body != want {
				t.Errorf("answer = %d %q, want 400 %q", status, body, want)
			}
			if simulate == "" && len(<-read) >= 10 {
				t.Error("the upstream got a whole body")
			}
		})
	}
}
