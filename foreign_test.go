// foreign_test.go puts files of all kinds where the database should be: what is not
// ours is refused and stays as it was, and so does its neighbourhood.

package main

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
	const foreign, unreadable, newer = "es la base de datos de otro programa", "no se puede leer como base de datos",
		"tiene la versión 99 del esquema, y este programa conoce hasta la 1"
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
		}, "no es un archivo normal"},
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
		}, "no se creó con auto_vacuum = INCREMENTAL"},
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
