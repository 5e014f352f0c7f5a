// script_test.go owns the words of a script, and that each request gets the next answer.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestParseScript(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		words []string
		want  []scriptedAnswer
	}{
		{"a status", []string{"201"}, []scriptedAnswer{{word: "201", status: 201}}},
		{"the first and the last", []string{"200", "999"}, []scriptedAnswer{{word: "200", status: 200}, {word: "999", status: 999}}},
		{"with Retry-After", []string{"503:2"}, []scriptedAnswer{{word: "503:2", status: 503, retryAfter: "2"}}},
		{"untouched, a fraction", []string{"503:1.5"}, []scriptedAnswer{{word: "503:1.5", status: 503, retryAfter: "1.5"}}},
		{"untouched, a sign", []string{"503:-1"}, []scriptedAnswer{{word: "503:-1", status: 503, retryAfter: "-1"}}},
		{"untouched, more colons", []string{"429:Wed, 21 Oct 2026 07:28:00 GMT"},
			[]scriptedAnswer{{word: "429:Wed, 21 Oct 2026 07:28:00 GMT", status: 429, retryAfter: "Wed, 21 Oct 2026 07:28:00 GMT"}}},
		{"in flight", []string{"409:en-curso"}, []scriptedAnswer{{word: "409:en-curso", status: 409, inFlight: true}}},
		{"another 409", []string{"409"}, []scriptedAnswer{{word: "409", status: 409}}},
		{"a 409 with Retry-After", []string{"409:3"}, []scriptedAnswer{{word: "409:3", status: 409, retryAfter: "3"}}},
		{"in flight belongs to 409 only", []string{"503:en-curso"}, []scriptedAnswer{{word: "503:en-curso", status: 503, retryAfter: "en-curso"}}},
		{"mute", []string{"mudo", "201"}, []scriptedAnswer{{word: "mudo"}, {word: "201", status: 201}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseScript(tt.words)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("parseScript(%q) = %+v, %v, want %+v", tt.words, got, err, tt.want)
			}
		})
	}
}

func TestParseScriptRefuses(t *testing.T) {
	t.Parallel()
	const status = "want NNN, NNN:RETRY-AFTER, 409:en-curso or mudo, with NNN from 200 to 999"
	tests := []struct {
		name  string
		words []string
		want  string
	}{
		{"nothing", nil, "a script needs at least one answer, such as 503:2 or 201"},
		{"an interim status", []string{"201", "100"}, `answer 2, "100": ` + status},
		{"below", []string{"199"}, `answer 1, "199": ` + status},
		{"above", []string{"1000"}, `answer 1, "1000": ` + status},
		{"a sign", []string{"+201"}, `answer 1, "+201": ` + status},
		{"a negative", []string{"-99"}, `answer 1, "-99": ` + status},
		{"empty", []string{""}, `answer 1, "": ` + status},
		{"a word", []string{"MUDO"}, `answer 1, "MUDO": ` + status},
		{"only a colon", []string{":2"}, `answer 1, ":2": ` + status},
		{"nothing after the colon", []string{"503:"}, `answer 1, "503:": nothing follows the colon; want the value of Retry-After`},
		{"mute with more", []string{"mudo:2"}, `answer 1, "mudo:2": mudo takes no colon, because it sends nothing`},
		{"a line break", []string{"503:2\r\nX-Malo: 1"},
			`answer 1, "503:2\r\nX-Malo: 1": what follows the colon has control characters, so no header field can carry it`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseScript(tt.words)
			if err == nil || err.Error() != tt.want {
				t.Errorf("parseScript(%q) = %v, %v, want error %q", tt.words, got, err, tt.want)
			}
		})
	}
}

func startScript(t *testing.T, log *slog.Logger, words ...string) *httptest.Server {
	t.Helper()
	answers, err := parseScript(words)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newScript(answers, log))
	t.Cleanup(server.Close)
	return server
}

func TestScriptAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		word   string
		status int
		header map[string]string // "" for absent
		want   map[string]any    // members of the body; nil for no body
	}{
		{"created", "201", 201, map[string]string{"Content-Type": "application/json", "Location": "/servicios/1", "Retry-After": ""},
			map[string]any{"id": 1.0, "nombre": "avisos", "limite_ms": 2000.0}},
		{"ok", "200", 200, map[string]string{"Content-Type": "application/json", "Location": ""}, map[string]any{"id": 1.0}},
		{"no content", "204", 204, map[string]string{"Content-Type": "", "Content-Length": ""}, nil},
		{"reset content", "205", 205, map[string]string{"Content-Type": "", "Content-Length": "0"}, nil},
		{"not modified", "304", 304, map[string]string{"Content-Type": "", "Content-Length": ""}, nil},
		{"moved", "301", 301, map[string]string{"Content-Type": "", "Content-Length": "0"}, nil},
		{"unavailable", "503:2", 503, map[string]string{"Content-Type": "application/problem+json", "Retry-After": "2"},
			map[string]any{"type": "about:blank", "title": "Service Unavailable", "status": 503.0}},
		{"untouched, a fraction", "503:1.5", 503, map[string]string{"Retry-After": "1.5"}, map[string]any{"status": 503.0}},
		{"untouched, a sign", "503:-1", 503, map[string]string{"Retry-After": "-1"}, map[string]any{"status": 503.0}},
		{"unavailable, without", "503", 503, map[string]string{"Retry-After": ""}, map[string]any{"status": 503.0}},
		{"the registry's phrase", "422", 422, nil, map[string]any{"type": "about:blank", "title": "Unprocessable Content"}},
		{"in flight", "409:en-curso", 409, map[string]string{"Content-Type": "application/problem+json", "Retry-After": ""},
			map[string]any{"type": "https://revisor.example/problemas/llave-en-curso", "status": 409.0, "reintentable": true, "instance": "/servicios"}},
		{"another 409", "409", 409, map[string]string{"Content-Type": "application/problem+json"},
			map[string]any{"type": "https://revisor.example/problemas/nombre-repetido", "existente": "/servicios/1", "reintentable": false}},
		{"beyond the registry", "999", 999, nil, map[string]any{"title": "Unassigned", "status": 999.0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := startScript(t, slog.New(slog.DiscardHandler), tt.word)
			response, body := benchExchange(t, server, "POST", "/servicios?a=b")
			if response.StatusCode != tt.status {
				t.Errorf("script %s: status = %d, want %d", tt.word, response.StatusCode, tt.status)
			}
			for name, want := range tt.header {
				if got := response.Header.Get(name); got != want {
					t.Errorf("script %s: %s = %q, want %q", tt.word, name, got, want)
				}
			}
			if tt.want == nil {
				if body != "" {
					t.Errorf("script %s: body = %q, want none", tt.word, body)
				}
				return
			}
			checkMembers(t, tt.word, body, tt.want)
			if got, want := response.ContentLength, int64(len(body)); got != want {
				t.Errorf("script %s: Content-Length = %d, want %d", tt.word, got, want)
			}
			head, rest := benchExchange(t, server, "HEAD", "/servicios?a=b")
			if head.ContentLength != int64(len(body)) || rest != "" {
				t.Errorf("script %s, HEAD = length %d, body %q, want length %d, no body", tt.word, head.ContentLength, rest, len(body))
			}
		})
	}
}

func checkMembers(t *testing.T, word, body string, want map[string]any) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil || !strings.HasSuffix(body, "}\n") {
		t.Errorf("script %s: body = %q (%v), want a JSON object and one newline", word, body, err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("script %s: member %s = %v, want %v", word, name, got[name], value)
		}
	}
}

