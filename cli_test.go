// cli_test.go reads the table of flags, variables and defaults, and holds the command
// line to saying no in one line.

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/help.golden anew")

// environment is what getenv tells.
type environment map[string]string

func (e environment) getenv(name string) string { return e[name] }

// parsed is the command line as the commands see it.
func parsed(t *testing.T, env environment, args ...string) commandLine {
	t.Helper()
	var line commandLine
	p := &process{getenv: env.getenv, stdout: io.Discard, stderr: io.Discard}
	parser, err := newParser(&line, p, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatalf("%v with %v: %v", args, env, err)
	}
	return line
}

// option is one flag of a command, with the way to read its value.
type option struct {
	command  []string
	flag     string // as it is given, with its value
	variable string // "" for none
	value    string // the variable's, in its own form
	read     func(commandLine) any
	byDefault,
	given any
}

func short(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return *d
}

var options = []option{
	{nil, "--as=lab,gateway", "REVISOR_AS", "lab,gateway", func(l commandLine) any { return strings.Join(l.Serve.As, ",") }, "", "lab,gateway"},
	{nil, "--demo", "REVISOR_DEMO", "true", func(l commandLine) any { return l.Serve.Demo }, false, true},
	{nil, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Serve.DB }, "", "x.db"},
	{nil, "--listen=127.0.0.1:1", "REVISOR_LISTEN", "127.0.0.1:1", func(l commandLine) any { return l.Serve.Listen }, "127.0.0.1:18080", "127.0.0.1:1"},
	{nil, "--lab-listen=127.0.0.1:1", "REVISOR_LAB_LISTEN", "127.0.0.1:1", func(l commandLine) any { return l.Serve.LabListen }, "127.0.0.1:18081", "127.0.0.1:1"},
	{nil, "--gateway-listen=127.0.0.1:1", "REVISOR_GATEWAY_LISTEN", "127.0.0.1:1", func(l commandLine) any { return l.Serve.GatewayListen }, "127.0.0.1:18082", "127.0.0.1:1"},
	{nil, "--target=http://x", "REVISOR_TARGET", "http://x", func(l commandLine) any { return l.Serve.Target }, "", "http://x"},
	{nil, "--allow=10.0.0.1:80,10.1.0.0/16", "REVISOR_DESTINOS", "10.0.0.1:80,10.1.0.0/16", func(l commandLine) any { return strings.Join(l.Serve.Allow, ",") }, "", "10.0.0.1:80,10.1.0.0/16"},
	{nil, "--key-ttl=1m30s", "REVISOR_VIGENCIA_MS", "90000", func(l commandLine) any { return l.Serve.KeyTTL }, 24 * time.Hour, 90 * time.Second},
	{nil, "--in-flight=wait", "REVISOR_IN_FLIGHT", "wait", func(l commandLine) any { return l.Serve.InFlight }, "reject", "wait"},
	{nil, "--fingerprint=canonical", "REVISOR_FINGERPRINT", "canonical", func(l commandLine) any { return l.Serve.Fingerprint }, "ordered", "canonical"},
	{nil, "--break=no-scope,ignore-key", "REVISOR_BREAK", "no-scope,ignore-key", func(l commandLine) any { return strings.Join(l.Serve.Break, ",") }, "", "no-scope,ignore-key"},
	{nil, "--save-delay=1s", "REVISOR_SAVE_DELAY", "1s", func(l commandLine) any { return short(l.Serve.SaveDelay) }, nil, time.Second},
	{nil, "--queue-delay=1s", "REVISOR_QUEUE_DELAY", "1s", func(l commandLine) any { return short(l.Serve.QueueDelay) }, nil, time.Second},
	{nil, "--no-check", "REVISOR_CHECK", "false", func(l commandLine) any { return l.Serve.Check }, true, false},
	{nil, "--no-simulate", "REVISOR_SIMULATE", "false", func(l commandLine) any { return l.Serve.Simulate }, true, false},
	{[]string{"--as=gateway"}, "--fault=status=503:Wed, 21 Oct 2026 07:28:00 GMT", "REVISOR_FAULT", "status=503:Wed, 21 Oct 2026 07:28:00 GMT",
		func(l commandLine) any { return strings.Join(l.Serve.Fault, "|") }, "", "status=503:Wed, 21 Oct 2026 07:28:00 GMT"},
	{[]string{"--as=gateway"}, "--plan=testdata/plan.json", "REVISOR_PLAN", "testdata/plan.json", func(l commandLine) any { return bytes.HasPrefix(l.Serve.Plan.Contents, []byte("{")) }, false, true},
	{[]string{"--as=gateway"}, "--seed=7", "REVISOR_SEED", "7", func(l commandLine) any { return l.Serve.Seed != nil && *l.Serve.Seed == 7 }, false, true},
	{[]string{"--as=gateway"}, "--ledger=x", "REVISOR_LEDGER", "x", func(l commandLine) any { return l.Serve.Ledger }, "", "x"},
	{[]string{"--as=gateway"}, "--gateway-admin=127.0.0.1:1", "REVISOR_GATEWAY_ADMIN", "127.0.0.1:1", func(l commandLine) any { return l.Serve.GatewayAdmin }, "", "127.0.0.1:1"},
	{nil, "--log=json", "REVISOR_LOG", "json", func(l commandLine) any { return l.Serve.Log }, "text", "json"},
	{nil, "--lab-max-delay=5s", "REVISOR_LAB_MAX_DELAY", "5s", func(l commandLine) any { return l.Serve.LabMaxDelay }, 100 * time.Second, 5 * time.Second},
	{nil, "--lab-max-bytes=1000", "REVISOR_LAB_MAX_BYTES", "1000", func(l commandLine) any { return l.Serve.LabMaxBytes }, int64(64 << 20), int64(1000)},
	{nil, "--lab-max-requests=3", "REVISOR_LAB_MAX_REQUESTS", "3", func(l commandLine) any { return l.Serve.LabMaxRequests }, 256, 3},

	{[]string{"backup", "copy.db"}, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Backup.DB }, "revisor.db", "x.db"},
	{[]string{"credential", "list"}, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Credential.List.DB }, "revisor.db", "x.db"},
	{[]string{"credential", "revoke", "ana"}, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Credential.Revoke.DB }, "revisor.db", "x.db"},
	{[]string{"credential", "add", "ana", "--team=a", "--role=writer"}, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Credential.Add.DB }, "revisor.db", "x.db"},

	{[]string{"register", "n", "u"}, "--base=http://x", "REVISOR_BASE", "http://x", func(l commandLine) any { return l.Register.Base }, "http://127.0.0.1:18082", "http://x"},
	{[]string{"register", "n", "u"}, "--token=t", "REVISOR_TOKEN", "t", func(l commandLine) any { return l.Register.Token }, "escritura-a", "t"},
	{[]string{"register", "n", "u"}, "--attempts=2", "REVISOR_ATTEMPTS", "2", func(l commandLine) any { return l.Register.Attempts }, 4, 2},
	{[]string{"register", "n", "u"}, "--attempt-timeout=500ms", "ALTA_LIMITE_MS", "500", func(l commandLine) any { return l.Register.AttemptTimeout }, 2 * time.Second, 500 * time.Millisecond},
	{[]string{"register", "n", "u"}, "--no-key", "REVISOR_NO_KEY", "true", func(l commandLine) any { return l.Register.NoKey }, false, true},
	{[]string{"register", "n", "u"}, "--sin-llave", "", "", func(l commandLine) any { return l.Register.NoKey }, false, true},
	{[]string{"register", "n", "u"}, "--key=k", "REVISOR_KEY", "k", func(l commandLine) any { return given(l.Register.Key) }, "", "k"},
	{[]string{"register", "n", "u"}, "--simulate=", "", "", func(l commandLine) any { return l.Register.Simulate }, "perder-primera", ""},
	{[]string{"register", "n", "u"}, "--simulate=x", "REVISOR_REGISTER_SIMULATE", "x", func(l commandLine) any { return l.Register.Simulate }, "perder-primera", "x"},
	{[]string{"register", "n", "u"}, "--break=key-per-attempt", "REVISOR_REGISTER_BREAK", "key-per-attempt", func(l commandLine) any { return strings.Join(l.Register.Break, ",") }, "", "key-per-attempt"},
	{[]string{"register"}, "--from=f.csv", "REVISOR_FROM", "f.csv", func(l commandLine) any { return l.Register.From }, "", "f.csv"},
	{[]string{"register"}, "--batch=b", "REVISOR_BATCH", "b", func(l commandLine) any { return l.Register.Batch }, "", "b"},
	{[]string{"register"}, "--concurrency=8", "REVISOR_CONCURRENCY", "8", func(l commandLine) any { return l.Register.Concurrency }, 4, 8},
	{[]string{"register"}, "--format=json", "REVISOR_REGISTER_FORMAT", "json", func(l commandLine) any { return l.Register.Format }, "table", "json"},
	{[]string{"verify"}, "--base=http://x", "REVISOR_BASE", "http://x", func(l commandLine) any { return l.Verify.Base }, "", "http://x"},
	{[]string{"verify"}, "--profile=x.json", "REVISOR_PROFILE", "x.json", func(l commandLine) any { return l.Verify.Profile }, "", "x.json"},
	{[]string{"verify"}, "--print-profile", "REVISOR_PRINT_PROFILE", "true", func(l commandLine) any { return l.Verify.PrintProfile }, false, true},
	{[]string{"verify"}, "--format=tap", "REVISOR_FORMAT", "tap", func(l commandLine) any { return l.Verify.Format }, "text", "tap"},
	{[]string{"verify"}, "--token=t", "REVISOR_TOKEN", "t", func(l commandLine) any { return l.Verify.Token }, "escritura-a", "t"},
	{[]string{"verify"}, "--other-token=t", "REVISOR_OTHER_TOKEN", "t", func(l commandLine) any { return l.Verify.OtherToken }, "escritura-b", "t"},
	{[]string{"experiment"}, "--format=csv", "REVISOR_EXPERIMENT_FORMAT", "csv", func(l commandLine) any { return l.Experiment.Format }, "table", "csv"},
	{[]string{"script", "201"}, "--listen=127.0.0.1:1", "REVISOR_GATEWAY_LISTEN", "127.0.0.1:1", func(l commandLine) any { return l.Script.Listen }, "127.0.0.1:18082", "127.0.0.1:1"},
	{[]string{"script", "201"}, "--log=json", "REVISOR_LOG", "json", func(l commandLine) any { return l.Script.Log }, "text", "json"},
}

