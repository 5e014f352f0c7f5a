// aftermath_test.go owns how a run of verify ends: nothing is left behind however it ends,
// and what nobody can know is named.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestVerifyInterruptedAtWork: creations that are under way when the signal comes run to
// their end and are taken away, also through gateways that lose answers.
func TestVerifyInterruptedAtWork(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{5, 20, 45} {
		ctx, cancel := context.WithCancel(t.Context())
		server := newOrders("")
		var posts atomic.Int64
		base := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && posts.Add(1) == at {
				cancel()
			}
			server.ServeHTTP(w, r)
		}))
		lines, err := runVerify(t, ctx, ordersTestProfile(t, base), func(v *verification) { v.late = 200 * time.Millisecond })
		told := strings.Join(lines, "\n")
		if !errors.Is(err, errVerifyFailed) || !strings.Contains(told, ". interrumpido (se exige)") || len(failedChecks(lines)) > 0 {
			t.Errorf("run = %v, want it interrupted, which is no verdict:\n%s", err, told)
		}
		if left := server.left(); left > 0 {
			t.Errorf("interrupted at request %d, %d orders are left:\n%s", at, left, told)
		}
	}
}

// TestVerifyNamesWhatNobodyKnows: a creation that never got an answer is named by what is
// unique about it.
func TestVerifyNamesWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := newOrders("")
	var posts atomic.Int64
	base := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && posts.Add(1) == 2 {
			cancel()
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		server.ServeHTTP(w, r)
	}))
	lines, _ := runVerify(t, ctx, ordersTestProfile(t, base), func(v *verification) { v.timeout, v.atOnce = 300*time.Millisecond, 1 })
	if told := strings.Join(lines, "\n"); !strings.Contains(told, "aviso: no se sabe qué fue de estas creaciones, cuya respuesta no llegó; puede quedar algo de: v-") {
		t.Errorf("run does not name it:\n%s", told)
	}
}

// TestVerifyWithoutAReader: when nobody reads the report, the run ends and is cleaned.
func TestVerifyWithoutAReader(t *testing.T) {
	t.Parallel()
	server := newOrders("")
	var posts atomic.Int64
	base := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
		server.ServeHTTP(w, r)
	}))
	p := ordersTestProfile(t, base)
	_, err := runVerify(t, t.Context(), p, func(v *verification) {
		v.atOnce = 1
		v.report = newReporter(brokenPipe{}, io.Discard, "text", base, len(promiseChecks(p)))
	})
	if !errors.Is(err, errBrokenPipe) || posts.Load() > 20 || server.left() > 0 {
		t.Errorf("run = %v after %d requests, %d orders left, want an early end and none", err, posts.Load(), server.left())
	}
}

// TestVerifyCountsAgain: nothing is said to be left that is no longer to be seen.
func TestVerifyCountsAgain(t *testing.T) {
	t.Parallel()
	server := newOrders("")
	var removals atomic.Int64
	base := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && removals.Add(1) > 1 { // after the one that tries the profile
			server.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		server.ServeHTTP(w, r)
	}))
	lines, _ := runVerify(t, t.Context(), ordersTestProfile(t, base), nil)
	if told := strings.Join(lines, "\n"); strings.Contains(told, "quedó sin retirar") || !strings.Contains(told, "FAIL retired-replay") || server.left() > 0 {
		t.Errorf("%d orders are left, and run says:\n%s", server.left(), told)
	}
}

// TestVerifyNamesWhatIsLeft: what came of an answer that nobody saw, and has no id to be
// removed by, is named by what is unique about it.
func TestVerifyNamesWhatIsLeft(t *testing.T) {
	t.Parallel()
	server := newOrders("a repetition is done later")
	p := ordersTestProfile(t, "http://"+serveHandler(t, server), `"list": "/data/0/orders", "id": "/order_id"`, `"list": "/data/0/orders"`)
	lines, _ := runVerify(t, t.Context(), p, func(v *verification) {
		v.wait = func(ctx context.Context, d time.Duration) error {
			if d == v.late {
				server.doLater()
			}
			return pause(ctx, d)
		}
	})
	told := strings.Join(lines, "\n")
	if left := server.left(); left == 0 || !strings.Contains(told, "aviso: después de retirar todavía se ve lo creado de prueba como: v-") {
		t.Errorf("%d orders are left, want some, and run says:\n%s", left, told)
	}
}

