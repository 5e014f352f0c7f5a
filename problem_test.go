// problem_test.go reads the contract's table of problems: every type is reached through
// a real route, with its status, title, members in order, header fields, and whether
// the same request may succeed later. What all problems share, checkAnswer holds.

package main

import (
	"context"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// problemBench is a revisor in which every problem can be had. Its services: 1 a
// good one, 2 retired, 3 slow, 4 not HTTP. The limits of escritura-b are exhausted.
func problemBench(t *testing.T) (b *bench, g *gate, path string) {
	g, path = newGate(), filepath.Join(t.TempDir(), "revisor.db")
	b = newBench(t, benchOptions{
		path: path,
		resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			if host == "panico.example" {
				panic(secret)
			}
			return g.resolve(ctx, host)
		},
	})
	b.register("catalogo", "escritura-a")
	b.call("DELETE", b.register("baja", "escritura-a"), "escritura-a", "")
	b.registered("escritura-a", `{"nombre":"lento","url":"http://`+b.lab+`/lento/9999","limite_ms":100}`)
	b.registered("escritura-a", `{"nombre":"basura","url":"http://`+b.lab+`/basura"}`)
	b.call("POST", "/servicios", "escritura-a", b.service("usada"), "Idempotency-Key: usada")
	for range checksPerWindow {
		b.call("POST", "/servicios/999/revisiones", "escritura-b", "")
		b.call("GET", "/servicios/999/salud", "escritura-b", "")
	}
	return b, g, path
}

// inFlight repeats a request while its original is held.
func inFlight(b *bench, g *gate) response {
	body := `{"nombre":"lenta","url":"` + b.gateURL("/codigo/200") + `"}`
	g.close()
	original := make(chan struct{})
	go func() {
		defer close(original)
		b.try(context.Background(), "POST", "/servicios", "escritura-a", body, "Idempotency-Key: k1")
	}()
	g.arrived(b.t)
	got := b.call("POST", "/servicios", "escritura-a", body, "Idempotency-Key: k1")
	g.open()
	<-original
	return got
}

// whileLocked registers a service while another process holds the write lock.
func whileLocked(b *bench, path string) response {
	b.t.Helper()
	other, err := openStore(path, newTag)
	if err != nil {
		b.t.Fatal(err)
	}
	defer other.close()
	held, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	go other.write(context.Background(), func(*tx) error { close(held); <-release; return nil })
	<-held
	return b.call("POST", "/servicios", "escritura-a", b.service("sin-sitio"))
}

