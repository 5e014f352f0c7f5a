// verify.go owns the tool verify: it runs the checks that a profile makes possible
// against a server, and takes away what they left there. It speaks HTTP like any client and
// must not know revisor, nor what a check asks; the checks are listed in checks.go.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	// verifyRequestTime bounds one request. A server may let a duplicate wait for its
	// original, revisor by default 10 s.
	verifyRequestTime = 15 * time.Second
	// verifyTime bounds all checks together; a healthy run takes seconds, and one with a
	// key's lifetime at most that more.
	verifyTime = 2*time.Minute + longestLifetime
	// verifyCleanTime bounds taking away what was created.
	verifyCleanTime = 20 * time.Second
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
	bursts  []int         // how many equal requests are sent at once
	atOnce  int           // how many checks are made at once; 0: checksAtOnce
	// patience bounds how long an intention is repeated while its original runs; 0: settlePatience.
	patience time.Duration
	report   *reporter

	transport *http.Transport
	left      leftovers
	mu        sync.Mutex
	notes     []string
}

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
// the person has been told of one that did not.
func (v *verification) run(ctx context.Context) error {
	v.transport = newTransport()
	if v.timeout == 0 {
		v.timeout = verifyRequestTime
	}
	if v.atOnce == 0 {
		v.atOnce = checksAtOnce
	}
	if v.patience == 0 {
		v.patience = settlePatience
	}
	start := v.now()
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	unreachable := v.reach(limited)
	if unreachable != nil {
		v.report.warn(unreachable.Error())
		unreachable = errors.New("el servidor no contesta") // the reason once is enough
	}
	checks := promiseChecks(v.profile)
	verdicts := v.judge(limited, checks, unreachable)
	for i, c := range checks {
		v.report.begin(c.id, c.sentence)
		v.report.end(<-verdicts[i])
	}
	if unreachable == nil {
		v.clean(ctx)
	}
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

// reach asks whether anybody is there at all, so that the reason is told once.
func (v *verification) reach(ctx context.Context) error {
	if _, err := v.resume(begun{unique: v.newUnique()}).look(ctx); err != nil {
		return fmt.Errorf("el servidor %s no contesta: %w", v.profile.base.Redacted(), err)
	}
	return nil
}

// judge makes the checks, some at once, and returns where each verdict will come.
func (v *verification) judge(ctx context.Context, checks []check, unreachable error) []chan checkVerdict {
	verdicts := make([]chan checkVerdict, len(checks))
	for i := range checks {
		verdicts[i] = make(chan checkVerdict, 1)
	}
	go func() {
		slots := make(chan struct{}, v.atOnce)
		for i, c := range checks {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				verdicts[i] <- v.verdict(ctx, c, unreachable)
			}()
		}
	}()
	return verdicts
}

// verdict makes one check.
func (v *verification) verdict(ctx context.Context, c check, unreachable error) checkVerdict {
	told := checkVerdict{id: c.id, sentence: c.sentence, source: c.source, state: checkOK,
		required: v.profile.asksFor(c.id, c.lacks == "")}
	if c.lacks != "" {
		told.state, told.detail = checkOmitted, c.lacks
		return told
	}
	start, err := v.now(), unreachable
	if err == nil {
		err = c.run(ctx, v)
	}
	told.took = v.now().Sub(start)
	if err != nil {
		told.state, told.detail = checkFailed, err.Error()
	}
	return told
}

// attempt makes one request on a connection of its own.
func (v *verification) attempt(ctx context.Context, c call) (answer, error) {
	got, err := attempt(ctx, v.transport, v.timeout, verifyAnswer, c)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s quedó sin respuesta: %s", c.method, c.path, whyNoAnswer(err))
	}
	return got, nil
}

// note keeps a warning for the end.
func (v *verification) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

// clean takes away whatever the checks created, also what came of a request whose answer
// was never seen, and also when the person has broken off the run.
func (v *verification) clean(ctx context.Context) {
	if v.profile.remove == nil {
		v.note("el perfil no dice cómo se retira lo creado (remove): lo que se creó de prueba sigue ahí")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verifyCleanTime)
	defer cancel()
	if err := v.look(ctx); err != nil {
		v.note("no se pudo comprobar si queda algo de prueba: %v", err)
	}
	_, things := v.left.snapshot()
	for _, thing := range things {
		i := v.resume(thing.begun)
		i.values["id"] = thing.id
		if err := i.removes(ctx); err != nil {
			v.note("lo creado de prueba con el id %s quedó sin retirar: %v", thing.id, err)
		}
	}
}

// resume is an intention of before, as far as asking and removing go.
func (v *verification) resume(b begun) *intent {
	return &intent{v: v, as: b.as, unique: b.unique, values: map[string]string{"unique": b.unique}}
}

// look finds what no answer has told of, where the profile makes that possible. A list of
// all is read once for each credential.
func (v *verification) look(ctx context.Context) error {
	how := v.profile.counting
	if how == nil || how.id == nil {
		return nil
	}
	lists := map[int]answer{}
	intentions, _ := v.left.snapshot()
	for _, b := range intentions {
		got, read := lists[b.as]
		if !read || hasPlace(how.path, "unique") {
			var err error
			if got, err = v.resume(b).look(ctx); err != nil {
				return err
			}
			lists[b.as] = got
		}
		_, ids, err := how.read(got, b.unique)
		if err != nil {
			return err
		}
		for _, id := range ids {
			v.left.found(b.as, b.unique, id)
		}
	}
	return nil
}
