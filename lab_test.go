// lab_test.go owns what the bench answers, to the byte, and what it counts.

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// labPatience is how long a test waits for what must happen at once.
const labPatience = 5 * time.Second

// benchLog collects log lines from several goroutines.
type benchLog struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *benchLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *benchLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// logger writes lines without their time.
func (l *benchLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// waitFor waits until the log holds text.
func (l *benchLog) waitFor(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the log holds "+text, func() bool { return strings.Contains(l.String(), text) })
}

// labTestLimits are the bench's by default.
var labTestLimits = labLimits{delay: 100 * time.Second, bytes: 64 << 20, requests: 256}

func testLab(log *slog.Logger) http.Handler {
	return newLab(labConfig{limits: labTestLimits, log: log, now: time.Now})
}

func startLab(t *testing.T) *httptest.Server {
	t.Helper()
	return serveWith(t, testLab(slog.New(slog.DiscardHandler)), func(server *http.Server) {
		server.DisableGeneralOptionsHandler = true // as our servers do: OPTIONS * is ours
	})
}

// serveWith serves to the test's end, on a server that was changed before it began.
func serveWith(t *testing.T, handler http.Handler, change func(*http.Server)) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	change(server.Config)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// shortDeadlines are shorter than any answer that takes its time.
func shortDeadlines(server *http.Server) {
	server.ReadTimeout, server.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
}

// stopsWith lets all requests of a server end with a context, as those of our process do.
func stopsWith(base context.Context) func(*http.Server) {
	return func(server *http.Server) { server.BaseContext = func(net.Listener) context.Context { return base } }
}

// benchDial opens a connection that the test closes by itself or at its end.
func benchDial(t *testing.T, server *httptest.Server) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(labPatience))
	return conn.(*net.TCPConn)
}

// benchRaw sends bytes and returns all that comes until the server closes.
func benchRaw(t *testing.T, server *httptest.Server, sent string) string {
	t.Helper()
	conn := benchDial(t, server)
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("read after %q: %v", sent, err)
	}
	return string(got)
}

// benchRequest is a request that asks for the connection to be closed, so that the
// answer's end is the connection's.
func benchRequest(method, target string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: banco\r\nConnection: close\r\n\r\n"
}

// benchExchange returns the parsed answer, without following redirects, and what
// followed its header section on the wire, exactly.
func benchExchange(t *testing.T, server *httptest.Server, method, target string) (*http.Response, string) {
	t.Helper()
	raw := benchRaw(t, server, benchRequest(method, target))
	head, rest, ok := strings.Cut(raw, "\r\n\r\n")
	if !ok {
		t.Fatalf("%s %s: answer %q has no header section", method, target, raw)
	}
	// Read as the answer to a HEAD, so that the parser takes the body for none.
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head+"\r\n\r\n")), &http.Request{Method: http.MethodHead})
	if err != nil {
		t.Fatalf("%s %s: %v in %q", method, target, err, raw)
	}
	return response, rest
}

