// order_test.go reads the contract's order of the questions: each request here fails
// several, and the earliest must win.

package main

import (
	"strings"
	"testing"
)

func TestOrderOfTheQuestions(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.register("catalogo", "escritura-a")                                  // 1
	b.call("DELETE", b.register("viejo", "admin"), "admin", "")            // 2: retired, of team *
	b.register("nomina", "escritura-b")                                    // 3
	b.call("DELETE", b.register("baja", "escritura-a"), "escritura-a", "") // 4: retired
	b.register("pagos", "escritura-a")                                     // 5
	b.call("POST", "/servicios", "escritura-a", b.service("usada"), "Idempotency-Key: usada")
	for range checksPerWindow { // both limits of escritura-a are exhausted, those of escritura-b are not
		b.call("POST", "/servicios/1/revisiones", "escritura-a", "")
		b.call("GET", "/servicios/1/salud", "escritura-a", "")
	}
	const (
		text   = "Content-Type: text/plain"
		badKey = "Idempotency-Key: dos palabras"
		key    = "Idempotency-Key: nueva"
		any    = "If-Match: *"
		stale  = `If-Match: "x"`
		clash  = `{"nombre":"pagos","url":"http://10.0.0.1/"}` // forbidden, and the name is taken
		wrong  = `{"nombre":"pagos","url":"http://10.0.0.1/","limite_ms":0}`
	)
	big := strings.Repeat("x", maxBody+1)
	tests := []struct {
		name, method, path, as, body string
		headers                      []string
		want                         string
	}{
		{"moved before method", "PATCH", "/viejo/servicios", "", "", nil, "301"},
		{"moved before route", "GET", "/api/servicios/abc", "", "", nil, "308"},
		{"v0 before route", "GET", "/v0/nada", "", "", nil, "410 version-retirada"},
		{"v0 before OPTIONS", "OPTIONS", "/v0/servicios", "", "", nil, "410 version-retirada"},
		{"route before method", "PATCH", "/nada", "", "", nil, "404 about:blank"},
		{"route before OPTIONS", "OPTIONS", "/servicios/abc", "", "", nil, "404 about:blank"},
		{"form of an id before method", "POST", "/servicios/abc", "", "", nil, "404 about:blank"},
		{"form of an id before credential", "GET", "/servicios/abc", "", "", nil, "404 about:blank"},
		{"form of an id before type and body", "PUT", "/servicios/abc", "escritura-a", big, []string{text}, "404 about:blank"},
		{"method before credential", "PATCH", "/servicios", "", "", nil, "405 about:blank"},
		{"method before a bad credential", "POST", "/servicios/1", "nadie", "", nil, "405 about:blank"},
		{"method before existence", "POST", "/servicios/999", "escritura-a", "", nil, "405 about:blank"},
		{"OPTIONS before credential", "OPTIONS", "/mantenimiento", "", "", nil, "204"},
		{"OPTIONS before existence", "OPTIONS", "/servicios/999", "nadie", "", nil, "204"},
		{"credential before role", "PUT", "/mantenimiento", "nadie", `{"activo":true}`, nil, "401 credencial-invalida"},
		{"credential before existence", "GET", "/servicios/999", "", "", nil, "401 credencial-invalida"},
		{"credential before type", "POST", "/servicios", "", "{}", []string{text}, "401 credencial-invalida"},
		{"credential before key", "POST", "/servicios", "nadie", "{}", []string{badKey}, "401 credencial-invalida"},
		{"credential before the key of a path", "GET", "/operaciones/%22", "", "", nil, "401 credencial-invalida"},
		{"role before existence", "DELETE", "/servicios/999", "lectura-a", "", nil, "403 permiso-insuficiente"},
		{"role before type", "POST", "/servicios", "lectura-a", "{}", []string{text}, "403 permiso-insuficiente"},
		{"role before body", "PUT", "/mantenimiento", "escritura-a", "{", nil, "403 permiso-insuficiente"},
		{"role before size", "POST", "/servicios", "lectura-a", big, nil, "403 permiso-insuficiente"},
		{"role before key", "POST", "/servicios", "lectura-a", "{}", []string{badKey}, "403 permiso-insuficiente"},
		{"limit before existence", "POST", "/servicios/999/revisiones", "escritura-a", "", nil, "429 demasiadas-revisiones"},
		{"limit before retirement", "POST", "/servicios/4/revisiones", "escritura-a", "", nil, "429 demasiadas-revisiones"},
		{"limit before size", "POST", "/servicios/1/revisiones", "escritura-a", big, nil, "429 demasiadas-revisiones"},
		{"limit of live checks before existence", "GET", "/servicios/999/salud", "escritura-a", "", nil, "429 demasiadas-consultas"},
		{"existence before type", "PUT", "/servicios/999", "escritura-a", "{}", []string{text}, "404 servicio-inexistente"},
		{"retirement before type", "PUT", "/servicios/4", "escritura-a", "{}", []string{text}, "410 servicio-retirado"},
		{"another team's before type", "PUT", "/servicios/3", "escritura-a", "{}", []string{text}, "404 servicio-inexistente"},
		{"existence before condition", "PUT", "/servicios/999", "escritura-a", "{}", nil, "404 servicio-inexistente"},
		{"existence before size", "POST", "/servicios/999/revisiones", "escritura-b", big, nil, "404 servicio-inexistente"},
		{"type before condition", "PUT", "/servicios/1", "escritura-a", "{}", []string{text}, "415 about:blank"},
		{"type before stale condition", "PUT", "/servicios/1", "escritura-a", "{}", []string{text, stale}, "415 about:blank"},
		{"type before size", "POST", "/servicios", "escritura-a", big, []string{text}, "415 about:blank"},
		{"type before body", "POST", "/servicios", "escritura-a", "{", []string{text}, "415 about:blank"},
		{"type before key", "POST", "/servicios", "escritura-a", "{}", []string{text, badKey}, "415 about:blank"},
		{"type before key used", "POST", "/servicios", "escritura-a", "{}", []string{text, "Idempotency-Key: usada"}, "415 about:blank"},
		{"type before data, maintenance", "PUT", "/mantenimiento", "admin", "{}", []string{text}, "415 about:blank"},
		{"missing condition before body", "PUT", "/servicios/1", "escritura-a", "{", nil, "428 falta-condicion"},
		{"missing condition before size", "PUT", "/servicios/1", "escritura-a", big, nil, "428 falta-condicion"},
		{"missing condition before data", "PUT", "/servicios/1", "escritura-a", "{}", nil, "428 falta-condicion"},
		{"stale condition before body", "PUT", "/servicios/1", "escritura-a", "{", []string{stale}, "412 etiqueta-vencida"},
		{"stale condition before size", "PUT", "/servicios/1", "escritura-a", big, []string{stale}, "412 etiqueta-vencida"},
		{"stale condition before name", "PUT", "/servicios/1", "escritura-a", clash, []string{stale}, "412 etiqueta-vencida"},
		{"size before body", "POST", "/servicios", "escritura-a", big, nil, "413 about:blank"},
		{"size before body, PUT", "PUT", "/servicios/1", "escritura-a", big, []string{any}, "413 about:blank"},
		{"size before key", "POST", "/servicios", "escritura-a", big, []string{badKey}, "413 about:blank"},
		{"body before key", "POST", "/servicios", "escritura-a", "{", []string{badKey}, "400 cuerpo-ilegible"},
		{"body before key used", "POST", "/servicios", "escritura-a", "{", []string{"Idempotency-Key: usada"}, "400 cuerpo-ilegible"},
		{"key before data", "POST", "/servicios", "escritura-a", "{}", []string{badKey}, "400 llave-invalida"},
		{"key before name", "POST", "/servicios", "escritura-a", b.service("pagos"), []string{badKey}, "400 llave-invalida"},
		{"key used before data", "POST", "/servicios", "escritura-a", "{}", []string{"Idempotency-Key: usada"}, "422 llave-reutilizada"},
		{"data before destination", "POST", "/servicios", "escritura-a", wrong, nil, "422 datos-invalidos"},
		{"data before destination, keyed", "POST", "/servicios", "escritura-a", wrong, []string{key}, "422 datos-invalidos"},
		{"data before destination, PUT", "PUT", "/servicios/1", "escritura-a", wrong, []string{any}, "422 datos-invalidos"},
		{"destination before name", "POST", "/servicios", "escritura-a", clash, nil, "422 destino-prohibido"},
		{"destination before name, keyed", "POST", "/servicios", "escritura-a", clash, []string{key}, "422 destino-prohibido"},
		{"destination before name, PUT", "PUT", "/servicios/1", "escritura-a", clash, []string{any}, "422 destino-prohibido"},
		{"name", "POST", "/servicios", "escritura-a", b.service("pagos"), nil, "409 nombre-repetido"},
		{"name, PUT", "PUT", "/servicios/1", "escritura-a", b.service("pagos"), []string{any}, "409 nombre-repetido"},

		// A keyed revision is asked 12, 13, 8, 9.
		{"keyed: size before key", "POST", "/servicios/3/revisiones", "escritura-b", big, []string{badKey}, "413 about:blank"},
		{"keyed: size before limit", "POST", "/servicios/1/revisiones", "escritura-a", big, []string{key}, "413 about:blank"},
		{"keyed: size before existence", "POST", "/servicios/999/revisiones", "escritura-b", big, []string{key}, "413 about:blank"},
		{"keyed: key before limit", "POST", "/servicios/1/revisiones", "escritura-a", "", []string{badKey}, "400 llave-invalida"},
		{"keyed: key used before limit", "POST", "/servicios/1/revisiones", "escritura-a", "", []string{"Idempotency-Key: usada"}, "422 llave-reutilizada"},
		{"keyed: key before existence", "POST", "/servicios/999/revisiones", "escritura-b", "", []string{badKey}, "400 llave-invalida"},
		{"keyed: limit before existence", "POST", "/servicios/999/revisiones", "escritura-a", "", []string{key}, "429 demasiadas-revisiones"},
		{"keyed: existence", "POST", "/servicios/999/revisiones", "escritura-b", "", []string{key}, "404 servicio-inexistente"},

		// Of a revision, 10, 14, 15, 16 and the 400 of 12 are not asked.
		{"revision: any type and body", "POST", "/servicios/3/revisiones", "escritura-b", "}{", []string{text}, "202"},
	}
	for _, tt := range tests {
		got := b.call(tt.method, tt.path, tt.as, tt.body, tt.headers...)
		if got.verdict() != tt.want {
			t.Errorf("%s: %s %s = %s, want %s", tt.name, tt.method, tt.path, got.verdict(), tt.want)
		}
	}
}

