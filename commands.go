// commands.go owns the commands beside serve: the tools and the credentials. One struct
// per command, with its defaults and help, and a Run that sets the piece up and lets it
// work. It must not know how any of them works.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
)

// writerFlag is the credential that the tools use.
type writerFlag struct {
	Token string `default:"${writer}" variable:"REVISOR_TOKEN" placeholder:"TOKEN" help:"Credential of a writer (default the demo's ${writer})."`
}

// registerCommand registers one service, or all those of a file, as a client that
// retries well.
type registerCommand struct {
	Name           *string       `arg:"" optional:"" help:"Name of the service."`
	URL            *string       `arg:"" optional:"" name:"url" help:"Address of the service."`
	From           string        `placeholder:"FILE" variable:"REVISOR_FROM" help:"Register all services of a file instead (CSV with the header nombre,url,limite_ms, or JSON lines; - is standard input)."`
	Batch          string        `placeholder:"NAME" variable:"REVISOR_BATCH" help:"With --from: name of the batch. It makes the keys: under the same name the same file can be sent again."`
	Concurrency    int           `default:"${batch_concurrency}" variable:"REVISOR_CONCURRENCY" help:"With --from: rows under way at once, from 1 to ${most_concurrency}."`
	Format         string        `default:"table" enum:"table,json" variable:"REVISOR_REGISTER_FORMAT" help:"With --from: form of the result: table or json."`
	NoKey          bool          `aliases:"sin-llave" variable:"REVISOR_NO_KEY" help:"Send no Idempotency-Key, and see what that means (also --sin-llave)."`
	Key            *string       `placeholder:"KEY" variable:"REVISOR_KEY" help:"Resume an earlier intention with its key (default a new one)."`
	Simulate       string        `default:"${fault}" variable:"REVISOR_REGISTER_SIMULATE" placeholder:"FAULT" help:"Fault to ask the gateway for, in X-Simular; empty for none (default ${fault})."`
	Base           string        `default:"http://${gateway_address}" variable:"REVISOR_BASE" placeholder:"URL" help:"Server to register at (default the gateway, http://${gateway_address})."`
	Attempts       int           `default:"${register_attempts}" variable:"REVISOR_ATTEMPTS" help:"Most requests to send."`
	AttemptTimeout time.Duration `default:"2s" milliseconds:"ALTA_LIMITE_MS" help:"Time limit of one attempt."`
	Break          []string      `placeholder:"DEFECT,…" variable:"REVISOR_REGISTER_BREAK" help:"Deliberate defects, for learning: ${register_defects}."`
	writerFlag
}

// Run registers the service, or those of the file.
func (c *registerCommand) Run(p *process) error {
	if err := c.validateMode(); err != nil {
		return &usageError{err}
	}
	base, err := parseBase(c.Base)
	if err != nil {
		return &usageError{fmt.Errorf("--base: %w", err)}
	}
	broken, err := parseDefects(c.Break, registerDefects)
	if err != nil {
		return &usageError{err}
	}
	if c.Key != nil && *c.Key == "" { // not "draw one": whoever gave a key means to be protected by it
		return &usageError{errors.New("--key: the key is empty")}
	}
	r := &registration{
		base: base, name: given(c.Name), url: given(c.URL), token: c.Token, simulate: c.Simulate,
		key: given(c.Key), noKey: c.NoKey, attempts: c.Attempts, attemptTimeout: c.AttemptTimeout,
		newKey: uuid.NewString, random: p.random, wait: pause, now: p.now, out: p.stdout,
		keyPerAttempt: broken[keyPerAttempt],
	}
	if err := r.validate(); err != nil {
		return &usageError{err}
	}
	if c.From != "" {
		return c.runBatch(p, r)
	}
	if len(broken) > 0 {
		fmt.Fprintf(p.stderr, "aviso: este cliente está estropeado a propósito (%s)\n", broken)
	}
	return told(r.run(p.ctx), errNotRegistered)
}

