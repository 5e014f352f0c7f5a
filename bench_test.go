// bench_test.go owns the figures of BENCHMARKS.md: ratios taken in one run on one
// machine, over real sockets, against a bare httprouter handler. Run with
//
//	go test -run '^$' -bench Figures -benchtime 1x
//
// -figures.time sets how long each measurement lasts, -figures.keys how many keys the
// large database holds.

package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/julienschmidt/httprouter"
)

var (
	figuresTime = flag.Duration("figures.time", 3*time.Second, "how long one measurement of BenchmarkFigures lasts")
	figuresKeys = flag.Int("figures.keys", 1_000_000, "keys on file in the large database of BenchmarkFigures")
)

// load is what a measurement came to.
type load struct {
	requests int64
	perS     float64
	p50, p99 time.Duration
	max      time.Duration
	statuses map[int]int64
}

// loadConn is one kept-alive connection of the load generator: as little client as
// HTTP allows, because it runs on the cores that it measures.
type loadConn struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialLoad(tb testing.TB, address string) *loadConn {
	tb.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	return &loadConn{conn, bufio.NewReader(conn)}
}

// exchange sends a request and reads its whole answer.
func (c *loadConn) exchange(request []byte) (status int, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return 0, fmt.Errorf("status line %q: %w", line, err)
	}
	status, err = strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, err
	}
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(textproto.TrimBytes(value))); err != nil {
				return 0, err
			}
		}
	}
	_, err = c.in.Discard(length)
	return status, err
}

