// register_test.go owns what the tool register sends, retries, waits for and says,
// against servers that answer what they are told.

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// registerRun is one run of register with everything that it did.
type registerRun struct {
	err   error
	lines []string
	waits []time.Duration
}

// aRegistration is a client and what it is to register.
type aRegistration struct {
	registrar
	registration
}

func (r *aRegistration) validate() error {
	return errors.Join(r.registrar.validate(), r.accepts(r.registration))
}

// newRegistration registers against base, with half of each ceiling as jitter and
// waits that are noted in run instead of passing.
func newRegistration(t *testing.T, base string, run *registerRun) *aRegistration {
	t.Helper()
	return &aRegistration{
		registrar{
			base: mustURL(t, base), token: "escritura-a", simulate: loseFirst, attempts: registerAttempts, attemptTimeout: wireLimit,
			newKey: func() string { return "llave-nueva" }, random: func() float64 { return 0.5 }, now: time.Now,
			wait: func(_ context.Context, d time.Duration) error { run.waits = append(run.waits, d); return nil },
			out:  io.Discard, transport: newTransport(),
		},
		registration{name: "agenda", url: "http://127.0.0.1:1/<&>"},
	}
}

func (run *registerRun) do(t *testing.T, ctx context.Context, r *aRegistration) {
	t.Helper()
	if err := r.validate(); err != nil {
		t.Fatalf("validate: %v", err)
	}
	var out strings.Builder
	r.out = &out
	run.err = r.register(ctx, r.registration)
	run.lines = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// arrivals notes the requests that reach a handler.
type arrivals struct {
	mu    sync.Mutex
	heads []http.Header
	texts []string
	next  http.Handler
}

func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.heads, a.texts = append(a.heads, r.Header), append(a.texts, r.Method+" "+r.RequestURI+" "+string(body))
	a.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	a.next.ServeHTTP(w, r)
}

func serveScript(t *testing.T, words ...string) (*arrivals, string) {
	t.Helper()
	answers, err := parseScript(words)
	if err != nil {
		t.Fatal(err)
	}
	seen := &arrivals{next: newScript(answers, slog.New(slog.DiscardHandler))}
	return seen, "http://" + serveHandler(t, seen)
}

