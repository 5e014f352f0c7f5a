// waiting_test.go reads the promise's row about waiting for an original (Prefer: wait),
// and whatever else is a matter of seconds, in bubbles where time passes only when
// everybody waits.

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bubble is a revisor without a network, inside a synctest bubble.
type bubble struct {
	t       *testing.T
	engine  *engine
	store   *store
	log     *syncBuffer
	handler http.Handler
	start   time.Time
}

// stage is what becomes of one attempt to register: it takes so long, and then succeeds
// or fails.
type stage struct {
	takes time.Duration
	err   error
}

var errStage = errors.New("no such host")

// stages resolves the only name that a bubble's services have, one stage an attempt;
// the last one repeats. most is how many attempts were under way at once.
type stages struct {
	mu         sync.Mutex
	list       []stage
	busy, most int
}

func (s *stages) resolve(context.Context, string) ([]netip.Addr, error) {
	s.mu.Lock()
	now := s.list[0]
	if len(s.list) > 1 {
		s.list = s.list[1:]
	}
	s.busy++
	s.most = max(s.most, s.busy)
	s.mu.Unlock()
	time.Sleep(now.takes) // the bubble's time, not ours
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, now.err
}

// newBubble must be called inside a bubble. Its engine's clock is the bubble's.
func newBubble(t *testing.T, settings revisorSettings, attempts *stages) *bubble {
	t.Helper()
	b := &bubble{t: t, log: &syncBuffer{}, start: time.Now()}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	st, err := openStore(filepath.Join(t.TempDir(), "revisor.db"), newTag)
	if err != nil {
		t.Fatal(err)
	}
	allow, err := parseAllowed([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	settings.allow, settings.queueDelay = allow, time.Hour
	if settings.keyTTL == 0 {
		settings.keyTTL = 24 * time.Hour
	}
	role := revisorOn(st, log, time.Now, attempts.resolve, settings)
	if err := role.start(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.engine, b.store, b.handler = role.engine, st, role.handler
	t.Cleanup(func() {
		synctest.Wait()
		checkNothingInFlight(t, b.engine)
		role.drain(context.Background())
		if err := st.close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return b
}

// timed is an answer with the time that it took.
type timed struct {
	response
	took time.Duration
}

// register sends the same keyed registration every time and returns its answer when it
// has come.
func (b *bubble) register(ctx context.Context, headers ...string) timed {
	return b.registerNamed(ctx, "avisos", headers...)
}

// registerNamed is register with another body under the same key.
func (b *bubble) registerNamed(ctx context.Context, name string, headers ...string) timed {
	began := time.Now()
	r := httptest.NewRequestWithContext(ctx, "POST", "/servicios", strings.NewReader(`{"nombre":"`+name+`","url":"http://puerta.example/"}`))
	r.Header.Set("Authorization", "Bearer escritura-a")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k1")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	if cut := serveOrCut(b.handler, w, r); cut {
		return timed{response{}, time.Since(began)}
	}
	got := response{w.Code, w.Header(), w.Body.String()}
	checkAnswer(b.t, "POST", "/servicios", got)
	return timed{got, time.Since(began)}
}

// serveOrCut serves a request as net/http does and tells whether the connection was cut
// instead of answered.
func serveOrCut(h http.Handler, w http.ResponseWriter, r *http.Request) (cut bool) {
	defer func() {
		if value := recover(); value == http.ErrAbortHandler {
			cut = true
		} else if value != nil {
			panic(value)
		}
	}()
	h.ServeHTTP(w, r)
	return false
}

// background registers in the background.
func (b *bubble) background(ctx context.Context, headers ...string) <-chan timed {
	answer := make(chan timed, 1)
	go func() { answer <- b.register(ctx, headers...) }()
	synctest.Wait()
	return answer
}

// line is what a waiter sees, in one line.
func (got timed) line() string {
	return strings.Join(strings.Fields(fmt.Sprint(got.verdict(), " ", got.replayed(), " [", got.header.Get("Preference-Applied"), "] ", got.took)), " ")
}

// TestWaiting: the original begins, and a second later somebody comes with the same
// request.
func TestWaiting(t *testing.T) {
	t.Parallel()
	takes := func(seconds ...int) []stage {
		var list []stage
		for _, s := range seconds {
			list = append(list, stage{takes: time.Duration(s) * time.Second})
		}
		return list
	}
	failsThen := append([]stage{{3 * time.Second, errStage}}, takes(1)...)
	failsTwice := []stage{{3 * time.Second, errStage}, {time.Second, errStage}}
	tests := []struct {
		name    string
		byRule  bool // --in-flight wait
		prefer  []string
		attempt []stage
		want    string
	}{
		{"no preference", false, nil, takes(3), "409 llave-en-curso [] 0s"},
		{"the original succeeds", false, []string{"wait=5"}, takes(3), "201 true [wait=5] 2s"},
		{"the original succeeds at the last moment", false, []string{"wait=5"}, takes(5), "201 true [wait=5] 4s"},
		{"time passes", false, []string{"wait=2"}, takes(20), "409 llave-en-curso [wait=2] 2s"},
		{"unwilling to wait", false, []string{"wait=0"}, takes(3), "409 llave-en-curso [] 0s"},
		{"the original fails: its place", false, []string{"wait=5"}, failsThen, "201 false [wait=5] 3s"},
		{"both fail", false, []string{"wait=5"}, failsTwice, "422 destino-prohibido [wait=5] 3s"},

		{"thirty", false, []string{"wait=30"}, takes(20), "201 true [wait=30] 19s"},
		{"more than thirty", false, []string{"wait=31"}, takes(20), "201 true [wait=30] 19s"},
		{"more than thirty, and they pass", false, []string{"wait=60"}, takes(40), "409 llave-en-curso [wait=30] 30s"},
		{"more than a number", false, []string{"wait=99999999999999999999999"}, takes(20), "201 true [wait=30] 19s"},
		{"leading zeros", false, []string{"wait=0005"}, takes(3), "201 true [wait=5] 2s"},

		{"any case", false, []string{"WAIT=5"}, takes(3), "201 true [wait=5] 2s"},
		{"quoted", false, []string{`wait="5"`}, takes(3), "201 true [wait=5] 2s"},
		{"white space", false, []string{"  wait = 5 "}, takes(3), "201 true [wait=5] 2s"},
		{"with parameters", false, []string{"wait=5; why=because"}, takes(3), "201 true [wait=5] 2s"},
		{"among others", false, []string{"respond-async, , handling=lenient;x=\"a,b\", wait=5"}, takes(3), "201 true [wait=5] 2s"},
		{"on another line", false, []string{"respond-async", "wait=5"}, takes(3), "201 true [wait=5] 2s"},
		{"the first counts", false, []string{"wait=5, wait=0"}, takes(3), "201 true [wait=5] 2s"},
		{"the first counts, over lines", false, []string{"wait=0", "wait=5"}, takes(3), "409 llave-en-curso [] 0s"},

		{"no number", false, []string{"wait=mucho"}, takes(3), "409 llave-en-curso [] 0s"},
		{"nothing", false, []string{"wait="}, takes(3), "409 llave-en-curso [] 0s"},
		{"no value", false, []string{"wait"}, takes(3), "409 llave-en-curso [] 0s"},
		{"negative", false, []string{"wait=-5"}, takes(3), "409 llave-en-curso [] 0s"},
		{"signed", false, []string{"wait=+5"}, takes(3), "409 llave-en-curso [] 0s"},
		{"fraction", false, []string{"wait=5.0"}, takes(3), "409 llave-en-curso [] 0s"},
		{"unit", false, []string{"wait=5s"}, takes(3), "409 llave-en-curso [] 0s"},
		{"hexadecimal", false, []string{"wait=0x5"}, takes(3), "409 llave-en-curso [] 0s"},
		{"half quoted", false, []string{`wait="5`}, takes(3), "409 llave-en-curso [] 0s"},
		{"another name", false, []string{"await=5"}, takes(3), "409 llave-en-curso [] 0s"},
		{"a parameter of another", false, []string{"respond-async; wait=5"}, takes(3), "409 llave-en-curso [] 0s"},
		{"inside a quoted value", false, []string{`note="a, wait=5"`}, takes(3), "409 llave-en-curso [] 0s"},
		{"inside a quoted value, behind an escape", false, []string{`note="a\", wait=5, \""`}, takes(3), "409 llave-en-curso [] 0s"},

		{"by rule", true, nil, takes(3), "201 true [] 2s"},
		{"by rule, time passes", true, nil, takes(20), "409 llave-en-curso [] 10s"},
		{"by rule, the original fails", true, nil, failsThen, "201 false [] 3s"},
		{"by rule, shorter by preference", true, []string{"wait=1"}, takes(20), "409 llave-en-curso [wait=1] 1s"},
		{"by rule, longer by preference", true, []string{"wait=15"}, takes(15), "201 true [wait=15] 14s"},
		{"by rule, unwilling to wait", true, []string{"wait=0"}, takes(3), "409 llave-en-curso [] 0s"},
		{"by rule, preference not understood", true, []string{"wait=mucho"}, takes(3), "201 true [] 2s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, revisorSettings{wait: tt.byRule}, &stages{list: tt.attempt})
				original := b.background(t.Context())
				time.Sleep(time.Second) // the bubble's time, not ours
				var headers []string
				for _, line := range tt.prefer {
					headers = append(headers, "Prefer: "+line)
				}
				got := b.register(t.Context(), headers...)
				if got.line() != tt.want {
					t.Errorf("answer = %s, want %s", got.line(), tt.want)
				}
				if (got.verdict() == "409 llave-en-curso") != (got.header.Get("Link") != "") {
					t.Errorf("Link = %q with %s", got.header.Get("Link"), got.verdict())
				}
				if first := <-original; got.replayed() == "true" && first.body != got.body {
					t.Errorf("answer = %s, want the original's, %s", got.body, first.body)
				}
			})
		})
	}
}

// TestWaitersTakeTurns: the original fails, and so does the first who takes its place;
// the second succeeds. Never are two at work.
func TestWaitersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := &stages{list: []stage{{time.Second, errStage}, {time.Second, errStage}, {time.Second, nil}}}
		b := newBubble(t, revisorSettings{}, attempts)
		answers := []<-chan timed{b.background(t.Context())}
		for range 5 {
			answers = append(answers, b.background(t.Context(), "Prefer: wait=10"))
		}
		got := map[string]int{}
		for _, answer := range answers {
			got[(<-answer).line()]++
		}
		want := map[string]int{
			"422 destino-prohibido [] 1s":        1,
			"422 destino-prohibido [wait=10] 2s": 1,
			"201 false [wait=10] 3s":             1,
			"201 true [wait=10] 3s":              3,
		}
		for line, n := range want {
			if got[line] != n {
				t.Errorf("answers = %v, want %v", got, want)
				break
			}
		}
		if attempts.most != 1 {
			t.Errorf("%d at work at once, want 1", attempts.most)
		}
		if ids := idsByName(t, b.store); len(ids) != 1 {
			t.Errorf("services = %v, want one", ids)
		}
	})
}

