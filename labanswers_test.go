// labanswers_test.go owns what the bench answers when it is asked for waits, ways round
// and sequences.

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// waitValues are the lines of each form, for two seconds after 22:26:31.
var waitValues = []struct {
	form string
	want []string
}{
	{"segundos", []string{"2"}},
	{"cero", []string{"0"}},
	{"ceros", []string{"002"}},
	{"margen", []string{" \t 2 \t "}},
	{"fecha", []string{"Wed, 21 Oct 2026 22:26:33 GMT"}},
	{"rfc850", []string{"Wednesday, 21-Oct-26 22:26:33 GMT"}},
	{"asctime", []string{"Wed Oct 21 22:26:33 2026"}},
	{"pasada", []string{"Wed, 21 Oct 2026 21:26:31 GMT"}},
	{"intercalar", []string{"Wed, 21 Oct 2026 23:59:60 GMT"}},
	{"negativo", []string{"-2"}},
	{"signo", []string{"+2"}},
	{"fraccion", []string{"2.5"}},
	{"exponente", []string{"2e0"}},
	{"hexadecimal", []string{"0x2"}},
	{"unidad", []string{"2s"}},
	{"espacios", []string{"2 2"}},
	{"lista", []string{"2, 2"}},
	{"dos-lineas", []string{"2", "2"}},
	{"vacio", []string{""}},
	{"palabra", []string{"pronto"}},
	{"enorme", []string{"99999999999999999999"}},
	{"anchas", []string{"２"}},
	{"dia-imposible", []string{"Wed, 32 Oct 2026 22:26:33 GMT"}},
	{"hora-imposible", []string{"Wed, 21 Oct 2026 25:00:00 GMT"}},
	{"dia-equivocado", []string{"Thu, 21 Oct 2026 22:26:33 GMT"}},
	{"sin-dia", []string{"21 Oct 2026 22:26:33 GMT"}},
	{"minusculas", []string{"wed, 21 oct 2026 22:26:33 gmt"}},
	{"decimales", []string{"Wed, 21 Oct 2026 22:26:33.000 GMT"}},
	{"zona", []string{"Wed, 21 Oct 2026 22:26:33 +0000"}},
	{"utc", []string{"Wed, 21 Oct 2026 22:26:33 UTC"}},
	{"iso", []string{"2026-10-21T22:26:33Z"}},
}

func TestWaitForms(t *testing.T) {
	t.Parallel()
	if len(waitValues) != len(retryForms) {
		t.Errorf("%d forms have a row, want all %d", len(waitValues), len(retryForms))
	}
	b := startOddBench(t, labTestLimits)
	for i, tt := range waitValues {
		if retryForms[i].name != tt.form {
			t.Fatalf("row %d is of %s, want %s", i, tt.form, retryForms[i].name)
		}
		target := "/espera/" + tt.form
		want := oddDate + "Content-Length: " + fmt.Sprint(len("503 Service Unavailable\nGET \n")+len(target)) + "\r\n"
		var trimmed []string
		for _, value := range tt.want {
			want += "Retry-After: " + value + "\r\n"
			trimmed = append(trimmed, trimOWS(value))
		}
		want = "HTTP/1.1 503 Service Unavailable\r\n" + want + oddTail + "503 Service Unavailable\nGET " + target + "\n"
		if got := benchRaw(t, b.Server, benchRequest("GET", target)); got != want {
			t.Errorf("GET %s = %q, want %q", target, got, want)
		}
		// What the table says of a form is what our own reader makes of it.
		if _, valid := parseRetryAfter(trimmed, newFakeClock().Now()); valid != retryForms[i].valid {
			t.Errorf("parseRetryAfter(%q) = _, %t, want what is told of %s, %t", trimmed, valid, tt.form, retryForms[i].valid)
		}
	}
}

