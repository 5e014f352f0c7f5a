// idempotency_test.go reads the table of the promise on both POSTs that create
// something: what is replayed, what is refused, what leaves the key free. What happens
// while the original still runs is in flight_test.go, how long a key lives in
// lifetime_test.go.

package main

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// creation is one of the two POSTs that create something.
type creation struct {
	name   string
	path   string
	body   func(b *bench) string
	other  func(b *bench) string // the body of another request
	status int
	// made tells how many effects there are.
	made func(b *bench) int
}

var creations = []creation{
	{
		name: "POST servicios", path: "/servicios", status: 201,
		body:  func(b *bench) string { return b.service("avisos") },
		other: func(b *bench) string { return b.service("otro") },
		made: func(b *bench) int {
			return strings.Count(b.call("GET", "/servicios", "admin", "").body, `"id":`) - 1
		},
	},
	{
		name: "POST revisiones", path: "/servicios/1/revisiones", status: 202,
		body:  func(*bench) string { return "ahora" },
		other: func(*bench) string { return "ahora " },
		made: func(b *bench) int {
			n, _ := b.call("GET", "/servicios/1/informe", "admin", "").member("revisiones").(float64)
			return int(n)
		},
	},
}

// onBothRoutes runs a test on both POSTs, each on a bench of its own with one service
// of team a, /servicios/1, that the POSTs can refer to.
func onBothRoutes(t *testing.T, o benchOptions, test func(b *bench, c creation)) {
	for _, c := range creations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, o)
			b.register("base", "escritura-a")
			test(b, c)
		})
	}
}

// keyed sends a creation under a key.
func (b *bench) keyed(c creation, key string, headers ...string) response {
	b.t.Helper()
	return b.call("POST", c.path, "escritura-a", c.body(b), append(headers, "Idempotency-Key: "+key)...)
}

// replayed is "true" or "false" where the server says that it honoured a key.
func (r response) replayed() string { return r.header.Get("Idempotency-Replayed") }

// forget makes the next replay come from the file: recent answers are in memory too.
func (b *bench) forget() { b.engine.recent.Purge() }

// expectMade holds the bench to a number of effects.
func (b *bench) expectMade(c creation, want int) {
	b.t.Helper()
	if got := c.made(b); got != want {
		b.t.Errorf("%s: %d effects, want %d", c.path, got, want)
	}
}

// expectFirst holds an answer to being that of work done under a key just now.
func (b *bench) expectFirst(got response, status int) {
	b.t.Helper()
	if got.status != status || got.replayed() != "false" {
		b.t.Fatalf("answer = %s, Idempotency-Replayed %q, want %d, \"false\"\n%s", got.verdict(), got.replayed(), status, got.body)
	}
}

// expectReplay holds an answer to being the recorded one.
func (b *bench) expectReplay(got, first response) {
	b.t.Helper()
	if got.replayed() != "true" {
		b.t.Errorf("answer = %s, Idempotency-Replayed %q, want \"true\"\n%s", got.verdict(), got.replayed(), got.body)
	}
	if diff := cmp.Diff(recorded(first), recorded(got)); diff != "" {
		b.t.Errorf("replay differs (-first +replay):\n%s", diff)
	}
}

// recorded is of an answer what a replay has to repeat.
func recorded(r response) map[string][]string {
	all := r.header.Clone()
	for _, name := range []string{"Date", "Idempotency-Replayed", "Preference-Applied"} {
		all.Del(name)
	}
	all["status"], all["body"] = []string{fmt.Sprint(r.status)}, []string{r.body}
	return all
}

// bytesOf sends a request as it stands and returns every byte of the answer.
func (b *bench) bytesOf(request string) string {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		b.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(answer)
}

