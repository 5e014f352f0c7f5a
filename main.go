// Revisor shows, and then proves, that an HTTP operation can be repeated without
// doing its effect twice. One binary: a service monitor (revisor), a bench that
// misbehaves (lab), a proxy that loses answers (gateway), and the tools around them.
//
// The package is flat: a file is one noun of the product. In reading order:
//
//	main.go           the process: signals, exit status, wiring of the roles
//	cli.go            the command line; servecommand.go, the command that runs servers;
//	                  commands.go, the tools' commands, registercommand.go
//	                  register's, databasecommands.go those on the database; input.go,
//	                  what they are given to read
//	demo.go           what --demo adds
//	http.go           the edge that all servers share; serve.go runs them, close.go
//	                  ends connections
//	panic.go          what becomes of a panic
//	pause.go          waiting that ends early
//	field.go          the text of header fields
//	transport.go      exactly one request on the wire
//	problem.go        the problem catalogue and the one place errors become answers
//	status.go         the registry of status phrases
//	revisor.go        role revisor: its pieces put together, and what works behind it
//	server.go         its routes and the order of the questions
//	services.go       services; servicedata.go, what may be said of one; v1.go, their
//	                  old form
//	revisions.go      revisions, live check, report
//	credentials.go    who may ask
//	maintenance.go    the switch that closes the API
//	limiter.go        fixed windows
//	idempotency.go    the engine of the Idempotency-Key; recording.go, the effect and its
//	                  answer in one transaction
//	flight.go         requests under their keys, and the table of those in flight
//	prefer.go         how long a request waits for its original
//	sweep.go          freeing the space of expired keys
//	policy.go         what is published about keys
//	fingerprint.go    key syntax, request fingerprint; keyfield.go, a key as it is sent
//	document.go       a JSON body as exact data
//	framing.go        several texts as one
//	etag.go           entity tags
//	dbfile.go         the database file; schema.sql
//	backup.go         copying it while it is in use
//	store.go          all SQL; statements.go runs it
//	writer.go         the one writer, which commits groups
//	checkpoint.go     what moves the write-ahead log into the file
//	fresh.go          a value re-read before it is too old
//	checker.go        one check of a service
//	queue.go          pending revisions
//	destination.go    which addresses may be reached, and the dialer
//	serviceurl.go     a URL read as browsers read it
//	retry.go          backoff, jitter, Retry-After
//	lab.go            the bench; labroutes.go, what it can be asked for; labanswers.go,
//	                  what a client can do something with; sequence.go, one answer
//	                  after the other; retryforms.go, every Retry-After
//	rawanswers.go     its answers byte by byte; rawforms.go, those that are not HTTP as it
//	                  should be; rawconnection.go, what they are written on
//	gateway.go        the proxy that spoils exchanges; faults.go says which, plan.go how
//	                  that is written; exchange.go carries one out, upload.go lends its
//	                  body out, delivery.go is the client's side, duplicate.go sends twice,
//	                  ledger.go keeps account
//	attempt.go        one request on the wire, for the tools; printable.go, what they show
//	                  of it
//	register.go       the client that retries well
//	batch.go          many registrations, safe to send again; rows.go reads their file,
//	                  outcome.go tells what became of them, budget.go knows when to stop
//	script.go         a server that answers what it is told
//	backoff.go        what jitter does
//	experiment.go     what to do after a lost answer, six ways; observer.go sees what
//	                  the origin did, matrix.go tells it, stage.go sets servers up, for
//	                  verify too
//	verify.go         the judge of an Idempotency-Key; fit.go tries its profile; checks.go
//	                  lists its checks: burst.go those of an original at work, malformed.go
//	                  of how keys are written, lost.go of lost answers, lasting.go of what
//	                  lasts; leftovers.go is what they leave behind, aftermath.go looks at
//	                  it and takes it away
//	profile.go        what an API says of itself; profilefile.go reads it, template.go
//	                  fills places in, request.go a request, expectation.go an answer,
//	                  pointer.go finds a value in one
//	intent.go         one thing that a client wants done once; counting.go counts it,
//	                  rawcall.go sends what no library would
//	report.go         what verify tells; junit.go and tap.go, for machines that ask so
//	progress.go       how far a long run has come
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
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, errTold) {
		fmt.Fprintf(os.Stderr, "revisor: %s\n", oneLine(err))
	}
	os.Exit(exitStatus(err))
}

// oneLine is an error as a person reads it: in one line, always.
func oneLine(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	if errors.Is(err, errStoreUnavailable) {
		return "el almacén no está disponible ahora (" + text + ")"
	}
	return text
}

// errTold marks a failure that the person has been told of already.
var errTold = errors.New("told")

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
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	now    func() time.Time
	random func() float64 // uniform in [0, 1)
}

// run is the whole program, with the world handed in.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	p := &process{ctx: ctx, getenv: getenv, stdin: os.Stdin, stdout: stdout, stderr: stderr, now: time.Now, random: rand.Float64}
	command, err := parseCommandLine(args, p)
	if err != nil || command == nil {
		return err
	}
	return command(p)
}

// surviveBrokenPipe lets a write to a pipe that nobody reads fail instead of ending the
// process: for a command that must tidy up. A server keeps the system's way.
func (p *process) surviveBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }

