// gateway.go owns the role gateway: a proxy that passes everything on, makes exactly
// one request upstream of each that arrives, and loses an answer when X-Simular asks
// for it. It stands outside whatever it is put in front of: it must not know revisor's
// insides, nor what a request means.

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

// errAnswerLost and errUpstreamSlow become answers in render; errNotHTTP is an
// upstream that answered something which cannot be passed on.
var (
	errAnswerLost   = errors.New("answer lost on purpose")
	errUpstreamSlow = errors.New("upstream too slow")
	errNotHTTP      = errors.New("upstream's answer is not a final answer")
)

// gatewayConfig is what a gateway is made of.
type gatewayConfig struct {
	target   *url.URL // scheme and host alone count: see validateBase
	simulate bool     // obey X-Simular
	log      *slog.Logger
	patience time.Duration // 0: upstreamPatience
	// received and dropped, when set, are told of an answer to lose: that it was read to
	// its end, and that it is thrown away.
	received, dropped func()
}

// gateway is the role's state: its way upstream, and what it has seen.
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
	transport := oneRequestTransport((&net.Dialer{Timeout: dialTime}).DialContext, maxAnswerHeader)
	// A fresh connection each all the same, but without saying "Connection: close":
	// the upstream would say it back, and Go then forgets what else its Connection
	// names, which must not be passed on.
	transport.DisableKeepAlives, transport.MaxIdleConnsPerHost = false, -1
	transport.ExpectContinueTimeout = expectTime
	g := &gateway{gatewayConfig: cfg, transport: transport, seen: newSeenRequests(seenLimit)}
	return &edge{role: "gateway", log: cfg.log, handle: g.handle, render: g.render}
}

// handle passes one request on and its answer back.
func (g *gateway) handle(w http.ResponseWriter, r *http.Request) error {
	// After writeTime the shared edge sends nothing more: no exchange outlives it.
	ctx, done := context.WithTimeoutCause(r.Context(), writeTime, errUpstreamSlow)
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	waiting := newPatience(g.patience, func() { cancel(errUpstreamSlow) })
	defer waiting.end()
	body := newClientBody(w, r, waiting)
	defer body.giveBack()
	client := r.Context()
	r.Body = body // from here on the error answer's too

	lose, err := g.meetsFault(r, body)
	if err != nil {
		return fmt.Errorf("%w: %w", errBodyCut, err)
	}
	waiting.start()
	err = g.forward(w, r.WithContext(ctx), body, waiting, lose)
	switch {
	case err == nil:
		return nil
	case body.failure() != nil:
		return fmt.Errorf("%w: %w", errBodyCut, body.failure())
	case client.Err() != nil:
		g.log.Info("client left", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath())
		panic(http.ErrAbortHandler)
	case errors.Is(err, errAnswerLost):
		if g.dropped != nil {
			g.dropped()
		}
		g.log.Info("answer lost on purpose", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath())
		return err
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	}
	g.log.Warn("upstream did not answer", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
	return err
}

// meetsFault tells whether this request's answer is to be lost. The mark is set now,
// at its arrival, so that of equal requests at once exactly one loses its answer. A
// request without a key has to be read first: its body is what tells it apart.
func (g *gateway) meetsFault(r *http.Request, body *clientBody) (bool, error) {
	if !g.simulate || r.Header.Get(simulateHeader) != loseFirst {
		return false, nil
	}
	if lines := r.Header.Values(keyHeader); len(lines) > 0 {
		key, err := parseIdempotencyKey(lines) // k1 and "k1" are one key
		if err != nil {
			key = strings.Join(lines, "\n") // malformed, but the same again
		}
		return g.seen.first(identifyKey(key)), nil
	}
	begin, err := body.peek(identityBody)
	if err != nil {
		return false, err
	}
	return g.seen.first(identifyRequest(r.Method, r.RequestURI, begin, r.ContentLength)), nil
}

// forward makes the one request upstream. With lose it takes the whole answer and
// returns errAnswerLost. A nil error means that the answer was passed on; an answer
// that breaks off on the way is broken off for the client too (the proxy panics with
// http.ErrAbortHandler).
func (g *gateway) forward(w http.ResponseWriter, r *http.Request, body *clientBody, waiting *patience, lose bool) (failed error) {
	interim := &interimFilter{
		ResponseWriter: w,
		expects:        r.ProtoAtLeast(1, 1) && strings.EqualFold(r.Header.Get("Expect"), "100-continue"),
		silent:         lose || !r.ProtoAtLeast(1, 1), // HTTP/1.0 knows no interim answers
	}
	proxy := httputil.ReverseProxy{
		Transport:     g.transport,
		FlushInterval: -1, // what has come is passed on, also when the rest never does
		ErrorLog:      slog.NewLogLogger(g.log.With("role", "gateway").Handler(), slog.LevelWarn),
		Rewrite:       g.rewrite,
		ErrorHandler:  func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
		ModifyResponse: func(resp *http.Response) error {
			waiting.end()
			if resp.StatusCode < 200 {
				return errNotHTTP
			}
			if lose {
				return g.takeWhole(resp)
			}
			if _, typed := resp.Header["Content-Type"]; !typed {
				w.Header()["Content-Type"] = nil // or net/http guesses one
			}
			if !body.ended() {
				w.Header().Set("Connection", "close")
			}
			return nil
		},
	}
	proxy.ServeHTTP(interim, r)
	if failed == nil {
		body.linger()
	}
	return failed
}

// takeWhole reads an answer to its end and returns errAnswerLost, or why there was
// no whole answer to lose.
func (g *gateway) takeWhole(resp *http.Response) error {
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("read the answer to lose: %w", err)
	}
	if g.received != nil {
		g.received()
	}
	return errAnswerLost
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
func (g *gateway) render(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := http.StatusBadGateway, "el servidor de detrás no dio respuesta: "+whyNoAnswer(err)
	var crash *panicError
	switch {
	case errors.Is(err, errAnswerLost):
		detail = "la respuesta del servidor de detrás se perdió en el camino de vuelta"
	case errors.Is(err, errUpstreamSlow):
		status, detail = http.StatusGatewayTimeout, "el servidor de detrás no respondió a tiempo"
	case errors.Is(err, errNotHTTP):
		detail = "el servidor de detrás contestó algo que no es una respuesta final de HTTP"
	case errors.Is(err, errBodyCut):
		status, detail = http.StatusBadRequest, "el cuerpo de la petición no llegó entero"
	case errors.As(err, &crash):
		status, detail = http.StatusInternalServerError, "algo falló en la pasarela"
		logFailure(g.log, "internal error", err, "role", "gateway")
	}
	rep, err := bareProblem(status, detail)
	if err != nil { // only values of ours are encoded
		panic(err)
	}
	clear(w.Header())
	rep.send(w, r)
}

// interimFilter passes on the interim answers (RFC 9110 section 15.2) that this
// client may be sent.
type interimFilter struct {
	http.ResponseWriter
	expects   bool // the client sent Expect: 100-continue
	continued bool // and was told to continue
	silent    bool // none but that 100
}

func (f *interimFilter) WriteHeader(status int) {
	switch {
	case status == http.StatusContinue && f.expects:
		f.continued = true
	case status < 200 && (f.silent || status == http.StatusContinue || f.expects && !f.continued):
		// Before it has continued, net/http may be writing its own 100 right now.
		return
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *interimFilter) Unwrap() http.ResponseWriter { return f.ResponseWriter }