func TestReplayIsTheAnswerToTheByte(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		body := c.body(b)
		request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: revisor\r\nConnection: close\r\nAuthorization: Bearer escritura-a\r\n"+
			"Content-Type: application/json\r\nIdempotency-Key: k1\r\nContent-Length: %d\r\n\r\n%s", c.path, len(body), body)
		varies := regexp.MustCompile(`(?m)^(Date: ).*\r$`)
		first := varies.ReplaceAllString(b.bytesOf(request), "$1…\r")
		for _, from := range []string{"memory", "file"} {
			if from == "file" {
				b.forget()
			}
			replay := varies.ReplaceAllString(b.bytesOf(request), "$1…\r")
			want := strings.Replace(first, "Idempotency-Replayed: false\r\n", "Idempotency-Replayed: true\r\n", 1)
			if want == first || replay != want {
				b.t.Errorf("replay from %s = %q, want %q", from, replay, want)
			}
		}
		b.expectMade(c, 1)
	})
}

func TestReplaySaysWhatWasCreated(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		first := b.keyed(c, "k1")
		b.expectFirst(first, c.status)
		replay := b.keyed(c, "k1")
		b.expectReplay(replay, first)
		location, etag := "/servicios/2", `"2-1-`+b.store.tag+`"`
		if c.status == 202 {
			location, etag = "/revisiones/1", ""
		}
		for _, got := range []response{first, replay} {
			header := got.header
			if header.Get("Location") != location || header.Get("ETag") != etag || header.Get("Content-Type") != "application/json" {
				b.t.Errorf("header = %v, want Location %s, ETag %s, application/json", header, location, etag)
			}
			for _, name := range []string{"Set-Cookie", "WWW-Authenticate", "Retry-After", "Link"} {
				if header.Get(name) != "" {
					b.t.Errorf("%s = %q, want none", name, header.Get(name))
				}
			}
		}
	})
}

// TestWithoutAKey: as if the feature did not exist.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		first := b.call("POST", c.path, "escritura-a", c.body(b))
		second := b.call("POST", c.path, "escritura-a", c.body(b))
		wantSecond, wantMade := "409 nombre-repetido", 1
		if c.status == 202 {
			wantSecond, wantMade = "202", 2
		}
		if first.status != c.status || second.verdict() != wantSecond {
			b.t.Errorf("two POSTs = %s, %s, want %d, %s", first.verdict(), second.verdict(), c.status, wantSecond)
		}
		if first.replayed() != "" || second.replayed() != "" {
			b.t.Errorf("Idempotency-Replayed = %q, %q, want none", first.replayed(), second.replayed())
		}
		b.expectMade(c, wantMade)
	})
}

// TestKeysElsewhere: the other methods are idempotent already and do not look at the
// header, however it is written.
func TestKeysElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.register("base", "escritura-a")
	tests := []struct {
		method, path, as, body string
		want                   int
	}{
		{"GET", "/servicios", "escritura-a", "", 200},
		{"GET", "/servicios/1", "escritura-a", "", 200},
		{"PUT", "/servicios/1", "escritura-a", b.service("base"), 200},
		{"PUT", "/servicios/1", "escritura-a", b.service("base"), 200},
		{"PUT", "/mantenimiento", "admin", `{"activo":false}`, 204},
		{"DELETE", "/servicios/1", "escritura-a", "", 204},
		{"DELETE", "/servicios/1", "escritura-a", "", 410},
	}
	for _, key := range []string{"k1", `"sin cerrar`} {
		for _, tt := range tests {
			got := b.call(tt.method, tt.path, tt.as, tt.body, "Idempotency-Key: "+key, "If-Match: *")
			if key != "k1" && tt.path != "/servicios" { // the service is gone by now
				continue
			}
			if got.status != tt.want || got.replayed() != "" {
				t.Errorf("%s %s with key %s = %s, Idempotency-Replayed %q, want %d, none", tt.method, tt.path, key, got.verdict(), got.replayed(), tt.want)
			}
		}
	}
	if got := b.call("GET", "/operaciones/k1", "escritura-a", ""); got.status != 404 {
		t.Errorf("GET /operaciones/k1 = %s, want 404", got.verdict())
	}
}

