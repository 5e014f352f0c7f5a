// slow_test.go holds the server to its limits on clients that take their time: who sends
// a byte a second, who says nothing, who does not read its answer. It runs in bubbles,
// where a minute passes as soon as everybody waits, over pipes instead of a network.

package main

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener without a network.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialled:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// pipeEnd is the server's end of a connection. It notes when the server closes it.
type pipeEnd struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipeEnd) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Conn.Close()
}

// serve puts the bubble's revisor behind a server like every other of ours. dial connects
// to it; what is written there waits until it is read, on either side.
func (b *bubble) serve() (dial func() (client net.Conn, closed <-chan struct{})) {
	p := &pipes{dialled: make(chan net.Conn), closed: make(chan struct{})}
	server := newHTTPServer(site{role: "revisor", handler: b.handler}, slog.New(slog.NewTextHandler(b.log, nil)))
	go server.Serve(p)
	b.t.Cleanup(func() { server.Close() })
	return func() (net.Conn, <-chan struct{}) {
		client, theirs := net.Pipe()
		end := &pipeEnd{Conn: theirs, closed: make(chan struct{})}
		p.dialled <- end
		b.t.Cleanup(func() { client.Close() })
		return client, end.closed
	}
}

// keyedHead is the header section of the request that bubble.register makes, but for
// what tells where its body ends.
const keyedHead = "POST /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer escritura-a\r\n" +
	"Content-Type: application/json\r\nIdempotency-Key: k1\r\n"

// TestByteASecond: whoever sends so slowly is waited for as long as headerTime or
// bodyTime allow, takes no key, and stands in nobody's way.
func TestByteASecond(t *testing.T) {
	t.Parallel()
	const list = "GET /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer lectura-a\r\n"
	const unknown = "POST /servicios HTTP/1.1\r\nHost: revisor\r\n"
	tests := []struct {
		name  string
		head  string // sent at once
		slow  string // sent a byte a second, again and again
		want  string // the verdicts of the answers
		after time.Duration
		ended time.Duration
	}{
		{"says nothing", "", "", "", 0, headerTime},
		{"request line", "", "GET /servicios", "400", headerTime, headerTime},
		{"header", list + "X-Lento: ", "x", "", 0, headerTime},
		{"header lines", list, "X: y\r\n", "", 0, headerTime},
		{"header of the second request", list + "\r\nGET /servicios HTTP/1.1\r\nX: ", "x", "200", 0, headerTime},
		{"no second request", list + "\r\n", "", "200", 0, idleTime},

		{"body", keyedHead + "Content-Length: 1000\r\n\r\n{", " ", "400 cuerpo-ilegible", bodyTime, bodyTime + lingerTime},
		{"body in chunks", keyedHead + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "1\r\n \r\n", "400 cuerpo-ilegible", bodyTime, bodyTime + lingerTime},
		{"chunk that does not end", keyedHead + "Transfer-Encoding: chunked\r\n\r\n400\r\n{", " ", "400 cuerpo-ilegible", bodyTime, bodyTime + lingerTime},
		{"no body after all", keyedHead + "Content-Length: 1000\r\n\r\n", "", "400 cuerpo-ilegible", bodyTime, bodyTime + lingerTime},

		{"short body that nobody reads", unknown + "Content-Length: 1000\r\n\r\n", "x", "401 credencial-invalida", bodyTime, bodyTime + lingerTime},
		{"long body that nobody reads", unknown + "Content-Length: 1000000\r\n\r\n", "x", "401 credencial-invalida", 0, lingerTime},
		{"chunks that nobody reads", unknown + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", "401 credencial-invalida", 0, lingerTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, revisorSettings{}, &stages{list: []stage{{}}})
				client, closed := b.serve()()
				began := time.Now()
				var sending sync.WaitGroup
				sending.Go(func() {
					io.WriteString(client, tt.head)
					for i := 0; tt.slow != ""; i = (i + 1) % len(tt.slow) {
						time.Sleep(time.Second) // the bubble's time, not ours
						if _, err := client.Write([]byte{tt.slow[i]}); err != nil {
							return
						}
					}
				})
				var got []string
				var after time.Duration
				for in := bufio.NewReader(client); ; {
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						break
					}
					after = time.Since(began)
					body, _ := io.ReadAll(resp.Body)
					got = append(got, response{resp.StatusCode, resp.Header, string(body)}.verdict())
				}
				<-closed
				ended := time.Since(began)
				sending.Wait()
				if verdicts := strings.Join(got, ", "); verdicts != tt.want || after != tt.after {
					t.Errorf("answers = %q after %v, want %q after %v", verdicts, after, tt.want, tt.after)
				}
				if ended != tt.ended {
					t.Errorf("the connection ended after %v, want %v", ended, tt.ended)
				}
				if got := b.register(t.Context()); got.line() != "201 false [] 0s" {
					t.Errorf("same key from another client = %s, want 201 false [] 0s", got.line())
				}
				if log := b.log.String(); strings.Contains(log, "internal error") {
					t.Errorf("log = %s, want no internal error", log)
				}
			})
		})
	}
}

