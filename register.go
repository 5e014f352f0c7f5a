// register.go owns the tool register: one intention, one key, a few attempts that may
// lose their answer, and an end that says what is known. It speaks HTTP like any
// client; it must not know revisor's insides, nor who listens.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// registerAttempts is the command's default: of 2 s each, with the waits between
	// them, the worst case is 11.5 s, still short of a person's patience.
	registerAttempts = 4
	// registerAnswer bounds what is read of an answer: many times a service's size.
	registerAnswer = 64 << 10
)

// errNotRegistered says that the registration is not confirmed. The person has been
// told everything already.
var errNotRegistered = errors.New("not registered")

// registrar is how a client registers: where, as whom, how patiently, and whom it tells.
// It serves many registrations at once when out does.
type registrar struct {
	base           *url.URL
	token          string
	simulate       string // the X-Simular to send; "" sends none
	noKey          bool
	keyPerAttempt  bool // the deliberate defect: each attempt is another intention
	attempts       int
	attemptTimeout time.Duration
	budget         *budget // that its registrations share; nil: none

	newKey    func() string
	random    func() float64 // in [0, 1)
	wait      func(ctx context.Context, d time.Duration) error
	now       func() time.Time
	out       io.Writer
	transport *http.Transport
}

// registration is one intention to register a service.
type registration struct {
	name, url string
	limitMS   *int64 // nil: not sent
	key       string // "": drawn by prepare, where one is sent

	fields http.Header // these two are prepare's
	body   []byte
}

// validate finds wrong arguments.
func (r *registrar) validate() error {
	if err := validateBase(r.base); err != nil {
		return fmt.Errorf("--base: %w", err)
	}
	if err := validateFieldText(r.token); err != nil {
		return fmt.Errorf("--token: %w", err)
	}
	if err := validateFieldText(r.simulate); err != nil {
		return fmt.Errorf("--simulate: %w", err)
	}
	switch {
	case r.attempts < 1:
		return errors.New("--attempts: at least one is needed")
	case r.attemptTimeout <= 0:
		return errors.New("--attempt-timeout: must be more than nothing")
	case r.noKey && r.keyPerAttempt:
		return errors.New("--break key-per-attempt: with --no-key there is no key to change")
	}
	return nil
}

// accepts finds what is wrong with an intention.
func (r *registrar) accepts(s registration) error {
	switch {
	case !utf8.ValidString(s.name) || !utf8.ValidString(s.url):
		return errors.New("<name> and <url> must be UTF-8 text")
	case r.noKey && s.key != "":
		return errors.New("--key and --no-key exclude each other")
	case s.key == "":
		return nil
	}
	if err := validateKey(s.key); err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	return nil
}

// register makes a registration and tells it line by line. Nil means that a 2xx came;
// anything else has been told and is errNotRegistered. validate and accepts must have
// passed.
func (r *registrar) register(ctx context.Context, s registration) error {
	if err := r.prepare(&s); err != nil {
		return err
	}
	e := r.pursue(ctx, &s)
	if e.cause != endedWell {
		r.giveUp(s, e)
		return errNotRegistered
	}
	r.succeed(e)
	return nil
}

// endCause is why the attempts of a registration came to an end.
type endCause uint8

const (
	goesOn           endCause = iota // they have not
	endedWell                        // a 2xx came
	endedFinal                       // the last answer will be the same next time
	endedSpent                       // all attempts were made
	endedTooLong                     // the server asks for a longer wait than is obeyed
	endedOverBudget                  // too much has failed, here or elsewhere
	endedInterrupted                 // the person, or the process, wants no more
)

// ending is how the attempts of a registration came to an end.
type ending struct {
	cause    endCause
	attempts int
	asked    int64  // seconds that the server asks to wait, with endedTooLong
	got      answer // of the last one
	err      error  // why got is not a whole answer, if it is not
	// uncertain: some attempt may have had its effect without our seeing it.
	uncertain bool
}

// why tells a person why the attempts ended without a success.
func (e ending) why() string {
	switch e.cause {
	case endedFinal:
		return fmt.Sprintf("un %d no mejora repitiendo lo mismo", e.got.status)
	case endedSpent:
		return fmt.Sprintf("se acabaron los intentos (%d)", e.attempts)
	case endedTooLong:
		return fmt.Sprintf("el servidor pide esperar %d s, y más de %s no se espera", e.asked, spell(longestObeyedRetryAfter))
	case endedOverBudget:
		return "el presupuesto de reintentos del lote se agotó"
	case endedInterrupted:
		return "interrumpido"
	}
	return ""
}

// refused tells whether the last answer says that the request itself is wrong.
func (e ending) refused() bool {
	return e.err == nil && e.got.status >= 400 && e.got.status < 500 && e.got.status != http.StatusTooManyRequests && !e.got.inFlight()
}

// understood tells whether the last answer says that the key of its request was honoured:
// that is what Idempotency-Replayed proves, whatever its value. A 2xx without it may come
// from a server that ignores keys, or from somebody on the way who is no server of ours.
func (e ending) understood() bool {
	replayed := e.got.header.Get(replayedHeader)
	return replayed == "true" || replayed == "false"
}

