// credentials_test.go reads what the contract says of who may ask: the Authorization
// field, roles and teams on every route, stored credentials while a server runs.

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAuthorizationField(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const asked = `Bearer realm="revisor"`
	const refused = `Bearer realm="revisor", error="invalid_token"`
	for _, tt := range []struct {
		name      string
		lines     []string
		status    int
		challenge string
	}{
		{"none", nil, 401, asked},
		{"good", []string{"Bearer lectura-a"}, 200, ""},
		{"lower case", []string{"bearer lectura-a"}, 200, ""},
		{"upper case", []string{"BEARER lectura-a"}, 200, ""},
		{"mixed case", []string{"bEaReR lectura-a"}, 200, ""},
		{"several spaces", []string{"Bearer    lectura-a"}, 200, ""},
		{"space at the end", []string{"Bearer lectura-a  "}, 200, ""}, // not part of a field's value
		{"unknown token", []string{"Bearer nadie"}, 401, refused},
		{"token in another case", []string{"Bearer LECTURA-A"}, 401, refused},
		{"bare", []string{"Bearer"}, 401, refused},
		{"bare with a space", []string{"Bearer "}, 401, refused},
		{"two tokens", []string{"Bearer lectura-a escritura-a"}, 401, refused},
		{"two tokens, a tab between", []string{"Bearer lectura-a\tescritura-a"}, 401, refused},
		{"two lines", []string{"Bearer lectura-a", "Bearer lectura-a"}, 401, refused},
		{"two schemes", []string{"Basic bGVjdHVyYS1h", "Bearer lectura-a"}, 401, refused},
		{"quoted", []string{`Bearer "lectura-a"`}, 401, refused},
		{"with a parameter", []string{"Bearer lectura-a, realm=x"}, 401, refused},
		{"another scheme", []string{"Basic bGVjdHVyYS1hOmxlY3R1cmEtYQ=="}, 401, asked},
		{"another scheme with a good token", []string{"Token lectura-a"}, 401, asked},
		{"no scheme", []string{"lectura-a"}, 401, asked},
		{"a scheme that begins alike", []string{"Bearerx lectura-a"}, 401, asked},
		{"no space", []string{"Bearer:lectura-a"}, 401, asked},
		{"digest", []string{`Digest username="x"`}, 401, asked},
	} {
		var lines []string
		for _, line := range tt.lines {
			lines = append(lines, "Authorization: "+line)
		}
		for _, method := range []string{"GET", "HEAD"} {
			got := b.call(method, "/servicios", "", "", lines...)
			if got.status != tt.status || got.header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("%s: %s with %q = %s, WWW-Authenticate %q, want %d, %q",
					tt.name, method, tt.lines, got.verdict(), got.header.Get("WWW-Authenticate"), tt.status, tt.challenge)
			}
		}
	}
	if got := b.call("GET", "/servicios?access_token=lectura-a", "", ""); got.header.Get("WWW-Authenticate") != asked {
		t.Errorf("GET with the token in the query: WWW-Authenticate = %q, want %q", got.header.Get("WWW-Authenticate"), asked)
	}
	// Where no credential is asked for, a bad one does no harm.
	if got := b.call("GET", "/idempotencia", "nadie", ""); got.status != 200 {
		t.Errorf("GET /idempotencia with an unknown token = %s, want 200", got.verdict())
	}
}

