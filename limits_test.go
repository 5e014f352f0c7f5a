// limits_test.go reads what the contract says of the rate limits, through the routes
// that have one. The windows themselves are limiter_test.go's.

package main

import (
	"testing"
	"time"
)

// limitStep moves the clock, asks, and says what must come.
type limitStep struct {
	name    string
	advance time.Duration
	method  string
	path    string
	as      string
	want    string
	after   string // Retry-After
}

func (b *bench) runSteps(steps []limitStep) {
	b.t.Helper()
	for i, s := range steps {
		b.clock.advance(s.advance)
		got := b.call(s.method, s.path, s.as, "")
		if got.verdict() != s.want || got.header.Get("Retry-After") != s.after {
			b.t.Errorf("%d, %s: %s %s as %s = %s, Retry-After %q, want %s, %q",
				i, s.name, s.method, s.path, s.as, got.verdict(), got.header.Get("Retry-After"), s.want, s.after)
		}
	}
}

func TestLimitWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, method, path, good, refused string }{
		{"revisions", "POST", "/servicios/1/revisiones", "202", "429 demasiadas-revisiones"},
		{"live checks", "GET", "/servicios/1/salud", "200", "429 demasiadas-consultas"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			b.register("x", "escritura-a")
			step := func(name string, advance time.Duration, want, after string) limitStep {
				return limitStep{name, advance, tt.method, tt.path, "escritura-a", want, after}
			}
			b.runSteps([]limitStep{
				step("opens the window", 500*time.Millisecond, tt.good, ""),
				step("second", 30*time.Second, tt.good, ""),
				step("third", 0, tt.good, ""),
				step("over it", 0, tt.refused, "30"),
				step("rounded up", 100*time.Millisecond, tt.refused, "30"),
				step("rounded up", 900*time.Millisecond, tt.refused, "29"),
				step("the last second", 28*time.Second, tt.refused, "1"),
				step("the last moment", 999*time.Millisecond, tt.refused, "1"),
				step("a new window", time.Millisecond, tt.good, ""),
				step("second", 0, tt.good, ""),
				step("third", 0, tt.good, ""),
				step("over it: a whole window", 0, tt.refused, "60"),
				step("much later", time.Hour, tt.good, ""),
			})
		})
	}
}

func TestWhatCountsAgainstALimit(t *testing.T) {
	t.Parallel()
	const revisions, live = "429 demasiadas-revisiones", "429 demasiadas-consultas"
	for _, tt := range []struct {
		name  string
		steps []limitStep
	}{
		{"each kind apart, each credential apart", []limitStep{
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"over it", 0, "POST", "/servicios/1/revisiones", "escritura-a", revisions, "60"},
			{"the other kind", 0, "GET", "/servicios/1/salud", "escritura-a", "200", ""},
			{"another credential of the team", 0, "GET", "/servicios/1/salud", "lectura-a", "200", ""},
			{"another credential", 0, "POST", "/servicios/1/revisiones", "admin", "202", ""},
		}},
		{"probing ids costs", []limitStep{
			{"", 0, "POST", "/servicios/999/revisiones", "escritura-a", "404 servicio-inexistente", ""},
			{"another team's", 0, "POST", "/servicios/2/revisiones", "escritura-a", "404 servicio-inexistente", ""},
			{"retired", 0, "POST", "/servicios/3/revisiones", "escritura-a", "410 servicio-retirado", ""},
			{"over it", 0, "POST", "/servicios/1/revisiones", "escritura-a", revisions, "60"},
		}},
		{"probing ids costs, live", []limitStep{
			{"", 0, "GET", "/servicios/18446744073709551617/salud", "lectura-a", "404 servicio-inexistente", ""},
			{"another team's", 0, "GET", "/servicios/2/salud", "lectura-a", "404 servicio-inexistente", ""},
			{"retired", 0, "GET", "/servicios/3/salud", "lectura-a", "410 servicio-retirado", ""},
			{"over it", 0, "GET", "/servicios/1/salud", "lectura-a", live, "60"},
		}},
		{"HEAD is a live check", []limitStep{
			{"", 0, "HEAD", "/servicios/1/salud", "lectura-a", "200", ""},
			{"", 0, "HEAD", "/servicios/1/salud", "lectura-a", "200", ""},
			{"", 0, "GET", "/servicios/1/salud", "lectura-a", "200", ""},
			{"over it", 0, "HEAD", "/servicios/1/salud", "lectura-a", "429", "60"},
			{"over it", 0, "GET", "/servicios/1/salud", "lectura-a", live, "60"},
		}},
		{"what was refused before question 8 does not count", []limitStep{
			{"no credential", 0, "POST", "/servicios/1/revisiones", "nadie", "401 credencial-invalida", ""},
			{"role", 0, "POST", "/servicios/1/revisiones", "lectura-a", "403 permiso-insuficiente", ""},
			{"role", 0, "POST", "/servicios/1/revisiones", "lectura-a", "403 permiso-insuficiente", ""},
			{"role", 0, "POST", "/servicios/1/revisiones", "lectura-a", "403 permiso-insuficiente", ""},
			{"role: 403 before 429", 0, "POST", "/servicios/1/revisiones", "lectura-a", "403 permiso-insuficiente", ""},
			{"method", 0, "GET", "/servicios/1/revisiones", "escritura-a", "405 about:blank", ""},
			{"OPTIONS", 0, "OPTIONS", "/servicios/1/revisiones", "escritura-a", "204", ""},
			{"form of the id", 0, "POST", "/servicios/x/revisiones", "escritura-a", "404 about:blank", ""},
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"over it", 0, "POST", "/servicios/1/revisiones", "escritura-a", revisions, "60"},
		}},
		{"a refusal does not count, so the window still ends", []limitStep{
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"", 0, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
			{"over it", 59 * time.Second, "POST", "/servicios/1/revisiones", "escritura-a", revisions, "1"},
			{"over it", 0, "POST", "/servicios/1/revisiones", "escritura-a", revisions, "1"},
			{"a new window", time.Second, "POST", "/servicios/1/revisiones", "escritura-a", "202", ""},
		}},
		{"other routes have no limit", []limitStep{
			{"", 0, "GET", "/servicios/1/informe", "lectura-a", "200", ""},
			{"", 0, "GET", "/servicios/1/informe", "lectura-a", "200", ""},
			{"", 0, "GET", "/servicios/1/informe", "lectura-a", "200", ""},
			{"", 0, "GET", "/servicios/1/informe", "lectura-a", "200", ""},
			{"", 0, "GET", "/operaciones/k1", "lectura-a", "404 operacion-inexistente", ""},
			{"", 0, "GET", "/revisiones/1", "lectura-a", "404 revision-inexistente", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			b.register("x", "escritura-a")
			b.register("x", "escritura-b")
			b.call("DELETE", b.register("baja", "escritura-a"), "escritura-a", "")
			b.runSteps(tt.steps)
		})
	}
}
