// close_test.go tests answers to a client that is still sending: the staged close
// (RFC 9112 section 9.6) and Expect: 100-continue. Its client speaks TCP, because a
// library's client reads while it sends and would hide what is tested.

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// How often each size is sent. The promise was measured with 400, 100 and 100.
const (
	repeatChunks = 40
	repeat3MiB   = 10
	repeat20MiB  = 5
	// exchangeTime bounds one exchange: well above lingerTime, below the server's patience.
	exchangeTime = 15 * time.Second
)

// dial opens a connection that must not outlast exchangeTime.
func (b *bench) dial() (*net.TCPConn, *bufio.Reader) {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(exchangeTime))
	return conn.(*net.TCPConn), bufio.NewReader(conn)
}

// readAnswer reads one answer, interim ones (1xx) included.
func (b *bench) readAnswer(in *bufio.Reader, method, path string) response {
	b.t.Helper()
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		b.t.Errorf("%s %s: read answer: %v", method, path, err)
		return response{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	got := response{resp.StatusCode, resp.Header, string(body)}
	if err != nil {
		b.t.Errorf("%s %s: read body: %v", method, path, err)
	}
	// ReadResponse moves this field into its struct.
	if resp.Close {
		got.header.Set("Connection", "close")
	}
	if got.status >= 200 {
		checkAnswer(b.t, method, path, got)
	}
	return got
}

// wire sends head and then each piece, reads nothing before all is sent, and reads the
// answer. closed tells whether the server ended its side after it. The client ends its
// own side before it reads only if it has nothing to send but the head.
func (b *bench) wire(head string, pieces [][]byte) (got response, closed bool) {
	b.t.Helper()
	conn, in := b.dial()
	defer conn.Close()
	for _, piece := range append([][]byte{[]byte(head)}, pieces...) {
		if _, err := conn.Write(piece); err != nil {
			b.t.Errorf("send: %v", err)
			return response{}, false
		}
	}
	if pieces == nil {
		conn.CloseWrite()
	}
	method, rest, _ := strings.Cut(head, " ")
	path, _, _ := strings.Cut(rest, " ")
	got = b.readAnswer(in, method, path)
	_, err := in.ReadByte()
	return got, err == io.EOF
}

// chunked is a body of n chunks of size bytes, one piece each.
func chunked(n, size int) [][]byte {
	chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", size, bytes.Repeat([]byte("x"), size)))
	pieces := make([][]byte, n, n+1)
	for i := range pieces {
		pieces[i] = chunk
	}
	return append(pieces, []byte("0\r\n\r\n"))
}

func TestEarlyAnswerReachesASendingClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.register("catalogo", "escritura-a")
	const mib = 1 << 20
	json := "Content-Type: application/json\r\n"
	body3, body20 := bytes.Repeat([]byte("x"), 3*mib), bytes.Repeat([]byte("x"), 20*mib)
	tests := []struct {
		name, line, as, fields string
		pieces                 [][]byte
		times                  int
		want                   string
	}{
		{"20 chunks of 1000 bytes", "POST /servicios", "escritura-a", json, chunked(20, 1000), repeatChunks, "413 about:blank"},
		{"3 MiB in chunks", "POST /servicios", "escritura-a", json, chunked(3*16, mib/16), repeat3MiB, "413 about:blank"},
		{"20 MiB in chunks", "POST /servicios", "escritura-a", json, chunked(20*16, mib/16), repeat20MiB, "413 about:blank"},
		{"20000 bytes", "POST /servicios", "escritura-a", json, [][]byte{body3[:20000]}, repeatChunks, "413 about:blank"},
		{"3 MiB", "POST /servicios", "escritura-a", json, [][]byte{body3}, repeat3MiB, "413 about:blank"},
		{"20 MiB", "POST /servicios", "escritura-a", json, [][]byte{body20}, repeat20MiB, "413 about:blank"},
		{"keyed", "POST /servicios", "escritura-a", json + "Idempotency-Key: k1\r\n", [][]byte{body20}, 1, "413 about:blank"},
		{"revision", "POST /servicios/1/revisiones", "escritura-a", "", [][]byte{body20}, 1, "413 about:blank"},
		{"PUT", "PUT /servicios/1", "escritura-a", json + "If-Match: *\r\n", chunked(20*16, mib/16), 1, "413 about:blank"},
		{"maintenance", "PUT /mantenimiento", "admin", json, [][]byte{body20}, 1, "413 about:blank"},
		{"401", "POST /servicios", "nadie", json, [][]byte{body20}, 1, "401 credencial-invalida"},
		{"401, just too long to keep the connection", "POST /servicios", "nadie", json, [][]byte{body3[:smallBody+1]}, repeat3MiB, "401 credencial-invalida"},
		{"401 in chunks", "POST /servicios", "nadie", json, chunked(20*16, mib/16), 1, "401 credencial-invalida"},
		{"403", "POST /servicios", "lectura-a", json, [][]byte{body20}, 1, "403 permiso-insuficiente"},
		{"404", "POST /nada", "escritura-a", json, [][]byte{body20}, 1, "404 about:blank"},
		{"405", "PATCH /servicios", "escritura-a", json, [][]byte{body20}, 1, "405 about:blank"},
		{"410", "POST /v0/servicios", "escritura-a", json, [][]byte{body20}, 1, "410 version-retirada"},
		{"415", "POST /servicios", "escritura-a", "Content-Type: text/plain\r\n", [][]byte{body20}, 1, "415 about:blank"},
		{"428", "PUT /servicios/1", "escritura-a", json, [][]byte{body20}, 1, "428 falta-condicion"},
		{"301", "POST /viejo/servicios", "escritura-a", json, [][]byte{body20}, 1, "301"},
		{"200", "GET /servicios", "escritura-a", "", [][]byte{body20}, 1, "200"},
		{"HEAD", "HEAD /servicios", "escritura-a", "", [][]byte{body20}, 1, "200"},
		{"OPTIONS", "OPTIONS /servicios", "escritura-a", "", [][]byte{body20}, 1, "204"},
		{"204", "DELETE /servicios/1", "escritura-a", "", [][]byte{body20}, 1, "204"},
	}
	for _, tt := range tests {
		length := "Transfer-Encoding: chunked\r\n"
		if len(tt.pieces) == 1 {
			length = fmt.Sprintf("Content-Length: %d\r\n", len(tt.pieces[0]))
		}
		head := tt.line + " HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer " + tt.as + "\r\n" + tt.fields + length + "\r\n"
		good := 0
		for range tt.times {
			start := time.Now()
			got, closed := b.wire(head, tt.pieces)
			took := time.Since(start)
			if got.verdict() != tt.want || got.header.Get("Connection") != "close" || got.header.Get("Date") == "" || !closed || took > lingerTime {
				t.Errorf("%s = %s, Connection %q, Date %q, closed %v after %v, want %s, close, a date, true at once", tt.name,
					got.verdict(), got.header.Get("Connection"), got.header.Get("Date"), closed, took, tt.want)
				break
			}
			good++
		}
		t.Logf("%s: %d of %d", tt.name, good, tt.times)
	}
}

