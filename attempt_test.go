// attempt_test.go owns one attempt: one request on the wire whatever the server does, and
// an answer under a limit.

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAttemptIsOneRequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer string // "" cuts the connection after the request
		want   int    // 0: no answer
	}{
		{"an answer", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201},
		{"a redirect is an answer", "HTTP/1.1 307 Temporary Redirect\r\nLocation: /otra\r\nContent-Length: 0\r\n\r\n", 307},
		{"a request for credentials too", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", 401},
		{"cut", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan string, 4)
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				head := readHead(in)
				body := make([]byte, 4)
				io.ReadFull(in, body)
				arrived <- head + string(body)
				io.WriteString(conn, tt.answer)
			})
			got, err := attempt(t.Context(), newTransport(), wireLimit, 1<<10, call{
				method: "POST", base: mustURL(t, up.url), path: "/a%2Fb", body: []byte("hola"),
				header: http.Header{"Idempotency-Key": {"k1"}},
			})
			if got.status != tt.want || (err == nil) != (tt.want != 0) {
				t.Errorf("attempt = %d, %v, want %d", got.status, err, tt.want)
			}
			first := <-arrived
			want := fmt.Sprintf("POST /a%%2Fb HTTP/1.1\r\nHost: %s\r\nUser-Agent: revisor\r\nContent-Length: 4\r\nIdempotency-Key: k1\r\nConnection: close\r\nhola",
				strings.TrimPrefix(up.url, "http://"))
			if first != want {
				t.Errorf("on the wire: %q, want %q", first, want)
			}
			if n := up.connections.Load(); n != 1 {
				t.Errorf("%d connections, want exactly 1", n)
			}
		})
	}
}

func TestAttemptBoundsWhatItReads(t *testing.T) {
	t.Parallel()
	up := serveRaw(t, saying("HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", 11)))
	for limit, want := range map[int64]error{10: errAnswerTooLong, 11: nil} {
		got, err := attempt(t.Context(), newTransport(), wireLimit, limit, call{method: "GET", base: mustURL(t, up.url), path: "/"})
		if !errors.Is(err, want) || got.status != 200 || len(got.body) != int(limit) {
			t.Errorf("limit %d: attempt = %d, %d bytes, %v, want 200, %d bytes, %v", limit, got.status, len(got.body), err, limit, want)
		}
	}
}

func TestAttemptTimeLimitCoversTheBody(t *testing.T) {
	t.Parallel()
	up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
		readHead(in)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhola")
		io.Copy(io.Discard, in)
	})
	got, err := attempt(t.Context(), newTransport(), 100*time.Millisecond, 1<<10, call{method: "GET", base: mustURL(t, up.url), path: "/"})
	if !errors.Is(err, context.DeadlineExceeded) || got.status != 200 {
		t.Errorf("attempt = %d, %v, want 200 and the time limit", got.status, err)
	}
}

func TestWhyNoAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "ECONNREFUSED, nadie escucha en esa dirección"},
		{"reset", fmt.Errorf("read: %w", syscall.ECONNRESET), "ECONNRESET, el otro lado cortó la conexión"},
		{"broken pipe", syscall.EPIPE, "EPIPE, el otro lado cerró antes de leerlo todo"},
		{"unreachable", syscall.ENETUNREACH, "ENETUNREACH, no hay camino hasta esa red"},
		{"cut", io.EOF, "la conexión se cortó"},
		{"cut midway", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), "la conexión se cortó"},
		{"time", context.DeadlineExceeded, "se acabó el tiempo límite"},
		{"interrupted", context.Canceled, "interrumpido"},
		{"no such name", &net.DNSError{Name: "no\x1b[2J.existe", Err: "no such host", IsNotFound: true}, `el nombre no se encuentra: no\x1b[2J.existe`},
		{"too long", errAnswerTooLong, "la respuesta es demasiado larga"},
		{"anything else, harmless", errors.New("malformed \x1b[31m"), `lo que llegó no se entiende como HTTP`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := whyNoAnswer(tt.err); got != tt.want {
				t.Errorf("whyNoAnswer(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

func TestValidateBase(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, base, want string }{
		{"http", "http://127.0.0.1:18080", ""},
		{"https with a slash", "https://revisor.example/", ""},
		{"an IPv6 address", "http://[::1]:80", ""},
		{"no scheme", "127.0.0.1", "a server's address begins with http:// or https://"},
		{"another scheme", "ftp://a", "a server's address begins with http:// or https://"},
		{"no host", "http://:80", "the address lacks a host"},
		{"a path", "http://a/b", "a server's address ends with the host and port, without a path"},
		{"a query", "http://a/?b", "a server's address ends with the host and port, without a path"},
		{"a user", "http://u:p@a", "a server's address carries no user or password"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := validateBase(mustURL(t, tt.base)); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("validateBase(%q) = %q, want %q", tt.base, got, tt.want)
			}
		})
	}
}
