// writer.go owns the one goroutine that writes to the database. It commits groups:
// what is waiting when a commit ends goes into the next one, each job in a savepoint
// of its own, so that one fsync serves many requests and one refused job harms no
// neighbour. It must not know HTTP, nor what a job does.

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxGroup is how many jobs share a commit; larger groups no longer gain.
	maxGroup = 256
	// maxQueued bounds the jobs that wait, and so the memory they hold: four groups.
	// Beyond it the answer is "unavailable" at once.
	maxQueued = 4 * maxGroup
	// lockStep is how long one attempt to begin waits for another process's lock, and
	// lockSteps how many of them a job lives through: busyTime since it was queued, and
	// not since its group's turn came.
	lockStep  = 100 * time.Millisecond
	lockSteps = int64(busyTime / lockStep)
)

// tx is the transaction a job works in. It is all that a job gets, so that it cannot
// reach the read pool by mistake. Its methods, the statements, are in store.go.
type tx struct {
	stmts *statements
}

// job is a plain function of the transaction, with the caller that waits for it.
type job struct {
	ctx    context.Context
	do     func(*tx) error
	result chan error
	waits  int64 // the writer's, when the job was queued
}

// commitError says that a COMMIT failed: whether anything was written must be read back
// before anyone says that nothing was.
type commitError struct {
	err  error
	open bool // an I/O error: what was half done may turn out to be whole
}

func (e *commitError) Error() string { return "commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// writer serialises all writes of this process.
type writer struct {
	most  int // jobs in one group
	db    *sql.DB
	queue chan *job
	done  chan struct{} // closed when the goroutine has ended

	mu     sync.RWMutex // held for reading while sending, so that close never races a send
	closed bool

	commits atomic.Int64 // groups committed
	waits   atomic.Int64 // steps spent waiting for a lock: the clock of the jobs' patience
	finish  atomic.Bool  // the checkpointer asks the writer to finish a checkpoint

	conn *sql.Conn // nil until needed, and again after trouble
	tx   *tx
}

func newWriter(db *sql.DB) *writer {
	w := &writer{most: maxGroup, db: db, queue: make(chan *job, maxQueued), done: make(chan struct{})}
	go w.loop()
	return w
}

// write hands a job to the writer and waits for its outcome: nil means committed and
// durable. Once the job is queued the wait does not end early, whatever ctx says; a
// job whose ctx has ended before its group began is not run. Errors: the job's own,
// *commitError, or errStoreUnavailable (queue full, closed, no transaction to be had).
func (w *writer) write(ctx context.Context, do func(*tx) error) error {
	j := &job{ctx: ctx, do: do, result: make(chan error, 1)}
	if err := w.enqueue(j); err != nil {
		return err
	}
	return <-j.result
}

func (w *writer) enqueue(j *job) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return fmt.Errorf("%w: closed", errStoreUnavailable)
	}
	j.waits = w.waits.Load()
	select {
	case w.queue <- j:
		return nil
	default:
		return fmt.Errorf("%w: %d writes are waiting", errStoreUnavailable, maxQueued)
	}
}

// close lets the queued jobs finish, then releases the connection.
func (w *writer) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.done
}

func (w *writer) loop() {
	defer close(w.done)
	defer w.discard()
	for first := range w.queue {
		if group := w.begin(w.collect([]*job{first})); len(group) > 0 {
			w.run(group)
		}
		w.finishCheckpoint()
	}
}

// collect adds whatever is queued to a group. One yield lets the callers that the last
// commit woke queue their next job first; waiting on purpose never paid.
func (w *writer) collect(group []*job) []*job {
	runtime.Gosched()
	for len(group) < w.most {
		select {
		case j, open := <-w.queue:
			if !open {
				return group
			}
			group = append(group, j)
		default:
			return group
		}
	}
	return group
}

// begin opens a transaction for a group, and returns who is left of it: nobody when
// there is none to be had. While it waits for another process's lock, those whose
// patience ends are refused, and those who come join.
func (w *writer) begin(group []*job) []*job {
	for len(group) > 0 {
		err := w.beginOnce()
		switch {
		case err == nil:
			return group
		case w.conn != nil && isBusy(err):
			w.waits.Add(1)
			group = w.regroup(group, err)
		default:
			w.discard()
			for _, j := range group {
				j.result <- err
			}
			return nil
		}
	}
	return nil
}

