// exchange.go owns one request on its way through the gateway and its answer back: when
// it counts as arrived, what befalls it, that it goes upstream exactly once unless a fault
// says otherwise, and what the gateway answers itself. It must not know revisor's insides,
// what a request means, nor how a fault is chosen.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// What becomes an answer of the gateway's own; see excuseFor.
var (
	// By a fault's doing.
	errAnswerLost   = errors.New("answer lost on purpose")
	errRequestLost  = errors.New("request lost on purpose")
	errAnsweredHere = errors.New("answered by the gateway on purpose")
	errTooLong      = errors.New("body too long to be sent twice")
	// By the upstream's.
	errUpstreamSlow = errors.New("upstream too slow")
	errNotHTTP      = errors.New("upstream's answer is not a final answer")
)

// errStopping ends the exchanges that the process does not wait for any longer.
var errStopping = errors.New("the gateway stops")

// exchange is one request on its way through the gateway, and its answer back.
type exchange struct {
	*gateway
	out     *delivery
	body    *clientBody
	waiting *patience
	id      identity
	met     verdict
	arrived time.Time
	entry   *arrival // in the ledger
	held    []byte   // the request's whole body, when it is to be sent twice
}

// handle passes one request on and its answer back.
func (x *exchange) handle(w http.ResponseWriter, r *http.Request) error {
	client := r.Context()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(client))
	defer cancel(nil)
	x.waiting = newPatience(x.patience, func() { cancel(errUpstreamSlow) })
	defer x.waiting.end()
	if x.stopping != nil {
		defer context.AfterFunc(x.stopping, func() { cancel(errStopping) })()
	}
	x.body = newClientBody(w, r, x.waiting)
	defer x.body.giveBack()
	r.Body = x.body // from here on the error answer's too

	if err := x.receive(r); err != nil {
		return fmt.Errorf("%w: %w", errBodyCut, err)
	}
	// After writeTime the shared edge sends nothing more: no exchange outlives it.
	ctx, done := context.WithTimeoutCause(ctx, writeTime+x.met.delay(), errUpstreamSlow)
	defer done()
	if x.met.before == 0 { // what was delayed arrives late, whether or not its client still waits
		defer context.AfterFunc(client, func() { cancel(context.Cause(client)) })()
	}
	err := x.carryOut(w, r.WithContext(ctx))
	switch {
	case err == nil:
		return nil
	case x.body.failure() != nil:
		x.uncount()
		return fmt.Errorf("%w: %w", errBodyCut, x.body.failure())
	case client.Err() != nil:
		x.log.Info("client left", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath())
		panic(http.ErrAbortHandler)
	case errors.Is(context.Cause(ctx), errStopping):
		x.log.Info("exchange cut by the stop", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath())
		panic(http.ErrAbortHandler)
	case errors.Is(err, errAnswerLost):
		x.log.Info("answer lost on purpose", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath())
		if x.met.fault.cuts() {
			x.sever()
		}
		return err
	case errors.Is(err, errRequestLost), errors.Is(err, errAnsweredHere), errors.Is(err, errTooLong):
		return err
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	}
	x.log.Warn("upstream did not answer", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
	return err
}

// receive enters the request in the ledger and says what befalls it. It is counted now,
// at its arrival, so that of equal requests at once exactly one is the first. A request
// without a key has to be read first: its body is what tells it apart. One with a key is
// not, so that it can stream: see uncount.
func (x *exchange) receive(r *http.Request) error {
	asked := x.simulate && r.Header.Get(simulateHeader) == loseFirst
	if !asked && x.ledger == nil && len(x.plan.faults) == 0 {
		return nil
	}
	target := originForm(r.RequestURI)
	entry := arrival{Method: shown(r.Method), Path: shown(target), Arrived: x.arrived}
	if key, keyed := sentKey(r.Header); keyed {
		x.id = identifyKey(key)
		entry.Key = shown(key)
		entry.Identity = "llave " + entry.Key
	} else {
		entry.Identity = entry.Method + " " + entry.Path
		begin, err := x.body.peek(identityBody + 1)
		if err != nil {
			x.entry = x.ledger.begin(entry)
			return err
		}
		length := r.ContentLength
		if len(begin) <= identityBody { // it is whole, however it was framed
			length = int64(len(begin))
		}
		x.id = identifyRequest(r.Method, target, begin, length)
		entry.Identity += " " + x.id.short()
	}
	x.met = x.plan.arrive(x.id)
	if x.met.spoils() {
		x.log.Info("fault on purpose", "role", "gateway", "fault", x.met.text(), "identity", entry.Identity, "arrival", x.met.number)
	}
	if asked && x.seen.first(x.id) {
		x.met.fault = fault{point: pointLoseFirst}
	}
	entry.Number, entry.Fault = x.met.number, x.met.text()
	x.entry = x.ledger.begin(entry)
	return nil
}