// logger writes to standard error, as text or as JSON. Both quote what strangers send.
func (p *process) logger(format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(p.stderr, nil))
	}
	return slog.New(slog.NewTextHandler(p.stderr, nil))
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
	var admin http.Handler // of the gateway, which comes before it
	for _, ra := range o.roles {
		s := site{role: ra.role, listener: listeners[ra.role]}
		switch ra.role {
		case "revisor":
			role, release, err := p.startRevisor(o, listeners, log)
			if err != nil {
				return err
			}
			defer release()
			s.handler, drain = role.handler, role.drain
		case "lab":
			s.handler, s.base = newLab(labConfig{limits: o.lab, log: log, now: p.now}), p.ctx
		case "gateway":
			var release func()
			var err error
			if s.handler, admin, release, err = p.startGateway(o, listeners, log); err != nil {
				return err
			}
			defer release()
		case gatewayAdmin:
			s.handler = admin
		}
		sites = append(sites, s)
	}
	if len(o.broken) > 0 {
		log.Warn("this server is broken on purpose: trust nothing it says", "defects", o.broken.String())
	}
	for _, s := range sites {
		log.Info("listening", "role", s.role, "address", s.listener.Addr().String())
	}
	if o.demo && !isLoopback(o.roles[0].address) {
		log.Warn("anybody who reaches this server may use the practice credentials", "address", o.roles[0].address)
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

// urlOf is the base address of what listens there.
func urlOf(listener net.Listener) *url.URL {
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}
}

// startGateway opens the ledger and puts the gateway in front of the target, or of the
// revisor of this process. admin tells the ledger; release, to be called when no server
// runs any more, ends the exchanges that are left, and closes its file when they are noted.
func (p *process) startGateway(o serveOptions, listeners map[string]net.Listener, log *slog.Logger) (handler, admin http.Handler, release func(), err error) {
	stopping, stop := context.WithCancel(context.WithoutCancel(p.ctx))
	cfg := gatewayConfig{target: o.target, simulate: o.simulate, log: log, now: p.now, stopping: stopping}
	if cfg.target == nil {
		cfg.target = urlOf(listeners["revisor"])
	}
	seed := uint64(p.random() * (1 << 32))
	if o.seed != nil {
		seed = *o.seed
	}
	cfg.plan = newFaultPlan(o.faults, seed)
	if len(o.faults) > 0 {
		log.Warn("this gateway spoils exchanges on purpose", "faults", len(o.faults), "seed", seed)
	}
	release = stop
	if o.ledger != "" {
		file, err := openLedgerFile(o.ledger)
		if err != nil {
			stop()
			return nil, nil, nil, fmt.Errorf("abrir el registro de arribos: %w", err)
		}
		cfg.ledger = newLedger(ledgerLimit, file, log)
		release = func() {
			stop()
			cfg.ledger.settle(settleTime)
			file.Close()
		}
	} else if addressOf(listeners, gatewayAdmin) != "" {
		cfg.ledger = newLedger(ledgerLimit, nil, log)
	}
	return newGateway(cfg), newLedgerSite(cfg.ledger, seed, log), release, nil
}

// openLedgerFile opens a file to append lines to. One that a torn line ends gets a line end.
func openLedgerFile(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := endLastLine(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func endLastLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 { // a pipe or a terminal has no last line
		return err
	}
	reading, err := os.Open(file.Name())
	if err != nil {
		return err
	}
	defer reading.Close()
	last := make([]byte, 1)
	if _, err := reading.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}

// startRevisor opens the database and starts the role on it. release, to be called after
// the role was drained, gives the file back.
func (p *process) startRevisor(o serveOptions, listeners map[string]net.Listener, log *slog.Logger) (role *revisorRole, release func(), err error) {
	path, removeFile, err := databasePath(o.database)
	if err != nil {
		return nil, nil, err
	}
	if o.check {
		if err := checkIntegrity(path); err != nil {
			removeFile()
			return nil, nil, err
		}
	}
	st, err := openStore(path, newTag)
	if err != nil {
		removeFile()
		return nil, nil, err
	}
	release = func() {
		if err := st.close(); err != nil {
			log.Warn("close database", "error", err)
		}
		removeFile()
	}
	role, err = p.revisorOn(o, st, addressOf(listeners, "lab"), log)
	if err != nil {
		release()
		return nil, nil, err
	}
	return role, release, nil
}

// revisorOn starts the role on an open store, and with --demo what belongs to it.
func (p *process) revisorOn(o serveOptions, st *store, lab string, log *slog.Logger) (*revisorRole, error) {
	cfg := revisorConfig{
		revisorSettings: o.revisorSettings,
		store:           st, log: log, now: p.now, random: p.random, pause: pause, resolve: systemResolve,
	}
	if o.allowLab {
		var err error
		if cfg.allow, err = parseAllowed([]string{lab}); err != nil {
			return nil, err
		}
	}
	if o.demo {
		cfg.practice = practiceCredentials()
		if err := seedDemo(p.ctx, st, lab, p.now()); err != nil {
			return nil, err
		}
	}
	role := newRevisor(cfg)
	return role, role.start(p.ctx)
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
