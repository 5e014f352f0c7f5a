// cli.go owns the command line: the list of the commands, and how it is read. Defaults and
// help stand in the commands' structs (servecommand.go, registercommand.go,
// databasecommands.go, commands.go). An environment variable sets a default, a flag
// always wins. It must not know what any command does.

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// What a command line leaves out. Tags of the commands' structs name them: see
// defaultsForTags.
const (
	defaultDatabase = "revisor.db"
	revisorAddress  = "127.0.0.1:18080"
	labAddress      = "127.0.0.1:18081"
	gatewayAddress  = "127.0.0.1:18082"
)

// usageError is a command line that cannot be meant: exit status 2.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }
func (u *usageError) Unwrap() error { return u.err }

// commandLine is all commands. The tag "variable" names the environment variable that
// sets a flag's default, "milliseconds" one that holds a number of milliseconds.
type commandLine struct {
	Serve      serveCommand      `cmd:"" default:"withargs" help:"Run servers. This is the default command."`
	Register   registerCommand   `cmd:"" help:"Register a service, or a file of them, and retry well: a client for the opening scene."`
	Verify     verifyCommand     `cmd:"" help:"Check whether a server keeps its promise about Idempotency-Key."`
	Script     scriptCommand     `cmd:"" help:"Serve the given answers, one per request; the last one repeats."`
	Backoff    backoffCommand    `cmd:"" help:"Show what jitter does to clients that fail together."`
	Experiment experimentCommand `cmd:"" help:"Show what an origin did after its answer was lost: six cases, on servers of its own."`
	Backup     backupCommand     `cmd:"" help:"Copy the database to a file, also while a server is running."`
	Credential credentialCommand `cmd:"" help:"Add, list and revoke the credentials in a database."`
	Version    kong.VersionFlag  `help:"Print the version and exit."`
}

// namedPlan is the text of a plan and the name of its file; without a name there is none.
type namedPlan = kong.NamedFileContentFlag

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
		if len(args) > 0 && slices.Contains(serverRoles(), args[0]) {
			err = fmt.Errorf("%w: did you mean --as %s?", err, args[0])
		}
		return nil, &usageError{err}
	}
	return func(p *process) error { return ctx.Run(p, flagsGiven(ctx)) }, nil
}

// givenFlag is a flag that was not left to its default.
type givenFlag struct {
	name, value string
	variable    string // that it was taken from; "" when the command line has it
}

// flagsGiven are the flags of a command line, in its order, and then those that the
// environment sets.
func flagsGiven(ctx *kong.Context) (given []givenFlag) {
	for _, at := range ctx.Path {
		if at.Flag == nil || slices.ContainsFunc(given, func(g givenFlag) bool { return g.name == at.Flag.Name }) {
			continue // a flag that was repeated has one value, its last
		}
		g := givenFlag{name: at.Flag.Name, value: fmt.Sprint(at.Flag.Target.Interface())}
		if at.Resolved {
			g.variable = at.Flag.Tag.Get("variable") + at.Flag.Tag.Get("milliseconds") // a flag has one of them
		}
		given = append(given, g)
	}
	return given
}

// newParser reads into line; exit is called when --help or --version was asked for.
func newParser(line *commandLine, p *process, exit func(int)) (*kong.Kong, error) {
	return kong.New(line,
		kong.Name("revisor"),
		kong.Description("A service monitor that shows, and proves, that an HTTP operation can be repeated without doing its effect twice."),
		defaultsForTags(),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(exit),
		kong.Resolvers(kong.ResolverFunc(p.fromVariable)),
		kong.ValueFormatter(helpWithVariable),
		kong.Help(helpWithServe),
	)
}

// defaultsForTags are the values that tags name, so that each is written once.
func defaultsForTags() kong.Vars {
	return kong.Vars{
		"version":           version(),
		"database":          defaultDatabase,
		"revisor_address":   revisorAddress,
		"lab_address":       labAddress,
		"gateway_address":   gatewayAddress,
		"ledger_path":       ledgerPath,
		"writer":            practiceWriter,
		"other_writer":      practiceOtherWriter,
		"fault":             loseFirst,
		"register_attempts": strconv.Itoa(registerAttempts),
		"batch_concurrency": strconv.Itoa(batchConcurrency),
		"most_concurrency":  strconv.Itoa(maxConcurrency),
		"server_defects":    joinDefects(serverDefects),
		"register_defects":  joinDefects(registerDefects),
	}
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
