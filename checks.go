// checks.go owns what verify checks: the seven sentences of the promise, each with a
// stable name and the conversation that proves it. A check knows the HTTP contract
// and nothing of revisor's insides; none depends on what another one left behind.

package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// inFlightBurst is how many equal requests are sent at once: enough that some meet
// while the original runs, also where nothing slows it down.
const inFlightBurst = 10

// registeredLocation is the Location of a registered service.
var registeredLocation = regexp.MustCompile(`^/servicios/[0-9]+$`)

// check is one sentence of the promise.
type check struct {
	id       string // stable: people and tests look for it
	sentence string
	run      func(ctx context.Context, v *verification) error
}

// promiseChecks returns the checks in the order in which they run and are counted.
func promiseChecks() []check {
	return []check{
		{"replay", "misma llave y mismo cuerpo: la misma respuesta y un solo efecto", checkReplay},
		{"changed-body", "misma llave y otro cuerpo: 422 y ningún efecto", checkChangedBody},
		{"in-flight", "misma llave mientras corre el original: 409, y después su 201", checkInFlight},
		{"failure-frees", "una petición que falla deja libre la llave: corregida, 201", checkFailureFrees},
		{"two-keys", "dos llaves y el mismo cuerpo: 409 por el nombre y un solo efecto", checkTwoKeys},
		{"other-credential", "la misma llave con otra credencial: su propio efecto", checkOtherCredential},
		{"retired-replay", "repetir después de retirar: la respuesta guardada y ningún efecto", checkRetiredReplay},
	}
}

func checkReplay(ctx context.Context, v *verification) error {
	name, key := v.freshName(), v.newKey()
	first, err := v.register(ctx, v.token, key, name)
	if err != nil {
		return err
	}
	if err := isOriginal(first); err != nil {
		return err
	}
	second, err := v.post(ctx, v.token, key, serviceBody(name))
	if err != nil {
		return err
	}
	if err := isReplay(second, first); err != nil {
		return err
	}
	return v.expectEffects(ctx, v.token, name, 1)
}

func checkChangedBody(ctx context.Context, v *verification) error {
	name, other, key := v.freshName(), v.freshName(), v.newKey()
	if _, err := v.register(ctx, v.token, key, name); err != nil {
		return err
	}
	changed, err := v.post(ctx, v.token, key, serviceBody(other))
	if err != nil {
		return err
	}
	if err := isProblem(changed, http.StatusUnprocessableEntity, "llave-reutilizada"); err != nil {
		return err
	}
	if err := v.expectEffects(ctx, v.token, other, 0); err != nil {
		return err
	}
	return v.expectEffects(ctx, v.token, name, 1)
}

// checkInFlight sends a burst. One answer must be the original's; each of the others
// either says that the original is running or, come late enough, is its replay.
func checkInFlight(ctx context.Context, v *verification) error {
	name, key := v.freshName(), v.newKey()
	answers, err := v.burst(ctx, key, serviceBody(name))
	if err != nil {
		return err
	}
	var original answer
	originals := 0
	for _, got := range answers {
		if isOriginal(got) == nil {
			original, originals = got, originals+1
		}
	}
	if originals != 1 {
		return fmt.Errorf("de %d peticiones a la vez llegaron %d respuestas originales (%s); se esperaba una",
			inFlightBurst, originals, tally(answers))
	}
	for _, got := range answers {
		if isOriginal(got) != nil && !got.inFlight() && isReplay(got, original) != nil {
			return unexpected(got, "409 llave-en-curso, o la repetición exacta del original")
		}
		if got.inFlight() && got.status != http.StatusConflict {
			return unexpected(got, "409 llave-en-curso")
		}
	}
	later, err := v.post(ctx, v.token, key, serviceBody(name))
	if err != nil {
		return err
	}
	if err := isReplay(later, original); err != nil {
		return err
	}
	return v.expectEffects(ctx, v.token, name, 1)
}

func checkFailureFrees(ctx context.Context, v *verification) error {
	name, key := v.freshName(), v.newKey()
	wrong, err := v.post(ctx, v.token, key, wrongServiceBody(name))
	if err != nil {
		return err
	}
	if err := isProblem(wrong, http.StatusUnprocessableEntity, "datos-invalidos"); err != nil {
		return err
	}
	if _, err := v.register(ctx, v.token, key, name); err != nil {
		return fmt.Errorf("corregida, con la misma llave: %w", err)
	}
	return v.expectEffects(ctx, v.token, name, 1)
}

func checkTwoKeys(ctx context.Context, v *verification) error {
	name := v.freshName()
	if _, err := v.register(ctx, v.token, v.newKey(), name); err != nil {
		return err
	}
	second, err := v.post(ctx, v.token, v.newKey(), serviceBody(name))
	if err != nil {
		return err
	}
	if err := isProblem(second, http.StatusConflict, "nombre-repetido"); err != nil {
		return err
	}
	return v.expectEffects(ctx, v.token, name, 1)
}