func TestRegisterRetries(t *testing.T) {
	t.Parallel()
	const (
		ms        = time.Millisecond
		withKey   = "repetir más tarde con la misma llave es seguro, no registra dos veces: --key llave-nueva"
		nobody    = "sin llave nadie sabe si quedó registrado, y repetir puede registrarlo otra vez"
		rejected  = "el servidor rechazó la petición y no guardó nada"
		corrected = rejected + "; corregida, puede llevar la misma llave: --key llave-nueva"
		unproven  = "; nada prueba que el servidor entienda la llave: a la respuesta le falta Idempotency-Replayed"
	)
	tests := []struct {
		name   string
		script []string
		noKey  bool
		tries  int // 4 when 0
		waits  []time.Duration
		want   []string // how each line begins; the last one whole
		failed bool
	}{
		{name: "at the first attempt", script: []string{"201"}, want: []string{`intento 1 de 4: 201 {"id":1,`, "registrado en el intento 1: /servicios/1" + unproven}},
		{name: "another success", script: []string{"204"}, want: []string{"intento 1 de 4: 204 (sin cuerpo)", "registrado en el intento 1" + unproven}},
		{name: "without a key there is none to be understood", script: []string{"201"}, noKey: true, want: []string{`intento 1 de 4: 201 {"id":1,`, "registrado en el intento 1: /servicios/1"}},
		{name: "after a 502", script: []string{"502", "201"}, waits: []time.Duration{250 * ms},
			want: []string{"intento 1 de 4: 502 {", "espera de 250 ms (al azar, hasta 500 ms)", "intento 2 de 4: 201 {", "registrado en el intento 2: /servicios/1" + unproven}},
		{name: "all the waits, and none after the last attempt", script: []string{"503"}, waits: []time.Duration{250 * ms, 500 * ms, 1000 * ms},
			want: []string{"intento 1 de 4: 503 {", "espera de 250 ms (al azar, hasta 500 ms)", "intento 2 de 4: 503 {", "espera de 500 ms (al azar, hasta 1 s)",
				"intento 3 de 4: 503 {", "espera de 1 s (al azar, hasta 2 s)", "intento 4 de 4: 503 {", "no confirmado: se acabaron los intentos (4); " + withKey}, failed: true},
		{name: "a single attempt", script: []string{"504"}, tries: 1,
			want: []string{"intento 1 de 1: 504 {", "no confirmado: se acabaron los intentos (1); " + withKey}, failed: true},
		{name: "without a key nobody knows", script: []string{"502"}, noKey: true, tries: 1,
			want: []string{"intento 1 de 1: 502 {", "no confirmado: se acabaron los intentos (1); " + nobody}, failed: true},
		{name: "without a key, a lost answer and then the name is taken", script: []string{"502", "409"}, noKey: true, waits: []time.Duration{250 * ms},
			want: []string{"intento 1 de 4: 502 {", "espera de", "intento 2 de 4: 409 {", "no confirmado: un 409 no mejora repitiendo lo mismo; " + nobody}, failed: true},
		{name: "without a key, refused at once", script: []string{"422"}, noKey: true,
			want: []string{"intento 1 de 4: 422 {", "no registrado: un 422 no mejora repitiendo lo mismo; " + rejected}, failed: true},
		{name: "the original is still running", script: []string{"409:en-curso", "201"}, waits: []time.Duration{250 * ms},
			want: []string{"intento 1 de 4: 409 {", "espera de", "intento 2 de 4: 201 {", "registrado en el intento 2: /servicios/1" + unproven}},
		{name: "any other 409", script: []string{"409", "201"}, want: []string{"intento 1 de 4: 409 {", "no registrado: un 409 no mejora repitiendo lo mismo; " + corrected}, failed: true},
		{name: "a 500", script: []string{"500", "201"}, want: []string{"intento 1 de 4: 500 {", "no confirmado: un 500 no mejora repitiendo lo mismo; " + withKey}, failed: true},
		{name: "a 500 without a key", script: []string{"500", "201"}, noKey: true, want: []string{"intento 1 de 4: 500 {", "no confirmado: un 500 no mejora repitiendo lo mismo; " + nobody}, failed: true},
		{name: "a 429 is a 4xx here", script: []string{"429:1", "201"}, want: []string{"intento 1 de 4: 429 {", "no confirmado: un 429 no mejora repitiendo lo mismo; " + withKey}, failed: true},
		{name: "a redirect is an outcome", script: []string{"307", "201"}, want: []string{"intento 1 de 4: 307 (sin cuerpo)", "no confirmado: un 307 no mejora repitiendo lo mismo; " + withKey}, failed: true},
		{name: "the server's wait is obeyed", script: []string{"503:2", "201"}, waits: []time.Duration{2 * time.Second},
			want: []string{"intento 1 de 4: 503 {", "espera de 2 s (lo pide el servidor)", "intento 2 de 4: 201 {", "registrado en el intento 2: /servicios/1" + unproven}},
		{name: "no wait at all", script: []string{"503:0", "201"}, waits: []time.Duration{0},
			want: []string{"intento 1 de 4: 503 {", "espera de 0 ms (lo pide el servidor)", "intento 2 de 4: 201 {", "registrado en el intento 2: /servicios/1" + unproven}},
		{name: "the longest that is obeyed", script: []string{"503:5", "201"}, waits: []time.Duration{5 * time.Second},
			want: []string{"intento 1 de 4: 503 {", "espera de 5 s (lo pide el servidor)", "intento 2 de 4: 201 {", "registrado en el intento 2: /servicios/1" + unproven}},
		{name: "too long a wait", script: []string{"503:6", "201"},
			want: []string{"intento 1 de 4: 503 {", "no confirmado: el servidor pide esperar 6 s, y más de 5 s no se espera; " + withKey}, failed: true},
		{name: "no wait is asked for after the last attempt", script: []string{"503:6"}, tries: 1,
			want: []string{"intento 1 de 1: 503 {", "no confirmado: se acabaron los intentos (1); " + withKey}, failed: true},
		{name: "a wait that is none", script: []string{"503:1.5", "201"}, waits: []time.Duration{250 * ms},
			want: []string{"intento 1 de 4: 503 {", "espera de 250 ms (al azar, hasta 500 ms)", "intento 2 de 4: 201 {", "registrado en el intento 2: /servicios/1" + unproven}},
		{name: "a negative one", script: []string{"503:-1", "201"}, waits: []time.Duration{250 * ms},
			want: []string{"intento 1 de 4: 503 {", "espera de 250 ms (al azar, hasta 500 ms)", "intento 2 de 4: 201 {", "registrado en el intento 2: /servicios/1" + unproven}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen, base := serveScript(t, tt.script...)
			run := &registerRun{}
			r := newRegistration(t, base, run)
			r.noKey = tt.noKey
			if tt.tries != 0 {
				r.attempts = tt.tries
			}
			run.do(t, t.Context(), r)
			if (run.err != nil) != tt.failed || tt.failed && !errors.Is(run.err, errNotRegistered) {
				t.Errorf("run = %v, want failure %v", run.err, tt.failed)
			}
			if !slices.Equal(run.waits, tt.waits) {
				t.Errorf("waits = %v, want %v", run.waits, tt.waits)
			}
			if len(run.lines) != len(tt.want) || run.lines[len(run.lines)-1] != tt.want[len(tt.want)-1] {
				t.Fatalf("lines = %q, want %q", run.lines, tt.want)
			}
			tries := 0
			for i, line := range run.lines {
				if !strings.HasPrefix(line, tt.want[i]) {
					t.Errorf("line %d = %q, want %q…", i+1, line, tt.want[i])
				}
				if strings.HasPrefix(line, "intento") {
					tries++
				}
			}
			if len(seen.texts) != tries {
				t.Errorf("%d requests arrived, %d attempts were told", len(seen.texts), tries)
			}
		})
	}
}

