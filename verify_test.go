// verify_test.go owns that each check of verify can fail, and fails for its own reason
// alone: a small server keeps the promise, and its variants break it in one way each.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// promiseWork is how long an original works, promiseMeeting how long where the defect
// shows only when somebody meets it at work, which ends it.
const (
	promiseWork    = 5 * time.Millisecond
	promiseMeeting = 150 * time.Millisecond
)

// promise is a server that keeps the promise, but for its defect. Its teams are its
// credentials.
type promise struct {
	defect string

	mu       sync.Mutex
	last     int
	living   map[int]promised
	finished map[string]promiseAnswer
	flights  map[string]*promiseFlight
}

type promised struct{ team, name string }

// promiseAnswer is an answer, and what it answered.
type promiseAnswer struct {
	input, body string
	status, id  int
	dead        bool // of the defect dead-key
}

// promiseFlight is an original at work.
type promiseFlight struct {
	input     string
	met, done chan struct{}
	meeting   sync.Once
}

func (f *promiseFlight) meet() { f.meeting.Do(func() { close(f.met) }) }

func newPromise(defect string) *promise {
	return &promise{defect: defect, living: map[int]promised{}, finished: map[string]promiseAnswer{}, flights: map[string]*promiseFlight{}}
}

func (p *promise) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if p.defect == "name-fingerprint" && r.Method == http.MethodPost && !strings.Contains(string(body), `"limite_ms":1}`) {
		body = fmt.Appendf(nil, `{"nombre":%q}`, probeName(string(body)))
	}
	team := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch r.Method {
	case http.MethodGet:
		json.NewEncoder(w).Encode(map[string]any{"servicios": p.list(team)})
	case http.MethodDelete:
		p.mu.Lock()
		defer p.mu.Unlock()
		id, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/servicios/"))
		delete(p.living, id)
		if p.defect == "forget-retired" {
			for key, got := range p.finished {
				if got.id == id {
					delete(p.finished, key)
				}
			}
		}
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		key, good := p.key(r.Header.Values("Idempotency-Key"))
		if !good {
			p.answer(w, problemAnswer(400, "llave-invalida"), "")
			return
		}
		if p.defect != "no-scope" {
			key = team + " " + key
		}
		p.post(w, team, key, string(body))
	}
}

// key reads a key, with quotes or without.
func (p *promise) key(lines []string) (key string, good bool) {
	if len(lines) != 1 {
		return strings.Join(lines, ","), p.defect == "any-key"
	}
	key = lines[0]
	if p.defect != "quotes-count" {
		key = strings.Trim(key, `"`)
	}
	printable := !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
	return key, strings.Trim(key, `"`) != "" && len(key) <= 255 && printable || p.defect == "any-key"
}

// promisedService is a service in the list.
type promisedService struct {
	ID     int    `json:"id"`
	Nombre string `json:"nombre"`
}

func (p *promise) list(team string) []promisedService {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []promisedService{}
	for id, s := range p.living {
		if s.team == team {
			list = append(list, promisedService{id, s.name})
		}
	}
	return list
}

// made is how many services there have ever been.
func (p *promise) made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// post is the protocol of the key.
func (p *promise) post(w http.ResponseWriter, team, key, input string) {
	p.mu.Lock()
	recorded, finished := p.finished[key]
	flight := p.flights[key]
	leads := !finished && flight == nil
	if leads {
		flight = &promiseFlight{input: input, met: make(chan struct{}), done: make(chan struct{})}
		p.flights[key] = flight
	}
	p.mu.Unlock()
	switch {
	case p.defect == "ignore-key":
		p.answer(w, p.work(team, input), "")
	case finished:
		p.repeat(w, team, input, recorded)
	case leads:
		p.original(w, team, key, input, flight)
	case flight.input != input && p.defect != "late-fingerprint" && p.defect != "no-fingerprint":
		if p.defect == "changed-effect" {
			p.work(team, input)
		}
		p.answer(w, problemAnswer(422, "llave-reutilizada"), "")
	case p.defect == "late-reserve":
		flight.meet()
		p.answer(w, p.work(team, input), "false")
	case p.defect == "waits":
		flight.meet()
		<-flight.done
		p.post(w, team, key, input)
	case p.defect == "wrong-409":
		flight.meet()
		p.answer(w, problemAnswer(409, "nombre-repetido"), "")
	default:
		flight.meet()
		p.answer(w, problemAnswer(409, "llave-en-curso"), "")
	}
}