// TestSameRequest: what may differ between two requests that are one.
func TestSameRequest(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, path, body, header, key string }{
		{"white space", "/servicios", " {\n\t\"nombre\" : \"avisos\",\"url\":\"%s\",\"limite_ms\":1500}\r\n", "", "k1"},
		{"escapes", "/servicios", `{"nombr\u0065":"\u0061visos","url":"%s","limite_ms":1500}`, "", "k1"},
		{"numbers by value", "/servicios", `{"nombre":"avisos","url":"%s","limite_ms":1.50e3}`, "", "k1"},
		{"query", "/servicios?intento=2", "", "", "k1"},
		{"quoted key", "/servicios", "", "", `"k1"`},
		{"quoted key with parameters", "/servicios", "", "", `"k1";intento=2`},
		{"parameters of the type", "/servicios", "", "Content-Type: Application/JSON; charset=utf-8", "k1"},
		{"other headers", "/servicios", "", "Accept: text/html", "k1"},
		{"a preference", "/servicios", "", "Prefer: wait=5", "k1"},
	}
	b := newBench(t, benchOptions{})
	url := "http://" + b.lab + "/codigo/200"
	const original = `{"nombre":"avisos","url":"%s","limite_ms":1500}`
	first := b.call("POST", "/servicios", "escritura-a", fmt.Sprintf(original, url), "Idempotency-Key: k1")
	b.expectFirst(first, 201)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, body := b.in(t), tt.body
			if body == "" {
				body = original
			}
			body = fmt.Sprintf(body, url)
			got := b.call("POST", tt.path, "escritura-a", body, "Idempotency-Key: "+tt.key, tt.header)
			b.expectReplay(got, first)
			if applied := got.header.Get("Preference-Applied"); applied != "" {
				t.Errorf("Preference-Applied = %q, want none: nothing was waited for", applied)
			}
		})
	}
}

// TestOtherRequest: the same key for another intention is refused, and neither does
// anything nor touches what is recorded.
func TestOtherRequest(t *testing.T) {
	t.Parallel()
	const service, check = "/servicios", "/servicios/1/revisiones"
	const original = `{"nombre":"avisos","url":"%s"}`
	tests := []struct{ name, firstPath, firstBody, path, body string }{
		{"another value", service, original, service, `{"nombre":"otro","url":"%s"}`},
		{"another order of members", service, original, service, `{"url":"%s","nombre":"avisos"}`},
		{"a default spelled out", service, original, service, `{"nombre":"avisos","url":"%s","limite_ms":2000}`},
		{"a member that means nothing", service, original, service, `{"nombre":"avisos","url":"%s","nota":""}`},
		{"a number as text", service, `{"nombre":"avisos","url":"%s","limite_ms":2000}`, service, `{"nombre":"avisos","url":"%s","limite_ms":"2000"}`},
		{"data that would be refused", service, original, service, `{}`},
		{"another route", service, original, check, original},
		{"another route, the other way", check, "", service, original},
		{"another service", check, "", "/servicios/2/revisiones", ""},
		{"another spelling of the path", check, "", "/servicios/01/revisiones", ""},
		{"another body", check, "", check, " "},
		{"another body, equal as JSON", check, "{}", check, "{ }"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			b.register("base", "escritura-a")
			b.register("base2", "escritura-a")
			post := func(path, body string) response {
				body = strings.Replace(body, "%s", "http://"+b.lab+"/codigo/200", 1)
				return b.call("POST", path, "escritura-a", body, "Idempotency-Key: k1")
			}
			state := func() string {
				return b.call("GET", service, "escritura-a", "").body + b.call("GET", "/servicios/1/informe", "escritura-a", "").body +
					b.call("GET", "/servicios/2/informe", "escritura-a", "").body
			}
			first := post(tt.firstPath, tt.firstBody)
			b.expectFirst(first, map[string]int{service: 201, check: 202}[tt.firstPath])
			eventually(t, "the revision has been made", func() bool { return !strings.Contains(state(), `"revisiones":1,"ultimo_estado":null`) })
			before := state()
			for range 2 {
				if got := post(tt.path, tt.body); got.verdict() != "422 llave-reutilizada" || got.replayed() != "" {
					t.Errorf("POST %s %s = %s, Idempotency-Replayed %q, want 422 llave-reutilizada, none", tt.path, tt.body, got.verdict(), got.replayed())
				}
			}
			if after := state(); after != before {
				t.Errorf("state = %s, want %s", after, before)
			}
			b.expectReplay(post(tt.firstPath, tt.firstBody), first)
		})
	}
}