func TestMaintenanceComesSecond(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("catalogo", "escritura-a")
	b.call("POST", "/servicios", "escritura-a", b.service("pagos"), "Idempotency-Key: k1")
	b.call("PUT", "/mantenimiento", "admin", `{"activo":true}`)
	for _, tt := range []struct{ name, method, path, as, want string }{
		{"moved before", "GET", "/viejo/servicios", "", "301"},
		{"moved before", "POST", "/api/servicios", "", "308"},
		{"before v0", "GET", "/v0/servicios", "", "503 en-mantenimiento"},
		{"before route", "GET", "/nada", "", "503 en-mantenimiento"},
		{"before route", "GET", "/servicios/abc", "", "503 en-mantenimiento"},
		{"before method", "PATCH", "/servicios", "", "503 en-mantenimiento"},
		{"before OPTIONS", "OPTIONS", "/servicios", "", "503 en-mantenimiento"},
		{"before credential", "GET", service, "", "503 en-mantenimiento"},
		{"before a route for anyone", "GET", "/idempotencia", "", "503 en-mantenimiento"},
		{"before a recorded key", "GET", "/operaciones/k1", "escritura-a", "503 en-mantenimiento"},
		{"not for its own path: method", "GET", "/mantenimiento", "", "405 about:blank"},
		{"not for its own path: OPTIONS", "OPTIONS", "/mantenimiento", "", "204"},
		{"not for its own path: credential", "PUT", "/mantenimiento", "", "401 credencial-invalida"},
		{"not for its own path: role", "PUT", "/mantenimiento", "escritura-a", "403 permiso-insuficiente"},
		{"not for its own path: type", "PUT", "/mantenimiento", "admin", "415 about:blank"},
	} {
		if got := b.call(tt.method, tt.path, tt.as, ""); got.verdict() != tt.want {
			t.Errorf("%s: %s %s = %s, want %s", tt.name, tt.method, tt.path, got.verdict(), tt.want)
		}
	}
}