// checkOtherCredential sends the very same request as two credentials. They belong to
// different teams: in one team the name rule would refuse the second.
func checkOtherCredential(ctx context.Context, v *verification) error {
	name, key := v.freshName(), v.newKey()
	mine, err := v.register(ctx, v.token, key, name)
	if err != nil {
		return err
	}
	theirs, err := v.register(ctx, v.otherToken, key, name)
	if err != nil {
		return fmt.Errorf("con la otra credencial, que debe ser de otro equipo: %w", err)
	}
	location := theirs.header.Get("Location")
	if location == mine.header.Get("Location") {
		return fmt.Errorf("la otra credencial recibió el mismo servicio, %s; se esperaba uno propio", location)
	}
	services, err := v.list(ctx, v.otherToken)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(services, func(s listed) bool { return s.path() == location && s.Nombre == name }) {
		return fmt.Errorf("%s no está en la lista de la otra credencial; se esperaba allí", location)
	}
	return nil
}

func checkRetiredReplay(ctx context.Context, v *verification) error {
	name, key := v.freshName(), v.newKey()
	first, err := v.register(ctx, v.token, key, name)
	if err != nil {
		return err
	}
	retired, err := v.ask(ctx, http.MethodDelete, v.token, first.header.Get("Location"))
	if err != nil {
		return err
	}
	if retired.status != http.StatusNoContent {
		return fmt.Errorf("al retirar el servicio: %w", unexpected(retired, "204"))
	}
	again, err := v.post(ctx, v.token, key, serviceBody(name))
	if err != nil {
		return err
	}
	if err := isReplay(again, first); err != nil {
		return err
	}
	return v.expectEffects(ctx, v.token, name, 0)
}

// burst sends inFlightBurst equal requests, all at the same moment.
func (v *verification) burst(ctx context.Context, key string, body []byte) ([]answer, error) {
	answers, errs := make([]answer, inFlightBurst), make([]error, inFlightBurst)
	var burst sync.WaitGroup
	start := make(chan struct{})
	for i := range inFlightBurst {
		burst.Go(func() {
			<-start
			answers[i], errs[i] = v.post(ctx, v.token, key, body)
		})
	}
	close(start)
	burst.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("en una ráfaga de %d: %w", inFlightBurst, err)
		}
	}
	return answers, nil
}

// register makes a service that is expected to be made.
func (v *verification) register(ctx context.Context, token, key, name string) (answer, error) {
	got, err := v.post(ctx, token, key, serviceBody(name))
	if err != nil {
		return answer{}, err
	}
	if got.status != http.StatusCreated || !registeredLocation.MatchString(got.header.Get("Location")) {
		return answer{}, unexpected(got, "201 con la dirección del servicio en Location")
	}
	return got, nil
}

func (v *verification) expectEffects(ctx context.Context, token, name string, want int) error {
	made, err := v.effects(ctx, token, name)
	if err != nil {
		return err
	}
	if made != want {
		return fmt.Errorf("con ese nombre hay %d en la lista; se esperaban %d", made, want)
	}
	return nil
}

// isOriginal tells that got is a 201 from a server that understood the key: one that
// ignores keys cannot say so.
func isOriginal(got answer) error {
	if got.status != http.StatusCreated || got.header.Get(replayedHeader) != "false" {
		return unexpected(got, "201 con "+replayedHeader+": false")
	}
	return nil
}

// isReplay tells that got is the original's answer once more, to the byte.
func isReplay(got, original answer) error {
	if got.status != original.status || got.header.Get(replayedHeader) != "true" {
		return unexpected(got, fmt.Sprintf("%d con %s: true", original.status, replayedHeader))
	}
	for _, name := range []string{"Location", "ETag", "Content-Type"} {
		if got.header.Get(name) != original.header.Get(name) {
			return fmt.Errorf("la repetición trae %s: %q; la original traía %q", name, got.header.Get(name), original.header.Get(name))
		}
	}
	if string(got.body) != string(original.body) {
		return fmt.Errorf("la repetición trae el cuerpo %q; el original era %q", got.body, original.body)
	}
	return nil
}

func isProblem(got answer, status int, slug string) error {
	if got.status != status || got.problemType() != problemBase+slug {
		return unexpected(got, fmt.Sprintf("%d %s", status, slug))
	}
	return nil
}

func unexpected(got answer, want string) error {
	return fmt.Errorf("llegó %s; se esperaba %s", got.brief(), want)
}

// tally counts answers by status and problem.
func tally(answers []answer) string {
	var kinds []string
	counts := make(map[string]int)
	for _, got := range answers {
		kind := got.brief()
		if got.status < 300 {
			kind = fmt.Sprintf("%d con %s: %q", got.status, replayedHeader, got.header.Get(replayedHeader))
		}
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
