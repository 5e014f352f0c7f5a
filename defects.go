// defects.go owns the deliberate defects (--break): for learning, and for proving that
// the checks find them. Each is one way to get the promise wrong that has been seen in
// the field. It must not be reached by a server that was not told to break.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// defect names one thing that is wrong on purpose.
type defect string

const (
	noFingerprint    defect = "no-fingerprint"    // a changed body is replayed
	ignoreKey        defect = "ignore-key"        // keys do nothing
	noScope          defect = "no-scope"          // keys are shared between credentials
	lateReserve      defect = "late-reserve"      // the key is taken after the work
	recordFailures   defect = "record-failures"   // a 422 becomes the key's answer
	volatileKeys     defect = "volatile-keys"     // keys are lost at a restart
	splitTransaction defect = "split-transaction" // effect and answer in two transactions
	report500        defect = "report-500"        // a report without finished revisions fails
	abrupt413        defect = "abrupt-413"        // the connection is closed in the client's face
	keyPerAttempt    defect = "key-per-attempt"   // register: a new key for every attempt
)

// serverDefects are those of the role revisor, registerDefects those of the tool.
var (
	serverDefects = []defect{noFingerprint, ignoreKey, noScope, lateReserve, recordFailures, volatileKeys,
		splitTransaction, report500, abrupt413}
	registerDefects = []defect{keyPerAttempt}
)

// defects are the ones that are on. The nil value has none.
type defects map[defect]bool

// parseDefects reads the names of defects, each of which must be among those known.
func parseDefects(names []string, known []defect) (defects, error) {
	on := defects{}
	for _, name := range names {
		if !slices.Contains(known, defect(name)) {
			return nil, fmt.Errorf("--break: %q is none of %s", name, joinDefects(known))
		}
		on[defect(name)] = true
	}
	return on, nil
}

func joinDefects(list []defect) string {
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = string(d)
	}
	return strings.Join(names, ", ")
}

// String lists what is on, in a fixed order.
func (d defects) String() string {
	var on []defect
	for _, known := range slices.Concat(serverDefects, registerDefects) {
		if d[known] {
			on = append(on, known)
		}
	}
	return joinDefects(on)
}

// distort spoils what identifies a keyed operation, as the defects say.
func (d defects) distort(scope *scopedKey, op *operation) {
	if d[noFingerprint] {
		op.fingerprint = fingerprint{}
	}
	if d[noScope] {
		scope.credential = 0
	}
}

// leadLate is how lead looks when the key is taken after the work: nobody is told that
// the original runs, and nobody looks again before the effect is made.
func (e *engine) leadLate(r *http.Request, scope scopedKey, op operation) (outcome, error) {
	f := newFlight(op, r, e.now())
	rec, err := e.store.recordedKey(scope.credential, scope.key, f.since)
	switch {
	case err == nil:
		return replay(rec.fingerprint, op, rec.answer)
	case !errors.Is(err, errNotFound):
		return outcome{}, err
	}
	out, err := e.doUnkeyed(r.Context(), op)
	if err != nil {
		return outcome{}, err
	}
	out.keyed = true
	return out, e.recordApart(r.Context(), scope, f, op, out.answer)
}

// applyInTwo makes the effect in one transaction and records its answer in another: a
// crash in between leaves the effect without its key.
func (e *engine) applyInTwo(ctx context.Context, scope scopedKey, f *flight, op operation) (outcome, error) {
	out := outcome{keyed: true}
	err := e.store.write(ctx, func(t *tx) (err error) {
		out.answer, err = op.apply(t)
		return err
	})
	if err != nil {
		return outcome{}, err
	}
	return out, e.recordApart(ctx, scope, f, op, out.answer)
}

// recordApart records an answer in a transaction of its own. A key that is there
// already stays.
func (e *engine) recordApart(ctx context.Context, scope scopedKey, f *flight, op operation, a success) error {
	return e.store.write(ctx, func(t *tx) error {
		now := e.now()
		if err := t.dropExpiredKey(scope.credential, scope.key, now); err != nil {
			return err
		}
		if _, err := t.recordedKey(scope.credential, scope.key, now); !errors.Is(err, errNotFound) {
			return err
		}
		return t.recordKey(scope.credential, scope.key, e.recordOf(f, op, a))
	})
}

// recordFailure makes a refusal the key's answer, as if it were a success.
func (e *engine) recordFailure(ctx context.Context, scope scopedKey, f *flight, op operation, failure error) {
	var p *problem
	if !errors.As(failure, &p) || p.status != http.StatusUnprocessableEntity {
		return
	}
	rep, err := p.reply(f.path)
	if err != nil {
		return
	}
	e.recordApart(ctx, scope, f, op, success{status: rep.status, body: rep.body})
}

// sendAbruptly answers and closes at once, whatever the client is still sending: the
// reset that follows may destroy the answer on its way.
func (rep reply) sendAbruptly(w http.ResponseWriter, r *http.Request) {
	rep.setHeader(w)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	rep.writeLast(conn, w, r)
	conn.Close()
}
