// Revisor shows, and then proves, that an HTTP operation can be repeated without
// doing its effect twice. One binary: a service monitor (revisor), a bench that
// misbehaves (lab), a proxy that loses answers (gateway), and the tools around them.
//
// The package is flat: a file is one noun of the product. In reading order:
//
//	main.go           the process: signals, exit status, wiring of the roles
//	cli.go            the command line; commands.go, the commands beside serve
//	demo.go           what --demo adds
//	http.go           the edge that all servers share; serve.go runs them, close.go
//	                  ends connections
//	panic.go          what becomes of a panic
//	pause.go          waiting that ends early
//	problem.go        the problem catalogue and the one place errors become answers
//	status.go         the registry of status phrases
//	server.go         role revisor: routes and the order of the questions
//	services.go       services
//	revisions.go      revisions, live check, report
//	credentials.go    who may ask
//	limiter.go        fixed windows
//	idempotency.go    the engine of the Idempotency-Key
//	prefer.go         how long a request waits for its original
//	sweep.go          freeing the space of expired keys
//	policy.go         what is published about keys
//	fingerprint.go    key syntax, request fingerprint
//	document.go       a JSON body as exact data
//	etag.go           entity tags
//	dbfile.go         the database file; schema.sql
//	store.go          all SQL; statements.go runs it
//	writer.go         the one writer, which commits groups
//	checkpoint.go     what moves the write-ahead log into the file
//	fresh.go          a value re-read before it is too old
//	checker.go        one check of a service
//	queue.go          pending revisions
//	destination.go    which addresses may be reached, and the dialer
//	serviceurl.go     a URL read as browsers read it
//	retry.go          backoff, jitter, Retry-After
//	lab.go            the bench
//	gateway.go        the proxy that loses answers; faults.go says which, upload.go
//	                  lends the request's body out
//	attempt.go        one request on the wire, for the tools
//	register.go       the client that retries well
//	script.go         a server that answers what it is told
//	backoff.go        what jitter does
//	verify.go         the judge of an Idempotency-Key; checks.go lists its checks
//	defects.go        what can be wrong on purpose (--break)
//	version.go        what this binary is
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, errTold) {
		fmt.Fprintf(os.Stderr, "revisor: %v\n", err)
	}
	os.Exit(exitStatus(err))
}

// errTold marks a failure that the person has been told of already.
var errTold = errors.New("told")

// usageError is a command line that cannot be meant: exit status 2.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }
func (u *usageError) Unwrap() error { return u.err }

// exitStatus is 0 for success, 2 for wrong arguments, 1 for any other failure.
func exitStatus(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	}
	return 1
}

// process is what a command gets of the world.
type process struct {
	ctx    context.Context
	getenv func(string) string
	stdout io.Writer
	stderr io.Writer
	now    func() time.Time
	random func() float64 // uniform in [0, 1)
}

// run is the whole program, with the world handed in.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	p := &process{ctx: ctx, getenv: getenv, stdout: stdout, stderr: stderr, now: time.Now, random: rand.Float64}
	command, err := parseCommandLine(args, p)
	if err != nil || command == nil {
		return err
	}
	return command(p)
}

// logger writes to standard error, as text or as JSON. Both quote what strangers send.
func (p *process) logger(format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(p.stderr, nil))
	}
	return slog.New(slog.NewTextHandler(p.stderr, nil))
}

// roleAddress is a role to run and the address it was told to listen on.
type roleAddress struct{ role, address string }

// serveOptions is what the roles are told.
type serveOptions struct {
	roles      []roleAddress
	demo       bool
	database   string // "" for a throw-away file
	target     string // "" for the revisor of this process
	allow      []string
	keyTTL     time.Duration
	wait       bool
	scheme     byte // of fingerprints
	saveDelay  time.Duration
	queueDelay time.Duration
	simulate   bool
	check      bool // the database's integrity, before serving
	logFormat  string
	broken     defects
}