// original does the work and records its answer.
func (p *promise) original(w http.ResponseWriter, team, key, input string, flight *promiseFlight) {
	work, met := promiseWork, false
	if slices.Contains([]string{"waits", "late-reserve", "wrong-409", "dead-key"}, p.defect) {
		work = promiseMeeting
	}
	select {
	case <-flight.met:
		met = true
	case <-time.After(work):
	}
	got := p.work(team, input)
	p.mu.Lock()
	if got.status == 201 || p.defect == "record-failures" {
		got.dead = met && p.defect == "dead-key"
		p.finished[key] = got
	}
	delete(p.flights, key)
	p.mu.Unlock()
	close(flight.done)
	p.answer(w, got, "false")
}

// repeat answers a request whose key has an answer.
func (p *promise) repeat(w http.ResponseWriter, team, input string, recorded promiseAnswer) {
	switch {
	case recorded.dead:
		p.answer(w, problemAnswer(409, "llave-en-curso"), "")
	case recorded.input == input || p.defect == "no-fingerprint":
		if p.defect == "second-effect" {
			p.mu.Lock()
			p.last++
			p.living[p.last] = promised{team, probeName(input)}
			p.mu.Unlock()
		}
		if p.defect == "other-bytes" {
			recorded.body += "\n"
		}
		p.answer(w, recorded, "true")
	default:
		if p.defect == "changed-effect" {
			p.work(team, input)
		}
		p.answer(w, problemAnswer(422, "llave-reutilizada"), "")
	}
}

// work judges the data, asks whether the name is free, and makes the service.
func (p *promise) work(team, input string) promiseAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := probeName(input)
	if strings.Contains(input, `"limite_ms":1}`) {
		got := problemAnswer(422, "datos-invalidos")
		got.input = input
		return got
	}
	for _, s := range p.living {
		if s == (promised{team, name}) && p.defect != "no-name-rule" {
			return problemAnswer(409, "nombre-repetido")
		}
	}
	p.last++
	p.living[p.last] = promised{team, name}
	return promiseAnswer{input: input, status: 201, id: p.last, body: fmt.Sprintf(`{"id":%d}`, p.last)}
}

func problemAnswer(status int, slug string) promiseAnswer {
	return promiseAnswer{status: status, body: fmt.Sprintf(`{"type":%q}`, problemBase+slug)}
}

func probeName(input string) string {
	var p promisedService
	json.Unmarshal([]byte(input), &p)
	return p.Nombre
}

func (p *promise) answer(w http.ResponseWriter, got promiseAnswer, replayed string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if got.status == 201 {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", fmt.Sprint("/servicios/", got.id))
		w.Header().Set("ETag", fmt.Sprintf(`"%d-1-x"`, got.id))
		if replayed != "" && p.defect != "says-nothing" {
			w.Header().Set("Idempotency-Replayed", replayed)
		}
		if p.defect == "no-etag" && replayed == "true" {
			w.Header().Del("ETag")
		}
	}
	w.WriteHeader(got.status)
	io.WriteString(w, got.body)
}

// revisorTestProfile is the built-in profile, with the practice credentials.
func revisorTestProfile(t *testing.T) *profile {
	t.Helper()
	p, err := parseProfile(revisorProfile)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.resolve(environment{}.getenv, practiceWriter, practiceOtherWriter); err != nil {
		t.Fatal(err)
	}
	return p
}

// promiseProfile is that of a server that has one route alone.
func promiseProfile(t *testing.T, base string) *profile {
	t.Helper()
	p := revisorTestProfile(t)
	p.base, p.other, p.update, p.changed = mustURL(t, base), nil, nil, nil
	return p
}

// runVerify runs verify with a profile and returns the lines of its report.
func runVerify(t *testing.T, ctx context.Context, p *profile, change func(v *verification)) ([]string, error) {
	t.Helper()
	var out strings.Builder
	gateways := process{ctx: ctx, stderr: io.Discard, now: time.Now}
	v := &verification{
		profile: p, newUnique: newTestUnique, newKey: uuid.NewString,
		wait: pause, now: time.Now, lossy: gateways.openLossyGateway, bursts: []int{2, 10}, atOnce: 32, late: time.Millisecond,
		report: newReporter(&out, io.Discard, "text", p.base.String(), len(promiseChecks(p))),
	}
	if change != nil {
		change(v)
	}
	err := v.run(ctx)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), err
}

// newTestUnique draws a text for one use.
func newTestUnique() string { return "v-" + uuid.NewString()[:13] }

// failedChecks are the ids in the lines that say FAIL.
func failedChecks(lines []string) []string {
	failed := []string{}
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, "FAIL "); ok {
			failed = append(failed, strings.Fields(rest)[0])
		}
	}
	return failed
}

