// services_test.go reads what the contract says of services: their representations and
// headers, the list, retirement, names, teams, conditional reading, version 1. What a
// client may send is data_test.go's, replacing one put_test.go's.

package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// tagOf takes the store's part out of an entity tag.
func tagOf(etag string) string {
	_, tag, _ := strings.Cut(strings.Trim(etag, `"`), "-")
	_, tag, _ = strings.Cut(tag, "-")
	return tag
}

func TestPostService(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	url := "http://" + b.lab + "/codigo/200"
	for i, tt := range []struct{ name, body, want string }{
		{"limit left out", `{"nombre":"avisos","url":"` + url + `"}`,
			`{"id":1,"nombre":"avisos","url":"` + url + `","limite_ms":2000}`},
		{"members in any order", `{"limite_ms":1.5e3,"url":"` + url + `","nombre":"pagos"}`,
			`{"id":2,"nombre":"pagos","url":"` + url + `","limite_ms":1500}`},
		{"unknown members", `{"id":9,"nombre":"x","NOMBRE":5,"Url":null,"url":"` + url + `","LIMITE_MS":1,"otro":{"a":[1]}}`,
			`{"id":3,"nombre":"x","url":"` + url + `","limite_ms":2000}`},
	} {
		got := b.call("POST", "/servicios", "escritura-a", tt.body)
		if got.status != 201 || got.body != tt.want+"\n" {
			t.Errorf("%s: POST = %d %s, want 201 %s", tt.name, got.status, got.body, tt.want)
		}
		if want := servicePath(int64(i + 1)); got.header.Get("Location") != want {
			t.Errorf("%s: Location = %q, want %q", tt.name, got.header.Get("Location"), want)
		}
		if etag := got.header.Get("ETag"); !regexp.MustCompile(`^"[0-9]+-1-[0-9a-f]{8}"$`).MatchString(etag) || etag[1] != byte('1'+i) {
			t.Errorf("%s: ETag = %q, want the id, version 1 and eight hex digits", tt.name, etag)
		}
		if got.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: Idempotency-Replayed = %q, want none without a key", tt.name, got.header.Get("Idempotency-Replayed"))
		}
		again := b.call("GET", got.header.Get("Location"), "lectura-a", "")
		if again.body != got.body || again.header.Get("ETag") != got.header.Get("ETag") {
			t.Errorf("%s: GET = %s %q, want what POST answered", tt.name, again.body, again.header.Get("ETag"))
		}
	}
}

// TestTextIsKeptAsWritten: name and URL come back to the character, escaped no more
// than JSON asks for.
func TestTextIsKeptAsWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{allow: []string{"127.0.0.1"}})
	for _, tt := range []struct{ name, url string }{
		{"  con espacios  ", "http://127.0.0.1"},
		{"<b>&amp;</b>", "http://127.0.0.1/?a=<1>&b=2#trozo"},
		{"ñandú 🦤", "http://127.0.0.1/año/%C3%B1?q=ñ"},
		{"mayúsculas", "HTTP://127.0.0.1:80/A/../B"},
		{"credenciales", "http://usuario:clave@127.0.0.1:8080/"},
		{"otra grafía", "http://0x7f.1/"},
	} {
		got := b.call("POST", "/servicios", "escritura-a", `{"nombre":"`+tt.name+`","url":"`+tt.url+`"}`)
		want := `"nombre":"` + tt.name + `","url":"` + tt.url + `","limite_ms":2000}` + "\n"
		if got.status != 201 || !strings.HasSuffix(got.body, want) {
			t.Errorf("POST = %d %s, want 201 %s", got.status, got.body, want)
		}
	}
	got := b.call("POST", "/servicios", "escritura-a", `{"nombre":"a\u0000b\u0022\n","url":"http:\/\/127.0.0.1"}`)
	if got.status != 201 || got.member("nombre") != "a\x00b\"\n" || got.member("url") != "http://127.0.0.1" {
		t.Errorf("POST with escapes = %d %s, want them read", got.status, got.body)
	}
}

