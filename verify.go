// verify.go owns the tool verify: it runs the checks that a profile makes possible
// against a server, and their time. It speaks HTTP like any client and must not know
// revisor, nor what a check asks; the checks are listed in checks.go.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// verifyRequestTime bounds one request. A server may let a duplicate wait for its
	// original, revisor by default 10 s.
	verifyRequestTime = 15 * time.Second
	// verifyTime bounds all checks together; a healthy run takes seconds, and one with a
	// key's lifetime at most twice that more.
	verifyTime = 2*time.Minute + 2*longestLifetime
	// verifyCreations is how many creations, one after the other, there is time for beside
	// that: a run makes some forty, and repeats them.
	verifyCreations = 60
	// lateWait is how long after the other checks an effect may come that is still found.
	lateWait = time.Second
	// verifyAnswer bounds an answer that is read, in bytes. A list can be long.
	verifyAnswer = 64 << 20
	// checksAtOnce is how many checks are made at once. Each has keys and names of its
	// own; what they share is the server's patience.
	checksAtOnce = 4
)

// verifyBursts is how many equal requests are sent at once, one burst after another.
var verifyBursts = []int{2, 10, 100}

// errVerifyFailed says that not every required check passed. The person has been told.
var errVerifyFailed = errors.New("verify failed")

// verification is one run of all checks.
type verification struct {
	profile   *profile // resolved
	newUnique func() string
	newKey    func() string // of letters, digits and dashes
	wait      func(context.Context, time.Duration) error
	now       func() time.Time
	// lossy opens a gateway to a server that meets its clients with one fault, as the
	// gateway spells it, until it is closed.
	lossy   func(target *url.URL, fault string) (base *url.URL, end func(), err error)
	timeout time.Duration // of one request; 0: verifyRequestTime
	late    time.Duration // how long effects are waited for that come late; 0: lateWait
	bursts  []int         // how many equal requests are sent at once
	atOnce  int           // how many checks are made at once; 0: checksAtOnce
	// patience is how long an intention is repeated while its original runs, where
	// creations are quick; 0: settlePatience.
	patience time.Duration
	report   *reporter

	transport *http.Transport
	left      leftovers
	mu        sync.Mutex
	notes     []string
	seen      struct{ creation, answer time.Duration } // the slowest so far
}

// notMade is why a check was not made, or not to its end: that is no verdict about the server.
type notMade string

func (why notMade) Error() string { return string(why) }

const (
	errInterrupted notMade = "interrumpido"
	errOutOfTime   notMade = "se acabó el tiempo de la corrida"
)

// validate finds a required check that there is not.
func (v *verification) validate() error {
	checks := promiseChecks(v.profile)
	for n, id := range v.profile.required {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.id == id }) {
			return fmt.Errorf("required[%d]: there is no check %q", n, id)
		}
	}
	return nil
}

// run makes all checks. Nil means that each required one passed; errVerifyFailed that
// the person has been told of one that did not. When ctx ends, or nobody reads the report
// any more, no request is begun; those under way run to their end, and all is cleaned.
func (v *verification) run(ctx context.Context) error {
	v.fillIn()
	start := v.now()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	trouble := v.fits(ctx)
	if trouble != nil {
		if trouble.told != "" {
			v.report.warn(trouble.told)
		}
	}
	limited, cancel := context.WithTimeout(ctx, verifyTime+verifyCreations*v.slowestCreation())
	defer cancel()
	checks := promiseChecks(v.profile)
	verdicts := v.judge(limited, checks, trouble)
	for i, c := range checks {
		v.report.begin(c.id, c.sentence)
		v.report.end(<-verdicts[i])
		if v.report.broken() {
			stop()
		}
	}
	v.clean(ctx)
	for _, note := range v.notes {
		v.report.warn(note)
	}
	rep, err := v.report.finish(v.now().Sub(start))
	switch {
	case err != nil:
		return err
	case !rep.passed():
		return errVerifyFailed
	}
	return nil
}

