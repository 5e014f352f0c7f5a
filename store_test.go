// store_test.go holds the store to what it promises of its file: the settings of every
// connection, whose files it opens, and that what it refuses stays as it was.

package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testStore is a store on a new file, closed in the end.
func testStore(t *testing.T) (*store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "revisor.db")
	return mustOpenStore(t, path), path
}

func mustOpenStore(t *testing.T, path string) *store {
	t.Helper()
	s, err := openStore(path, newTag)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// mustWrite is a write that has to succeed.
func mustWrite(t *testing.T, s *store, do func(*tx) error) {
	t.Helper()
	if err := s.write(context.Background(), do); err != nil {
		t.Fatal(err)
	}
}

// connectionSettings are the pragmas that decide about durability and waiting.
var connectionSettings = []string{
	"journal_mode", "synchronous", "foreign_keys", "auto_vacuum", "busy_timeout", "journal_size_limit", "query_only",
}

func readSettings(t *testing.T, on preparer) map[string]string {
	t.Helper()
	stmts := newStatements(on)
	defer stmts.close()
	settings := map[string]string{}
	for _, name := range connectionSettings {
		var value string
		if err := stmts.queryRow("PRAGMA "+name, nil, &value); err != nil {
			t.Fatalf("PRAGMA %s: %v", name, err)
		}
		settings[name] = value
	}
	if stmt, err := on.PrepareContext(context.Background(), `SELECT "no such column"`); err == nil {
		stmt.Close()
		t.Errorf(`prepare SELECT "no such column" = nil, want an error: double quotes are names`)
	}
	return settings
}

func TestSettingsOfEveryConnection(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	want := map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "auto_vacuum": "2",
		"busy_timeout": "1500", "journal_size_limit": "67108864", "query_only": "0",
	}
	check := func(name string, got map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: settings differ (-want +got):\n%s", name, diff)
		}
	}
	mustWrite(t, s, func(tx *tx) error {
		check("writer", readSettings(t, tx.stmts.on))
		return nil
	})
	if err := s.write(context.Background(), func(tx *tx) error { return tx.exec("ROLLBACK") }); err == nil {
		t.Fatal("write that ends its own transaction = nil, want an error")
	}
	mustWrite(t, s, func(tx *tx) error {
		check("writer, connected anew", readSettings(t, tx.stmts.on))
		return nil
	})
	check("checkpointer", readSettings(t, s.moveDB))
	want["query_only"] = "1"
	for i := range readers { // all of the pool at once
		conn, err := s.readDB.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		check(fmt.Sprint("reader ", i+1), readSettings(t, conn))
		if _, err := conn.ExecContext(context.Background(), `DELETE FROM settings`); err == nil {
			t.Errorf("reader %d: DELETE = nil, want an error", i+1)
		}
	}
}

func TestFileIsMarkedAsOurs(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	var id, version int64
	err := s.reads.queryRow(`SELECT application_id, user_version FROM pragma_application_id, pragma_user_version`, nil, &id, &version)
	if err != nil || id != applicationID || version != schemaVersion {
		t.Errorf("application_id, user_version = %#x, %d, %v, want %#x, %d", id, version, err, applicationID, schemaVersion)
	}
}

// TestOddFileNames: the path is a path, whatever it means in a URI.
func TestOddFileNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a?mode=memory", "b#c", "d%20e", "f g", "año-数据.db", "h&_query_only=1", "i;j", "k'l", `m"n`, "o:p", "file:q", "-r", `s\t`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			s, err := openStore(path, func() string { return "0badcafe" })
			if err != nil {
				t.Fatal(err)
			}
			mustWrite(t, s, func(tx *tx) error {
				_, _, err := tx.insertService("a", "avisos", "http://x/", 2000, time.Now())
				return err
			})
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			if got := filesIn(t, dir); len(got) != 1 || got[name] == "" {
				t.Errorf("files after close = %v, want %q alone", got, name)
			}
			s = mustOpenStore(t, path)
			services, err := s.livingServices("a")
			if err != nil || len(services) != 1 || s.tag != "0badcafe" {
				t.Errorf("reopened: %d services, tag %s, %v, want 1, 0badcafe", len(services), s.tag, err)
			}
		})
	}
}