// TestVerifyIntoABrokenPipe: the whole program, when its reader has gone: verify | head -1.
func TestVerifyIntoABrokenPipe(t *testing.T) {
	t.Parallel()
	path, err := testBinary()
	if err != nil {
		t.Fatal(err)
	}
	server := newPromise("")
	base := "http://" + serveHandler(t, server)
	profile := filepath.Join(t.TempDir(), "profile.json")
	text := bytes.ReplaceAll(revisorProfile, []byte(`"Bearer {{token}}"`), []byte(`"Bearer literal"`))
	if err := os.WriteFile(profile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), path, "verify", "--profile="+profile, base)
	cmd.Stdout, cmd.Stderr = writer, &stderr
	err = cmd.Run()
	writer.Close()
	left := len(server.list("literal")) + len(server.list(practiceOtherWriter))
	if cmd.ProcessState.ExitCode() != 1 || left > 0 || server.made() < 2 || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("verify = %v, %q, %d made and %d left, want exit status 1 and nothing left", err, stderr.String(), server.made(), left)
	}
}

// TestVerifyShortKeys: keys fit the API, also those that are malformed on purpose.
func TestVerifyShortKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		longest     int
		wrong, want string
	}{{16, "", "25 of 25"}, {35, "", "25 of 25"}, {36, "any byte is a key", "FAIL key-non-ascii"}} {
		server := newOrders(tt.wrong)
		server.longest = tt.longest
		p := ordersTestProfile(t, "http://"+serveHandler(t, server), `"longest": 64`, fmt.Sprintf(`"longest": %d`, tt.longest))
		lines, _ := runVerify(t, t.Context(), p, nil)
		if told := strings.Join(lines, "\n"); !strings.Contains(told, tt.want) {
			t.Errorf("with keys of %d and %q run lacks %q:\n%s", tt.longest, tt.wrong, tt.want, told)
		}
	}
}

// TestExpiredKeyAlive: a key must answer while it lives.
func TestExpiredKeyAlive(t *testing.T) {
	t.Parallel()
	p := ordersTestProfile(t, "http://"+serveHandler(t, newOrders("keys die young")), `"longest": 64`, `"longest": 64, "lifetime": "`+ordersKeyLife.String()+`"`)
	v := &verification{profile: p, newUnique: newTestUnique, newKey: newTestUnique, wait: pause, now: time.Now}
	v.fillIn()
	if err := checkExpiredKey(t.Context(), v); err == nil || !strings.HasPrefix(err.Error(), "a la mitad de su vigencia: la repetición trae") {
		t.Errorf("checkExpiredKey = %v, want it dead at half of its lifetime", err)
	}
}

// TestVerifyPatience: what is slow gets its time.
func TestVerifyPatience(t *testing.T) {
	t.Parallel()
	v := &verification{}
	v.fillIn()
	for _, tt := range []struct{ creation, want time.Duration }{{time.Second, settlePatience}, {12 * time.Second, 36 * time.Second}} {
		if v.created(tt.creation); v.endures() != tt.want {
			t.Errorf("endures() = %v after a creation of %v, want %v", v.endures(), tt.creation, tt.want)
		}
	}
	quick := v.cleaningTime(100)
	if v.seen.answer = 500 * time.Millisecond; v.cleaningTime(100) < quick+100*time.Second {
		t.Errorf("cleaningTime(100) = %v with answers of 0.5 s, and %v with quick ones", v.cleaningTime(100), quick)
	}
}

// TestLossWithoutAServer: who reads it must not take verify's own gateway for the server.
func TestLossWithoutAServer(t *testing.T) {
	t.Parallel()
	closed := testListener(t)
	closed.Close()
	gateways := process{ctx: t.Context(), stderr: io.Discard, now: time.Now}
	v := &verification{profile: ordersTestProfile(t, "http://"+closed.Addr().String()), newUnique: newTestUnique, newKey: newTestUnique,
		wait: pause, now: time.Now, lossy: gateways.openLossyGateway}
	v.fillIn()
	if err := losses[0].check(t.Context(), v); err == nil || !strings.Contains(err.Error(), "el servidor no contesta: ") || strings.Contains(err.Error(), "502") {
		t.Errorf("check = %v, want the server to be silent", err)
	}
}

// TestLossyGatewayOutlivesTheSignal: requests are under way through it.
func TestLossyGatewayOutlivesTheSignal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := process{ctx: ctx, stderr: io.Discard, now: time.Now}
	target := mustURL(t, "http://"+serveHandler(t, newOrders("")))
	base, end, err := p.openLossyGateway(target, "before")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	cancel()
	got, err := attempt(t.Context(), newTransport(), 5*time.Second, 1<<10, call{method: "GET", base: base, path: "/"})
	if err != nil || got.status == 0 {
		t.Errorf("attempt after the signal = %v, %v, want an answer", got, err)
	}
}