// TestOptions: the default holds, a variable sets it, an empty variable does not, and a
// flag wins.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range options {
		name, _, _ := strings.Cut(o.flag, "=")
		t.Run(strings.Join(append(o.command, name), " "), func(t *testing.T) {
			t.Parallel()
			with := func(args ...string) []string { return append(append([]string{}, o.command...), args...) }
			check := func(how string, env environment, args []string, want any) {
				t.Helper()
				if diff := cmp.Diff(want, o.read(parsed(t, env, args...))); diff != "" {
					t.Errorf("%s differs (-want +got):\n%s", how, diff)
				}
			}
			check("default", nil, with(), o.byDefault)
			check("flag", nil, with(o.flag), o.given)
			if o.variable == "" {
				return
			}
			check("variable", environment{o.variable: o.value}, with(), o.given)
			check("empty variable", environment{o.variable: ""}, with(), o.byDefault)
			other := map[string]string{
				"REVISOR_VIGENCIA_MS": "1", "ALTA_LIMITE_MS": "1", "REVISOR_SAVE_DELAY": "2s", "REVISOR_QUEUE_DELAY": "2s",
				"REVISOR_FINGERPRINT": "ordered", "REVISOR_BREAK": "no-fingerprint", "REVISOR_ATTEMPTS": "9", "REVISOR_CHECK": "true",
				"REVISOR_IN_FLIGHT": "reject", "REVISOR_LOG": "text", "REVISOR_AS": "revisor", "REVISOR_DEMO": "false", "REVISOR_SIMULATE": "true",
				"REVISOR_NO_KEY": "false", "REVISOR_PRINT_PROFILE": "false", "REVISOR_FORMAT": "json", "REVISOR_DESTINOS": "10.9.9.9", "REVISOR_TARGET": "http://y",
				"REVISOR_PLAN": "testdata/help.golden", "REVISOR_SEED": "9", "REVISOR_EXPERIMENT_FORMAT": "json",
				"REVISOR_LAB_MAX_DELAY": "1s", "REVISOR_LAB_MAX_BYTES": "1", "REVISOR_LAB_MAX_REQUESTS": "1",
			}[o.variable]
			if other == "" {
				other = "other"
			}
			check("flag against variable", environment{o.variable: other}, with(o.flag), o.given)
		})
	}
}