// TestReplayCostsNothing: a keyed POST finds its recorded answer before it is asked
// about the limit and the service.
func TestReplayCostsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("catalogo", "escritura-a")
	post := func(key string) response {
		return b.call("POST", service+"/revisiones", "escritura-a", "", "Idempotency-Key: "+key)
	}
	first := post("k1")
	if first.status != 202 {
		t.Fatalf("POST = %s, want 202", first.verdict())
	}
	isReplay := func(when string) {
		t.Helper()
		got := post("k1")
		if got.status != 202 || got.body != first.body || got.header.Get("Location") != first.header.Get("Location") ||
			got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("replay %s = %d %v %s, want the first answer, %s", when, got.status, got.header, got.body, first.body)
		}
	}
	for range 2 * checksPerWindow {
		isReplay("within the limit")
	}
	for _, key := range []string{"k2", "k3"} {
		if got := post(key); got.status != 202 {
			t.Errorf("POST with %s = %s, want 202: replays were counted", key, got.verdict())
		}
	}
	if got := post("k4"); got.verdict() != "429 demasiadas-revisiones" {
		t.Fatalf("POST over the limit = %s, want 429 demasiadas-revisiones", got.verdict())
	}
	isReplay("over the limit")
	b.call("DELETE", service, "escritura-a", "")
	isReplay("after retirement")
	if got := b.call("GET", "/operaciones/k1", "escritura-a", ""); got.member("codigo") != 202.0 {
		t.Errorf("GET /operaciones/k1 over the limit = %s, want codigo 202", got.body)
	}
	b.stop() // the queue has worked through what it was given
	if log := b.log.String(); strings.Contains(log, "level=ERROR") || strings.Count(log, `msg="revision finished"`) > checksPerWindow {
		t.Errorf("a replay was queued to be checked again:\n%s", log)
	}
}

