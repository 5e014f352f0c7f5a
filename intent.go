// intent.go owns one intention of a client: what is unique about it, its key, and the
// requests, effects and removals that belong to it. It must not know what is checked.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	// settlePatience is how long an intention is repeated while its original runs, unless
	// creations are slow; settlePause is between two repetitions.
	settlePatience = 10 * time.Second
	settlePause    = 40 * time.Millisecond
)

// intent is something that somebody wants done once.
type intent struct {
	v      *verification
	as     int // the credential
	unique string
	key    string
	base   *url.URL // nil: the server itself
	values map[string]string
}

// intend begins an intention of the first credential.
func (v *verification) intend() *intent {
	i := &intent{v: v, unique: v.newUnique(), key: v.key()}
	i.values = map[string]string{"unique": i.unique}
	v.left.remember(0, i.unique)
	return i
}

// like is another intention that shares what is unique with i, or its key, as the checks
// need it.
func (i *intent) like(change func(*intent)) *intent {
	other := *i
	other.values = map[string]string{"unique": i.unique}
	change(&other)
	other.values["unique"] = other.unique
	i.v.left.remember(other.as, other.unique)
	return &other
}

// call fills a request in, credential included.
func (i *intent) call(t requestTemplate) call {
	base := i.base
	if base == nil {
		base = i.v.profile.base
	}
	c := t.call(base, i.values)
	if i.as < len(i.v.profile.credentials) {
		field := i.v.profile.credentials[i.as]
		c.header.Set(field.header, field.value)
	}
	return c
}

// spelled is the key as the API wants it.
func (i *intent) spelled() string {
	if i.v.profile.spelling == spelledQuoted {
		return quoteKey(i.key)
	}
	return i.key
}

// quoteKey spells a key without quotes and backslashes as a String (RFC 9651 section 3.3.3).
func quoteKey(key string) string { return `"` + key + `"` }

// send makes a request under the intention's key.
func (i *intent) send(ctx context.Context, t requestTemplate) (answer, error) {
	return i.sendSpelled(ctx, t, i.spelled())
}

func (i *intent) sendSpelled(ctx context.Context, t requestTemplate, key string) (answer, error) {
	c := i.call(t)
	c.header.Set(keyHeader, key)
	i.touch()
	start := i.v.now()
	got, err := i.v.attempt(ctx, c)
	if err == nil && i.base != nil {
		if why, yes := gaveUp(got); yes {
			err = fmt.Errorf("el servidor no contesta: %s", why)
		}
	}
	if err != nil {
		i.unanswered(err)
	} else if i.v.profile.created.met(got) {
		i.v.created(i.v.now().Sub(start))
	}
	return got, err
}

// touch says that something is done about the intention.
func (i *intent) touch() { i.v.left.touched(i.as, i.unique) }

// doubt says that nobody knows what became of a request.
func (i *intent) doubt() { i.v.left.doubt(i.as, i.unique) }

// unanswered doubts a request that may have arrived.
func (i *intent) unanswered(err error) {
	if _, unsent := errors.AsType[notMade](err); !unsent && !errors.Is(err, syscall.ECONNREFUSED) {
		i.doubt()
	}
}

// create makes the profile's creation, which must succeed, and learns what it created.
func (i *intent) create(ctx context.Context) (answer, error) {
	return i.succeed(ctx, i.v.profile.create)
}

// repeat makes a request once more, of which first was the answer: it must come again.
func (i *intent) repeat(ctx context.Context, t requestTemplate, first answer) (again answer, err error) {
	if again, err = i.send(ctx, t); err != nil {
		return answer{}, err
	}
	i.learn(again)
	return again, demandReplay(again, first)
}

// succeed makes a creation that must succeed.
func (i *intent) succeed(ctx context.Context, t requestTemplate) (answer, error) {
	got, err := i.send(ctx, t)
	if err != nil {
		return answer{}, err
	}
	if err := i.v.profile.created.demand(got); err != nil {
		return answer{}, err
	}
	if i.learn(got); i.v.profile.id != nil && i.values["id"] == "" {
		return answer{}, fmt.Errorf("llegó %s, sin nada en %q (create.id)", got.gist(), *i.v.profile.id)
	}
	return got, nil
}

// learn takes the id and the entity tag of what an answer says was created.
func (i *intent) learn(got answer) {
	if i.v.profile.created.met(got) {
		i.v.left.sure(i.as, i.unique)
	}
	if etag := got.header.Get("ETag"); etag != "" {
		i.values["etag"] = etag
	}
	if id := i.idIn(got); id != "" {
		i.values["id"] = id
		i.v.left.made(i.as, i.unique, id)
	}
}

// idIn is the id of what an answer says was created; "" when it says none.
func (i *intent) idIn(got answer) string {
	var whole any
	if i.v.profile.id == nil || !i.v.profile.created.met(got) || decodeJSON(got.body, &whole) != nil {
		return ""
	}
	id, _ := textAt(whole, *i.v.profile.id)
	return id
}

