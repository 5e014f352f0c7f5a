// idempotency.go owns the engine of the Idempotency-Key: the order of a creating
// request's parts; in flight, recorded, replayed; waiting for an original. It must not
// know any particular resource, nor SQL text.
//
// The constraint in the database decides; the table in memory only answers sooner. No
// row says "processing": an effect and its recorded answer are one transaction, so
// that there is nothing a crash could leave stuck.

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// draft is where the header comes from: an expired Internet-Draft, not a standard.
	draft = "draft-ietf-httpapi-idempotency-key-header-07"
	// policyLink goes with every problem about a key.
	policyLink = `</idempotencia>; rel="describedby"`
	// workTime bounds the work of one operation, which outlives its client.
	workTime = 30 * time.Second
	// recentAnswers is how many recorded answers are kept in memory, and longestRecent how
	// long a body, in bytes, is: what was answered a moment ago is what is asked for again.
	// Together at most some 8 MiB.
	recentAnswers = 4096
	longestRecent = 1024
	// defaultWait is how long it waits with --in-flight wait and no preference.
	defaultWait = 10 * time.Second
)

// operation is a creating request: the parts of its work, in the order in which they
// are asked for. The engine owns the order and cannot forget a part.
type operation struct {
	// read takes the body, as far as the operation wants one (questions 10 and 12).
	read func() error
	// fingerprint identifies the request once it was read.
	fingerprint func(scheme byte) fingerprint
	// admit asks what is asked of the work but not of a replay (questions 8 and 9): with
	// a key after it, without one before the body. Nil asks nothing.
	admit func() error
	// prepare may be slow and may refuse; no transaction is open.
	prepare func(ctx context.Context) error
	// apply makes the effect and its answer inside the transaction. It must not wait.
	apply func(t *tx) (success, error)
	// committed is told, before the answer is sent, that the effect of this very request
	// stands. Nil is told nothing.
	committed func()
}

// outcome is a success: the answer, and how it came about.
type outcome struct {
	answer   success
	keyed    bool
	replayed bool
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

	flights *flightTable

	// recent holds recorded answers. They do not change while they live, so an answer
	// from memory is the one on file.
	recent *lru.Cache[scopedKey, recordedAnswer]

	unswept atomic.Int64 // keys recorded since the sweep's last step
}

// newEngine returns an engine with nothing in flight.
func newEngine(cfg engineConfig) *engine {
	recent, err := lru.New[scopedKey, recordedAnswer](recentAnswers)
	if err != nil { // only for a size that is not positive
		panic(err)
	}
	return &engine{engineConfig: cfg, flights: newFlightTable(), recent: recent}
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

// do runs an operation of a known caller, at most once for its key, and answers.
// Without a key it is as if the feature did not exist.
func (e *engine) do(w http.ResponseWriter, r *http.Request, op operation) error {
	run := e.runKeyed
	if len(r.Header.Values(keyHeader)) == 0 || e.broken[ignoreKey] {
		run = e.runUnkeyed
	}
	out, err := run(w, r, op)
	if err != nil {
		return err
	}
	if !out.replayed && op.committed != nil {
		op.committed()
	}
	e.broken.bare(&out)
	out.send(w, r)
	return nil
}

func (e *engine) runUnkeyed(_ http.ResponseWriter, r *http.Request, op operation) (outcome, error) {
	if err := op.admitted(); err != nil {
		return outcome{}, err
	}
	if err := op.read(); err != nil {
		return outcome{}, err
	}
	ctx, cancel := workContext(r.Context())
	defer cancel()
	if err := op.prepare(ctx); err != nil {
		return outcome{}, err
	}
	return e.applyUnrecorded(ctx, op)
}

func (op operation) admitted() error {
	if op.admit == nil {
		return nil
	}
	return op.admit()
}

// workContext is what work runs on from its preparation to its commit: a client that
// hangs up must not end it, for the lost client is the very one the key is for.
func workContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), workTime)
}

