// idempotency.go owns the engine of the Idempotency-Key: key in flight, recorded,
// replayed; prepare and apply; waiting for an original. It must not know any
// particular resource, nor SQL text.
//
// The constraint in the database decides; the table in memory only answers sooner. No
// row says "processing": an effect and its recorded answer are one transaction, so
// that there is nothing a crash could leave stuck.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// draft is where the header comes from: an expired Internet-Draft, not a standard.
	draft = "draft-ietf-httpapi-idempotency-key-header-07"
	// keyHeader and replayedHeader are the request's field and the answer's.
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	// policyLink goes with every problem about a key.
	policyLink = `</idempotencia>; rel="describedby"`
	// workTime bounds the work of one operation, which outlives its client.
	workTime = 30 * time.Second
	// longestWait is the most that a client may wait for an original (Prefer: wait).
	longestWait = 30 * time.Second
	// defaultWait is how long it waits with --in-flight wait and no preference.
	defaultWait = 10 * time.Second
)

// success is what an operation tells its client: all of it that a replay repeats. The
// body is JSON.
type success struct {
	status   int // 2xx
	location string
	etag     string // "" for none
	body     []byte
}

// operation is a creating request: what identifies it, and the two parts of its work.
type operation struct {
	fingerprint fingerprint
	// under makes the fingerprint by another scheme, for an answer that was recorded
	// when the server was told to use that one. Nil when there is only one scheme.
	under func(scheme byte) fingerprint
	// prepare may be slow and may refuse; no transaction is open.
	prepare func(ctx context.Context) error
	// apply makes the effect and its answer inside the transaction. It must not wait.
	apply func(t *tx) (success, error)
}

// outcome is a success: the answer, and how it came about.
type outcome struct {
	answer   success
	keyed    bool
	replayed bool
}

// scopedKey is a key within its credential: another credential's equal key is another.
type scopedKey struct {
	credential int64
	key        string
}

// flight is a key whose request is being handled in this process. Its leader first
// looks whether the answer is recorded already (until looked is closed), then works
// (until done is closed). recorded and answer are written before their channel closes.
type flight struct {
	fingerprint  fingerprint
	method, path string
	since        time.Time
	looked       chan struct{}
	recorded     *recordedAnswer // found by the look-up; nil when the work is to be done
	done         chan struct{}
	answer       *success // of the finished work; nil when it failed
}

// engineConfig is what the engine depends on.
type engineConfig struct {
	store  *store
	now    func() time.Time
	log    *slog.Logger
	ttl    time.Duration // lifetime of a key
	wait   bool          // waiting for the original is the default
	scheme byte          // of fingerprints: schemeOrdered or schemeCanonical
	broken defects       // deliberate; none as a rule
}

// engine decides about keys.
type engine struct {
	engineConfig

	mu      sync.Mutex
	flights map[scopedKey]*flight
}

func newEngine(cfg engineConfig) *engine {
	return &engine{engineConfig: cfg, flights: map[scopedKey]*flight{}}
}

// keyProblem is a problem about a key: it always links to the policy.
func keyProblem(slug, format string, args ...any) *problem {
	return newProblem(slug, format, args...).withHeader("Link", policyLink)
}

func keyReused() *problem {
	return keyProblem("llave-reutilizada", "esta llave ya se usó con otra petición; no se hizo nada y la respuesta grabada sigue intacta")
}

func keyInFlight() *problem {
	return keyProblem("llave-en-curso", "la petición original con esta llave todavía no termina; repítela dentro de un momento")
}

// keyed tells whether a request carries an idempotency key, well formed or not.
func keyed(r *http.Request) bool { return len(r.Header.Values(keyHeader)) > 0 }

