// policy_test.go reads what is published about keys: the policy as JSON and as a page,
// which problems link to it, and the state of one's own keys.

package main

import (
	"context"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		options  benchOptions
		lifetime string
		inFlight string
	}{
		{"defaults", benchOptions{}, "86400", "reject"},
		{"waiting", benchOptions{wait: true}, "86400", "wait"},
		{"an hour", benchOptions{ttl: time.Hour}, "3600", "reject"},
		{"a fraction", benchOptions{ttl: 1500 * time.Millisecond}, "1.5", "reject"},
		{"a month", benchOptions{ttl: 720 * time.Hour}, "2592000", "reject"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.options)
			want := `{"cabecera":"Idempotency-Key","borrador":"draft-ietf-httpapi-idempotency-key-header-07","estandar":false,"obligatoria":false,` +
				`"rutas":["POST /servicios","POST /servicios/{id}/revisiones"],"alcance":"credencial","vigencia_s":` + tt.lifetime + `,"longitud_maxima":255,` +
				`"sintaxis":["simple","cadena RFC 9651"],"huella":"ordered","en_curso":"` + tt.inFlight + `","espera_maxima_s":30,"se_graba":"2xx",` +
				`"repetida":"Idempotency-Replayed","sin_cubrir":[`
			got := b.call("GET", "/idempotencia", "", "")
			rest, ok := strings.CutPrefix(got.body, want)
			if got.status != 200 || !ok || !regexp.MustCompile(`^"[^"]+"(,"[^"]+")*\]\}\n$`).MatchString(rest) {
				t.Errorf("GET /idempotencia = %d %s, want 200 %s and a list", got.status, got.body, want)
			}
			page := b.call("GET", "/idempotencia", "", "", "Accept: text/html")
			for _, told := range []string{"<!DOCTYPE html>", "Idempotency-Key", "draft-ietf-httpapi-idempotency-key-header-07",
				"no es un estándar", tt.lifetime + " segundos", "255", "30 segundos", "Idempotency-Replayed", "POST /servicios/{id}/revisiones"} {
				if !strings.Contains(page.body, told) {
					t.Errorf("the page does not tell %q:\n%s", told, page.body)
				}
			}
			if rejects := strings.Contains(page.body, "409 enseguida"); rejects != (tt.inFlight == "reject") {
				t.Errorf("the page says that an original in flight is refused: %v, want %v", rejects, tt.inFlight == "reject")
			}
			for _, item := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(rest, -1) {
				if !strings.Contains(page.body, "<li>"+item[1]+"</li>") {
					t.Errorf("the page does not list %q as not covered", item[1])
				}
			}
		})
	}
}

func TestPolicyForm(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const asJSON, asHTML = "application/json", "text/html; charset=utf-8"
	for _, tt := range []struct {
		accept []string
		want   string
	}{
		{nil, asJSON},
		{[]string{"*/*"}, asJSON},
		{[]string{"application/json"}, asJSON},
		{[]string{"text/html"}, asHTML},
		{[]string{"TEXT/HTML"}, asHTML},
		{[]string{"text/html;charset=utf-8"}, asHTML},
		{[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, asHTML}, // a browser
		{[]string{"application/json", "text/html"}, asJSON},
		{[]string{"application/json;q=0.5", "text/html"}, asHTML},
		{[]string{"application/json, text/html;q=0.9"}, asJSON},
		{[]string{"text/html;q=0"}, asJSON},
		{[]string{"text/html;q=0.0, */*"}, asJSON},
		{[]string{"text/html;q=NaN"}, asJSON},
		{[]string{"text/html;q=x"}, asJSON},
		{[]string{"text/plain"}, asJSON},
		{[]string{"image/png, , text/htmlx"}, asJSON},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			var headers []string
			for _, line := range tt.accept {
				headers = append(headers, "Accept: "+line)
			}
			got := b.call(method, "/idempotencia", "", "", headers...)
			if got.status != 200 || got.header.Get("Content-Type") != tt.want || got.header.Get("Vary") != "Accept" {
				t.Errorf("%s with Accept %q = %d %s, Vary %q, want 200 %s, Accept", method, tt.accept,
					got.status, got.header.Get("Content-Type"), got.header.Get("Vary"), tt.want)
			}
		}
	}
}

