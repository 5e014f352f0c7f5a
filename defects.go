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
	noFingerprint    defect = "no-fingerprint"       // a changed body is replayed
	ignoreKey        defect = "ignore-key"           // keys do nothing
	noScope          defect = "no-scope"             // keys are shared between credentials
	lateReserve      defect = "late-reserve"         // the key is taken after the work
	recordFailures   defect = "record-failures"      // a 422 becomes the key's answer
	volatileKeys     defect = "volatile-keys"        // keys are lost at a restart
	splitTransaction defect = "split-transaction"    // effect and answer in two transactions
	cancelOnHangup   defect = "cancel-on-hangup"     // the answer is not recorded when the client hung up
	lateFingerprint  defect = "late-fingerprint"     // while the original works, a changed body is not noticed
	stuckOnConflict  defect = "stuck-after-conflict" // a key that was met in flight stays there
	bareReplay       defect = "bare-replay"          // a replay without its Location
	report500        defect = "report-500"           // a report without finished revisions fails
	abrupt413        defect = "abrupt-413"           // the connection is closed in the client's face
	keyPerAttempt    defect = "key-per-attempt"      // register: a new key for every attempt
)

// serverDefects are those of the role revisor, registerDefects those of the tool.
var (
	serverDefects = []defect{noFingerprint, ignoreKey, noScope, lateReserve, recordFailures, volatileKeys,
		splitTransaction, cancelOnHangup, lateFingerprint, stuckOnConflict, bareReplay, report500, abrupt413}
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

// distort spoils what identifies a claim, as the defects say.
func (d defects) distort(c *claim) {
	if d[noFingerprint] {
		c.fingerprint = func(byte) fingerprint { return fingerprint{} }
		c.print = c.fingerprint(0)
	}
	if d[noScope] {
		c.scope.credential = 0
	}
}

// leadLate is how lead looks when the key is taken after the work: nobody is told that
// the original runs, and nobody looks again before the effect is made.
func (e *engine) leadLate(client context.Context, c claim) (outcome, error) {
	f := newFlight(c, e.now())
	if err := e.lookUp(f); err != nil {
		return outcome{}, err
	}
	if f.recorded != nil {
		return replay(*f.recorded, c)
	}
	if err := c.admitted(); err != nil {
		return outcome{}, err
	}
	ctx, cancel := workContext(client)
	defer cancel()
	if err := c.prepare(ctx); err != nil {
		return outcome{}, err
	}
	return e.applyInTwo(ctx, ctx, f)
}

// applyInTwo makes the effect in one transaction and records its answer in another: a
// crash in between leaves the effect without its key. So does a client that hangs up,
// when the recording is on its own context.
func (e *engine) applyInTwo(work, recording context.Context, f *flight) (outcome, error) {
	out, err := e.applyUnrecorded(work, f.operation)
	if err != nil {
		return outcome{}, err
	}
	out.keyed = true
	return out, e.recordApart(recording, f, out.answer)
}

// recordApart records an answer in a transaction of its own. A key that is there
// already stays.
func (e *engine) recordApart(ctx context.Context, f *flight, a success) error {
	return e.store.write(ctx, func(t *tx) error {
		if _, err := t.recordedKey(f.scope.credential, f.scope.key, e.now()); !errors.Is(err, errNotFound) {
			return err
		}
		return t.recordKey(f.scope.credential, f.scope.key, e.recordOf(f, a))
	})
}

// recordFailure makes a refusal the key's answer, as if it were a success.
func (e *engine) recordFailure(ctx context.Context, f *flight, failure error) error {
	var p *problem
	if !errors.As(failure, &p) || p.status != http.StatusUnprocessableEntity {
		return nil
	}
	rep, err := p.reply(f.path)
	if err != nil {
		return err
	}
	return e.recordApart(ctx, f, success{status: rep.status, body: rep.body})
}

// strand puts another flight in the place of f, if f is still there. It has no leader who
// could leave: whoever finds it is told that the original works, for as long as this
// process lives.
func (t *flightTable) strand(f *flight) {
	stuck := newFlight(f.claim, f.since)
	close(stuck.looked)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[f.scope] == f {
		t.byKey[f.scope] = stuck
	}
}

// bare takes from an answer what a record without the header section does not hold.
func (d defects) bare(out *outcome) {
	if d[bareReplay] && out.replayed {
		out.answer.location = ""
	}
}

// sendAbruptly answers and closes at once, whatever the client is still sending: the
// reset that follows may destroy the answer on its way.
func (rep reply) sendAbruptly(w http.ResponseWriter, r *http.Request) {
	rep.setHeader(w)
	conn, err := takeConnection(w)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	rep.writeLast(conn, w, r)
	conn.Close()
}