// sentKey is the request's key, as it tells requests apart. An empty field is none.
func sentKey(header http.Header) (key string, keyed bool) {
	lines := header.Values(keyHeader)
	empty := func(line string) bool { return line == "" || line == `""` }
	if !slices.ContainsFunc(lines, func(line string) bool { return !empty(line) }) {
		return "", false
	}
	key, err := parseIdempotencyKey(lines) // k1 and "k1" are one key
	if err != nil {
		key = strings.Join(lines, "\n") // malformed, but the same again
	}
	return key, true
}

// uncount takes the arrival's count back: a request that never came whole uses up no
// fault of the plan.
func (x *exchange) uncount() {
	if x.met.number == 0 { // nothing counts
		return
	}
	x.plan.giveBack(x.id, x.met)
	if x.met.fault.point == pointLoseFirst {
		x.seen.giveBack(x.id, 1)
	}
	x.met = verdict{}
	x.ledger.note(x.entry, func(a *arrival) { a.Number, a.Fault = 0, "" })
}

// shown is text from a stranger as the ledger and the log keep it.
func shown(text string) string { return printable([]byte(text), shownText) }

// carryOut does to the request what befalls it, and forwards it unless it is lost.
func (x *exchange) carryOut(w http.ResponseWriter, r *http.Request) error {
	if x.met.delay() > 0 {
		if err := allowLonger(w, x.met.delay()); err != nil {
			return err
		}
	}
	// Read now, a short request that waits is forwarded although its client leaves
	// meanwhile, and one that is not forwarded is known to have come. A client that waits
	// for "100 Continue" need not send what nobody wants.
	here := x.met.fault.answersHere() && r.Header.Get("Expect") == ""
	if x.met.before > 0 || here {
		if _, err := x.body.peek(identityBody); err != nil {
			return err
		}
		if err := pause(r.Context(), x.met.before); err != nil {
			return err
		}
	}
	switch x.met.fault.point {
	case pointBefore:
		return errRequestLost
	case pointStatus:
		return errAnsweredHere
	case pointDuplicate:
		var err error
		if x.held, err = x.body.peek(heldBody + 1); err != nil {
			return err
		}
		if len(x.held) > heldBody {
			return errTooLong
		}
	}
	return x.forward(w, r)
}

// forward makes the request upstream. With a fault that takes the whole answer it
// returns errAnswerLost. A nil error means that the answer was passed on; an answer
// that breaks off on the way is broken off for the client too (the proxy panics with
// http.ErrAbortHandler), and so is one that a fault cuts.
func (x *exchange) forward(w http.ResponseWriter, r *http.Request) (failed error) {
	interim := &interimFilter{ResponseWriter: w, may: func() bool {
		// HTTP/1.0 knows no interim answers. Before the body is read, net/http may be
		// writing its own 100 right now.
		return r.ProtoAtLeast(1, 1) && !x.met.fault.takesWhole() &&
			(!strings.EqualFold(r.Header.Get("Expect"), "100-continue") || x.body.begun())
	}}
	proxy := x.proxy(func(err error) { failed = err })
	proxy.ModifyResponse = func(resp *http.Response) error { return x.takeBack(w, r, resp) }
	x.ledger.note(x.entry, func(a *arrival) { a.Forwarded = x.time() })
	x.waiting.start()
	proxy.ServeHTTP(interim, r)
	switch {
	case failed != nil:
		return failed
	case x.met.fault.cuts():
		x.sever()
	}
	x.out.finish()
	x.body.linger()
	return nil
}

