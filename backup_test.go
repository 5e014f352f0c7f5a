// backup_test.go: a copy is whole, replaces nothing, and a damaged file is told from a
// sound one.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupWhileWriting: the copy holds what was acknowledged before it began, each
// effect with its key, and can be served from.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for i := range 20 {
		b.call("POST", "/servicios", "escritura-a", b.service(fmt.Sprint("antes-", i)), fmt.Sprint("Idempotency-Key: antes-", i))
	}
	ctx, stop := context.WithCancel(context.Background())
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for i := 0; ctx.Err() == nil; i++ {
			b.try(ctx, "POST", "/servicios", "escritura-a", b.service(fmt.Sprint("durante-", i)), fmt.Sprint("Idempotency-Key: durante-", i))
		}
	}()
	path := filepath.Join(t.TempDir(), "copia.db")
	if err := b.store.backup(path); err != nil {
		t.Fatal(err)
	}
	stop()
	<-writing
	if err := checkIntegrity(path); err != nil {
		t.Errorf("checkIntegrity of the copy = %v, want nil", err)
	}
	restored := newBench(t, benchOptions{path: path})
	for i := range 20 {
		got := restored.call("POST", "/servicios", "escritura-a", b.service(fmt.Sprint("antes-", i)), fmt.Sprint("Idempotency-Key: antes-", i))
		if got.status != 201 || got.replayed() != "true" {
			t.Errorf("key antes-%d in the copy = %s, Idempotency-Replayed %q, want the recorded answer", i, got.verdict(), got.replayed())
		}
	}
	var services, keys int
	mustWrite(t, restored.store, func(tx *tx) error {
		if err := tx.stmts.queryRow(`SELECT COUNT(*) FROM services`, nil, &services); err != nil {
			return err
		}
		return tx.stmts.queryRow(`SELECT COUNT(*) FROM keys`, nil, &keys)
	})
	if services != keys {
		t.Errorf("the copy has %d services and %d keys, want as many", services, keys)
	}
}

func TestBackupReplacesNothing(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	path := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.backup(path); err == nil {
		t.Error("backup over a file = nil, want an error")
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file now holds %q, want what it held", text)
	}
	if err := s.backup(filepath.Join(t.TempDir(), "no", "such", "directory")); err == nil {
		t.Error("backup into nowhere = nil, want an error")
	}
}

// TestBackupNames: whatever the file is called, it is that file, and nothing else is left.
func TestBackupNames(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	for _, name := range []string{"copia.db", "file:copia", "file:x?mode=rwc", "a#b", "a%20b", "con espacio", "it's", `"q"`} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := s.backup(path); err != nil {
			t.Errorf("backup to %q = %v, want nil", name, err)
		}
		if err := checkIntegrity(path); err != nil {
			t.Errorf("checkIntegrity(%q) = %v, want nil", name, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 || left[0].Name() != name {
			t.Errorf("backup to %q leaves %v, want that file alone", name, left)
		}
	}
}

// TestBackupsAtOnce: of several to one name, one has it, whole, and the others are told.
func TestBackupsAtOnce(t *testing.T) {
	t.Parallel()
	_, database := testStore(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "copia.db")
	mine := filepath.Join(dir, "copia.db.partial")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	results := make(chan error)
	const many = 6
	for range many {
		go func() {
			s, err := openStore(database, newTag)
			if err == nil {
				err = errors.Join(s.backup(path), s.close())
			}
			results <- err
		}()
	}
	made := 0
	for range many {
		if err := <-results; err == nil {
			made++
		} else if !strings.Contains(err.Error(), "ya existe") {
			t.Errorf("backup = %v, want that it exists", err)
		}
	}
	if made != 1 {
		t.Errorf("%d backups have the name, want 1", made)
	}
	if err := checkIntegrity(path); err != nil {
		t.Errorf("checkIntegrity = %v, want nil", err)
	}
	if text, _ := os.ReadFile(mine); string(text) != "mine" {
		t.Errorf("somebody's file holds %q, want what it held", text)
	}
}

func TestCheckIntegrity(t *testing.T) {
	t.Parallel()
	s, path := testStore(t)
	for i := range 200 {
		mustWrite(t, s, inserting(fmt.Sprint("s", i), fine))
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		file []byte
		want string // in the error; "" for none
	}{
		{"sound", sound, ""},
		{"empty", nil, ""},
		{"a page overwritten", append(append(append([]byte{}, sound[:4096*3]...), []byte(strings.Repeat("\xaa", 8192))...), sound[4096*5:]...), "dañada"},
		{"no database", []byte("nothing of the kind"), "no se puede leer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "file.db")
			if err := os.WriteFile(path, test.file, 0o600); err != nil {
				t.Fatal(err)
			}
			err := checkIntegrity(path)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("checkIntegrity = %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("checkIntegrity = %q, want one line", err)
			}
			if got, _ := os.ReadFile(path); string(got) != string(test.file) {
				t.Error("the file was changed")
			}
		})
	}
}