// filesIn maps the names in a directory to a hash of what they hold.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			files[entry.Name()] = "directory"
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = fmt.Sprintf("%d bytes, %x", len(content), sha256.Sum256(content))
		if strings.HasSuffix(entry.Name(), "-shm") {
			files[entry.Name()] = "index of a log, which any reader may rebuild"
		}
	}
	return files
}

// sqliteFile runs statements on a database of somebody else's and closes it.
func sqliteFile(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// oursAt makes a closed database of ours with some content.
func oursAt(t *testing.T, path string) {
	t.Helper()
	s, err := openStore(path, newTag)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		mustWrite(t, s, func(tx *tx) error {
			_, _, err := tx.insertService("a", fmt.Sprint("s", i), "http://x/"+strings.Repeat("y", 500), 2000, time.Now())
			return err
		})
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// truncatedTo makes a database of ours of which only some bytes are left.
func truncatedTo(size int64) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		oursAt(t, path)
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
}

func written(content string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func sqliteWith(statements ...string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) { sqliteFile(t, path, statements...) }
}

// crashed makes a database whose last process died: what it wrote is in the log only.
func crashed(statements ...string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		live := filepath.Join(t.TempDir(), "live.db")
		db, err := sql.Open("sqlite", live+"?_pragma=journal_mode(wal)&_pragma=wal_autocheckpoint(0)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, statement := range statements {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			content, err := os.ReadFile(live + suffix)
			if err != nil {
				t.Fatal(err)
			}
			written(string(content))(t, path+suffix)
		}
	}
}

// TestRefusedFilesStayAsTheyWere: what is not ours is told so in one line, and neither
// it nor its neighbourhood changes.
func TestRefusedFilesStayAsTheyWere(t *testing.T) {
	t.Parallel()
	const foreign, unreadable, newer = "is the database of another program", "cannot be read as a database",
		"has schema version 99, newer than the 1 that this program knows"
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"text", written("Estimado señor:\n" + strings.Repeat("le escribo. ", 1000)), unreadable},
		{"short text", written("hola\n"), unreadable},
		{"zeros", written(strings.Repeat("\x00", 8192)), unreadable},
		{"directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		{"another program's tables", sqliteWith(`CREATE TABLE notes (text)`, `INSERT INTO notes VALUES ('mine')`), foreign},
		{"another program's tables, named as ours", sqliteWith(`CREATE TABLE services (id)`, `CREATE TABLE settings (name, value)`), foreign},
		{"another program's tables, in WAL mode", sqliteWith(`PRAGMA journal_mode = wal`, `CREATE TABLE notes (text)`), foreign},
		{"another program's tables, at our version", sqliteWith(`CREATE TABLE notes (text)`, `PRAGMA user_version = 1`), foreign},
		{"another program's mark, no tables", sqliteWith(`PRAGMA application_id = 7`), foreign},
		{"another program's version, no tables", sqliteWith(`PRAGMA user_version = 3`), foreign},
		{"another program's tables, in the log only", crashed(`CREATE TABLE notes (text)`, `INSERT INTO notes VALUES ('mine')`), foreign},
		{"newer", sqliteWith(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), `PRAGMA user_version = 99`), newer},
		{"newer, in WAL mode", sqliteWith(`PRAGMA journal_mode = wal`, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), `PRAGMA user_version = 99`), newer},
		{"newer, in the log only", crashed(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), `PRAGMA user_version = 99`), newer},
		{"ours, but it would never shrink", func(t *testing.T, path string) {
			oursAt(t, path)
			sqliteFile(t, path, `PRAGMA journal_mode = delete`, `PRAGMA auto_vacuum = none`, `VACUUM`, `PRAGMA journal_mode = wal`)
		}, "was not made with auto_vacuum = INCREMENTAL"},
		{"ours, truncated in the header", truncatedTo(50), unreadable},
		{"ours, truncated behind the header", truncatedTo(100), unreadable},
		{"ours, truncated in the first page", truncatedTo(4000), unreadable},
		{"ours, truncated after the first page", truncatedTo(4096), "database disk image is malformed"},
		{"ours, truncated in the middle of a page", truncatedTo(5 * 4000), "database disk image is malformed"},
		{"ours, its last page missing", truncatedTo(15 * 4096), "database disk image is malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "revisor.db")
			tt.make(t, path)
			before := filesIn(t, dir)
			s, err := openStore(path, newTag)
			if err == nil {
				s.close()
				t.Fatalf("openStore = nil, want an error with %q", tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("openStore = %q, want one line with %q and the path", err, tt.want)
			}
			if diff := cmp.Diff(before, filesIn(t, dir)); diff != "" {
				t.Errorf("files changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestFilesThatAreAccepted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want int // services
	}{
		{"absent", func(*testing.T, string) {}, 0},
		{"empty", written(""), 0},
		{"a database without anything in it", sqliteWith(`PRAGMA auto_vacuum = incremental`, `VACUUM`), 0},
		{"ours", oursAt, 40},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "revisor.db")
			tt.make(t, path)
			services, err := mustOpenStore(t, path).livingServices("a")
			if err != nil || len(services) != tt.want {
				t.Errorf("livingServices = %d services, %v, want %d", len(services), err, tt.want)
			}
		})
	}
}

func TestNoDirectoryNoDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if s, err := openStore(filepath.Join(dir, "missing", "revisor.db"), newTag); err == nil {
		s.close()
		t.Error("openStore in a missing directory = nil, want an error")
	}
	if got := filesIn(t, dir); len(got) != 0 {
		t.Errorf("files = %v, want none", got)
	}
}

// TestTagIsTheFiles: two new files differ, one file keeps its own.
func TestTagIsTheFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	first := mustOpenStore(t, path)
	again, err := openStore(path, func() string { return "ffffffff" })
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if again.tag != first.tag || len(first.tag) != 8 {
		t.Errorf("tag opened again = %q, want %q, eight digits", again.tag, first.tag)
	}
}

// TestOpenedByManyAtOnce: whoever comes first makes the schema, and nobody is told
// that the database is locked.
func TestOpenedByManyAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	const many = 12
	tags := make([]string, many)
	var opening sync.WaitGroup
	for i := range many {
		opening.Go(func() {
			s, err := openStore(path, newTag)
			if err != nil {
				t.Errorf("openStore = %v, want nil", err)
				return
			}
			tags[i] = s.tag
			if err := s.close(); err != nil {
				t.Errorf("close = %v, want nil", err)
			}
		})
	}
	opening.Wait()
	for _, tag := range tags {
		if tag != tags[0] {
			t.Fatalf("tags = %q, want one", tags)
		}
	}
}

// TestCloseLeavesNothing: no log, no descriptor, and no write afterwards.
func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "revisor.db")
	s, err := openStore(path, newTag)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, s, func(tx *tx) error {
		_, _, err := tx.insertService("a", "avisos", "http://x/", 2000, time.Now())
		return err
	})
	if _, err := s.livingServices("a"); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && len(descriptorsOn(t, path)) == 0 {
		t.Fatal("no descriptor of the open database was found: the test looks in the wrong place")
	}
	if err := s.close(); err != nil {
		t.Fatalf("close = %v, want nil", err)
	}
	if got := filesIn(t, dir); len(got) != 1 {
		t.Errorf("files after close = %v, want the database alone", got)
	}
	if open := descriptorsOn(t, path); len(open) != 0 {
		t.Errorf("descriptors after close = %v, want none", open)
	}
	if err := s.write(context.Background(), func(*tx) error { return nil }); !errors.Is(err, errStoreUnavailable) {
		t.Errorf("write after close = %v, want %v", err, errStoreUnavailable)
	}
}

// descriptorsOn lists this process's descriptors on a database file and what belongs
// to it; none where the system does not tell.
func descriptorsOn(t *testing.T, path string) []string {
	t.Helper()
	var open []string
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if strings.HasPrefix(target, path) {
			open = append(open, target)
		}
	}
	return open
}
