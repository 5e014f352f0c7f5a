// revisions_test.go reads what the contract says of revisions, live checks and reports:
// a revision's life, what a check comes to on the wire, who may see it.

package main

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// finished asks for a check and waits for its end.
func (b *bench) finished(service, as string) response {
	b.t.Helper()
	posted := b.call("POST", service+"/revisiones", as, "")
	if posted.status != 202 {
		b.t.Fatalf("POST %s/revisiones = %s, want 202", service, posted.verdict())
	}
	var got response
	eventually(b.t, "the revision of "+service+" finished", func() bool {
		got = b.call("GET", posted.header.Get("Location"), as, "")
		return got.member("estado") != "pendiente"
	})
	return got
}

// TestRevisionLife: pending with a hint when to ask again, readable after its service
// was retired, finished without the hint.
func TestRevisionLife(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	b.register("otro", "escritura-b")
	service := b.registered("escritura-a", `{"nombre":"lento","url":"`+b.gateURL("/codigo/503")+`","limite_ms":10000}`)
	g.close()
	defer g.open()
	posted := b.call("POST", service+"/revisiones", "escritura-a", "")
	pending := `{"id":1,"servicio":2,"estado":"pendiente","resultado":null}` + "\n"
	if posted.status != 202 || posted.body != pending || posted.header.Get("Location") != "/revisiones/1" {
		t.Errorf("POST = %d %s, Location %q, want 202 %s, /revisiones/1", posted.status, posted.body, posted.header.Get("Location"), pending)
	}
	for _, name := range []string{"ETag", "Idempotency-Replayed", "Retry-After"} {
		if posted.header.Get(name) != "" {
			t.Errorf("POST: %s = %q, want none", name, posted.header.Get(name))
		}
	}
	g.arrived(t)
	isPending := func(when string) {
		t.Helper()
		for _, as := range []string{"lectura-a", "admin"} {
			got := b.call("GET", "/revisiones/1", as, "")
			if got.status != 200 || got.body != pending || got.header.Get("Retry-After") != "1" {
				t.Errorf("GET %s as %s = %d %s, Retry-After %q, want 200 %s, 1", when, as, got.status, got.body, got.header.Get("Retry-After"), pending)
			}
		}
	}
	isPending("at once")
	b.call("DELETE", service, "escritura-a", "")
	isPending("after retirement")
	g.open()
	var got response
	eventually(t, "the revision finished", func() bool {
		got = b.call("GET", "/revisiones/1", "lectura-a", "")
		return got.member("estado") == "terminada"
	})
	want := regexp.MustCompile(`^\{"id":1,"servicio":2,"estado":"terminada","resultado":\{"estado":"CAIDO","codigo":503,"ms":[0-9]+,` +
		`"detalle":"503 \(reintentar en 120 s\)"\}\}` + "\n$")
	if !want.MatchString(got.body) || got.header.Get("Retry-After") != "" {
		t.Errorf("GET at the end = %s, Retry-After %q, want %s, none", got.body, got.header.Get("Retry-After"), want)
	}
	for as, want := range map[string]string{"escritura-b": "404 revision-inexistente", "lectura-a": "200", "admin": "200", "": "401 credencial-invalida"} {
		if got := b.call("GET", "/revisiones/1", as, ""); got.verdict() != want {
			t.Errorf("GET as %q = %s, want %s", as, got.verdict(), want)
		}
	}
}

