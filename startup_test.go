// startup_test.go holds a real process to refusing a bad start in one line, with the
// right exit status, and without touching anything.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refusedStart is a command line that cannot work. In args and want DIR is the
// directory that must not change, and TAKEN an address that is taken.
type refusedStart struct {
	name string
	make func(t *testing.T, dir string)
	args string
	code int
	want string // in the one line on standard error
}

func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	const free = "--listen 127.0.0.1:0 "
	tests := []refusedStart{
		{"taken port", nil, "--listen TAKEN --db DIR/revisor.db", 1, "TAKEN"},
		{"taken port of the lab", nil, free + "--as revisor,lab --lab-listen TAKEN --db DIR/revisor.db", 1, "lab"},
		{"taken port in a demo", nil, free + "--demo --lab-listen 127.0.0.1:0 --gateway-listen TAKEN --db DIR/revisor.db", 1, "gateway"},
		{"text for a database", file("revisor.db", "hola\n"), free + "--db DIR/revisor.db", 1, "DIR/revisor.db"},
		{"another program's database", foreignDatabase, free + "--db DIR/revisor.db", 1, "otro programa"},
		{"another program's database, in a demo", foreignDatabase, free + "--demo --lab-listen 127.0.0.1:0 --gateway-listen 127.0.0.1:0 --db DIR/revisor.db", 1, "otro programa"},
		{"a newer database", newerDatabase, free + "--db DIR/revisor.db", 1, "versión 99 del esquema, y este programa conoce hasta la 1"},
		{"a directory for a database", nil, free + "--db DIR", 1, "no es un archivo normal"},
		{"no such directory", nil, free + "--db DIR/missing/revisor.db", 1, "DIR/missing/revisor.db"},
		{"credentials of another program's database", foreignDatabase, "credential add ana --team a --role writer --db DIR/revisor.db", 1, "otro programa"},
		{"list of no database", nil, "credential list --db DIR/revisor.db", 1, "DIR/revisor.db"},
		{"revoke in no database", nil, "credential revoke ana --db DIR/revisor.db", 1, "DIR/revisor.db"},
		{"nonsense for an address", nil, "--listen nonsense --db DIR/revisor.db", 2, "nonsense"},
		{"no address at all", nil, "--listen= --db DIR/revisor.db", 2, "host:port"},
		{"a port that cannot be", nil, "--listen 127.0.0.1:99999 --db DIR/revisor.db", 2, "65535"},

		{"unknown flag", nil, "--nonsense", 2, "--nonsense"},
		{"unknown command", nil, "nonsense", 2, "nonsense"},
		{"flag without its value", nil, "--db", 2, "--db"},
		{"unknown role", nil, "--as revisor,nonsense --db DIR/revisor.db", 2, "nonsense"},
		{"no duration", nil, free + "--key-ttl nonsense --db DIR/revisor.db", 2, "--key-ttl"},
		{"no lifetime", nil, free + "--key-ttl 0s --db DIR/revisor.db", 2, "--key-ttl"},
		{"negative lifetime", nil, free + "--key-ttl=-1h --db DIR/revisor.db", 2, "--key-ttl"},
		{"lifetime that is no number", nil, free + "REVISOR_VIGENCIA_MS=nonsense --db DIR/revisor.db", 2, "REVISOR_VIGENCIA_MS"},
		{"lifetime of no milliseconds", nil, free + "REVISOR_VIGENCIA_MS=0 --db DIR/revisor.db", 2, "--key-ttl"},
		{"lifetime of more milliseconds than there are", nil, free + "REVISOR_VIGENCIA_MS=9300000000000 --db DIR/revisor.db", 2, "REVISOR_VIGENCIA_MS"},
		{"lifetime of fewer milliseconds than there are", nil, free + "REVISOR_VIGENCIA_MS=-9223372036854775807 --db DIR/revisor.db", 2, ""},
		{"neither reject nor wait", nil, free + "--in-flight nonsense --db DIR/revisor.db", 2, "--in-flight"},
		{"neither text nor json", nil, free + "--log nonsense --db DIR/revisor.db", 2, "--log"},
		{"no destination", nil, free + "--allow nonsense --db DIR/revisor.db", 2, "--allow"},
		{"no destination, from the environment", nil, free + "REVISOR_DESTINOS=nonsense --db DIR/revisor.db", 2, "nonsense"},
		{"no target", nil, "--as gateway --gateway-listen 127.0.0.1:0 --target nonsense", 2, "--target"},
		{"a role of a demo", nil, "--demo --as lab --db DIR/revisor.db", 2, "--as"},
		{"negative delay", nil, free + "--save-delay=-1s --db DIR/revisor.db", 2, "--save-delay"},
		{"a team for an admin", nil, "credential add ana --team a --role admin --db DIR/revisor.db", 2, "'*'"},
		{"all teams for a writer", nil, "credential add ana --team * --role writer --db DIR/revisor.db", 2, "'*'"},
		{"no such role", nil, "credential add ana --team a --role nonsense --db DIR/revisor.db", 2, "--role"},
		{"no team", nil, "credential add ana --role writer --db DIR/revisor.db", 2, "--team"},
		{"no name", nil, "credential add --team a --role writer --db DIR/revisor.db", 2, ""},
		{"a name that would break a line", nil, "credential add an\na --team a --role writer --db DIR/revisor.db", 2, `"an\na"`},
	}
	taken := testListener(t)
	t.Cleanup(func() { taken.Close() })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if tt.make != nil {
				tt.make(t, dir)
			}
			place := strings.NewReplacer("DIR", dir, "TAKEN", taken.Addr().String())
			before := filesIn(t, dir)
			var args []string
			for _, arg := range strings.Split(tt.args, " ") {
				args = append(args, place.Replace(arg))
			}
			c := spawn(t, args...)
			if code := c.finish(); code != tt.code {
				t.Errorf("exit status = %d, want %d", code, tt.code)
			}
			got, want := c.stderr.String(), place.Replace(tt.want)
			if !strings.HasPrefix(got, "revisor: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
				t.Errorf("standard error = %q, want one line with %q", got, want)
			}
			if out := c.stdout.String(); out != "" {
				t.Errorf("standard output = %q, want nothing", out)
			}
			if diff := cmp.Diff(before, filesIn(t, dir)); diff != "" {
				t.Errorf("files changed (-before +after):\n%s", diff)
			}
			if left := filesIn(t, c.cmd.Dir); len(left) != 0 {
				t.Errorf("made in the working directory: %v, want nothing", left)
			}
		})
	}
}