// do runs an operation, at most once for its key. Without a key it is as if the
// feature did not exist. The body has been read, and the caller is known.
func (e *engine) do(w http.ResponseWriter, r *http.Request, op operation) (outcome, error) {
	if !keyed(r) || e.broken[ignoreKey] {
		return e.doUnkeyed(r.Context(), op)
	}
	key, err := parseIdempotencyKey(r.Header.Values(keyHeader))
	if err != nil {
		return outcome{}, keyProblem("llave-invalida", "%v", err)
	}
	scope := scopedKey{caller(r).id, key}
	e.broken.distort(&scope, &op)
	wait, preferred := e.waitFor(r.Header.Values("Prefer"))
	out, waited, err := e.doKeyed(r, scope, op, wait)
	if waited && preferred {
		w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", wait/time.Second))
	}
	if err == nil && out.replayed {
		e.log.Info("replay", "key", key, "credential", caller(r).name, "path", r.URL.EscapedPath())
	}
	return out, err
}

func (e *engine) doUnkeyed(ctx context.Context, op operation) (outcome, error) {
	ctx, cancel := workContext(ctx)
	defer cancel()
	if err := op.prepare(ctx); err != nil {
		return outcome{}, err
	}
	var out outcome
	err := e.store.write(ctx, func(t *tx) (err error) {
		out.answer, err = op.apply(t)
		return err
	})
	return out, err
}

// workContext is what work runs on from its preparation to its commit: a client that
// hangs up must not end it, for the lost client is the very one the key is for.
func workContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), workTime)
}

