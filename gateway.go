// gateway.go owns the role gateway: a proxy that passes everything on, makes exactly
// one request upstream of each that arrives, and spoils exchanges when its plan or
// X-Simular ask for it. It stands outside whatever it is put in front of: it must not
// know revisor's insides, nor what a request means.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

const (
	// upstreamPatience is how long the upstream may take over its next step: the
	// next piece of the body, or the head of its answer. Longer than revisor's
	// longest wait for an original (30 s).
	upstreamPatience = 40 * time.Second
	// dialTime bounds making a connection: whoever has not accepted in this time is
	// not there.
	dialTime = 5 * time.Second
	// expectTime is how long a client's Expect: 100-continue holds back the body
	// when the upstream says nothing (RFC 9110 section 10.1.1).
	expectTime = time.Second
)

// What becomes an answer of the gateway's own, in render.
var (
	errAnswerLost   = errors.New("answer lost on purpose")
	errNotForwarded = errors.New("not forwarded on purpose")
	errTooLong      = errors.New("body too long to be sent twice")
	errUpstreamSlow = errors.New("upstream too slow")
	errNotHTTP      = errors.New("upstream's answer is not a final answer")
)

// gatewayConfig is what a gateway is made of.
type gatewayConfig struct {
	target   *url.URL // scheme and host alone count: see validateBase
	simulate bool     // obey X-Simular
	plan     *faultPlan
	ledger   *ledger          // nil: none
	now      func() time.Time // for the ledger's times
	log      *slog.Logger
	patience time.Duration // 0: upstreamPatience
	// received and dropped, unless nil, are called in the moment in which an answer to
	// lose was read to its end, and in which it is thrown away.
	received, dropped func()
}

// gateway is the role's state: its way upstream, and what asked for X-Simular.
type gateway struct {
	gatewayConfig
	transport *http.Transport
	seen      *seenRequests
}

// newGateway returns the gateway's handler.
func newGateway(cfg gatewayConfig) http.Handler {
	if cfg.patience == 0 {
		cfg.patience = upstreamPatience
	}
	if cfg.plan == nil {
		cfg.plan = newFaultPlan(nil, 0)
	}
	transport := oneRequestTransport((&net.Dialer{Timeout: dialTime}).DialContext, maxAnswerHeader)
	// A fresh connection each all the same, but without saying "Connection: close":
	// the upstream would say it back, and Go then forgets what else its Connection
	// names, which must not be passed on.
	transport.DisableKeepAlives, transport.MaxIdleConnsPerHost = false, -1
	transport.ExpectContinueTimeout = expectTime
	return &gateway{gatewayConfig: cfg, transport: transport, seen: newSeenRequests(seenLimit)}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{gateway: g, out: &delivery{ResponseWriter: w, limit: -1}, arrived: g.time()}
	defer x.end()
	(&edge{role: "gateway", log: g.log, handle: x.handle, render: x.render}).ServeHTTP(x.out, r)
}

// time is now, for the ledger.
func (g *gateway) time() time.Time {
	if g.ledger == nil {
		return time.Time{}
	}
	return g.now().UTC()
}

// exchange is one request on its way through the gateway, and its answer back.
type exchange struct {
	*gateway
	out     *delivery
	body    *clientBody
	waiting *patience
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
		return fmt.Errorf("%w: %w", errBodyCut, x.body.failure())
	case client.Err() != nil:
		x.log.Info("client left", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath())
		panic(http.ErrAbortHandler)
	case errors.Is(err, errAnswerLost):
		x.log.Info("answer lost on purpose", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath())
		if x.met.fault.cuts() {
			x.sever()
		}
		return err
	case errors.Is(err, errNotForwarded), errors.Is(err, errTooLong):
		return err
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	}
	x.log.Warn("upstream did not answer", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
	return err
}

// receive enters the request in the ledger and says what befalls it. It is counted now,
// at its arrival, so that of equal requests at once exactly one is the first. A request
// without a key has to be read first: its body is what tells it apart.
func (x *exchange) receive(r *http.Request) error {
	asked := x.simulate && r.Header.Get(simulateHeader) == loseFirst
	if !asked && x.ledger == nil && len(x.plan.faults) == 0 {
		return nil
	}
	entry := arrival{Method: shown(r.Method), Path: shown(r.RequestURI), Arrived: x.arrived}
	var id identity
	if lines := r.Header.Values(keyHeader); len(lines) > 0 {
		key, err := parseIdempotencyKey(lines) // k1 and "k1" are one key
		if err != nil {
			key = strings.Join(lines, "\n") // malformed, but the same again
		}
		id = identifyKey(key)
		entry.Key = shown(key)
		entry.Identity = "llave " + entry.Key
	} else {
		entry.Identity = entry.Method + " " + entry.Path
		begin, err := x.body.peek(identityBody)
		if err != nil {
			x.entry = x.ledger.begin(entry)
			return err
		}
		id = identifyRequest(r.Method, r.RequestURI, begin, r.ContentLength)
		entry.Identity += " " + id.short()
	}
	x.met = x.plan.arrive(id)
	if x.met.spoils() {
		x.log.Info("fault on purpose", "role", "gateway", "fault", x.met.String(), "identity", entry.Identity, "arrival", x.met.number)
	}
	if asked && x.seen.first(id) {
		x.met.fault = fault{point: loseFirst}
	}
	entry.Number, entry.Fault = x.met.number, x.met.String()
	x.entry = x.ledger.begin(entry)
	return nil
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
	if x.met.before > 0 {
		// Read now, a short request is forwarded although its client leaves meanwhile.
		if _, err := x.body.peek(identityBody); err != nil {
			return err
		}
		if err := pause(r.Context(), x.met.before); err != nil {
			return err
		}
	}
	switch x.met.fault.point {
	case pointBefore, pointStatus:
		return errNotForwarded
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
	interim := &interimFilter{
		ResponseWriter: w,
		expects:        r.ProtoAtLeast(1, 1) && strings.EqualFold(r.Header.Get("Expect"), "100-continue"),
		silent:         x.met.fault.takesWhole() || !r.ProtoAtLeast(1, 1), // HTTP/1.0 knows no interim answers
	}
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
	x.out.whole = true
	x.body.linger()
	return nil
}

// proxy is what forwards one request; failed is told why no answer is passed on.
func (x *exchange) proxy(failed func(error)) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     x.transport,
		FlushInterval: -1, // what has come is passed on, also when the rest never does
		ErrorLog:      slog.NewLogLogger(x.log.With("role", "gateway").Handler(), slog.LevelWarn),
		Rewrite:       x.rewrite,
		ErrorHandler:  func(_ http.ResponseWriter, _ *http.Request, err error) { failed(err) },
	}
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
	if err := severConnection(x.out.ResponseWriter, x.out.status != 0, x.met.fault.reset); err != nil {
		x.log.Info("client left before it was cut off", "role", "gateway", "error", err)
	}
	panic(http.ErrAbortHandler)
}