// TestRolesAndTeams: every route, asked by everybody, of a service of team a.
func TestRolesAndTeams(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	who := []string{"", "nadie", "lectura-a", "escritura-a", "escritura-b", "admin"}
	tests := []struct {
		method, path, body string
		want               [6]int // in the order of who
	}{
		{"GET", "/servicios", "", [6]int{401, 401, 200, 200, 200, 200}},
		{"POST", "/servicios", "NEW", [6]int{401, 401, 403, 201, 201, 201}},
		{"GET", "SERVICE", "", [6]int{401, 401, 200, 200, 404, 200}},
		{"PUT", "SERVICE", "NEW", [6]int{401, 401, 403, 200, 404, 200}},
		{"DELETE", "SERVICE", "", [6]int{401, 401, 403, 204, 404, 204}},
		{"POST", "SERVICE/revisiones", "", [6]int{401, 401, 403, 202, 404, 202}},
		{"GET", "SERVICE/salud", "", [6]int{401, 401, 200, 200, 404, 200}},
		{"GET", "SERVICE/informe", "", [6]int{401, 401, 200, 200, 404, 200}},
		{"GET", "REVISION", "", [6]int{401, 401, 200, 200, 404, 200}},
		{"PUT", "/mantenimiento", `{"activo":false}`, [6]int{401, 401, 403, 403, 403, 204}},
		{"GET", "/v1/servicios", "", [6]int{401, 401, 200, 200, 200, 200}},
		{"GET", "/v1SERVICE", "", [6]int{401, 401, 200, 200, 404, 200}},
		{"GET", "/operaciones/nunca", "", [6]int{401, 401, 404, 404, 404, 404}},
		{"GET", "/idempotencia", "", [6]int{200, 200, 200, 200, 200, 200}},
		{"GET", "/v0", "", [6]int{410, 410, 410, 410, 410, 410}},
		{"GET", "/viejo/servicios", "", [6]int{301, 301, 301, 301, 301, 301}},
		{"POST", "/api/servicios", "NEW", [6]int{308, 308, 308, 308, 308, 308}},
	}
	for i, tt := range tests {
		for j, as := range who {
			service := b.register(fmt.Sprintf("s%d-%d", i, j), "escritura-a")
			b.clock.advance(rateWindow)
			revision := b.call("POST", service+"/revisiones", "admin", "").header.Get("Location")
			path := strings.NewReplacer("SERVICE", service, "REVISION", revision).Replace(tt.path)
			body := strings.Replace(tt.body, "NEW", b.service(fmt.Sprintf("n%d-%d", i, j)), 1)
			if got := b.call(tt.method, path, as, body, "If-Match: *"); got.status != tt.want[j] {
				t.Errorf("%s %s as %q = %s, want %d", tt.method, tt.path, as, got.verdict(), tt.want[j])
			}
		}
	}
}

// TestTeamsAreHidden: of another team's service nothing can be learned, whether it
// lives, was retired or never was: the answers are the same to the byte.
func TestTeamsAreHidden(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	living := b.register("vivo", "escritura-a")
	retired := b.register("retirado", "escritura-a")
	b.call("POST", retired+"/revisiones", "escritura-a", "")
	b.call("DELETE", retired, "escritura-a", "")
	admins := b.register("del-admin", "admin")
	for _, tt := range []struct{ method, under string }{
		{"GET", ""}, {"PUT", ""}, {"DELETE", ""}, {"POST", "/revisiones"}, {"GET", "/salud"}, {"GET", "/informe"},
	} {
		b.clock.advance(rateWindow)
		ask := func(service, as string) string {
			got := b.call(tt.method, service+tt.under, as, b.service("x"), `If-Match: "x"`)
			return strings.ReplaceAll(got.body, service, "/servicios/N")
		}
		never := ask("/servicios/999", "escritura-b")
		b.clock.advance(rateWindow)
		for _, service := range []string{living, retired, admins} {
			if got := ask(service, "escritura-b"); got != never {
				t.Errorf("%s %s%s as another team = %s, want %s", tt.method, service, tt.under, got, never)
			}
		}
		b.clock.advance(rateWindow)
		if got := ask(admins, "escritura-a"); got != never {
			t.Errorf("%s %s%s, the admin's, as a team = %s, want %s", tt.method, admins, tt.under, got, never)
		}
		if got := ask(retired, "admin"); !strings.Contains(got, "servicio-retirado") {
			t.Errorf("%s %s%s as admin = %s, want servicio-retirado", tt.method, retired, tt.under, got)
		}
	}
	for revision, want := range map[string]string{"/revisiones/1": "404 revision-inexistente", "/revisiones/999": "404 revision-inexistente"} {
		if got := b.call("GET", revision, "escritura-b", ""); got.verdict() != want {
			t.Errorf("GET %s as another team = %s, want %s", revision, got.verdict(), want)
		}
	}
}

