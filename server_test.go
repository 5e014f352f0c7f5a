// server_test.go reads the contract's table of routes: what each answers when all is
// well, HEAD, OPTIONS and 405, unknown and moved paths, ids, maintenance. The order of
// the questions is order_test.go's.

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// apiRoutes are the path patterns of the API with what they allow. {id} stands for a
// service or a revision.
var apiRoutes = []struct{ path, allow string }{
	{"/servicios", "GET, HEAD, POST, OPTIONS"},
	{"/servicios/{id}", "GET, HEAD, PUT, DELETE, OPTIONS"},
	{"/servicios/{id}/revisiones", "POST, OPTIONS"},
	{"/servicios/{id}/salud", "GET, HEAD, OPTIONS"},
	{"/servicios/{id}/informe", "GET, HEAD, OPTIONS"},
	{"/revisiones/{id}", "GET, HEAD, OPTIONS"},
	{"/mantenimiento", "PUT, OPTIONS"},
	{"/v1/servicios", "GET, HEAD, OPTIONS"},
	{"/v1/servicios/{id}", "GET, HEAD, OPTIONS"},
	{"/operaciones/k1", "GET, HEAD, OPTIONS"},
	{"/idempotencia", "GET, HEAD, OPTIONS"},
}

func TestOptionsAndMethodNotAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	methods := []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "QUERY", "get"}
	for _, rt := range apiRoutes {
		path := strings.ReplaceAll(rt.path, "{id}", "999") // known without looking whether it exists
		got := b.call("OPTIONS", path, "", "")
		if got.status != 204 || got.header.Get("Allow") != rt.allow {
			t.Errorf("OPTIONS %s = %d, Allow %q, want 204, %q", path, got.status, got.header.Get("Allow"), rt.allow)
		}
		for _, method := range methods {
			if slices.Contains(strings.Split(rt.allow, ", "), method) {
				continue
			}
			got := b.call(method, path, "", "")
			if got.status != 405 || got.header.Get("Allow") != rt.allow {
				t.Errorf("%s %s = %s, Allow %q, want 405, %q", method, path, got.verdict(), got.header.Get("Allow"), rt.allow)
			}
		}
	}
}