// TestUnreadableBodiesTakeNoKey: after 415, 413 and 400 the key is as if never sent.
func TestUnreadableBodiesTakeNoKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	key := "Idempotency-Key: k1"
	for _, tt := range []struct{ name, body, header, want string }{
		{"another type", b.service("catalogo"), "Content-Type: text/plain", "415 about:blank"},
		{"too long", strings.Repeat("x", maxBody+1), "", "413 about:blank"},
		{"unreadable", "{", "", "400 cuerpo-ilegible"},
	} {
		if got := b.call("POST", "/servicios", "escritura-a", tt.body, key, tt.header); got.verdict() != tt.want {
			t.Errorf("%s = %s, want %s", tt.name, got.verdict(), tt.want)
		}
		if got := b.call("GET", "/operaciones/k1", "escritura-a", ""); got.verdict() != "404 operacion-inexistente" {
			t.Errorf("GET /operaciones/k1 after %s = %s, want 404 operacion-inexistente", tt.name, got.verdict())
		}
	}
	got := b.call("POST", "/servicios", "escritura-a", b.service("catalogo"), key)
	if got.status != 201 || got.header.Get("Idempotency-Replayed") != "false" {
		t.Errorf("POST at last = %s, Idempotency-Replayed %q, want 201, false", got.verdict(), got.header.Get("Idempotency-Replayed"))
	}
}
