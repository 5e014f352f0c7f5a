// lasting.go owns the checks of how long a key answers, and of requests that need none:
// after its expiry, after its work was undone, and on GET, PUT and DELETE. It must not
// know how a server keeps keys.

package main

import (
	"context"
	"fmt"
	"time"
)

// expiryMargin is how much longer than its lifetime a key is waited for.
const expiryMargin = 300 * time.Millisecond

// checkExpiredKey repeats at half of the lifetime, and after it. A server may count the
// lifetime from the last use. Where what a key created is unique, it is taken away first.
func checkExpiredKey(ctx context.Context, v *verification) error {
	i, p := v.intend(), v.profile
	start := v.now()
	first, err := i.create(ctx)
	if err != nil {
		return err
	}
	if err := v.waits(ctx, p.lifetime/2-v.now().Sub(start)); err != nil {
		return err
	}
	if _, err := i.repeat(ctx, p.create, first); err != nil {
		return fmt.Errorf("a la mitad de su vigencia: %w", err)
	}
	if p.remove != nil && i.values["id"] != "" {
		if err := i.removes(ctx); err != nil {
			return err
		}
	}
	before, err := i.effects(ctx)
	if err != nil {
		return err
	}
	if err := v.waits(ctx, p.lifetime+expiryMargin); err != nil {
		return err
	}
	got, err := i.send(ctx, p.create)
	if err != nil {
		return err
	}
	i.learn(got)
	if p.remove == nil && p.secondKey.given() {
		if err := p.secondKey.demand(got); err != nil {
			return err
		}
		return i.expectEffects(ctx, before)
	}
	if err := p.created.demand(got); err != nil {
		return err
	}
	if id := i.idIn(first); id != "" && id == i.idIn(got) {
		return fmt.Errorf("llegó otra vez la respuesta guardada, con el id %s; se esperaba algo nuevo", id)
	}
	return i.expectEffects(ctx, before+1)
}

func checkRetiredReplay(ctx context.Context, v *verification) error {
	i := v.intend()
	first, err := i.create(ctx)
	if err != nil {
		return err
	}
	if err := i.removes(ctx); err != nil {
		return err
	}
	before, err := i.effects(ctx)
	if err != nil {
		return err
	}
	if _, err := i.repeat(ctx, v.profile.create, first); err != nil {
		return err
	}
	return i.expectEffects(ctx, before)
}

// checkGetWithKey: what was answered under a key before must not come again.
func checkGetWithKey(ctx context.Context, v *verification) error {
	i, key := v.intend(), v.key()
	look := func(want int) error {
		effects, err := i.count(ctx, key)
		if err != nil {
			return err
		}
		return i.hasEffects(effects, want)
	}
	if err := look(0); err != nil {
		return err
	}
	if _, err := i.create(ctx); err != nil {
		return err
	}
	return look(1)
}

// two creates two things; what is done to them goes under one key.
func (v *verification) two(ctx context.Context) (both [2]*intent, key string, err error) {
	for n := range both {
		both[n] = v.intend()
		if _, err := both[n].create(ctx); err != nil {
			return both, "", err
		}
	}
	return both, both[0].like(func(other *intent) { other.key = v.key() }).spelled(), nil
}

// checkPutWithKey replaces both. Where effects are counted, the second must be seen.
func checkPutWithKey(ctx context.Context, v *verification) error {
	both, key, err := v.two(ctx)
	if err != nil {
		return err
	}
	for _, i := range both {
		after := i.like(func(other *intent) { other.unique = v.newUnique() })
		after.values["id"], after.values["etag"] = i.values["id"], i.values["etag"]
		got, err := after.sendSpelled(ctx, v.profile.update.request, key)
		if err != nil {
			return err
		}
		if err := v.profile.update.success.demand(got); err != nil {
			return err
		}
		if v.profile.counting != nil && hasPlace(string(v.profile.update.request.body), "unique") {
			effects, err := after.effects(ctx)
			if err != nil {
				return err
			}
			if err := after.hasEffects(effects, 1); err != nil {
				return fmt.Errorf("lo que puso el PUT no se ve: %w", err)
			}
		}
	}
	return nil
}

// checkDeleteWithKey takes both away. The second must be as gone as the first.
func checkDeleteWithKey(ctx context.Context, v *verification) error {
	both, key, err := v.two(ctx)
	if err != nil {
		return err
	}
	var left [2]int
	for n, i := range both {
		if err := i.removes(ctx, key); err != nil {
			return err
		}
		if left[n], err = i.effects(ctx); err != nil {
			return err
		}
	}
	if left[0] != left[1] {
		return fmt.Errorf("del primero quedan %d efectos y del segundo %d; se esperaba lo mismo", left[0], left[1])
	}
	for n, i := range both {
		v.left.counted(i.as, i.unique, left[n])
	}
	return nil
}
