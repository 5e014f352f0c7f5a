// checker_test.go owns what an outcome is called and which ones are tried again, against
// origins on loopback that answer, lie, cut or say nothing.

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Scripts of an origin that are no text to send.
const (
	originCut  = ""     // read the request, close without a byte
	originMute = "mute" // read the request, never answer
)

// origin is a raw server that answers the nth connection with the nth script, the last
// one again and again, and keeps every request it read.
type origin struct {
	url     string
	scripts []string

	mu          sync.Mutex
	connections int
	requests    []*http.Request
	gone        chan struct{} // gets a value for each connection the client has closed
}

func newOrigin(t *testing.T, scripts ...string) *origin {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{url: "http://" + listener.Addr().String(), scripts: scripts, gone: make(chan struct{}, 100)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { o.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait() // proves that the client left no connection open
	})
	return o
}

func (o *origin) serve(conn net.Conn) {
	defer conn.Close()
	o.mu.Lock()
	script := o.scripts[min(o.connections, len(o.scripts)-1)]
	o.connections++
	o.mu.Unlock()
	reader := bufio.NewReader(conn)
	request, err := http.ReadRequest(reader)
	if err == nil {
		o.mu.Lock()
		o.requests = append(o.requests, request)
		o.mu.Unlock()
	}
	switch script {
	case originCut:
		return
	case originMute:
	default:
		io.WriteString(conn, script)
	}
	// Until the client closes, so that it never sees an end it did not make; a second
	// request on the connection would be counted.
	for err == nil {
		if request, err = http.ReadRequest(reader); err == nil {
			o.mu.Lock()
			o.requests = append(o.requests, request)
			o.mu.Unlock()
		}
	}
	io.Copy(io.Discard, reader)
	o.gone <- struct{}{}
}

// seen is how many connections and requests the origin got.
func (o *origin) seen() (connections, requests int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.connections, len(o.requests)
}

func (o *origin) first(t *testing.T) *http.Request {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.requests) == 0 {
		t.Fatal("the origin got no request")
	}
	return o.requests[0]
}

// answered is a whole answer without a body.
func answered(status string, headers ...string) string {
	return "HTTP/1.1 " + status + "\r\n" + strings.Join(append(headers, "Content-Length: 0"), "\r\n") + "\r\n\r\n"
}

// closedPort is the URL of a loopback port where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener := testListener(t)
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

// steps is a clock that moves by d between the two readings of an attempt, for each d;
// then by the last one again and again.
func steps(ds ...time.Duration) func() time.Time {
	var mu sync.Mutex
	now, readings := time.Date(2026, 10, 21, 22, 26, 31, 0, time.UTC), 0
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if readings%2 == 1 {
			now = now.Add(ds[min(readings/2, len(ds)-1)])
		}
		readings++
		return now
	}
}

// waits is a wait function that waits for nothing and keeps what it was asked for.
type waits struct {
	mu  sync.Mutex
	got []time.Duration
}

func (w *waits) wait(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, d)
	return ctx.Err()
}

// half is the middle of every random wait: 250 ms, then 500 ms.
func half() float64 { return 0.5 }

func loopbackAllowed(t *testing.T) *destinations {
	t.Helper()
	return newDestinations(mustAllow(t, "127.0.0.0/8"), resolveTo())
}

const (
	testLimit  = 20 * time.Second       // never reached; half of it is 10 s
	shortLimit = 150 * time.Millisecond // always reached
)

func TestResultOfAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		took, limit  time.Duration
		state        string
		code         int64
		detail       string
	}{
		{"up", answered("200 OK"), 3 * time.Millisecond, testLimit, stateUp, 200, "200"},
		{"just below half", answered("204 No Content"), 9999 * time.Millisecond, testLimit, stateUp, 204, "204"},
		{"fractions of a millisecond do not count", answered("200 OK"), 9999999 * time.Microsecond, testLimit, stateUp, 200, "200"},
		{"half", answered("200 OK"), 10 * time.Second, testLimit, stateSlow, 200, "200"},
		{"below half of an odd limit", answered("200 OK"), 10000 * time.Millisecond, testLimit + time.Millisecond, stateUp, 200, "200"},
		{"above half of an odd limit", answered("200 OK"), 10001 * time.Millisecond, testLimit + time.Millisecond, stateSlow, 200, "200"},
		{"redirect", answered("301 Moved Permanently", "Location: /otra"), 0, testLimit, stateUp, 301, "301"},
		{"redirect nobody can read", answered("302 Found", "Location: http://[::1"), 0, testLimit, stateUp, 302, "302"},
		{"not modified", answered("304 Not Modified"), 0, testLimit, stateUp, 304, "304"},
		{"switching protocols", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 0, testLimit, stateUp, 101, "101"},
		{"informational first", "HTTP/1.1 103 Early Hints\r\n\r\n" + answered("200 OK"), 0, testLimit, stateUp, 200, "200"},
		{"last status that is up", answered("399 X"), 0, testLimit, stateUp, 399, "399"},
		{"first status that is down", answered("400 Bad Request"), 0, testLimit, stateDown, 400, "400"},
		{"slow and down", answered("404 Not Found"), 10 * time.Second, testLimit, stateDown, 404, "404"},
		{"last status", answered("999 X"), 0, testLimit, stateDown, 999, "999"},
		{"no phrase", "HTTP/1.1 500\r\n\r\n", 0, testLimit, stateDown, 500, "500"},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n", 0, testLimit, stateUp, 200, "200"},
		{"body never comes", "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n", 0, testLimit, stateUp, 200, "200"},
		{"Retry-After on a success is not shown", answered("200 OK", "Retry-After: 3"), 0, testLimit, stateUp, 200, "200"},
		{"Retry-After in seconds", answered("500 X", "Retry-After: 120"), 0, testLimit, stateDown, 500, "500 (reintentar en 120 s)"},
		{"Retry-After zero", answered("404 X", "Retry-After: 0"), 0, testLimit, stateDown, 404, "404 (reintentar en 0 s)"},
		{"Retry-After as a date", answered("500 X", "Retry-After: Wed, 21 Oct 2026 22:26:41 GMT"), 0, testLimit, stateDown, 500, "500 (reintentar en 10 s)"},
		{"Retry-After in the past", answered("500 X", "Retry-After: Wed, 21 Oct 2015 22:26:41 GMT"), 0, testLimit, stateDown, 500, "500 (reintentar en 0 s)"},
		{"Retry-After malformed", answered("500 X", "Retry-After: 1.5"), 0, testLimit, stateDown, 500, "500"},
		{"Retry-After negative", answered("500 X", "Retry-After: -1"), 0, testLimit, stateDown, 500, "500"},
		{"Retry-After twice", answered("500 X", "Retry-After: 1", "Retry-After: 1"), 0, testLimit, stateDown, 500, "500"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, tt.script)
			c := newChecker(loopbackAllowed(t), steps(tt.took), half, new(waits).wait)
			ms := tt.took.Milliseconds()
			want := checkResult{state: tt.state, code: &tt.code, ms: &ms, detail: tt.detail}
			got, err := c.check(t.Context(), o.url+"/codigo", tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(checkResult{})); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
			if connections, requests := o.seen(); connections != 1 || requests != 1 {
				t.Errorf("%d connections, %d requests on the wire, want 1 and 1", connections, requests)
			}
		})
	}
}

func TestResultWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script, detail string
		limit                time.Duration
	}{
		{"never answers", originMute, "tiempo agotado", shortLimit},
		{"header section cut by the limit", "HTTP/1.1 200 OK\r\nX: y\r\n", "tiempo agotado", shortLimit},
		{"only informational answers", "HTTP/1.1 103 Early Hints\r\n\r\n", "tiempo agotado", shortLimit},
		{"cut", originCut, "respuesta inválida", testLimit},
		{"not HTTP", "hola\r\n\r\n", "respuesta inválida", testLimit},
		{"not HTTP, binary", "\x00\x01\x02\xff\r\n\r\n", "respuesta inválida", testLimit},
		{"status below 100", answered("099 X"), "respuesta inválida", testLimit},
		{"status zero", answered("000 X"), "respuesta inválida", testLimit},
		{"status of four digits", answered("2000 X"), "respuesta inválida", testLimit},
		{"status that is no number", answered("2x0 X"), "respuesta inválida", testLimit},
		{"two lengths", answered("200 OK", "Content-Length: 7"), "respuesta inválida", testLimit},
		{"header section too large", answered("200 OK", "X: "+strings.Repeat("x", maxResponseHeader)), "respuesta inválida", testLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, tt.script)
			c := newChecker(loopbackAllowed(t), time.Now, half, new(waits).wait)
			got, err := c.check(t.Context(), o.url, tt.limit)
			want := checkResult{state: stateDown, detail: tt.detail}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(checkResult{})); diff != "" || err != nil {
				t.Errorf("check = %v (-want +got):\n%s", err, diff)
			}
			if connections, requests := o.seen(); connections != maxAttempts || requests != maxAttempts {
				t.Errorf("%d connections, %d requests on the wire, want %d", connections, requests, maxAttempts)
			}
		})
	}
}

func TestResultWithoutAConnection(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, url, detail string
		resolve           func(context.Context, string) ([]netip.Addr, error)
		resolved          int // how many times a name was looked up
	}{
		{"refused", closedPort(t), "sin conexión", resolveTo(), 0},
		{"refused, over TLS", "https" + strings.TrimPrefix(closedPort(t), "http"), "sin conexión", resolveTo(), 0},
		{"a name that does not resolve", "http://no.example/", "sin conexión", resolveTo(), maxAttempts},
		{"a name that resolves to a closed port", "http://si.example:1/", "sin conexión", resolveTo("127.0.0.1", "127.0.0.2"), maxAttempts},
		{"forbidden address", "http://10.0.0.1:22/", "destino prohibido: 10.0.0.1:22 no es una dirección pública ni permitida", resolveTo(), 0},
		{"forbidden name", "http://si.example/", "destino prohibido: si.example:80 no lleva solo a direcciones públicas o permitidas", resolveTo("127.0.0.1", "10.0.0.1"), 1},
		{"a URL that cannot be read", "nada", "destino prohibido: la URL no se puede leer", resolveTo(), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resolved := 0
			d := newDestinations(mustAllow(t, "127.0.0.0/8"), func(ctx context.Context, host string) ([]netip.Addr, error) {
				resolved++
				return tt.resolve(ctx, host)
			})
			c := newChecker(d, time.Now, half, new(waits).wait)
			got, err := c.check(t.Context(), tt.url, testLimit)
			want := checkResult{state: stateDown, detail: tt.detail}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(checkResult{})); diff != "" || err != nil {
				t.Errorf("check = %v (-want +got):\n%s", err, diff)
			}
			if resolved != tt.resolved {
				t.Errorf("the name was looked up %d times, want %d", resolved, tt.resolved)
			}
		})
	}
}