// validateMode finds arguments that do not go together: one service, or a file.
func (c *registerCommand) validateMode() error {
	switch {
	case c.From == "" && c.Batch != "":
		return errors.New("--batch goes with --from")
	case c.From == "" && c.Format != "table":
		return errors.New("--format goes with --from")
	case c.From == "" && c.Name == nil:
		return errors.New(`expected "<name> <url>", or --from`)
	case c.From == "" && c.URL == nil:
		return errors.New(`expected "<url>"`)
	case c.From == "":
		return nil
	case c.Name != nil:
		return errors.New("--from and <name> <url> exclude each other")
	case c.NoKey:
		return errors.New("--from and --no-key exclude each other: a row without a key cannot be sent again")
	case c.Key != nil:
		return errors.New("--from and --key exclude each other: each row has its own")
	case len(c.Break) > 0:
		return errors.New("--from and --break exclude each other")
	}
	return validateBatch(c.Batch, c.Concurrency)
}

// runBatch registers the services of the file. Nothing is sent before all of it was read
// and found good.
func (c *registerCommand) runBatch(p *process, like *registration) error {
	text, err := p.readFile(c.From, maxRowsFile)
	if errors.Is(err, context.Canceled) {
		return errors.New("interrumpido; no se envió nada")
	}
	if err != nil {
		return &usageError{fmt.Errorf("--from: %w", err)}
	}
	rows, bad := readRows(text)
	for _, b := range bad {
		fmt.Fprintf(p.stderr, "línea %d: %s\n", b.line, b.why)
	}
	if len(bad) > 0 {
		fmt.Fprintf(p.stderr, "filas que no se entienden: %d; no se envió nada\n", len(bad))
		return &usageError{errTold}
	}
	if len(rows) == 0 {
		return &usageError{errors.New("--from: the file has no rows")}
	}
	b := &batch{name: c.Batch, rows: rows, concurrency: c.Concurrency, like: *like, terminal: p.stderr}
	b.run(p.ctx)
	report := newBatchReport(b.name, b.stopped, b.results)
	if c.Format == "json" {
		err = report.printJSON(p.stdout)
	} else {
		err = report.printTable(p.stdout, "revisor register --from "+quoted(c.From)+" --batch "+quoted(c.Batch))
	}
	if err == nil && !report.Complete {
		return errTold
	}
	return err
}

// quoted is text as a shell reads it back, harmless on a terminal.
func quoted(text string) string { return printable([]byte(shellQuote(text)), shownBody) }

// readFile reads a file, or standard input for "-", of at most limit bytes. It ends early
// when the process is told to stop: who waits for a person to type, or for a pipe, can be
// interrupted.
func (p *process) readFile(name string, limit int64) ([]byte, error) {
	type content struct {
		text []byte
		err  error
	}
	read := make(chan content, 1)
	go func() {
		text, err := p.readAll(name, limit)
		read <- content{text, err}
	}()
	select {
	case c := <-read:
		return c.text, c.err
	case <-p.ctx.Done():
		return nil, context.Canceled
	}
}

func (p *process) readAll(name string, limit int64) ([]byte, error) {
	in := p.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, fmt.Errorf("%s has more than %d MiB", name, limit>>20)
	}
	return text, err
}

// parseBase reads a server's address; what it means is validated by the tool.
func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil { // the library's words do not help here
		return nil, fmt.Errorf("%q is no address: want http://host:port", text)
	}
	return u, nil
}

// given is the text of a flag or an argument, "" when it was not given.
func given(flag *string) string {
	if flag == nil {
		return ""
	}
	return *flag
}

// told turns a failure that the tool has explained into one that needs no more words.
func told(err, explained error) error {
	if errors.Is(err, explained) {
		return errTold
	}
	return err
}

// verifyCommand judges a server.
type verifyCommand struct {
	Server       string `arg:"" optional:"" name:"base" placeholder:"URL" help:"Server to judge; the same as --base."`
	Base         string `variable:"REVISOR_BASE" placeholder:"URL" help:"Server to judge (default the profile's; revisor's is http://${revisor_address})."`
	Profile      string `variable:"REVISOR_PROFILE" placeholder:"FILE" help:"Profile of the API to judge, as docs/verify.md explains (default that of revisor, which --print-profile shows)."`
	PrintProfile bool   `variable:"REVISOR_PRINT_PROFILE" help:"Print the profile and exit: a beginning for one of your own."`
	Format       string `default:"text" enum:"text,json,junit,tap" variable:"REVISOR_FORMAT" help:"Form of the report: text, json, junit or tap."`
	OtherToken   string `default:"${other_writer}" variable:"REVISOR_OTHER_TOKEN" placeholder:"TOKEN" help:"Credential of a writer of another team, {{other-token}} in a profile (default the demo's ${other_writer})."`
	writerFlag
}