func TestLabOddQuestions(t *testing.T) {
	t.Parallel()
	b := startOddBench(t, labTestLimits)
	wordy := strings.Repeat("503,", 250) + "201"
	tests := []struct {
		name, method, target, want string
		header                     map[string]string
	}{
		{"a wait of seconds", "GET", "/espera/segundos?segundos=7", "503 Service Unavailable", map[string]string{"Retry-After": "7"}},
		{"a wait as a date", "GET", "/espera/fecha?segundos=3600", "503 Service Unavailable", map[string]string{"Retry-After": "Wed, 21 Oct 2026 23:26:31 GMT"}},
		{"too many requests", "GET", "/espera/segundos?codigo=429", "429 Too Many Requests", map[string]string{"Retry-After": "2"}},
		{"HEAD of a wait", "HEAD", "/espera/fraccion", "503 Service Unavailable", map[string]string{"Retry-After": "2.5"}},
		{"another status", "GET", "/espera/segundos?codigo=500", "400 Bad Request", map[string]string{"Retry-After": ""}},
		{"no number of seconds", "GET", "/espera/segundos?segundos=1.5", "400 Bad Request", nil},
		{"more than a day", "GET", "/espera/segundos?segundos=86401", "400 Bad Request", nil},
		{"an unknown form", "POST", "/espera/nunca", "404 Not Found", nil},
		{"POST to a wait", "POST", "/espera/segundos", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD"}},

		{"to itself", "GET", "/bucle/mismo", "302 Found", map[string]string{"Location": "/bucle/mismo"}},
		{"there", "GET", "/bucle/ida", "302 Found", map[string]string{"Location": "/bucle/vuelta"}},
		{"and back", "HEAD", "/bucle/vuelta", "302 Found", map[string]string{"Location": "/bucle/ida"}},
		{"with a status that stays", "GET", "/bucle/ida?codigo=308", "308 Permanent Redirect", map[string]string{"Location": "/bucle/vuelta?codigo=308"}},
		{"with no redirect's status", "GET", "/bucle/ida?codigo=304", "400 Bad Request", map[string]string{"Location": ""}},
		{"nowhere", "GET", "/bucle/x", "404 Not Found", nil},
		{"POST round", "POST", "/bucle/ida", "405 Method Not Allowed", map[string]string{"Allow": "GET, HEAD"}},
		{"a chain", "GET", "/bucle/cadena/3", "302 Found", map[string]string{"Location": "/bucle/cadena/2"}},
		{"a chain's end", "GET", "/bucle/cadena/0", "200 OK", map[string]string{"Location": ""}},
		{"a chain too long", "GET", "/bucle/cadena/100000", "400 Bad Request", nil},
		{"a chain longer than numbers", "GET", "/bucle/cadena/99999999999999999999", "400 Bad Request", nil},
		{"no chain", "GET", "/bucle/cadena/x", "404 Not Found", nil},
		{"POST to a chain", "POST", "/bucle/cadena/0", "405 Method Not Allowed", nil},

		{"the seconds of a word", "PUT", "/secuencia/503:1.5?k=a", "503 Service Unavailable", map[string]string{"Retry-After": "1.5"}},
		{"no word, no wait", "GET", "/secuencia/503?k=b", "503 Service Unavailable", map[string]string{"Retry-After": ""}},
		{"what a status needs", "POST", "/secuencia/201?k=c", "201 Created", map[string]string{"Location": "/servicios/demo"}},
		{"a word with a comma", "GET", "/secuencia/" + url.PathEscape("503:Wed, 21 Oct 2026 22:26:33 GMT") + "?k=d", "503 Service Unavailable",
			map[string]string{"Retry-After": "Wed, 21 Oct 2026 22:26:33 GMT"}},
		{"no word", "GET", "/secuencia/", "400 Bad Request", nil},
		{"an empty word", "GET", "/secuencia/503,,201", "400 Bad Request", nil},
		{"an interim status", "GET", "/secuencia/100", "400 Bad Request", nil},
		{"a problem, which the bench never tells", "GET", "/secuencia/409:en-curso", "400 Bad Request", nil},
		{"a word with a line break", "GET", "/secuencia/503:1%0d%0aX:1", "400 Bad Request", map[string]string{"X": ""}},
		{"a list too long", "GET", "/secuencia/" + wordy, "400 Bad Request", nil},
		{"a name too long", "GET", "/secuencia/201?k=" + strings.Repeat("k", 201), "400 Bad Request", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			response, body := benchExchange(t, b.Server, tt.method, tt.target)
			if fmt.Sprint(response.StatusCode) != tt.want[:3] {
				t.Errorf("%s %s: status = %d, want that of %q", tt.method, tt.target, response.StatusCode, tt.want)
			}
			for name, want := range tt.header {
				if got := response.Header.Get(name); got != want {
					t.Errorf("%s %s: %s = %q, want %q", tt.method, tt.target, name, got, want)
				}
			}
			if tt.method == http.MethodHead {
				checkHead(t, b.Server, tt.target, response, body)
			} else if !strings.HasPrefix(body, tt.want+"\n"+tt.method+" ") || strings.Count(body, "\n") != 2 {
				t.Errorf("%s %s = %q, want two lines that begin with %q", tt.method, tt.target, body, tt.want)
			}
		})
	}
}

