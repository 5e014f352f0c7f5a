// put_test.go reads what the contract says of replacing a service: the condition, the
// whole replacement, the version compared again at the moment of writing.

package main

import (
	"context"
	"strings"
	"testing"
)

func TestPutReplacesTheWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	url := "http://" + b.lab + "/codigo/200"
	service := b.registered("escritura-a", `{"nombre":"catalogo","url":"`+url+`","limite_ms":500}`)
	b.register("pagos", "escritura-a")
	tag := b.call("GET", service, "lectura-a", "").header.Get("ETag")
	store := tagOf(tag)
	for _, tt := range []struct{ name, as, body, want, etag string }{
		{"another URL; the limit left out", "escritura-a", `{"nombre":"catalogo","url":"` + url + `?a=1&b"}`,
			`{"id":1,"nombre":"catalogo","url":"` + url + `?a=1&b","limite_ms":2000}`, `"1-2-` + store + `"`},
		{"another name; unknown members", "escritura-a", `{"id":7,"url":"` + url + `","limite_ms":1e2,"nombre":"avisos"}`,
			`{"id":1,"nombre":"avisos","url":"` + url + `","limite_ms":100}`, `"1-3-` + store + `"`},
		{"the same again is a write too", "escritura-a", `{"id":7,"url":"` + url + `","limite_ms":1e2,"nombre":"avisos"}`,
			`{"id":1,"nombre":"avisos","url":"` + url + `","limite_ms":100}`, `"1-4-` + store + `"`},
		{"by the admin", "admin", `{"nombre":"catalogo","url":"` + url + `"}`,
			`{"id":1,"nombre":"catalogo","url":"` + url + `","limite_ms":2000}`, `"1-5-` + store + `"`},
	} {
		got := b.call("PUT", service, tt.as, tt.body, "If-Match: "+tag, "Idempotency-Key: k1")
		if got.status != 200 || got.body != tt.want+"\n" || got.header.Get("ETag") != tt.etag {
			t.Errorf("%s: PUT = %d %s, ETag %q, want 200 %s, %q", tt.name, got.status, got.body, got.header.Get("ETag"), tt.want, tt.etag)
		}
		for _, name := range []string{"Location", "Idempotency-Replayed"} {
			if got.header.Get(name) != "" {
				t.Errorf("%s: %s = %q, want none", tt.name, name, got.header.Get(name))
			}
		}
		tag = got.header.Get("ETag")
		again := b.call("GET", service, "lectura-a", "")
		if again.body != got.body || again.header.Get("ETag") != tag {
			t.Errorf("%s: GET = %s, ETag %q, want what PUT answered", tt.name, again.body, again.header.Get("ETag"))
		}
	}
	// The admin's PUT left the service in its team, whose names it shares.
	for _, as := range []string{"escritura-a", "admin"} {
		got := b.call("PUT", service, as, b.service("pagos"), "If-Match: *")
		if got.verdict() != "409 nombre-repetido" || got.member("existente") != "/servicios/2" {
			t.Errorf("PUT of a taken name as %s = %s, existente %v, want 409 nombre-repetido, /servicios/2", as, got.verdict(), got.member("existente"))
		}
	}
	if got := b.call("GET", service, "lectura-a", ""); got.header.Get("ETag") != tag {
		t.Errorf("ETag after refused writes = %q, want %q", got.header.Get("ETag"), tag)
	}
}

