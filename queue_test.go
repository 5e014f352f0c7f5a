// queue_test.go owns that every accepted revision is finished once, whatever happens to
// the store, its neighbours or the process.

package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// queueBench is a store with services, and what a queue needs to run on it.
type queueBench struct {
	t     *testing.T
	path  string
	store *store
	log   *syncBuffer
}

func newQueueBench(t *testing.T) *queueBench {
	t.Helper()
	path := filepath.Join(t.TempDir(), "revisor.db")
	st, err := openStore(path, newTag)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.close() })
	return &queueBench{t: t, path: path, store: st, log: &syncBuffer{}}
}

// queue is a queue on the bench's store, started and in the end drained. random and
// wait are the checker's and the queue's.
func (b *queueBench) queue(delay time.Duration, random func() float64, wait func(context.Context, time.Duration) error) *revisionQueue {
	b.t.Helper()
	check := newChecker(loopbackAllowed(b.t), time.Now, random, new(waits).wait)
	q := newRevisionQueue(b.store, check, delay, time.Now, wait, slog.New(slog.NewTextHandler(b.log, nil)))
	if err := q.start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { q.drain(ended()) })
	return q
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (b *queueBench) write(do func(*tx) error) {
	b.t.Helper()
	if err := b.store.write(context.Background(), do); err != nil {
		b.t.Fatal(err)
	}
}

// revision makes a service and a pending revision of it.
func (b *queueBench) revision(name, url string) (id int64, svc service) {
	b.t.Helper()
	b.write(func(t *tx) (err error) {
		if svc, _, err = t.insertService("a", name, url, testLimit.Milliseconds(), time.Now()); err != nil {
			return err
		}
		id, err = t.insertRevision(svc.id, time.Now())
		return err
	})
	return id, svc
}

func (b *queueBench) read(id int64) revision {
	b.t.Helper()
	rev, err := b.store.revisionByID(id)
	if err != nil {
		b.t.Fatal(err)
	}
	return rev
}

func (b *queueBench) finished(id int64) checkResult {
	b.t.Helper()
	eventually(b.t, "the revision is finished", func() bool { return b.read(id).finished })
	return b.read(id).result
}

func TestQueueFinishesWhatIsAccepted(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	good, bad := newOrigin(t, answered("200 OK")), newOrigin(t, answered("503 X", "Retry-After: 120"))
	earlier, _ := b.revision("antes", good.url) // pending since before this process
	q := b.queue(0, half, pause)
	if got := b.finished(earlier); got.detail != "200" || *got.code != 200 {
		t.Errorf("what was pending at the start: %+v, want 200", got)
	}
	id, _ := b.revision("pagos", bad.url)
	q.accept(id)
	got := b.finished(id)
	code := int64(503)
	want := checkResult{state: stateDown, code: &code, ms: got.ms, detail: "503 (reintentar en 120 s)"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(checkResult{})); diff != "" || got.ms == nil {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if _, requests := good.seen(); requests != 1 {
		t.Errorf("the finished revision was checked %d times, want 1", requests)
	}
}

func TestQueueRunsSideBySide(t *testing.T) {
	t.Parallel()
	const together = 16
	var arrived sync.WaitGroup
	arrived.Add(together)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait() // nobody is answered before all are here
	}))
	t.Cleanup(server.Close)
	b := newQueueBench(t)
	var ids []int64
	for i := range together {
		id, _ := b.revision(strings.Repeat("x", i+1), server.URL)
		ids = append(ids, id)
	}
	b.queue(0, half, pause)
	for _, id := range ids {
		if got := b.finished(id); got.detail != "200" {
			t.Errorf("revision %d = %+v, want 200", id, got)
		}
	}
}

// Between acceptance and start a service may change, or go: what counts is how it is
// when the revision starts.
func TestQueueChecksTheServiceAsItIsNow(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	old, current := newOrigin(t, answered("500 X")), newOrigin(t, answered("200 OK"))
	id, svc := b.revision("movido", old.url)
	waited, release := make(chan time.Duration, 1), make(chan struct{})
	b.queue(time.Hour, half, func(_ context.Context, d time.Duration) error {
		waited <- d
		<-release
		return nil
	})
	if d := <-waited; d > time.Hour || d < 59*time.Minute {
		t.Errorf("the revision starts in %v, want an hour after it was taken up", d)
	}
	b.write(func(t *tx) error {
		if _, _, err := t.updateService(svc.id, svc.name, current.url, testLimit.Milliseconds()); err != nil {
			return err
		}
		return t.retireService(svc.id, time.Now())
	})
	close(release)
	if got := b.finished(id); got.detail != "200" {
		t.Errorf("result = %+v, want that of the current URL", got)
	}
	if connections, _ := old.seen(); connections != 0 {
		t.Error("the old URL was asked")
	}
}

