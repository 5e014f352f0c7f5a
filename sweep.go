// sweep.go owns freeing the space of keys whose time has passed: when, how much in one
// step, and giving the pages back. Whether a key lives is not decided here but on
// reading. It must not know SQL text, nor what a key protects.

package main

import (
	"context"
	"time"
)

const (
	// sweepBatch and sweepPause keep the sweep's writes small and apart, so that
	// nobody's commit waits long behind one.
	sweepBatch = 16
	sweepPause = 10 * time.Millisecond
	// sweepPatience is after how long a sweep that is not done has fallen behind: keys
	// come faster than it goes. From then on a batch is no smaller than what was
	// recorded since the one before, or the file would grow for ever.
	sweepPatience = 10 * time.Minute
	// sweepPages is how many free pages one step gives back.
	sweepPages = 50
	// longestSweepInterval is how often the sweep looks when keys live long.
	longestSweepInterval  = time.Minute
	shortestSweepInterval = time.Second
)

// sweep frees the space of expired keys until ctx ends: often enough for short
// lifetimes, seldom enough to cost nothing.
func (e *engine) sweep(ctx context.Context) {
	ticker := time.NewTicker(min(max(e.ttl, shortestSweepInterval), longestSweepInterval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		swept, err := e.sweepOnce(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("sweep", "error", err)
		}
		if swept > 0 {
			e.log.Info("sweep", "expired keys deleted", swept)
		}
	}
}

// sweepOnce deletes what has expired, in small steps, and gives the pages back.
func (e *engine) sweepOnce(ctx context.Context) (swept int64, err error) {
	for began := e.now(); ; {
		var n int64
		batch := e.nextBatch(e.now().Sub(began))
		err := e.store.write(ctx, func(t *tx) (err error) {
			n, err = t.sweepKeys(e.now(), batch)
			return err
		})
		if err != nil { // n was not deleted after all
			return swept, err
		}
		swept += n
		if n == 0 {
			break
		}
		if err := pause(ctx, sweepPause); err != nil {
			return swept, err
		}
	}
	if swept == 0 {
		return 0, nil
	}
	return swept, e.releasePages(ctx)
}

// nextBatch is how many keys the next step deletes of a sweep that has taken so long.
func (e *engine) nextBatch(so time.Duration) int64 {
	recorded := e.unswept.Swap(0)
	if so < sweepPatience {
		return sweepBatch
	}
	return max(sweepBatch, recorded)
}

// releasePages gives the free pages back, in small steps, as long as that succeeds.
func (e *engine) releasePages(ctx context.Context) error {
	for before := int64(-1); ; {
		var left int64
		err := e.store.write(ctx, func(t *tx) (err error) {
			left, err = t.releasePages(sweepPages)
			return err
		})
		if err != nil || left == 0 || left == before {
			return err
		}
		before = left
		if err := pause(ctx, sweepPause); err != nil {
			return err
		}
	}
}
