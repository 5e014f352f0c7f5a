// serve.go owns how servers run: taking an address, the limits of every connection, and
// the end of the process, in which requests and background work may finish. It must not
// know what is served.

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// headerTime bounds the arrival of a request's header section; bodyTime in http.go
	// that of its body.
	headerTime = 10 * time.Second
	// idleTime is how long a kept-alive connection may wait for its next request.
	idleTime = 120 * time.Second
	// writeTime bounds a whole exchange: the longest wait for an original (30 s),
	// the longest piece of work (30 s), and time to read the answer.
	writeTime = 90 * time.Second
	// maxHeaderBytes is far above what a client with a 255-character key needs.
	maxHeaderBytes = 32 << 10
	// drainTime is how long a stopping process lets running work finish.
	drainTime = 10 * time.Second
)

// site is one server with its listener: what runs where.
type site struct {
	role     string
	listener net.Listener
	handler  http.Handler
	// base, when set, ends with the process: for handlers that only pretend to work
	// and must not delay a stop.
	base context.Context
}

// listen takes an address. The error, for a person, says which role wanted it.
func listen(role, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("el rol %s no puede escuchar en %s: ya hay alguien ahí (¿otro revisor en marcha?)", role, address)
	case err != nil:
		return nil, fmt.Errorf("el rol %s no puede escuchar en %s: %w", role, address, err)
	}
	return listener, nil
}

// serve runs all sites until ctx ends or one of them fails; then it stops accepting
// and lets requests finish until drainTime has passed. drain, which ends the work in
// the background, runs beside them; its context ends at the same time.
func serve(ctx context.Context, log *slog.Logger, sites []site, drain func(ctx context.Context)) error {
	group, failing := errgroup.WithContext(ctx)
	servers := make([]*http.Server, len(sites))
	for i, s := range sites {
		servers[i] = newHTTPServer(s, log)
		group.Go(func() error {
			err := servers[i].Serve(s.listener)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve %s: %w", s.role, err)
		})
	}
	<-failing.Done()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	var stopping sync.WaitGroup
	for _, server := range servers {
		stopping.Go(func() {
			if server.Shutdown(limit) != nil {
				server.Close()
			}
		})
	}
	stopping.Go(func() { drain(limit) })
	stopping.Wait()
	err := group.Wait()
	log.Info("stopped")
	return err
}

// serveInside runs sites beside its caller, until ctx ends or end is called: for a tool
// that needs servers of its own. end, to be called once, waits until they have stopped,
// and returns serve's error.
func serveInside(ctx context.Context, log *slog.Logger, sites []site, drain func(ctx context.Context)) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, log, sites, drain) }()
	return func() error {
		cancel()
		return <-served
	}
}

// newHTTPServer gives a site the limits that every server of ours has.
func newHTTPServer(s site, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:                      s.handler,
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  writeTime, // the body has its own, shorter limit where it is read
		WriteTimeout:                 writeTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.With("role", s.role).Handler(), slog.LevelWarn),
	}
	if s.base != nil {
		server.BaseContext = func(net.Listener) context.Context { return s.base }
	}
	return server
}
