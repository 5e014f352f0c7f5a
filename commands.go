// commands.go owns the commands that run a tool, beside register: one struct per command,
// with its defaults and help, and a Run that sets the piece up and lets it work. It must
// not know how any of them works, nor the database.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// writerFlag is the credential that the tools use.
type writerFlag struct {
	Token string `default:"${writer}" variable:"REVISOR_TOKEN" placeholder:"TOKEN" help:"Credential of a writer (default the demo's ${writer})."`
}

// told turns a failure that the tool has explained into one that needs no more words.
func told(err, explained error) error {
	if errors.Is(err, explained) {
		return errTold
	}
	return err
}

// maxProfile bounds a profile, in bytes.
const maxProfile = 1 << 20

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
		if text, err = p.readFile(c.Profile, maxProfile); err != nil {
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
	p.surviveBrokenPipe()
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
	return nil
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
