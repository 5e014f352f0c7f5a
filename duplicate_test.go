// duplicate_test.go owns what it means that a request is sent twice: both are the same to
// the byte, the first answer is the client's, and nothing is held without a limit.

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDuplicateIsTheSameTwice: head, body and trailers.
func TestDuplicateIsTheSameTwice(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, sent, want string }{
		{"with a length", "POST /a%2fb?x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nConnection: X-Uno\r\nX-Uno: 1\r\nContent-Length: 4\r\n\r\nhola",
			"POST /a%2fb?x HTTP/1.1\r\nContent-Length: 4\r\nHost: a\r\nIdempotency-Key: k\r\n\r\nhola"},
		{"without a body", "GET /s HTTP/1.1\r\nHost: a\r\n\r\n", "GET /s HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"in chunks, with trailers", "POST /s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Suma\r\n\r\n2\r\nho\r\n2\r\nla\r\n0\r\nX-Suma: 9\r\n\r\n",
			"POST /s HTTP/1.1\r\nHost: a\r\nTrailer: X-Suma\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhola\r\n0\r\nX-Suma: 9\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, body, _ := strings.Cut(tt.want, "\r\n\r\n")
			var mu sync.Mutex
			var got []string
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				head := strings.Join(wireLines(readHead(in)), "\r\n")
				rest := make([]byte, len(body))
				io.ReadFull(in, rest)
				mu.Lock()
				got = append(got, head+"\r\n\r\n"+string(rest))
				n := len(got)
				mu.Unlock()
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", n)
			})
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, "duplicate")}))
			io.WriteString(conn, tt.sent)
			status, header, answer := readAnswer(t, in)
			if status != 200 || answer != "1" || header.Get("X-Simulado") != "duplicate" {
				t.Errorf("answer = %d %v %q, want the first one", status, header, answer)
			}
			if want := []string{tt.want, tt.want}; !slices.Equal(got, want) {
				t.Errorf("upstream read %q, want twice %q", got, tt.want)
			}
		})
	}
}

// TestDuplicateOfALongBody: what is too long to be held is not sent at all.
func TestDuplicateOfALongBody(t *testing.T) {
	t.Parallel()
	for _, length := range []int{heldBody, heldBody + 1} {
		for _, framing := range []string{"length", "chunked"} {
			t.Run(fmt.Sprint(length, " bytes, ", framing), func(t *testing.T) {
				t.Parallel()
				up := tellsHello(t)
				conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, "duplicate")}))
				go func() {
					body := strings.Repeat("x", length)
					if framing == "length" {
						fmt.Fprintf(conn, "POST /s HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s", length, body)
						return
					}
					fmt.Fprintf(conn, "POST /s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", length, body)
				}()
				status, header, body := readAnswer(t, in)
				wantStatus, wantAsked, wantBody := 201, int64(2), "hola"
				if length > heldBody {
					wantStatus, wantAsked = 413, 0
					wantBody = gatewayProblem(413, "Content Too Large", "la pasarela solo repite cuerpos de hasta 1048576 bytes, y no reenvió este")
				}
				if status != wantStatus || body != wantBody || header.Get("X-Simulado") != "duplicate" {
					t.Errorf("answer = %d %q %v, want %d %q", status, body, header, wantStatus, wantBody)
				}
				if n := up.connections.Load(); n != wantAsked {
					t.Errorf("the upstream was asked %d times, want %d", n, wantAsked)
				}
			})
		}
	}
}

// TestDuplicateWithALongAnswer: the first one arrives whole, however much of it is held;
// and one that breaks off breaks off for the client.
func TestDuplicateWithALongAnswer(t *testing.T) {
	t.Parallel()
	const length = heldBody + 100
	for _, sent := range []int{length, length - 10, heldBody - 10} {
		t.Run(fmt.Sprint(sent), func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				readRequest(in)
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", sent))
			})
			conn, in := dialWire(t, serveGateway(t, up.url, gatewayConfig{plan: planOf(t, "duplicate")}))
			io.WriteString(conn, keyedPost)
			readHead(in)
			got := make([]byte, length)
			if n, _ := io.ReadFull(in, got); n != sent {
				t.Errorf("%d bytes of the answer came, want %d", n, sent)
			}
			if n := up.connections.Load(); n != 2 {
				t.Errorf("the upstream was asked %d times, want 2", n)
			}
		})
	}
}

// TestDuplicateWithoutASecondAnswer: the first one stands.
func TestDuplicateWithoutASecondAnswer(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprint("mute ", mute), func(t *testing.T) {
			t.Parallel()
			first := make(chan struct{}, 1)
			first <- struct{}{}
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				readRequest(in)
				select {
				case <-first:
					io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nhola")
				default:
					if mute {
						io.Copy(io.Discard, in)
					}
				}
			})
			log := &benchLog{}
			book := newLedger(1, nil, log.logger())
			gateway := serveGateway(t, up.url, gatewayConfig{plan: planOf(t, "duplicate"), ledger: book, now: time.Now, log: log.logger(), patience: 200 * time.Millisecond})
			if got := post(t, gateway, "/s", "k", "a"); got.status != 201 || string(got.body) != "hola" {
				t.Errorf("answer = %d %q, want 201 hola", got.status, got.body)
			}
			if got := book.ended(t, 1)[0]; got.Duplicate != 0 || got.Upstream != 201 || !strings.Contains(log.String(), "did not answer a duplicate") {
				t.Errorf("ledger %+v and log %s, want no status of the duplicate, and a line", got, log)
			}
		})
	}
}
