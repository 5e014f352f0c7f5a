// observer_test.go holds the observer to what happened: an origin that answers before its
// effect is done is seen to do so.

package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestOrderIsObserved: the same conversation with two origins, of which one commits
// before it answers and the other one after.
func TestOrderIsObserved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		late bool
		want string
	}{
		{"commits first", false, "enviada aplicada respondida recibida-entera descartada fallo-cliente | enviada aplicada respondida respuesta-cliente"},
		{"answers first", true, "enviada respondida recibida-entera descartada fallo-cliente aplicada | enviada respondida respuesta-cliente aplicada"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &experiment{newKey: func() string { return "k" }, now: time.Now}
			e.open = func(seen *observer, _ bool) (*scene, error) { return sceneOf(t, seen, tt.late), nil }
			r, err := e.runCase(t.Context(), experimentCases()[0])
			if err != nil {
				t.Fatal(err)
			}
			got := rowOf(r)
			if order := got.firstRequest + " | " + got.secondRequest; order != tt.want {
				t.Errorf("order = %s, want %s", order, tt.want)
			}
			if got.posts != 2 || got.effects != 2 {
				t.Errorf("posts, effects = %d, %d, want 2, 2", got.posts, got.effects)
			}
		})
	}
}

// sceneOf is a little origin behind a real gateway. A late one makes its effect when its
// answer is complete and on its way.
func sceneOf(t *testing.T, seen *observer, late bool) *scene {
	var made atomic.Int64
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"revisiones":%d}`, made.Load())
			return
		}
		io.Copy(io.Discard, r.Body)
		n := made.Load() + 1
		if !late {
			made.Add(1)
		}
		w.Header().Set("Location", fmt.Sprintf("/revisiones/%d", n))
		w.WriteHeader(http.StatusAccepted)
		if late {
			made.Add(1)
		}
	})
	gateway := newGateway(gatewayConfig{
		target: mustURL(t, "http://"+serveHandler(t, seen.around(origin))), simulate: true, log: slog.New(slog.DiscardHandler),
		received: func() { seen.saw(gatewayHasAll) }, dropped: func() { seen.saw(gatewayDrops) },
	})
	return &scene{
		gateway: mustURL(t, "http://"+serveHandler(t, gateway)), judge: mustURL(t, "http://"+serveHandler(t, origin)),
		token: "x", close: func() error { return nil },
	}
}

// TestObserverPassesOn: what goes through the observer arrives as the origin sent it, and
// is kept up to a limit.
func TestObserverPassesOn(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", observedBody+1)
	seen := newObserver(time.Now)
	if before, err := seen.begin(func() (int, error) { return 3, nil }); before != 3 || err != nil {
		t.Errorf("begin() = %d, %v, want 3", before, err)
	}
	address := serveHandler(t, seen.around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Own", "yes")
		io.WriteString(w, long)
	})))
	got, err := attempt(t.Context(), newTransport(), experimentPatience, 2*observedBody, call{method: "PUT", base: mustURL(t, "http://"+address), path: "/"})
	if err != nil || got.status != http.StatusOK || string(got.body) != long || got.header.Get("X-Own") != "yes" {
		t.Errorf("answer = %d, %d bytes, %v, want 200 and %d bytes, as sent", got.status, len(got.body), err, len(long))
	}
	kept := seen.answer(1)
	if kept.status != http.StatusOK || kept.header.Get("X-Own") != "yes" || len(kept.body) != observedBody {
		t.Errorf("kept = %d, %v, %d bytes, want 200, its header, %d bytes", kept.status, kept.header, len(kept.body), observedBody)
	}
	if seen.arrivals("PUT") != 1 || seen.arrivals("POST") != 0 {
		t.Errorf("arrivals = %v, want one PUT", seen.arrived)
	}
}