// One answer per request and the last one repeats; one log line each.
func TestScriptOrder(t *testing.T) {
	t.Parallel()
	var log benchLog
	server := startScript(t, log.logger(), "503:2", "409:en-curso", "201")
	for i, want := range []int{503, 409, 201, 201} {
		response, err := http.Post(server.URL+"/servicios", "application/json", strings.NewReader(`{"nombre":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("answer %d = %d, want %d", i+1, response.StatusCode, want)
		}
	}
	want := "level=INFO msg=request answer=1 word=503:2 role=script method=POST path=/servicios status=503\n" +
		"level=INFO msg=request answer=2 word=409:en-curso role=script method=POST path=/servicios status=409\n" +
		"level=INFO msg=request answer=3 word=201 role=script method=POST path=/servicios status=201\n" +
		"level=INFO msg=request answer=3 word=201 role=script method=POST path=/servicios status=201\n"
	if got := log.String(); got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
}

func TestScriptOneAnswerEachAtOnce(t *testing.T) {
	t.Parallel()
	words := []string{"200", "201", "202", "203", "404", "409", "503", "500"}
	server := startScript(t, slog.New(slog.DiscardHandler), words...)
	var mu sync.Mutex
	seen := map[string]int{}
	var clients sync.WaitGroup
	for range words {
		clients.Go(func() {
			response, err := http.Get(server.URL)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			seen[fmt.Sprint(response.StatusCode)]++
		})
	}
	clients.Wait()
	for _, word := range words {
		if seen[word] != 1 {
			t.Errorf("answers with %s = %d, want 1", word, seen[word])
		}
	}
}

// The body is read first: its last byte decides when the answer comes.
func TestScriptReadsTheBodyFirst(t *testing.T) {
	t.Parallel()
	conn := benchDial(t, startScript(t, slog.New(slog.DiscardHandler), "503:2", "201"))
	const size = 1 << 20 // more than net/http would read by itself
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: guion\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size)
	if _, err := conn.Write(make([]byte, size-1)); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read before the body's last byte = %d, %v, want nothing yet", n, err)
	}
	conn.SetReadDeadline(time.Now().Add(labPatience))
	conn.Write([]byte{0})
	if got, err := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 503 ") || err != nil {
		t.Errorf("answer = %q, %v, want a 503", got, err)
	}
}

func TestScriptMute(t *testing.T) {
	t.Parallel()
	t.Run("client leaves", func(t *testing.T) {
		t.Parallel()
		var log benchLog
		server := startScript(t, log.logger(), "mudo", "201")
		client := &http.Client{Timeout: 100 * time.Millisecond}
		if response, err := client.Post(server.URL, "application/json", strings.NewReader("{}")); err == nil {
			t.Errorf("POST to a mute server = %d, want no answer", response.StatusCode)
		}
		log.waitFor(t, "answer=1 word=mudo role=script method=POST path=/ status=0")
		if response, _ := benchExchange(t, server, "POST", "/"); response.StatusCode != 201 {
			t.Errorf("answer after the mute one = %d, want 201", response.StatusCode)
		}
	})
	t.Run("longer than the server's deadlines", func(t *testing.T) {
		t.Parallel()
		server := serveWith(t, newScript([]scriptedAnswer{{word: scriptMute}}, slog.New(slog.DiscardHandler)), shortDeadlines)
		conn := benchDial(t, server)
		io.WriteString(conn, benchRequest("GET", "/"))
		conn.SetReadDeadline(time.Now().Add(250 * time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
			t.Errorf("read from a mute server = %v, want the client's own time limit", err)
		}
		conn.Close()
	})
	t.Run("process stops", func(t *testing.T) {
		t.Parallel()
		base, stop := context.WithCancel(t.Context())
		defer stop()
		arrived := make(chan struct{})
		mute := newScript([]scriptedAnswer{{word: scriptMute}}, slog.New(slog.DiscardHandler))
		server := serveWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			mute.ServeHTTP(w, r)
		}), stopsWith(base))
		conn := benchDial(t, server)
		io.WriteString(conn, benchRequest("GET", "/"))
		<-arrived
		stop()
		if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
			t.Errorf("answer after the stop = %q, %v, want a connection closed without a byte", got, err)
		}
	})
}