// sameChecks compares ids. One with a question mark may be among those got or not: whether
// what hung up or what came after was done first is the server's affair.
func sameChecks(got, want []string) bool {
	sure := []string{}
	for _, id := range want {
		if name, unsure := strings.CutSuffix(id, "?"); !unsure || slices.Contains(got, name) {
			sure = append(sure, name)
		}
	}
	return slices.Equal(got, sure)
}

func TestVerifyFindsEachDefect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		defect string
		want   []string // the checks that fail
		says   string   // part of the first one's line
	}{
		{"", []string{}, ""},
		{"waits", []string{}, ""}, // for the original instead of refusing: as good a promise
		{"ignore-key", []string{"replay", "changed-body", "in-flight", "concurrent-body", "quoted-key", "hang-up",
			"lost-request", "lost-answer", "cut-before-head", "cut-after-head", "cut-body", "retired-replay"}, "se esperaba el 201 de la primera vez"},
		{"says-nothing", []string{"replay"}, `la primera respuesta trae Idempotency-Replayed: ""; se esperaba "false"`},
		{"second-effect", []string{"replay", "changed-body", "in-flight", "quoted-key", "hang-up", "lost-request", "lost-answer",
			"cut-before-head", "cut-after-head", "cut-body", "retired-replay"}, "efectos: 2; se esperaba 1"},
		{"other-bytes", []string{"replay", "changed-body", "in-flight", "quoted-key", "hang-up?", "lost-request", "retired-replay"}, "la repetición trae el cuerpo"},
		{"no-etag", []string{"replay"}, `la repetición trae ETag: ""`},
		{"no-fingerprint", []string{"changed-body", "concurrent-body"}, "llegó 201"},
		{"changed-effect", []string{"changed-body", "concurrent-body"}, "de lo rechazado hay efectos: 1; se esperaba 0"},
		{"late-fingerprint", []string{"concurrent-body"}, "llave-en-curso; se esperaba 422 "},
		{"late-reserve", []string{"in-flight", "hang-up"}, "nombre-repetido; se esperaba 409 "},
		{"wrong-409", []string{"in-flight", "hang-up"}, "nombre-repetido; se esperaba 409 "},
		{"dead-key", []string{"in-flight", "hang-up"}, "llave-en-curso; se esperaba el 201 de la primera vez"},
		{"record-failures", []string{"failure-frees"}, "llave-reutilizada; se esperaba 201"},
		{"no-name-rule", []string{"two-keys"}, "con la segunda llave: llegó 201"},
		{"no-scope", []string{"other-credential"}, "la otra credencial recibió lo mismo"},
		{"quotes-count", []string{"quoted-key"}, "con comillas: llegó 409"},
		{"any-key", []string{"key-empty", "key-two-lines", "key-too-long", "key-non-ascii"}, `con la llave «» llegó 201`},
		{"forget-retired", []string{"retired-replay"}, "la repetición trae el cuerpo"},
	}
	for _, tt := range tests {
		t.Run("defect "+tt.defect, func(t *testing.T) {
			t.Parallel()
			server := newPromise(tt.defect)
			base := "http://" + serveHandler(t, server)
			runs := 1
			if tt.defect == "" {
				runs = 2 // it can be repeated on the same server
			}
			for range runs {
				lines, err := runVerify(t, t.Context(), promiseProfile(t, base), func(v *verification) { v.patience = time.Second })
				if got := failedChecks(lines); !sameChecks(got, tt.want) {
					t.Errorf("failed checks = %q, want %q:\n%s", got, tt.want, strings.Join(lines, "\n"))
				}
				if (err == nil) != (len(tt.want) == 0) || err != nil && !errors.Is(err, errVerifyFailed) {
					t.Errorf("run = %v", err)
				}
				if first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "FAIL") }); first >= 0 && !strings.Contains(lines[first], tt.says) {
					t.Errorf("first failure = %q, want it to say %q", lines[first], tt.says)
				}
				if want := fmt.Sprintf("%d of 24", 24-len(failedChecks(lines))); lines[len(lines)-1] != want {
					t.Errorf("last line = %q, want %q", lines[len(lines)-1], want)
				}
			}
			if left := append(server.list(practiceWriter), server.list(practiceOtherWriter)...); len(left) > 0 && !slices.Contains(tt.want, "hang-up") {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestVerifyLines: who reads the text finds the same ids and sentences in every run.
func TestVerifyLines(t *testing.T) {
	t.Parallel()
	lines, err := runVerify(t, t.Context(), promiseProfile(t, "http://"+serveHandler(t, newPromise(""))), nil)
	want := []string{
		"ok   replay            misma llave y mismo cuerpo: la misma respuesta, con sus cabeceras, y un solo efecto",
		"ok   changed-body      misma llave y otro cuerpo: se rechaza, no hace nada, y el original se puede repetir",
		"ok   in-flight         misma llave mientras corre el original: se rechaza o espera, y un solo efecto",
		"ok   concurrent-body   misma llave y otro cuerpo mientras corre el original: se rechaza por el cuerpo, y un solo efecto",
		"ok   failure-frees     una petición que falla deja libre la llave: corregida, se hace",
		"ok   two-keys          dos llaves y el mismo cuerpo: dos peticiones distintas",
		"ok   other-credential  la misma llave con otra credencial: su propio efecto",
		"omitida other-route       la misma llave en otra ruta: la respuesta no es la de la primera. el perfil no trae otra ruta con llave (other_route)",
	}
	if err != nil || len(lines) < len(want) || !slices.Equal(lines[:len(want)], want) || lines[len(lines)-1] != "24 of 24" {
		t.Errorf("run = %v, %q, want %q", err, lines, want)
	}
}

func TestVerifyTrouble(t *testing.T) {
	t.Parallel()
	closed := testListener(t)
	closed.Close()
	mute := serveRaw(t, func(_ *net.TCPConn, in *bufio.Reader) { io.Copy(io.Discard, in) })
	unauthorised := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(401)
		io.WriteString(w, `{"type":"`+problemBase+`credencial-invalida"}`)
	}))
	loop := "http://" + serveHandler(t, http.RedirectHandler("/servicios", http.StatusTemporaryRedirect))
	hostile := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://127.0.0.1:1/\u009b")
		w.WriteHeader(201)
		io.WriteString(w, "\x1b[2J\n"+strings.Repeat("x", 1<<17))
	}))
	const misfits = "aviso: el perfil no encaja con el servidor: "
	tests := []struct {
		name, base string
		first      string // how the first line begins
		each       string // why each check was not made
	}{
		{"nobody listens", "http://" + closed.Addr().String(), "aviso: el servidor http://" + closed.Addr().String() + " no contesta: GET /servicios quedó sin respuesta: ECONNREFUSED", "el servidor no contesta (se exige)"},
		{"mute", mute.url, "aviso: el servidor " + mute.url + " no contesta: GET /servicios quedó sin respuesta: se acabó el tiempo límite", "el servidor no contesta (se exige)"},
		{"the credential is no good", unauthorised, misfits + "effects: con GET /servicios llegó 401 " + problemBase + "credencial-invalida; se esperaba 200 con JSON; ¿es buena la credencial", "el perfil no encaja"},
		{"redirects are not followed", loop, misfits + "effects: con GET /servicios llegó 307 ", "el perfil no encaja"},
		{"a stranger's text", hostile, misfits + "effects: con GET /servicios llegó 201 ", "el perfil no encaja"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lines, err := runVerify(t, t.Context(), promiseProfile(t, tt.base), func(v *verification) {
				if tt.name == "mute" {
					v.timeout = 100 * time.Millisecond
				}
			})
			if !errors.Is(err, errVerifyFailed) || lines[len(lines)-1] != "0 of 24" || !strings.HasPrefix(lines[0], tt.first) {
				t.Errorf("run = %v, %.2000q, want first %q and last \"0 of 24\"", err, lines, tt.first)
			}
			unmade := 0
			for _, line := range lines {
				if strings.HasPrefix(line, "omitida ") && strings.Contains(line, tt.each) {
					unmade++
				}
				if strings.ContainsAny(line, "\x1b\u009b\r") || len(line) > 8*shownBody {
					t.Errorf("line %.200q is not harmless", line)
				}
			}
			if unmade != 24 || len(failedChecks(lines)) > 0 {
				t.Errorf("%d checks were not made for %q, want 24, and no verdict about a server that could not be judged: %q", unmade, tt.each, lines)
			}
		})
	}
}