func TestListServices(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	expect := func(as, path, want string) {
		t.Helper()
		if got := b.call("GET", path, as, ""); got.status != 200 || got.body != want+"\n" {
			t.Errorf("GET %s as %s = %d %s, want 200 %s", path, as, got.status, got.body, want)
		}
	}
	expect("lectura-a", "/servicios", `{"servicios":[]}`)
	expect("lectura-a", "/v1/servicios", `{"servicios":[]}`)
	url := "http://" + b.lab + "/codigo/200"
	entry := func(id, name string) string {
		return `{"id":` + id + `,"nombre":"` + name + `","url":"` + url + `","limite_ms":2000}`
	}
	b.register("z", "escritura-a")
	b.register("y", "escritura-b")
	b.register("x", "admin")
	b.register("w", "escritura-a")
	b.call("DELETE", b.register("v", "escritura-a"), "escritura-a", "")
	expect("lectura-a", "/servicios", `{"servicios":[`+entry("1", "z")+`,`+entry("4", "w")+`]}`)
	expect("escritura-b", "/servicios", `{"servicios":[`+entry("2", "y")+`]}`)
	expect("admin", "/servicios", `{"servicios":[`+entry("1", "z")+`,`+entry("2", "y")+`,`+entry("3", "x")+`,`+entry("4", "w")+`]}`)
	expect("escritura-b", "/v1/servicios", `{"servicios":[{"id":2,"nombre":"y","direccion":"`+url+`","limite":2}]}`)
}

func TestNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.register("uno", "escritura-a")
	for _, name := range []string{"Uno", "uno ", " uno", "un\u006f\u0301"} {
		b.register(name, "escritura-a") // other names
	}
	b.register("uno", "escritura-b") // another team
	b.register("uno", "admin")       // team * is one of its own
	for as, want := range map[string]string{"escritura-a": "/servicios/1", "escritura-b": "/servicios/6", "admin": "/servicios/7"} {
		for _, key := range []string{"", "Idempotency-Key: k1"} {
			got := b.call("POST", "/servicios", as, b.service("uno"), key)
			if got.verdict() != "409 nombre-repetido" || got.member("existente") != want {
				t.Errorf("POST of a taken name as %s = %s, existente %v, want 409 nombre-repetido, %s", as, got.verdict(), got.member("existente"), want)
			}
		}
	}
	b.call("DELETE", "/servicios/1", "escritura-a", "")
	if got := b.register("uno", "escritura-a"); got != "/servicios/8" {
		t.Errorf("Location of a freed name = %s, want /servicios/8", got)
	}
}

// TestNameRace: of several registrations of one name at once, one succeeds and the
// others are told which.
func TestNameRace(t *testing.T) {
	t.Parallel()
	const rivals = 8
	g := newGate()
	b := newBench(t, benchOptions{resolve: g.resolve})
	g.close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	counts, locations, holders := map[string]int{}, map[string]bool{}, map[string]bool{}
	for range rivals {
		wg.Go(func() {
			got, err := b.try(context.Background(), "POST", "/servicios", "escritura-a", `{"nombre":"uno","url":"`+b.gateURL("/")+`"}`)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			counts[got.verdict()]++
			if got.status == 201 {
				locations[got.header.Get("Location")] = true
			} else if holder, ok := got.member("existente").(string); ok {
				holders[holder] = true
			}
		})
	}
	for range rivals {
		g.arrived(t)
	}
	g.open()
	wg.Wait()
	if counts["201"] != 1 || counts["409 nombre-repetido"] != rivals-1 || !locations["/servicios/1"] || len(holders) != 1 || !holders["/servicios/1"] {
		t.Errorf("%d at once = %v, made %v, existente %v, want one 201 of /servicios/1, which the others name", rivals, counts, locations, holders)
	}
}