func TestLabAnswers(t *testing.T) {
	t.Parallel()
	const text = "text/plain; charset=utf-8"
	tests := []struct {
		name           string
		method, target string
		want           string            // the first line of the body; "" for no body
		header         map[string]string // "" for absent
	}{
		{"an ordinary status", "GET", "/codigo/200", "200 OK", map[string]string{"Location": "", "Retry-After": ""}},
		{"the last status", "GET", "/codigo/999", "999 Unassigned", nil},
		{"the registry's phrase and not Go's", "GET", "/codigo/413", "413 Content Too Large", nil},
		{"another such phrase", "GET", "/codigo/422", "422 Unprocessable Content", nil},
		{"an unused code keeps its mark", "GET", "/codigo/418", "418 (Unused)", nil},
		{"an unassigned code", "GET", "/codigo/299", "299 Unassigned", nil},
		{"created says where", "GET", "/codigo/201", "201 Created", map[string]string{"Location": "/servicios/demo"}},
		{"no content", "GET", "/codigo/204", "", map[string]string{"Content-Type": "", "Content-Length": ""}},
		{"reset content", "GET", "/codigo/205", "", map[string]string{"Content-Type": "", "Content-Length": "0"}},
		{"moved", "GET", "/codigo/301", "301 Moved Permanently", map[string]string{"Location": "/codigo/200"}},
		{"found", "GET", "/codigo/302", "302 Found", map[string]string{"Location": "/codigo/200"}},
		{"see other needs nothing here", "GET", "/codigo/303", "303 See Other", map[string]string{"Location": ""}},
		{"not modified", "GET", "/codigo/304", "", map[string]string{"Content-Type": "", "Content-Length": "", "ETag": `"v1"`}},
		{"temporary redirect", "GET", "/codigo/307", "307 Temporary Redirect", map[string]string{"Location": "/codigo/200"}},
		{"permanent redirect", "GET", "/codigo/308", "308 Permanent Redirect", map[string]string{"Location": "/codigo/200"}},
		{"unauthorized", "GET", "/codigo/401", "401 Unauthorized", map[string]string{"WWW-Authenticate": `Bearer realm="revisor"`}},
		{"method not allowed, as asked", "GET", "/codigo/405", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD"}},
		{"too many requests", "GET", "/codigo/429", "429 Too Many Requests", map[string]string{"Retry-After": "30"}},
		{"unavailable", "GET", "/codigo/503", "503 Service Unavailable", map[string]string{"Retry-After": "120"}},
		{"unavailable, HEAD", "HEAD", "/codigo/503", "503 Service Unavailable", map[string]string{"Retry-After": "120"}},

		{"retry-after in seconds", "GET", "/codigo/503?retry-after=2", "503 Service Unavailable", map[string]string{"Retry-After": "2"}},
		{"retry-after where none would be", "GET", "/codigo/200?retry-after=2", "200 OK", map[string]string{"Retry-After": "2"}},
		{"retry-after without a body", "GET", "/codigo/204?retry-after=2", "", map[string]string{"Retry-After": "2", "Content-Type": ""}},
		{"retry-after as a date", "GET", "/codigo/429?retry-after=" + url.QueryEscape("Wed, 21 Oct 2026 07:28:00 GMT"),
			"429 Too Many Requests", map[string]string{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}},
		{"retry-after that makes no sense", "GET", "/codigo/503?retry-after=-1.5x", "503 Service Unavailable", map[string]string{"Retry-After": "-1.5x"}},
		{"retry-after with a line break", "GET", "/codigo/503?retry-after=2%0d%0aX-Malo:%201", "400 Bad Request", map[string]string{"Retry-After": "", "X-Malo": ""}},
		{"retry-after with a bare LF", "GET", "/codigo/503?retry-after=2%0aX-Malo:%201", "400 Bad Request", map[string]string{"Retry-After": "", "X-Malo": ""}},
		{"retry-after with a NUL", "GET", "/codigo/503?retry-after=2%00", "400 Bad Request", map[string]string{"Retry-After": ""}},

		{"an interim status", "GET", "/codigo/100", "400 Bad Request", nil},
		{"the last interim status", "GET", "/codigo/199", "400 Bad Request", nil},
		{"no status", "GET", "/codigo/000", "400 Bad Request", nil},
		{"below all statuses", "GET", "/codigo/099", "400 Bad Request", nil},
		{"two digits", "GET", "/codigo/20", "404 Not Found", nil},
		{"four digits", "GET", "/codigo/2000", "404 Not Found", nil},
		{"no digits", "GET", "/codigo/abc", "404 Not Found", nil},
		{"a sign", "GET", "/codigo/+20", "404 Not Found", nil},
		{"digits of another script", "GET", "/codigo/" + url.PathEscape("٢٠٠"), "404 Not Found", nil},
		{"nothing", "GET", "/codigo/", "404 Not Found", nil},
		{"the bare word", "GET", "/codigo", "404 Not Found", nil},
		{"a trailing slash", "GET", "/codigo/200/", "404 Not Found", nil},
		{"POST to a status", "POST", "/codigo/200", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD"}},
		{"OPTIONS to a status", "OPTIONS", "/codigo/200", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD"}},
		{"the method before the value", "DELETE", "/codigo/099", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD"}},
		{"the route before the method", "POST", "/codigo/abc", "404 Not Found", map[string]string{"Allow": ""}},

		{"slow, by nothing", "GET", "/lento/0", "200 OK", nil},
		{"slow, leading zeros", "GET", "/lento/00001", "200 OK", nil},
		{"slow, any method", "PATCH", "/lento/1", "200 OK", nil},
		{"slow, HEAD", "HEAD", "/lento/1", "200 OK", nil},
		{"slow, OPTIONS", "OPTIONS", "/lento/1", "200 OK", nil},
		{"slow, six digits", "GET", "/lento/000001", "404 Not Found", nil},
		{"slow, no digits", "GET", "/lento/", "404 Not Found", nil},
		{"slow, a fraction", "GET", "/lento/1.5", "404 Not Found", nil},

		{"the root", "GET", "/", "404 Not Found", nil},
		{"an unknown path", "GET", "/nada", "404 Not Found", nil},
		{"an unknown path, any method", "POST", "/nada", "404 Not Found", map[string]string{"Allow": ""}},
		{"an unknown path, HEAD", "HEAD", "/nada", "404 Not Found", nil},
		{"OPTIONS of the server", "OPTIONS", "*", "404 Not Found", nil},
		{"slash after cortar", "GET", "/cortar/", "404 Not Found", nil},
		{"slash after contadores", "GET", "/contadores/", "404 Not Found", nil},
		{"help of the wrong method", "POST", "/ayuda", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD"}},
		{"counters of the wrong method", "PUT", "/contadores", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD, DELETE"}},
	}
	server := startLab(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := tt.method + " " + tt.target
			response, body := benchExchange(t, server, tt.method, tt.target)
			for name, want := range tt.header {
				if got := response.Header.Get(name); got != want {
					t.Errorf("%s: %s = %q, want %q", asked, name, got, want)
				}
			}
			if tt.want == "" {
				if body != "" {
					t.Errorf("%s: body = %q, want none", asked, body)
				}
				return
			}
			if got := response.Header.Get("Content-Type"); got != text {
				t.Errorf("%s: Content-Type = %q, want %q", asked, got, text)
			}
			if fmt.Sprint(response.StatusCode) != tt.want[:3] {
				t.Errorf("%s: status = %d, want that of %q", asked, response.StatusCode, tt.want)
			}
			if tt.method == http.MethodHead {
				checkHead(t, server, tt.target, response, body)
				return
			}
			if got, want := response.ContentLength, int64(len(body)); got != want {
				t.Errorf("%s: Content-Length = %d, want %d", asked, got, want)
			}
			lines := strings.SplitAfter(body, "\n")
			if len(lines) != 3 || lines[0] != tt.want+"\n" || !strings.HasPrefix(lines[1], asked) || lines[2] != "" {
				t.Errorf("%s: body = %q, want the lines %q and one that begins with %q", asked, body, tt.want, asked)
			}
		})
	}
}

// checkHead compares the answer to a HEAD with that to the GET.
func checkHead(t *testing.T, server *httptest.Server, target string, response *http.Response, body string) {
	t.Helper()
	get, want := benchExchange(t, server, http.MethodGet, target)
	if body != "" {
		t.Errorf("HEAD %s: body = %q, want none", target, body)
	}
	if response.ContentLength != int64(len(want)) || response.StatusCode != get.StatusCode {
		t.Errorf("HEAD %s = status %d, Content-Length %d, want %d, %d",
			target, response.StatusCode, response.ContentLength, get.StatusCode, len(want))
	}
}

func TestLabExplains(t *testing.T) {
	t.Parallel()
	server := startLab(t)
	tests := []struct {
		name           string
		method, target string
		want           string
	}{
		{"what was asked", "GET", "/codigo/503?retry-after=2", "503 Service Unavailable\nGET /codigo/503?retry-after=2\n"},
		{"a status that cannot be sent", "GET", "/codigo/100",
			"400 Bad Request\nGET /codigo/100: los códigos van de 200 a 999: por debajo de 100 no existen y los 1xx no son una respuesta final\n"},
		{"where to look", "DELETE", "/", "404 Not Found\nDELETE /: esta ruta no existe; GET /ayuda dice cuáles hay\n"},
		{"slow", "POST", "/lento/2", "200 OK\nPOST /lento/2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, got := benchExchange(t, server, tt.method, tt.target); got != tt.want {
				t.Errorf("%s %s = %q, want %q", tt.method, tt.target, got, tt.want)
			}
		})
	}
}

func TestLabBytes(t *testing.T) {
	t.Parallel()
	server := startLab(t)
	post := "POST %s HTTP/1.1\r\nHost: banco\r\nContent-Length: 4\r\n\r\nhola"
	unsent := "POST %s HTTP/1.1\r\nHost: banco\r\nContent-Length: 4\r\n\r\n"
	tests := []struct{ name, sent, want string }{
		{"cut", benchRequest("GET", "/cortar"), ""},
		{"cut, HEAD", benchRequest("HEAD", "/cortar"), ""},
		{"cut, after a body", fmt.Sprintf(post, "/cortar"), ""},
		{"cut, before a body", fmt.Sprintf(unsent, "/cortar"), ""},
		{"cut, query", benchRequest("GET", "/cortar?a=b"), ""},
		{"garbage", benchRequest("GET", "/basura"), labGarbage},
		{"garbage, HEAD", benchRequest("HEAD", "/basura"), labGarbage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := benchRaw(t, server, tt.sent); got != tt.want {
				t.Errorf("answer to %q = %q, want %q", tt.sent, got, tt.want)
			}
		})
	}
	if _, err := http.Get(server.URL + "/basura"); err == nil || !strings.Contains(err.Error(), "malformed HTTP") {
		t.Errorf("GET /basura = %v, want a client that finds it malformed", err)
	}
}

// The garbage must arrive although a large body is still on its way.
func TestLabGarbageReachesASender(t *testing.T) {
	t.Parallel()
	conn := benchDial(t, startLab(t))
	const size = 3 << 20
	fmt.Fprintf(conn, "POST /basura HTTP/1.1\r\nHost: banco\r\nContent-Length: %d\r\n\r\n", size)
	if _, err := conn.Write(make([]byte, size)); err != nil {
		t.Fatalf("send the body: %v", err)
	}
	conn.CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != labGarbage || err != nil {
		t.Errorf("answer = %q, %v, want %q", got, err, labGarbage)
	}
}

func TestLabSlowWaits(t *testing.T) {
	t.Parallel()
	server := startLab(t)
	start := time.Now()
	response, err := http.Post(server.URL+"/lento/150", "text/plain", strings.NewReader("hola"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := time.Since(start); response.StatusCode != 200 || got < 150*time.Millisecond {
		t.Errorf("POST /lento/150 = %d after %v, want 200 after 150ms", response.StatusCode, got)
	}
}

// The longest wait is longer than the deadlines of our servers, which must not end it.
func TestLabSlowOutlivesDeadlines(t *testing.T) {
	t.Parallel()
	server := serveWith(t, testLab(slog.New(slog.DiscardHandler)), shortDeadlines)
	if response, body := benchExchange(t, server, "GET", "/lento/300"); response.StatusCode != 200 || !strings.HasPrefix(body, "200 OK\n") {
		t.Errorf("GET /lento/300 = %d %q, want 200", response.StatusCode, body)
	}
}

func TestLabSlowEndsEarly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		sent string
	}{
		{"without a body", "GET /lento/99999 HTTP/1.1\r\nHost: banco\r\n\r\n"},
		{"with a body", "POST /lento/99999 HTTP/1.1\r\nHost: banco\r\nContent-Length: 4\r\n\r\nhola"},
		{"with half a body", "POST /lento/99999 HTTP/1.1\r\nHost: banco\r\nContent-Length: 9\r\n\r\nhola"},
	}
	for _, tt := range tests {
		t.Run("client leaves "+tt.name, func(t *testing.T) {
			t.Parallel()
			var log benchLog
			server := httptest.NewServer(testLab(log.logger()))
			defer server.Close()
			conn := benchDial(t, server)
			io.WriteString(conn, tt.sent)
			waitCounted(t, server, "/lento/99999")
			conn.Close()
			log.waitFor(t, "path=/lento/99999 status=0") // the handler returned, without an answer
		})
	}
	t.Run("process stops", func(t *testing.T) {
		t.Parallel()
		base, stop := context.WithCancel(t.Context())
		defer stop()
		server := serveWith(t, testLab(slog.New(slog.DiscardHandler)), stopsWith(base))
		conn := benchDial(t, server)
		io.WriteString(conn, benchRequest("GET", "/lento/99999"))
		waitCounted(t, server, "/lento/99999")
		stop()
		if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
			t.Errorf("answer after the stop = %q, %v, want a connection closed without a byte", got, err)
		}
	})
}

