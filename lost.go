// lost.go owns the checks of answers that never arrive: the client hangs up, or the way
// back is cut at some point. It must not know how a gateway cuts.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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
		if err := v.hangsUp(ctx, i, slow, after); err != nil {
			return err
		}
		if err := i.recovers(ctx, slow); err != nil {
			return fmt.Errorf("colgó a los %s; %w", spell(after), err)
		}
	}
	return nil
}

// hangsUp sends a creation and closes the connection after a while.
func (v *verification) hangsUp(ctx context.Context, i *intent, t requestTemplate, after time.Duration) error {
	ctx, err := v.going(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	i.touch()
	if err := hangUp(ctx, v.wait, after, i.call(t), i.spelled()); err != nil {
		i.unanswered(err)
		return fmt.Errorf("no se pudo mandar la petición: %s", whyNoAnswer(err))
	}
	i.doubt()
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

// gatewaySays begins what verify's own gateway says when the server gave it no answer.
const gatewaySays = "el servidor de detrás "

// gaveUp tells why the gateway in front of the server has no answer of it to pass on.
func gaveUp(got answer) (why string, yes bool) {
	var problem any
	if got.status != http.StatusBadGateway && got.status != http.StatusGatewayTimeout || got.problemType() != "about:blank" || decodeJSON(got.body, &problem) != nil {
		return "", false
	}
	detail, _ := textAt(problem, "/detail")
	if why, yes = strings.CutPrefix(detail, gatewaySays); yes {
		why = strings.TrimPrefix(why, "no dio respuesta: ")
	}
	return why, yes
}
