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
)

const (
	// maxGroup is how many jobs share a commit; larger groups no longer gain.
	maxGroup = 256
	// maxQueued bounds the jobs that wait, and so the memory they hold: four groups.
	// Beyond it the answer is "unavailable" at once.
	maxQueued = 4 * maxGroup
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
		w.run(w.collect(first))
		w.finishCheckpoint()
	}
}

// collect takes whatever is queued. One yield lets the callers that the last commit
// woke queue their next job first; waiting on purpose never paid.
func (w *writer) collect(first *job) []*job {
	group := []*job{first}
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

// run commits one group and then answers all of its callers.
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

// commitGroup runs the jobs in one transaction. A job's own error goes to results;
// the returned error befell the whole group, of which nothing was written unless it
// is a *commitError.
func (w *writer) commitGroup(group []*job, results []error) error {
	if err := w.connect(); err != nil {
		return err
	}
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		w.discardUnlessBusy(err)
		return fmt.Errorf("begin: %w", err)
	}
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
	return nil
}

// rollback ends a transaction that failed. A connection that cannot even do that is
// replaced, which ends its transaction too.
func (w *writer) rollback() {
	if err := w.tx.exec("ROLLBACK"); err != nil {
		w.discard()
	}
}

// discardUnlessBusy keeps the connection when it only had to wait too long for a
// lock, and replaces it after anything else.
func (w *writer) discardUnlessBusy(err error) {
	if !isBusy(err) {
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
