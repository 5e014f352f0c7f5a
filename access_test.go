// access_test.go works the credential commands against a running server: it obeys
// within a second, and no token is anywhere but with whom it was given to.

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// obeyTime is how soon a running server obeys a credential command.
const obeyTime = time.Second

// addCredential gives the database a credential and returns its token.
func addCredential(t *testing.T, db, name, team, role string) string {
	t.Helper()
	code, stdout, stderr := command(t, "credential", "add", name, "--team", team, "--role", role, "--db", db)
	token := strings.TrimSuffix(stdout, "\n")
	if code != 0 || !regexp.MustCompile(`^rvsr_[A-Za-z0-9_-]{43}$`).MatchString(token) || strings.Contains(stderr, token) {
		t.Fatalf("credential add %s = %d, %q, %q, want 0 and a token of 256 bits on standard output alone", name, code, stdout, stderr)
	}
	return token
}

// expectWithin polls until GET /servicios has the status, for at most obeyTime.
func (c *child) expectWithin(token string, want int) {
	c.t.Helper()
	deadline := time.Now().Add(obeyTime)
	for {
		asked := time.Now()
		got := c.call("GET", "/servicios", token, "").status
		if got == want {
			return
		}
		if asked.After(deadline) {
			c.t.Fatalf("GET /servicios after %v = %d, want %d", obeyTime, got, want)
		}
		time.Sleep(10 * time.Millisecond) // polling, with a deadline
	}
}

func TestCredentialCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "revisor.db")
	early := addCredential(t, db, "temprana", "a", "reader") // before there is a server
	c := serving(t, "--db", db)
	c.expectWithin(early, 200)

	writer := addCredential(t, db, "ana", "a", "writer")
	c.expectWithin(writer, 200)
	admin := addCredential(t, db, "jefa", "*", "admin")
	c.expectWithin(admin, 200)
	for _, tt := range []struct{ token, want string }{
		{early, "403 permiso-insuficiente"},
		{writer, "422 datos-invalidos"},
		{admin, "422 datos-invalidos"},
		{writer + "x", "401 credencial-invalida"},
		{"escritura-a", "401 credencial-invalida"}, // the demo's
	} {
		if got := c.call("POST", "/servicios", tt.token, "{}"); got.verdict() != tt.want {
			t.Errorf("POST /servicios = %s, want %s", got.verdict(), tt.want)
		}
	}

	if code, _, stderr := command(t, "credential", "revoke", "ana", "--db", db); code != 0 {
		t.Errorf("credential revoke ana = %d, %q, want 0", code, stderr)
	}
	c.expectWithin(writer, 401)
	for _, args := range [][]string{
		{"add", "ana", "--team", "a", "--role", "writer", "--db", db}, // revoked names count
		{"add", "jefa", "--team", "*", "--role", "admin", "--db", db},
		{"revoke", "ana", "--db", db},
		{"revoke", "nadie", "--db", db},
	} {
		code, stdout, stderr := command(t, append([]string{"credential"}, args...)...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("credential %v = %d, %q, %q, want 1 and one line", args, code, stdout, stderr)
		}
	}
	c.expectWithin(admin, 200)

	_, list, _ := command(t, "credential", "list", "--db", db)
	for _, line := range []string{`temprana +a +reader .* vigente`, `ana +a +writer .* revocada`, `jefa +\* +admin .* vigente`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(list) {
			t.Errorf("credential list = %s, want a line %s", list, line)
		}
	}
	c.stop()
	kept := map[string][]byte{"list": []byte(list), "log": []byte(c.stderr.String()), "output": []byte(c.stdout.String())}
	for name := range filesIn(t, dir) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = content
	}
	for where, content := range kept {
		for _, token := range []string{early, writer, admin} {
			if bytes.Contains(content, []byte(token)) {
				t.Errorf("the token %s is in %s", token, where)
			}
		}
	}
}

// TestPracticeCredentialsOutsideTheDemo do not exist, on whatever database.
func TestPracticeCredentialsOutsideTheDemo(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "revisor.db")
	first := demo(t, "--db", db)
	first.expectFirst(first.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1"), 201)
	first.stop()
	c := serving(t, "--db", db)
	for _, as := range []string{"lectura-a", "escritura-a", "escritura-b", "admin"} {
		got := c.call("GET", "/servicios", as, "")
		if got.verdict() != "401 credencial-invalida" || got.header.Get("WWW-Authenticate") != `Bearer realm="revisor", error="invalid_token"` {
			t.Errorf("GET /servicios as %s = %s, %q, want 401 credencial-invalida", as, got.verdict(), got.header.Get("WWW-Authenticate"))
		}
	}
}

// TestStoredCredentialsInADemo are good there too, beside those for practice, and
// their keys are not each other's.
func TestStoredCredentialsInADemo(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "revisor.db")
	token := addCredential(t, db, "ana", "b", "writer")
	c := demo(t, "--db", db)
	for _, as := range []string{token, "escritura-a", "escritura-b"} {
		got := c.call("POST", "/servicios", as, anyService("avisos"), "Idempotency-Key: k1")
		want := "201"
		if as == "escritura-b" { // the name is taken in its team
			want = "409 nombre-repetido"
		}
		if got.verdict() != want {
			t.Errorf("POST /servicios as %s = %s, want %s", as, got.verdict(), want)
		}
	}
}
