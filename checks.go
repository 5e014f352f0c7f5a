// checks.go owns what verify checks: the sentences of the promise, each with a stable id,
// where it stands, and what a profile must say so that it can be tested. A check knows
// what a profile says and no API; none depends on what another one left behind. Each
// compares what its own sentence is about: the header fields of a replay, replay alone.

package main

import (
	"context"
	"errors"
	"fmt"
)

// check is one sentence of the promise.
type check struct {
	id       string // stable: people and tests look for it
	sentence string
	source   string // of the sentence: a section of the draft, or a policy that a server may have
	lacks    string // what the profile does not say; "" when the check can be made
	last     bool   // it looks back at what the others did
	run      func(ctx context.Context, v *verification) error
}

// Where sentences stand. The draft is draft-ietf-httpapi-idempotency-key-header-07.
const (
	draftSyntax     = "borrador 07, 2.1: el valor es una cadena, y una petición lleva una sola llave"
	draftUnique     = "borrador 07, 2.2 y 2.7: una llave no sirve para otra petición (422)"
	draftExpiry     = "borrador 07, 2.3: las llaves pueden vencer"
	draftRetry      = "borrador 07, 2.6: al que repite se le da el resultado de la primera vez"
	draftConcurrent = "borrador 07, 2.6 y 2.7: repetida antes de que termine el original, conflicto (409)"
	draftComposite  = "borrador 07, 5: la llave se busca junto con quien la manda"
	draftValidate   = "borrador 07, 5: la llave se valida antes de procesar la petición"
	draftPurpose    = "borrador 07, 1: quien no recibió respuesta puede repetir sin riesgo"
	policyFailure   = "política del servidor: qué pasa con la llave de una petición que falla"
	policySecondKey = "borrador 07, 2.2: otra llave es otra petición; qué pasa entonces lo dice la política del servidor"
	policyRoute     = "política del servidor: si la llave vale en una ruta o en todas"
	policyRetired   = "política del servidor: la llave promete la respuesta, no el estado"
	safeMethods     = "RFC 9110, 9.2.2, y borrador 07, 1: estos métodos ya son idempotentes y no necesitan llave"
	lacksRemove     = "el perfil no dice cómo se retira lo creado (remove, y el id: create.id)"
	lacksMismatch   = "el perfil no dice con qué se rechaza otra petición con la misma llave (expect.mismatch)"
	lacksMalformed  = "el perfil no dice con qué se rechaza una llave mal formada (expect.malformed)"
	lacksInFlight   = "el perfil no dice qué recibe quien repite mientras corre el original (expect.in_flight)"
	lacksCounting   = "el perfil no dice dónde se ven los efectos (effects)"
	lacksSecond     = "el perfil no trae una segunda credencial (credentials)"
)