// Another process holds the database's lock when the result is there: it is kept and
// written when the lock is gone, without asking the service again.
func TestQueueKeepsTheResultUntilTheStoreTakesIt(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	o := newOrigin(t, answered("200 OK"))
	id, _ := b.revision("terco", o.url)
	other, err := sql.Open("sqlite", "file:"+b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	waited := make(chan time.Duration, 1)
	b.queue(0, half, func(_ context.Context, d time.Duration) error {
		waited <- d
		_, err := other.Exec("ROLLBACK")
		return err
	})
	if d := <-waited; d != firstStoreWait {
		t.Errorf("first wait for the store = %v, want %v", d, firstStoreWait)
	}
	if got := b.finished(id); got.detail != "200" {
		t.Errorf("result = %+v, want 200", got)
	}
	if _, requests := o.seen(); requests != 1 {
		t.Errorf("the service was asked %d times, want 1", requests)
	}
}

func TestQueueWaitsForTheStoreMoreAndMore(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	var got []time.Duration
	q := newRevisionQueue(b.store, nil, 0, time.Now, func(ctx context.Context, d time.Duration) error {
		if got = append(got, d); len(got) == 5 {
			cancel() // the process stops
		}
		return ctx.Err()
	}, slog.New(slog.NewTextHandler(b.log, nil)))
	err := q.insist(ctx, 7, func() error { return errStoreUnavailable })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("insist = %v, want it to end with its context", err)
	}
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}, got); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if err := q.insist(t.Context(), 7, func() error { return errNotFound }); !errors.Is(err, errNotFound) {
		t.Errorf("insist on what does not exist = %v, want errNotFound at once", err)
	}
}

func TestQueueSurvivesAPanic(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	q := b.queue(0, func() float64 { panic("sin dados") }, pause)
	bad, _ := b.revision("malo", newOrigin(t, answered("503 X")).url)
	q.accept(bad)
	eventually(t, "the panic is logged", func() bool { return strings.Contains(b.log.String(), "sin dados") })
	good, _ := b.revision("bueno", newOrigin(t, answered("200 OK")).url)
	q.accept(good)
	if got := b.finished(good); got.detail != "200" {
		t.Errorf("the next revision = %+v, want 200", got)
	}
	if b.read(bad).finished {
		t.Error("the revision that panicked is finished, want it pending")
	}
}

func TestDrainLetsRunningRevisionsFinish(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	t.Cleanup(server.Close)
	running, _ := b.revision("en marcha", server.URL)
	q := b.queue(0, half, pause)
	<-arrived
	q.stop() // as drain does first, so that what comes next surely comes too late
	late, _ := b.revision("tarde", server.URL)
	q.accept(late)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		q.drain(context.Background())
	}()
	close(release)
	<-drained
	if rev := b.read(running); !rev.finished || rev.result.detail != "200" {
		t.Errorf("the running revision = %+v, want it finished", rev)
	}
	if b.read(late).finished {
		t.Error("a revision started after the stop")
	}
}

func TestDrainCutsShortAtItsLimit(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	o := newOrigin(t, originMute)
	id, svc := b.revision("mudo", o.url)
	q := b.queue(0, half, pause)
	eventually(t, "the request arrives", func() bool { _, requests := o.seen(); return requests == 1 })
	q.drain(ended())
	if b.read(id).finished {
		t.Error("a revision that was cut short is finished, want it pending")
	}
	if connections, _ := o.seen(); connections != 1 {
		t.Errorf("%d connections, want no attempt after the first", connections)
	}
	<-o.gone
	// The next process takes it up.
	next := newOrigin(t, answered("200 OK"))
	b.write(func(t *tx) error {
		_, _, err := t.updateService(svc.id, svc.name, next.url, testLimit.Milliseconds())
		return err
	})
	b.queue(0, half, pause)
	if got := b.finished(id); got.detail != "200" {
		t.Errorf("after a restart = %+v, want 200", got)
	}
}

// A stop must not wait for a pretended delay, nor for a free place.
func TestDrainDoesNotWaitForWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	id, _ := b.revision("futuro", "http://127.0.0.1:1/")
	waiting := make(chan struct{})
	q := b.queue(time.Hour, half, func(ctx context.Context, d time.Duration) error {
		close(waiting)
		return pause(ctx, d)
	})
	<-waiting
	q.drain(context.Background())
	if b.read(id).finished {
		t.Error("a revision that was not due is finished")
	}
}

func TestQueueReportsAForbiddenDestination(t *testing.T) {
	t.Parallel()
	b := newQueueBench(t)
	dialled := make(chan string, 10)
	d := newDestinations(allowed{}, resolveTo())
	d.connect = func(_ context.Context, _, address string) (net.Conn, error) {
		dialled <- address
		return nil, errors.New("no network here")
	}
	id, _ := b.revision("interno", "http://127.0.0.1:22/")
	q := newRevisionQueue(b.store, newChecker(d, time.Now, half, pause), 0, time.Now, pause, slog.New(slog.NewTextHandler(b.log, nil)))
	if err := q.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.drain(ended()) })
	if got := b.finished(id); got.detail != "destino prohibido: 127.0.0.1:22 no es una dirección pública ni permitida" || got.code != nil || got.ms != nil {
		t.Errorf("result = %+v, want a forbidden destination", got)
	}
	if len(dialled) != 0 {
		t.Errorf("dialled %s", <-dialled)
	}
}
