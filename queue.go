// queue.go owns the pending revisions of this process: when each starts, how many run
// side by side, and that every result reaches the store.
// It must not know routes, nor how a check is made.

package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxRunning is how many revisions run side by side. The contract asks for 8; one
	// against a dead service takes up to 40 s, and must not make the others wait.
	maxRunning = 64
	// firstStoreWait and lastStoreWait bound the waits, doubled each time, while the
	// store is unavailable: soon after a lock, gently during a full disk.
	firstStoreWait = 1 * time.Second
	lastStoreWait  = 5 * time.Second
)

// dueRevision is a pending revision that nobody works on yet.
type dueRevision struct {
	id    int64
	start time.Time // not before
}

// revisionQueue runs pending revisions in the order of their acceptance. What it has
// not finished when the process ends stays pending in the store.
type revisionQueue struct {
	store   *store
	checker *checker
	delay   time.Duration
	now     func() time.Time
	wait    func(ctx context.Context, d time.Duration) error
	log     *slog.Logger

	mu      sync.Mutex
	waiting []dueRevision // delay is the same for all: the first is due first
	arrived chan struct{} // holds a token when waiting may have grown

	slots   *semaphore.Weighted
	running sync.WaitGroup // the dispatcher and the revisions that it started
	stop    context.CancelFunc
	abandon context.CancelFunc
}

// newRevisionQueue returns a queue that starts each revision delay after accept. wait
// returns early with an error when its context ends.
func newRevisionQueue(s *store, c *checker, delay time.Duration, now func() time.Time,
	wait func(ctx context.Context, d time.Duration) error, log *slog.Logger) *revisionQueue {
	return &revisionQueue{
		store: s, checker: c, delay: delay, now: now, wait: wait, log: log,
		arrived: make(chan struct{}, 1), slots: semaphore.NewWeighted(maxRunning),
	}
}

// start takes up what an earlier process left pending, then works in the background
// until ctx ends or drain is called. Call it once, before anything is accepted.
func (q *revisionQueue) start(ctx context.Context) error {
	ids, err := q.store.pendingRevisions()
	if err != nil {
		return err
	}
	for _, id := range ids {
		q.accept(id)
	}
	starting, stop := context.WithCancel(ctx)
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	q.stop, q.abandon = stop, abandon
	q.running.Go(func() { q.dispatch(starting, working) })
	return nil
}

// accept queues a revision that is pending in the store. It never blocks.
func (q *revisionQueue) accept(id int64) {
	q.mu.Lock()
	q.waiting = append(q.waiting, dueRevision{id, q.now().Add(q.delay)})
	q.mu.Unlock()
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

// drain starts nothing more and lets what runs finish until ctx ends; then it is cut
// short and stays pending. When drain returns, no goroutine of the queue is left.
func (q *revisionQueue) drain(ctx context.Context) {
	q.stop()
	defer context.AfterFunc(ctx, q.abandon)()
	q.running.Wait()
	q.abandon()
}

// dispatch starts revisions as they fall due, until starting ends. They run under
// working, which outlives it.
func (q *revisionQueue) dispatch(starting, working context.Context) {
	for {
		next, ok := q.next()
		if !ok {
			select {
			case <-q.arrived:
				continue
			case <-starting.Done():
				return
			}
		}
		left := min(next.start.Sub(q.now()), q.delay) // not more, also when the clock was set back
		if left > 0 && q.wait(starting, left) != nil {
			return
		}
		if q.slots.Acquire(starting, 1) != nil {
			return
		}
		q.running.Go(func() {
			defer q.slots.Release(1)
			q.work(working, next.id)
		})
	}
}

func (q *revisionQueue) next() (dueRevision, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return dueRevision{}, false
	}
	next := q.waiting[0]
	q.waiting = q.waiting[1:]
	return next, true
}

// work runs one revision. A panic costs it its turn, not the process its life.
func (q *revisionQueue) work(ctx context.Context, id int64) {
	err := guard(func() error {
		q.revise(ctx, id)
		return nil
	})
	if err != nil {
		logFailure(q.log, "revision panicked and stays pending", err, "revision", id)
	}
}

// revise makes the check of one revision, with its service's URL and limit as they are
// now, also when the service was retired meanwhile, and keeps what it found out.
func (q *revisionQueue) revise(ctx context.Context, id int64) {
	var url string
	var limitMS int64
	err := q.insist(ctx, id, func() (err error) {
		url, limitMS, err = q.store.revisionTarget(id)
		return err
	})
	if err != nil {
		return
	}
	result, err := q.checker.check(ctx, url, time.Duration(limitMS)*time.Millisecond)
	if err != nil {
		return // the process is stopping
	}
	finished := q.now()
	err = q.insist(ctx, id, func() error { return q.store.finishRevision(ctx, id, result, finished) })
	if err == nil {
		q.log.Info("revision finished", "revision", id, "state", result.state, "detail", result.detail)
	}
}

// insist repeats do, which uses the store, until it succeeds, with growing waits: a
// result that was paid for with requests is not thrown away because a disk is full. It
// gives up when ctx ends, and at once when the row does not exist.
func (q *revisionQueue) insist(ctx context.Context, id int64, do func() error) error {
	for wait := firstStoreWait; ; wait = min(2*wait, lastStoreWait) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		q.log.Error("revision waits for the store", "revision", id, "error", err)
		if errors.Is(err, errNotFound) {
			return err
		}
		if err := q.wait(ctx, wait); err != nil {
			return err
		}
	}
}