func TestDeleteService(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("catalogo", "escritura-a")
	for _, tt := range []struct{ name, method, path, as, want string }{
		{"another team's", "DELETE", service, "escritura-b", "404 servicio-inexistente"},
		{"one's own", "DELETE", service, "escritura-a", "204"},
		{"again", "DELETE", service, "escritura-a", "410 servicio-retirado"},
		{"again, the admin", "DELETE", service, "admin", "410 servicio-retirado"},
		{"again, another team", "DELETE", service, "escritura-b", "404 servicio-inexistente"},
		{"read", "GET", service, "lectura-a", "410 servicio-retirado"},
		{"read by another team", "GET", service, "escritura-b", "404 servicio-inexistente"},
		{"read in version 1", "GET", "/v1" + service, "lectura-a", "410 servicio-retirado"},
		{"report", "GET", service + "/informe", "lectura-a", "410 servicio-retirado"},
		{"live check", "GET", service + "/salud", "lectura-a", "410 servicio-retirado"},
		{"revision", "POST", service + "/revisiones", "escritura-a", "410 servicio-retirado"},
		{"revision by another team", "POST", service + "/revisiones", "escritura-b", "404 servicio-inexistente"},
		{"one that never was", "DELETE", "/servicios/999", "escritura-a", "404 servicio-inexistente"},
	} {
		if got := b.call(tt.method, tt.path, tt.as, ""); got.verdict() != tt.want {
			t.Errorf("%s: %s %s as %s = %s, want %s", tt.name, tt.method, tt.path, tt.as, got.verdict(), tt.want)
		}
	}
	for _, headers := range [][]string{{"If-None-Match: *"}, {"Idempotency-Key: k1"}} {
		if got := b.call("GET", service, "lectura-a", "", headers...); got.status != 410 || got.header.Get("ETag") != "" {
			t.Errorf("GET of a retired service with %s = %d, ETag %q, want 410 without", headers, got.status, got.header.Get("ETag"))
		}
	}
}

func TestConditionalGet(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	service := b.register("catalogo", "escritura-a")
	tag := b.call("GET", service, "lectura-a", "").header.Get("ETag")
	other := `"1-1-00000000x"`
	for _, tt := range []struct {
		name  string
		lines []string
		want  int
	}{
		{"none", nil, 200},
		{"the tag", []string{tag}, 304},
		{"weakly", []string{"W/" + tag}, 304},
		{"any", []string{"*"}, 304},
		{"in a list", []string{other + ", " + tag}, 304},
		{"in a list without spaces", []string{other + "," + tag + "," + other}, 304},
		{"among empty elements", []string{",, ,\t" + tag + " ,,"}, 304},
		{"on a second line", []string{other, "W/" + tag}, 304},
		{"after a comma inside quotes", []string{`"a,b", ` + tag}, 304},
		{"another", []string{other}, 200},
		{"the tag inside another one", []string{`"a,` + strings.Trim(tag, `"`) + `,b"`}, 200},
		{"a bare word", []string{strings.Trim(tag, `"`)}, 200},
		{"a bare word in the list", []string{tag + ", x"}, 200},
		{"lower-case w", []string{"w/" + tag}, 200},
		{"any among tags", []string{"*, " + tag}, 200},
		{"tags before any", []string{tag + ", *"}, 200},
		{"no comma", []string{tag + " " + tag}, 200},
		{"unbalanced", []string{tag + `, "`}, 200},
		{"empty", []string{","}, 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			var headers []string
			for _, line := range tt.lines {
				headers = append(headers, "If-None-Match: "+line)
			}
			got := b.call(method, service, "lectura-a", "", headers...)
			if got.status != tt.want || got.header.Get("ETag") != tag {
				t.Errorf("%s: %s with %q = %d, ETag %q, want %d, %q", tt.name, method, tt.lines, got.status, got.header.Get("ETag"), tt.want, tag)
			}
		}
	}
	for _, tt := range []struct {
		path, header string
		want         string
	}{
		{service, `If-Match: "x"`, "200"}, // a condition for writing
		{"/servicios", "If-None-Match: *", "200"},
		{"/v1" + service, "If-None-Match: " + tag, "200"},
		{"/servicios/999", "If-None-Match: *", "404 servicio-inexistente"},
	} {
		if got := b.call("GET", tt.path, "lectura-a", "", tt.header); got.verdict() != tt.want {
			t.Errorf("GET %s with %s = %s, want %s", tt.path, tt.header, got.verdict(), tt.want)
		}
	}
}