func TestHeadIsGetWithoutItsBody(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("catalogo", "escritura-a")
	revision := b.call("POST", service+"/revisiones", "escritura-a", "").header.Get("Location")
	b.call("POST", "/servicios", "escritura-a", b.service("pagos"), "Idempotency-Key: k1")
	eventually(t, "the revision finished", func() bool {
		return b.call("GET", revision, "escritura-a", "").member("estado") == "terminada"
	})
	for _, path := range []string{
		"/servicios", service, service + "/salud", service + "/informe", revision, "/v1/servicios", "/v1" + service,
		"/operaciones/k1", "/idempotencia", "/nada", "/servicios/999", "/v0", "/viejo/servicios?a=b", "/api/servicios",
	} {
		get := b.call("GET", path, "escritura-a", "")
		head := b.call("HEAD", path, "escritura-a", "")
		for _, got := range []response{get, head} {
			got.header.Del("Date")
			if path == service+"/salud" { // its milliseconds may have another number of digits
				got.header.Del("Content-Length")
			}
		}
		if head.status != get.status || head.body != "" {
			t.Errorf("HEAD %s = %d %q, want %d without a body", path, head.status, head.body, get.status)
		}
		if diff := cmp.Diff(get.header, head.header); diff != "" {
			t.Errorf("HEAD %s: header, GET's -, HEAD's +:\n%s", path, diff)
		}
	}
}

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.register("catalogo", "escritura-a")
	paths := []string{
		"/", "/nada", "/servicio", "/Servicios", "/SERVICIOS/1", "/serviciosx", "//servicios", "/v1", "/v2/servicios",
		"/v1/servicios/1/salud", "/v1/revisiones/1", "/v1/idempotencia", "/v00", "/v0x", "/revisiones", "/operaciones",
		"/servicios/1/nada", "/servicios/1/salud/x", "/servicios/1/revisiones/1", "/servicios/salud", "/mantenimiento/x",
		// trailing slashes
		"/servicios/", "/servicios/1/", "/servicios/1/salud/", "/servicios/1/informe/", "/servicios/1/revisiones/",
		"/revisiones/", "/revisiones/1/", "/mantenimiento/", "/v1/", "/v1/servicios/", "/v1/servicios/1/",
		"/operaciones/", "/idempotencia/",
		// no ids
		"/servicios/abc", "/servicios/-1", "/servicios/+1", "/servicios/1.0", "/servicios/1e3", "/servicios/0x1",
		"/servicios/1a", "/servicios/a1", "/servicios/1a1", "/servicios/%31", "/servicios/1%20", "/servicios/%D9%A1",
		"/servicios/:id", "/servicios/%7Bid%7D", "/servicios//salud", "/servicios//informe", "/servicios//revisiones",
		"/servicios/1%2Fsalud", "/servicios/abc/salud", "/revisiones/abc", "/v1/servicios/abc", "/servicios/1;x",
		// not moved
		"/viejo", "/viejo/", "/viejo/v1/servicios", "/viejo/revisiones/1", "/viejo/serviciosx", "/viejo//servicios",
		"/api", "/api/", "/api/idempotencia", "/apiservicios", "/viejo/api/servicios", "/viejo/servicio%73",
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "OPTIONS", "PATCH"} {
			for _, as := range []string{"", "escritura-a"} {
				if got := b.call(method, path, as, ""); got.verdict() != "404 about:blank" {
					t.Errorf("%s %s as %q = %s, want 404 about:blank", method, path, as, got.verdict())
				}
			}
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("catalogo", "escritura-a")
	b.call("POST", service+"/revisiones", "escritura-a", "")
	zeros := strings.Repeat("0", 40)
	for _, tt := range []struct{ path, want string }{
		{"/servicios/1", "200"},
		{"/servicios/01", "200"},
		{"/servicios/" + zeros + "1", "200"},
		{"/servicios/01/informe", "200"},
		{"/v1/servicios/01", "200"},
		{"/revisiones/01", "200"},
		{"/servicios/0", "404 servicio-inexistente"},
		{"/servicios/" + zeros, "404 servicio-inexistente"},
		{"/servicios/9223372036854775807", "404 servicio-inexistente"},
		{"/servicios/9223372036854775808", "404 servicio-inexistente"},
		{"/servicios/18446744073709551617", "404 servicio-inexistente"}, // 1, to a number that wraps around
		{"/servicios/" + strings.Repeat("9", 400), "404 servicio-inexistente"},
		{"/servicios/18446744073709551617/informe", "404 servicio-inexistente"},
		{"/servicios/18446744073709551617/salud", "404 servicio-inexistente"},
		{"/v1/servicios/18446744073709551617", "404 servicio-inexistente"},
		{"/revisiones/0", "404 revision-inexistente"},
		{"/revisiones/18446744073709551617", "404 revision-inexistente"},
	} {
		if got := b.call("GET", tt.path, "lectura-a", ""); got.verdict() != tt.want {
			t.Errorf("GET %s = %s, want %s", tt.path, got.verdict(), tt.want)
		}
	}
	huge := "/servicios/18446744073709551617"
	for _, tt := range []struct{ method, path string }{{"PUT", huge}, {"DELETE", huge}, {"POST", huge + "/revisiones"}} {
		if got := b.call(tt.method, tt.path, "escritura-a", "{}", "If-Match: *"); got.verdict() != "404 servicio-inexistente" {
			t.Errorf("%s %s = %s, want 404 servicio-inexistente", tt.method, tt.path, got.verdict())
		}
	}
}

// TestIDsAreNeverReused: neither those of retired services, nor after a restart; and a
// refused request uses up none.
func TestIDsAreNeverReused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	b := newBench(t, benchOptions{path: path})
	expect := func(name, want string) {
		t.Helper()
		if got := b.register(name, "escritura-a"); got != want {
			t.Errorf("Location of %s = %s, want %s", name, got, want)
		}
	}
	expect("uno", "/servicios/1")
	for range 3 {
		for _, key := range []string{"", "Idempotency-Key: k1"} {
			if got := b.call("POST", "/servicios", "escritura-a", b.service("uno"), key); got.status != 409 {
				t.Fatalf("POST of a taken name = %d, want 409", got.status)
			}
		}
		b.call("POST", "/servicios", "escritura-a", `{"nombre":"x","url":"http://10.0.0.1/"}`)
		b.call("POST", "/servicios", "escritura-a", `{}`)
	}
	expect("dos", "/servicios/2")
	if got := b.call("DELETE", "/servicios/2", "escritura-a", ""); got.status != 204 {
		t.Fatalf("DELETE = %d, want 204", got.status)
	}
	expect("tres", "/servicios/3")
	b.call("DELETE", "/servicios/3", "escritura-a", "")
	b.call("POST", "/servicios/3/revisiones", "admin", "") // 410
	if got := b.call("POST", "/servicios/1/revisiones", "admin", "").header.Get("Location"); got != "/revisiones/1" {
		t.Errorf("Location of the first revision = %s, want /revisiones/1", got)
	}
	b.stop()

	b = newBench(t, benchOptions{path: path})
	expect("cuatro", "/servicios/4")
	if got := b.call("POST", "/servicios/1/revisiones", "admin", "").header.Get("Location"); got != "/revisiones/2" {
		t.Errorf("Location of the second revision = %s, want /revisiones/2", got)
	}
}

func TestMovedPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, tt := range []struct {
		path, location string
		status         int
	}{
		{"/viejo/servicios", "/servicios", 301},
		{"/viejo/servicios/", "/servicios/", 301},
		{"/viejo/servicios/7", "/servicios/7", 301},
		{"/viejo/servicios/7/salud?a=b&c=%20d", "/servicios/7/salud?a=b&c=%20d", 301},
		{"/viejo/servicios/a%2Fb%20c", "/servicios/a%2Fb%20c", 301},
		{"/viejo/servicios?url=http://x/?y", "/servicios?url=http://x/?y", 301},
		{"/viejo/servicios//evil.example", "/servicios//evil.example", 301},
		{"/api/servicios", "/servicios", 308},
		{"/api/servicios/7", "/servicios/7", 308},
		{"/api/servicios/7/revisiones?x=1", "/servicios/7/revisiones?x=1", 308},
		{"/api/servicios/%C3%B1", "/servicios/%C3%B1", 308},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
			got := b.call(method, tt.path, "", "")
			if got.status != tt.status || got.header.Get("Location") != tt.location || got.header.Get("Content-Type") != "" {
				t.Errorf("%s %s = %d, Location %q, Content-Type %q, want %d, %q, none", method, tt.path,
					got.status, got.header.Get("Location"), got.header.Get("Content-Type"), tt.status, tt.location)
			}
		}
	}
}

func TestVersionZeroIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, path := range []string{"/v0", "/v0/", "/v0/servicios", "/v0/nada?x=1"} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "PATCH"} {
			if got := b.call(method, path, "", ""); got.verdict() != "410 version-retirada" {
				t.Errorf("%s %s = %s, want 410 version-retirada", method, path, got.verdict())
			}
		}
	}
}

func TestQueriesAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("catalogo", "escritura-a")
	for _, tt := range []struct{ method, path, want string }{
		{"GET", "/servicios?team=b&id=7", "200"},
		{"GET", service + "?x", "200"},
		{"POST", service + "/revisiones?%zz", "202"},
		{"GET", "/idempotencia?formato=html", "200"},
		{"GET", "/nada?x=1", "404 about:blank"},
	} {
		got := b.call(tt.method, tt.path, "escritura-a", "")
		if got.verdict() != tt.want {
			t.Errorf("%s %s = %s, want %s", tt.method, tt.path, got.verdict(), tt.want)
		}
	}
}

func TestMaintenance(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	b := newBench(t, benchOptions{path: path})
	closed := func(want string) {
		t.Helper()
		for _, path := range []string{"/servicios", "/nada", "/idempotencia", "/operaciones/k", "/", "/mantenimiento/"} {
			got := b.call("GET", path, "escritura-a", "")
			if closed := got.verdict() == "503 en-mantenimiento" && got.header.Get("Retry-After") == "120"; closed != (want == "closed") {
				t.Errorf("GET %s = %s, Retry-After %q, want the API %s", path, got.verdict(), got.header.Get("Retry-After"), want)
			}
		}
	}
	put := func(body, want string) {
		t.Helper()
		if got := b.call("PUT", "/mantenimiento", "admin", body); got.verdict() != want {
			t.Errorf("PUT /mantenimiento %s = %s, want %s", body, got.verdict(), want)
		}
	}
	closed("open")
	for _, body := range []string{`{}`, `{"activo":null}`, `{"activo":"true"}`, `{"activo":1}`, `{"ACTIVO":true}`, `{"activo":[true]}`} {
		got := b.call("PUT", "/mantenimiento", "admin", body)
		if got.verdict() != "422 datos-invalidos" || !strings.Contains(got.body, `"pointer":"#/activo"}],"reintentable"`) {
			t.Errorf("PUT /mantenimiento %s = %s, want 422 datos-invalidos at #/activo alone", body, got.body)
		}
	}
	put(`[true]`, "400 cuerpo-ilegible")
	closed("open")
	put(`{"activo":true,"motivo":"copia"}`, "204")
	closed("closed")
	put(`{"activo":true}`, "204") // the door to open it again stays open
	b.stop()

	b = newBench(t, benchOptions{path: path})
	closed("closed")
	put(`{"activo":false}`, "204")
	closed("open")
	if log := b.log.String(); !strings.Contains(log, "msg=maintenance on=false") {
		t.Errorf("log tells nothing of maintenance:\n%s", log)
	}

	// Another process on the same file is obeyed within a second.
	other := newBench(t, benchOptions{path: path})
	other.call("PUT", "/mantenimiento", "admin", `{"activo":true}`)
	b.clock.advance(time.Second)
	closed("closed")
}