func file(name, content string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func foreignDatabase(t *testing.T, dir string) {
	sqliteFile(t, filepath.Join(dir, "revisor.db"), `PRAGMA journal_mode = wal`, `CREATE TABLE notes (text)`)
}

func newerDatabase(t *testing.T, dir string) {
	sqliteFile(t, filepath.Join(dir, "revisor.db"), fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), `PRAGMA user_version = 99`)
}

// TestVariablesReachTheServer: where the database is, by default, by variable and by
// flag.
func TestVariablesReachTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	byVariable, byFlag := filepath.Join(dir, "variable.db"), filepath.Join(dir, "flag.db")
	tests := []struct {
		name string
		args []string
		want string // relative to the working directory, if not absolute
	}{
		{"default", nil, "revisor.db"},
		{"variable", []string{"REVISOR_DB=" + byVariable}, byVariable},
		{"flag against variable", []string{"REVISOR_DB=" + filepath.Join(dir, "unused.db"), "--db", byFlag}, byFlag},
	}
	for _, tt := range tests {
		c := spawn(t, append(tt.args, "REVISOR_LISTEN=127.0.0.1:0")...)
		c.ready()
		path := tt.want
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.cmd.Dir, path)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v, want the database there", tt.name, err)
		}
		c.stop()
	}
	if files := filesIn(t, dir); len(files) != 2 {
		t.Errorf("files = %v, want two databases", files)
	}
}
