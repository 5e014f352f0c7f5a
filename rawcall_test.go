// rawcall_test.go owns what is read of an answer to a request written byte by byte: as
// much as any attempt reads, and the same is told when it does not come.

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAttemptRawReadsAsAttempt(t *testing.T) {
	t.Parallel()
	longHeader := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxAnswerHeader)
	tests := []struct {
		name, answer string
		status, size int // of the body
		want         error
	}{
		{"as long as may be", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", 200, 10, nil},
		{"in pieces", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 10) + "0\r\n\r\n", 200, 10, nil},
		{"after an interim one", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, 0, nil},
		{"too long", "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n01234567890", 200, 10, errAnswerTooLong},
		{"without an end", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1<<20), 200, 10, errAnswerTooLong},
		{"a header without an end", longHeader, 0, 0, errAnswerTooLong},
		{"interim ones without an end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxAnswerHeader/20), 0, 0, errAnswerTooLong},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", 200, 5, io.ErrUnexpectedEOF},
		{"nothing", "", 0, 0, io.ErrUnexpectedEOF},
		{"no HTTP", "no\r\n\r\n", 0, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
				readHead(in)
				io.WriteString(conn, tt.answer)
			})
			got, err := attemptRaw(t.Context(), wireLimit, 10, call{method: "GET", base: mustURL(t, up.url), path: "/"}, "k")
			if tt.name == "no HTTP" {
				if err == nil || whyNoAnswer(err) != "lo que llegó no se entiende como HTTP" {
					t.Errorf("attemptRaw = %v, want no HTTP", err)
				}
				return
			}
			if got.status != tt.status || len(got.body) != tt.size || !errors.Is(err, tt.want) {
				t.Errorf("attemptRaw = %d, %q, %v, want %d, %d bytes, %v", got.status, got.body, err, tt.status, tt.size, tt.want)
			}
		})
	}
}

func TestAttemptRawTimeLimitCoversTheBody(t *testing.T) {
	t.Parallel()
	up := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
		readHead(in)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhola")
		io.Copy(io.Discard, in)
	})
	got, err := attemptRaw(t.Context(), 100*time.Millisecond, 1<<10, call{method: "GET", base: mustURL(t, up.url), path: "/"})
	if !errors.Is(err, context.DeadlineExceeded) || got.status != 200 {
		t.Errorf("attemptRaw = %d, %v, want 200 and the time limit", got.status, err)
	}
}