// settle repeats a creation until the original no longer runs, and returns its answer.
func (i *intent) settle(ctx context.Context, t requestTemplate) (answer, error) {
	for waited := time.Duration(0); ; waited += settlePause {
		got, err := i.send(ctx, t)
		if err != nil || !i.v.profile.inFlight.met(got) {
			return got, err
		}
		if waited >= i.v.endures() {
			return got, fmt.Errorf("tras %s de espera llegó %s: la llave sigue en curso", spell(waited), got.gist())
		}
		if err := i.v.waits(ctx, settlePause); err != nil {
			return answer{}, err
		}
	}
}

// recovers repeats a creation of which the client does not know what became: it must end
// in a success with one effect, and stay that answer.
func (i *intent) recovers(ctx context.Context, t requestTemplate) error {
	got, err := i.settle(ctx, t)
	if err != nil {
		return fmt.Errorf("al repetir: %w", err)
	}
	if err := i.v.profile.created.demand(got); err != nil {
		return fmt.Errorf("al repetir: %w", err)
	}
	i.learn(got)
	again, err := i.send(ctx, t)
	if err != nil {
		return err
	}
	i.learn(again)
	if err := i.expectEffects(ctx, 1); err != nil {
		return err
	}
	return demandReplay(again, got)
}

// effects counts what was done of this intention, as its credential sees it.
func (i *intent) effects(ctx context.Context) (int, error) {
	if i.v.profile.counting == nil {
		return i.v.left.idsOf(i.as, i.unique), nil
	}
	return i.count(ctx)
}

// count counts what is to be seen. With a key, that goes along.
func (i *intent) count(ctx context.Context, keys ...string) (int, error) {
	got, err := i.look(ctx, keys...)
	if err != nil {
		return 0, err
	}
	effects, _, err := i.v.profile.counting.read(got, i.unique)
	if err != nil {
		return 0, fmt.Errorf("al contar efectos con GET %s: %w", i.question().path, err)
	}
	return effects, nil
}

// question is what shows the effects or, where the profile knows no such place, whether
// anybody answers.
func (i *intent) question() call {
	path := "/"
	if how := i.v.profile.counting; how != nil {
		path = how.path
	}
	c := i.call(requestTemplate{method: "GET", path: path})
	c.base = i.v.profile.base // not by the way on which answers are lost
	return c
}

// look asks the question. With a key, that goes along.
func (i *intent) look(ctx context.Context, keys ...string) (answer, error) {
	c := i.question()
	for _, key := range keys {
		c.header.Set(keyHeader, key)
	}
	return i.v.attempt(ctx, c)
}

// expectEffects counts, and compares.
func (i *intent) expectEffects(ctx context.Context, want int) error {
	got, err := i.effects(ctx)
	if err != nil {
		return err
	}
	return i.hasEffects(got, want)
}

// hasEffects compares what was counted, and keeps what is right.
func (i *intent) hasEffects(got, want int) error {
	if err := demandEffects(got, want); err != nil {
		return err
	}
	i.v.left.counted(i.as, i.unique, got)
	return nil
}

// removes takes away what was created. With a key, that goes along.
func (i *intent) removes(ctx context.Context, keys ...string) error {
	got, err := i.tryRemove(ctx, keys...)
	if err == nil {
		err = i.v.profile.remove.success.demand(got)
	}
	if err != nil {
		c := i.call(i.v.profile.remove.request)
		return fmt.Errorf("al retirar con %s %s: %w", c.method, c.path, err)
	}
	return nil
}

// tryRemove is removes, with any answer.
func (i *intent) tryRemove(ctx context.Context, keys ...string) (answer, error) {
	c := i.call(i.v.profile.remove.request)
	for _, key := range keys {
		c.header.Set(keyHeader, key)
	}
	i.touch()
	got, err := i.v.attempt(ctx, c)
	if err == nil && i.v.profile.remove.success.met(got) {
		i.v.left.removed(i.as, i.values["id"])
	}
	return got, err
}

// demandReplay is the error of what is not the original's answer once more: its status and
// its body to the byte. Its header is another matter.
func demandReplay(got, original answer) error {
	switch {
	case got.status != original.status:
		return unexpected(got, fmt.Sprintf("el %d de la primera vez", original.status))
	case !bytes.Equal(got.body, original.body):
		return fmt.Errorf("la repetición trae el cuerpo %q; el original era %q", got.body, original.body)
	}
	return nil
}

// tally counts answers by what they say.
func tally(answers []answer) string {
	var kinds []string
	counts := make(map[string]int)
	for _, got := range answers {
		kind := got.gist()
		if counts[kind] == 0 {
			kinds = append(kinds, kind)
		}
		counts[kind]++
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d × %s", counts[kind], kind)
	}
	return strings.Join(kinds, ", ")
}
