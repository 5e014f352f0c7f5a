// keysyntax_test.go sends the Idempotency-Key as bytes on the wire: which spellings are
// a key, which are one key, and that no other reaches the work unprotected.

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// keyedRaw registers name, or asks for a check without one, with header lines as they
// stand.
func (b *bench) keyedRaw(path, name, lines string) response {
	b.t.Helper()
	body := ""
	if path == "/servicios" {
		body = b.service(name)
	}
	raw := b.bytesOf(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: revisor\r\nConnection: close\r\nAuthorization: Bearer escritura-a\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), lines, body))
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), &http.Request{Method: "POST"})
	if err != nil {
		b.t.Fatalf("answer %q: %v", raw, err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	got := response{resp.StatusCode, resp.Header, string(text)}
	checkAnswer(b.t, "POST", path, got)
	return got
}

func TestKeySyntaxOnTheWire(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", maxKeyLength)
	const visible = "!#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
	tests := []struct {
		name, lines string
		want        string // the key; "" for 400
	}{
		{"bare", "Idempotency-Key: k1\r\n", "k1"},
		{"bare, one character", "Idempotency-Key: k\r\n", "k"},
		{"bare, every character it may have", "Idempotency-Key: " + visible + "\r\n", visible},
		{"bare, the longest", "Idempotency-Key: " + long + "\r\n", long},
		{"name of the field in any case", "IDEMPOTENCY-key: k1\r\n", "k1"},
		{"white space around the value", "Idempotency-Key:\t  k1 \t\r\n", "k1"},
		{"no white space", "Idempotency-Key:k1\r\n", "k1"},
		{"a comma is a character", "Idempotency-Key: k1,k2\r\n", "k1,k2"},
		{"a semicolon is a character", "Idempotency-Key: k1;a=1\r\n", "k1;a=1"},
		{"nothing is decoded", "Idempotency-Key: a%20b\r\n", "a%20b"},
		{"quoted", "Idempotency-Key: \"k1\"\r\n", "k1"},
		{"quoted, escapes", "Idempotency-Key: \"a\\\"b\\\\c\"\r\n", `a"b\c`},
		{"quoted, spaces", "Idempotency-Key: \" k 1 \"\r\n", " k 1 "},
		{"quoted, a space at its end", "Idempotency-Key: \"k1 \"\r\n", "k1 "},
		{"quoted, the longest", "Idempotency-Key: \"" + strings.Repeat(`\"`, maxKeyLength) + "\"\r\n", strings.Repeat(`"`, maxKeyLength)},
		{"quoted, parameters", "Idempotency-Key: \"k1\";a=1; b\r\n", "k1"},

		{"empty", "Idempotency-Key:\r\n", ""},
		{"spaces", "Idempotency-Key:   \r\n", ""},
		{"empty quotes", "Idempotency-Key: \"\"\r\n", ""},
		{"two lines", "Idempotency-Key: k1\r\nIdempotency-Key: k2\r\n", ""},
		{"two equal lines", "Idempotency-Key: k1\r\nIdempotency-Key: k1\r\n", ""},
		{"the second line empty", "Idempotency-Key: k1\r\nIdempotency-Key:\r\n", ""},
		{"the first line empty", "Idempotency-Key:\r\nIdempotency-Key: k1\r\n", ""},
		{"bare, too long", "Idempotency-Key: " + long + "k\r\n", ""},
		{"far too long", "Idempotency-Key: " + strings.Repeat("k", 20000) + "\r\n", ""},
		{"quoted, too long", "Idempotency-Key: \"" + long + "k\"\r\n", ""},
		{"bare, a space", "Idempotency-Key: k 1\r\n", ""},
		{"bare, a tab", "Idempotency-Key: k\t1\r\n", ""},
		{"bare, a quote", "Idempotency-Key: k\"1\r\n", ""},
		{"no closing quote", "Idempotency-Key: \"k1\r\n", ""},
		{"no opening quote", "Idempotency-Key: k1\"\r\n", ""},
		{"quoted, something behind", "Idempotency-Key: \"k1\"x\r\n", ""},
		{"quoted, two", "Idempotency-Key: \"k1\", \"k2\"\r\n", ""},
		{"quoted, an escape that is none", "Idempotency-Key: \"k\\1\"\r\n", ""},
		{"bare, UTF-8", "Idempotency-Key: llavé\r\n", ""},
		{"quoted, UTF-8", "Idempotency-Key: \"llavé\"\r\n", ""},
		{"bare, Latin-1", "Idempotency-Key: llav\xe9\r\n", ""},
		{"bare, a high byte", "Idempotency-Key: \xff\r\n", ""},
		{"a no-break space around", "Idempotency-Key: \u00a0k1\r\n", ""},
	}
	for _, path := range []string{"/servicios", "/servicios/1/revisiones"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{ttl: rateWindow})
			b.register("base", "escritura-a")
			for i, tt := range tests {
				got := b.keyedRaw(path, fmt.Sprint("s", i), tt.lines)
				if tt.want == "" {
					if got.verdict() != "400 llave-invalida" || got.replayed() != "" {
						t.Errorf("%s: POST = %s, Idempotency-Replayed %q, want 400 llave-invalida, none", tt.name, got.verdict(), got.replayed())
					}
					continue
				}
				if got.status >= 300 || got.replayed() != "false" {
					t.Errorf("%s: POST = %s, Idempotency-Replayed %q, want a success, \"false\"", tt.name, got.verdict(), got.replayed())
				}
				quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(tt.want) + `"`
				if got := b.call("GET", "/operaciones/"+url.PathEscape(quoted), "escritura-a", ""); got.member("llave") != tt.want {
					t.Errorf("%s: GET /operaciones = %s, want the key %q", tt.name, got.body, tt.want)
				}
				b.clock.advance(rateWindow) // ends the key, and the window of the rate limit
			}
			if path == "/servicios" {
				return
			}
			b.expectMade(creations[1], 16)
		})
	}
}