// pursue makes attempts until one succeeds or there is a reason to make no more.
// prepare must have passed.
func (r *registrar) pursue(ctx context.Context, s *registration) (e ending) {
	failed := 0
	for e.cause == goesOn {
		e.attempts++
		if r.keyPerAttempt && e.attempts > 1 {
			s.key = r.newKey()
			s.fields.Set(keyHeader, keyField(s.key))
		}
		e.got, e.err = attempt(ctx, r.transport, r.attemptTimeout, registerAnswer, call{
			method: http.MethodPost, base: r.base, path: "/servicios", header: s.fields, body: s.body,
		})
		if errors.Is(e.err, errAnswerTooLong) {
			e.err = nil // the status is what counts
		}
		if e.err != nil && ctx.Err() != nil {
			e.uncertain, e.cause = true, endedInterrupted
			return e
		}
		fmt.Fprintf(r.out, "intento %d de %d: %s\n", e.attempts, r.attempts, attemptLine(e.got, e.err, r.attemptTimeout))
		if e.err != nil || e.got.status >= 500 || e.got.inFlight() {
			e.uncertain = true
		}
		done := e.err == nil && e.got.status >= 200 && e.got.status < 300
		if done || e.refused() {
			r.budget.settle(failed)
		} else {
			failed++
			r.budget.fail()
		}
		switch {
		case done:
			e.cause = endedWell
		case e.err == nil && !mayRepeat(e.got):
			e.cause = endedFinal
		case e.attempts == r.attempts:
			e.cause = endedSpent
		default:
			e.cause, e.asked = r.waitAfter(ctx, e.attempts, e.got.header)
		}
	}
	return e
}

// prepare settles once what every attempt sends: the same key, the same bytes.
func (r *registrar) prepare(s *registration) error {
	body, err := encodeJSON(struct {
		Nombre string `json:"nombre"`
		URL    string `json:"url"`
		Limite *int64 `json:"limite_ms,omitempty"`
	}{s.name, s.url, s.limitMS})
	if err != nil {
		return err
	}
	s.body = body
	s.fields = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + r.token}}
	if r.simulate != "" {
		s.fields.Set(simulateHeader, r.simulate)
	}
	if r.noKey {
		return nil
	}
	if s.key == "" {
		s.key = r.newKey()
	}
	s.fields.Set(keyHeader, keyField(s.key))
	return nil
}

// mayRepeat tells whether the same request may get a better answer later. A 429 does
// not count: it is a 4xx, and a person who registers one service can wait.
func mayRepeat(got answer) bool {
	return retryableStatus(got.status) || got.inFlight()
}

// attemptLine tells what came of one attempt, which had so much time.
func attemptLine(got answer, err error, timeout time.Duration) string {
	switch {
	case err == nil:
		return got.line()
	case errors.Is(err, context.DeadlineExceeded):
		return "sin respuesta completa en " + spell(timeout)
	case got.status != 0:
		return fmt.Sprintf("llegó un %d sin terminar: %s", got.status, whyNoAnswer(err))
	}
	return "sin respuesta: " + whyNoAnswer(err)
}

// waitAfter waits between attempts n and n+1. It returns why there is no next one,
// goesOn when there is; and the seconds that the server asks for.
func (r *registrar) waitAfter(ctx context.Context, n int, header http.Header) (cause endCause, seconds int64) {
	if r.budget.spent() {
		return endedOverBudget, 0
	}
	seconds, asked := parseRetryAfter(header.Values("Retry-After"), r.now())
	wait, ok := nextWait(n, seconds, asked, r.random)
	if !ok {
		return endedTooLong, seconds
	}
	why := "al azar, hasta " + spell(backoffCeiling(n))
	if asked {
		why = "lo pide el servidor"
	}
	fmt.Fprintf(r.out, "espera de %s (%s)\n", spell(wait), why)
	if err := r.wait(ctx, wait); err != nil {
		return endedInterrupted, seconds
	}
	if r.budget.spent() { // by others, meanwhile
		return endedOverBudget, seconds
	}
	return goesOn, seconds
}

// succeed tells a success, and whether a key that was sent is known to have protected it.
func (r *registrar) succeed(e ending) {
	fmt.Fprintf(r.out, "registrado en el intento %d", e.attempts)
	if location := e.got.header.Get("Location"); location != "" {
		fmt.Fprintf(r.out, ": %s", printable([]byte(location), shownBody))
	}
	if e.got.header.Get(replayedHeader) == "true" {
		fmt.Fprint(r.out, "; es la respuesta guardada de la petición original, que se hizo una sola vez")
	}
	if !r.noKey && !e.understood() {
		fmt.Fprintf(r.out, "; nada prueba que el servidor entienda la llave: a la respuesta le falta %s", replayedHeader)
	}
	fmt.Fprintln(r.out)
}

// giveUp tells the end: why it stopped, and what is known now.
func (r *registrar) giveUp(s registration, e ending) {
	refused := e.refused()
	verdict, known := "no confirmado", "repetir más tarde con la misma llave es seguro, no registra dos veces: --key "+shellQuote(s.key)
	switch {
	case r.keyPerAttempt:
		known = "cada intento llevó otra llave, y nadie sabe cuántas veces quedó registrado"
	case r.noKey && e.uncertain:
		known = "sin llave nadie sabe si quedó registrado, y repetir puede registrarlo otra vez"
	case r.noKey && refused:
		verdict, known = "no registrado", "el servidor rechazó la petición y no guardó nada"
	case r.noKey:
		known = "no llegó ninguna respuesta que lo confirme"
	case refused && e.uncertain:
		known = "hay que corregir lo que indica; " + known
	case refused && e.got.problemType() == problemBase+"llave-reutilizada":
		verdict, known = "no registrado", "esa llave ya es de otra petición y hace falta otra: "+shellQuote(s.key)
	case refused:
		verdict, known = "no registrado", "el servidor rechazó la petición y no guardó nada; corregida, puede llevar la misma llave: --key "+shellQuote(s.key)
	}
	fmt.Fprintf(r.out, "%s: %s; %s\n", verdict, e.why(), known)
}

// shellQuote writes text so that a shell reads it back as one word.
func shellQuote(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,") == "" && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