// promiseChecks returns the checks in the order in which they are told and counted.
func promiseChecks(p *profile) []check {
	unless := func(known bool, lacks string) string {
		if known {
			return ""
		}
		return lacks
	}
	removes := p.remove != nil && p.id != nil
	failure := "una petición que falla deja libre la llave: corregida, se hace"
	if p.invalid != nil && p.invalid.records {
		failure = "una petición que falla queda grabada: repetida, la misma respuesta y ningún efecto"
	}
	checks := []check{
		{"replay", "misma llave y mismo cuerpo: la misma respuesta, con sus cabeceras, y un solo efecto", draftRetry, "", false, checkReplay},
		{"changed-body", "misma llave y otro cuerpo: se rechaza, no hace nada, y el original se puede repetir", draftUnique,
			unless(p.mismatch.given(), lacksMismatch), false, checkChangedBody},
		{"in-flight", "misma llave mientras corre el original: se rechaza o espera, y un solo efecto", draftConcurrent,
			unless(p.inFlight.given(), lacksInFlight), false, checkInFlight},
		{"concurrent-body", "misma llave y otro cuerpo mientras corre el original: se rechaza por el cuerpo, y un solo efecto", draftUnique,
			unless(p.mismatch.given(), lacksMismatch), false, checkConcurrentBody},
		{"failure-frees", failure, policyFailure,
			unless(p.invalid != nil, "el perfil no trae una petición que se rechace por sus datos (invalid)"), false, checkFailureFrees},
		{"two-keys", "dos llaves y el mismo cuerpo: dos peticiones distintas", policySecondKey, "", false, checkTwoKeys},
		{"other-credential", "la misma llave con otra credencial: su propio efecto", draftComposite,
			unless(p.hasSecond(), lacksSecond), false, checkOtherCredential},
		{"other-route", "la misma llave en otra ruta: la respuesta no es la de la primera", policyRoute,
			unless(p.other != nil && (p.other.own || p.mismatch.given()), "el perfil no trae otra ruta con llave (other_route)"), false, checkOtherRoute},
		{"quoted-key", "la llave con comillas y sin ellas es la misma", draftSyntax,
			unless(p.spelling == spelledBoth, "el perfil no dice que sean la misma (key.spelling: both)"), false, checkQuotedKey},
		{"near-keys", "llaves que se distinguen en una mayúscula o en lo último son otras llaves: cada una, su efecto", draftSyntax, "", false, checkNearKeys},
	}
	for _, kind := range malformedKinds(p) {
		lacks := unless(p.malformed.given(), lacksMalformed)
		if kind.lacks != "" {
			lacks = kind.lacks
		}
		checks = append(checks, check{kind.id, kind.sentence, kind.source, lacks, false, kind.check})
	}
	checks = append(checks, check{"hang-up", "el cliente cuelga a la mitad y repite: un solo efecto y la respuesta guardada", draftPurpose,
		unless(p.inFlight.given(), lacksInFlight), false, checkHangUp})
	for _, loss := range losses {
		checks = append(checks, check{loss.id, loss.sentence, draftPurpose, "", false, loss.check})
	}
	return append(checks,
		check{"expired-key", "la misma llave cuando ya venció: una petición nueva", draftExpiry,
			unless(p.lifetime > 0, "el perfil no trae una vigencia que se pueda esperar (key.lifetime)"), false, checkExpiredKey},
		check{"retired-replay", "repetir después de retirar: la respuesta guardada y ningún efecto", policyRetired, unless(removes, lacksRemove), false, checkRetiredReplay},
		check{"get-with-key", "una llave no cambia un GET: se ve lo que hay ahora", safeMethods, unless(p.counting != nil, lacksCounting), false, checkGetWithKey},
		check{"put-with-key", "una llave no cambia un PUT: cada uno se hace", safeMethods,
			unless(p.update != nil && p.id != nil, "el perfil no dice cómo se reemplaza lo creado (update, y el id: create.id)"), false, checkPutWithKey},
		check{"delete-with-key", "una llave no cambia un DELETE: cada uno se hace", safeMethods,
			unless(removes && p.remove.request.method == "DELETE", "el perfil no retira lo creado con un DELETE (remove, y el id: create.id)"), false, checkDeleteWithKey},
		check{"late-effects", "contado otra vez al final, nada se hizo después de su respuesta", draftRetry,
			unless(p.counting != nil, lacksCounting), true, checkLateEffects},
	)
}

func checkReplay(ctx context.Context, v *verification) error {
	i, rule := v.intend(), v.profile.replay
	first, err := i.create(ctx)
	if err != nil {
		return err
	}
	again, err := i.repeat(ctx, v.profile.create, first)
	if err != nil {
		return err
	}
	for _, name := range rule.headers {
		if got, want := again.header.Get(name), first.header.Get(name); got != want {
			return fmt.Errorf("la repetición trae %s: %q; la original traía %q", name, got, want)
		}
	}
	if got := first.header.Get(rule.marker); rule.marker != "" && got != rule.first {
		return fmt.Errorf("la primera respuesta trae %s: %q; se esperaba %q", rule.marker, got, rule.first)
	}
	if got := again.header.Get(rule.marker); rule.marker != "" && got != rule.again {
		return fmt.Errorf("la repetición trae %s: %q; se esperaba %q", rule.marker, got, rule.again)
	}
	return i.expectEffects(ctx, 1)
}

// changedFrom is another request under the same key as i: the one that the profile has,
// or the creation of something else.
func (v *verification) changedFrom(i *intent) (*intent, requestTemplate) {
	if v.profile.changed != nil {
		return i, *v.profile.changed
	}
	return i.like(func(other *intent) { other.unique = v.newUnique() }), v.profile.create
}

