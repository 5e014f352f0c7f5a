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
	met, done chan struct{}
	meeting   sync.Once
}

func (f *promiseFlight) meet() { f.meeting.Do(func() { close(f.met) }) }

func newPromise(defect string) *promise {
	return &promise{defect: defect, living: map[int]promised{}, finished: map[string]promiseAnswer{}, flights: map[string]*promiseFlight{}}
}

func (p *promise) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
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
			clear(p.finished)
		}
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		key := team + " " + r.Header.Get("Idempotency-Key")
		if p.defect == "no-scope" {
			key = r.Header.Get("Idempotency-Key")
		}
		p.post(w, team, key, string(body))
	}
}

func (p *promise) list(team string) []listed {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []listed{}
	for id, s := range p.living {
		if s.team == team {
			list = append(list, listed{ID: int64(id), Nombre: s.name})
		}
	}
	return list
}

// post is the protocol of the key.
func (p *promise) post(w http.ResponseWriter, team, key, input string) {
	p.mu.Lock()
	recorded, finished := p.finished[key]
	flight := p.flights[key]
	leads := !finished && flight == nil
	if leads {
		flight = &promiseFlight{met: make(chan struct{}), done: make(chan struct{})}
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
	if strings.Contains(input, "limite_ms") {
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
	var p probe
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

// runVerify runs verify against base and returns its lines.
func runVerify(t *testing.T, ctx context.Context, base string, change func(v *verification)) ([]string, error) {
	t.Helper()
	var out strings.Builder
	var drawn atomic.Int64
	draw := func(kind string) func() string {
		return func() string { return fmt.Sprintf("%s-%p-%d", kind, &drawn, drawn.Add(1)) }
	}
	v := &verification{base: mustURL(t, base), token: "a", otherToken: "b", newName: draw("nombre"), newKey: draw("llave"), out: &out}
	if change != nil {
		change(v)
	}
	if err := v.validate(); err != nil {
		t.Fatalf("validate: %v", err)
	}
	err := v.run(ctx)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), err
}

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

func TestVerifyFindsEachDefect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		defect string
		want   []string // the checks that fail
		says   string   // part of the first one's line
	}{
		{"", []string{}, ""},
		{"waits", []string{}, ""}, // for the original instead of refusing: as good a promise
		{"ignore-key", []string{"replay", "changed-body", "in-flight", "retired-replay"}, "sin Idempotency-Replayed; se esperaba 201 con Idempotency-Replayed: false"},
		{"says-nothing", []string{"replay", "in-flight", "retired-replay"}, "se esperaba 201 con Idempotency-Replayed: false"},
		{"second-effect", []string{"replay", "in-flight", "retired-replay"}, "con ese nombre hay 2 en la lista; se esperaban 1"},
		{"other-bytes", []string{"replay", "in-flight", "retired-replay"}, "la repetición trae el cuerpo"},
		{"no-etag", []string{"replay", "in-flight", "retired-replay"}, `la repetición trae ETag: ""`},
		{"no-fingerprint", []string{"changed-body"}, "con Idempotency-Replayed: true; se esperaba 422 llave-reutilizada"},
		{"changed-effect", []string{"changed-body"}, "con ese nombre hay 1 en la lista; se esperaban 0"},
		{"late-reserve", []string{"in-flight"}, "409 nombre-repetido; se esperaba 409 llave-en-curso, o la repetición exacta del original"},
		{"wrong-409", []string{"in-flight"}, "409 nombre-repetido; se esperaba 409 llave-en-curso, o la repetición exacta del original"},
		{"dead-key", []string{"in-flight"}, "llegó 409 llave-en-curso; se esperaba 201 con Idempotency-Replayed: true"},
		{"record-failures", []string{"failure-frees"}, "corregida, con la misma llave: llegó 422 llave-reutilizada; se esperaba 201"},
		{"no-name-rule", []string{"two-keys"}, "se esperaba 409 nombre-repetido"},
		{"no-scope", []string{"other-credential"}, "la otra credencial recibió el mismo servicio"},
		{"forget-retired", []string{"retired-replay"}, "se esperaba 201 con Idempotency-Replayed: true"},
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
				lines, err := runVerify(t, t.Context(), base, nil)
				if got := failedChecks(lines); !slices.Equal(got, tt.want) {
					t.Errorf("failed checks = %q, want %q:\n%s", got, tt.want, strings.Join(lines, "\n"))
				}
				if (err == nil) != (len(tt.want) == 0) || err != nil && !errors.Is(err, errVerifyFailed) {
					t.Errorf("run = %v", err)
				}
				if first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "FAIL") }); first >= 0 && !strings.Contains(lines[first], tt.says) {
					t.Errorf("first failure = %q, want it to say %q", lines[first], tt.says)
				}
				want := fmt.Sprintf("%d of 7", 7-len(tt.want))
				if len(lines) != 8 || lines[7] != want {
					t.Errorf("lines = %q, want seven and last %q", lines, want)
				}
			}
			if left := append(server.list("a"), server.list("b")...); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestVerifyLines(t *testing.T) {
	t.Parallel()
	lines, err := runVerify(t, t.Context(), "http://"+serveHandler(t, newPromise("")), nil)
	want := []string{
		"ok   replay            misma llave y mismo cuerpo: la misma respuesta y un solo efecto",
		"ok   changed-body      misma llave y otro cuerpo: 422 y ningún efecto",
		"ok   in-flight         misma llave mientras corre el original: 409, y después su 201",
		"ok   failure-frees     una petición que falla deja libre la llave: corregida, 201",
		"ok   two-keys          dos llaves y el mismo cuerpo: 409 por el nombre y un solo efecto",
		"ok   other-credential  la misma llave con otra credencial: su propio efecto",
		"ok   retired-replay    repetir después de retirar: la respuesta guardada y ningún efecto",
		"7 of 7",
	}
	if err != nil || !slices.Equal(lines, want) {
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
		io.WriteString(w, "\x1b[2J\n"+strings.Repeat("x", 1<<20))
	}))
	tests := []struct {
		name, base string
		lines      int
		first      string // how the first line begins
		each       string // part of each FAIL line
	}{
		{"nobody listens", "http://" + closed.Addr().String(), 9, "el servidor http://" + closed.Addr().String() + " no contesta: GET /servicios quedó sin respuesta: ECONNREFUSED", "el servidor no contesta"},
		{"mute", mute.url, 9, "el servidor " + mute.url + " no contesta: GET /servicios quedó sin respuesta: se acabó el tiempo límite", "el servidor no contesta"},
		{"the credential is no good", unauthorised, 10, "FAIL replay", "401 credencial-invalida"},
		{"redirects are not followed", loop, 10, "FAIL replay", "307 (sin cuerpo)"},
		{"a stranger's text", hostile, 10, "FAIL replay", `\x1b[2J\nxxx`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lines, err := runVerify(t, t.Context(), tt.base, func(v *verification) {
				if tt.name == "mute" {
					v.timeout = 100 * time.Millisecond
				}
			})
			if !errors.Is(err, errVerifyFailed) || len(lines) != tt.lines || lines[len(lines)-1] != "0 of 7" || !strings.HasPrefix(lines[0], tt.first) {
				t.Errorf("run = %v, %q, want first %q and last \"0 of 7\"", err, lines, tt.first)
			}
			if len(failedChecks(lines)) != 7 {
				t.Errorf("failed checks = %q, want all", failedChecks(lines))
			}
			for _, line := range lines {
				if strings.HasPrefix(line, "FAIL") && tt.name != "a stranger's text" && !strings.Contains(line, tt.each) {
					t.Errorf("line %q does not say %q", line, tt.each)
				}
				if strings.ContainsAny(line, "\x1b\u009b\r") || len(line) > 8*shownBody {
					t.Errorf("line %.200q is not harmless", line)
				}
			}
		})
	}
}

// A person who breaks the run off leaves nothing behind either.
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
	lines, err := runVerify(t, ctx, base, nil)
	if !errors.Is(err, errVerifyFailed) || !strings.Contains(strings.Join(lines, "\n"), "interrumpido") {
		t.Errorf("run = %v, %q, want it interrupted", err, lines)
	}
	if left := server.list("a"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestVerifyArguments(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, base, token, other, want string }{
		{"good", "http://a", "x", "y", ""},
		{"a path", "http://a/b", "x", "y", "--base: a server's address ends with the host and port, without a path"},
		{"a credential that cannot travel", "http://a", "x\n", "y", "--token: only visible ASCII characters can travel in a header field"},
		{"the other one", "http://a", "x", "ñ", "--other-token: only visible ASCII characters can travel in a header field"},
		{"twice the same", "http://a", "x", "x", "--other-token: must not be --token, and belong to another team"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := &verification{base: mustURL(t, tt.base), token: tt.token, otherToken: tt.other}
			got := ""
			if err := v.validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("validate() = %q, want %q", got, tt.want)
			}
		})
	}
}