// TestVerifyInterruptedCleansUp: a person who breaks the run off leaves nothing behind
// either. One check alone is under way, so that no request arrives after the cleaning.
func TestVerifyInterruptedCleansUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := newPromise("")
	var posts atomic.Int64
	base := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(w, r)
		if r.Method == http.MethodPost && posts.Add(1) == 3 {
			cancel()
		}
	}))
	lines, err := runVerify(t, ctx, promiseProfile(t, base), func(v *verification) { v.atOnce = 1 })
	if !errors.Is(err, errVerifyFailed) || !strings.Contains(strings.Join(lines, "\n"), "interrumpido") {
		t.Errorf("run = %v, %q, want it interrupted", err, lines)
	}
	if made := server.made(); made != 2 {
		t.Errorf("made = %d, want 2: something to take away, told of and not", made)
	}
	if left := append(server.list(practiceWriter), server.list(practiceOtherWriter)...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestVerifyChangesMore: the built-in profile changes what is not unique too, so that a
// fingerprint of the name alone is found.
func TestVerifyChangesMore(t *testing.T) {
	t.Parallel()
	for defect, want := range map[string][]string{"": {}, "name-fingerprint": {"changed-body", "concurrent-body"}} {
		p := promiseProfile(t, "http://"+serveHandler(t, newPromise(defect)))
		p.changed = revisorTestProfile(t).changed
		lines, _ := runVerify(t, t.Context(), p, nil)
		if got := failedChecks(lines); !slices.Equal(got, want) {
			t.Errorf("with defect %q failed checks = %q, want %q:\n%s", defect, got, want, strings.Join(lines, "\n"))
		}
	}
}

// TestVerifyWithoutInFlight: where the profile does not say what a repetition gets
// meanwhile, a server that refuses it is right.
func TestVerifyWithoutInFlight(t *testing.T) {
	t.Parallel()
	p := promiseProfile(t, "http://"+serveHandler(t, newPromise("")))
	p.inFlight = expectation{}
	lines, err := runVerify(t, t.Context(), p, nil)
	told := strings.Join(lines, "\n")
	if err != nil || !strings.Contains(told, "omitida in-flight ") || !strings.Contains(told, "omitida hang-up ") {
		t.Errorf("run = %v, want a pass without these checks:\n%s", err, told)
	}
}

// TestVerifyRequired: what a profile does not require may fail, and what it requires must
// be there.
func TestVerifyRequired(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		required []string
		passes   bool
		says     string // in one line
	}{
		{"the one that fails", []string{"replay", "concurrent-body"}, false, "FAIL concurrent-body"},
		{"others", []string{"replay", "two-keys"}, true, "(no se exige)"},
		{"one that cannot be made", []string{"replay", "other-route"}, false, "(se exige)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := promiseProfile(t, "http://"+serveHandler(t, newPromise("late-fingerprint")))
			p.required = tt.required
			lines, err := runVerify(t, t.Context(), p, nil)
			if (err == nil) != tt.passes || !strings.Contains(strings.Join(lines, "\n"), tt.says) {
				t.Errorf("run = %v, want a pass: %v, and %q in:\n%s", err, tt.passes, tt.says, strings.Join(lines, "\n"))
			}
		})
	}
	p := promiseProfile(t, "http://127.0.0.1:1")
	p.required = []string{"replay", "in-fligth"}
	v := &verification{profile: p}
	if err := v.validate(); err == nil || err.Error() != `required[1]: there is no check "in-fligth"` {
		t.Errorf("validate() = %v", err)
	}
}

