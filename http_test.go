// http_test.go tests the edge that all servers share: panics and unforeseen errors,
// the request log, answers that break off, bodies that break off, stopping.

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// startEdge serves handle behind an edge that answers errors as problems.
func startEdge(t *testing.T, handle func(w http.ResponseWriter, r *http.Request) error) *bench {
	t.Helper()
	b := &bench{t: t, log: &syncBuffer{}}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	listener := testListener(t)
	b.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		e := &edge{role: "prueba", log: log, handle: handle, render: renderProblem(log, nil)}
		served <- serve(ctx, log, []site{{role: "prueba", listener: listener, handler: e}}, func(context.Context) {})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return b
}

// secret is what no client may ever read of an error's cause.
const secret = "clave-de-otro"

// crash is found in the stack of the panic that it makes.
func crash(how string) error {
	switch how {
	case "/panico":
		panic(secret)
	case "/panico-error":
		panic(errors.New(secret))
	case "/nulo":
		var r *http.Request
		return errors.New(r.Method)
	default:
		return errors.New(secret)
	}
}

func TestInternalErrors(t *testing.T) {
	t.Parallel()
	b := startEdge(t, func(w http.ResponseWriter, r *http.Request) error {
		if r.URL.Path == "/bien" {
			return sendJSON(w, r, "bien")
		}
		return crash(r.URL.Path)
	})
	references := map[string]bool{}
	for _, tt := range []struct {
		name, path string
		stack      bool
	}{
		{"panic with a text", "/panico?token=x", true},
		{"panic with an error", "/panico-error", true},
		{"runtime panic", "/nulo", true},
		{"an error nobody foresaw", "/error", false},
		{"again", "/error", false},
	} {
		for _, method := range []string{"GET", "POST"} {
			before := len(b.log.String())
			got := b.call(method, tt.path, "", "")
			log := b.log.String()[before:]
			if got.verdict() != "500 error-interno" {
				t.Errorf("%s: %s = %s, want 500 error-interno", tt.name, method, got.verdict())
			}
			reference, _ := got.member("instance").(string)
			if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(reference) || references[reference] {
				t.Errorf("%s: instance = %q, want a new urn:uuid", tt.name, reference)
			}
			references[reference] = true
			if strings.Contains(got.body, secret) || strings.Contains(got.body, ".go") || strings.Contains(got.body, "nil") {
				t.Errorf("%s: answer %s leaks its cause", tt.name, got.body)
			}
			if !strings.Contains(log, "reference="+reference) {
				t.Errorf("%s: log has no reference %s:\n%s", tt.name, reference, log)
			}
			if has := strings.Contains(log, ".crash("); has != tt.stack {
				t.Errorf("%s: log has the stack: %v, want %v:\n%s", tt.name, has, tt.stack, log)
			}
		}
	}
	if got := b.call("GET", "/bien", "", ""); got.status != 200 {
		t.Errorf("GET /bien after the panics = %d, want 200", got.status)
	}
}

// TestBrokenAnswer: once an answer began, an error can only cut it short, so that it
// is not taken for a whole one.
func TestBrokenAnswer(t *testing.T) {
	t.Parallel()
	b := startEdge(t, func(w http.ResponseWriter, r *http.Request) error {
		switch r.URL.Path {
		case "/corta":
			panic(http.ErrAbortHandler)
		case "/empezada":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "el principio")
			w.(*recorder).Unwrap().(http.Flusher).Flush()
			return crash("/error")
		}
		io.WriteString(w, "sin fin")
		w.(*recorder).Unwrap().(http.Flusher).Flush()
		return crash("/panico")
	})
	for _, tt := range []struct{ path, log string }{
		{"/corta", ""},
		{"/empezada", "answer cut short"},
		{"/sin-longitud", "answer cut short"},
	} {
		before := len(b.log.String())
		if got, err := b.try(context.Background(), "GET", tt.path, "", ""); err == nil {
			t.Errorf("GET %s = %d %q, want a broken connection", tt.path, got.status, got.body)
		}
		eventually(t, "log line of "+tt.path, func() bool { return strings.Contains(b.log.String()[before:], "path="+tt.path) })
		if log := b.log.String()[before:]; strings.Contains(log, "answer cut short") != (tt.log != "") || strings.Contains(log, "internal error") {
			t.Errorf("GET %s: log %q, want %q", tt.path, log, tt.log)
		}
	}
}