// doKeyed finds the answer of a keyed operation: recorded, from the original that is
// in flight, or by doing the work. waited tells whether an original was waited for.
func (e *engine) doKeyed(r *http.Request, scope scopedKey, op operation, wait time.Duration) (out outcome, waited bool, err error) {
	if e.broken[lateReserve] {
		out, err := e.leadLate(r, scope, op)
		return out, false, err
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for {
		f, leader := e.join(scope, op, r)
		if leader {
			out, err := e.lead(r.Context(), scope, f, op)
			return out, waited, err
		}
		<-f.looked
		switch {
		case f.recorded != nil:
			out, err := replay(f.recorded.fingerprint, op, f.recorded.answer)
			return out, waited, err
		case f.fingerprint != op.fingerprint:
			return outcome{}, waited, keyReused()
		case wait == 0:
			return outcome{}, waited, keyInFlight()
		}
		waited = true
		select {
		case <-f.done:
		case <-patience.C:
			return outcome{}, waited, keyInFlight()
		case <-r.Context().Done():
			return outcome{}, waited, keyInFlight() // nobody reads this
		}
		if f.answer != nil {
			return outcome{answer: *f.answer, keyed: true, replayed: true}, waited, nil
		}
		// The original failed and left its place: one of those who waited takes it.
	}
}

// replay answers with what is recorded, if it was recorded for this request.
func replay(recorded []byte, op operation, a success) (outcome, error) {
	mine := op.fingerprint
	if op.under != nil && len(recorded) > 0 && recorded[0] != mine[0] {
		mine = op.under(recorded[0])
	}
	if !bytes.Equal(recorded, mine[:]) {
		return outcome{}, keyReused()
	}
	return outcome{answer: a, keyed: true, replayed: true}, nil
}

// join enters the table of keys in flight, or finds who is there.
func (e *engine) join(scope scopedKey, op operation, r *http.Request) (f *flight, leader bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f, ok := e.flights[scope]; ok {
		return f, false
	}
	f = newFlight(op, r, e.now())
	e.flights[scope] = f
	return f, true
}

func newFlight(op operation, r *http.Request, now time.Time) *flight {
	return &flight{
		fingerprint: op.fingerprint, method: r.Method, path: r.URL.EscapedPath(), since: now,
		looked: make(chan struct{}), done: make(chan struct{}),
	}
}

// leave takes the flight out of the table and wakes who waits for it.
func (e *engine) leave(scope scopedKey, f *flight) {
	e.mu.Lock()
	delete(e.flights, scope)
	e.mu.Unlock()
	close(f.done)
}

// flying finds the flight of a key, for those who only ask.
func (e *engine) flying(scope scopedKey) (*flight, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f, ok := e.flights[scope]
	return f, ok
}

// lead does what the first request with a key does. On every path out, a panic
// included, the flight leaves the table.
func (e *engine) lead(ctx context.Context, scope scopedKey, f *flight, op operation) (outcome, error) {
	defer e.leave(scope, f)
	if err := e.lookUp(scope, f); err != nil {
		return outcome{}, err
	}
	if f.recorded != nil {
		return replay(f.recorded.fingerprint, op, f.recorded.answer)
	}
	ctx, cancel := workContext(ctx)
	defer cancel()
	out, err := e.work(ctx, scope, f, op)
	if err != nil {
		return outcome{}, err
	}
	f.answer = &out.answer
	return out, nil
}

// work prepares and applies.
func (e *engine) work(ctx context.Context, scope scopedKey, f *flight, op operation) (outcome, error) {
	err := op.prepare(ctx)
	switch {
	case err != nil && e.broken[recordFailures]:
		e.recordFailure(ctx, scope, f, op, err)
		return outcome{}, err
	case err != nil:
		return outcome{}, err
	case e.broken[splitTransaction]:
		return e.applyInTwo(ctx, scope, f, op)
	}
	return e.applyOnce(ctx, scope, f, op)
}

// lookUp finds a recorded answer in the read pool: most retries end here, without a
// write. Requests with the same key wait for it, which is short, so that none is told
// "in flight" of an operation that finished long ago.
func (e *engine) lookUp(scope scopedKey, f *flight) error {
	defer close(f.looked)
	rec, err := e.store.recordedKey(scope.credential, scope.key, e.now())
	if err == nil {
		f.recorded = &rec
	}
	if errors.Is(err, errNotFound) {
		return nil
	}
	return err
}

// applyOnce makes the effect and records its answer in one transaction, unless
// another process has recorded one meanwhile: then nothing is done, and that answer
// is replayed.
func (e *engine) applyOnce(ctx context.Context, scope scopedKey, f *flight, op operation) (outcome, error) {
	var mine success
	var theirs *recordedAnswer
	err := e.store.write(ctx, func(t *tx) error {
		now := e.now()
		if err := t.dropExpiredKey(scope.credential, scope.key, now); err != nil {
			return err
		}
		rec, err := t.recordedKey(scope.credential, scope.key, now)
		if err == nil {
			theirs = &rec
			return nil
		}
		if !errors.Is(err, errNotFound) {
			return err
		}
		if mine, err = op.apply(t); err != nil {
			return err
		}
		return t.recordKey(scope.credential, scope.key, e.recordOf(f, op, mine))
	})
	var broken *commitError
	if errors.As(err, &broken) {
		rec, readErr := e.store.recordedKey(scope.credential, scope.key, e.now())
		switch {
		case readErr == nil:
			theirs, err = &rec, nil
		case !errors.Is(readErr, errNotFound):
			// Not known, and said so: neither "done" nor "nothing was written".
			return outcome{}, fmt.Errorf("outcome unknown: commit failed (%v) and the key cannot be read back: %v", broken.err, readErr)
		}
	}
	switch {
	case err != nil:
		return outcome{}, err
	case theirs != nil:
		return replay(theirs.fingerprint, op, theirs.answer)
	}
	return outcome{answer: mine, keyed: true}, nil
}

// recordOf is what is kept of a finished operation.
func (e *engine) recordOf(f *flight, op operation, a success) recordedAnswer {
	return recordedAnswer{
		fingerprint: op.fingerprint[:], method: f.method, path: f.path, answer: a,
		firstUsed: f.since, expires: f.since.Add(e.ttl),
	}
}

// waitFor is how long a request waits for its original. preferred is false when the
// client asked for nothing that we understand; then the server's default holds.
func (e *engine) waitFor(prefer []string) (wait time.Duration, preferred bool) {
	if wait, ok := preferredWait(prefer); ok {
		return wait, true
	}
	if e.wait {
		return defaultWait, false
	}
	return 0, false
}

// send writes the answer. Whenever a key was honoured it says so.
func (o outcome) send(w http.ResponseWriter, r *http.Request) {
	header := http.Header{"Content-Type": {"application/json"}}
	if o.answer.location != "" {
		header["Location"] = []string{o.answer.location}
	}
	if o.answer.etag != "" {
		header["Etag"] = []string{o.answer.etag}
	}
	if o.keyed {
		header.Set(replayedHeader, strconv.FormatBool(o.replayed))
	}
	reply{status: o.answer.status, header: header, body: o.answer.body}.send(w, r)
}