func TestSequenceOfAnswers(t *testing.T) {
	t.Parallel()
	b := startOddBench(t, labTestLimits)
	steps := []struct {
		method, target string
		want           int
	}{
		{"POST", "/secuencia/503:2,429,201?k=a", 503},
		{"POST", "/secuencia/503:2,429,201?k=b", 503}, // each name by itself
		{"GET", "/secuencia/503:2,429,201?k=a", 429},  // whatever the method
		{"POST", "/secuencia/503:2,429,201?k=a", 201},
		{"POST", "/secuencia/503:2,429,201?k=a", 201}, // the last one repeats
		{"POST", "/secuencia/503:2,429,201", 503},     // no name is a name
		{"POST", "/secuencia/503:2,429,201?k=", 429},
		{"DELETE", "/secuencia/503:2,429,201?k=a", 204},
		{"POST", "/secuencia/503:2,429,201?k=a", 503},
		{"POST", "/secuencia/503:2,429,201?k=b", 429}, // not forgotten with the other
		{"POST", "/secuencia/404,200?k=a", 404},       // another list begins anew
		{"POST", "/secuencia/404,200?k=a", 200},
	}
	for i, step := range steps {
		if response, _ := benchExchange(t, b.Server, step.method, step.target); response.StatusCode != step.want {
			t.Errorf("step %d: %s %s = %d, want %d", i+1, step.method, step.target, response.StatusCode, step.want)
		}
	}
	conn := benchDial(t, b.Server)
	fmt.Fprint(conn, "GET /secuencia/mudo?k=m HTTP/1.1\r\nHost: banco\r\n\r\n")
	waitCounted(t, b.Server, "/secuencia/mudo")
	b.stop()
	if got, how := readToEnd(t, conn); got != "" || how != "FIN" {
		t.Errorf("answer of a mute bench = %q, %s, want nothing until the stop", got, how)
	}
}

// TestSequenceAtOnce: of any number of requests at the same time, each gets a place of
// its own.
func TestSequenceAtOnce(t *testing.T) {
	t.Parallel()
	s := newSequences()
	var mu sync.Mutex
	var asking sync.WaitGroup
	places := map[int]int{}
	for range 100 {
		asking.Go(func() {
			place := s.next("a", "503,201")
			mu.Lock()
			defer mu.Unlock()
			places[place]++
		})
	}
	asking.Wait()
	for place := range 100 {
		if places[place] != 1 {
			t.Errorf("place %d was taken %d times, want once", place, places[place])
		}
	}
}

func TestSequenceMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := newSequences()
	for i := range 2 * sequenceNames {
		s.next(fmt.Sprint(i), "201")
	}
	if len(s.names) != sequenceNames || len(s.order) != sequenceNames {
		t.Errorf("%d names, %d in order are remembered, want %d", len(s.names), len(s.order), sequenceNames)
	}
	if got := s.next(fmt.Sprint(2*sequenceNames-1), "201"); got != 1 {
		t.Errorf("place of the newest name = %d, want 1", got)
	}
	if got := s.next("0", "201"); got != 0 {
		t.Errorf("place of the oldest name = %d, want 0: forgotten", got)
	}
	for i := range 2 * sequenceNames {
		s.forget(fmt.Sprint(i))
	}
	if len(s.names) != 0 || len(s.order) != 0 {
		t.Errorf("%d names, %d in order after all were forgotten, want none", len(s.names), len(s.order))
	}
}