// One intention is one key and the same bytes, however often it is sent.
func TestRegisterSendsTheSameEachTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		key      string
		noKey    bool
		simulate string
		want     []string // the field's lines
	}{
		{name: "a drawn key", simulate: loseFirst, want: []string{"llave-nueva"}},
		{name: "a key that is resumed", key: "a,b;c=1", want: []string{"a,b;c=1"}},
		{name: "one that has to be quoted", key: `mi llave "1\2"`, want: []string{`"mi llave \"1\\2\""`}},
		{name: "none", noKey: true, want: nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen, base := serveScript(t, "502", "503", "409:en-curso", "201")
			run := &registerRun{}
			r := newRegistration(t, base, run)
			r.key, r.noKey, r.simulate = tt.key, tt.noKey, tt.simulate
			draws := 0
			r.newKey = func() string { draws++; return "llave-nueva" }
			run.do(t, t.Context(), r)
			if run.err != nil || len(seen.texts) != 4 {
				t.Fatalf("run = %v with %d requests, want 4 and success: %q", run.err, len(seen.texts), run.lines)
			}
			if want := map[bool]int{true: 1, false: 0}[tt.key == "" && !tt.noKey]; draws != want {
				t.Errorf("%d keys drawn, want %d", draws, want)
			}
			for i, head := range seen.heads {
				want := `POST /servicios {"nombre":"agenda","url":"http://127.0.0.1:1/<&>"}` + "\n"
				if seen.texts[i] != want {
					t.Errorf("request %d = %q, want %q", i+1, seen.texts[i], want)
				}
				if got := head.Values("Idempotency-Key"); !slices.Equal(got, tt.want) {
					t.Errorf("request %d: Idempotency-Key = %q, want %q", i+1, got, tt.want)
				}
				got := []string{head.Get("Content-Type"), head.Get("Authorization"), head.Get("X-Simular")}
				if !slices.Equal(got, []string{"application/json", "Bearer escritura-a", tt.simulate}) {
					t.Errorf("request %d: type, credential and fault = %q", i+1, got)
				}
			}
		})
	}
}

// readRequest takes one whole request off the wire.
func readRequest(in *bufio.Reader) {
	if req, err := http.ReadRequest(in); err == nil {
		io.Copy(io.Discard, req.Body)
	}
}

func TestRegisterWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	closed := closedPort(t)
	tests := []struct {
		name  string
		serve func(conn *net.TCPConn, in *bufio.Reader) // nil: nobody listens
		want  string                                    // "en 150 ms": the limit is meant to be reached
	}{
		{"nobody listens", nil, "intento 1 de 2: sin respuesta: ECONNREFUSED, nadie escucha en esa dirección"},
		{"mute", func(_ *net.TCPConn, in *bufio.Reader) { io.Copy(io.Discard, in) }, "intento 1 de 2: sin respuesta completa en 150 ms"},
		{"cut", func(_ *net.TCPConn, in *bufio.Reader) { readRequest(in) }, "intento 1 de 2: sin respuesta: la conexión se cortó"},
		{"cut midway, a 201 too", saying("HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{"), "intento 1 de 2: llegó un 201 sin terminar: la conexión se cortó"},
		{"stuck midway", func(conn *net.TCPConn, in *bufio.Reader) {
			readHead(in)
			io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{")
			io.Copy(io.Discard, in)
		}, "intento 1 de 2: sin respuesta completa en 150 ms"},
		{"not HTTP, harmless on a terminal", saying("\x1b[31mhola\r\n\r\n"), "intento 1 de 2: sin respuesta: lo que llegó no se entiende como HTTP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := &rawUpstream{url: closed}
			if tt.serve != nil {
				up = serveRaw(t, tt.serve)
			}
			run := &registerRun{}
			r := newRegistration(t, up.url, run)
			r.attempts, r.noKey = 2, true
			if strings.HasSuffix(tt.want, "en 150 ms") {
				r.attemptTimeout = 150 * time.Millisecond
			}
			run.do(t, t.Context(), r)
			end := "no confirmado: se acabaron los intentos (2); sin llave nadie sabe si quedó registrado, y repetir puede registrarlo otra vez"
			if !errors.Is(run.err, errNotRegistered) || len(run.lines) != 4 || !strings.HasPrefix(run.lines[0], tt.want) || run.lines[3] != end {
				t.Errorf("run = %v, %q, want first %q and last %q", run.err, run.lines, tt.want, end)
			}
			if tt.serve != nil && up.connections.Load() != 2 {
				t.Errorf("%d connections, want 2", up.connections.Load())
			}
			if control := regexp.MustCompile(`[^\P{C}]`); control.MatchString(strings.Join(run.lines, "")) {
				t.Errorf("control characters in %q", run.lines)
			}
		})
	}
}