func (e *engine) runKeyed(w http.ResponseWriter, r *http.Request, op operation) (outcome, error) {
	if err := op.read(); err != nil {
		return outcome{}, err
	}
	key, err := parseIdempotencyKey(r.Header.Values(keyHeader))
	if err != nil {
		return outcome{}, keyProblem("llave-invalida", "%v", err)
	}
	c := claim{
		operation: op, scope: scopedKey{caller(r).id, key}, print: op.fingerprint(e.scheme),
		method: r.Method, path: r.URL.EscapedPath(),
	}
	e.broken.distort(&c)
	wait, preferred := e.waitFor(r.Header.Values("Prefer"))
	out, waited, err := e.settle(r.Context(), c, wait)
	if waited && preferred {
		w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", wait/time.Second))
	}
	if err == nil && out.replayed {
		e.log.Info("replay", "key", key, "credential", caller(r).name, "path", c.path)
	}
	return out, err
}

// settle finds the answer of a claim: recorded, from the original that is in flight,
// or by doing the work. waited tells whether an original was waited for. client ends
// when the client leaves.
func (e *engine) settle(client context.Context, c claim, wait time.Duration) (out outcome, waited bool, err error) {
	if e.broken[lateReserve] {
		out, err := e.leadLate(client, c)
		return out, false, err
	}
	var patience *time.Timer // from the first wait on
	for {
		f, leader := e.flights.join(c, e.now())
		if leader {
			out, err := e.lead(client, f)
			return out, waited, err
		}
		<-f.looked
		switch {
		case f.recorded != nil:
			out, err := replay(*f.recorded, c)
			return out, waited, err
		case f.print != c.print && !e.broken[lateFingerprint]:
			return outcome{}, waited, keyReused()
		case e.broken[stuckOnConflict]:
			e.flights.strand(f)
		}
		if wait == 0 {
			return outcome{}, waited, keyInFlight()
		}
		if !waited {
			waited, patience = true, time.NewTimer(wait)
			defer patience.Stop()
		}
		select {
		case <-f.done:
		case <-patience.C:
			return outcome{}, waited, keyInFlight()
		case <-client.Done():
			return outcome{}, waited, client.Err()
		}
		if f.answer != nil && f.print == c.print {
			return outcome{answer: *f.answer, keyed: true, replayed: true}, waited, nil
		}
		// The original failed, or was not mine (a defect), and left its place: one of those
		// who waited takes it.
	}
}

// replay answers with what is recorded, if it was recorded for this request.
func replay(rec recordedAnswer, c claim) (outcome, error) {
	if !c.matches(rec.fingerprint) {
		return outcome{}, keyReused()
	}
	return outcome{answer: rec.answer, keyed: true, replayed: true}, nil
}

// lead does what the first request with a key does. On every path out, a panic
// included, the flight leaves the table.
func (e *engine) lead(client context.Context, f *flight) (outcome, error) {
	defer e.flights.leave(f)
	if err := e.lookUp(f); err != nil {
		return outcome{}, err
	}
	if f.recorded != nil {
		return replay(*f.recorded, f.claim)
	}
	out, err := e.work(client, f)
	if err != nil {
		return outcome{}, err
	}
	f.answer = &out.answer
	return out, nil
}

// lookUp finds a recorded answer: most retries end here, without a write. Requests with
// the same key wait for it, which is short, so that none is told "in flight" of an
// operation that finished long ago.
func (e *engine) lookUp(f *flight) error {
	defer close(f.looked)
	rec, err := e.recorded(f.scope)
	switch {
	case errors.Is(err, errNotFound):
		return nil
	case err != nil:
		return err
	}
	f.recorded = &rec
	return nil
}

// work admits, prepares and applies.
func (e *engine) work(client context.Context, f *flight) (outcome, error) {
	if err := f.admitted(); err != nil {
		return outcome{}, err
	}
	ctx, cancel := workContext(client)
	defer cancel()
	err := f.prepare(ctx)
	switch {
	case err != nil && e.broken[recordFailures]:
		return outcome{}, errors.Join(err, e.recordFailure(ctx, f, err))
	case err != nil:
		return outcome{}, err
	case e.broken[splitTransaction]:
		return e.applyInTwo(ctx, ctx, f)
	case e.broken[cancelOnHangup]:
		return e.applyInTwo(ctx, client, f)
	}
	return e.applyOnce(ctx, f)
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
	rep := reply{status: o.answer.status, body: o.answer.body}.with("Content-Type", "application/json")
	if o.answer.location != "" {
		rep = rep.with("Location", o.answer.location)
	}
	if o.answer.etag != "" {
		rep = rep.with("ETag", o.answer.etag)
	}
	if o.keyed {
		rep = rep.with(replayedHeader, strconv.FormatBool(o.replayed))
	}
	rep.send(w, r)
}