// TestSpellingsOfOneKey: quoted or bare, it is one key; and what only looks alike is
// another.
func TestSpellingsOfOneKey(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		first := b.keyedRaw(c.path, "avisos", "Idempotency-Key: k1\r\n")
		b.expectFirst(first, c.status)
		for _, line := range []string{`"k1"`, `"k1";a=1`, `  k1  `} {
			b.expectReplay(b.keyedRaw(c.path, "avisos", "Idempotency-Key: "+line+"\r\n"), first)
		}
		for i, line := range []string{`"k1 "`, `" k1"`, `K1`, `k1;a=1`, `k01`} {
			b.clock.advance(rateWindow)
			got := b.keyedRaw(c.path, fmt.Sprint("s", i), "Idempotency-Key: "+line+"\r\n")
			if got.replayed() != "false" {
				b.t.Errorf("POST with key %s = %s, Idempotency-Replayed %q, want its own answer", line, got.verdict(), got.replayed())
			}
		}
	})
}

// TestLinkToThePolicy: the three problems about a key say where the policy is, and no
// other problem does.
func TestLinkToThePolicy(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.register("base", "escritura-a")
	b.call("POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k1")
	flying := creation{path: "/servicios", body: func(b *bench) string { return b.service("otro") }}
	finish := b.inFlight(flying, "k2")
	const link = `</idempotencia>; rel="describedby"`
	tests := []struct {
		method, path, as, body, header string
		want                           string
		link                           string
	}{
		{"POST", "/servicios", "escritura-a", b.service("x"), `Idempotency-Key: "`, "400 llave-invalida", link},
		{"POST", "/servicios/1/revisiones", "escritura-a", "", `Idempotency-Key: "`, "400 llave-invalida", link},
		{"POST", "/servicios", "escritura-a", b.service("x"), "Idempotency-Key: k1", "422 llave-reutilizada", link},
		{"POST", "/servicios", "escritura-a", b.service("otro"), "Idempotency-Key: k2", "409 llave-en-curso", link},
		{"POST", "/servicios", "escritura-a", b.service("x"), "Idempotency-Key: k2", "422 llave-reutilizada", link},
		{"GET", "/operaciones/%22", "escritura-a", "", "", "400 llave-invalida", link},
		{"GET", "/operaciones/k9", "escritura-a", "", "", "404 operacion-inexistente", ""},
		{"POST", "/servicios", "", b.service("x"), "Idempotency-Key: k3", "401 credencial-invalida", ""},
		{"POST", "/servicios", "lectura-a", b.service("x"), "Idempotency-Key: k3", "403 permiso-insuficiente", ""},
		{"POST", "/servicios", "escritura-a", "{", "Idempotency-Key: k3", "400 cuerpo-ilegible", ""},
		{"POST", "/servicios", "escritura-a", "{}", "Content-Type: text/plain", "415 about:blank", ""},
		{"POST", "/servicios", "escritura-a", strings.Repeat(" ", maxBody+1), "Idempotency-Key: k3", "413 about:blank", ""},
		{"POST", "/servicios", "escritura-a", "{}", "Idempotency-Key: k3", "422 datos-invalidos", ""},
		{"POST", "/servicios", "escritura-a", `{"nombre":"x","url":"http://10.0.0.1/"}`, "Idempotency-Key: k3", "422 destino-prohibido", ""},
		{"POST", "/servicios/9/revisiones", "escritura-a", "", "Idempotency-Key: k3", "404 servicio-inexistente", ""},
		{"PUT", "/servicios", "escritura-a", "{}", "Idempotency-Key: k3", "405 about:blank", ""},
	}
	for _, tt := range tests {
		got := b.call(tt.method, tt.path, tt.as, tt.body, tt.header)
		if got.verdict() != tt.want || got.header.Get("Link") != tt.link {
			t.Errorf("%s %s %.40s with %s = %s, Link %q, want %s, %q", tt.method, tt.path, tt.body, tt.header, got.verdict(), got.header.Get("Link"), tt.want, tt.link)
		}
	}
	finish()
	got := b.call("POST", "/servicios", "escritura-a", b.service("avisos"), "Idempotency-Key: k3")
	if got.verdict() != "409 nombre-repetido" || got.header.Get("Link") != "" {
		t.Errorf("POST = %s, Link %q, want 409 nombre-repetido, none", got.verdict(), got.header.Get("Link"))
	}
}

// TestBodyIsReadBeforeTheKey: a request that cannot be read is told that, whatever its
// key looks like, and leaves the key alone.
func TestBodyIsReadBeforeTheKey(t *testing.T) {
	t.Parallel()
	onBothRoutes(t, benchOptions{}, func(b *bench, c creation) {
		tooLong := strings.Repeat(" ", maxBody+1)
		for _, key := range []string{"k1", `"`} {
			if got := b.call("POST", c.path, "escritura-a", tooLong, "Idempotency-Key: "+key); got.verdict() != "413 about:blank" {
				b.t.Errorf("POST of %d bytes with key %s = %s, want 413", len(tooLong), key, got.verdict())
			}
		}
		first := b.keyed(c, "k1")
		b.expectFirst(first, c.status)
		if got := b.call("POST", c.path, "escritura-a", tooLong, "Idempotency-Key: k1"); got.verdict() != "413 about:blank" {
			b.t.Errorf("POST with a recorded key = %s, want 413 about:blank", got.verdict())
		}
		b.expectReplay(b.keyed(c, "k1"), first)
	})
}
