// burst.go owns the checks of what happens while an original is at work: equal requests
// at the same moment, and another one beside it. It must not know how they travel.

package main

import (
	"context"
	"fmt"
	"sync"
)

// rivalries is how often another request is sent beside an original: where nothing slows
// the original down, it may be over before they meet.
const rivalries = 3

// slowest is the creation that is most likely to be met at work.
func (v *verification) slowest() requestTemplate {
	if v.profile.slow != nil {
		return *v.profile.slow
	}
	return v.profile.create
}

// checkInFlight sends bursts. Of each the answers are the original's, a repetition of it,
// or a refusal because the original runs; afterwards the key gives the original's answer.
func checkInFlight(ctx context.Context, v *verification) error {
	met := false
	for _, size := range v.bursts {
		refused, err := v.meets(ctx, size)
		if err != nil {
			return fmt.Errorf("%d a la vez: %w", size, err)
		}
		met = met || refused
	}
	if !met && !v.profile.inFlight.wait {
		v.note("in-flight: nadie encontró al original trabajando; con una petición lenta (slow) se prueba más")
	}
	return nil
}

// meets sends so many equal requests at once; refused tells that one met the original.
func (v *verification) meets(ctx context.Context, size int) (refused bool, err error) {
	i, slow := v.intend(), v.slowest()
	answers, err := i.burst(ctx, slow, size)
	if err != nil {
		return false, err
	}
	var original *answer
	for n, got := range answers {
		i.learn(got)
		if original == nil && v.profile.created.met(got) {
			original = &answers[n]
		}
	}
	if original == nil {
		return false, fmt.Errorf("llegaron %s; se esperaba al menos un %s", tally(answers), v.profile.created)
	}
	for _, got := range answers {
		switch {
		case v.profile.inFlight.met(got):
			refused = true
		case demandReplay(got, *original) != nil:
			return false, unexpected(got, whileRunning(v.profile.inFlight))
		}
	}
	if _, err := i.repeat(ctx, slow, *original); err != nil {
		return refused, fmt.Errorf("después, cuando ya terminó: %w", err)
	}
	return refused, i.expectEffects(ctx, 1)
}

// whileRunning says what a repetition may get.
func whileRunning(inFlight expectation) string {
	if len(inFlight.answers) == 0 {
		return "la misma respuesta del original"
	}
	inFlight.wait = false // who waited, and who came late, has the same answer
	return inFlight.String() + " mientras trabaja el original, o su misma respuesta cuando ya terminó"
}

// burst sends equal requests, all at the same moment.
func (i *intent) burst(ctx context.Context, t requestTemplate, size int) ([]answer, error) {
	answers, errs := make([]answer, size), make([]error, size)
	var burst sync.WaitGroup
	start := make(chan struct{})
	for n := range size {
		burst.Go(func() {
			<-start
			answers[n], errs[n] = i.send(ctx, t)
		})
	}
	close(start)
	burst.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func checkConcurrentBody(ctx context.Context, v *verification) error {
	for range rivalries {
		if err := v.rivals(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rivals sends a creation and, once it is on its way, another one under the same key.
// Whichever comes first is done, and the other refused for what it says.
func (v *verification) rivals(ctx context.Context) error {
	i, slow := v.intend(), v.slowest()
	rival, changed := v.changedFrom(i)
	written := make(chan struct{})
	sent := sync.OnceFunc(func() { close(written) })
	var first answer
	var failed error
	var original sync.WaitGroup
	original.Go(func() {
		defer sent()
		first, failed = i.send(tellWritten(ctx, sent), slow)
	})
	<-written
	second, err := rival.send(ctx, changed)
	original.Wait()
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	i.learn(first)
	rival.learn(second)
	done, refused := first, second
	if v.profile.created.met(second) && !v.profile.created.met(first) {
		done, refused = second, first
	}
	if err := v.profile.created.demand(done); err != nil {
		return err
	}
	if err := v.profile.mismatch.demand(refused); err != nil {
		return fmt.Errorf("la otra petición, mientras corre el original: %w", err)
	}
	effects, err := i.effects(ctx)
	if err != nil {
		return err
	}
	others := 0
	if rival != i {
		if others, err = rival.effects(ctx); err != nil {
			return err
		}
	}
	if err := demandEffects(effects+others, 1); err != nil {
		return fmt.Errorf("de las dos peticiones hay %w", err)
	}
	v.left.counted(i.as, i.unique, effects)
	if rival != i {
		v.left.counted(rival.as, rival.unique, others)
	}
	return nil
}