// waitCounted waits until the lab has counted a request to path.
func waitCounted(t *testing.T, server *httptest.Server, path string) {
	t.Helper()
	eventually(t, "the lab counts "+path, func() bool {
		_, body := benchExchange(t, server, "GET", "/contadores")
		return strings.Contains(body, `"`+path+`":`)
	})
}

func TestLabCounters(t *testing.T) {
	t.Parallel()
	server := startLab(t)
	steps := []struct {
		name           string
		method, target string
		status         int
		want           string
	}{
		{"empty", "GET", "/contadores", 200, "{}\n"},
		{"once", "GET", "/codigo/502", 502, ""},
		{"the query is no part of the path", "GET", "/codigo/502?retry-after=1", 502, ""},
		{"any method, refused or not", "POST", "/codigo/502", 405, ""},
		{"the unknown too", "GET", "/nada%2Fmas", 404, ""},
		{"the help too", "GET", "/ayuda", 200, ""},
		{"its own not, refused or not", "PUT", "/contadores", 405, ""},
		{"sorted, as written", "GET", "/contadores?x=1", 200, `{"/ayuda":1,"/codigo/502":3,"/nada%2Fmas":1}` + "\n"},
		{"HEAD", "HEAD", "/contadores", 200, ""},
		{"reset", "DELETE", "/contadores", 204, ""},
		{"empty again", "GET", "/contadores", 200, "{}\n"},
	}
	for _, step := range steps {
		response, body := benchExchange(t, server, step.method, step.target)
		if response.StatusCode != step.status {
			t.Errorf("%s: status = %d, want %d", step.name, response.StatusCode, step.status)
		}
		if step.want == "" {
			continue
		}
		if got := response.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type = %q, want application/json", step.name, got)
		}
		if body != step.want || response.ContentLength != int64(len(body)) {
			t.Errorf("%s: body = %q of length %d, want %q", step.name, body, response.ContentLength, step.want)
		}
	}
	if got := benchRaw(t, server, benchRequest("GET", "/cortar")); got != "" {
		t.Fatalf("GET /cortar = %q, want nothing", got)
	}
	response, body := benchExchange(t, server, "HEAD", "/contadores")
	if want := int64(len(`{"/cortar":1}` + "\n")); response.ContentLength != want || body != "" {
		t.Errorf("HEAD /contadores = length %d, body %q, want length %d, no body", response.ContentLength, body, want)
	}
}