// fillIn gives what was left out its usual value.
func (v *verification) fillIn() {
	v.transport = newTransport()
	v.timeout = cmp.Or(v.timeout, verifyRequestTime)
	v.atOnce = cmp.Or(v.atOnce, checksAtOnce)
	v.patience = cmp.Or(v.patience, settlePatience)
	v.late = cmp.Or(v.late, lateWait)
}

// judge makes the checks, some at once, and returns where each verdict will come. Those
// that look back come last.
func (v *verification) judge(ctx context.Context, checks []check, trouble *misfit) []chan checkVerdict {
	verdicts := make([]chan checkVerdict, len(checks))
	var turns [2][]int
	for i, c := range checks {
		verdicts[i] = make(chan checkVerdict, 1)
		turn := 0
		if c.last {
			turn = 1
		}
		turns[turn] = append(turns[turn], i)
	}
	go func() {
		for _, turn := range turns {
			v.each(len(turn), func(n int) { verdicts[turn[n]] <- v.verdict(ctx, checks[turn[n]], trouble) })
		}
	}()
	return verdicts
}

// each does something so many times, some at once, and waits for all.
func (v *verification) each(times int, do func(n int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, v.atOnce)
	for n := range times {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(n)
		})
	}
	all.Wait()
}

// verdict makes one check.
func (v *verification) verdict(ctx context.Context, c check, trouble *misfit) checkVerdict {
	told := checkVerdict{id: c.id, sentence: c.sentence, source: c.source, state: checkOK,
		required: v.profile.asksFor(c.id, c.lacks == "")}
	if c.lacks != "" {
		told.state, told.detail = checkOmitted, c.lacks
		return told
	}
	start := v.now()
	var err error
	if trouble != nil {
		err = trouble.reason
	} else {
		err = c.run(ctx, v)
	}
	told.took = v.now().Sub(start)
	if err != nil {
		told.state, told.detail = checkFailed, err.Error()
	}
	if _, unmade := errors.AsType[notMade](err); unmade {
		told.state = checkOmitted
	}
	return told
}

// going is a context for a request that is begun now: nothing but its own time limit ends
// it. It is an error when no request may begin any more.
func (v *verification) going(ctx context.Context) (context.Context, error) {
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errOutOfTime
	case err != nil:
		return nil, errInterrupted
	}
	return context.WithoutCancel(ctx), nil
}

// attempt makes one request on a connection of its own.
func (v *verification) attempt(ctx context.Context, c call) (answer, error) {
	ctx, err := v.going(ctx)
	if err != nil {
		return answer{}, err
	}
	start := v.now()
	got, err := attempt(ctx, v.transport, v.timeout, verifyAnswer, c)
	if err != nil {
		return answer{}, &noAnswer{c, err}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.answer = max(v.seen.answer, v.now().Sub(start))
	return got, nil
}

// noAnswer says that a request was sent, or tried to be, and no whole answer came.
type noAnswer struct {
	call call
	why  error
}

func (e *noAnswer) Error() string {
	return fmt.Sprintf("%s %s quedó sin respuesta: %s", e.call.method, e.call.path, whyNoAnswer(e.why))
}

func (e *noAnswer) Unwrap() error { return e.why }

// waits lets some time pass.
func (v *verification) waits(ctx context.Context, d time.Duration) error {
	if v.wait(ctx, d) != nil {
		_, err := v.going(ctx)
		return err
	}
	return nil
}

// created notes how long a creation took.
func (v *verification) created(took time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.creation = max(v.seen.creation, took)
}

// slowestCreation is how long the slowest creation took so far.
func (v *verification) slowestCreation() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen.creation
}

// endures is how long an intention is repeated while its original runs: what is slow gets
// its time.
func (v *verification) endures() time.Duration { return max(v.patience, 3*v.slowestCreation()) }

// note keeps a warning for the end.
func (v *verification) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

// key draws a key that the API has room for.
func (v *verification) key() string {
	key := v.newKey()
	if longest := v.profile.longest; longest > 0 && len(key) > longest {
		key = strings.ReplaceAll(key, "-", "")
		key = key[:min(len(key), longest)]
	}
	return key
}