// TestRequiredByVariable: what a command cannot do without may come from a variable too.
func TestRequiredByVariable(t *testing.T) {
	t.Parallel()
	got := parsed(t, environment{"REVISOR_TEAM": "a", "REVISOR_ROLE": "writer"}, "credential", "add", "ana").Credential.Add
	if got.Team != "a" || got.Role != "writer" {
		t.Errorf("team and role = %q, %q, want a, writer", got.Team, got.Role)
	}
	got = parsed(t, environment{"REVISOR_TEAM": "a", "REVISOR_ROLE": "writer"}, "credential", "add", "ana", "--team=b", "--role=reader").Credential.Add
	if got.Team != "b" || got.Role != "reader" {
		t.Errorf("team and role = %q, %q, want the flags', b, reader", got.Team, got.Role)
	}
}

// TestNoFaultAgainstAVariable: that register asks for no fault can be said whatever the
// variable says.
func TestNoFaultAgainstAVariable(t *testing.T) {
	t.Parallel()
	if got := parsed(t, environment{"REVISOR_REGISTER_SIMULATE": "x"}, "register", "n", "u", "--simulate=").Register.Simulate; got != "" {
		t.Errorf("simulate = %q, want none", got)
	}
}

// TestBrokenOnLoopbackOnly: only the addresses of roles that run are judged.
func TestBrokenOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		c    serveCommand
		want string // of the error
	}{
		{"on loopback", serveCommand{Listen: "127.0.0.1:0"}, ""},
		{"by name", serveCommand{Listen: "localhost:0"}, ""},
		{"on every address", serveCommand{Listen: ":0"}, "revisor"},
		{"on an address of the network", serveCommand{Listen: "192.0.2.1:0"}, "revisor"},
		{"a role that does not run", serveCommand{Listen: "127.0.0.1:0", LabListen: ":0"}, ""},
		{"a role that runs beside", serveCommand{Listen: "127.0.0.1:0", LabListen: ":0", As: []string{"lab", "revisor"}}, "lab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.c.KeyTTL, tt.c.Break = time.Hour, []string{"no-scope"}
			tt.c.labFlags = labFlags{LabMaxBytes: 1, LabMaxRequests: 1}
			err := tt.c.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Validate() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestBrokenRegisterWarns: nobody uses a client that is broken on purpose unawares.
func TestBrokenRegisterWarns(t *testing.T) {
	t.Parallel()
	_, stderr, _ := ran(t, nil, "register", "n", "http://x/", "--break=key-per-attempt", "--attempts=1", "--base="+closedPort(t))
	if !strings.Contains(stderr, "key-per-attempt") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("standard error = %q, want one line with key-per-attempt", stderr)
	}
}

// TestNoPlan: an empty name is no plan, whatever directory one stands in.
func TestNoPlan(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--as=gateway", "--plan="}, {"--as=gateway", "--plan", ""}} {
		line := parsed(t, environment{"REVISOR_PLAN": "testdata/plan.json"}, args...)
		if o, err := line.Serve.options(); err != nil || len(o.faults) != 0 || o.seed != nil {
			t.Errorf("%q = %d faults, %v, want none", args, len(o.faults), err)
		}
	}
}

