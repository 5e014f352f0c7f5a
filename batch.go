// batch.go owns the run of register --from: the rows of a file as one intention each,
// several at once, with register's own attempts and a budget that they share. It speaks
// HTTP like any client; it must not know revisor's insides, nor how its end is written.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

const (
	// batchConcurrency is how many rows are under way at once by default: enough to fill
	// the waits between attempts, few enough to go unnoticed beside other clients.
	batchConcurrency = 4
	// maxConcurrency is the most: a server that groups its commits has nothing to gain
	// from more, and any other has much to lose.
	maxConcurrency = 64
)

// batch is one run over a file's rows.
type batch struct {
	name        string
	rows        []serviceRow
	concurrency int
	registrar   registrar // of all rows; run lets it tell nobody, and gives it the run's budget
	terminal    io.Writer // for a progress bar, if it is one

	bar *progress

	mu      sync.Mutex
	begun   int // rows that were taken on, or left out as repetitions
	stopped stop
	results []rowResult
}

// validateBatch finds wrong arguments, beside those of a registration.
func validateBatch(name string, concurrency int) error {
	switch {
	case name == "":
		return errors.New("--from needs --batch, the name that makes its keys")
	case !utf8.ValidString(name):
		return errors.New("--batch must be UTF-8 text")
	case concurrency < 1 || concurrency > maxConcurrency:
		return fmt.Errorf("--concurrency: must be from 1 to %d", maxConcurrency)
	}
	return nil
}

// run sends what is to be sent, and returns when nothing is under way any more. results
// and stopped then hold what is known.
func (b *batch) run(ctx context.Context) {
	b.registrar.out, b.registrar.budget = io.Discard, newBudget(b.concurrency)
	b.results = make([]rowResult, len(b.rows))
	first := map[string]int{} // the line of each intention
	for i, row := range b.rows {
		result := rowResult{Line: row.line, Name: row.name, Outcome: rowUnsent, Key: row.key(b.name)}
		if line, again := first[result.Key]; again {
			result.Outcome, result.Of = rowRepeated, line
		} else {
			first[result.Key] = row.line
		}
		b.results[i] = result
	}
	b.bar = newProgress(b.terminal, len(first), "registrando")
	var senders sync.WaitGroup
	for range b.concurrency {
		senders.Go(func() {
			for i, ok := b.next(ctx); ok; i, ok = b.next(ctx) {
				b.register(ctx, b.rows[i], &b.results[i])
				b.bar.step()
			}
		})
	}
	senders.Wait()
	b.bar.clear()
}

// next takes on the next row; ok is false when there is none, or none may be begun any
// more.
func (b *batch) next(ctx context.Context) (i int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped != "": // for good: a late success does not begin it again
	case ctx.Err() != nil:
		b.stopped = stoppedByPerson
	case b.registrar.budget.spent():
		b.stopped = stoppedByBudget
	}
	for b.begun < len(b.rows) && b.results[b.begun].Outcome == rowRepeated {
		b.begun++
	}
	if b.stopped != "" || b.begun == len(b.rows) {
		return 0, false
	}
	b.begun++
	return b.begun - 1, true
}

// register makes one row's registration.
func (b *batch) register(ctx context.Context, row serviceRow, result *rowResult) {
	s := registration{name: row.name, url: row.url, limitMS: row.limitMS, key: result.Key}
	if err := b.registrar.prepare(&s); err != nil {
		result.Why = err.Error()
		return
	}
	result.end(b.registrar.pursue(ctx, &s), b.registrar.attemptTimeout)
}