// TestStagedCloseEnds: a client that neither stops nor ends is left after lingerTime.
func TestStagedCloseEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	conn, in := b.dial()
	io.WriteString(conn, "POST /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer escritura-a\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n")
	start := time.Now()
	if got := b.readAnswer(in, "POST", "/servicios"); got.status != 413 {
		t.Errorf("POST = %d, want 413", got.status)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("after the answer: %v, want the server's end", err)
	}
	if took := time.Since(start); took > lingerTime/2 {
		t.Errorf("the server ended its side after %v, want at once", took)
	}
	eventually(t, "the connection closed", func() bool {
		_, err := conn.Write([]byte("x"))
		return err != nil
	})
	if took := time.Since(start); took < lingerTime/2 {
		t.Errorf("the connection closed after %v, want about %v", took, lingerTime)
	}
}

// TestExpectContinue: a client that waits for "100 Continue" before it sends its body
// gets the answer at once when nobody will read the body, and the 100 when somebody will.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, tt := range []struct {
		name, line, as, contentType string
		length                      int
		want                        string
	}{
		{"401", "POST /servicios", "nadie", "application/json", 10, "401 credencial-invalida"},
		{"403", "POST /servicios", "lectura-a", "application/json", 10, "403 permiso-insuficiente"},
		{"404", "POST /nada", "escritura-a", "application/json", 10, "404 about:blank"},
		{"404, a service", "POST /servicios/999/revisiones", "escritura-a", "application/json", 10, "404 servicio-inexistente"},
		{"405", "PATCH /servicios", "escritura-a", "application/json", 10, "405 about:blank"},
		{"410", "POST /v0", "escritura-a", "application/json", 10, "410 version-retirada"},
		{"413", "POST /servicios", "escritura-a", "application/json", maxBody + 1, "413 about:blank"},
		{"415", "POST /servicios", "escritura-a", "text/plain", 10, "415 about:blank"},
		{"308", "POST /api/servicios", "escritura-a", "application/json", 10, "308"},
		{"200", "GET /servicios", "escritura-a", "application/json", 10, "200"},
	} {
		conn, in := b.dial()
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			tt.line, tt.as, tt.contentType, tt.length)
		conn.SetReadDeadline(time.Now().Add(exchangeTime / 3))
		method, path, _ := strings.Cut(tt.line, " ")
		got := b.readAnswer(in, method, path)
		if got.verdict() != tt.want || got.header.Get("Connection") != "close" {
			t.Fatalf("%s: answer = %s, Connection %q, want %s, close, at once", tt.name, got.verdict(), got.header.Get("Connection"), tt.want)
		}
		conn.Close()
	}

	conn, in := b.dial()
	body := b.service("catalogo")
	fmt.Fprintf(conn, "POST /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer escritura-a\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	if got := b.readAnswer(in, "POST", "/servicios"); got.status != 100 {
		t.Errorf("a body that will be read: answer = %d, want 100", got.status)
	}
	io.WriteString(conn, body)
	if got := b.readAnswer(in, "POST", "/servicios"); got.status != 201 || got.header.Get("Connection") != "" {
		t.Errorf("once sent: answer = %s, Connection %q, want 201 on a connection that lives on", got.verdict(), got.header.Get("Connection"))
	}
}
