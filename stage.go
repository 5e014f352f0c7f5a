// stage.go owns the servers that a tool plays on, all on free ports of loopback: for a case
// of the experiment a revisor on a throw-away database, a lab for it to check and a gateway
// in front of it; for a check of verify a gateway alone. It must not know what is played.

package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// stageKeyTTL is the lifetime of a key there: longer than any case.
	stageKeyTTL = time.Hour
	// stageLabBytes and stageLabRequests let the lab say 200 to each check of a case.
	stageLabBytes    = 1 << 10
	stageLabRequests = 16
)

// openScene starts the servers of a case. They are the demo's, without its pretended
// delays; service 1 is at the lab.
func (p *process) openScene(seen *observer, ignoresKeys bool) (*scene, error) {
	broken := defects{}
	if ignoresKeys {
		broken[ignoreKey] = true
	}
	return p.openSceneWith(seen, broken)
}

// openSceneWith is openScene with an origin that is broken in any way. The origin listens
// twice: behind the observer for the gateway, and without it for the judge.
func (p *process) openSceneWith(seen *observer, broken defects) (*scene, error) {
	log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	listeners := map[string]net.Listener{}
	abandon := func(err error) (*scene, error) {
		for _, l := range listeners {
			l.Close()
		}
		return nil, err
	}
	for _, role := range []string{"revisor", "judge", "lab", "gateway"} {
		l, err := listen(role, "127.0.0.1:0")
		if err != nil {
			return abandon(err)
		}
		listeners[role] = l
	}
	role, release, err := p.startRevisor(serveOptions{
		demo: true, allowLab: true,
		revisorSettings: revisorSettings{keyTTL: stageKeyTTL, scheme: schemeOrdered, broken: broken},
	}, listeners, log)
	if err != nil {
		return abandon(err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	handlers := map[string]http.Handler{
		"revisor": seen.around(role.handler),
		"judge":   role.handler,
		"lab":     newLab(labConfig{limits: labLimits{bytes: stageLabBytes, requests: stageLabRequests}, log: log, now: p.now}),
		"gateway": newGateway(gatewayConfig{
			target: urlOf(listeners, "revisor"), simulate: true, log: log,
			received: func() { seen.saw(gatewayHasAll) }, dropped: func() { seen.saw(gatewayDrops) },
		}),
	}
	var sites []site
	for name, l := range listeners {
		s := site{role: name, listener: l, handler: handlers[name]}
		if name == "lab" {
			s.base = ctx
		}
		sites = append(sites, s)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, log, sites, role.drain) }()
	return &scene{
		gateway: urlOf(listeners, "gateway"), judge: urlOf(listeners, "judge"), token: practiceWriter,
		close: func() error {
			cancel()
			err := <-served
			release()
			return err
		},
	}, nil
}

// urlOf is the base address of a role.
func urlOf(listeners map[string]net.Listener, role string) *url.URL {
	return &url.URL{Scheme: "http", Host: addressOf(listeners, role)}
}

// openLossyGateway runs a gateway on a free port of loopback, in front of target, that
// meets the first arrival of each request with a fault.
func (p *process) openLossyGateway(target *url.URL, text string) (base *url.URL, end func(), err error) {
	f, err := parseFault(text)
	if err != nil {
		return nil, nil, err
	}
	listener, err := listen("gateway", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	s := site{role: "gateway", listener: listener, handler: newGateway(gatewayConfig{
		target: target, plan: newFaultPlan([]fault{f}, 0), now: p.now, log: log,
	})}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, log, []site{s}, func(context.Context) {}) }()
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}, func() { cancel(); <-served }, nil
}