func TestRegisterShowsStrangersTextHarmless(t *testing.T) {
	t.Parallel()
	base := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/servicios/1\u009b2J")
		w.Header().Set("Idempotency-Replayed", "true")
		w.WriteHeader(201)
		io.WriteString(w, "uno\r\n\x1b]0;título\a"+strings.Repeat("x", 100_000))
	}))
	run := &registerRun{}
	r := newRegistration(t, base, run)
	run.do(t, t.Context(), r)
	shown := `uno\r\n\x1b]0;título\a`
	want := []string{
		"intento 1 de 4: 201 " + shown + strings.Repeat("x", shownBody-len([]rune("uno\r\n\x1b]0;título\a"))) + "…",
		`registrado en el intento 1: /servicios/1\u009b2J; es la respuesta guardada de la petición original, que se hizo una sola vez`,
	}
	if run.err != nil || !slices.Equal(run.lines, want) {
		t.Errorf("run = %v, %q, want %q", run.err, run.lines, want)
	}
}

func TestRegisterInterrupted(t *testing.T) {
	t.Parallel()
	const end = "no confirmado: interrumpido; repetir más tarde con la misma llave es seguro, no registra dos veces: --key llave-nueva"
	t.Run("in an attempt", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		up := serveRaw(t, func(_ *net.TCPConn, in *bufio.Reader) { readHead(in); cancel(); io.Copy(io.Discard, in) })
		run := &registerRun{}
		r := newRegistration(t, up.url, run)
		run.do(t, ctx, r)
		if !errors.Is(run.err, errNotRegistered) || !slices.Equal(run.lines, []string{end}) {
			t.Errorf("run = %v, %q, want %q", run.err, run.lines, end)
		}
	})
	t.Run("in a wait", func(t *testing.T) {
		t.Parallel()
		seen, base := serveScript(t, "503")
		run := &registerRun{}
		r := newRegistration(t, base, run)
		r.wait = func(context.Context, time.Duration) error { return context.Canceled }
		run.do(t, t.Context(), r)
		if !errors.Is(run.err, errNotRegistered) || run.lines[len(run.lines)-1] != end || len(seen.texts) != 1 {
			t.Errorf("run = %v, %q after %d requests, want %q after one", run.err, run.lines, len(seen.texts), end)
		}
	})
}

// portal is a captive one: whatever is asked, it says 200 and welcome.
func portal(replayed string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotency-Replayed", replayed)
		io.WriteString(w, "<html>Bienvenido al hotel</html>")
	})
}

// A success tells that the key was understood where the answer does: by the header, false
// the first time and true on a replay, and by no other value.
func TestRegisterProofOfTheKey(t *testing.T) {
	t.Parallel()
	const unproven = "; nada prueba que el servidor entienda la llave: a la respuesta le falta Idempotency-Replayed"
	for replayed, want := range map[string]string{
		"false": "", "true": "; es la respuesta guardada de la petición original, que se hizo una sola vez", "": unproven, "?1": unproven,
	} {
		base := "http://" + serveHandler(t, portal(replayed))
		run := &registerRun{}
		r := newRegistration(t, base, run)
		run.do(t, t.Context(), r)
		if got := run.lines[len(run.lines)-1]; run.err != nil || got != "registrado en el intento 1"+want {
			t.Errorf("with Idempotency-Replayed %q: %v, %q, want %q", replayed, run.err, got, "registrado en el intento 1"+want)
		}
	}
}

