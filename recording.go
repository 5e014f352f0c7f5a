// recording.go owns what makes the promise true: an effect and its recorded answer in one
// transaction, finding that answer again, and what is known when a commit failed. It must
// not know who waits for whom, nor SQL text.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// recorded finds the living answer of a key, in memory or on file.
func (e *engine) recorded(scope scopedKey) (recordedAnswer, error) {
	now := e.now()
	if rec, ok := e.recent.Get(scope); ok && rec.lives(now) {
		return rec, nil
	}
	rec, err := e.store.recordedKey(scope.credential, scope.key, now)
	if err == nil {
		e.remember(scope, rec)
	}
	return rec, err
}

// remember keeps an answer that is on file.
func (e *engine) remember(scope scopedKey, rec recordedAnswer) {
	if len(rec.answer.body) <= longestRecent {
		e.recent.Add(scope, rec)
	}
}

// applyUnrecorded makes the effect of an operation without recording its answer.
func (e *engine) applyUnrecorded(ctx context.Context, op operation) (out outcome, err error) {
	err = e.store.write(ctx, func(t *tx) (err error) {
		out.answer, err = op.apply(t)
		return err
	})
	return out, err
}

// applyOnce makes the effect and records its answer in one transaction, unless
// another process has recorded one meanwhile: then nothing is done, and that answer
// is replayed.
func (e *engine) applyOnce(ctx context.Context, f *flight) (outcome, error) {
	mine, err := e.applyNew(ctx, f)
	var refused *problem
	if errors.Is(err, errKeyTaken) || errors.As(err, &refused) {
		return e.applyUnlessRecorded(ctx, f)
	}
	return e.concluded(f, mine, err)
}

// applyNew does so for a key that looked new a moment ago. Nothing is looked up: the
// key's uniqueness decides, and a refusal, which may come of the very effect that the
// recorded answer tells, is only a reason to look.
func (e *engine) applyNew(ctx context.Context, f *flight) (mine success, err error) {
	err = e.store.write(ctx, func(t *tx) (err error) {
		mine, err = e.applyAndRecord(t, f)
		return err
	})
	return mine, err
}

// applyUnlessRecorded does so for a key that may be there.
func (e *engine) applyUnlessRecorded(ctx context.Context, f *flight) (outcome, error) {
	var mine success
	var theirs *recordedAnswer
	err := e.store.write(ctx, func(t *tx) error {
		rec, err := t.recordedKey(f.scope.credential, f.scope.key, e.now())
		switch {
		case err == nil:
			theirs = &rec
		case errors.Is(err, errNotFound):
			mine, err = e.applyAndRecord(t, f)
		}
		return err
	})
	if theirs != nil && err == nil {
		return replay(*theirs, f.claim)
	}
	return e.concluded(f, mine, err)
}

// applyAndRecord is the promise: an effect and its answer, or neither.
func (e *engine) applyAndRecord(t *tx, f *flight) (mine success, err error) {
	if mine, err = f.apply(t); err != nil {
		return success{}, err
	}
	return mine, t.recordKey(f.scope.credential, f.scope.key, e.recordOf(f, mine))
}

// concluded is the outcome of work whose transaction ended so.
func (e *engine) concluded(f *flight, mine success, err error) (outcome, error) {
	var failed *commitError
	switch {
	case errors.As(err, &failed):
		return e.readBack(f, mine, failed)
	case err != nil:
		return outcome{}, err
	}
	e.unswept.Add(1)
	e.remember(f.scope, e.recordOf(f, mine))
	return outcome{answer: mine, keyed: true}, nil
}

// readBack finds out, after a failed commit, whether it happened all the same. Only
// when the key is known not to be there may anyone say that nothing was written.
func (e *engine) readBack(f *flight, mine success, failed *commitError) (outcome, error) {
	rec, err := e.store.recordedKey(f.scope.credential, f.scope.key, e.now())
	switch {
	case errors.Is(err, errNotFound):
		return outcome{}, failed.err
	case err != nil:
		return outcome{}, fmt.Errorf("outcome unknown: %w, and the key cannot be read back: %v", failed, err)
	}
	out, err := replay(rec, f.claim)
	if bytes.Equal(rec.answer.body, mine.body) && rec.firstUsed.UnixMilli() == f.since.UnixMilli() {
		out.replayed = false // it is this request's own
	}
	return out, err
}

// recordOf is what is kept of a finished operation.
func (e *engine) recordOf(f *flight, a success) recordedAnswer {
	return recordedAnswer{
		// Cloned: a slice of the flight would keep the whole request in memory.
		fingerprint: bytes.Clone(f.print[:]), method: f.method, path: f.path, answer: a,
		firstUsed: f.since, expires: f.since.Add(e.ttl),
	}
}
