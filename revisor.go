// revisor.go owns the role revisor as a whole: its pieces put together over an open
// store, what works behind it, and its end. It must not know addresses or files, nor how
// any piece works.

package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// revisorSettings is what a person may set of the role.
type revisorSettings struct {
	allow      allowed       // private destinations
	keyTTL     time.Duration // lifetime of a key
	wait       bool          // waiting for the original is the default
	scheme     byte          // of fingerprints: schemeOrdered or schemeCanonical
	saveDelay  time.Duration // pretended work of a registration
	queueDelay time.Duration // pretended queue before a revision
	broken     defects       // deliberate; none as a rule
}

// revisorConfig is what the role depends on.
type revisorConfig struct {
	revisorSettings
	store    *store
	practice []credential // the demo's; none elsewhere
	log      *slog.Logger
	now      func() time.Time
	random   func() float64                                               // uniform in [0, 1)
	pause    func(ctx context.Context, d time.Duration) error             // returns early when ctx ends
	resolve  func(ctx context.Context, host string) ([]netip.Addr, error) // all addresses of a name
}

// revisorRole is the role with everything that works behind it.
type revisorRole struct {
	handler http.Handler
	engine  *engine
	queue   *revisionQueue

	stopSweep context.CancelFunc
	sweeping  sync.WaitGroup
}

// newRevisor puts the pieces together. Nothing runs before start.
func newRevisor(cfg revisorConfig) *revisorRole {
	dests := newDestinations(cfg.allow, cfg.resolve)
	check := newChecker(dests, cfg.now, cfg.random, cfg.pause)
	queue := newRevisionQueue(cfg.store, check, cfg.queueDelay, cfg.now, cfg.pause, cfg.log)
	eng := newEngine(engineConfig{
		store: cfg.store, now: cfg.now, log: cfg.log,
		ttl: cfg.keyTTL, wait: cfg.wait, scheme: cfg.scheme, broken: cfg.broken,
	})
	handler := newServer(serverConfig{
		store: cfg.store, engine: eng, checker: check, queue: queue, destinations: dests,
		now: cfg.now, log: cfg.log, practice: cfg.practice, saveDelay: cfg.saveDelay, broken: cfg.broken,
	})
	return &revisorRole{handler: handler, engine: eng, queue: queue}
}

// start begins the work in the background: pending revisions, also those of an earlier
// process, and the sweep. Call it once, and drain in the end.
func (rr *revisorRole) start(ctx context.Context) error {
	if rr.engine.broken[volatileKeys] {
		if err := rr.engine.store.write(ctx, (*tx).forgetKeys); err != nil {
			return err
		}
	}
	if err := rr.queue.start(ctx); err != nil {
		return err
	}
	sweep, stop := context.WithCancel(context.WithoutCancel(ctx))
	rr.stopSweep = stop
	rr.sweeping.Go(func() { rr.engine.sweep(sweep) })
	return nil
}

// drain lets what works in the background finish until ctx ends. When it returns, no
// goroutine of the role is left.
func (rr *revisorRole) drain(ctx context.Context) {
	rr.stopSweep()
	rr.queue.drain(ctx)
	rr.sweeping.Wait()
}