// end tells the ledger how it ended.
func (x *exchange) end() {
	x.ledger.end(x.entry, func(a *arrival) {
		a.Status, a.Bytes, a.Whole, a.Ended = x.out.status, x.out.bytes, x.out.whole, x.time()
	})
}

// rewrite addresses the request upstream and gives back what ReverseProxy took out
// of it: the path and query byte for byte, the forwarding fields, the trailers.
func (g *gateway) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out.URL
	out.Scheme, out.Host, out.User = g.target.Scheme, g.target.Host, nil
	out.RawQuery, out.ForceQuery = pr.In.URL.RawQuery, pr.In.URL.ForceQuery
	// The raw path travels as Opaque, which Go sends as it is. Beginning with two
	// slashes it would mean a host; then Go's own spelling has to do, which differs
	// for bytes alone that RFC 3986 has escaped in a path.
	if path, _, _ := strings.Cut(pr.In.RequestURI, "?"); strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
		out.Opaque = path
	}
	hop := connectionOptions(pr.In.Header)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if lines := pr.In.Header[name]; lines != nil && !hop[name] {
			pr.Out.Header[name] = lines
		}
	}
	// No protocol is switched through this gateway.
	pr.Out.Header.Del("Connection")
	pr.Out.Header.Del("Upgrade")
	// The server fills this very map when the body has been read.
	pr.Out.Trailer = pr.In.Trailer
}

// connectionOptions returns the canonical names that Connection lists (RFC 9110
// section 7.6.1).
func connectionOptions(header http.Header) map[string]bool {
	options := make(map[string]bool)
	for _, line := range header["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			options[http.CanonicalHeaderKey(strings.TrimSpace(option))] = true
		}
	}
	return options
}

// render answers what the gateway has to say itself: about:blank with the four
// members alone, and no language, so that nobody takes it for revisor's.
func (x *exchange) render(w http.ResponseWriter, r *http.Request, err error) {
	status, detail, simulated := http.StatusBadGateway, "el servidor de detrás no dio respuesta: "+whyNoAnswer(err), ""
	var crash *panicError
	switch {
	case errors.Is(err, errAnswerLost):
		detail, simulated = "la respuesta del servidor de detrás se perdió en el camino de vuelta", x.met.String()
	case errors.Is(err, errNotForwarded) && x.met.fault.point == pointStatus:
		status, detail, simulated = x.met.fault.status, "la pasarela contesta esto a propósito; el servidor de detrás no recibió la petición", x.met.String()
	case errors.Is(err, errNotForwarded):
		detail, simulated = "la petición se perdió en el camino de ida; el servidor de detrás no la recibió", x.met.String()
	case errors.Is(err, errTooLong):
		status, simulated = http.StatusRequestEntityTooLarge, x.met.String()
		detail = fmt.Sprintf("la pasarela solo repite cuerpos de hasta %d bytes, y no reenvió este", heldBody)
	case errors.Is(err, errUpstreamSlow):
		status, detail = http.StatusGatewayTimeout, "el servidor de detrás no respondió a tiempo"
	case errors.Is(err, errNotHTTP):
		detail = "el servidor de detrás contestó algo que no es una respuesta final de HTTP"
	case errors.Is(err, errBodyCut):
		status, detail = http.StatusBadRequest, "el cuerpo de la petición no llegó entero"
	case errors.As(err, &crash):
		status, detail = http.StatusInternalServerError, "algo falló en la pasarela"
		logFailure(x.log, "internal error", err, "role", "gateway")
	}
	rep, unencoded := bareProblem(status, detail)
	if unencoded != nil { // only values of ours are encoded
		panic(unencoded)
	}
	clear(w.Header())
	if simulated != "" {
		rep = rep.with(simulatedHeader, simulated)
	}
	if x.met.fault.retryAfter != "" && errors.Is(err, errNotForwarded) {
		rep = rep.with("Retry-After", x.met.fault.retryAfter)
	}
	rep.send(w, r)
	x.out.status, x.out.whole = rep.status, true
	if r.Method != http.MethodHead {
		x.out.bytes = int64(len(rep.body))
	}
}