func TestRevisionResults(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	closed := mustURL(t, closedPort(t)).Host
	dead := newBench(t, benchOptions{allow: []string{closed}})
	b.clock.run() // or nothing would be slow
	for i, tt := range []struct {
		name  string
		b     *bench
		url   string
		limit int
		want  string // of the result
	}{
		{"up", b, b.lab + "/codigo/200", 10000, `{"estado":"ARRIBA","codigo":200,"ms":MS,"detalle":"200"}`},
		{"no content", b, b.lab + "/codigo/204", 10000, `{"estado":"ARRIBA","codigo":204,"ms":MS,"detalle":"204"}`},
		{"a redirect, not followed", b, b.lab + "/codigo/301", 10000, `{"estado":"ARRIBA","codigo":301,"ms":MS,"detalle":"301"}`},
		{"slow", b, b.lab + "/lento/300", 500, `{"estado":"LENTO","codigo":200,"ms":MS,"detalle":"200"}`},
		{"a client's error", b, b.lab + "/codigo/404", 10000, `{"estado":"CAIDO","codigo":404,"ms":MS,"detalle":"404"}`},
		{"a server's error", b, b.lab + "/codigo/500", 10000, `{"estado":"CAIDO","codigo":500,"ms":MS,"detalle":"500"}`},
		{"too many", b, b.lab + "/codigo/429", 10000, `{"estado":"CAIDO","codigo":429,"ms":MS,"detalle":"429 (reintentar en 30 s)"}`},
		{"bad Retry-After", b, b.lab + "/codigo/500?retry-after=1.5", 10000, `{"estado":"CAIDO","codigo":500,"ms":MS,"detalle":"500"}`},
		{"no answer in time", b, b.lab + "/lento/9999", 100, `{"estado":"CAIDO","codigo":null,"ms":null,"detalle":"tiempo agotado"}`},
		{"no connection", dead, closed, 10000, `{"estado":"CAIDO","codigo":null,"ms":null,"detalle":"sin conexión"}`},
		{"cut", b, b.lab + "/cortar", 10000, `{"estado":"CAIDO","codigo":null,"ms":null,"detalle":"respuesta inválida"}`},
		{"not HTTP", b, b.lab + "/basura", 10000, `{"estado":"CAIDO","codigo":null,"ms":null,"detalle":"respuesta inválida"}`},
	} {
		service := tt.b.registered("admin", fmt.Sprintf(`{"nombre":"s%d","url":"http://%s","limite_ms":%d}`, i, tt.url, tt.limit))
		tt.b.clock.advance(rateWindow)
		got := tt.b.finished(service, "admin")
		want := strings.ReplaceAll(regexp.QuoteMeta(`,"estado":"terminada","resultado":`+tt.want+"}\n"), "MS", "[0-9]+")
		if !regexp.MustCompile(want + "$").MatchString(got.body) {
			t.Errorf("%s: revision = %s, want %s", tt.name, got.body, tt.want)
		}
	}
}

// turncoat resolves a name to the lab until it turns, and then to an address inside.
func turncoat() (resolve func(context.Context, string) ([]netip.Addr, error), turn func()) {
	var turned atomic.Bool
	return func(context.Context, string) ([]netip.Addr, error) {
		if turned.Load() {
			return []netip.Addr{netip.MustParseAddr("10.9.8.7")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}, func() { turned.Store(true) }
}

// TestDestinationForbiddenLater: a name that was allowed at registration is judged
// again at every check, and never told where it leads.
func TestDestinationForbiddenLater(t *testing.T) {
	t.Parallel()
	resolve, turn := turncoat()
	b := newBench(t, benchOptions{resolve: resolve})
	service := b.registered("escritura-a", `{"nombre":"x","url":"`+b.gateURL("/codigo/200")+`"}`)
	if got := b.call("GET", service+"/salud", "escritura-a", ""); got.status != 200 {
		t.Errorf("GET %s/salud = %s, want 200", service, got.verdict())
	}
	turn()
	live := b.call("GET", service+"/salud", "escritura-a", "")
	if live.verdict() != "422 destino-prohibido" || !strings.Contains(live.body, gateHost) || strings.Contains(live.body, "10.9.8.7") {
		t.Errorf("GET %s/salud = %s, want 422 destino-prohibido that names %s alone", service, live.body, gateHost)
	}
	got := b.finished(service, "escritura-a")
	want := `"resultado":{"estado":"CAIDO","codigo":null,"ms":null,"detalle":"destino prohibido: ` + gateHost
	if !strings.Contains(got.body, want) || strings.Contains(got.body, "10.9.8.7") {
		t.Errorf("revision = %s, want %s…", got.body, want)
	}
}

func TestHealthRoute(t *testing.T) {
	t.Parallel()
	closed := mustURL(t, closedPort(t)).Host
	b := newBench(t, benchOptions{allow: []string{closed}})
	for i, tt := range []struct {
		name, url string
		limit     int
		want      string
	}{
		{"up", b.lab + "/codigo/200", 10000, "200 200"},
		{"down", b.lab + "/codigo/503", 10000, "200 503"},
		{"a client's error", b.lab + "/codigo/404", 10000, "200 404"},
		{"a redirect, not followed", b.lab + "/codigo/302", 10000, "200 302"},
		{"the highest status", b.lab + "/codigo/999", 10000, "200 999"},
		{"slow", b.lab + "/lento/9999", 100, "504 servicio-lento"},
		{"no connection", closed, 10000, "502 respuesta-invalida"},
		{"cut", b.lab + "/cortar", 10000, "502 respuesta-invalida"},
		{"not HTTP", b.lab + "/basura", 10000, "502 respuesta-invalida"},
	} {
		service := b.registered("admin", fmt.Sprintf(`{"nombre":"s%d","url":"http://%s","limite_ms":%d}`, i, tt.url, tt.limit))
		b.clock.advance(rateWindow)
		got := b.call("GET", service+"/salud", "admin", "")
		if code, ok := strings.CutPrefix(tt.want, "200 "); ok {
			want := fmt.Sprintf(`^\{"servicio":%d,"codigo":%s,"ms":[0-9]+\}`+"\n$", i+1, code)
			if got.status != 200 || !regexp.MustCompile(want).MatchString(got.body) {
				t.Errorf("%s: live check = %d %s, want 200 %s", tt.name, got.status, got.body, want)
			}
		} else if got.verdict() != tt.want {
			t.Errorf("%s: live check = %s, want %s", tt.name, got.verdict(), tt.want)
		}
		if got := b.call("GET", service+"/informe", "admin", ""); got.member("revisiones") != 0.0 {
			t.Errorf("%s: report = %s, want a live check that is no revision", tt.name, got.body)
		}
	}
}

// TestLiveCheckOfAClientThatLeft is no internal error: there is nobody to tell.
func TestLiveCheckOfAClientThatLeft(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	service := b.registered("escritura-a", `{"nombre":"x","url":"`+b.gateURL("/codigo/200")+`","limite_ms":10000}`)
	g.close()
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := b.try(ctx, "GET", service+"/salud", "escritura-a", "")
		left <- err
	}()
	g.arrived(t)
	leave()
	if err := <-left; err == nil {
		t.Error("GET answered a client that left")
	}
	eventually(t, "the request ended", func() bool { return strings.Contains(b.log.String(), "path="+service+"/salud") })
	if log := b.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("log has an error:\n%s", log)
	}
}

