// arch_test.go puts back the walls that a flat package gives up: it parses our own
// files and fails when one knows what its header says it must not.

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sourceFile is one parsed file of ours.
type sourceFile struct {
	name    string
	test    bool
	text    string
	tree    *ast.File
	set     *token.FileSet
	imports []string
}

func parseSources(t *testing.T) []sourceFile {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("Glob(*.go) = %v, %v", names, err)
	}
	var files []sourceFile
	set := token.NewFileSet()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		f := sourceFile{name: name, test: strings.HasSuffix(name, "_test.go"), text: string(text), tree: tree, set: set}
		for _, spec := range tree.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			f.imports = append(f.imports, path)
		}
		files = append(files, f)
	}
	return files
}

// uses lists the selectors pkg.Name in a file.
func (f sourceFile) uses(pkg, name string) bool {
	found := false
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == pkg && sel.Sel.Name == name {
				found = true
			}
		}
		return true
	})
	return found
}

// TestImportWalls: who may import what. A package not named here may be imported by
// anyone.
func TestImportWalls(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"database/sql":                        {"store.go", "dbfile.go", "statements.go", "writer.go", "checkpoint.go"},
		"database/sql/driver":                 {"writer.go"},
		"modernc.org/sqlite":                  {"statements.go"},
		"modernc.org/sqlite/lib":              {"statements.go"},
		"github.com/alecthomas/kong":          {"cli.go"},
		"github.com/nlnwa/whatwg-url/url":     {"serviceurl.go"},
		"github.com/schollz/progressbar/v3":   {"progress.go"},
		"github.com/mattn/go-isatty":          {"progress.go"},
		"github.com/dunglas/httpsfv":          {"fingerprint.go"},
		"os":                                  {"main.go", "databasecommands.go", "input.go", "dbfile.go", "backup.go"},
		"os/signal":                           {"main.go"},
		"math/rand/v2":                        {"main.go"},
		"net/http/httptrace":                  {"attempt.go"},
		"net/http/httputil":                   {"gateway.go"},
		"github.com/julienschmidt/httprouter": {"http.go", "server.go", "services.go", "v1.go", "revisions.go", "maintenance.go", "policy.go"},
		"net/http": {
			"http.go", "serve.go", "close.go", "problem.go", "revisor.go", "server.go", "services.go", "v1.go", "revisions.go", "maintenance.go", "credentials.go", "idempotency.go", "policy.go",
			"checker.go", "transport.go", "lab.go", "labroutes.go", "labanswers.go", "rawanswers.go", "rawforms.go", "rawconnection.go", "gateway.go", "exchange.go", "upload.go", "delivery.go", "duplicate.go", "ledger.go", "script.go", "attempt.go", "register.go", "outcome.go", "verify.go", "fit.go", "lost.go", "aftermath.go", "rawcall.go", "request.go", "counting.go",
			"main.go", "defects.go", "experiment.go", "observer.go",
		},
	}
	for _, f := range parseSources(t) {
		if f.test {
			continue
		}
		for _, path := range f.imports {
			if who, walled := allowed[path]; walled && !slices.Contains(who, f.name) {
				t.Errorf("%s imports %s; allowed: %v", f.name, path, who)
			}
		}
	}
}

// TestPureFiles: what is pure imports no world: no servers, storage, files, and does
// not ask the clock. The tool backoff only counts and prints.
func TestPureFiles(t *testing.T) {
	t.Parallel()
	world := []string{"net/http", "net", "os", "database/sql", "log/slog", "context"}
	for _, f := range parseSources(t) {
		if !slices.Contains(pure, f.name) && f.name != "backoff.go" {
			continue
		}
		for _, path := range f.imports {
			if slices.Contains(world, path) {
				t.Errorf("%s is pure and imports %s", f.name, path)
			}
		}
	}
}

