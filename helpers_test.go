// helpers_test.go owns the bench that the contract's tests share: a whole revisor on a
// temporary file, behind a real listener, with a clock and a resolver that the test
// holds.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeClock is a clock that moves when told to, and once it runs by itself too.
type fakeClock struct {
	mu      sync.Mutex
	now     time.Time
	running time.Time // since when; zero while it stands
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 10, 21, 22, 26, 31, 0, time.UTC)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.IsZero() {
		return c.now
	}
	return c.now.Add(time.Since(c.running))
}

func (c *fakeClock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = time.Now()
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// syncBuffer collects a log that several goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// benchOptions is what a test may want otherwise.
type benchOptions struct {
	path       string // of the database; "" for a new one
	ttl        time.Duration
	wait       bool
	saveDelay  time.Duration
	queueDelay time.Duration
	resolve    func(ctx context.Context, host string) ([]netip.Addr, error)
	allow      []string
	broken     defects
	scheme     byte
}

// bench is a running revisor.
type bench struct {
	t      *testing.T
	url    string // of the API, without a slash at the end
	lab    string // host:port of a lab that may be checked
	store  *store
	engine *engine
	routes http.Handler // the role's, for a server of the test's own
	clock  *fakeClock
	log    *syncBuffer
	stop   func() // ends it as a signal would; safe to call twice
}

// newBench starts a revisor with the practice credentials and no services. Names
// resolve to nothing unless resolve says otherwise; the lab's address is allowed.
func newBench(t *testing.T, o benchOptions) *bench {
	t.Helper()
	b := &bench{t: t, clock: newFakeClock(), log: &syncBuffer{}}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	labListener := testListener(t)
	b.lab = labListener.Addr().String()
	if o.path == "" {
		o.path = filepath.Join(t.TempDir(), "revisor.db")
	}
	if o.ttl == 0 {
		o.ttl = 24 * time.Hour
	}
	if o.resolve == nil {
		o.resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	}
	st, err := openStore(o.path, newTag)
	if err != nil {
		t.Fatal(err)
	}
	allow, err := parseAllowed(append(o.allow, b.lab))
	if err != nil {
		t.Fatal(err)
	}
	role := revisorOn(st, log, b.clock.Now, o.resolve, revisorSettings{
		allow: allow, keyTTL: o.ttl, wait: o.wait, scheme: o.scheme,
		saveDelay: o.saveDelay, queueDelay: o.queueDelay, broken: o.broken,
	})
	if err := role.start(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.store, b.engine, b.routes = st, role.engine, role.handler
	listener := testListener(t)
	b.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	sites := []site{
		{role: "revisor", listener: listener, handler: role.handler},
		{role: "lab", listener: labListener, handler: newLab(labConfig{limits: labTestLimits, log: log, now: b.clock.Now}), base: ctx},
	}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, log, sites, role.drain) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		checkNothingInFlight(t, b.engine)
		if err := st.close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// revisorOn is role revisor on a store, with the practice credentials and waits without
// chance.
func revisorOn(st *store, log *slog.Logger, now func() time.Time, resolve func(context.Context, string) ([]netip.Addr, error), settings revisorSettings) *revisorRole {
	return newRevisor(revisorConfig{
		revisorSettings: settings, store: st, practice: practiceCredentials(), log: log,
		now: now, random: func() float64 { return 0 }, pause: pause, resolve: resolve,
	})
}

// checkNothingInFlight: on every path out a key leaves the table of those in flight,
// unless that is what is broken.
func checkNothingInFlight(t *testing.T, e *engine) {
	t.Helper()
	if n := e.flights.size(); n != 0 && !e.broken[stuckOnConflict] {
		t.Errorf("%d keys are in flight at the end, want none", n)
	}
}

func testListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// response is an answer read whole.
type response struct {
	status int
	header http.Header
	body   string
}

// call makes one request, on a connection of its own. Headers come as "Name: value";
// as is the practice credential, "" for none. A body makes it application/json unless
// a header says otherwise ("Content-Type:" alone leaves it out).
func (b *bench) call(method, path, as, body string, headers ...string) response {
	b.t.Helper()
	resp, err := b.try(context.Background(), method, path, as, body, headers...)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

// try is call for requests that may get no answer.
func (b *bench) try(ctx context.Context, method, path, as, body string, headers ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	req.GetBody = nil // one request on the wire, whatever happens
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+as)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		if strings.EqualFold(name, "Content-Type") {
			req.Header.Del("Content-Type")
		}
		if value = strings.TrimSpace(value); value != "" {
			req.Header.Add(name, value)
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	got := response{resp.StatusCode, resp.Header, string(text)}
	if err == nil {
		checkAnswer(b.t, method, path, got)
	}
	return got, err
}

// in is the same revisor for a subtest: what goes wrong is that test's.
func (b *bench) in(t *testing.T) *bench {
	sub := *b
	sub.t = t
	return &sub
}

// register makes a service at the lab and returns its path.
func (b *bench) register(name, as string) string {
	b.t.Helper()
	return b.registered(as, b.service(name))
}

// registered makes a service of that body and returns its path.
func (b *bench) registered(as, body string) string {
	b.t.Helper()
	got := b.call("POST", "/servicios", as, body)
	if got.status != http.StatusCreated {
		b.t.Fatalf("POST /servicios %s = %d %s, want 201", body, got.status, got.body)
	}
	return got.header.Get("Location")
}

// verdict is an answer in one word or two: its status, and its problem if it is one.
func (r response) verdict() string {
	return strings.TrimSpace(strconv.Itoa(r.status) + " " + r.problem())
}

// member reads a member of a JSON answer, nil when there is none.
func (r response) member(name string) any {
	var object map[string]any
	json.Unmarshal([]byte(r.body), &object)
	return object[name]
}

// problem is the slug of a problem, "about:blank", or "" when it is none.
func (r response) problem() string {
	if r.header.Get("Content-Type") != "application/problem+json" {
		return ""
	}
	typ, _ := r.member("type").(string)
	return strings.TrimPrefix(typ, problemBase)
}

// service is the body of a registration of name, at the lab.
func (b *bench) service(name string) string {
	return `{"nombre":"` + name + `","url":"http://` + b.lab + `/codigo/200"}`
}

// eventually polls until done says so, and fails the test after a while.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	pollEvery(t, 5*time.Millisecond, what, done)
}

// pollEvery is eventually with an interval of the test's choice.
func pollEvery(t *testing.T, interval time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(interval) // polling, with a deadline
	}
}
