// stage.go owns the servers that a tool plays on, all on free ports of loopback: for a case
// of the experiment a revisor on a throw-away database, a lab for it to check and a gateway
// in front of it; for a check of verify a gateway alone. It must not know what is played.

package main

import (
	"context"
	"log/slog"
	"net"
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
	log := p.stageLog()
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
	sites := []site{
		{role: "revisor", listener: listeners["revisor"], handler: seen.around(role.handler)},
		{role: "judge", listener: listeners["judge"], handler: role.handler},
		{role: "lab", listener: listeners["lab"], base: p.ctx, handler: newLab(labConfig{
			limits: labLimits{bytes: stageLabBytes, requests: stageLabRequests}, log: log, now: p.now,
		})},
		{role: "gateway", listener: listeners["gateway"], handler: newGateway(gatewayConfig{
			target: urlOf(listeners["revisor"]), simulate: true, log: log,
			received: func() { seen.saw(gatewayHasAll) }, dropped: func() { seen.saw(gatewayDrops) },
		})},
	}
	end := serveInside(p.ctx, log, sites, role.drain)
	return &scene{
		gateway: urlOf(listeners["gateway"]), judge: urlOf(listeners["judge"]), token: practiceWriter,
		close: func() error {
			err := end()
			release()
			return err
		},
	}, nil
}

// stageLog tells what goes wrong with the servers, and nothing else: standard output is
// the tool's.
func (p *process) stageLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openLossyGateway runs a gateway on a free port of loopback, in front of target, that
// meets the first arrival of each request with a fault. What it does to exchanges it does
// not log: that is the tool's to tell. base is where it listens. It lives until end is
// called, also when the process is told to stop: requests are under way through it.
func (p *process) openLossyGateway(target *url.URL, text string) (base *url.URL, end func(), err error) {
	f, err := parseFault(text)
	if err != nil {
		return nil, nil, err
	}
	listener, err := listen("gateway", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	log := p.stageLog()
	sites := []site{{role: "gateway", listener: listener, handler: newGateway(gatewayConfig{
		target: target, plan: newFaultPlan([]fault{f}, 0), now: p.now, log: slog.New(slog.DiscardHandler),
	})}}
	stop := serveInside(context.WithoutCancel(p.ctx), log, sites, func(context.Context) {})
	return urlOf(listener), func() {
		if err := stop(); err != nil {
			log.Error("a gateway that loses answers did not run to its end", "fault", text, "error", err)
		}
	}, nil
}
