// ledger_test.go owns what the gateway's ledger says, how much of it is kept, and that one
// seed gives one ledger.

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// post sends one request through a gateway and reads what comes; there may be nothing.
func post(t *testing.T, gateway, path, key, body string) answer {
	t.Helper()
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	got, _ := attempt(t.Context(), newTransport(), wireLimit, 1<<20, call{
		method: "POST", base: mustURL(t, "http://"+gateway), path: path, header: header, body: []byte(body),
	})
	return got
}

// arrivals is what the ledger keeps.
func (l *ledger) arrivals() []arrival {
	kept, _ := l.snapshot()
	return kept
}

// ended waits until all that arrived has ended, and returns it.
func (l *ledger) ended(t *testing.T, count int) []arrival {
	t.Helper()
	eventually(t, strconv.Itoa(count)+" exchanges have ended", func() bool {
		kept := l.arrivals()
		return len(kept) == count && !slices.ContainsFunc(kept, func(a arrival) bool { return a.Ended.IsZero() })
	})
	return l.arrivals()
}

// timeless leaves out what differs from run to run: times and the order of arrival.
func timeless(arrivals []arrival) []arrival {
	all := slices.Clone(arrivals)
	for i := range all {
		all[i].Sequence = 0
		all[i].Arrived, all[i].Forwarded, all[i].Answered, all[i].Ended = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	}
	slices.SortFunc(all, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Number, b.Number))
	})
	return all
}

// TestLedgerTells: what was done, what the upstream said, what the client was sent.
func TestLedgerTells(t *testing.T) {
	t.Parallel()
	const lost = int64(len(`{"type":"about:blank","title":"Bad Gateway","status":502,"detail":"la respuesta del servidor de detrás se perdió en el camino de vuelta"}` + "\n"))
	const unsent = int64(len(`{"type":"about:blank","title":"Bad Gateway","status":502,"detail":"la petición se perdió en el camino de ida; el servidor de detrás no la recibió"}` + "\n"))
	tests := []struct {
		spec string
		want arrival
	}{
		{"after,nth=2", arrival{Upstream: 201, Status: 201, Bytes: 4, Whole: true}},
		{"before", arrival{Status: 502, Bytes: unsent, Whole: true}},
		{"after", arrival{Upstream: 201, Status: 502, Bytes: lost, Whole: true}},
		{"cut-before-headers", arrival{Upstream: 201}},
		{"cut-after-headers", arrival{Upstream: 201, Status: 201}},
		{"cut-after=3", arrival{Upstream: 201, Status: 201, Bytes: 3}},
		{"cut-after=3:reset", arrival{Upstream: 201, Status: 201, Bytes: 3}},
		{"duplicate", arrival{Upstream: 201, Duplicate: 201, Status: 201, Bytes: 4, Whole: true}},
		{"delay=1ms", arrival{Upstream: 201, Status: 201, Bytes: 4, Whole: true}},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			t.Parallel()
			clock := newFakeClock()
			clock.run()
			plan, book := planOf(t, tt.spec), newLedger(10, nil, slog.New(slog.DiscardHandler))
			gateway := serveGateway(t, tellsHello(t).url, gatewayConfig{plan: plan, ledger: book, now: clock.Now})
			post(t, gateway, "/s?x", "k1", "a")
			got := book.ended(t, 1)[0]
			want := tt.want
			want.Number, want.Identity, want.Method, want.Path, want.Key = 1, "llave k1", "POST", "/s?x", "k1"
			if !strings.HasSuffix(tt.spec, "nth=2") {
				want.Fault = tt.spec
			}
			if diff := gocmp.Diff([]arrival{want}, timeless([]arrival{got})); diff != "" {
				t.Errorf("the ledger differs (-want +got):\n%s", diff)
			}
			forwarded := tt.spec != "before"
			if got.Sequence != 1 || got.Forwarded.IsZero() == forwarded || got.Answered.IsZero() == forwarded {
				t.Errorf("sequence and times = %+v, want the first, forwarded and answered: %v", got, forwarded)
			}
			times := slices.DeleteFunc([]time.Time{got.Arrived, got.Forwarded, got.Answered, got.Ended}, time.Time.IsZero)
			if !slices.IsSortedFunc(times, time.Time.Compare) || got.Arrived.IsZero() || got.Ended.IsZero() {
				t.Errorf("times = %v, want them in their order", times)
			}
		})
	}
}