// TestScope: a key belongs to a credential. Whoever else uses the same one has another.
func TestScope(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	answers := map[string]response{}
	for _, as := range []string{"escritura-a", "escritura-b", "admin"} {
		answers[as] = b.call("POST", "/servicios", as, b.service("avisos"), "Idempotency-Key: k1")
		b.expectFirst(answers[as], 201)
	}
	for as, first := range answers {
		b.expectReplay(b.call("POST", "/servicios", as, b.service("avisos"), "Idempotency-Key: k1"), first)
	}
	if n := strings.Count(b.call("GET", "/servicios", "admin", "").body, `"id":`); n != 3 {
		t.Errorf("%d services, want 3", n)
	}
	if got := b.call("POST", "/servicios", "lectura-a", b.service("avisos"), "Idempotency-Key: k1"); got.verdict() != "403 permiso-insuficiente" {
		t.Errorf("POST as reader = %s, want 403 permiso-insuficiente", got.verdict())
	}
}

// TestReplayPassesTheSameDoors: a credential that is no good any more gets no answer,
// and a new one of the same team gets none of the old one's.
func TestReplayPassesTheSameDoors(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		credential := func(name string) (token string) {
			cred, token, err := newCredential(name, "a", "writer", b.clock.Now())
			if err != nil {
				b.t.Fatal(err)
			}
			mustWrite(b.t, b.store, func(t *tx) error { _, err := t.insertCredential(cred); return err })
			b.clock.advance(time.Second)
			return token
		}
		post := func(token string) response {
			return b.call("POST", c.path, token, c.body(b), "Idempotency-Key: k1")
		}
		first := credential("primera")
		b.expectFirst(post(first), c.status)
		mustWrite(b.t, b.store, func(t *tx) error { _, err := t.revokeCredential("primera", b.clock.Now()); return err })
		b.clock.advance(time.Second)
		if got := post(first); got.verdict() != "401 credencial-invalida" || got.replayed() != "" {
			b.t.Errorf("replay with a revoked credential = %s, want 401 credencial-invalida", got.verdict())
		}
		if got := post(credential("segunda")); got.replayed() == "true" {
			b.t.Errorf("another credential of the team = %s and a replay, want its own answer", got.verdict())
		}
	})
}

// TestReplayWhateverHappenedSince: the key promises the answer, not the state.
func TestReplayWhateverHappenedSince(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		first := b.keyed(c, "k1")
		b.expectFirst(first, c.status)
		resource := "/servicios/1"
		if c.status == 201 {
			resource = first.header.Get("Location")
		}
		for _, change := range []func(){
			func() { b.call("PUT", resource, "escritura-a", b.service("otro nombre"), "If-Match: *") },
			func() { b.call("DELETE", resource, "escritura-a", "") },
			func() { b.call("POST", "/servicios", "escritura-a", b.service("avisos")) }, // takes the name
		} {
			change()
			b.expectReplay(b.keyed(c, "k1"), first)
			b.forget()
			b.expectReplay(b.keyed(c, "k1"), first)
		}
	})
}