// Run makes the checks.
func (c *verifyCommand) Run(p *process) error {
	text, name := revisorProfile, "the built-in profile"
	if c.Profile != "" {
		var err error
		if text, err = os.ReadFile(c.Profile); err != nil {
			return &usageError{fmt.Errorf("--profile: %w", err)}
		}
		name = c.Profile
	}
	if c.PrintProfile {
		_, err := p.stdout.Write(text)
		return err
	}
	profile, err := parseProfile(text)
	if err == nil {
		err = profile.resolve(p.getenv, c.Token, c.OtherToken)
	}
	if err != nil {
		return &usageError{fmt.Errorf("%s: %w", name, err)}
	}
	if err := c.rebase(profile); err != nil {
		return &usageError{fmt.Errorf("--base: %w", err)}
	}
	v := &verification{
		profile: profile, newUnique: func() string { return "verify-" + uuid.NewString()[:13] }, newKey: uuid.NewString,
		wait: pause, now: p.now, lossy: p.openLossyGateway, bursts: verifyBursts,
	}
	if err := v.validate(); err != nil {
		return &usageError{fmt.Errorf("%s: %w", name, err)}
	}
	v.report = newReporter(p.stdout, p.stderr, c.Format, profile.base.String(), len(promiseChecks(profile)))
	return told(v.run(p.ctx), errVerifyFailed)
}

// rebase points a profile at the server that the command line names, if it names one.
func (c *verifyCommand) rebase(profile *profile) error {
	address := c.Base
	if c.Server != "" {
		address = c.Server
	}
	if address == "" {
		return nil
	}
	base, err := parseBase(address)
	if err != nil {
		return err
	}
	profile.base = base
	return validateBase(base)
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

// scriptCommand serves answers that are told beforehand.
type scriptCommand struct {
	Answers []string `arg:"" help:"Answers: NNN, NNN:RETRY-AFTER, 409:en-curso, or mudo (accepts and never answers)."`
	Listen  string   `default:"${gateway_address}" variable:"REVISOR_GATEWAY_LISTEN" help:"Address to listen on: where the gateway would be."`
	Log     string   `default:"text" enum:"text,json" variable:"REVISOR_LOG" help:"Form of the log on standard error: text or json."`
}

// Run serves the answers until the process is told to stop.
func (c *scriptCommand) Run(p *process) error {
	answers, err := parseScript(c.Answers)
	if err != nil {
		return &usageError{err}
	}
	if err := validateListen(c.Listen); err != nil {
		return &usageError{fmt.Errorf("--listen: %w", err)}
	}
	listener, err := listen("script", c.Listen)
	if err != nil {
		return err
	}
	log := p.logger(c.Log)
	log.Info("listening", "role", "script", "address", listener.Addr().String())
	s := site{role: "script", listener: listener, handler: newScript(answers, log), base: p.ctx}
	return serve(p.ctx, log, []site{s}, func(context.Context) {})
}

// backoffCommand shows what jitter does.
type backoffCommand struct{}

// Run prints the demonstration.
func (c *backoffCommand) Run(p *process) error {
	printBackoff(p.stdout, p.random)
	return nil
}

// experimentCommand shows what an origin did whose answer was lost.
type experimentCommand struct {
	Format string `default:"table" enum:"table,json,csv" variable:"REVISOR_EXPERIMENT_FORMAT" help:"Form of the result: table, json or csv."`
}

// Run makes the experiment on servers of its own.
func (c *experimentCommand) Run(p *process) error {
	return c.tell(p, &experiment{open: p.openScene, newKey: uuid.NewString, now: p.now})
}

// tell makes an experiment and tells it. An error says that the matrix is not as it must
// be, and where; or why there is none.
func (c *experimentCommand) tell(p *process, e *experiment) error {
	reports, err := e.run(p.ctx)
	if err != nil {
		return err
	}
	if err := writeMatrix(p.stdout, c.Format, reports); err != nil {
		return err
	}
	return judgeMatrix(reports)
}

// backupCommand copies the database.
type backupCommand struct {
	File string `arg:"" help:"File to write; it must not exist yet."`
	databaseFlag
}

// Run copies the database, whether a server is running on it or not.
func (c *backupCommand) Run(p *process) error {
	return p.withExistingStore(c.DB, func(s *store) error {
		if err := s.backup(c.File); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "Copia de %s guardada en %s.\n", c.DB, c.File)
		return nil
	})
}