// TestLedgerIdentities: k1 and "k1" are one key; without a key the body counts; what did
// not come whole is entered and not counted.
func TestLedgerIdentities(t *testing.T) {
	t.Parallel()
	book := newLedger(10, nil, slog.New(slog.DiscardHandler))
	gateway := serveGateway(t, tellsHello(t).url, gatewayConfig{ledger: book, now: time.Now})
	post(t, gateway, "/s", "k1", "a")
	post(t, gateway, "/s", `"k1"`, "a")
	post(t, gateway, "/s", "", "a")
	post(t, gateway, "/s", "", "b")
	post(t, gateway, "/s", "", "b")
	post(t, gateway, "/"+strings.Repeat("x", 2*shownText), "k\u202e2", "")
	conn, in := dialWire(t, gateway)
	io.WriteString(conn, "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhola")
	conn.CloseWrite()
	readHead(in)
	var got []string
	for _, a := range book.ended(t, 7) {
		got = append(got, a.Identity+" "+strconv.FormatUint(a.Number, 10))
		if len(a.Path) > shownText+len("…") || a.Key != "" && !strings.HasPrefix(a.Identity, "llave "+a.Key) {
			t.Errorf("arrival = %+v, want a short path and its key as its identity", a)
		}
	}
	a, b := identifyRequest("POST", "/s", []byte("a"), 1).short(), identifyRequest("POST", "/s", []byte("b"), 1).short()
	want := []string{"llave k1 1", "llave k1 2", "POST /s " + a + " 1", "POST /s " + b + " 1", "POST /s " + b + " 2", `llave k\u202e2 1`, "POST /s 0"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("identities and numbers differ (-want +got):\n%s", diff)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	book := newLedger(3, nil, slog.New(slog.DiscardHandler))
	for i := range 8 {
		if entry := book.begin(arrival{}); entry.Sequence != uint64(i+1) {
			t.Fatalf("sequence = %d, want %d", entry.Sequence, i+1)
		}
		kept, forgotten := book.snapshot()
		if want := min(i+1, 3); len(kept) != want || forgotten != uint64(i+1-want) {
			t.Fatalf("after %d: %d kept, %d forgotten, want %d, %d", i+1, len(kept), forgotten, want, i+1-want)
		}
		for place, a := range kept {
			if want := forgotten + uint64(place) + 1; a.Sequence != want {
				t.Errorf("after %d: place %d holds %d, want %d", i+1, place, a.Sequence, want)
			}
		}
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestLedgerFileFills: who cannot write a line says so once, and the gateway goes on.
func TestLedgerFileFills(t *testing.T) {
	t.Parallel()
	log := &benchLog{}
	book := newLedger(10, fullDisk{}, log.logger())
	gateway := serveGateway(t, tellsHello(t).url, gatewayConfig{ledger: book, now: time.Now})
	for range 3 {
		if got := post(t, gateway, "/s", "k1", "a"); got.status != 201 {
			t.Errorf("answer = %d, want 201", got.status)
		}
	}
	book.ended(t, 3)
	if n := strings.Count(log.String(), "no space left"); n != 1 {
		t.Errorf("%d lines in the log about it, want 1: %s", n, log)
	}
}

// TestSameSeedSameLedger: many clients at once, in whatever order they come: without the
// times, sorted by identity, one seed gives one ledger, and another seed another.
func TestSameSeedSameLedger(t *testing.T) {
	t.Parallel()
	const requests, clients, rounds = 12, 3, 2
	run := func(seed uint64) []arrival {
		faults := planOf(t, "cut-after=2:reset,rate=0.2", "after,rate=0.3", "delay=1ms,rate=0.5", "duplicate,every=5", "before,nth=6").faults
		var lines syncBuffer
		book := newLedger(ledgerLimit, &lines, slog.New(slog.DiscardHandler))
		gateway := serveGateway(t, tellsHello(t).url, gatewayConfig{plan: newFaultPlan(faults, seed), ledger: book, now: time.Now})
		var all sync.WaitGroup
		for request := range requests {
			key, body := "", "a"+strconv.Itoa(request)
			if request%2 == 0 {
				key = "k" + strconv.Itoa(request)
			}
			for range clients {
				all.Go(func() {
					for range rounds {
						post(t, gateway, "/s", key, body)
					}
				})
			}
		}
		all.Wait()
		told := timeless(book.ended(t, requests*clients*rounds))
		var written []arrival
		for line := range strings.Lines(lines.String()) {
			var a arrival
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Errorf("line %q: %v", line, err)
			}
			written = append(written, a)
		}
		if diff := gocmp.Diff(told, timeless(written)); diff != "" {
			t.Errorf("the file differs from what is in memory (-memory +file):\n%s", diff)
		}
		return told
	}
	first := run(7)
	if diff := gocmp.Diff(first, run(7)); diff != "" {
		t.Errorf("one seed gives two ledgers (-first +second):\n%s", diff)
	}
	if gocmp.Equal(first, run(8)) {
		t.Error("two seeds give one ledger")
	}
}

// TestLedgerOfTheProgram: the flags, the file, and the address where it is read.
func TestLedgerOfTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "arribos.jsonl")
	up := tellsHello(t)
	c := spawn(t, "--as=gateway", "--target="+up.url, "--gateway-listen=127.0.0.1:0", "--gateway-admin=127.0.0.1:0", "--ledger="+file,
		"--fault=after", "--fault=status=503:2,nth=2", "--seed=7")
	eventually(t, "the ledger can be read", func() bool { return c.listeningOn("gateway-admin") != "" })
	if !strings.Contains(c.stderr.String(), "seed=7") {
		t.Errorf("log = %s, want the seed", c.stderr)
	}
	for i, want := range []int{502, 503, 201} {
		if got := post(t, c.listeningOn("gateway"), "/s", "k1", "a"); got.status != want || got.header.Get("X-Simulado") == "" != (want == 201) {
			t.Errorf("answer %d = %d %v, want %d, and X-Simulado unless 201", i+1, got.status, got.header, want)
		}
	}
	admin := &url.URL{Scheme: "http", Host: c.listeningOn("gateway-admin")}
	ask := func(method, path string) answer {
		got, err := attempt(t.Context(), newTransport(), wireLimit, 1<<20, call{method: method, base: admin, path: path})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	var page struct {
		Seed      uint64    `json:"semilla"`
		Forgotten *uint64   `json:"olvidados"`
		Arrivals  []arrival `json:"arribos"`
	}
	eventually(t, "three exchanges are in the ledger", func() bool {
		got := ask("GET", "/__pasarela/arribos")
		if err := json.Unmarshal(got.body, &page); err != nil || got.status != 200 || got.header.Get("Content-Type") != "application/json" {
			t.Fatalf("GET = %d %v %s, %v, want 200 and JSON", got.status, got.header, got.body, err)
		}
		return len(page.Arrivals) == 3 && !page.Arrivals[2].Ended.IsZero()
	})
	if page.Seed != 7 || page.Forgotten == nil || *page.Forgotten != 0 || page.Arrivals[1].Fault != "status=503:2" || page.Arrivals[2].Upstream != 201 {
		t.Errorf("page = %+v, want seed 7, none forgotten, a status and then a 201", page)
	}
	for _, tt := range []struct {
		method, path string
		want         int
	}{{"POST", "/__pasarela/arribos", 405}, {"GET", "/", 404}, {"GET", "/__pasarela/arribos/", 404}, {"HEAD", "/__pasarela/arribos", 200}} {
		if got := ask(tt.method, tt.path); got.status != tt.want || tt.want == 405 && got.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s = %d %v, want %d", tt.method, tt.path, got.status, got.header, tt.want)
		}
	}
	c.stop()
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("\n")) != 3 || !bytes.Contains(text, []byte(`"falla":"after"`)) {
		t.Errorf("file = %s, %v, want three lines", text, err)
	}
}

// TestLedgerCannotBeOpened: a file that cannot be written is told at the start.
func TestLedgerCannotBeOpened(t *testing.T) {
	t.Parallel()
	_, stderr, err := ran(t, nil, "--as=gateway", "--gateway-listen=127.0.0.1:0", "--ledger="+t.TempDir())
	if err == nil || exitStatus(err) != 1 || !strings.Contains(err.Error(), "abrir el registro de arribos") || strings.Contains(stderr, "listening") {
		t.Errorf("run = %v, standard error %q, want a failure that says so, and no server", err, stderr)
	}
}
