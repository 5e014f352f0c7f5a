// cli.go owns the command line: how it is read, and the command that runs servers (the
// others are in commands.go). Defaults and help stand in the commands' structs. An environment variable sets a default, a flag always wins. It must not know
// the insides of any server.

package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

const (
	defaultDatabase = "revisor.db"
	defaultTarget   = "http://127.0.0.1:18080"
)

// commandLine is all commands. The tag "variable" names the environment variable that
// sets a flag's default, "milliseconds" one that holds a number of milliseconds.
type commandLine struct {
	Serve      serveCommand      `cmd:"" default:"withargs" help:"Run servers. This is the default command."`
	Register   registerCommand   `cmd:"" help:"Register a service and retry well: a client for the opening scene."`
	Verify     verifyCommand     `cmd:"" help:"Check whether a server keeps its promise about Idempotency-Key."`
	Script     scriptCommand     `cmd:"" help:"Serve the given answers, one per request; the last one repeats."`
	Backoff    backoffCommand    `cmd:"" help:"Show what jitter does to clients that fail together."`
	Backup     backupCommand     `cmd:"" help:"Copy the database to a file, also while a server is running."`
	Credential credentialCommand `cmd:"" help:"Add, list and revoke the credentials in a database."`
	Version    kong.VersionFlag  `help:"Print the version and exit."`
}

type serveCommand struct {
	As            []string       `placeholder:"ROLE,…" variable:"REVISOR_AS" help:"Roles to run: revisor, lab, gateway (default revisor)."`
	Demo          bool           `variable:"REVISOR_DEMO" help:"Run all three servers with practice credentials and services, on a throw-away database unless --db names one."`
	DB            string         `name:"db" placeholder:"FILE" variable:"REVISOR_DB" help:"Database file (default revisor.db; with --demo a temporary one)."`
	Listen        string         `default:"127.0.0.1:18080" variable:"REVISOR_LISTEN" help:"Address of revisor."`
	LabListen     string         `default:"127.0.0.1:18081" variable:"REVISOR_LAB_LISTEN" help:"Address of the lab."`
	GatewayListen string         `default:"127.0.0.1:18082" variable:"REVISOR_GATEWAY_LISTEN" help:"Address of the gateway."`
	Target        string         `placeholder:"URL" variable:"REVISOR_TARGET" help:"Where the gateway forwards to (default the revisor of this process, else http://127.0.0.1:18080)."`
	Allow         []string       `placeholder:"DEST,…" variable:"REVISOR_DESTINOS" help:"Private destinations that may be checked: ip:port, [ip6]:port, an address alone, or a CIDR block (default none; with --demo the lab)."`
	KeyTTL        time.Duration  `default:"24h" milliseconds:"REVISOR_VIGENCIA_MS" help:"Lifetime of a key, from its first use."`
	InFlight      string         `default:"reject" enum:"reject,wait" variable:"REVISOR_IN_FLIGHT" help:"What a request meets whose original still runs: reject (409) or wait (10 s)."`
	Fingerprint   string         `default:"ordered" enum:"ordered,canonical" variable:"REVISOR_FINGERPRINT" help:"When two JSON bodies are the same request: ordered (the order of members matters) or canonical (RFC 8785)."`
	SaveDelay     *time.Duration `variable:"REVISOR_SAVE_DELAY" placeholder:"TIME" help:"Pretended work of a registration (default 0s; with --demo 500ms)."`
	QueueDelay    *time.Duration `variable:"REVISOR_QUEUE_DELAY" placeholder:"TIME" help:"Pretended queue before a revision starts (default 0s; with --demo 1s)."`
	Check         bool           `default:"true" negatable:"" variable:"REVISOR_CHECK" help:"Check the integrity of the database before serving (--no-check: start at once with a huge file)."`
	Simulate      bool           `default:"true" negatable:"" variable:"REVISOR_SIMULATE" help:"Let the gateway obey X-Simular."`
	Break         []string       `placeholder:"DEFECT,…" variable:"REVISOR_BREAK" help:"Deliberate defects, for learning; on loopback only: ${server_defects}."`
	Log           string         `default:"text" enum:"text,json" variable:"REVISOR_LOG" help:"Form of the log on standard error: text or json."`
}

// defaultAddresses are the roles in the order in which they are run.
func (c *serveCommand) addresses() []roleAddress {
	return []roleAddress{{"revisor", c.Listen}, {"lab", c.LabListen}, {"gateway", c.GatewayListen}}
}