// TestTargets: what is not the gateway's own address is none of its business.
func TestTargets(t *testing.T) {
	t.Parallel()
	tests := []struct{ target, listen string }{
		{"http://127.0.0.1:18083", "127.0.0.1:18082"},
		{"http://127.0.0.2:18082", "127.0.0.1:18082"},
		{"http://192.0.2.1:18082", "127.0.0.1:18082"},
		{"http://192.0.2.1:18082", "0.0.0.0:18082"},
		{"http://a.example:18082", "b.example:18082"},
		{"http://127.0.0.1:1", "127.0.0.1:0"},
		{"http://[::1]:18082", "127.0.0.1:18082"},
		{"https://127.0.0.1", "127.0.0.1:80"},
	}
	for _, tt := range tests {
		line := parsed(t, nil, "--as=gateway", "--target="+tt.target, "--gateway-listen="+tt.listen)
		if o, err := line.Serve.options(); err != nil || o.target.String() != tt.target {
			t.Errorf("--target=%s, listening on %s: %v, %v, want it taken", tt.target, tt.listen, o.target, err)
		}
	}
}

// TestServeIsTheDefault: servers need no command.
func TestServeIsTheDefault(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--db=x.db"}, {"serve", "--db=x.db"}} {
		if got := parsed(t, nil, args...).Serve.DB; got != "x.db" {
			t.Errorf("%v: db = %q, want x.db", args, got)
		}
	}
}