// TestEntityTagOutlivesARestart, and means nothing in another database.
func TestEntityTagOutlivesARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "revisor.db")
	b := newBench(t, benchOptions{path: path})
	service := b.register("catalogo", "escritura-a")
	tag := b.call("GET", service, "lectura-a", "").header.Get("ETag")
	b.stop()
	b = newBench(t, benchOptions{path: path})
	if got := b.call("GET", service, "lectura-a", "", "If-None-Match: "+tag); got.status != 304 {
		t.Errorf("GET after a restart = %d, want 304", got.status)
	}
	if got := b.call("PUT", service, "escritura-a", b.service("catalogo"), "If-Match: "+tag); got.status != 200 {
		t.Errorf("PUT after a restart = %d, want 200", got.status)
	}

	other := newBench(t, benchOptions{})
	other.register("catalogo", "escritura-a")
	foreign := other.call("GET", service, "lectura-a", "", "If-None-Match: "+tag)
	if foreign.status != 200 || tagOf(foreign.header.Get("ETag")) == tagOf(tag) {
		t.Errorf("GET from another database = %d, ETag %q, want 200 and another one than %q", foreign.status, foreign.header.Get("ETag"), tag)
	}
	if got := other.call("PUT", service, "escritura-a", other.service("x"), "If-Match: "+tag); got.verdict() != "412 etiqueta-vencida" {
		t.Errorf("PUT in another database = %s, want 412 etiqueta-vencida", got.verdict())
	}
}

func TestVersionOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, tt := range []struct{ limit, want string }{
		{"2000", "2"}, {"1500", "1.5"}, {"100", "0.1"}, {"10000", "10"}, {"1001", "1.001"}, {"9999", "9.999"}, {"110", "0.11"}, {"1000", "1"},
	} {
		url := "http://" + b.lab + "/codigo/200?a=1&b=2"
		service := b.registered("escritura-a", `{"nombre":"l`+tt.limit+`","url":"`+url+`","limite_ms":`+tt.limit+`}`)
		id := strings.TrimPrefix(service, "/servicios/")
		want := `{"id":` + id + `,"nombre":"l` + tt.limit + `","direccion":"` + url + `","limite":` + tt.want + `}`
		if got := b.call("GET", "/v1"+service, "lectura-a", ""); got.body != want+"\n" || got.header.Get("ETag") != "" {
			t.Errorf("GET /v1%s = %s, ETag %q, want %s without a tag", service, got.body, got.header.Get("ETag"), want)
		}
		if got := b.call("GET", "/v1/servicios", "lectura-a", ""); !strings.HasSuffix(got.body, want+"]}\n") {
			t.Errorf("GET /v1/servicios = %s, want it to end with %s", got.body, want)
		}
	}
	b.call("DELETE", b.register("baja", "escritura-a"), "escritura-a", "")
	deprecated := map[string]string{
		"Deprecation": "@1782864000", "Sunset": "Sun, 31 Jan 2027 00:00:00 GMT",
		"Link": `<https://revisor.example/docs/migrar-de-v1>; rel="deprecation"; type="text/html"`,
	}
	for _, tt := range []struct {
		method, path, as string
		status           int
	}{
		{"GET", "/v1/servicios", "lectura-a", 200},
		{"HEAD", "/v1/servicios", "lectura-a", 200},
		{"GET", "/v1/servicios/1", "lectura-a", 200},
		{"OPTIONS", "/v1/servicios", "", 204},
		{"GET", "/v1/servicios", "", 401},
		{"GET", "/v1/servicios/999", "lectura-a", 404},
		{"GET", "/v1/servicios/9", "lectura-a", 410},
		{"POST", "/v1/servicios", "escritura-a", 405},
		{"GET", "/v1/servicios/", "lectura-a", 404},
		{"GET", "/servicios/1", "lectura-a", 200},
	} {
		got := b.call(tt.method, tt.path, tt.as, "")
		if got.status != tt.status {
			t.Errorf("%s %s = %s, want %d", tt.method, tt.path, got.verdict(), tt.status)
		}
		for name, value := range deprecated {
			if tt.status != 200 || !strings.HasPrefix(tt.path, "/v1") {
				value = ""
			}
			if got.header.Get(name) != value {
				t.Errorf("%s %s = %d, %s %q, want %q", tt.method, tt.path, got.status, name, got.header.Get(name), value)
			}
		}
	}
}
