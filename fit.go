// fit.go owns whether a profile fits a server at all: one count, one creation and one
// removal, before anything is judged, so that a mistake in the profile is told as one. It
// must not know what a check asks.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

const (
	errNobodyThere notMade = "el servidor no contesta"
	errMisfit      notMade = "el perfil no encaja con el servidor"
)

// misfit is why nothing can be judged.
type misfit struct {
	reason notMade
	told   string // once, with what came and which member said otherwise; "" when reason is all
}

// fits finds why nothing can be judged; nil when all can.
func (v *verification) fits(ctx context.Context) *misfit {
	err := v.triesCounting(ctx)
	if err == nil {
		err = v.triesCreating(ctx)
	}
	if err == nil {
		return nil
	}
	if why, stopped := errors.AsType[notMade](err); stopped {
		return &misfit{reason: why}
	}
	if silence, ok := errors.AsType[*noAnswer](err); ok {
		return &misfit{errNobodyThere, fmt.Sprintf("el servidor %s no contesta: %v", v.profile.base.Redacted(), silence)}
	}
	return &misfit{errMisfit, fmt.Sprintf("%s: %v", errMisfit, err)}
}

// triesCounting asks, as each credential, for the effects of what nobody has done.
func (v *verification) triesCounting(ctx context.Context) error {
	for as := range max(1, len(v.profile.credentials)) {
		i := v.resume(begun{as, v.newUnique()})
		got, err := i.look(ctx)
		if err != nil || v.profile.counting == nil {
			return err
		}
		if err := i.countsIn(got, 0, "de lo que nadie ha creado"); err != nil {
			return err
		}
	}
	return nil
}

// countsIn is the error of an answer that does not show so many effects.
func (i *intent) countsIn(got answer, want int, of string) error {
	path := i.question().path
	how := i.v.profile.counting
	effects, ids, err := how.read(got, i.unique)
	switch {
	case err != nil && refusesCredential(got):
		return fmt.Errorf("effects: con GET %s %w; ¿es buena la credencial (credentials[%d])?", path, err, i.as)
	case err != nil:
		return fmt.Errorf("effects: con GET %s %w", path, err)
	case effects != want:
		return fmt.Errorf("effects (path, list, member, count): con GET %s se cuentan %d efectos %s; se esperaba %d", path, effects, of, want)
	case how.id != nil && len(ids) != effects:
		return fmt.Errorf("effects.id dice %q y ahí no hay nada en lo que lista GET %s", *how.id, path)
	}
	return nil
}

// triesCreating creates one thing under a fresh key, sees it and takes it away.
func (v *verification) triesCreating(ctx context.Context) error {
	i, p := v.intend(), v.profile
	got, err := i.send(ctx, p.create)
	if err != nil {
		return err
	}
	if !p.created.met(got) {
		if got.status < 400 {
			i.doubt()
		}
		hint := ""
		if refusesCredential(got) {
			hint = "; ¿es buena la credencial (credentials[0])?"
		}
		return fmt.Errorf("create.status dice %s y llegó %s%s", p.created, got.gist(), hint)
	}
	if i.learn(got); p.id != nil && i.values["id"] == "" {
		return fmt.Errorf("create.id dice %q y ahí no hay nada: llegó %s", *p.id, got.gist())
	}
	if p.counting != nil {
		seen, err := i.look(ctx)
		if err != nil {
			return err
		}
		if err := i.countsIn(seen, 1, "de lo que se creó"); err != nil {
			return err
		}
	}
	if p.remove == nil || p.id == nil {
		return nil
	}
	gone, err := i.tryRemove(ctx)
	if err == nil && !p.remove.success.met(gone) {
		err = fmt.Errorf("remove.status dice %s y llegó %s", p.remove.success, gone.gist())
	}
	return err
}

// refusesCredential tells whether an answer is about who asks.
func refusesCredential(got answer) bool {
	return got.status == http.StatusUnauthorized || got.status == http.StatusForbidden
}
