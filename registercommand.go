// registercommand.go owns the command register: its flags, which of them go together, and
// a run of one service or of a file of them. It must not know how a registration is made,
// nor how a batch is run.

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

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
func (c *registerCommand) Run(p *process, flags []givenFlag) error {
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
	r := &registrar{
		base: base, token: c.Token, simulate: c.Simulate, noKey: c.NoKey, keyPerAttempt: broken[keyPerAttempt],
		attempts: c.Attempts, attemptTimeout: c.AttemptTimeout,
		newKey: uuid.NewString, random: p.random, wait: pause, now: p.now, out: p.stdout, transport: newTransport(),
	}
	if err := r.validate(); err != nil {
		return &usageError{err}
	}
	s := registration{name: given(c.Name), url: given(c.URL), key: given(c.Key)}
	if err := r.accepts(s); err != nil {
		return &usageError{err}
	}
	if c.From != "" {
		return c.runBatch(p, r, sameAgain(flags))
	}
	if len(broken) > 0 {
		fmt.Fprintf(p.stderr, "aviso: este cliente está estropeado a propósito (%s)\n", broken)
	}
	return told(r.register(p.ctx, s), errNotRegistered)
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
// and found good. again is how a person begins the same run once more.
func (c *registerCommand) runBatch(p *process, r *registrar, again string) error {
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
	b := &batch{name: c.Batch, rows: rows, concurrency: c.Concurrency, registrar: *r, terminal: p.stderr}
	b.run(p.ctx)
	report := newBatchReport(b.name, b.stopped, b.results)
	if c.Format == "json" {
		err = report.printJSON(p.stdout)
	} else {
		err = report.printTable(p.stdout, again)
	}
	if err == nil && !report.Complete {
		return errTold
	}
	return err
}

// sameAgain is the command line of the same run, as a shell reads it, for a terminal whose
// environment may be another one: it goes to the same server in the same way. A credential
// is never shown. From a variable it is taken again; where it stood on the command line
// stands "…", which no credential can be, so that nothing is sent in another one's name.
func sameAgain(flags []givenFlag) string {
	line := "revisor register"
	for _, flag := range flags {
		value := quoted(flag.value)
		switch {
		case flag.name == "token" && flag.variable != "":
			value = `"$` + flag.variable + `"`
		case flag.name == "token":
			value = "…"
		}
		line += " --" + flag.name + "=" + value
	}
	return line
}

// quoted is text as a shell reads it back, harmless on a terminal.
func quoted(text string) string { return printable([]byte(shellQuote(text)), shownBody) }

// given is the text of a flag or an argument, "" when it was not given.
func given(flag *string) string {
	if flag == nil {
		return ""
	}
	return *flag
}
