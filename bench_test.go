// bench_test.go owns the figures of BENCHMARKS.md: ratios taken in one run on one
// machine, over real sockets, against a bare httprouter handler. Run with
//
//	go test -run '^$' -bench Figures -benchtime 1x
//
// -figures.time sets how long each measurement lasts, -figures.keys how many keys the
// large database holds.

package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/julienschmidt/httprouter"
)

var (
	figuresTime  = flag.Duration("figures.time", 3*time.Second, "how long one measurement of BenchmarkFigures lasts")
	figuresSweep = flag.Bool("figures.sweep", false, "let BenchmarkFigures wait until the sweep is done")
	figuresKeys  = flag.Int("figures.keys", 1_000_000, "keys on file in the large database of BenchmarkFigures")
)

// load is what a measurement came to.
type load struct {
	requests int64
	perS     float64
	p50, p99 time.Duration
	max      time.Duration
	statuses map[int]int64
}

// measure sends requests over so many kept-alive connections for a time, with one
// http.Client as Go programs share it: a load generator that costs about what a server
// costs, as a real client would. request makes the n-th request; rate, when not 0, is
// the steady number of requests a second, and a late answer counts from when its
// request was due.
func measure(tb testing.TB, connections int, rate float64, request func(n int64) *http.Request) load {
	tb.Helper()
	var next atomic.Int64
	start := time.Now()
	end := start.Add(*figuresTime)
	times := make([][]time.Duration, connections)
	counts := make([]map[int]int64, connections)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for i := range connections {
		counts[i] = map[int]int64{}
		group.Go(func() {
			for time.Now().Before(end) {
				n := next.Add(1)
				due := time.Now()
				if rate > 0 {
					due = start.Add(time.Duration(float64(n) / rate * float64(time.Second)))
					time.Sleep(time.Until(due)) // the rate, not a wait for something
				}
				resp, err := client.Do(request(n))
				if err != nil {
					tb.Errorf("exchange: %v", err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				times[i] = append(times[i], time.Since(due))
				counts[i][resp.StatusCode]++
			}
		})
	}
	group.Wait()
	return summed(times, counts, time.Since(start))
}

// summed puts the connections' measurements together.
func summed(times [][]time.Duration, counts []map[int]int64, took time.Duration) load {
	all := slices.Concat(times...)
	slices.Sort(all)
	l := load{requests: int64(len(all)), perS: float64(len(all)) / took.Seconds(), statuses: map[int]int64{}}
	for _, c := range counts {
		for status, n := range c {
			l.statuses[status] += n
		}
	}
	if len(all) > 0 {
		l.p50, l.p99, l.max = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	}
	return l
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
func benchServer(tb testing.TB, st *store) (address string) {
	tb.Helper()
	address, _ = benchServerAt(tb, st, time.Now)
	return address
}

// benchServerAt is one with a clock of its own, and its engine.
func benchServerAt(tb testing.TB, st *store, now func() time.Time) (address string, eng *engine) {
	tb.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { null.Close() })
	log := slog.New(slog.NewTextHandler(null, nil))
	role := revisorOn(st, log, now, systemResolve, revisorSettings{keyTTL: 24 * time.Hour})
	return serveBench(tb, role.handler), role.engine
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

// spread makes consecutive numbers look drawn, so that keys arrive in no order.
func spread(n int64) uint64 { return uint64(n) * 0x9E3779B97F4A7C15 }

// registrations makes registrations at address, each of its own name and key.
func registrations(address, prefix string) func(n int64) *http.Request {
	return func(n int64) *http.Request {
		body := fmt.Sprintf(`{"nombre":"%s-%d","url":"http://[2000::1]/"}`, prefix, n)
		r, err := http.NewRequest("POST", "http://"+address+"/servicios", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		r.GetBody = nil // never sent twice
		r.Header.Set("Authorization", "Bearer escritura-a")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%016x", prefix, spread(n)))
		return r
	}
}

// repeated asks for the first of them again and again.
func repeated(requests func(n int64) *http.Request, first int64) func(n int64) *http.Request {
	return func(n int64) *http.Request { return requests(1 + n%first) }
}

// fillKeys puts recorded keys into a store, expired or living, with their services.
func fillKeys(tb testing.TB, st *store, prefix string, count int, expires time.Time) {
	tb.Helper()
	const perJob = 1000
	body := []byte(`{"id":1000000,"nombre":"` + prefix + `-1000000","url":"http://[2000::1]/","limite_ms":2000}` + "\n")
	for from := 0; from < count; from += perJob {
		err := st.write(context.Background(), func(t *tx) error {
			for n := from; n < min(from+perJob, count); n++ {
				err := t.recordKey(-2, fmt.Sprintf("%s-%016x", prefix, spread(int64(n))), recordedAnswer{
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

// figures collects the lines of the table and the ratios that are promised.
type figures struct {
	b *testing.B
}

func (f figures) row(name string, l load) load {
	fmt.Printf("%-48s %v\n", name, l)
	return l
}

// ratio reports a promised ratio beside its bound.
func (f figures) ratio(name string, got float64, bound string) {
	fmt.Printf("  → %-44s %8.2f   (%s)\n", name, got, bound)
	f.b.ReportMetric(got, strings.ReplaceAll(name, " ", "-"))
}

// BenchmarkFigures prints the table of BENCHMARKS.md.
func BenchmarkFigures(b *testing.B) {
	for range b.N {
		f := figures{b}
		bareAddress := serveBench(b, bareHandler())
		bare := f.row("bare handler, 64 connections", measure(b, 64, 0, registrations(bareAddress, "bare")))
		f.throughput(bare)
		f.oneAtATime()
		f.manyKeys(bare)
	}
}

// throughput: what 64 connections get, and what the parts of it would give alone.
func (f figures) throughput(bare load) {
	st := benchStore(f.b, "small")
	api := benchServer(f.b, st)
	keyed := f.row("keyed POST, 64 connections", measure(f.b, 64, 0, registrations(api, "keyed")))
	f.ratio("keyed POST of bare", keyed.perS/bare.perS, "at least 0.28, stretch 0.38")
	replays := f.row("replay, 64 connections", measure(f.b, 64, 0, repeated(registrations(api, "keyed"), 1000)))
	f.ratio("replay of bare", replays.perS/bare.perS, "at least 0.40, stretch 0.70")

	alone := f.row("the writer alone, 64 callers", f.writerAlone(benchStore(f.b, "alone")))
	f.ratio("keyed POST of the writer alone", keyed.perS/alone.perS, "at least 0.30")

	single := benchStore(f.b, "single")
	single.writer.most = 1
	each := f.row("keyed POST, a transaction each, 64 connections", measure(f.b, 64, 0, registrations(benchServer(f.b, single), "single")))
	groups := f.row("keyed POST, 64 connections, again", measure(f.b, 64, 0, registrations(api, "again")))
	f.ratio("groups over a transaction each", groups.perS/each.perS, "at least 4")

	normal := benchStore(f.b, "normal")
	f.loosen(normal)
	looseAPI := benchServer(f.b, normal)
	loose := f.row("keyed POST, synchronous=NORMAL, 64 connections", measure(f.b, 64, 0, registrations(looseAPI, "normal")))
	f.ratio("FULL of NORMAL", groups.perS/loose.perS, "at least 0.90")
	wide := f.row("keyed POST, 256 connections", measure(f.b, 256, 0, registrations(api, "wide")))
	wideLoose := f.row("keyed POST, synchronous=NORMAL, 256 connections", measure(f.b, 256, 0, registrations(looseAPI, "wide")))
	f.ratio("FULL of NORMAL, 256 connections", wide.perS/wideLoose.perS, "no aim; it shows what larger groups give")
}

// writerAlone commits the same rows without HTTP.
func (f figures) writerAlone(st *store) load {
	const callers = 64
	eng := newEngine(engineConfig{store: st, now: time.Now, ttl: 24 * time.Hour})
	var next atomic.Int64
	times, counts := make([][]time.Duration, callers), make([]map[int]int64, callers)
	start := time.Now()
	end := start.Add(*figuresTime)
	var group sync.WaitGroup
	for i := range callers {
		counts[i] = map[int]int64{}
		group.Go(func() {
			for time.Now().Before(end) {
				began, n := time.Now(), next.Add(1)
				fl := newFlight(claim{scope: scopedKey{-2, fmt.Sprintf("alone-%016x", spread(n))}, method: "POST", path: "/servicios"}, began)
				err := st.write(context.Background(), func(t *tx) error {
					svc, _, err := t.insertService("a", fmt.Sprint("alone-", n), "http://[2000::1]/", 2000, began)
					if err != nil {
						return err
					}
					a := success{status: 201, location: servicePath(svc.id), body: make([]byte, 90)}
					return t.recordKey(fl.scope.credential, fl.scope.key, eng.recordOf(fl, a))
				})
				if err != nil {
					f.b.Errorf("write: %v", err)
					return
				}
				times[i] = append(times[i], time.Since(began))
				counts[i][201]++
			}
		})
	}
	group.Wait()
	return summed(times, counts, time.Since(start))
}

// loosen gives a store a writer that does not wait for the disk.
func (f figures) loosen(st *store) {
	st.writer.close()
	var path string
	if err := st.readDB.QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path); err != nil {
		f.b.Fatal(err)
	}
	db, err := sql.Open("sqlite", strings.Replace(dsn(path, "_txlock=immediate&_pragma=wal_autocheckpoint(0)"), "_synchronous=full", "_synchronous=normal", 1))
	if err != nil {
		f.b.Fatal(err)
	}
	f.b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	st.mover.close()
	st.writer = newWriter(db)
	st.mover = newCheckpointer(st.moveDB, st.writer)
}

// oneAtATime: one connection against the disk itself.
func (f figures) oneAtATime() {
	syncs := f.row("write 4 KiB and fsync, one at a time", f.rawSyncs())
	one := f.row("keyed POST, 1 connection", measure(f.b, 1, 0, registrations(benchServer(f.b, benchStore(f.b, "one")), "one")))
	f.ratio("keyed POST, 1 connection, of raw fsyncs", one.perS/syncs.perS, "at least 0.30")
}

func (f figures) rawSyncs() load {
	file, err := os.Create(filepath.Join(f.b.TempDir(), "syncs"))
	if err != nil {
		f.b.Fatal(err)
	}
	defer file.Close()
	page := make([]byte, 4096)
	var times []time.Duration
	start := time.Now()
	for time.Since(start) < *figuresTime {
		began := time.Now()
		if _, err := file.Write(page); err != nil {
			f.b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			f.b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	return summed([][]time.Duration{times}, nil, time.Since(start))
}

// manyKeys: the same with a large file, at a steady rate, and while the sweep works.
func (f figures) manyKeys(bare load) {
	few := benchStore(f.b, "few")
	fillKeys(f.b, few, "old", 1000, time.Now().Add(time.Hour))
	little := f.row("keyed POST, 64 connections, 1000 keys on file", measure(f.b, 64, 0, registrations(benchServer(f.b, few), "few")))

	large := benchStore(f.b, "large")
	before := fileSize(f.b, large)
	fillKeys(f.b, large, "old", *figuresKeys, time.Now().Add(time.Hour))
	fmt.Printf("  → bytes a key on file: %d\n", (fileSize(f.b, large)-before)/int64(*figuresKeys))
	api := benchServer(f.b, large)
	full := f.row(fmt.Sprintf("keyed POST, 64 connections, %d keys on file", *figuresKeys), measure(f.b, 64, 0, registrations(api, "full")))
	f.ratio("keyed POST of bare, many keys", full.perS/bare.perS, "at least 0.20")
	f.ratio("cost with many keys over cost with 1000", little.perS/full.perS, "at most 2")
	steady := f.row("keyed POST, steady 2000/s, many keys", measure(f.b, 64, 2000, registrations(api, "steady")))
	f.ratio("p99 in ms at 2000 a second", ms(steady.p99), "at most 20")
	f.ratio("maximum in ms at 2000 a second", ms(steady.max), "at most 50")
	f.sweeping(large, steady)
}

// sweeping: all the old keys go away while writers work.
func (f figures) sweeping(large *store, steady load) {
	later := func() time.Time { return time.Now().Add(12 * time.Hour) }
	api, eng := benchServerAt(f.b, large, later)
	before := fileSize(f.b, large)
	ctx, stop := context.WithCancel(context.Background())
	swept := make(chan int64, 1)
	began := time.Now()
	go func() {
		n, _ := eng.sweepOnce(ctx)
		swept <- n
	}()
	busy := f.row("keyed POST, steady 2000/s, while the sweep works", measure(f.b, 64, 2000, registrations(api, "swept")))
	f.ratio("p99 while sweeping over without", float64(busy.p99)/float64(steady.p99), "at most 2.5")
	if *figuresSweep {
		n := <-swept
		fmt.Printf("  → swept %d keys in %v; file from %d to %d MiB\n", n, time.Since(began).Round(time.Second), before>>20, fileSize(f.b, large)>>20)
	}
	stop()
}

// fileSize is the size of the database after everything is moved into it, in bytes.
func fileSize(tb testing.TB, st *store) int64 {
	tb.Helper()
	var pages, size int64
	if err := st.readDB.QueryRow(`SELECT page_count, page_size FROM pragma_page_count, pragma_page_size`).Scan(&pages, &size); err != nil {
		tb.Fatal(err)
	}
	return pages * size
}
