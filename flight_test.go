// flight_test.go reads the promise's rows about an original that still runs: who comes
// meanwhile, who comes with it, and what becomes of it when its client hangs up.

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// inFlight starts a keyed creation and returns when it is in the middle of its work,
// where it stays until finish is called, which returns its answer.
func (b *bench) inFlight(c creation, key string) (finish func() response) {
	b.t.Helper()
	release := holdWriter(b.t, b.store)
	answer := make(chan response, 1)
	go func() {
		got, err := b.try(context.Background(), "POST", c.path, "escritura-a", c.body(b), "Idempotency-Key: "+key)
		if err != nil {
			b.t.Error(err)
		}
		answer <- got
	}()
	b.expectInFlight(key)
	return func() response {
		release()
		return <-answer
	}
}

// expectInFlight waits until a key's original is at work.
func (b *bench) expectInFlight(key string) {
	b.t.Helper()
	eventually(b.t, "the original is in flight", func() bool {
		return b.call("GET", "/operaciones/"+key, "escritura-a", "").member("estado") == "en-curso"
	})
}

func TestWhileTheOriginalRuns(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		finish := b.inFlight(c, "k1")
		for _, tt := range []struct{ name, body, header, want string }{
			{"same request", c.body(b), "", "409 llave-en-curso"},
			{"same request, quoted key", c.body(b), `Idempotency-Key: "k1"`, "409 llave-en-curso"},
			{"same request, unwilling to wait", c.body(b), "Prefer: wait=0", "409 llave-en-curso"},
			{"other request", c.other(b), "", "422 llave-reutilizada"},
			{"other request, willing to wait", c.other(b), "Prefer: wait=30", "422 llave-reutilizada"},
		} {
			headers := []string{tt.header}
			if !strings.HasPrefix(tt.header, "Idempotency-Key") {
				headers = append(headers, "Idempotency-Key: k1")
			}
			got := b.call("POST", c.path, "escritura-a", tt.body, headers...)
			if got.verdict() != tt.want || got.replayed() != "" || got.header.Get("Preference-Applied") != "" {
				b.t.Errorf("%s = %s, header %v, want %s, nothing replayed nor applied", tt.name, got.verdict(), got.header, tt.want)
			}
		}
		first := finish()
		b.expectFirst(first, c.status)
		b.expectReplay(b.keyed(c, "k1"), first)
		if got := b.call("POST", c.path, "escritura-a", c.other(b), "Idempotency-Key: k1"); got.verdict() != "422 llave-reutilizada" {
			b.t.Errorf("other request afterwards = %s, want 422 llave-reutilizada", got.verdict())
		}
		b.expectMade(c, 1)
	})
}

// TestOthersGoOnMeanwhile: an original stands in the way of its own key only.
func TestOthersGoOnMeanwhile(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	slow := `{"nombre":"avisos","url":"` + b.gateURL("/codigo/200") + `"}`
	g.close()
	answer := make(chan response, 1)
	go func() {
		got, err := b.try(context.Background(), "POST", "/servicios", "escritura-a", slow, "Idempotency-Key: k1")
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	g.arrived(t)
	b.expectFirst(b.call("POST", "/servicios", "escritura-a", b.service("dos"), "Idempotency-Key: k2"), 201)
	b.expectFirst(b.call("POST", "/servicios", "escritura-b", b.service("avisos"), "Idempotency-Key: k1"), 201)
	b.register("sin llave", "escritura-a")
	g.open()
	b.expectFirst(<-answer, 201)
}

// TestClientHangsUp: the work goes on to its end, and its answer waits for the retry.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		release := holdWriter(b.t, b.store)
		ctx, hangUp := context.WithCancel(context.Background())
		gone := make(chan error, 1)
		go func() {
			_, err := b.try(ctx, "POST", c.path, "escritura-a", c.body(b), "Idempotency-Key: k1")
			gone <- err
		}()
		b.expectInFlight("k1")
		hangUp()
		if err := <-gone; err == nil {
			b.t.Fatal("the client got an answer, want that it hung up")
		}
		if got := b.keyed(c, "k1"); got.verdict() != "409 llave-en-curso" {
			b.t.Errorf("retry while the work goes on = %s, want 409 llave-en-curso", got.verdict())
		}
		release()
		var retry response
		eventually(b.t, "the retry gets the recorded answer", func() bool {
			retry = b.keyed(c, "k1")
			return retry.verdict() != "409 llave-en-curso"
		})
		if retry.status != c.status || retry.replayed() != "true" {
			b.t.Errorf("retry = %s, Idempotency-Replayed %q, want %d, \"true\"", retry.verdict(), retry.replayed(), c.status)
		}
		b.expectMade(c, 1)
	})
}