func checkChangedBody(ctx context.Context, v *verification) error {
	i := v.intend()
	first, err := i.create(ctx)
	if err != nil {
		return err
	}
	other, changed := v.changedFrom(i)
	got, err := other.send(ctx, changed)
	if err != nil {
		return err
	}
	other.learn(got)
	if err := v.profile.mismatch.demand(got); err != nil {
		return err
	}
	if other != i {
		effects, err := other.effects(ctx)
		if err != nil {
			return err
		}
		if err := other.hasEffects(effects, 0); err != nil {
			return fmt.Errorf("de lo rechazado hay %w", err)
		}
	}
	if _, err := i.repeat(ctx, v.profile.create, first); err != nil {
		return fmt.Errorf("al repetir el original después: %w", err)
	}
	return i.expectEffects(ctx, 1)
}

func checkFailureFrees(ctx context.Context, v *verification) error {
	i, invalid := v.intend(), v.profile.invalid
	failed, err := i.send(ctx, invalid.request)
	if err != nil {
		return err
	}
	i.learn(failed)
	if err := invalid.refused.demand(failed); err != nil {
		return err
	}
	if !invalid.records {
		if _, err := i.create(ctx); err != nil {
			return fmt.Errorf("corregida, con la misma llave: %w", err)
		}
		return i.expectEffects(ctx, 1)
	}
	if _, err := i.repeat(ctx, invalid.request, failed); err != nil {
		return err
	}
	if v.profile.mismatch.given() { // computed anew, the same refusal could come of no record
		corrected, err := i.send(ctx, v.profile.create)
		if err != nil {
			return err
		}
		i.learn(corrected)
		if err := v.profile.mismatch.demand(corrected); err != nil {
			return fmt.Errorf("corregida, con la misma llave: %w", err)
		}
	}
	return i.expectEffects(ctx, 0)
}

// checkTwoKeys: what becomes of the second is the server's rule about what it creates.
func checkTwoKeys(ctx context.Context, v *verification) error {
	i := v.intend()
	if _, err := i.create(ctx); err != nil {
		return err
	}
	second := i.like(func(other *intent) { other.key = v.key() })
	if !v.profile.secondKey.given() {
		if _, err := second.create(ctx); err != nil {
			return fmt.Errorf("con la segunda llave: %w", err)
		}
		return i.expectEffects(ctx, 2)
	}
	got, err := second.send(ctx, v.profile.create)
	if err != nil {
		return err
	}
	second.learn(got)
	if err := v.profile.secondKey.demand(got); err != nil {
		return fmt.Errorf("con la segunda llave: %w", err)
	}
	return i.expectEffects(ctx, 1)
}

// checkOtherCredential sends the very same request as two credentials. What each of them
// sees may be its own or the same: what the second sees must grow by one.
func checkOtherCredential(ctx context.Context, v *verification) error {
	mine := v.intend()
	if _, err := mine.create(ctx); err != nil {
		return err
	}
	theirs := mine.like(func(other *intent) { other.as = 1 })
	before, err := theirs.effects(ctx)
	if err != nil {
		return err
	}
	got, err := theirs.send(ctx, v.profile.create)
	if err != nil {
		return err
	}
	if err := v.profile.created.demand(got); err != nil {
		return fmt.Errorf("con la otra credencial, que debe ser de alguien más: %w", err)
	}
	if id := theirs.idIn(got); id != "" && id == mine.values["id"] {
		return fmt.Errorf("la otra credencial recibió lo mismo, con el id %s; se esperaba algo propio", id)
	}
	theirs.learn(got)
	return theirs.expectEffects(ctx, before+1)
}

func checkOtherRoute(ctx context.Context, v *verification) error {
	i, other := v.intend(), v.profile.other
	first, err := i.create(ctx)
	if err != nil {
		return err
	}
	got, err := i.send(ctx, other.request)
	if err != nil {
		return err
	}
	wanted := v.profile.mismatch
	if other.own {
		wanted = other.success
	}
	if err := wanted.demand(got); err != nil {
		return fmt.Errorf("en %s: %w", i.call(other.request).path, err)
	}
	if demandReplay(got, first) == nil {
		return errors.New("en la otra ruta llegó la respuesta de la primera")
	}
	if _, err := i.repeat(ctx, v.profile.create, first); err != nil {
		return fmt.Errorf("al repetir el original después: %w", err)
	}
	if other.own { // what it does may be counted too, or not
		return nil
	}
	return i.expectEffects(ctx, 1)
}