func TestPutCondition(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const other = `"1-1-00000000x"`
	for _, tt := range []struct {
		name  string
		lines []string // TAG stands for the service's tag
		want  string
	}{
		{"none", nil, "428 falta-condicion"},
		{"the tag", []string{"TAG"}, "200"},
		{"any", []string{"*"}, "200"},
		{"in a list", []string{other + ", TAG"}, "200"},
		{"among empty elements", []string{",, TAG ,"}, "200"},
		{"on a second line", []string{other, "TAG"}, "200"},
		{"weak and strong", []string{"W/TAG, TAG"}, "200"},
		{"weak", []string{"W/TAG"}, "412 etiqueta-vencida"},
		{"another", []string{other}, "412 etiqueta-vencida"},
		{"lower-case w", []string{"w/TAG"}, "412 etiqueta-vencida"},
		{"any among tags", []string{"TAG, *"}, "412 etiqueta-vencida"},
		{"no comma", []string{"TAG TAG"}, "412 etiqueta-vencida"},
		{"a bare word in the list", []string{"TAG, x"}, "412 etiqueta-vencida"},
		{"empty", []string{","}, "412 etiqueta-vencida"},
	} {
		service := b.register("s-"+tt.name, "escritura-a")
		tag := b.call("GET", service, "lectura-a", "").header.Get("ETag")
		var headers []string
		for _, line := range tt.lines {
			headers = append(headers, "If-Match: "+strings.ReplaceAll(line, "TAG", tag))
		}
		got := b.call("PUT", service, "escritura-a", b.service("p-"+tt.name), headers...)
		if got.verdict() != tt.want {
			t.Errorf("%s: PUT with %q = %s, want %s", tt.name, headers, got.verdict(), tt.want)
		}
		detail, _ := got.member("detail").(string)
		if saysWeak := strings.Contains(detail, "débil"); saysWeak != (tt.name == "weak") {
			t.Errorf("%s: detail %q speaks of weak tags: %v", tt.name, detail, saysWeak)
		}
		now := b.call("GET", service, "lectura-a", "")
		if changed := now.header.Get("ETag") != tag; changed != (tt.want == "200") {
			t.Errorf("%s: PUT changed the service: %v, want %v", tt.name, changed, tt.want == "200")
		}
	}
	service := b.register("viejo", "escritura-a")
	old := b.call("GET", service, "lectura-a", "").header.Get("ETag")
	b.call("PUT", service, "escritura-a", b.service("nuevo"), "If-Match: "+old)
	if got := b.call("PUT", service, "escritura-a", b.service("tercero"), "If-Match: "+old); got.verdict() != "412 etiqueta-vencida" {
		t.Errorf("PUT with the tag of an earlier version = %s, want 412 etiqueta-vencida", got.verdict())
	}
}

// TestPutRace: what happens between the look at the version and the write is seen at
// the moment of writing. The gate holds the PUT in between.
func TestPutRace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, condition string
		between         func(b *bench, service string) response
		betweenWant     int
		want            string
		survives        string // the name of the service at the end
	}{
		{"nothing", "TAG", nil, 0, "200", "lento"},
		{"a change", "TAG", func(b *bench, service string) response {
			return b.call("PUT", service, "escritura-a", b.service("rapido"), "If-Match: *")
		}, 200, "412 etiqueta-vencida", "rapido"},
		{"a change, with any", "*", func(b *bench, service string) response {
			return b.call("PUT", service, "escritura-a", b.service("rapido"), "If-Match: *")
		}, 200, "200", "lento"},
		{"a retirement", "TAG", func(b *bench, service string) response {
			return b.call("DELETE", service, "escritura-a", "")
		}, 204, "410 servicio-retirado", ""},
		{"a retirement, with any", "*", func(b *bench, service string) response {
			return b.call("DELETE", service, "escritura-a", "")
		}, 204, "410 servicio-retirado", ""},
		{"the name taken", "TAG", func(b *bench, _ string) response {
			return b.call("POST", "/servicios", "escritura-a", b.service("lento"))
		}, 201, "409 nombre-repetido", "catalogo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			b := newBench(t, benchOptions{resolve: g.resolve})
			service := b.register("catalogo", "escritura-a")
			tag := b.call("GET", service, "lectura-a", "").header.Get("ETag")
			g.close()
			slow := make(chan response, 1)
			go func() {
				got, err := b.try(context.Background(), "PUT", service, "escritura-a",
					`{"nombre":"lento","url":"`+b.gateURL("/codigo/200")+`"}`, "If-Match: "+strings.ReplaceAll(tt.condition, "TAG", tag))
				if err != nil {
					t.Error(err)
				}
				slow <- got
			}()
			g.arrived(t)
			if tt.between != nil {
				if got := tt.between(b, service); got.status != tt.betweenWant {
					t.Errorf("in between = %s, want %d", got.verdict(), tt.betweenWant)
				}
			}
			g.open()
			if got := <-slow; got.verdict() != tt.want {
				t.Errorf("PUT = %s, want %s", got.verdict(), tt.want)
			}
			now := b.call("GET", service, "lectura-a", "")
			if name, _ := now.member("nombre").(string); name != tt.survives {
				t.Errorf("GET at the end = %s, want %q", now.body, tt.survives)
			}
		})
	}
}
