// labchecks_test.go owns what a whole revisor says of a service that is the bench at its
// worst: the contract's table of states, row by row.

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestRevisionsOfTheBench: the body is not read, so what is wrong there is not seen;
// whatever is no HTTP in the header section is no answer; each attempt is one request.
func TestRevisionsOfTheBench(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	up := func(status int) string {
		return fmt.Sprintf(`{"estado":"ARRIBA","codigo":%d,"ms":MS,"detalle":"%[1]d"}`, status)
	}
	down := func(status int, detail string) string {
		return fmt.Sprintf(`{"estado":"CAIDO","codigo":%d,"ms":MS,"detalle":"%s"}`, status, detail)
	}
	const (
		invalid = `{"estado":"CAIDO","codigo":null,"ms":null,"detalle":"respuesta inválida"}`
		late    = `{"estado":"CAIDO","codigo":null,"ms":null,"detalle":"tiempo agotado"}`
		bad     = "502 respuesta-invalida"
	)
	tests := []struct {
		path     string
		limit    int
		want     string // of the revision
		attempts int
		live     string
	}{
		{"/corte/fin/antes", 5000, invalid, 3, bad},
		{"/corte/rst/antes", 5000, invalid, 3, bad},
		{"/corte/fin/estado", 5000, invalid, 3, bad},
		{"/corte/rst/estado", 5000, invalid, 3, bad},
		{"/corte/fin/cabeceras", 5000, invalid, 3, bad},
		{"/corte/rst/cabeceras", 5000, invalid, 3, bad},
		{"/corte/fin/tras-cabeceras", 5000, up(200), 1, "200"},
		{"/corte/rst/tras-cabeceras", 5000, up(200), 1, "200"},
		{"/corte/fin/cuerpo", 5000, up(200), 1, "200"},
		{"/corte/rst/cuerpo", 5000, up(200), 1, "200"},
		{"/corte/fin/trozo", 5000, up(200), 1, "200"},

		{"/longitud/corta", 5000, up(200), 1, "200"},
		{"/longitud/larga", 5000, up(200), 1, "200"},
		{"/longitud/abierta", 5000, up(200), 1, "200"},
		{"/longitud/dos", 5000, invalid, 3, bad},
		{"/longitud/palabra", 5000, invalid, 3, bad},
		{"/longitud/negativa", 5000, invalid, 3, bad},
		{"/longitud/enorme", 5000, invalid, 3, bad},
		{"/longitud/con-trozos", 5000, up(200), 1, "200"},

		{"/trozos/no-hexadecimal", 5000, up(200), 1, "200"},
		{"/trozos/negativo", 5000, up(200), 1, "200"},
		{"/trozos/enorme", 5000, up(200), 1, "200"},
		{"/trozos/sin-salto", 5000, up(200), 1, "200"},
		{"/trozos/mas-largo", 5000, up(200), 1, "200"},
		{"/trozos/mas-corto", 5000, up(200), 1, "200"},
		{"/trozos/sin-final", 5000, up(200), 1, "200"},

		{"/sin-fin/cabeceras", 5000, invalid, 3, bad},
		{"/sin-fin/cabecera", 5000, invalid, 3, bad},
		{"/sin-fin/cuerpo", 5000, up(200), 1, "200"},
		{"/cuerpo/1000000", 5000, up(200), 1, "200"},
		{"/goteo/100/500", 100, up(200), 1, "200"},
		{"/goteo/cabeceras/3/1", 5000, up(200), 1, "200"},
		{"/goteo/cabeceras/100/20", 100, late, 3, "504 servicio-lento"},

		{"/bucle/mismo", 5000, up(302), 1, "302"},
		{"/bucle/ida?codigo=308", 5000, up(308), 1, "308"},
		{"/bucle/cadena/3", 5000, up(302), 1, "302"},
		{"/secuencia/503,429,200?k=r", 5000, up(200), 3, "200"},
		{"/secuencia/503,404?k=s", 5000, down(404, "404"), 2, "404"},
		{"/secuencia/503:0,500?k=t", 5000, down(500, "500"), 2, "500"},
	}
	for i, tt := range tests {
		service := b.registered("admin", fmt.Sprintf(`{"nombre":"s%d","url":"http://%s%s","limite_ms":%d}`, i, b.lab, tt.path, tt.limit))
		b.checkRevision(t, tt.path, service, tt.want, tt.attempts)
		live := b.call("GET", service+"/salud", "admin", "")
		got := live.verdict()
		if live.status == 200 {
			got = fmt.Sprint(live.member("codigo"))
		}
		if got != tt.live {
			t.Errorf("%s: live check = %s, want %s", tt.path, got, tt.live)
		}
	}
}

// TestRevisionsByRetryAfter: a form that is valid ends the attempts when it asks for too
// long, and is told; any other is as if it had not come.
func TestRevisionsByRetryAfter(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for i, form := range retryForms {
		path := "/espera/" + form.name + "?segundos=3600&codigo=429"
		want, attempts := "429", 3
		if form.valid {
			want, attempts = "429 (reintentar en 3600 s)", 1
		}
		switch form.name {
		case "cero", "pasada":
			want, attempts = "429 (reintentar en 0 s)", 3
		case "intercalar": // and the clock moves on from form to form
			want = "429 (reintentar en [0-9]+ s)"
		}
		service := b.registered("admin", fmt.Sprintf(`{"nombre":"s%d","url":"http://%s%s"}`, i, b.lab, path))
		result := strings.NewReplacer("(", `\(`, ")", `\)`).Replace(want)
		b.checkRevision(t, path, service, `{"estado":"CAIDO","codigo":429,"ms":MS,"detalle":"`+result+`"}`, attempts)
	}
}

// checkRevision asks for a revision in a rate window of its own, and compares its result
// (MS for a number) and how many requests the bench got for it.
func (b *bench) checkRevision(t *testing.T, path, service, want string, attempts int) {
	t.Helper()
	b.clock.advance(rateWindow)
	lab := &bench{t: t, url: "http://" + b.lab}
	lab.call("DELETE", "/contadores", "", "")
	got := b.finished(service, "admin")
	pattern := strings.NewReplacer("{", `\{`, "}", `\}`, "MS", "[0-9]+").Replace(want)
	if !regexp.MustCompile(`"resultado":` + pattern + `\}` + "\n$").MatchString(got.body) {
		t.Errorf("%s: revision = %s, want %s", path, got.body, want)
	}
	counted, _, _ := strings.Cut(path, "?")
	if got := lab.call("GET", "/contadores", "", "").member(counted); got != float64(attempts) {
		t.Errorf("%s: the bench got %v requests, want %d", path, got, attempts)
	}
}
