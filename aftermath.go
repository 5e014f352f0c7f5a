// aftermath.go owns what is there after the checks: effects that came late, and what is
// to be taken away. It must not know what a check asked.

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// cleanTime is given to the cleaning beside the time that its requests take.
	cleanTime = 20 * time.Second
	// doubtPause is between two looks for what may still come.
	doubtPause = 100 * time.Millisecond
)

// survey looks at the effects of many intentions. A list of all is read once for each
// credential. For concurrent use.
type survey struct {
	v     *verification
	mu    sync.Mutex
	lists map[int]answer
}

func (v *verification) newSurvey() *survey { return &survey{v: v, lists: map[int]answer{}} }

// read counts what is to be seen of an intention, and lists its ids.
func (s *survey) read(ctx context.Context, b begun) (effects int, ids []string, err error) {
	how := s.v.profile.counting
	got, err := s.look(ctx, b, hasPlace(how.path, "unique"))
	if err != nil {
		return 0, nil, err
	}
	return how.read(got, b.unique)
}

// look asks once more where the question is about this intention alone.
func (s *survey) look(ctx context.Context, b begun, alone bool) (answer, error) {
	if alone {
		return s.v.resume(b).look(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	got, read := s.lists[b.as]
	var err error
	if !read {
		if got, err = s.v.resume(b).look(ctx); err == nil {
			s.lists[b.as] = got
		}
	}
	return got, err
}

// resume is an intention of before, as far as asking and removing go.
func (v *verification) resume(b begun) *intent {
	return &intent{v: v, as: b.as, unique: b.unique, values: map[string]string{"unique": b.unique}}
}

// checkLateEffects counts once more what was counted: a repetition may have left work
// behind that was done after its answer.
func checkLateEffects(ctx context.Context, v *verification) error {
	counted := v.left.expected()
	if len(counted) == 0 {
		return notMade("ninguna comprobación llegó a contar bien sus efectos")
	}
	if err := v.waits(ctx, v.late); err != nil {
		return err
	}
	all := v.newSurvey()
	found := make([]error, len(counted))
	v.each(len(counted), func(n int) {
		effects, _, err := all.read(ctx, counted[n].begun)
		if err == nil {
			err = demandEffects(effects, counted[n].effects)
		}
		if err != nil {
			found[n] = fmt.Errorf("de %s, al contar otra vez: %w", counted[n].unique, err)
		}
	})
	for _, err := range found {
		if err != nil {
			return err
		}
	}
	return nil
}

// clean takes away whatever the checks created, also what came of a request whose answer
// was never seen, and also when the person has broken off the run.
func (v *verification) clean(ctx context.Context) {
	intentions, _ := v.left.snapshot()
	if len(intentions) == 0 {
		return
	}
	if v.profile.remove == nil {
		v.note("el perfil no dice cómo se retira lo creado (remove): lo que se creó de prueba sigue ahí")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.cleaningTime(len(intentions)))
	defer cancel()
	if err := v.find(ctx, intentions); err != nil {
		v.note("no se pudo comprobar si queda algo de prueba: %v", err)
	}
	v.awaitDoubtful(ctx)
	v.removeAll(ctx)
	v.noteWhatIsLeft(ctx, intentions)
	if doubtful := v.left.doubtful(); len(doubtful) > 0 {
		names := make([]string, len(doubtful))
		for n, b := range doubtful {
			names[n] = b.unique
		}
		v.note("no se sabe qué fue de estas creaciones, cuya respuesta no llegó; puede quedar algo de: %s", strings.Join(names, ", "))
	}
}

// cleaningTime follows what there is to do: for each intention three questions and a
// removal or two, as slow as the slowest answer was.
func (v *verification) cleaningTime(intentions int) time.Duration {
	_, things := v.left.snapshot()
	v.mu.Lock()
	defer v.mu.Unlock()
	return cleanTime + 3*time.Duration(intentions+len(things))*v.seen.answer
}

// find looks for what no answer has told of, where the profile makes that possible.
func (v *verification) find(ctx context.Context, intentions []begun) error {
	how := v.profile.counting
	if how == nil || how.id == nil {
		return nil
	}
	all := v.newSurvey()
	failed := make([]error, len(intentions))
	v.each(len(intentions), func(n int) {
		b := intentions[n]
		_, ids, err := all.read(ctx, b)
		for _, id := range ids {
			v.left.found(b.as, b.unique, id)
		}
		failed[n] = err
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitDoubtful looks for what may come yet of requests that got no answer, for as long as
// such a request may reasonably work.
func (v *verification) awaitDoubtful(ctx context.Context) {
	if how := v.profile.counting; how == nil || how.id == nil {
		return
	}
	for left := v.late + 2*v.slowestCreation(); left > 0; left -= doubtPause {
		doubtful := v.left.doubtful()
		if len(doubtful) == 0 || v.waits(ctx, min(left, doubtPause)) != nil || v.find(ctx, doubtful) != nil {
			return
		}
	}
}

// removeAll takes away each thing that is still there.
func (v *verification) removeAll(ctx context.Context) {
	_, things := v.left.snapshot()
	failed := make([]error, len(things))
	v.each(len(things), func(n int) {
		i := v.resume(things[n].begun)
		i.values["id"] = things[n].id
		got, err := i.tryRemove(ctx)
		switch {
		case err != nil:
		case v.profile.remove.success.met(got), got.status == http.StatusNotFound, got.status == http.StatusGone:
			v.left.removed(i.as, things[n].id)
			return
		default:
			err = v.profile.remove.success.demand(got)
		}
		failed[n] = err
	})
	all := v.newSurvey()
	for n, thing := range things {
		if failed[n] != nil && v.isThere(ctx, all, thing) {
			v.note("lo creado de prueba con el id %s quedó sin retirar: %v", thing.id, failed[n])
		}
	}
}

// isThere tells whether something is still to be seen; what cannot be seen may be there.
func (v *verification) isThere(ctx context.Context, all *survey, thing created) bool {
	if v.profile.counting == nil {
		return true
	}
	effects, ids, err := all.read(ctx, thing.begun)
	switch {
	case err != nil:
		return true
	case v.profile.counting.id == nil:
		return effects > 0
	}
	for _, id := range ids {
		if id == thing.id {
			return true
		}
	}
	return false
}

// noteWhatIsLeft counts once more after the cleaning: what no id could be found of, or what
// only seemed to be removed, is named.
func (v *verification) noteWhatIsLeft(ctx context.Context, intentions []begun) {
	if v.profile.counting == nil {
		return
	}
	all := v.newSurvey()
	effects := make([]int, len(intentions))
	v.each(len(intentions), func(n int) {
		effects[n], _, _ = all.read(ctx, intentions[n]) // that it cannot be read was told before
	})
	_, told := v.left.snapshot()
	var names []string
	for n, b := range intentions {
		known := slices.ContainsFunc(told, func(c created) bool { return c.unique == b.unique }) || slices.Contains(names, b.unique)
		if effects[n] > 0 && !known {
			names = append(names, b.unique)
		}
	}
	if len(names) > 0 {
		v.note("después de retirar todavía se ve lo creado de prueba como: %s", strings.Join(names, ", "))
	}
}