func TestLabCountersAreBounded(t *testing.T) {
	t.Parallel()
	l := &lab{counts: map[string]int{}}
	l.count("/" + strings.Repeat("a", labPathBytes))
	for i := range 2 * labPaths {
		l.count(fmt.Sprintf("/%d", i))
	}
	l.count("/0")
	if got := l.counts["/0"]; got != 2 {
		t.Errorf("count of a path known in time = %d, want 2", got)
	}
	total := 0
	for _, n := range l.counts {
		total += n
	}
	if len(l.counts) > labPaths+1 || total != 2*labPaths+2 {
		t.Errorf("counters hold %d paths, %d requests, want at most %d, %d", len(l.counts), total, labPaths+1, 2*labPaths+2)
	}
}

func TestLabHelp(t *testing.T) {
	t.Parallel()
	server := startLab(t)
	response, body := benchExchange(t, server, "GET", "/ayuda")
	if got, want := response.Header.Get("Content-Type"), "text/plain; charset=utf-8"; got != want || response.StatusCode != 200 {
		t.Errorf("GET /ayuda = %d %q, want 200 %q", response.StatusCode, got, want)
	}
	for _, route := range []string{"/codigo/NNN", "?retry-after=", "/lento/MS", "/cortar", "/basura", "GET    /contadores", "DELETE /contadores", "/ayuda"} {
		if !strings.Contains(body, route) {
			t.Errorf("GET /ayuda says nothing of %q", route)
		}
	}
	head, _ := benchExchange(t, server, "HEAD", "/ayuda")
	checkHead(t, server, "/ayuda", head, "")
}

func TestLabLogsEachRequest(t *testing.T) {
	t.Parallel()
	var log benchLog
	server := httptest.NewServer(testLab(log.logger()))
	defer server.Close()
	benchExchange(t, server, "GET", "/codigo/503?retry-after=2")
	benchRaw(t, server, benchRequest("GET", "/cortar"))
	log.waitFor(t, "path=/cortar")
	want := "level=INFO msg=request role=lab method=GET path=/codigo/503 status=503\n" +
		"level=INFO msg=request role=lab method=GET path=/cortar status=0\n"
	if got := log.String(); got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
}