// takeBack is what happens to an answer of which the head has come, before any of it
// is passed on to w. An error means that none is.
func (x *exchange) takeBack(w http.ResponseWriter, r *http.Request, resp *http.Response) error {
	x.waiting.end()
	if resp.StatusCode < 200 {
		return errNotHTTP
	}
	x.answered(resp.StatusCode)
	lost := x.met.fault.takesWhole()
	if lost {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return fmt.Errorf("read the answer to lose: %w", err)
		}
		x.answered(resp.StatusCode)
		happen(x.received)
	}
	if x.met.fault.point == pointDuplicate {
		holdAnswer(resp)
		x.sendAgain(r)
	}
	if err := pause(r.Context(), x.met.after); err != nil {
		return err
	}
	if lost {
		happen(x.dropped)
		return errAnswerLost
	}
	if _, typed := resp.Header["Content-Type"]; !typed {
		w.Header()["Content-Type"] = nil // or net/http guesses one
	}
	if !x.body.ended() {
		w.Header().Set("Connection", "close")
	}
	if x.met.spoils() {
		w.Header().Set(simulatedHeader, x.met.String())
	}
	x.out.limit, x.out.cut = x.met.fault.delivers(), x.sever
	x.out.length = resp.ContentLength
	if r.Method == http.MethodHead || !bodyHasLength(resp.StatusCode) {
		x.out.length = 0
	}
	return nil
}

// happen calls what somebody set to be called, if somebody did.
func happen(called func()) {
	if called != nil {
		called()
	}
}

// answered notes the upstream's answer.
func (x *exchange) answered(status int) {
	x.ledger.note(x.entry, func(a *arrival) { a.Upstream, a.Answered = status, x.time() })
}

// sever cuts the client's connection, as the fault says, and ends the exchange.
func (x *exchange) sever() {
	x.body.revoke()
	if err := x.out.sever(x.met.fault.reset); err != nil {
		x.log.Info("client left before it was cut off", "role", "gateway", "error", err)
	}
	panic(http.ErrAbortHandler)
}

// end sends what is left of an answer that broke off, and tells the ledger how it ended.
func (x *exchange) end() {
	x.out.flushRest()
	x.ledger.end(x.entry, func(a *arrival) {
		a.Status, a.Bytes, a.Whole, a.Ended = x.out.status, x.out.bytes, x.out.whole, x.time()
	})
}

// excuse is what the gateway answers in the upstream's place.
type excuse struct {
	status     int
	detail     string
	onPurpose  bool   // a fault's doing, which the answer names
	retryAfter string // "" for none
}

// excuseFor is the answer that an error of handle becomes.
func (x *exchange) excuseFor(err error) excuse {
	var crash *panicError
	switch {
	case errors.Is(err, errAnswerLost):
		return excuse{status: http.StatusBadGateway, onPurpose: true,
			detail: "la respuesta del servidor de detrás se perdió en el camino de vuelta"}
	case errors.Is(err, errRequestLost):
		return excuse{status: http.StatusBadGateway, onPurpose: true,
			detail: "la petición se perdió en el camino de ida; el servidor de detrás no la recibió"}
	case errors.Is(err, errAnsweredHere):
		return excuse{status: x.met.fault.status, onPurpose: true, retryAfter: x.met.fault.retryAfter,
			detail: "la pasarela contesta esto a propósito; el servidor de detrás no recibió la petición"}
	case errors.Is(err, errTooLong):
		return excuse{status: http.StatusRequestEntityTooLarge, onPurpose: true,
			detail: fmt.Sprintf("la pasarela solo repite cuerpos de hasta %d bytes, y no reenvió este", heldBody)}
	case errors.Is(err, errUpstreamSlow):
		return excuse{status: http.StatusGatewayTimeout, detail: "el servidor de detrás no respondió a tiempo"}
	case errors.Is(err, errNotHTTP):
		return excuse{status: http.StatusBadGateway, detail: "el servidor de detrás contestó algo que no es una respuesta final de HTTP"}
	case errors.Is(err, errBodyCut):
		return excuse{status: http.StatusBadRequest, detail: "el cuerpo de la petición no llegó entero"}
	case errors.As(err, &crash):
		logFailure(x.log, "internal error", err, "role", "gateway")
		return excuse{status: http.StatusInternalServerError, detail: "algo falló en la pasarela"}
	}
	return excuse{status: http.StatusBadGateway, detail: "el servidor de detrás no dio respuesta: " + whyNoAnswer(err)}
}

// render answers what the gateway has to say itself: about:blank with the four
// members alone, and no language, so that nobody takes it for revisor's.
func (x *exchange) render(w http.ResponseWriter, r *http.Request, err error) {
	said := x.excuseFor(err)
	rep, unencoded := bareProblem(said.status, said.detail)
	if unencoded != nil { // only values of ours are encoded
		panic(unencoded)
	}
	clear(w.Header())
	if said.onPurpose {
		rep = rep.with(simulatedHeader, x.met.String())
	}
	if said.retryAfter != "" {
		rep = rep.with("Retry-After", said.retryAfter)
	}
	gone := x.body.departed() || x.out.left()
	rep.send(w, r)
	x.out.sent(rep, r.Method, gone)
}