// The opening scene: the gateway loses the first answer, the key gets it back.
func TestRegisterThroughTheGateway(t *testing.T) {
	t.Parallel()
	seen, base := serveScript(t, "201")
	run := &registerRun{}
	r := newRegistration(t, "http://"+serveGateway(t, base, gatewayConfig{simulate: true}), run)
	run.do(t, t.Context(), r)
	if run.err != nil || len(run.lines) != 4 || !strings.HasPrefix(run.lines[0], "intento 1 de 4: 502 ") || !strings.HasPrefix(run.lines[2], "intento 2 de 4: 201 ") {
		t.Errorf("run = %v, %q, want a 502 and then a 201", run.err, run.lines)
	}
	if len(seen.texts) != 2 {
		t.Errorf("%d requests behind the gateway, want 2", len(seen.texts))
	}
}

func TestRegisterArguments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(r *aRegistration)
		want   string
	}{
		{"good", func(*aRegistration) {}, ""},
		{"no fault asked for", func(r *aRegistration) { r.simulate = "" }, ""},
		{"a base with a path", func(r *aRegistration) { r.base.Path = "/x" }, "--base: a server's address ends with the host and port, without a path"},
		{"a credential with a line end", func(r *aRegistration) { r.token = "a\r\nX: b" }, "--token: only visible ASCII characters can travel in a header field"},
		{"a fault with blanks around", func(r *aRegistration) { r.simulate = " a" }, "--simulate: a header field cannot carry white space at either end"},
		{"a name that is no text", func(r *aRegistration) { r.name = "\xff" }, "<name> and <url> must be UTF-8 text"},
		{"no attempts", func(r *aRegistration) { r.attempts = 0 }, "--attempts: at least one is needed"},
		{"no time", func(r *aRegistration) { r.attemptTimeout = 0 }, "--attempt-timeout: must be more than nothing"},
		{"a key and none", func(r *aRegistration) { r.key, r.noKey = "k", true }, "--key and --no-key exclude each other"},
		{"a key that cannot travel", func(r *aRegistration) { r.key = "ñ" }, "--key: a key has only printable ASCII characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistration(t, "http://127.0.0.1:1", &registerRun{})
			tt.change(r)
			got := ""
			if err := r.validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("validate() = %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever key a person types: it is refused, or the server reads the very same one.
func TestKeyFieldIsReadBack(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, key string
		want      string // the field; "" when the key is refused
	}{
		{"a UUID", "6f1c5e1a-9a55-4f0e-8c06-2f1f3f0b7d11", "6f1c5e1a-9a55-4f0e-8c06-2f1f3f0b7d11"},
		{"commas, semicolons and backslashes", `a,b;c\d`, `a,b;c\d`},
		{"a space", "a b", `"a b"`},
		{"spaces around", " a ", `" a "`},
		{"a quote", `a"b`, `"a\"b"`},
		{"already in quotes: the quotes are part of it", `"k1"`, `"\"k1\""`},
		{"a quote and a backslash", `\"`, `"\\\""`},
		{"255 characters", strings.Repeat("k", 255), strings.Repeat("k", 255)},
		{"256 characters", strings.Repeat("k", 256), ""},
		{"255 characters that all need an escape", strings.Repeat(`"`, 255), `"` + strings.Repeat(`\"`, 255) + `"`},
		{"empty", "", ""},
		{"not ASCII", "llavé", ""},
		{"a tab", "a\tb", ""},
		{"a line end", "a\nb", ""},
		{"DEL", "a\x7f", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := validateKey(tt.key); (err == nil) != (tt.want != "") {
				t.Fatalf("validateKey(%q) = %v, want accepted %v", tt.key, err, tt.want != "")
			}
			if tt.want == "" {
				return
			}
			got := keyField(tt.key)
			if got != tt.want {
				t.Errorf("keyField(%q) = %q, want %q", tt.key, got, tt.want)
			}
			if read, err := parseIdempotencyKey([]string{got}); err != nil || read != tt.key {
				t.Errorf("the server reads %q, %v, want %q", read, err, tt.key)
			}
		})
	}
}

func TestSpellAndQuote(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 ms", 231*time.Millisecond + 900*time.Microsecond: "231 ms", time.Second: "1 s", 1500 * time.Millisecond: "1,5 s", 1527 * time.Millisecond: "1,527 s", 90 * time.Second: "90 s",
	} {
		if got := spell(d); got != want {
			t.Errorf("spell(%v) = %q, want %q", d, got, want)
		}
	}
	for text, want := range map[string]string{"k-1": "k-1", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "": "''"} {
		if got := shellQuote(text); got != want {
			t.Errorf("shellQuote(%q) = %q, want %q", text, got, want)
		}
	}
}
