// checkpoint.go owns the checkpointer: it moves what is committed from the write-ahead
// log into the database file, on a connection of its own, so that the writer does not
// stall, and keeps the log bounded. It must not know what is written.

package main

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

const (
	// checkpointInterval is how often the log is moved: often enough that each step is
	// short.
	checkpointInterval = 200 * time.Millisecond
	// longLog, in pages of 4 KiB, is when the writer is asked to finish a checkpoint
	// itself. Under constant load another connection never catches up with it, and
	// without that the log is never begun anew: 16 MiB.
	longLog = 4096
)

// checkpointer works in the background until it is closed.
type checkpointer struct {
	stmts  *statements
	writer *writer
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func newCheckpointer(db *sql.DB, w *writer) *checkpointer {
	ctx, stop := context.WithCancel(context.Background())
	c := &checkpointer{stmts: newStatements(db), writer: w, stop: stop}
	c.done.Go(func() { c.run(ctx) })
	return c
}

// close ends the work and releases the statements.
func (c *checkpointer) close() {
	c.stop()
	c.done.Wait()
	c.stmts.close()
}

func (c *checkpointer) run(ctx context.Context) {
	ticker := time.NewTicker(checkpointInterval)
	defer ticker.Stop()
	var moved int64 // commits that a checkpoint has seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		commits := c.writer.commits.Load()
		if commits == moved {
			continue
		}
		log, left, err := c.stmts.checkpoint()
		if err != nil {
			continue // the log keeps what could not be moved; the next step tries again
		}
		if left == 0 {
			moved = commits
		}
		if log > longLog {
			c.writer.finish.Store(true)
		}
	}
}