// TestAnswerNobodyReads: it is kept for its client as long as writeTime allows, holds
// nobody up, and what it says is done and recorded.
func TestAnswerNobodyReads(t *testing.T) {
	t.Parallel()
	registration := `{"nombre":"avisos","url":"http://puerta.example/"}`
	tests := []struct {
		name, request string
		reads         bool // a byte a second
		ended         time.Duration
		want          string // the keyed POST meanwhile
	}{
		{"list", "GET /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer lectura-a\r\n\r\n", false, writeTime, "201 false [] 0s"},
		{"list, read a byte a second", "GET /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer lectura-a\r\n\r\n", true, writeTime, "201 false [] 0s"},
		{"keyed POST", keyedHead + "Content-Length: 50\r\n\r\n" + registration, false, writeTime, "201 true [] 0s"},
		{"problem", "GET /nada HTTP/1.1\r\nHost: revisor\r\n\r\n", false, writeTime, "201 false [] 0s"},
		{"last answer of a connection", keyedHead + "Content-Length: 20000\r\n\r\n", false, lingerTime, "201 false [] 0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, revisorSettings{}, &stages{list: []stage{{}}})
				mustWrite(t, b.store, inserting("largo", fine))
				dial := b.serve()
				client, closed := dial()
				began := time.Now()
				if _, err := io.WriteString(client, tt.request); err != nil {
					t.Fatal(err)
				}
				var reading sync.WaitGroup
				if tt.reads {
					reading.Go(func() {
						for err := error(nil); err == nil; time.Sleep(time.Second) {
							_, err = client.Read(make([]byte, 1))
						}
					})
				}
				synctest.Wait() // it is answered now, as far as that goes
				if got := b.register(t.Context()); got.line() != tt.want {
					t.Errorf("keyed POST meanwhile = %s, want %s", got.line(), tt.want)
				}
				other, _ := dial()
				go io.WriteString(other, "GET /idempotencia HTTP/1.1\r\nHost: revisor\r\n\r\n")
				if resp, err := http.ReadResponse(bufio.NewReader(other), nil); err != nil || resp.StatusCode != 200 || time.Since(began) != 0 {
					t.Errorf("GET of another client = %v, %v after %v, want 200 at once", resp, err, time.Since(began))
				}
				<-closed
				if took := time.Since(began); took != tt.ended {
					t.Errorf("the connection ended after %v, want %v", took, tt.ended)
				}
				reading.Wait()
				if got := b.register(t.Context()); got.line() != "201 true [] 0s" {
					t.Errorf("keyed POST afterwards = %s, want 201 true [] 0s", got.line())
				}
			})
		})
	}
}