func (w *writer) beginOnce() error {
	if err := w.connect(); err != nil {
		return err
	}
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return nil
}

// regroup answers err to the jobs that have waited for busyTime, and fills their places
// with what is queued, of which the same is asked.
func (w *writer) regroup(group []*job, err error) []*job {
	for {
		patient := group[:0]
		for _, j := range group {
			if w.waits.Load()-j.waits < lockSteps {
				patient = append(patient, j)
			} else {
				j.result <- err
			}
		}
		if group = w.collect(patient); len(group) == len(patient) {
			return group
		}
	}
}

// run commits one group, whose transaction has begun, and then answers all of its
// callers.
func (w *writer) run(group []*job) {
	results := make([]error, len(group))
	err := w.commitGroup(group, results)
	for i, j := range group {
		if err != nil && !standsAlone(results[i]) {
			results[i] = err
		}
		j.result <- results[i]
	}
}

// standsAlone tells whether a job's own error is true even though its group failed. A
// refusal is not: it may rest on what a neighbour had written ("the name is taken").
func standsAlone(own error) bool {
	var crash *panicError
	return errors.As(own, &crash) || errors.Is(own, errStoreUnavailable)
}

// commitGroup runs the jobs in the transaction that has begun. A job's own error goes
// to results; the returned error befell the whole group, of which nothing was written
// unless it is a *commitError.
func (w *writer) commitGroup(group []*job, results []error) error {
	for i, j := range group {
		own, fatal := w.runJob(j)
		if fatal != nil {
			w.rollback()
			return fatal
		}
		results[i] = own
	}
	if err := w.tx.exec("COMMIT"); err != nil {
		w.rollback()
		return &commitError{err, isIO(err)}
	}
	w.commits.Add(1)
	return nil
}

// finishCheckpoint moves, between two groups and when asked, what little the
// checkpointer has left: only when nothing is left can the next group begin the log
// anew. It is short because the checkpointer has just done the most.
func (w *writer) finishCheckpoint() {
	if w.conn == nil || !w.finish.CompareAndSwap(true, false) {
		return
	}
	w.tx.stmts.checkpoint() // what fails here is tried again
}

// runJob runs one job in its savepoint. own is the job's refusal, rolled back alone;
// fatal means that the transaction itself is lost.
func (w *writer) runJob(j *job) (own, fatal error) {
	if err := j.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w before the write began", errStoreUnavailable, err), nil
	}
	if err := w.tx.exec("SAVEPOINT job"); err != nil {
		return nil, fmt.Errorf("savepoint: %w", err)
	}
	own = guard(func() error { return j.do(w.tx) }) // the writer must outlive a panic
	if errors.Is(own, errStoreUnavailable) {
		return nil, own // SQLite may have rolled the whole transaction back
	}
	if own != nil {
		if err := w.tx.exec("ROLLBACK TO job"); err != nil {
			return nil, fmt.Errorf("roll back job: %w", err)
		}
	}
	if err := w.tx.exec("RELEASE job"); err != nil {
		return nil, fmt.Errorf("release job: %w", err)
	}
	return own, nil
}

func (w *writer) connect() error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(context.Background())
	if err != nil {
		return storeError("connect", err)
	}
	w.conn = conn
	w.tx = &tx{stmts: newStatements(conn)}
	if err := w.tx.exec(fmt.Sprintf("PRAGMA busy_timeout = %d", lockStep.Milliseconds())); err != nil {
		w.discard()
		return err
	}
	return nil
}

// rollback ends a transaction that failed. A connection that cannot even do that is
// replaced, which ends its transaction too.
func (w *writer) rollback() {
	if err := w.tx.exec("ROLLBACK"); err != nil {
		w.discard()
	}
}

// discard closes the connection and its statements for good (a *sql.Conn that is only
// closed would go back to the pool as it is).
func (w *writer) discard() {
	if w.conn == nil {
		return
	}
	w.tx.stmts.close()
	w.conn.Raw(func(any) error { return driver.ErrBadConn })
	w.conn.Close()
	w.conn, w.tx = nil, nil
}