func TestProblems(t *testing.T) {
	t.Parallel()
	b, g, path := problemBench(t)
	request := func(method, path, as, body string, headers ...string) func() response {
		return func() response { return b.call(method, path, as, body, headers...) }
	}
	const invalidToken = `Bearer realm="revisor", error="invalid_token"`
	const link = `</idempotencia>; rel="describedby"`
	text, big := "Content-Type: text/plain", strings.Repeat("x", maxBody+1)
	tests := []struct {
		slug      string
		status    int
		title     string
		retryable string
		ask       func() response
		extension string // a pattern
		fields    map[string]string
	}{
		{"about:blank", 404, "Not Found", "false", request("GET", "/nada", "", ""), "", nil},
		{"about:blank", 405, "Method Not Allowed", "false", request("DELETE", "/servicios", "", ""), "",
			map[string]string{"Allow": "GET, HEAD, POST, OPTIONS"}},
		{"about:blank", 413, "Content Too Large", "false", request("POST", "/servicios", "escritura-a", big), "", nil}, // Connection: close_test.go
		{"about:blank", 415, "Unsupported Media Type", "false", request("POST", "/servicios", "escritura-a", "{}", text), "",
			map[string]string{"Accept": "application/json"}},
		{"cuerpo-ilegible", 400, "Cuerpo ilegible", "false", request("POST", "/servicios", "escritura-a", "{"), "", nil},
		{"llave-invalida", 400, "Llave de idempotencia mal escrita", "false",
			request("POST", "/servicios", "escritura-a", "{}", `Idempotency-Key: "k`), "", map[string]string{"Link": link}},
		{"credencial-invalida", 401, "Hace falta una credencial válida", "false", request("GET", "/servicios", "nadie", ""), "",
			map[string]string{"Www-Authenticate": invalidToken}},
		{"permiso-insuficiente", 403, "Permiso insuficiente", "false", request("DELETE", "/servicios/1", "lectura-a", ""), "", nil},
		{"servicio-inexistente", 404, "El servicio no existe", "false", request("GET", "/servicios/999?x=1", "lectura-a", ""), "", nil},
		{"revision-inexistente", 404, "La revisión no existe", "false", request("GET", "/revisiones/999", "lectura-a", ""), "", nil},
		{"operacion-inexistente", 404, "No consta ninguna operación con esa llave", "false", request("GET", "/operaciones/k9", "lectura-a", ""), "", nil},
		{"nombre-repetido", 409, "El nombre ya está en uso", "false",
			request("POST", "/servicios", "escritura-a", b.service("catalogo")), `,"existente":"/servicios/1"`, nil},
		{"llave-en-curso", 409, "La petición original sigue en curso", "true", func() response { return inFlight(b, g) }, "",
			map[string]string{"Link": link}},
		{"servicio-retirado", 410, "El servicio fue retirado", "false", request("GET", "/servicios/2", "lectura-a", ""), "", nil},
		{"version-retirada", 410, "La versión fue retirada", "false", request("GET", "/v0/servicios", "", ""), "", nil},
		{"etiqueta-vencida", 412, "La etiqueta ya no corresponde", "false",
			request("PUT", "/servicios/1", "escritura-a", "{}", `If-Match: "x"`), "", nil},
		{"destino-prohibido", 422, "Destino prohibido", "false",
			request("POST", "/servicios", "escritura-a", `{"nombre":"x","url":"http://10.0.0.1/"}`), "", nil},
		{"datos-invalidos", 422, "Datos inválidos", "false", request("POST", "/servicios", "escritura-a", `{"nombre":"x"}`),
			`,"errors":\[\{"detail":"[^"]+","pointer":"#/url"\}\]`, nil},
		{"llave-reutilizada", 422, "Llave usada antes con otra petición", "false",
			request("POST", "/servicios", "escritura-a", "{}", "Idempotency-Key: usada"), "", map[string]string{"Link": link}},
		{"falta-condicion", 428, "Falta una condición", "false", request("PUT", "/servicios/1", "escritura-a", "{}"), "", nil},
		{"demasiadas-revisiones", 429, "Demasiadas revisiones", "true", request("POST", "/servicios/1/revisiones", "escritura-b", ""), "",
			map[string]string{"Retry-After": "60"}},
		{"demasiadas-consultas", 429, "Demasiadas consultas en vivo", "true", request("GET", "/servicios/1/salud", "escritura-b", ""), "",
			map[string]string{"Retry-After": "60"}},
		{"error-interno", 500, "Error interno", "false",
			request("POST", "/servicios", "escritura-a", `{"nombre":"x","url":"http://panico.example/"}`), "", nil},
		{"respuesta-invalida", 502, "El servicio no dio una respuesta válida", "true", request("GET", "/servicios/4/salud", "lectura-a", ""), "", nil},
		{"almacen-no-disponible", 503, "El almacén no está disponible", "true",
			func() response { return whileLocked(b, path) }, "", map[string]string{"Retry-After": "5"}},
		{"servicio-lento", 504, "El servicio no respondió a tiempo", "true", request("GET", "/servicios/3/salud", "lectura-a", ""), "", nil},
		{"en-mantenimiento", 503, "En mantenimiento", "true", func() response { // the last: it closes the rest
			b.call("PUT", "/mantenimiento", "admin", `{"activo":true}`)
			return b.call("GET", "/servicios", "", "")
		}, "", map[string]string{"Retry-After": "120"}},
	}
	reached := map[string]bool{}
	for _, tt := range tests {
		got := tt.ask()
		reached[tt.slug] = true
		typ := tt.slug
		if typ != blankType {
			typ = "https://revisor.example/problemas/" + tt.slug
		}
		want := `^` + regexp.QuoteMeta(`{"type":"`+typ+`","title":"`+tt.title+`","status":`+strconv.Itoa(tt.status)) +
			`,"detail":"[^"\\]+","instance":"[^"?]+"` + tt.extension + `,"reintentable":` + tt.retryable + `\}` + "\n$"
		if got.status != tt.status || !regexp.MustCompile(want).MatchString(got.body) {
			t.Errorf("%s = %d %s, want %d %s", tt.slug, got.status, got.body, tt.status, want)
		}
		fields := map[string]string{}
		for name := range got.header {
			switch name {
			case "Date", "Connection", "Content-Length", "Content-Type", "Content-Language":
			default:
				fields[name] = got.header.Get(name)
			}
		}
		if diff := cmp.Diff(tt.fields, fields, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: header fields, want -, got +:\n%s", tt.slug, diff)
		}
	}
	for slug := range kinds {
		if !reached[slug] {
			t.Errorf("no test reaches %s", slug)
		}
	}
}

// TestUnavailableStoreWritesNothing: what was refused for a lock is not there later,
// has used up no id, and the same request then succeeds.
func TestUnavailableStoreWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	b := newBench(t, benchOptions{path: path})
	if got := whileLocked(b, path); got.verdict() != "503 almacen-no-disponible" {
		t.Fatalf("POST while locked = %s, want 503 almacen-no-disponible", got.verdict())
	}
	if got := b.call("GET", "/servicios", "admin", ""); got.body != `{"servicios":[]}`+"\n" {
		t.Errorf("list afterwards = %s, want an empty one", got.body)
	}
	if got := b.register("sin-sitio", "escritura-a"); got != "/servicios/1" {
		t.Errorf("Location = %s, want /servicios/1", got)
	}
}

// TestPanicInARealRoute: the reference leads to the stack, the key is free, and the
// server goes on.
func TestPanicInARealRoute(t *testing.T) {
	t.Parallel()
	b, _, _ := problemBench(t)
	key := "Idempotency-Key: k1"
	got := b.call("POST", "/servicios", "escritura-a", `{"nombre":"x","url":"http://panico.example/"}`, key)
	reference, _ := got.member("instance").(string)
	if got.verdict() != "500 error-interno" || strings.Contains(got.body, secret) {
		t.Errorf("POST = %s, want 500 error-interno that tells nothing of %q", got.body, secret)
	}
	logged := regexp.MustCompile(`reference=` + regexp.QuoteMeta(reference) + `.*stack=.*problem_test\.go`)
	if log := b.log.String(); !logged.MatchString(log) {
		t.Errorf("log has no stack under %s:\n%s", reference, log)
	}
	if got := b.call("POST", "/servicios", "escritura-a", b.service("x"), key); got.status != 201 {
		t.Errorf("POST with the same key = %s, want 201", got.verdict())
	}
}

func TestUnknownSlugPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error(`newProblem("otro") returned, want a panic: a slug outside the catalogue has no answer`)
		}
	}()
	newProblem("otro", "")
}