// credentialCommand is the commands about credentials.
type credentialCommand struct {
	Add    credentialAdd    `cmd:"" help:"Make a credential and print its token, once."`
	List   credentialList   `cmd:"" help:"List the credentials, revoked ones included."`
	Revoke credentialRevoke `cmd:"" help:"End a credential. A running server obeys within a second."`
}

// databaseFlag is the flag of the commands that open the database.
type databaseFlag struct {
	DB string `name:"db" default:"${database}" variable:"REVISOR_DB" placeholder:"FILE" help:"Database file (default ${database})."`
}

// credentialAdd makes a credential.
type credentialAdd struct {
	Name string `arg:"" help:"Its name; never used again, not after a revocation either."`
	Team string `required:"" placeholder:"TEAM" variable:"REVISOR_TEAM" help:"Its team: a, b, … or '*' for an admin."`
	Role string `required:"" enum:"reader,writer,admin" placeholder:"ROLE" variable:"REVISOR_ROLE" help:"reader, writer or admin."`
	databaseFlag
}

// Run makes the credential. Its token is the only thing on standard output.
func (c *credentialAdd) Run(p *process) error {
	cred, token, err := newCredential(c.Name, c.Team, c.Role, p.now())
	if err != nil {
		return &usageError{err}
	}
	return p.withStore(c.DB, func(s *store) error {
		var taken bool
		err := s.write(p.ctx, func(t *tx) (err error) {
			taken, err = t.insertCredential(cred)
			return err
		})
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("ya hubo una credencial con el nombre %q", c.Name)
		}
		fmt.Fprintf(p.stderr, "Credencial %s (equipo %s, rol %s). Este es su secreto; no se volverá a mostrar:\n", cred.name, cred.team, cred.role)
		fmt.Fprintln(p.stdout, token)
		return nil
	})
}

// credentialList tells the credentials.
type credentialList struct {
	databaseFlag
}

// Run prints a table. No token is in it: none is kept.
func (c *credentialList) Run(p *process) error {
	return p.withExistingStore(c.DB, func(s *store) error {
		all, err := s.credentials()
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NOMBRE\tEQUIPO\tROL\tCREADA\tESTADO")
		for _, cred := range all {
			state := "vigente"
			if cred.revoked {
				state = "revocada"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", cred.name, cred.team, cred.role, wireTime(cred.created), state)
		}
		return table.Flush()
	})
}

// credentialRevoke ends a credential.
type credentialRevoke struct {
	Name string `arg:"" help:"Its name."`
	databaseFlag
}

// Run revokes the credential.
func (c *credentialRevoke) Run(p *process) error {
	return p.withExistingStore(c.DB, func(s *store) error {
		var done bool
		err := s.write(p.ctx, func(t *tx) (err error) {
			done, err = t.revokeCredential(c.Name, p.now())
			return err
		})
		if err != nil {
			return err
		}
		if !done {
			return fmt.Errorf("no hay ninguna credencial vigente con el nombre %q", c.Name)
		}
		fmt.Fprintf(p.stdout, "Credencial %s revocada.\n", c.Name)
		return nil
	})
}

// withStore opens the database, making it if need be, for the time of do.
func (p *process) withStore(path string, do func(*store) error) error {
	s, err := openStore(path, newTag)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.close())
}

// withExistingStore does not make a database where there is none: a mistyped name
// deserves an answer.
func (p *process) withExistingStore(path string, do func(*store) error) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no existe la base de datos %s", path)
	}
	return p.withStore(path, do)
}