// TestStoredCredentials: a running server obeys an addition or a revocation by another
// process within a second. The practice credentials are never stored.
func TestStoredCredentials(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	b := newBench(t, benchOptions{path: path})
	other, err := openStore(path, newTag)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if stored, err := other.credentials(); len(stored) > 0 || err != nil {
		t.Errorf("credentials() = %v, %v, want none", stored, err)
	}
	ctx := context.Background()
	c, token, err := newCredential("marta", "ventas", "writer", b.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(when string, want int) {
		t.Helper()
		if got := b.call("GET", "/servicios", token, ""); got.status != want {
			t.Errorf("GET %s = %s, want %d", when, got.verdict(), want)
		}
	}
	ask("before it is added", 401)
	add := func(c credential) (taken bool) {
		t.Helper()
		if err := other.write(ctx, func(t *tx) (err error) { taken, err = t.insertCredential(c); return err }); err != nil {
			t.Fatal(err)
		}
		return taken
	}
	if add(c) {
		t.Error("insertCredential = taken, want a new one")
	}
	b.clock.advance(time.Second)
	ask("a second after it was added", 200)
	if got := b.call("POST", "/servicios", token, b.service("x"), "Idempotency-Key: k1"); got.status != 201 {
		t.Errorf("POST = %s, want 201", got.verdict())
	}
	b.call("POST", "/servicios", token, b.service("x"), "Idempotency-Key: k1") // a replay is logged
	if got := b.call("GET", "/servicios/1", "escritura-a", ""); got.status != 404 {
		t.Errorf("GET as team a = %s, want 404", got.verdict())
	}
	if got := b.call("PUT", "/mantenimiento", token, `{"activo":false}`); got.status != 403 {
		t.Errorf("PUT /mantenimiento as a writer = %s, want 403", got.verdict())
	}

	if err := other.write(ctx, func(t *tx) error { _, err := t.revokeCredential("marta", b.clock.Now()); return err }); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(time.Second)
	ask("a second after it was revoked", 401)
	if got := b.call("POST", "/servicios", token, b.service("x"), "Idempotency-Key: k1"); got.verdict() != "401 credencial-invalida" {
		t.Errorf("a replay after revocation = %s, want 401 credencial-invalida", got.verdict())
	}
	again, _, _ := newCredential("marta", "ventas", "reader", b.clock.Now())
	if !add(again) {
		t.Error("insertCredential of a revoked one's name = added, want taken")
	}

	if strings.Contains(b.log.String(), token) {
		t.Errorf("log holds the token:\n%s", b.log.String())
	}
	b.stop()
	for _, suffix := range []string{"", "-wal"} {
		if file, err := os.ReadFile(path + suffix); err == nil && bytes.Contains(file, []byte(token)) {
			t.Errorf("the database file%s holds the token", suffix)
		}
	}
}

func TestNewCredential(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 21, 22, 26, 31, 0, time.UTC)
	for _, tt := range []struct {
		name, credential, team, role string
		good                         bool
	}{
		{"reader", "marta", "a", "reader", true},
		{"writer", "marta", "ventas-2", "writer", true},
		{"admin", "marta", "*", "admin", true},
		{"long name", strings.Repeat("m", 64), "a", "reader", true},
		{"all teams without admin", "marta", "*", "writer", false},
		{"all teams without admin", "marta", "*", "reader", false},
		{"admin of one team", "marta", "a", "admin", false},
		{"no team", "marta", "", "reader", false},
		{"a team with a space", "marta", "a b", "reader", false},
		{"unknown role", "marta", "a", "root", false},
		{"role for no credential", "marta", "a", "anyone", false},
		{"role in another case", "marta", "a", "Reader", false},
		{"no name", "", "a", "reader", false},
		{"a name with a line end", "marta\n", "a", "reader", false},
		{"a name with a terminal's escape", "\x1b[1m", "a", "reader", false},
		{"a name like a flag", "-marta", "a", "reader", false},
		{"too long a name", strings.Repeat("m", 65), "a", "reader", false},
	} {
		c, token, err := newCredential(tt.credential, tt.team, tt.role, now)
		if (err == nil) != tt.good {
			t.Errorf("%s: newCredential(%q, %q, %q) = %v, want good %v", tt.name, tt.credential, tt.team, tt.role, err, tt.good)
		}
		if err != nil {
			continue
		}
		if c.name != tt.credential || c.team != tt.team || c.role.String() != tt.role || c.hash != hashToken(token) || !c.created.Equal(now) {
			t.Errorf("%s: newCredential = %+v, want what was asked for", tt.name, c)
		}
	}
	var tokens []string
	for range 100 {
		_, token, _ := newCredential("marta", "a", "reader", now)
		if len(token) != len(tokenPrefix)+43 || slices.Contains(tokens, token) || !validToken(token) { // 256 bits in base64url
			t.Fatalf("token = %q, want the prefix and 43 new characters that a Bearer credential may have", token)
		}
		tokens = append(tokens, token)
	}
}

// validToken tells whether a Bearer credential can carry the token.
func validToken(token string) bool {
	got, _ := bearerToken([]string{"Bearer " + token})
	return got == token
}

func TestPracticeCredentials(t *testing.T) {
	t.Parallel()
	ids := map[int64]bool{}
	want := map[string]string{"lectura-a": "reader of a", "escritura-a": "writer of a", "escritura-b": "writer of b", "admin": "admin of *"}
	for _, c := range practiceCredentials() {
		if got := c.role.String() + " of " + c.team; got != want[c.name] || c.hash != hashToken(c.name) {
			t.Errorf("practice credential %s = %s, want %s with its name as token", c.name, got, want[c.name])
		}
		if c.id >= 0 || ids[c.id] { // the scope of its keys, apart from every stored one's
			t.Errorf("practice credential %s has id %d, want a negative one of its own", c.name, c.id)
		}
		ids[c.id] = true
		delete(want, c.name)
	}
	if len(want) > 0 {
		t.Errorf("practice credentials lack %v", want)
	}
}
