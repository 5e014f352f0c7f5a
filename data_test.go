// data_test.go reads what the contract says of a service's data: every fault with its
// pointer, bodies that cannot be read, the size of a body, its type, destinations.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// pointers lists where the faults of a datos-invalidos point, in their order.
func (r response) pointers() []string {
	var problem struct {
		Errors []struct{ Detail, Pointer string }
	}
	json.Unmarshal([]byte(r.body), &problem)
	var all []string
	for _, e := range problem.Errors {
		if e.Detail == "" {
			return nil
		}
		all = append(all, e.Pointer)
	}
	return all
}

func TestServiceDataFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("otro", "escritura-a")
	const name, url, limit = "#/nombre", "#/url", "#/limite_ms"
	with := func(member, value string) string {
		members := map[string]string{"nombre": `"x"`, "url": `"http://` + b.lab + `"`, "limite_ms": "2000"}
		members[member] = value
		return fmt.Sprintf(`{"nombre":%s,"url":%s,"limite_ms":%s}`, members["nombre"], members["url"], members["limite_ms"])
	}
	type row struct {
		body string
		want []string
	}
	tests := []row{
		{`{}`, []string{name, url}},
		{`{"limite_ms":99}`, []string{name, url, limit}},
		{`{"limite_ms":null,"url":null,"nombre":null}`, []string{name, url, limit}},
		{`{"limite_ms":"1","url":1,"nombre":1}`, []string{name, url, limit}},
		{`{"limite_ms":0,"nombre":""}`, []string{name, url, limit}},
		{`{"NOMBRE":"x","Url":"http://` + b.lab + `","limite_ms ":0}`, []string{name, url}},
		{`{"servicio":{"nombre":"x","url":"http://` + b.lab + `"}}`, []string{name, url}},
		{`{"nombre":"x","url":"nada"}`, []string{url}},
		{with("nombre", `"`+strings.Repeat("x", 41)+`"`), []string{name}},
		{with("nombre", `"`+strings.Repeat("ñ", 41)+`"`), []string{name}},
		{with("nombre", `"`+strings.Repeat("🦤", 41)+`"`), []string{name}},
		{with("nombre", `"`+strings.Repeat(" ", 41)+`"`), []string{name}},
	}
	for member, values := range map[string][]string{
		"nombre": {`""`, `" "`, `"\t\n\r "`, `"\u00a0\u2003\u3000"`, `null`, `1`, `true`, `["x"]`, `{"x":"x"}`},
		"url": {`""`, `null`, `1`, `["http://x"]`, `"nada"`, `"/servicios"`, `"//127.0.0.1/x"`, `"http:"`, `"http://"`, `"http:///x"`,
			`"http:/127.0.0.1"`, `"ftp://127.0.0.1"`, `"file:///etc/passwd"`, `"javascript:alert(1)"`, `"ws://127.0.0.1"`,
			`"http://127.0.0.1:99999"`, `"http://127.0.0.1:x"`, `"http://a b/"`, `" http://127.0.0.1"`, `"http://[::1"`, `"http://127.0.0.1.256"`},
		"limite_ms": {`null`, `"2000"`, `true`, `[2000]`, `{}`, `99`, `10001`, `0`, `-100`, `-2000`, `100.5`, `2000.0001`, `99.9999999999999999999`,
			`1e400`, `1e-400`, `1e9999999999999999999999`, `1e-9999999999999999999999`, `18446744073709553616`, `1.5e-3`, `0.1e3000`},
	} {
		for _, value := range values {
			tests = append(tests, row{with(member, value), []string{"#/" + member}})
		}
	}
	for _, tt := range tests {
		for _, method := range []string{"POST", "PUT"} {
			path := map[string]string{"POST": "/servicios", "PUT": service}[method]
			got := b.call(method, path, "escritura-a", tt.body, "If-Match: *")
			if got.verdict() != "422 datos-invalidos" || !slices.Equal(got.pointers(), tt.want) {
				t.Errorf("%s %s = %s at %q, want 422 datos-invalidos at %q", method, tt.body, got.verdict(), got.pointers(), tt.want)
			}
		}
	}
	if got := b.call("GET", "/servicios", "lectura-a", ""); strings.Count(got.body, `"id"`) != 1 || !strings.Contains(got.body, `"otro"`) {
		t.Errorf("list = %s, want nothing changed", got.body)
	}
}

func TestServiceDataLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, length := range []int{1, 39, 40} {
		for _, char := range []string{"x", "ñ", "漢", "🦤", `\ud83d\ude00`} {
			got := b.call("POST", "/servicios", "escritura-a", b.service(strings.Repeat(char, length)))
			if got.status != 201 {
				t.Errorf("POST with a name of %d × %s = %s, want 201", length, char, got.verdict())
			}
		}
	}
	for i, tt := range []struct {
		written string
		want    float64
	}{
		{"100", 100}, {"10000", 10000}, {"1.5e3", 1500}, {"1500.0", 1500}, {"1500.000000000000000000000", 1500}, {"15E+2", 1500},
		{"0.1e4", 1000}, {"1e2", 100}, {"1000000e-3", 1000}, {"123.4e1", 1234}, {"0.00001e9", 10000},
		{"1" + strings.Repeat("0", 300) + "e-298", 100},
	} {
		got := b.call("POST", "/servicios", "escritura-a", fmt.Sprintf(`{"nombre":"l%d","url":"http://%s","limite_ms":%s}`, i, b.lab, tt.written))
		if got.status != 201 || got.member("limite_ms") != tt.want {
			t.Errorf("POST with limite_ms %s = %s %s, want 201, limite_ms %v", tt.written, got.verdict(), got.body, tt.want)
		}
	}
}

func TestUnreadableBodies(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("otro", "escritura-a")
	good := b.service("x")
	inside := func(value string) string { return strings.TrimSuffix(good, "}") + `,"otro":` + value + `}` }
	for _, tt := range []struct{ name, body string }{
		{"empty", ""},
		{"white space", " \n"},
		{"array", "[" + good + "]"},
		{"null", "null"},
		{"text", `"x"`},
		{"number", "1"},
		{"boolean", "true"},
		{"truncated", good[:len(good)-1]},
		{"truncated in a text", good[:len(good)-3]},
		{"followed by another", good + good},
		{"followed by a word", good + " x"},
		{"followed by a brace", good + "}"},
		{"followed by NUL", good + "\x00"},
		{"led by a BOM", "\ufeff" + good},
		{"followed by a BOM", good + "\ufeff"},
		{"UTF-16", "{\x00}\x00"},
		{"duplicate member", `{"nombre":"x","nombre":"x","url":"http://` + b.lab + `"}`},
		{"duplicate by an escape", `{"nombre":"x","n\u006fmbre":"y","url":"http://` + b.lab + `"}`},
		{"duplicate of an unknown member", inside(`1,"otro":2`)},
		{"duplicate inside", inside(`{"a":{"b":1,"b":1}}`)},
		{"duplicate inside an array", inside(`[{"b":1,"b":1}]`)},
		{"invalid UTF-8", `{"nombre":"` + "\xff" + `","url":"http://` + b.lab + `"}`},
		{"invalid UTF-8 in an unknown member", inside("\"\xc3\"")},
		{"overlong UTF-8", inside("\"\xc0\xaf\"")},
		{"surrogate in UTF-8", inside("\"\xed\xa0\x80\"")},
		{"lone surrogate", `{"nombre":"\ud83e","url":"http://` + b.lab + `"}`},
		{"lone low surrogate", inside(`"\udda4"`)},
		{"surrogates the wrong way round", inside(`"\udda4\ud83e"`)},
		{"lone surrogate in a name", inside(`{"\ud83e":1}`)},
		{"trailing comma", strings.TrimSuffix(good, "}") + ",}"},
		{"comment", "/* */" + good},
		{"single quotes", strings.ReplaceAll(good, `"`, `'`)},
		{"bare name", `{nombre:"x"}`},
		{"control character", inside("\"a\nb\"")},
		{"leading zero", inside("01")},
		{"plus sign", inside("+1")},
		{"no digits after the point", inside("1.")},
		{"hexadecimal", inside("0x10")},
		{"NaN", inside("NaN")},
		{"unknown escape", inside(`"\x41"`)},
		{"never closed", strings.Repeat(`{"a":`, 3000)},
	} {
		for method, path := range map[string]string{"POST": "/servicios", "PUT": service} {
			got := b.call(method, path, "escritura-a", tt.body, "Content-Type: application/json", "If-Match: *")
			if got.verdict() != "400 cuerpo-ilegible" {
				t.Errorf("%s of %s = %s, want 400 cuerpo-ilegible", method, tt.name, got.verdict())
			}
		}
		if got := b.call("PUT", "/mantenimiento", "admin", tt.body, "Content-Type: application/json"); got.verdict() != "400 cuerpo-ilegible" {
			t.Errorf("PUT /mantenimiento of %s = %s, want 400 cuerpo-ilegible", tt.name, got.verdict())
		}
	}
	for _, tt := range []struct{ name, body string }{
		{"white space around", "\r\n\t " + b.service("a") + " \n"},
		{"equal names at other levels", strings.TrimSuffix(b.service("b"), "}") + `,"o":{"nombre":1,"o":{"nombre":2}}}`},
		{"deep", strings.TrimSuffix(b.service("c"), "}") + `,"o":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`},
		{"a pair of surrogates", strings.TrimSuffix(b.service("d"), "}") + `,"o":"\ud83e\udda4"}`},
	} {
		if got := b.call("POST", "/servicios", "escritura-a", tt.body); got.status != 201 {
			t.Errorf("POST of %s = %s %s, want 201", tt.name, got.verdict(), got.body)
		}
	}
}