// TestOperation tells the state of one's own key, from the first moment to the last.
func TestOperation(t *testing.T) {
	t.Parallel()
	g := newGate()
	path := filepath.Join(t.TempDir(), "revisor.db")
	b := newBench(t, benchOptions{path: path, resolve: g.resolve})
	b.register("otro", "escritura-b")
	expect := func(b *bench, when, as, want, retryAfter string) {
		t.Helper()
		got := b.call("GET", "/operaciones/k1", as, "")
		if want == "" {
			detail, _ := got.member("detail").(string)
			if got.verdict() != "404 operacion-inexistente" || !strings.Contains(detail, "no prueba") || got.header.Get("Link") != "" {
				t.Errorf("%s as %s: %s %q, Link %q, want 404 operacion-inexistente that says what it does not prove", when, as, got.verdict(), detail, got.header.Get("Link"))
			}
			return
		}
		if got.status != 200 || got.body != want+"\n" || got.header.Get("Retry-After") != retryAfter {
			t.Errorf("%s as %s: %d %s, Retry-After %q, want 200 %s, %q", when, as, got.status, got.body, got.header.Get("Retry-After"), want, retryAfter)
		}
	}
	expect(b, "before", "escritura-a", "", "")
	g.close()
	done := make(chan response, 1)
	go func() {
		got, err := b.try(context.Background(), "POST", "/servicios?x=1", "escritura-a", `{"nombre":"x","url":"`+b.gateURL("/")+`"}`, `Idempotency-Key: "k1";p=1`)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	g.arrived(t)
	times := `"desde":"2026-10-21T22:26:31Z","vence":"2026-10-22T22:26:31Z"}`
	expect(b, "in flight", "escritura-a", `{"llave":"k1","estado":"en-curso","metodo":"POST","ruta":"/servicios","codigo":null,"recurso":null,`+times, "1")
	for _, as := range []string{"lectura-a", "escritura-b", "admin"} {
		expect(b, "in flight", as, "", "")
	}
	b.clock.advance(10 * time.Second) // counts from first use, not from its end
	g.open()
	if got := <-done; got.status != 201 {
		t.Errorf("POST = %s, want 201", got.verdict())
	}
	finished := `{"llave":"k1","estado":"terminada","metodo":"POST","ruta":"/servicios","codigo":201,"recurso":"/servicios/2",` + times
	expect(b, "finished", "escritura-a", finished, "")
	for _, as := range []string{"lectura-a", "escritura-b", "admin"} {
		expect(b, "finished", as, "", "")
	}
	b.call("DELETE", "/servicios/2", "escritura-a", "")
	expect(b, "after retirement", "escritura-a", finished, "")
	b.stop()

	b = newBench(t, benchOptions{path: path})
	expect(b, "after a restart", "escritura-a", finished, "")
	b.clock.advance(24*time.Hour - time.Millisecond)
	expect(b, "at the last moment", "escritura-a", finished, "")
	b.clock.advance(time.Millisecond)
	expect(b, "expired", "escritura-a", "", "")
}

func TestOperationOfARevision(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("x", "escritura-a")
	b.call("POST", service+"/revisiones", "escritura-a", "}{", "Idempotency-Key: k1")
	got := b.call("GET", "/operaciones/k1", "escritura-a", "")
	if want := `"ruta":"/servicios/1/revisiones","codigo":202,"recurso":"/revisiones/1",`; !strings.Contains(got.body, want) {
		t.Errorf("GET /operaciones/k1 = %s, want %s", got.body, want)
	}
}

// TestOperationKeys: what stands behind /operaciones/ is one key, decoded once and then
// read as the header is.
func TestOperationKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	keys := map[string]string{ // as the header has it, and as it is told
		"k1": "k1", "a/b": "a/b", "/a": "/a", "a/": "a/", "a%2Fb": "a%2Fb", "a+b,c;d=e?f#g": "a+b,c;d=e?f#g", `"con espacio"`: "con espacio",
		`"com\"illas\\"`: `com\"illas\\`, "<&>": "<&>", "..": "..", strings.Repeat("k", 255): strings.Repeat("k", 255),
	}
	for key, told := range keys {
		name := strconv.Itoa(len(b.call("GET", "/servicios", "escritura-a", "").body)) // a new one each time
		b.call("POST", "/servicios", "escritura-a", b.service(name), "Idempotency-Key: "+key)
		got := b.call("GET", "/operaciones/"+url.PathEscape(key), "escritura-a", "")
		if want := `{"llave":"` + told + `","estado":"terminada",`; got.status != 200 || !strings.HasPrefix(got.body, want) {
			t.Errorf("GET /operaciones/%s = %d %s, want 200 %s", url.PathEscape(key), got.status, got.body, want)
		}
	}
	for _, tt := range []struct{ path, want string }{
		{"a/b", "200"}, // a slash needs no escape
		{"/a", "200"},
		{"a/", "200"},
		{"%61%2fb", "200"},
		{"%22k1%22", "200"},
		{"%22k1%22;p=1", "200"},
		{"k1?k2", "200"},
		{"a%252Fb", "200"},
		{"a%25252Fb", "404 operacion-inexistente"}, // decoded once
		{"K1", "404 operacion-inexistente"},
		{"k1/", "404 operacion-inexistente"},
		{"a%20b", "400 llave-invalida"},
		{"k1%20", "400 llave-invalida"},
		{"%22k1", "400 llave-invalida"},
		{"%22%22", "400 llave-invalida"},
		{"%C3%B1", "400 llave-invalida"},
		{"%00", "400 llave-invalida"},
		{strings.Repeat("k", 256), "400 llave-invalida"},
	} {
		got := b.call("GET", "/operaciones/"+tt.path, "escritura-a", "")
		link := ""
		if tt.want == "400 llave-invalida" {
			link = `</idempotencia>; rel="describedby"`
		}
		if got.verdict() != tt.want || got.header.Get("Link") != link {
			t.Errorf("GET /operaciones/%s = %s, Link %q, want %s, %q", tt.path, got.verdict(), got.header.Get("Link"), tt.want, link)
		}
	}
}
