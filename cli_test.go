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
	{nil, "--save-delay=1s", "REVISOR_SAVE_DELAY", "1s", func(l commandLine) any { return short(l.Serve.SaveDelay) }, nil, time.Second},
	{nil, "--queue-delay=1s", "REVISOR_QUEUE_DELAY", "1s", func(l commandLine) any { return short(l.Serve.QueueDelay) }, nil, time.Second},
	{nil, "--no-simulate", "REVISOR_SIMULATE", "false", func(l commandLine) any { return l.Serve.Simulate }, true, false},
	{nil, "--log=json", "REVISOR_LOG", "json", func(l commandLine) any { return l.Serve.Log }, "text", "json"},

	{[]string{"credential", "list"}, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Credential.List.DB }, "revisor.db", "x.db"},
	{[]string{"credential", "revoke", "ana"}, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Credential.Revoke.DB }, "revisor.db", "x.db"},
	{[]string{"credential", "add", "ana", "--team=a", "--role=writer"}, "--db=x.db", "REVISOR_DB", "x.db", func(l commandLine) any { return l.Credential.Add.DB }, "revisor.db", "x.db"},

	{[]string{"register", "n", "u"}, "--base=http://x", "REVISOR_BASE", "http://x", func(l commandLine) any { return l.Register.Base }, "http://127.0.0.1:18082", "http://x"},
	{[]string{"register", "n", "u"}, "--token=t", "REVISOR_TOKEN", "t", func(l commandLine) any { return l.Register.Token }, "escritura-a", "t"},
	{[]string{"register", "n", "u"}, "--attempts=2", "", "", func(l commandLine) any { return l.Register.Attempts }, 4, 2},
	{[]string{"register", "n", "u"}, "--attempt-timeout=500ms", "ALTA_LIMITE_MS", "500", func(l commandLine) any { return l.Register.AttemptTimeout }, 2 * time.Second, 500 * time.Millisecond},
	{[]string{"register", "n", "u"}, "--no-key", "", "", func(l commandLine) any { return l.Register.NoKey }, false, true},
	{[]string{"register", "n", "u"}, "--sin-llave", "", "", func(l commandLine) any { return l.Register.NoKey }, false, true},
	{[]string{"register", "n", "u"}, "--key=k", "", "", func(l commandLine) any { return l.Register.Key }, "", "k"},
	{[]string{"register", "n", "u"}, "--simulate=", "", "", func(l commandLine) any { return l.Register.Simulate }, "perder-primera", ""},
	{[]string{"verify"}, "--base=http://x", "REVISOR_BASE", "http://x", func(l commandLine) any { return l.Verify.Base }, "http://127.0.0.1:18080", "http://x"},
	{[]string{"verify"}, "--token=t", "REVISOR_TOKEN", "t", func(l commandLine) any { return l.Verify.Token }, "escritura-a", "t"},
	{[]string{"verify"}, "--other-token=t", "", "", func(l commandLine) any { return l.Verify.OtherToken }, "escritura-b", "t"},
	{[]string{"script", "201"}, "--listen=127.0.0.1:1", "", "", func(l commandLine) any { return l.Script.Listen }, "127.0.0.1:18082", "127.0.0.1:1"},
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
				"REVISOR_IN_FLIGHT": "reject", "REVISOR_LOG": "text", "REVISOR_AS": "revisor", "REVISOR_DEMO": "false", "REVISOR_SIMULATE": "true",
				"REVISOR_DESTINOS": "10.9.9.9", "REVISOR_TARGET": "http://y",
			}[o.variable]
			if other == "" {
				other = "other"
			}
			check("flag against variable", environment{o.variable: other}, with(o.flag), o.given)
		})
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
func ran(t *testing.T, env environment, args ...string) (err error, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	err = run(context.Background(), args, env.getenv, &out, &errs)
	return err, out.String(), errs.String()
}

// TestBadValues are told in one line and never begin anything: exit status 2.
func TestBadValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := "--db=" + filepath.Join(dir, "revisor.db")
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
		{"neither reject nor wait", nil, []string{"--in-flight=maybe", db}, "--in-flight"},
		{"neither reject nor wait, by variable", environment{"REVISOR_IN_FLIGHT": "maybe"}, []string{db}, "--in-flight"},
		{"no form of log", environment{"REVISOR_LOG": "xml"}, []string{db}, "--log"},
		{"target without a scheme", nil, []string{"--as=gateway", "--target=127.0.0.1:1"}, "--target"},
		{"target with a path", nil, []string{"--as=gateway", "--target=http://127.0.0.1:1/x"}, "--target"},
		{"a role beside the demo's", nil, []string{"--demo", "--as=revisor"}, "--as"},

		{"credential without a command", nil, []string{"credential"}, "add"},
		{"credential add without a role", nil, []string{"credential", "add", "ana", "--team=a", db}, "--role"},
		{"register without arguments", nil, []string{"register"}, "<name>"},
		{"register without an address", nil, []string{"register", "agenda"}, "<url>"},
		{"register with more", nil, []string{"register", "agenda", "http://x/", "y"}, "y"},
		{"register with a key and without", nil, []string{"register", "agenda", "http://x/", "--key=k", "--no-key"}, "llave"},
		{"register at no server", nil, []string{"register", "agenda", "http://x/", "--base=nonsense"}, "http://"},
		{"register without an attempt", nil, []string{"register", "agenda", "http://x/", "--attempts=0"}, "intento"},
		{"register without time", nil, []string{"register", "agenda", "http://x/", "--attempt-timeout=0s"}, "intento"},
		{"register without time, by variable", environment{"ALTA_LIMITE_MS": "0"}, []string{"register", "agenda", "http://x/"}, "intento"},
		{"verify of no server", nil, []string{"verify", "nonsense"}, "http://"},
		{"script without an answer", nil, []string{"script"}, "<answers>"},
		{"script with no answer", nil, []string{"script", "nonsense"}, "nonsense"},
		{"backoff with an argument", nil, []string{"backoff", "x"}, "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err, stdout, stderr := ran(t, tt.env, tt.args...)
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

// TestHelp: every command's help, as it stands in testdata. It lists every flag with
// the variable that sets its default.
func TestHelp(t *testing.T) {
	t.Parallel()
	const golden = "testdata/help.golden"
	var got strings.Builder
	for _, command := range []string{"", "serve", "register", "verify", "script", "backoff", "credential", "credential add", "credential list", "credential revoke"} {
		args := append(strings.Fields(command), "--help")
		err, stdout, stderr := ran(t, nil, args...)
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
	for _, o := range options {
		name, _, _ := strings.Cut(o.flag, "=")
		name = strings.TrimPrefix(strings.TrimPrefix(name, "--no-"), "--")
		if name != "sin-llave" && !strings.Contains(got.String(), name) || !strings.Contains(got.String(), "$"+o.variable) {
			t.Errorf("help says nothing of --%s, $%s", name, o.variable)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	err, stdout, stderr := ran(t, nil, "--version")
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