// TestForbiddenCalls: the clock, the environment and the end of the process come in
// through main.go. Deadlines on connections are the exception: they need real time.
func TestForbiddenCalls(t *testing.T) {
	t.Parallel()
	rules := []struct {
		pkg, name string
		allowed   []string
	}{
		{"time", "Now", []string{"main.go", "http.go", "close.go", "upload.go", "delivery.go", "rawconnection.go"}},
		{"time", "Since", nil},
		{"time", "Sleep", nil},
		{"time", "After", nil},
		{"os", "Getenv", []string{"main.go"}},
		{"os", "LookupEnv", nil},
		{"os", "Exit", []string{"main.go"}},
		{"os", "Args", []string{"main.go"}},
		{"os", "Stdout", []string{"main.go"}},
		{"os", "Stderr", []string{"main.go"}},
		{"http", "DefaultClient", nil},
		{"http", "DefaultTransport", nil},
		{"http", "Get", nil},
		{"http", "Post", nil},
		{"http", "Error", nil},
	}
	for _, f := range parseSources(t) {
		if f.test {
			continue
		}
		for _, rule := range rules {
			if f.uses(rule.pkg, rule.name) && !slices.Contains(rule.allowed, f.name) {
				t.Errorf("%s uses %s.%s; allowed: %v", f.name, rule.pkg, rule.name, rule.allowed)
			}
		}
	}
}

// sqlText finds SQL: a statement's keywords, in capitals, inside a literal.
var sqlText = regexp.MustCompile("[\"`]\\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|VACUUM)\\s+[A-Za-z(*]")

// TestSQLStaysInTheStore: only the store writes SQL, and the writer its transactions.
func TestSQLStaysInTheStore(t *testing.T) {
	t.Parallel()
	for _, f := range parseSources(t) {
		if f.test || f.name == "store.go" || f.name == "dbfile.go" || f.name == "backup.go" || f.name == "writer.go" {
			continue
		}
		if found := sqlText.FindString(f.text); found != "" {
			t.Errorf("%s holds SQL: %s", f.name, found)
		}
	}
}

// TestPackageVariables: no wiring by package variable. What stands at the top level
// is an error value, a compiled pattern, a read-only table, a template or an embedded
// file, and nobody assigns to it.
func TestPackageVariables(t *testing.T) {
	t.Parallel()
	files := parseSources(t)
	names := map[string]bool{}
	for _, f := range files {
		if f.test {
			continue
		}
		for _, decl := range f.tree.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for _, id := range spec.(*ast.ValueSpec).Names {
					names[id.Name] = true
				}
			}
		}
	}
	for _, f := range files {
		if f.test {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || assign.Tok == token.DEFINE {
				return true
			}
			for _, left := range assign.Lhs {
				if id, ok := left.(*ast.Ident); ok && id.Obj == nil && names[id.Name] {
					t.Errorf("%s: package variable %s is assigned to", f.set.Position(assign.Pos()), id.Name)
				}
			}
			return true
		})
	}
}

// TestFileHeaders: each file, the tests too, says in its first lines what it owns, and
// none is called after a drawer.
func TestFileHeaders(t *testing.T) {
	t.Parallel()
	drawers := regexp.MustCompile(`^(util|utils|helpers|common|types|models|handlers|misc|base)\.go$`)
	for _, f := range parseSources(t) {
		if drawers.MatchString(f.name) {
			t.Errorf("%s is named after a drawer", f.name)
		}
		want := "// " + f.name
		if f.name == "main.go" {
			want = "// Revisor" // the package comment, and the map
		}
		text := f.text
		if strings.HasPrefix(text, "//go:build ") {
			_, text, _ = strings.Cut(text, "\n\n")
		}
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s does not begin with %q and what it owns", f.name, want)
		}
	}
}

// TestMap: the map at the top of main.go names every file once, and no other.
func TestMap(t *testing.T) {
	t.Parallel()
	named, exists := map[string]int{}, map[string]bool{}
	for _, f := range parseSources(t) {
		if !f.test {
			exists[f.name] = true
		}
		if f.name == "main.go" {
			for _, name := range regexp.MustCompile(`[a-z0-9]+\.go`).FindAllString(f.tree.Doc.Text(), -1) {
				named[name]++
			}
		}
	}
	for name := range exists {
		if named[name] != 1 {
			t.Errorf("the map names %s %d times, want once", name, named[name])
		}
	}
	for name := range named {
		if !exists[name] {
			t.Errorf("the map names %s, which does not exist", name)
		}
	}
}

// TestFunctionLength: a function that no longer fits on a screen is two.
func TestFunctionLength(t *testing.T) {
	t.Parallel()
	const most = 60
	for _, f := range parseSources(t) {
		if f.test {
			continue
		}
		for _, decl := range f.tree.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1
			if lines > most {
				t.Errorf("%s: %s has %d lines, want at most %d", f.name, fn.Name.Name, lines, most)
			}
		}
	}
}
