// gateway.go owns the role gateway: what it is made of, its way upstream, and how a
// request is passed on byte for byte; exchange.go carries each one out. It stands outside
// whatever it is put in front of: it must not know revisor's insides, what a request
// means, nor what is done to it on the way.

package main

import (
	"context"
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

// gatewayConfig is what a gateway is made of.
type gatewayConfig struct {
	target   *url.URL // scheme and host alone count: see validateBase
	simulate bool     // obey X-Simular
	plan     *faultPlan
	ledger   *ledger          // nil: none
	now      func() time.Time // for the ledger's times
	log      *slog.Logger
	patience time.Duration // 0: upstreamPatience
	// stopping, unless nil, ends when no exchange is waited for any longer.
	stopping context.Context
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
	x := &exchange{gateway: g, out: newDelivery(w, r.Context()), arrived: g.time()}
	g.ledger.enter()
	defer g.ledger.leave()
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

// proxy is what forwards one request; failed is told why no answer is passed on.
func (g *gateway) proxy(failed func(error)) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     g.transport,
		FlushInterval: -1, // what has come is passed on, also when the rest never does
		ErrorLog:      slog.NewLogLogger(g.log.With("role", "gateway").Handler(), slog.LevelWarn),
		Rewrite:       g.rewrite,
		ErrorHandler:  func(_ http.ResponseWriter, _ *http.Request, err error) { failed(err) },
	}
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
	if path, _, _ := strings.Cut(originForm(pr.In.RequestURI), "?"); strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
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

// originForm is a request target without the scheme and host that the absolute form has
// (RFC 9112 section 3.2), byte for byte.
func originForm(target string) string {
	scheme, rest, absolute := strings.Cut(target, "://")
	if !absolute || strings.ContainsAny(scheme, "/?") {
		return target
	}
	path := strings.IndexAny(rest, "/?")
	switch {
	case path < 0:
		return "/"
	case rest[path] == '?':
		return "/" + rest[path:]
	}
	return rest[path:]
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