func TestRequestLog(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, tt := range []struct{ method, path, as, body, want string }{
		{"GET", "/servicios", "lectura-a", "", "role=revisor method=GET path=/servicios status=200"},
		{"HEAD", "/servicios?nombre=x", "lectura-a", "", "role=revisor method=HEAD path=/servicios status=200"},
		{"OPTIONS", "/servicios", "", "", "role=revisor method=OPTIONS path=/servicios status=204"},
		{"GET", "/viejo/servicios?a=b", "", "", "role=revisor method=GET path=/viejo/servicios status=301"},
		{"GET", "/nada%20aqu%C3%AD?token=t", "", "", "role=revisor method=GET path=/nada%20aqu%C3%AD status=404"},
		{"POST", "/servicios", "escritura-a", "{", "role=revisor method=POST path=/servicios status=400"},
		{"POST", "/servicios", "escritura-a", strings.Repeat("x", 300<<10), "role=revisor method=POST path=/servicios status=413"},
		{"POST", "/servicios", "nadie", strings.Repeat("x", 300<<10), "role=revisor method=POST path=/servicios status=401"},
	} {
		before := len(b.log.String())
		b.call(tt.method, tt.path, tt.as, tt.body)
		eventually(t, "log line "+tt.want, func() bool { return strings.Contains(b.log.String()[before:], tt.want) })
		if log := b.log.String()[before:]; strings.Count(log, "\n") != 1 {
			t.Errorf("%s %s logged %q, want one line", tt.method, tt.path, log)
		}
	}
}

// TestBodyThatBreaksOff: a client that sends less than it announced, or breaks the
// chunked framing, is told; nothing is done and no key is taken.
func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	head := "POST /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer escritura-a\r\n" +
		"Content-Type: application/json\r\nIdempotency-Key: k1\r\n"
	whole := b.service("catalogo")
	for _, tt := range []struct{ name, rest string }{
		{"shorter than announced", "Content-Length: 1000\r\n\r\n" + whole},
		{"nothing at all", "Content-Length: 1000\r\n\r\n"},
		{"no last chunk", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"},
		{"no chunk", "Transfer-Encoding: chunked\r\n\r\nesto no es un trozo\r\n"},
		{"negative chunk", "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n"},
	} {
		got, _ := b.wire(head+tt.rest, nil)
		if got.verdict() != "400 cuerpo-ilegible" || got.header.Get("Connection") != "close" {
			t.Errorf("%s = %s, Connection %q, want 400 cuerpo-ilegible, close", tt.name, got.verdict(), got.header.Get("Connection"))
		}
	}
	got := b.call("POST", "/servicios", "escritura-a", whole, "Idempotency-Key: k1")
	if got.status != 201 || got.header.Get("Idempotency-Replayed") != "false" {
		t.Errorf("POST at last = %s, Idempotency-Replayed %q, want 201, false", got.verdict(), got.header.Get("Idempotency-Replayed"))
	}
}

// TestConnectionLivesOn: a refused request with a small body that nobody read does not
// cost the client its connection, and what follows is not mistaken for its body.
func TestConnectionLivesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	post := "POST /servicios HTTP/1.1\r\nHost: revisor\r\nContent-Length: " + strconv.Itoa(smallBody) + "\r\n\r\n" +
		strings.Repeat("x", smallBody)
	conn, in := b.dial()
	for range 3 {
		if _, err := io.WriteString(conn, post); err != nil {
			t.Fatal(err)
		}
		got := b.readAnswer(in, "POST", "/servicios")
		if got.verdict() != "401 credencial-invalida" || got.header.Get("Connection") == "close" {
			t.Errorf("POST = %s, Connection %q, want 401 credencial-invalida on a connection that lives on", got.verdict(), got.header.Get("Connection"))
		}
	}
	io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: revisor\r\n\r\n")
	if got := b.readAnswer(in, "OPTIONS", "*"); got.verdict() != "404 about:blank" {
		t.Errorf("OPTIONS * = %s, want 404 about:blank", got.verdict())
	}
}

// TestStopLetsWorkFinish: a request that is being handled when the process is told to
// stop gets its answer.
func TestStopLetsWorkFinish(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	g.close()
	answered := make(chan response, 1)
	go func() {
		got, err := b.try(context.Background(), "POST", "/servicios", "escritura-a", `{"nombre":"x","url":"`+b.gateURL("/")+`"}`)
		if err != nil {
			t.Errorf("POST while stopping: %v", err)
		}
		answered <- got
	}()
	g.arrived(t)
	stopped := make(chan struct{})
	go func() { b.stop(); close(stopped) }()
	eventually(t, "new connections refused", func() bool {
		_, err := b.try(context.Background(), "GET", "/idempotencia", "", "")
		return err != nil
	})
	g.open()
	if got := <-answered; got.status != 201 {
		t.Errorf("POST while stopping = %d %s, want 201", got.status, got.body)
	}
	<-stopped
}