// serve runs the roles until the process is told to stop. All ports are taken before
// anything else is touched.
func (p *process) serve(o serveOptions) error {
	log := p.logger(o.logFormat)
	slog.SetDefault(log) // net/http's own complaints
	listeners := map[string]net.Listener{}
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for _, ra := range o.roles {
		l, err := listen(ra.role, ra.address)
		if err != nil {
			return err
		}
		listeners[ra.role] = l
	}
	drain := func(context.Context) {}
	var sites []site
	for _, ra := range o.roles {
		s := site{role: ra.role, listener: listeners[ra.role]}
		switch ra.role {
		case "revisor":
			api, err := p.startRevisor(o, listeners, log)
			if err != nil {
				return err
			}
			defer api.close()
			s.handler, drain = api.handler, api.drain
		case "lab":
			s.handler, s.base = newLab(log), p.ctx
		case "gateway":
			handler, err := newGatewayFor(o, listeners, log)
			if err != nil {
				return err
			}
			s.handler = handler
		}
		sites = append(sites, s)
	}
	if len(o.broken) > 0 {
		log.Warn("this server is broken on purpose: trust nothing it says", "defects", o.broken.String())
	}
	for _, s := range sites {
		log.Info("listening", "role", s.role, "address", s.listener.Addr().String())
	}
	if o.demo {
		tellDemo(p.stdout, listeners)
	}
	return serve(p.ctx, log, sites, drain)
}

// addressOf is where a role of this process listens, as host:port; "" when it does not
// run here.
func addressOf(listeners map[string]net.Listener, role string) string {
	if l, ok := listeners[role]; ok {
		return l.Addr().String()
	}
	return ""
}

// newGatewayFor forwards to the target, or to the revisor of this process.
func newGatewayFor(o serveOptions, listeners map[string]net.Listener, log *slog.Logger) (http.Handler, error) {
	target := o.target
	if target == "" {
		target = defaultTarget
		if own := addressOf(listeners, "revisor"); own != "" {
			target = "http://" + own
		}
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	return newGateway(gatewayConfig{target: u, simulate: o.simulate, log: log}), nil
}

// revisorRole is the role revisor with everything that runs behind it.
type revisorRole struct {
	handler http.Handler
	drain   func(ctx context.Context)
	close   func()
}

// startRevisor opens the database and starts what works in the background.
func (p *process) startRevisor(o serveOptions, listeners map[string]net.Listener, log *slog.Logger) (*revisorRole, error) {
	path, removeFile, err := databasePath(o.database)
	if err != nil {
		return nil, err
	}
	if o.check {
		if err := checkIntegrity(path); err != nil {
			return nil, err
		}
	}
	st, err := openStore(path, newTag)
	if err != nil {
		removeFile()
		return nil, err
	}
	closeAll := func() {
		if err := st.close(); err != nil {
			log.Warn("close database", "error", err)
		}
		removeFile()
	}
	role, err := p.wireRevisor(o, st, addressOf(listeners, "lab"), log)
	if err != nil {
		closeAll()
		return nil, err
	}
	role.close = closeAll
	return role, nil
}

// wireRevisor puts the pieces of the role together on an open store.
func (p *process) wireRevisor(o serveOptions, st *store, lab string, log *slog.Logger) (*revisorRole, error) {
	if o.demo && len(o.allow) == 0 {
		o.allow = []string{lab}
	}
	allow, err := parseAllowed(o.allow)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--allow: %w", err)}
	}
	if o.broken[volatileKeys] {
		if err := st.write(p.ctx, (*tx).forgetKeys); err != nil {
			return nil, err
		}
	}
	var practice []credential
	if o.demo {
		practice = practiceCredentials()
		if err := seedDemo(p.ctx, st, lab, p.now()); err != nil {
			return nil, err
		}
	}
	dests := newDestinations(allow, systemResolve)
	check := newChecker(dests, p.now, p.random, pause)
	queue := newRevisionQueue(st, check, o.queueDelay, p.now, pause, log)
	eng := newEngine(engineConfig{store: st, now: p.now, log: log, ttl: o.keyTTL, wait: o.wait, scheme: o.scheme, broken: o.broken})
	handler := newServer(serverConfig{
		store: st, engine: eng, checker: check, queue: queue, destinations: dests,
		now: p.now, log: log, practice: practice, saveDelay: o.saveDelay, broken: o.broken,
	})
	if err := queue.start(p.ctx); err != nil {
		return nil, err
	}
	sweepCtx, stopSweep := context.WithCancel(context.Background())
	var sweeping sync.WaitGroup
	sweeping.Go(func() { eng.sweep(sweepCtx) })
	return &revisorRole{handler: handler, drain: func(ctx context.Context) {
		stopSweep()
		queue.drain(ctx)
		sweeping.Wait()
	}}, nil
}

// databasePath is the file to open; without a name, one in a directory that goes away
// again with remove.
func databasePath(name string) (path string, remove func(), err error) {
	if name != "" {
		return name, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "revisor-demo-")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir, "revisor.db"), func() { os.RemoveAll(dir) }, nil
}

// newTag draws the tag of a new database: eight hex digits.
func newTag() string { return fmt.Sprintf("%08x", rand.Uint32()) }