// TestReport: the count of all revisions, and the state of the newest that has finished,
// in whatever order they finish.
func TestReport(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	b.register("otro", "escritura-b")
	slow := `{"nombre":"x","url":"` + b.gateURL("/codigo/503") + `","limite_ms":10000}`
	service := b.registered("escritura-a", slow)
	expect := func(when, count, state string) {
		t.Helper()
		want := `{"servicio":2,"revisiones":` + count + `,"ultimo_estado":` + state + `}` + "\n"
		if got := b.call("GET", service+"/informe", "lectura-a", ""); got.status != 200 || got.body != want {
			t.Errorf("report %s = %d %s, want 200 %s", when, got.status, got.body, want)
		}
	}
	expect("without revisions", "0", "null")
	g.close()
	defer g.open()
	first := b.call("POST", service+"/revisiones", "escritura-a", "").header.Get("Location")
	expect("with a pending one", "1", "null")
	g.arrived(t)
	b.call("PUT", service, "escritura-a", b.service("x"), "If-Match: *") // a good URL from now on
	b.finished(service, "escritura-a")
	expect("with an older one pending", "2", `"ARRIBA"`)
	g.open()
	eventually(t, "the first finished", func() bool { return b.call("GET", first, "lectura-a", "").member("estado") == "terminada" })
	if got := b.call("GET", first, "lectura-a", ""); !strings.Contains(got.body, `"estado":"CAIDO"`) {
		t.Errorf("the first = %s, want CAIDO", got.body)
	}
	expect("when the older one finished last", "2", `"ARRIBA"`)
	b.call("PUT", service, "escritura-a", slow, "If-Match: *")
	b.finished(service, "escritura-a")
	expect("at the end", "3", `"CAIDO"`)
	for as, want := range map[string]string{"escritura-b": "404 servicio-inexistente", "admin": "200"} {
		if got := b.call("GET", service+"/informe", as, ""); got.verdict() != want {
			t.Errorf("report as %s = %s, want %s", as, got.verdict(), want)
		}
	}
}

// TestRevisionsSideBySide: one against a silent service does not make others wait.
func TestRevisionsSideBySide(t *testing.T) {
	t.Parallel()
	const silent = 8
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	service := b.registered("escritura-a", `{"nombre":"x","url":"`+b.gateURL("/codigo/200")+`","limite_ms":10000}`)
	g.close()
	defer g.open()
	for range silent {
		b.clock.advance(rateWindow)
		if got := b.call("POST", service+"/revisiones", "escritura-a", ""); got.status != 202 {
			t.Fatalf("POST = %s, want 202", got.verdict())
		}
	}
	for range silent {
		g.arrived(t)
	}
}

// TestPendingRevisionSurvivesARestart: what was accepted is checked, if not by this
// process then by the next.
func TestPendingRevisionSurvivesARestart(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/revisor.db"
	b := newBench(t, benchOptions{path: path, queueDelay: time.Hour})
	revision := b.call("POST", b.register("x", "escritura-a")+"/revisiones", "escritura-a", "").header.Get("Location")
	b.stop()
	b = newBench(t, benchOptions{path: path, allow: []string{"127.0.0.1"}})
	eventually(t, "the revision finished", func() bool {
		return b.call("GET", revision, "lectura-a", "").member("estado") == "terminada"
	})
}
