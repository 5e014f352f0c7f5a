// backup_test.go: a copy is whole, replaces nothing, and a damaged file is told from a
// sound one.

package main

import (
	"context"
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