// TestClientHangsUpWithoutAKey: its work goes on too, and nobody is told.
func TestClientHangsUpWithoutAKey(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	g.close()
	ctx, hangUp := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() {
		_, err := b.try(ctx, "POST", "/servicios", "escritura-a", `{"nombre":"avisos","url":"`+b.gateURL("/")+`"}`)
		gone <- err
	}()
	g.arrived(t)
	hangUp()
	if err := <-gone; err == nil {
		t.Fatal("the client got an answer, want that it hung up")
	}
	g.open()
	eventually(t, "the service is registered", func() bool {
		return strings.Contains(b.call("GET", "/servicios", "escritura-a", "").body, `"avisos"`)
	})
}

// atOnce sends the same request from many clients at the same moment.
func (b *bench) atOnce(many int, request func(i int) (response, error)) []response {
	b.t.Helper()
	answers := make([]response, many)
	start := make(chan struct{})
	var clients sync.WaitGroup
	for i := range answers {
		clients.Go(func() {
			<-start
			var err error
			if answers[i], err = request(i); err != nil {
				b.t.Error(err)
			}
		})
	}
	close(start)
	clients.Wait()
	return answers
}

// TestHundredAtOnce: one effect; one answer that is not a replay; for the rest "in
// flight" or that answer again, and never another error.
func TestHundredAtOnce(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		body := c.body(b)
		answers := b.atOnce(100, func(int) (response, error) {
			return b.try(context.Background(), "POST", c.path, "escritura-a", body, "Idempotency-Key: k1")
		})
		var first []response
		for _, got := range answers {
			if got.replayed() == "false" {
				first = append(first, got)
			}
		}
		if len(first) != 1 || first[0].status != c.status {
			b.t.Fatalf("answers that are no replays = %v, want one %d", first, c.status)
		}
		for _, got := range answers {
			switch {
			case got.replayed() == "true":
				b.expectReplay(got, first[0])
			case got.replayed() == "" && got.verdict() != "409 llave-en-curso":
				b.t.Errorf("answer = %s, want 409 llave-en-curso or a replay", got.verdict())
			}
		}
		b.expectMade(c, 1)
		b.expectReplay(b.keyed(c, "k1"), first[0])
	})
}

// TestHundredWaitAtOnce: who is willing to wait gets the answer, all of them.
func TestHundredWaitAtOnce(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		body := c.body(b)
		answers := b.atOnce(100, func(int) (response, error) {
			return b.try(context.Background(), "POST", c.path, "escritura-a", body, "Idempotency-Key: k1", "Prefer: wait=30")
		})
		counts := map[string]int{}
		for _, got := range answers {
			counts[got.verdict()+" "+got.replayed()]++
		}
		made, replayed := fmt.Sprint(c.status, " false"), fmt.Sprint(c.status, " true")
		if counts[made] != 1 || counts[replayed] != 99 {
			b.t.Errorf("answers = %v, want one %s, 99 %s", counts, made, replayed)
		}
		b.expectMade(c, 1)
	})
}

// TestHundredReplaysAtOnce: of an operation that has finished nobody is told that it is
// in flight, however many ask.
func TestHundredReplaysAtOnce(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		first := b.keyed(c, "k1")
		b.expectFirst(first, c.status)
		body, other := c.body(b), c.other(b)
		b.forget()
		answers := b.atOnce(100, func(i int) (response, error) {
			if i%10 == 9 {
				return b.try(context.Background(), "POST", c.path, "escritura-a", other, "Idempotency-Key: k1")
			}
			return b.try(context.Background(), "POST", c.path, "escritura-a", body, "Idempotency-Key: k1")
		})
		for i, got := range answers {
			if i%10 != 9 {
				b.expectReplay(got, first)
			} else if got.verdict() != "422 llave-reutilizada" {
				b.t.Errorf("other request = %s, want 422 llave-reutilizada", got.verdict())
			}
		}
		b.expectMade(c, 1)
	})
}

// TestManyKeysSideBySide: every key has its own effect and its own answer.
func TestManyKeysSideBySide(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const many = 64
	post := func(i int) (response, error) {
		return b.try(context.Background(), "POST", "/servicios", "escritura-a", b.service(fmt.Sprint("s", i)), fmt.Sprint("Idempotency-Key: k", i))
	}
	first, replays := b.atOnce(many, post), b.atOnce(many, post)
	ids := map[string]bool{}
	for i := range many {
		b.expectFirst(first[i], 201)
		b.expectReplay(replays[i], first[i])
		if !strings.Contains(first[i].body, fmt.Sprintf(`"nombre":"s%d"`, i)) {
			t.Errorf("answer to k%d = %s, want its own service", i, first[i].body)
		}
		ids[first[i].header.Get("Location")] = true
	}
	if len(ids) != many {
		t.Errorf("%d services, want %d", len(ids), many)
	}
}