// measure sends requests over so many connections for a time. request writes the n-th
// request into buf; rate, when not 0, is the steady number of requests a second.
func measure(tb testing.TB, address string, connections int, rate float64, request func(buf []byte, n int64) []byte) load {
	tb.Helper()
	var next atomic.Int64
	start := time.Now()
	end := start.Add(*figuresTime)
	times := make([][]time.Duration, connections)
	counts := make([]map[int]int64, connections)
	var group sync.WaitGroup
	for i := range connections {
		conn := dialLoad(tb, address)
		counts[i] = map[int]int64{}
		group.Go(func() {
			defer conn.conn.Close()
			var buf []byte
			for time.Now().Before(end) {
				n := next.Add(1)
				due := time.Now()
				if rate > 0 { // open loop: a late answer counts from when it was due
					due = start.Add(time.Duration(float64(n) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				buf = request(buf[:0], n)
				status, err := conn.exchange(buf)
				if err != nil {
					tb.Errorf("exchange: %v", err)
					return
				}
				times[i] = append(times[i], time.Since(due))
				counts[i][status]++
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	all := slices.Concat(times...)
	slices.Sort(all)
	result := load{requests: int64(len(all)), perS: float64(len(all)) / took.Seconds(), statuses: map[int]int64{}}
	for _, c := range counts {
		for status, n := range c {
			result.statuses[status] += n
		}
	}
	if len(all) > 0 {
		result.p50, result.p99, result.max = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	}
	return result
}

func (l load) String() string {
	return fmt.Sprintf("%8.0f/s  p50 %6.2f ms  p99 %6.2f ms  max %7.2f ms  %v",
		l.perS, ms(l.p50), ms(l.p99), ms(l.max), l.statuses)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// serveBench serves a handler on loopback until the test ends.
func serveBench(tb testing.TB, handler http.Handler) (address string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	server := newHTTPServer(site{role: "bench", listener: l, handler: handler}, log)
	go server.Serve(l)
	tb.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

// bareHandler is the yardstick: a router, a body read, 90 bytes answered.
func bareHandler() http.Handler {
	router := httprouter.New()
	answer := []byte(strings.Repeat("x", 89) + "\n")
	router.POST("/servicios", func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	})
	return router
}

// benchServer is a revisor that logs to the null device, as a server with its log
// turned away would.
func benchServer(tb testing.TB, st *store) (address string, eng *engine) {
	tb.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { null.Close() })
	log := slog.New(slog.NewTextHandler(null, nil))
	allow, _ := parseAllowed(nil)
	dests := newDestinations(allow, systemResolve)
	check := newChecker(dests, time.Now, func() float64 { return 0 }, pause)
	eng = newEngine(engineConfig{store: st, now: time.Now, log: log, ttl: 24 * time.Hour})
	return serveBench(tb, newServer(serverConfig{
		store: st, engine: eng, checker: check, queue: newRevisionQueue(st, check, 0, time.Now, pause, log),
		destinations: dests, now: time.Now, log: log, practice: practiceCredentials(),
	})), eng
}

func benchStore(tb testing.TB, name string) *store {
	tb.Helper()
	st, err := openStore(filepath.Join(tb.TempDir(), name+".db"), newTag)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.close() })
	return st
}

// registration requests: distinct names, and a key of its own each when keyed.
func registrationRequest(prefix string, keyed bool) func(buf []byte, n int64) []byte {
	return func(buf []byte, n int64) []byte {
		body := fmt.Sprintf(`{"nombre":"%s-%d","url":"http://[2000::1]/"}`, prefix, n)
		buf = fmt.Appendf(buf, "POST /servicios HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer escritura-a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body))
		if keyed {
			buf = fmt.Appendf(buf, "Idempotency-Key: %s-%016x\r\n", prefix, uint64(n)*0x9E3779B97F4A7C15)
		}
		return fmt.Appendf(buf, "\r\n%s", body)
	}
}

// fillKeys puts recorded keys into a store, expired or living, with their services.
func fillKeys(tb testing.TB, st *store, prefix string, count int, expires time.Time) {
	tb.Helper()
	const perJob = 1000
	body := []byte(`{"id":1000000,"nombre":"` + prefix + `-1000000","url":"http://[2000::1]/","limite_ms":2000}` + "\n")
	for from := 0; from < count; from += perJob {
		err := st.write(context.Background(), func(t *tx) error {
			for n := from; n < min(from+perJob, count); n++ {
				err := t.recordKey(-2, fmt.Sprintf("%s-%016x", prefix, uint64(n)*0x9E3779B97F4A7C15), recordedAnswer{
					fingerprint: make([]byte, 33), method: "POST", path: "/servicios",
					answer:    success{status: 201, location: "/servicios/1000000", etag: `"1000000-1-00000000"`, body: body},
					firstUsed: expires.Add(-24 * time.Hour), expires: expires.Add(time.Duration(n) * time.Millisecond),
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkFigures prints the table of BENCHMARKS.md.
func BenchmarkFigures(b *testing.B) {
	bare := serveBench(b, bareHandler())
	st := benchStore(b, "small")
	api, _ := benchServer(b, st)
	report := func(name string, l load) load {
		fmt.Printf("%-44s %v\n", name, l)
		return l
	}
	ratio := func(unit string, a, b2 load) {
		fmt.Printf("%-44s %.2f\n", "  → "+unit, a.perS/b2.perS)
		b.ReportMetric(a.perS/b2.perS, strings.ReplaceAll(unit, " ", "-"))
	}
	for range b.N {
		base := report("bare handler, 64 connections", measure(b, bare, 64, 0, registrationRequest("bare", true)))
		base1 := report("bare handler, 1 connection", measure(b, bare, 1, 0, registrationRequest("bare", true)))
		get := measure(b, api, 64, 0, func(buf []byte, n int64) []byte {
			return append(buf, "GET /idempotencia HTTP/1.1\r\nHost: bench\r\n\r\n"...)
		})
		report("GET /idempotencia, 64 connections", get)
		keyed := report("keyed POST, 64 connections", measure(b, api, 64, 0, registrationRequest("keyed", true)))
		ratio("keyed POST of bare", keyed, base)
		replays := measure(b, api, 64, 0, func(buf []byte, n int64) []byte {
			return registrationRequest("keyed", true)(buf, 1+n%1000)
		})
		report("replay, 64 connections", replays)
		ratio("replay of bare", replays, base)
		one := report("keyed POST, 1 connection", measure(b, api, 1, 0, registrationRequest("one", true)))
		ratio("keyed POST of bare, 1 connection", one, base1)

		large := benchStore(b, "large")
		fillKeys(b, large, "old", *figuresKeys, time.Now().Add(time.Hour))
		largeAPI, _ := benchServer(b, large)
		full := report("keyed POST, 64 connections, many keys", measure(b, largeAPI, 64, 0, registrationRequest("full", true)))
		ratio("keyed POST of bare, many keys", full, base)
		report("keyed POST, steady 2000/s, many keys", measure(b, largeAPI, 64, 2000, registrationRequest("steady", true)))
	}
}
