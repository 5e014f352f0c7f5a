// store_test.go holds the store to what it promises of its file: the settings of every
// connection, how it is named, opened and closed. Files that are not ours are in
// foreign_test.go.

package main

import (
	"context"
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
		"busy_timeout": "100", "journal_size_limit": "67108864", "query_only": "0",
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
	want["busy_timeout"] = "1500" // the writer waits in steps
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

// TestNewFileIsWaitedFor: while another process is making the file, opening it waits.
func TestNewFileIsWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	sqliteFile(t, path, `PRAGMA auto_vacuum = incremental`, `VACUUM`)
	maker, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer maker.Close()
	maker.SetMaxOpenConns(1)
	if _, err := maker.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := openStore(path, newTag)
		if err == nil {
			err = s.close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("openStore of a locked new file = %v at once, want that it waits", err)
	case <-time.After(10 * busyPause):
	}
	if _, err := maker.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("openStore = %v, want nil", err)
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