// ran runs the whole program in this process, to its end.
func ran(t *testing.T, env environment, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = run(context.Background(), args, env.getenv, &out, &errs)
	return out.String(), errs.String(), err
}

// TestBadValues are told in one line and never begin anything: exit status 2.
func TestBadValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := "--db=" + filepath.Join(dir, "revisor.db")
	wrongPlan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(wrongPlan, []byte(`{"fallas":[{"punto":7}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		env  environment
		args []string
		want string
	}{
		{"unknown flag", nil, []string{"--nonsense"}, "--nonsense"},
		{"unknown command", nil, []string{"nonsense"}, "nonsense"},
		{"a value for a switch", nil, []string{"--demo=perhaps"}, "--demo"},
		{"unknown role", nil, []string{"--as=revisor,nonsense", db}, `"nonsense"`},
		{"empty role", nil, []string{"--as=revisor,,lab", db}, `""`},
		{"unknown role, by variable", environment{"REVISOR_AS": "nonsense"}, []string{db}, `"nonsense"`},
		{"no duration", nil, []string{"--key-ttl=1", db}, "--key-ttl"},
		{"no number of milliseconds", environment{"REVISOR_VIGENCIA_MS": "1s"}, []string{db}, "REVISOR_VIGENCIA_MS"},
		{"a fraction of milliseconds", environment{"REVISOR_VIGENCIA_MS": "1.5"}, []string{db}, "REVISOR_VIGENCIA_MS"},
		{"more milliseconds than there are", environment{"REVISOR_VIGENCIA_MS": "9223372036855"}, []string{db}, "REVISOR_VIGENCIA_MS"},
		{"no lifetime", environment{"REVISOR_VIGENCIA_MS": "0"}, []string{db}, "--key-ttl"},
		{"negative lifetime", environment{"REVISOR_VIGENCIA_MS": "-1"}, []string{db}, "--key-ttl"},
		{"delay as long as the work may take", nil, []string{"--save-delay=30s", db}, "--save-delay"},
		{"negative delay, by variable", environment{"REVISOR_QUEUE_DELAY": "-1s"}, []string{db}, "--queue-delay"},
		{"a lab that answers before it is asked", nil, []string{"--as=lab", "--lab-max-delay=-1s"}, "--lab-max-delay"},
		{"a lab without a byte", nil, []string{"--as=lab", "--lab-max-bytes=0"}, "--lab-max-bytes"},
		{"a lab whose sums would overflow", nil, []string{"--as=lab", "--lab-max-bytes=9223372036854775807"}, "--lab-max-bytes"},
		{"a lab without a request, by variable", environment{"REVISOR_LAB_MAX_REQUESTS": "0"}, []string{"--as=lab"}, "--lab-max-requests"},
		{"neither reject nor wait", nil, []string{"--in-flight=maybe", db}, "--in-flight"},
		{"neither reject nor wait, by variable", environment{"REVISOR_IN_FLIGHT": "maybe"}, []string{db}, "--in-flight"},
		{"no form of log", environment{"REVISOR_LOG": "xml"}, []string{db}, "--log"},
		{"target without a scheme", nil, []string{"--as=gateway", "--target=127.0.0.1:1"}, "--target"},
		{"target without a scheme is told with one", nil, []string{"--as=gateway", "--target=127.0.0.1:18090"}, "write http://127.0.0.1:18090"},
		{"a target by name without a scheme", nil, []string{"--as=gateway", "--target=localhost:80"}, "write http://localhost:80"},
		{"a target that is a port", nil, []string{"--as=gateway", "--target=http://127.0.0.1:99999"}, "port from 1 to 65535"},
		{"a target at port 0", nil, []string{"--as=gateway", "--target=http://127.0.0.1:0"}, "port from 1 to 65535"},
		{"the gateway as its own target", nil, []string{"--as=gateway", "--target=http://127.0.0.1:18082"}, "itself listens on"},
		{"the gateway as its own target, which was not said", nil, []string{"--as=gateway", "--gateway-listen=127.0.0.1:18080"}, "itself listens on"},
		{"the gateway as its own target, by name", nil, []string{"--as=gateway", "--target=http://LOCALHOST:9", "--gateway-listen=127.0.0.1:9"}, "itself listens on"},
		{"the gateway as its own target, on all addresses", nil, []string{"--as=gateway", "--target=http://[::1]:9", "--gateway-listen=:9"}, "itself listens on"},
		{"the gateway as its own target, at its default port", nil, []string{"--as=gateway", "--target=http://a.example", "--gateway-listen=a.example:80"}, "itself listens on"},
		{"target with a path", nil, []string{"--as=gateway", "--target=http://127.0.0.1:1/x"}, "--target"},
		{"unknown point of a fault", nil, []string{"--as=gateway", "--fault=sometimes"}, `"sometimes"`},
		{"unknown point of a fault, by variable", environment{"REVISOR_FAULT": "sometimes"}, []string{"--as=gateway"}, `"sometimes"`},
		{"a plan that is not there", nil, []string{"--as=gateway", "--plan=" + filepath.Join(dir, "none.json")}, "--plan"},
		{"a plan that is none", nil, []string{"--as=gateway", "--plan=testdata/help.golden"}, "--plan"},
		{"a plan that is wrong names its file and member", nil, []string{"--as=gateway", "--plan=" + wrongPlan}, wrongPlan + ": /fallas/0/punto: wanted"},
		{"a seed without a gateway", nil, []string{"--as=lab", "--seed=3"}, "--seed"},
		{"a role that is not a command", nil, []string{"gateway"}, "did you mean --as gateway?"},
		{"another", nil, []string{"lab", "--log=json"}, "did you mean --as lab?"},
		{"a seed that is no number", nil, []string{"--as=gateway", "--seed=x"}, "--seed"},
		{"a fault without a gateway", nil, []string{"--fault=after", db}, "gateway"},
		{"a ledger without a gateway", nil, []string{"--ledger=" + filepath.Join(dir, "x"), db}, "gateway"},
		{"an address for the ledger without a gateway", nil, []string{"--gateway-admin=127.0.0.1:0", db}, "gateway"},
		{"no address for the ledger", nil, []string{"--as=gateway", "--gateway-admin=nonsense"}, "nonsense"},
		{"a role beside the demo's", nil, []string{"--demo", "--as=revisor"}, "--as"},

		{"credential without a command", nil, []string{"credential"}, "add"},
		{"credential add without a role", nil, []string{"credential", "add", "ana", "--team=a", db}, "--role"},
		{"register without arguments", nil, []string{"register"}, "<name>"},
		{"register without an address", nil, []string{"register", "agenda"}, "<url>"},
		{"register with more", nil, []string{"register", "agenda", "http://x/", "y"}, "y"},
		{"register with a key and without", nil, []string{"register", "agenda", "http://x/", "--key=k", "--no-key"}, "--no-key"},
		{"register at no server", nil, []string{"register", "agenda", "http://x/", "--base=nonsense"}, "http://"},
		{"register without an attempt", nil, []string{"register", "agenda", "http://x/", "--attempts=0"}, "--attempts"},
		{"register without time", nil, []string{"register", "agenda", "http://x/", "--attempt-timeout=0s"}, "--attempt-timeout"},
		{"register without time, by variable", environment{"ALTA_LIMITE_MS": "0"}, []string{"register", "agenda", "http://x/"}, "--attempt-timeout"},
		{"a batch without a name", nil, []string{"register", "--from=x.csv"}, "--batch"},
		{"a batch and a service", nil, []string{"register", "agenda", "http://x/", "--from=x.csv", "--batch=b"}, "--from and <name> <url>"},
		{"a batch without keys", nil, []string{"register", "--from=x.csv", "--batch=b", "--no-key"}, "--no-key"},
		{"a batch with one key", nil, []string{"register", "--from=x.csv", "--batch=b", "--key=k"}, "--key"},
		{"a batch with a defect", nil, []string{"register", "--from=x.csv", "--batch=b", "--break=key-per-attempt"}, "--break"},
		{"a batch that nobody sends", nil, []string{"register", "--from=x.csv", "--batch=b", "--concurrency=0"}, "--concurrency"},
		{"a batch that too many send", environment{"REVISOR_CONCURRENCY": "65"}, []string{"register", "--from=x.csv", "--batch=b"}, "--concurrency"},
		{"a batch from no file", nil, []string{"register", "--from=" + filepath.Join(dir, "x.csv"), "--batch=b"}, "x.csv"},
		{"a batch from a directory", nil, []string{"register", "--from=" + dir, "--batch=b"}, "directory"},
		{"a batch from an empty file", nil, []string{"register", "--from=" + os.DevNull, "--batch=b"}, "no rows"},
		{"a batch's name alone", nil, []string{"register", "agenda", "http://x/", "--batch=b"}, "--from"},
		{"one service's result as JSON", nil, []string{"register", "agenda", "http://x/", "--format=json"}, "--from"},
		{"no form of a result", nil, []string{"register", "--from=x.csv", "--batch=b", "--format=xml"}, "--format"},
		{"verify of no server", nil, []string{"verify", "nonsense"}, "http://"},
		{"script without an answer", nil, []string{"script"}, "<answers>"},
		{"script with no answer", nil, []string{"script", "nonsense"}, "nonsense"},
		{"experiment in no format", nil, []string{"experiment", "--format=xml"}, "--format"},
		{"backoff with an argument", nil, []string{"backoff", "x"}, "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := ran(t, tt.env, tt.args...)
			var usage *usageError
			if !errors.As(err, &usage) || exitStatus(err) != 2 {
				t.Fatalf("run(%q) = %v, exit status %d, want a usageError, 2", tt.args, err, exitStatus(err))
			}
			if text := err.Error(); !strings.Contains(text, tt.want) || strings.Contains(text, "\n") {
				t.Errorf("run(%q) = %q, want one line with %q", tt.args, text, tt.want)
			}
			if stdout != "" || stderr != "" {
				t.Errorf("run(%q) said %q, %q, want nothing more", tt.args, stdout, stderr)
			}
		})
	}
	t.Cleanup(func() {
		if files := filesIn(t, dir); len(files) != 0 {
			t.Errorf("files = %v, want none", files)
		}
	})
}

// TestHelp: every command's help, as it stands in testdata.
func TestHelp(t *testing.T) {
	t.Parallel()
	const golden = "testdata/help.golden"
	var got strings.Builder
	for _, command := range []string{"", "serve", "register", "verify", "script", "backoff", "experiment", "credential", "credential add", "credential list", "credential revoke"} {
		args := append(strings.Fields(command), "--help")
		stdout, stderr, err := ran(t, nil, args...)
		if err != nil || stderr != "" {
			t.Errorf("run(%q) = %v, standard error %q, want nil, nothing", args, err, stderr)
		}
		got.WriteString("$ revisor " + strings.Join(args, " ") + "\n" + stdout + "\n")
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("help differs (-want +got); go test -run TestHelp -update writes it anew:\n%s", diff)
	}
}

// TestEveryFlagIsARow: a flag that is not in the table above has no test.
func TestEveryFlagIsARow(t *testing.T) {
	t.Parallel()
	var line commandLine
	parser, err := newParser(&line, &process{getenv: environment{}.getenv, stdout: io.Discard, stderr: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // the variable, by command and flag
	for _, o := range options {
		ctx, err := parser.Parse(o.command)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(o.flag, "=")
		rows[ctx.Selected().FullPath()+" --"+strings.TrimPrefix(strings.TrimPrefix(name, "--"), "no-")] = o.variable
		rows[ctx.Selected().FullPath()+" "+name] = o.variable
	}
	var look func(node *kong.Node)
	look = func(node *kong.Node) {
		for _, flag := range node.Flags {
			if flag.Required || flag.Name == "help" || flag.Name == "version" {
				continue
			}
			row := node.FullPath() + " --" + flag.Name
			variable, ok := rows[row]
			if has := flag.Tag.Get("variable") + flag.Tag.Get("milliseconds"); !ok || variable != has {
				t.Errorf("%s has variable %q, and in the table %q (a row: %v)", row, has, variable, ok)
			}
		}
		for _, child := range node.Children {
			look(child)
		}
	}
	look(parser.Model.Node)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := ran(t, nil, "--version")
	if err != nil || stdout != version()+"\n" || stderr != "" {
		t.Errorf("run(--version) = %v, %q, %q, want nil, the version, nothing", err, stdout, stderr)
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, 0},
		{"wrong arguments", &usageError{errors.New("x")}, 2},
		{"wrong arguments, wrapped", errors.Join(errors.New("y"), &usageError{errors.New("x")}), 2},
		{"anything else", errors.New("x"), 1},
		{"told already", errTold, 1},
	}
	for _, tt := range tests {
		if got := exitStatus(tt.err); got != tt.want {
			t.Errorf("exitStatus(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}