func TestLimitCoversResolving(t *testing.T) {
	t.Parallel()
	d := newDestinations(allowed{}, func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	got, err := newChecker(d, time.Now, half, new(waits).wait).check(t.Context(), "http://h.example/", shortLimit)
	if want := (checkResult{state: stateDown, detail: "tiempo agotado"}); got != want || err != nil {
		t.Errorf("check = %+v, %v, want %+v", got, err, want)
	}
}

// A connection that never opens ends with the attempt, although net/http dials on a
// context that does not.
func TestLimitCoversConnecting(t *testing.T) {
	t.Parallel()
	ended := make(chan error, maxAttempts)
	d := newDestinations(allowed{}, resolveTo("8.8.8.8"))
	d.connect = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	got, err := newChecker(d, time.Now, half, new(waits).wait).check(t.Context(), "http://h.example/", shortLimit)
	if want := (checkResult{state: stateDown, detail: "tiempo agotado"}); got != want || err != nil {
		t.Errorf("check = %+v, %v, want %+v", got, err, want)
	}
	for range maxAttempts {
		if err := <-ended; !errors.Is(err, errSlow) {
			t.Errorf("a dial ended with %v, want errSlow", err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := newOrigin(t, answered("200 OK"))
	mute := newOrigin(t, originMute)
	https := func(url string) string { return "https" + strings.TrimPrefix(url, "http") }
	trusting := newChecker(loopbackAllowed(t), steps(0), half, new(waits).wait)
	trusting.transport.TLSClientConfig = &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	strict := newChecker(loopbackAllowed(t), steps(0), half, new(waits).wait)
	tests := []struct {
		name, url string
		checker   *checker
		limit     time.Duration
		want      string
	}{
		{"trusted certificate", secure.URL, trusting, testLimit, "200"},
		{"unknown certificate", secure.URL, strict, testLimit, "respuesta inválida"},
		{"no TLS at all", https(plain.url), strict, testLimit, "respuesta inválida"},
		{"a handshake that never ends", https(mute.url), strict, shortLimit, "tiempo agotado"},
	}
	for _, tt := range tests {
		got, err := tt.checker.check(t.Context(), tt.url, tt.limit)
		if got.detail != tt.want || err != nil {
			t.Errorf("%s: check = %q, %v, want %q", tt.name, got.detail, err, tt.want)
		}
	}
}

func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	ok, down := answered("200 OK"), answered("503 X")
	tests := []struct {
		name     string
		scripts  []string
		requests int
		waits    []time.Duration
		detail   string
	}{
		{"200 once", []string{ok}, 1, nil, "200"},
		{"301 once", []string{answered("301 X")}, 1, nil, "301"},
		{"500 once", []string{answered("500 X"), ok}, 1, nil, "500"},
		{"501 once", []string{answered("501 X"), ok}, 1, nil, "501"},
		{"505 once", []string{answered("505 X"), ok}, 1, nil, "505"},
		{"404 once", []string{answered("404 X"), ok}, 1, nil, "404"},
		{"408 once", []string{answered("408 X"), ok}, 1, nil, "408"},
		{"425 once", []string{answered("425 X"), ok}, 1, nil, "425"},
		{"500 with Retry-After once", []string{answered("500 X", "Retry-After: 1"), ok}, 1, nil, "500 (reintentar en 1 s)"},
		{"429", []string{answered("429 X"), ok}, 2, []time.Duration{250 * ms}, "200"},
		{"502", []string{answered("502 X"), ok}, 2, []time.Duration{250 * ms}, "200"},
		{"503", []string{down, ok}, 2, []time.Duration{250 * ms}, "200"},
		{"504", []string{answered("504 X"), ok}, 2, []time.Duration{250 * ms}, "200"},
		{"cut", []string{originCut, ok}, 2, []time.Duration{250 * ms}, "200"},
		{"not HTTP", []string{"hola\n", ok}, 2, []time.Duration{250 * ms}, "200"},
		{"three at most, no wait after the last", []string{down}, 3, []time.Duration{250 * ms, 500 * ms}, "503"},
		{"the third is good", []string{down, originCut, ok}, 3, []time.Duration{250 * ms, 500 * ms}, "200"},
		{"the last attempt decides", []string{down, originCut, answered("404 X")}, 3, []time.Duration{250 * ms, 500 * ms}, "404"},
		{"ends without an answer", []string{down, down, originCut}, 3, []time.Duration{250 * ms, 500 * ms}, "respuesta inválida"},
		{"Retry-After 0 is obeyed", []string{answered("503 X", "Retry-After: 0"), ok}, 2, []time.Duration{0}, "200"},
		{"Retry-After of 5 s is obeyed", []string{answered("429 X", "Retry-After: 5"), ok}, 2, []time.Duration{5 * time.Second}, "200"},
		{"Retry-After of 6 s ends it", []string{answered("503 X", "Retry-After: 6"), ok}, 1, nil, "503 (reintentar en 6 s)"},
		{"Retry-After of 6 s after a cut", []string{originCut, answered("503 X", "Retry-After: 6"), ok}, 2, []time.Duration{250 * ms}, "503 (reintentar en 6 s)"},
		{"Retry-After of the last is not waited for", []string{down, down, answered("503 X", "Retry-After: 2")}, 3, []time.Duration{250 * ms, 500 * ms}, "503 (reintentar en 2 s)"},
		{"Retry-After as a near date", []string{answered("503 X", "Retry-After: Wed, 21 Oct 2026 22:26:33 GMT"), ok}, 2, []time.Duration{2 * time.Second}, "200"},
		{"Retry-After as a far date", []string{answered("503 X", "Retry-After: Wed, 21 Oct 2026 22:26:37 GMT"), ok}, 1, nil, "503 (reintentar en 6 s)"},
		{"Retry-After as a past date", []string{answered("503 X", "Retry-After: Sunday, 06-Nov-94 08:49:37 GMT"), ok}, 2, []time.Duration{0}, "200"},
		{"malformed Retry-After as if it had not come", []string{answered("503 X", "Retry-After: 12 30"), ok}, 2, []time.Duration{250 * ms}, "200"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, tt.scripts...)
			var w waits
			got, err := newChecker(loopbackAllowed(t), steps(0), half, w.wait).check(t.Context(), o.url, testLimit)
			if got.detail != tt.detail || err != nil {
				t.Errorf("check = %q, %v, want %q", got.detail, err, tt.detail)
			}
			if connections, requests := o.seen(); connections != tt.requests || requests != tt.requests {
				t.Errorf("%d connections, %d requests on the wire, want %d", connections, requests, tt.requests)
			}
			if diff := cmp.Diff(tt.waits, w.got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMillisecondsAreThoseOfTheLastAttempt(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, answered("503 X"), answered("502 X"), answered("200 OK"))
	c := newChecker(loopbackAllowed(t), steps(19*time.Second, 18*time.Second, 7*time.Millisecond), half, new(waits).wait)
	got, err := c.check(t.Context(), o.url, testLimit)
	if err != nil || got.state != stateUp || got.ms == nil || *got.ms != 7 {
		t.Errorf("check = %+v, %v, want ARRIBA in 7 ms", got, err)
	}
}

// Rebinding: the name leads to a public address when it is judged first and to loopback
// afterwards. Whatever is resolved next, only what was judged for an attempt is dialled.
func TestRebindingNeverReachesLoopback(t *testing.T) {
	t.Parallel()
	inside := newOrigin(t, answered("200 OK"))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(inside.url, "http://"))
	public, loopback := netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("127.0.0.1")
	tests := []struct {
		name    string
		answers [][]netip.Addr // of the resolver, in order
		dialled []string
		detail  string
	}{
		{"public, then loopback", [][]netip.Addr{{public}, {loopback}}, []string{"8.8.8.8:" + port}, "destino prohibido: trampa.example:" + port + " no lleva solo a direcciones públicas o permitidas"},
		{"public twice, then loopback", [][]netip.Addr{{public}, {public}, {loopback}}, []string{"8.8.8.8:" + port, "8.8.8.8:" + port}, "destino prohibido: trampa.example:" + port + " no lleva solo a direcciones públicas o permitidas"},
		{"both at once", [][]netip.Addr{{public, loopback}}, nil, "destino prohibido: trampa.example:" + port + " no lleva solo a direcciones públicas o permitidas"},
		{"public to the end", [][]netip.Addr{{public}, {public}, {public}, {loopback}}, slices.Repeat([]string{"8.8.8.8:" + port}, 3), "sin conexión"},
	}
	for _, tt := range tests {
		lookups := 0
		d := newDestinations(allowed{}, func(context.Context, string) ([]netip.Addr, error) {
			lookups++
			return tt.answers[min(lookups, len(tt.answers))-1], nil
		})
		var dialled []string
		d.connect = func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return nil, errors.New("no network here")
		}
		got, err := newChecker(d, time.Now, half, new(waits).wait).check(t.Context(), "http://trampa.example:"+port+"/", testLimit)
		if got.detail != tt.detail || err != nil {
			t.Errorf("%s: check = %q, %v, want %q", tt.name, got.detail, err, tt.detail)
		}
		if diff := cmp.Diff(tt.dialled, dialled); diff != "" {
			t.Errorf("%s: dialled (-want +got):\n%s", tt.name, diff)
		}
	}
	if connections, _ := inside.seen(); connections != 0 {
		t.Errorf("%d connections to loopback, want none", connections)
	}
}

// The connection goes to the judged address, and the Host field keeps the name.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, answered("200 OK"))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(o.url, "http://"))
	c := newChecker(newDestinations(mustAllow(t, "127.0.0.1:"+port), resolveTo("127.0.0.1")), time.Now, half, new(waits).wait)
	raw := "http://ana:s%3Aecreto@NOMBRE.example:" + port + "/a%2Fb|c?d=e#f"
	if code, _, err := c.liveCheck(t.Context(), raw, testLimit); code != 200 || err != nil {
		t.Fatalf("liveCheck = %d, %v, want 200", code, err)
	}
	got := o.first(t)
	if got.Method != "GET" || got.RequestURI != "/a%2Fb%7Cc?d=e" || got.Host != "nombre.example:"+port {
		t.Errorf("request = %s %s, Host %s", got.Method, got.RequestURI, got.Host)
	}
	if user, password, ok := got.BasicAuth(); user != "ana" || password != "s:ecreto" || !ok {
		t.Errorf("Basic authentication = %q, %q, %v, want ana, s:ecreto", user, password, ok)
	}
	if !got.Close || len(got.Header) != 3 || got.Header.Get("User-Agent") != userAgent {
		t.Errorf("header = %v, close %v, want Authorization, User-Agent and Connection: close alone", got.Header, got.Close)
	}
}

func TestLiveCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		limit        time.Duration
		code         int
		want         error
	}{
		{"any status is an answer", answered("503 X", "Retry-After: 1"), testLimit, 503, nil},
		{"slow", originMute, shortLimit, 0, errSlow},
		{"cut", originCut, testLimit, 0, errBadAnswer},
		{"not HTTP", "hola\n", testLimit, 0, errBadAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, tt.script)
			code, ms, err := newChecker(loopbackAllowed(t), steps(7*time.Millisecond), half, new(waits).wait).liveCheck(t.Context(), o.url, tt.limit)
			if code != tt.code || !errors.Is(err, tt.want) || (err == nil && ms != 7) {
				t.Errorf("liveCheck = %d, %d, %v, want %d, 7, %v", code, ms, err, tt.code, tt.want)
			}
			if connections, requests := o.seen(); connections != 1 || requests != 1 {
				t.Errorf("%d connections, %d requests on the wire, want 1", connections, requests)
			}
		})
	}
	c := newChecker(loopbackAllowed(t), time.Now, half, new(waits).wait)
	if _, _, err := c.liveCheck(t.Context(), closedPort(t), testLimit); !errors.Is(err, errBadAnswer) || !errors.Is(err, errNoConnection) {
		t.Errorf("liveCheck of a closed port = %v, want errBadAnswer and errNoConnection", err)
	}
	if _, _, err := c.liveCheck(t.Context(), "http://no.example/", testLimit); !errors.Is(err, errBadAnswer) {
		t.Errorf("liveCheck of a name without addresses = %v, want errBadAnswer", err)
	}
	var forbidden *forbiddenDestination
	if _, _, err := c.liveCheck(t.Context(), "http://10.0.0.1/", testLimit); !errors.As(err, &forbidden) {
		t.Errorf("liveCheck of a private address = %v, want a forbidden destination", err)
	}
}

// A check that is cut short from outside knows nothing: it must not look like a result.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := newOrigin(t, originMute)
	interrupted := make(chan error)
	go func() {
		_, err := newChecker(loopbackAllowed(t), time.Now, half, new(waits).wait).check(ctx, o.url, testLimit)
		interrupted <- err
	}()
	eventually(t, "the request arrives", func() bool { _, requests := o.seen(); return requests == 1 })
	cancel()
	if err := <-interrupted; !errors.Is(err, context.Canceled) {
		t.Errorf("check interrupted in an attempt = %v, want context.Canceled", err)
	}
	<-o.gone // and the connection is closed

	ctx, cancel = context.WithCancel(t.Context())
	o = newOrigin(t, answered("503 X"))
	waiting := func(ctx context.Context, d time.Duration) error {
		cancel()
		return ctx.Err()
	}
	if got, err := newChecker(loopbackAllowed(t), time.Now, half, waiting).check(ctx, o.url, testLimit); !errors.Is(err, context.Canceled) {
		t.Errorf("check interrupted in a wait = %+v, %v, want context.Canceled", got, err)
	}
}