// TestPatienceIsForAllTurns: N seconds are N seconds, over however many originals.
func TestPatienceIsForAllTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, revisorSettings{}, &stages{list: []stage{{3 * time.Second, errStage}, {20 * time.Second, nil}}})
		b.background(t.Context())
		one, other := b.background(t.Context(), "Prefer: wait=5"), b.background(t.Context(), "Prefer: wait=5")
		got := []string{(<-one).line(), (<-other).line()}
		slices.Sort(got)
		if want := []string{"201 false [wait=5] 23s", "409 llave-en-curso [wait=5] 5s"}; !slices.Equal(got, want) {
			t.Errorf("answers = %q, want %q", got, want)
		}
	})
}

// TestOriginalHangsUp: who waits for it gets its answer all the same.
func TestOriginalHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, revisorSettings{}, &stages{list: []stage{{takes: 3 * time.Second}}})
		ctx, hangUp := context.WithCancel(t.Context())
		b.background(ctx)
		hangUp()
		got := b.register(t.Context(), "Prefer: wait=5")
		if want := "201 true [wait=5] 3s"; got.line() != want {
			t.Errorf("answer = %s, want %s", got.line(), want)
		}
	})
}

// TestWaiterHangsUp: it leaves at once, and disturbs nobody.
func TestWaiterHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, revisorSettings{}, &stages{list: []stage{{takes: 3 * time.Second}}})
		original := b.background(t.Context())
		ctx, hangUp := context.WithCancel(t.Context())
		waiter := b.background(ctx, "Prefer: wait=30")
		time.Sleep(time.Second) // the bubble's time, not ours
		hangUp()
		if got := <-waiter; got.took != time.Second || got.status != 0 {
			t.Errorf("the waiter left after %v with %d, want 1s and no answer", got.took, got.status)
		}
		if got := (<-original).line(); got != "201 false [] 3s" {
			t.Errorf("original = %s, want 201 false [] 3s", got)
		}
	})
}

// TestWorkIsBounded: an original that never ends does, and its key is free.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, revisorSettings{}, &stages{list: []stage{{takes: workTime + time.Second}, {}}})
		if got := b.register(t.Context()); got.status < 400 || got.replayed() != "" {
			t.Errorf("answer after %v = %s, want a failure", got.took, got.line())
		}
		if got := b.register(t.Context()); got.line() != "201 false [] 0s" {
			t.Errorf("answer = %s, want 201 false [] 0s", got.line())
		}
	})
}
