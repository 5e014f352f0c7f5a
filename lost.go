// lost.go owns the checks of answers that never arrive: the client hangs up, or the way
// back is cut at some point. It must not know how a gateway cuts.

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// hangUps is how long after it has written its request a client hangs up.
var hangUps = []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond}

// checkHangUp: the client that hangs up is the very one that the key is for. Work that
// ends with its client may leave an effect without a record of it.
func checkHangUp(ctx context.Context, v *verification) error {
	slow := v.slowest()
	for _, after := range hangUps {
		i := v.intend()
		if err := hangUp(ctx, v.wait, after, i.call(slow), i.spelled()); err != nil {
			return fmt.Errorf("no se pudo mandar la petición: %s", whyNoAnswer(err))
		}
		if err := i.recovers(ctx, slow); err != nil {
			return fmt.Errorf("colgó a los %s; %w", spell(after), err)
		}
	}
	return nil
}

// loss is a point at which an answer is lost, and the faults that lose it there.
type loss struct {
	id, sentence string
	faults       []string
}

// losses are the points, in the order in which a request and its answer pass them.
var losses = []loss{
	{"lost-request", "la petición se pierde antes de llegar y se repite: un solo efecto", []string{"before"}},
	{"lost-answer", "la respuesta entera se pierde y se repite: un solo efecto y la respuesta guardada", []string{"after"}},
	{"cut-before-head", "la conexión se corta antes de la respuesta y se repite: un solo efecto y la respuesta guardada",
		[]string{"cut-before-headers:close", "cut-before-headers:reset"}},
	{"cut-after-head", "la conexión se corta tras las cabeceras y se repite: un solo efecto y la respuesta guardada",
		[]string{"cut-after-headers:close", "cut-after-headers:reset"}},
	{"cut-body", "la conexión se corta a la mitad del cuerpo y se repite: un solo efecto y la respuesta guardada",
		[]string{"cut-after=1:close", "cut-after=1:reset"}},
}

// check creates through a gateway that loses the first answer, and repeats through it.
func (l loss) check(ctx context.Context, v *verification) error {
	for _, fault := range l.faults {
		if err := v.loses(ctx, fault); err != nil {
			return fmt.Errorf("pérdida %s: %w", fault, err)
		}
	}
	return nil
}

func (v *verification) loses(ctx context.Context, fault string) error {
	base, end, err := v.lossy(v.profile.base, fault)
	if err != nil {
		return err
	}
	defer end()
	i := v.intend()
	i.base = base
	got, err := i.send(ctx, v.profile.create)
	if err == nil && v.profile.created.met(got) && len(got.body) > 1 {
		return errors.New("la respuesta llegó entera; la pasarela tenía que perderla")
	}
	return i.recovers(ctx, v.profile.create)
}