// Validate finds what cannot be meant.
func (c *serveCommand) Validate() error {
	asked := map[string]bool{}
	for _, name := range c.As {
		known := false
		for _, ra := range c.addresses() {
			known = known || ra.role == name
		}
		if !known {
			return fmt.Errorf("--as: %q is none of revisor, lab, gateway", name)
		}
		asked[name] = true
	}
	if c.Demo && len(asked) != 0 && len(asked) != len(c.addresses()) {
		return errors.New("--demo runs all three roles: leave --as out")
	}
	if target, err := url.Parse(c.Target); c.Target != "" && (err != nil || validateBase(target) != nil) {
		return fmt.Errorf("--target: %q is no server: want http://host:port or https://host:port, without a path", c.Target)
	}
	if c.KeyTTL <= 0 {
		return errors.New("--key-ttl: a key must live longer than nothing")
	}
	if _, err := parseAllowed(c.Allow); err != nil {
		return fmt.Errorf("--allow: %w", err)
	}
	if err := c.validateDefects(); err != nil {
		return err
	}
	for name, delay := range map[string]*time.Duration{"--save-delay": c.SaveDelay, "--queue-delay": c.QueueDelay} {
		if delay != nil && (*delay < 0 || *delay >= workTime) {
			return fmt.Errorf("%s: must be from 0 to less than %v", name, workTime)
		}
	}
	return nil
}

// validateDefects keeps a server that is broken on purpose on this machine.
func (c *serveCommand) validateDefects() error {
	if _, err := parseDefects(c.Break, serverDefects); err != nil || len(c.Break) == 0 {
		return err
	}
	for _, ra := range c.addresses() {
		host, _, err := net.SplitHostPort(ra.address)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("--break: only on loopback, and %s would listen on %s", ra.role, ra.address)
		}
	}
	return nil
}

// Run runs the roles.
func (c *serveCommand) Run(p *process) error {
	o := serveOptions{
		demo: c.Demo, database: c.DB, target: c.Target, allow: c.Allow,
		keyTTL: c.KeyTTL, wait: c.InFlight == "wait", check: c.Check, simulate: c.Simulate, logFormat: c.Log,
	}
	var err error
	if o.broken, err = parseDefects(c.Break, serverDefects); err != nil {
		return &usageError{err}
	}
	o.scheme = schemeOrdered
	if c.Fingerprint == schemeName(schemeCanonical) {
		o.scheme = schemeCanonical
	}
	if c.Demo {
		o.saveDelay, o.queueDelay = demoSaveDelay, demoQueueDelay
	} else if o.database == "" {
		o.database = defaultDatabase
	}
	if c.SaveDelay != nil {
		o.saveDelay = *c.SaveDelay
	}
	if c.QueueDelay != nil {
		o.queueDelay = *c.QueueDelay
	}
	asked := "," + strings.Join(c.As, ",") + ","
	if len(c.As) == 0 {
		asked = ",revisor,"
	}
	for _, ra := range c.addresses() {
		if c.Demo || strings.Contains(asked, ","+ra.role+",") {
			o.roles = append(o.roles, ra)
		}
	}
	return p.serve(o)
}

// parseCommandLine finds the command to run, with its flags set. It is nil when --help
// or --version said all there was to say.
func parseCommandLine(args []string, p *process) (func(*process) error, error) {
	var line commandLine
	ended := false
	parser, err := newParser(&line, p, func(int) { ended = true })
	if err != nil {
		return nil, err
	}
	ctx, err := parser.Parse(args)
	if ended {
		return nil, nil
	}
	if err != nil {
		return nil, &usageError{err}
	}
	return func(p *process) error { return ctx.Run(p) }, nil
}

// newParser reads into line; exit is called when --help or --version was asked for.
func newParser(line *commandLine, p *process, exit func(int)) (*kong.Kong, error) {
	return kong.New(line,
		kong.Name("revisor"),
		kong.Description("A service monitor that shows, and proves, that an HTTP operation can be repeated without doing its effect twice."),
		kong.Vars{
			"version": version(), "server_defects": joinDefects(serverDefects), "register_defects": joinDefects(registerDefects),
		},
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(exit),
		kong.Resolvers(kong.ResolverFunc(p.fromVariable)),
		kong.ValueFormatter(helpWithVariable),
		kong.Help(helpWithServe),
	)
}

// fromVariable finds a flag's value in the environment, when the flag was not given.
func (p *process) fromVariable(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if name := flag.Tag.Get("variable"); name != "" {
		if value := p.getenv(name); value != "" {
			return value, nil
		}
	}
	name := flag.Tag.Get("milliseconds")
	value := p.getenv(name)
	if name == "" || value == "" {
		return nil, nil
	}
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return nil, fmt.Errorf("%s: %q is no number of milliseconds", name, value)
	}
	return (time.Duration(ms) * time.Millisecond).String(), nil
}

// helpWithVariable adds to a flag's help the variable that sets its default.
func helpWithVariable(value *kong.Value) string {
	help := value.Help
	if name := value.Tag.Get("variable"); name != "" {
		return help + " [$" + name + "]"
	}
	if name := value.Tag.Get("milliseconds"); name != "" {
		return help + " [$" + name + ", in milliseconds]"
	}
	return help
}

// helpWithServe prints, for the program as a whole, the default command's flags too.
func helpWithServe(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if ctx.Selected() != nil {
		return nil
	}
	serve, err := kong.Trace(ctx.Kong, []string{"serve"})
	if err != nil {
		return err
	}
	fmt.Fprintln(ctx.Stdout)
	return kong.DefaultHelpPrinter(options, serve)
}