// TestMalformedKeysAsTheyAre: the keys go over the wire as no library would send them,
// and a server that does their work is told.
func TestMalformedKeysAsTheyAre(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys []string
	server := serveRaw(t, func(conn *net.TCPConn, in *bufio.Reader) {
		for {
			line, err := in.ReadString('\n')
			if err != nil || line == "\r\n" {
				break
			}
			if key, ok := strings.CutPrefix(line, "Idempotency-Key: "); ok {
				mu.Lock()
				keys = append(keys, strings.TrimSuffix(key, "\r\n"))
				mu.Unlock()
			}
		}
		io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{\"id\":7}")
	})
	v := &verification{profile: promiseProfile(t, server.url), timeout: 10 * time.Second, newUnique: uuid.NewString, newKey: func() string { return "k" }}
	for _, kind := range malformedKinds(v.profile) {
		if err := kind.check(t.Context(), v); err == nil || !strings.Contains(err.Error(), `llegó 201 {"id":7}; se esperaba 400`) {
			t.Errorf("%s = %v, want it refused", kind.id, err)
		}
	}
	if got := emptyKeys(spelledBare); len(got) != 1 || got[0][0] != "" {
		t.Errorf("emptyKeys(bare) = %q, want no quotes: there they are characters of a key", got)
	}
	want := []string{"", "k", "k-2", "k" + strings.Repeat("x", 255), "k\x01x", "kñ"}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(keys, want) {
		t.Errorf("keys on the wire = %q, want %q", keys, want)
	}
}