// TestBodySize: 16384 bytes are read, one more is refused, announced or in chunks.
func TestBodySize(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	revisions := b.register("otro", "escritura-a") + "/revisiones"
	padded := func(name string, size int) string {
		body := b.service(name)
		return body + strings.Repeat(" ", size-len(body))
	}
	for i, tt := range []struct {
		size int
		want string
	}{{maxBody - 1, "201"}, {maxBody, "201"}, {maxBody + 1, "413 about:blank"}, {2 * maxBody, "413 about:blank"}} {
		for j, key := range []string{"", "Idempotency-Key: k1"} {
			body := padded(fmt.Sprintf("s%d%d", i, j), tt.size)
			if key != "" {
				key += fmt.Sprint(i)
			}
			if got := b.call("POST", "/servicios", "escritura-a", body, key); got.verdict() != tt.want {
				t.Errorf("POST of %d bytes, %q = %s, want %s", tt.size, key, got.verdict(), tt.want)
			}
		}
		body := []byte(padded(fmt.Sprintf("t%d", i), tt.size))
		var pieces [][]byte
		for piece := range slices.Chunk(body, 1000) {
			pieces = append(pieces, fmt.Appendf(nil, "%x\r\n%s\r\n", len(piece), piece))
		}
		got, _ := b.wire("POST /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer escritura-a\r\nContent-Type: application/json\r\n"+
			"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n", append(pieces, []byte("0\r\n\r\n")))
		if got.verdict() != tt.want {
			t.Errorf("POST of %d bytes in chunks = %s, want %s", tt.size, got.verdict(), tt.want)
		}
	}
	for _, key := range []string{"", "Idempotency-Key: r"} {
		got := b.call("POST", revisions, "escritura-a", strings.Repeat("}", maxBody), key)
		if got.status != 202 {
			t.Errorf("POST %s of %d bytes, %q = %s, want 202", revisions, maxBody, key, got.verdict())
		}
	}
	if got := b.call("POST", revisions, "escritura-a", string(bytes.Repeat([]byte("}"), maxBody+1))); got.verdict() != "413 about:blank" {
		t.Errorf("POST %s of %d bytes = %s, want 413 about:blank", revisions, maxBody+1, got.verdict())
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for i, tt := range []struct{ header, want string }{
		{"Content-Type: application/json", "201"},
		{"Content-Type: APPLICATION/Json", "201"},
		{"Content-Type: application/json; charset=utf-8", "201"},
		{"Content-Type: application/json;charset=utf-8;x", "201"},
		{"Content-Type: application/json ; charset=latin-1", "201"},
		{"Content-Type:", "415 about:blank"},
		{"Content-Type: text/plain", "415 about:blank"},
		{"Content-Type: text/json", "415 about:blank"},
		{"Content-Type: application/problem+json", "415 about:blank"},
		{"Content-Type: application/merge-patch+json", "415 about:blank"},
		{"Content-Type: application/jsonx", "415 about:blank"},
		{"Content-Type: application/json, text/plain", "415 about:blank"},
		{"Content-Type: application/x-www-form-urlencoded", "415 about:blank"},
		{"Content-Type: */*", "415 about:blank"},
		{"Content-Type: json", "415 about:blank"},
	} {
		got := b.call("POST", "/servicios", "escritura-a", b.service(fmt.Sprintf("s%d", i)), tt.header)
		accept := ""
		if strings.HasPrefix(tt.want, "415") {
			accept = "application/json"
		}
		if got.verdict() != tt.want || got.header.Get("Accept") != accept {
			t.Errorf("POST with %q = %s, Accept %q, want %s, %q", tt.header, got.verdict(), got.header.Get("Accept"), tt.want, accept)
		}
	}
}

// TestDestinationsAtRegistration: what a person may read of a refusal is what was
// written, never where a name leads.
func TestDestinationsAtRegistration(t *testing.T) {
	t.Parallel()
	names := map[string][]string{
		"publico.example": {"8.8.8.8", "2606:4700:4700::1111"}, "interno.example": {"10.9.8.7"},
		"mezcla.example": {"8.8.8.8", "10.9.8.7"}, "nada.example": {},
	}
	b := newBench(t, benchOptions{resolve: func(_ context.Context, host string) (addrs []netip.Addr, err error) {
		list, ok := names[host]
		if !ok {
			return nil, errors.New("no such host")
		}
		for _, text := range list {
			addrs = append(addrs, netip.MustParseAddr(text))
		}
		return addrs, nil
	}})
	_, port, _ := strings.Cut(b.lab, ":")
	for i, tt := range []struct{ url, want, told string }{
		{"http://publico.example/", "201", ""},
		{"https://8.8.8.8:8443/", "201", ""},
		{"http://[::ffff:8.8.8.8]/", "201", ""},
		{"http://127.1:" + port, "201", ""}, // the allowed address in other words
		{"http://2130706433:" + port, "201", ""},
		{"http://usuario:clave@127.0.0.1:" + port, "201", ""},
		{"http://127.0.0.1:1/", "422 destino-prohibido", "127.0.0.1:1"},
		{"http://0x7f000001/", "422 destino-prohibido", "127.0.0.1:80"},
		{"https://[2002:a9fe:a9fe::]/", "422 destino-prohibido", "[2002:a9fe:a9fe::]:443"},
		{"http://usuario:clave@10.0.0.1:8080/", "422 destino-prohibido", "10.0.0.1:8080"},
		{"http://8.8.8.8@10.0.0.1/", "422 destino-prohibido", "10.0.0.1:80"},
		{"http://interno.example/", "422 destino-prohibido", "interno.example:80"},
		{"http://mezcla.example:8080/", "422 destino-prohibido", "mezcla.example:8080"},
		{"http://nada.example/", "422 destino-prohibido", ""},
		{"http://otro.example/", "422 destino-prohibido", ""},
	} {
		got := b.call("POST", "/servicios", "escritura-a", fmt.Sprintf(`{"nombre":"s%d","url":"%s"}`, i, tt.url))
		detail, _ := got.member("detail").(string)
		if got.verdict() != tt.want || !strings.Contains(detail, tt.told) {
			t.Errorf("POST with %s = %s %q, want %s that tells %q", tt.url, got.verdict(), detail, tt.want, tt.told)
		}
		for _, hidden := range []string{"10.9.8.7", "clave", "usuario"} {
			if strings.Contains(detail, hidden) {
				t.Errorf("POST with %s tells %q: %q", tt.url, hidden, detail)
			}
		}
	}
}
