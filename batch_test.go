// batch_test.go owns what register --from does to a server and tells of it: through lost
// answers, killed in the middle, against a dead server, interrupted. Runs are synchronised
// on the requests that the server has seen.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// rowsFile writes a file of so many services, s-1 to s-n, and returns its name.
func rowsFile(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("nombre,url,limite_ms\n")
	for i := range n {
		fmt.Fprintf(&text, "s-%d,http://[2000::1]/,%d\n", i+1, 1000+i)
	}
	return fileWith(t, text.String())
}

func fileWith(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lote")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// readReport reads what --format json has written.
func readReport(t *testing.T, text string) batchReport {
	t.Helper()
	var rep batchReport
	if err := json.Unmarshal([]byte(text), &rep); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return rep
}

// expectOnce: the services s-1 to s-n are there, each once, with their limits, and no others.
func (b *bench) expectOnce(n int) {
	b.t.Helper()
	var list listJSON[serviceJSON]
	if err := json.Unmarshal([]byte(b.call("GET", "/servicios", "escritura-a", "").body), &list); err != nil {
		b.t.Fatal(err)
	}
	there := map[string]int64{}
	for _, s := range list.Services {
		there[s.Name] = s.LimitMS
	}
	if len(list.Services) != n || len(there) != n {
		b.t.Errorf("%d services, %d names, want %d", len(list.Services), len(there), n)
	}
	for i := range n {
		if name := fmt.Sprintf("s-%d", i+1); there[name] != int64(1000+i) {
			b.t.Errorf("limit of %s = %d, want %d", name, there[name], 1000+i)
		}
	}
}

// TestBatchThroughLosses: the gateway loses the first answer of every row, and every
// service is there once. Run again, all of them are known; under another name they are
// other intentions.
func TestBatchThroughLosses(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	gateway := "http://" + serveGateway(t, b.url, gatewayConfig{simulate: true})
	const n = 32
	file := rowsFile(t, n)
	register := func(batch string) (batchReport, error) {
		stdout, stderr, err := ran(t, nil, "register", "--from", file, "--batch", batch, "--concurrency=8", "--base", gateway, "--format=json")
		if stderr != "" {
			t.Errorf("standard error = %q, want nothing: it is no terminal", stderr)
		}
		return readReport(t, stdout), err
	}
	first, err := register("altas")
	if want := (batchTotals{Rows: n, Registered: n, Attempts: 2 * n}); err != nil || !first.Complete || first.Totals != want {
		t.Errorf("first run = %v, %+v, want %+v", err, first.Totals, want)
	}
	b.expectOnce(n)
	second, err := register("altas")
	if want := (batchTotals{Rows: n, Known: n, Attempts: n}); err != nil || !second.Complete || second.Totals != want {
		t.Errorf("second run = %v, %+v, want %+v", err, second.Totals, want)
	}
	for i, row := range second.Rows {
		if was := first.Rows[i]; row.Location != was.Location || row.Key != was.Key || !row.Recorded || row.Line != i+2 {
			t.Errorf("row %+v, want the first run's %s, %s", row, was.Location, was.Key)
		}
	}
	b.expectOnce(n)
	other, err := register("otras")
	if !errors.Is(err, errTold) || other.Complete || other.Totals.Unconfirmed != n {
		t.Errorf("under another name = %v, %+v, want exit status 1 and %d rows unconfirmed: the lost answer may have been a success", err, other.Totals, n)
	}
	b.expectOnce(n)
}

// TestBatchOutcomes: each row is told for itself, with its line, and equal rows are sent
// once. JSON lines are the same intentions as CSV.
func TestBatchOutcomes(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	seen := &arrivals{next: &through{to: b.url}}
	base := "http://" + serveHandler(t, seen)
	csv := fileWith(t, "nombre,url,limite_ms\n\nuno,http://[2000::1]/,\nuno,http://[2000::1]/,\nuno,http://[2000::1]/,2000\ndos,http://10.0.0.1/,50\ntres,http://[2000::1]/,\nuno,http://[2000::1]/,\n")
	stdout, _, err := ran(t, nil, "register", "--from", csv, "--batch", "mi lote", "--base", base, "--concurrency=1")
	want := []string{
		"LÍNEA  NOMBRE  RESULTADO               INTENTOS  UBICACIÓN     MOTIVO",
		"3      uno     registrado              1         /servicios/1  –",
		"4      uno     repetida de la línea 3  0         –             –",
		"5      uno     rechazado               1         –             409 nombre-repetido: tu equipo ya tiene un servicio con ese nombre",
		"6      dos     rechazado               1         –             422 datos-invalidos: limite_ms: tiene que ser un número entero de 100 a 10000",
		"7      tres    registrado              1         /servicios/2  –",
		"8      uno     repetida de la línea 3  0         –             –",
		"",
		"filas: 6; registradas: 2 (0 ya lo estaban); rechazadas: 2; sin confirmar: 0; sin enviar: 0; repetidas: 2; intentos: 4",
	}
	if !errors.Is(err, errTold) || !strings.HasPrefix(stdout, strings.Join(want, "\n")+"\n") {
		t.Errorf("run = %v,\n%s\nwant\n%s", err, stdout, strings.Join(want, "\n"))
	}
	if again := "revisor register --from=" + csv + " --batch='mi lote' --base=" + base + " --concurrency=1\n"; !strings.HasSuffix(stdout, again) {
		t.Errorf("the end is %q, want %q", stdout, again)
	}
	if len(seen.texts) != 4 {
		t.Errorf("%d requests, want 4", len(seen.texts))
	}
	lines := fileWith(t, `{"url":"http://[2000::1]/","nombre":"uno"}`+"\n"+`{"nombre":"tres","url":"http://[2000::1]/","limite_ms":null}`)
	stdout, _, err = ran(t, nil, "register", "--from", lines, "--batch", "mi lote", "--base", base, "--format=json")
	if rep := readReport(t, stdout); err != nil || !rep.Complete || rep.Totals.Known != 2 || rep.Totals.Attempts != 2 {
		t.Errorf("the same rows as JSON lines = %v, %+v, want both known", err, rep)
	}
}

// TestBatchSaysHowToGoOn: the command at the end does the same again wherever it is
// pasted: to the same server, in the same way, and in nobody else's name.
func TestBatchSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	_, base := serveScript(t, "422")
	file := fileWith(t, "nombre,url\na,http://x/\n")
	tests := []struct {
		name string
		env  environment
		args []string
		want string // after the file
	}{
		{"all flags", nil, []string{"--batch=b", "--base", base, "--simulate=", "--attempts", "2", "--attempt-timeout=1500ms", "--concurrency=1", "--token=secreto"},
			" --batch=b --base=" + base + " --simulate='' --attempts=2 --attempt-timeout=1.5s --concurrency=1 --token=…"},
		{"a flag that was repeated", nil, []string{"--batch=a", "--base=http://x", "--base", base, "--batch=it's"}, ` --batch='it'\''s' --base=` + base},
		{"variables", environment{"REVISOR_BASE": base, "REVISOR_BATCH": "b", "ALTA_LIMITE_MS": "900", "REVISOR_TOKEN": "secreto"}, nil,
			` --batch=b --base=` + base + ` --attempt-timeout=900ms --token="$REVISOR_TOKEN"`},
		{"a flag against a variable", environment{"REVISOR_TOKEN": "secreto", "REVISOR_BASE": "http://x"}, []string{"--token=t", "--base=" + base, "--batch=b"},
			" --token=… --base=" + base + " --batch=b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := ran(t, tt.env, append([]string{"register", "--from", file}, tt.args...)...)
			if want := ": revisor register --from=" + file + tt.want + "\n"; !errors.Is(err, errTold) || !strings.HasSuffix(stdout, want) {
				t.Errorf("run = %v, %q, want its end %q", err, stdout, want)
			}
			if strings.Contains(stdout+stderr, "secreto") {
				t.Errorf("the credential is shown: %q, %q", stdout, stderr)
			}
		})
	}
	if _, _, err := ran(t, nil, "register", "--from", file, "--batch=b", "--base", base, "--token=…"); exitStatus(err) != 2 {
		t.Errorf("pasted as it is = %v, want exit status 2", err)
	}
}

// TestBatchOfAStranger: any 2xx is a success, and a portal's page is one; but nothing
// proves that it knows keys, and that is said.
func TestBatchOfAStranger(t *testing.T) {
	t.Parallel()
	base := "http://" + serveHandler(t, portal(""))
	stdout, _, err := ran(t, nil, "register", "--from", rowsFile(t, 3), "--batch", "b", "--base", base, "--format=json")
	rep := readReport(t, stdout)
	if want := (batchTotals{Rows: 3, Registered: 3, Attempts: 3, Unproven: 3}); err != nil || !rep.Complete || rep.Totals != want {
		t.Errorf("run = %v, %+v, want success and %+v", err, rep.Totals, want)
	}
	for _, row := range rep.Rows {
		if !row.Unproven {
			t.Errorf("row %+v, want it without proof of the key", row)
		}
	}
}

// TestBatchSendsWhatTheRowSays, and nothing that it does not say.
func TestBatchSendsWhatTheRowSays(t *testing.T) {
	t.Parallel()
	seen, base := serveScript(t, "201")
	file := fileWith(t, "nombre,url,limite_ms\n\"á \"\"<&>\",http://x/,\nb,http://y/,0150\n")
	if _, _, err := ran(t, nil, "register", "--from", file, "--batch", "b", "--base", base, "--concurrency=1", "--token", "t"); err != nil {
		t.Errorf("run = %v, want success", err)
	}
	want := []string{`POST /servicios {"nombre":"á \"<&>","url":"http://x/"}` + "\n", `POST /servicios {"nombre":"b","url":"http://y/","limite_ms":150}` + "\n"}
	if fmt.Sprint(seen.texts) != fmt.Sprint(want) {
		t.Errorf("requests = %q, want %q", seen.texts, want)
	}
	for i, row := range []serviceRow{{name: `á "<&>`, url: "http://x/"}, {name: "b", url: "http://y/", limitMS: limit(150)}} {
		head := seen.heads[i]
		if got := head.Get("Idempotency-Key"); got != row.key("b") || head.Get("Authorization") != "Bearer t" || head.Get("X-Simular") != loseFirst {
			t.Errorf("request %d: key, credential and fault = %s, %s, %s", i+1, got, head.Get("Authorization"), head.Get("X-Simular"))
		}
	}
}

// TestBadFileSendsNothing: every bad row is told, and no good one is sent.
func TestBadFileSendsNothing(t *testing.T) {
	t.Parallel()
	seen, base := serveScript(t, "201")
	file := fileWith(t, "nombre,url,limite_ms\na,http://x/,\nb,http://x/,mucho\n\xff,http://x/,\n")
	stdout, stderr, err := ran(t, nil, "register", "--from", file, "--batch", "b", "--base", base)
	want := "línea 3: «limite_ms» no es un número entero\nlínea 4: no es UTF-8 válido\nfilas que no se entienden: 2; no se envió nada\n"
	if exitStatus(err) != 2 || !errors.Is(err, errTold) || stdout != "" || stderr != want {
		t.Errorf("run = %v (exit status %d), %q, %q, want 2, nothing, %q", err, exitStatus(err), stdout, stderr, want)
	}
	if len(seen.texts) != 0 {
		t.Errorf("%d requests, want none", len(seen.texts))
	}
}

// through passes requests on and answers back. From the request number holdFrom on it
// keeps the answer to itself until the client has gone: the work is done, nobody hears.
type through struct {
	to       string
	holdFrom int64         // 0: never
	reached  chan struct{} // one token for each answer that is held
	seen     atomic.Int64
}

func (p *through) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req, err := http.NewRequest(r.Method, p.to+r.RequestURI, strings.NewReader(string(body)))
	if err != nil {
		panic(err)
	}
	req.Header, req.GetBody = r.Header.Clone(), nil
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	if n := p.seen.Add(1); p.holdFrom != 0 && n >= p.holdFrom {
		p.reached <- struct{}{}
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}

// arrived waits until so many answers are held.
func (p *through) arrived(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-p.reached:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d requests came, want %d more than %d", p.seen.Load(), n, p.holdFrom)
		}
	}
}

// TestKilledBatch: a run is killed when some rows are registered, some registered and not
// told, and some not sent; the same command, run again, finds every one of them once.
func TestKilledBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const n, concurrency, told = 40, 4, 9
	file := rowsFile(t, n)
	args := func(base string) []string {
		return []string{"register", "--from", file, "--batch", "altas", "--base", base, "--concurrency=4", "--attempt-timeout=20s", "--format=json"}
	}
	held := &through{to: b.url, holdFrom: told + 1, reached: make(chan struct{}, n)}
	first := spawn(t, args("http://"+serveHandler(t, held))...)
	held.arrived(t, concurrency)
	first.kill()
	if got := first.stdout.String(); got != "" {
		t.Fatalf("the killed run said %q, want nothing yet", got)
	}

	code, stdout, stderr := command(t, args(b.url)...)
	rep := readReport(t, stdout)
	if want := (batchTotals{Rows: n, Registered: n - told - concurrency, Known: told + concurrency, Attempts: n}); code != 0 || stderr != "" || !rep.Complete || rep.Totals != want {
		t.Errorf("second run = %d, %+v, %q, want 0, %+v", code, rep.Totals, stderr, want)
	}
	b.expectOnce(n)
}

// TestBatchInterrupted: a signal stops the sending, and what is known is told.
func TestBatchInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const n, concurrency, told = 20, 3, 5
	held := &through{to: b.url, holdFrom: told + 1, reached: make(chan struct{}, n)}
	args := []string{"register", "--from", rowsFile(t, n), "--batch", "altas", "--concurrency=3", "--attempt-timeout=20s", "--format=json"}
	first := spawn(t, append(args, "--base", "http://"+serveHandler(t, held))...)
	held.arrived(t, concurrency)
	first.signal(syscall.SIGINT)
	code := first.finish()
	rep := readReport(t, first.stdout.String())
	want := batchTotals{Rows: n, Registered: told, Unconfirmed: concurrency, Unsent: n - told - concurrency, Attempts: told + concurrency}
	if code != 1 || rep.Complete || rep.Stopped != stoppedByPerson || rep.Totals != want {
		t.Errorf("interrupted run = %d, %q, %+v, want 1, %q, %+v", code, rep.Stopped, rep.Totals, stoppedByPerson, want)
	}
	if held.seen.Load() != told+concurrency {
		t.Errorf("%d requests, want %d", held.seen.Load(), told+concurrency)
	}
	stdout, _, err := ran(t, nil, append(args, "--base", b.url)...)
	if rep := readReport(t, stdout); err != nil || rep.Totals.Known != told+concurrency || !rep.Complete {
		t.Errorf("run again = %v, %+v, want all registered", err, rep.Totals)
	}
	b.expectOnce(n)
}

// TestDeadServerIsLeftAlone: the requests that a run makes of a server that attends to
// nobody are bounded by its budget, whatever the file's size, and it says so. A server
// that refuses every row is not dead.
func TestDeadServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	const n, concurrency, tokens = 200, 4, 16
	tests := []struct {
		name     string
		script   string
		attempts int
		dead     bool
	}{
		{"busy", "503", 4, true},
		{"busy, asks for no wait", "503:0", 4, true},
		{"busy, asks for a long wait", "503:60", 4, true},
		{"busy, tried once each", "503", 1, true},
		{"busy, tried very often", "503", 100, true},
		{"broken", "500", 4, true},
		{"asks to go away", "429", 4, true},
		{"sends elsewhere", "307", 4, true},
		{"never done with it", "409:en-curso", 4, true},
		{"refuses all", "422", 4, false},
		{"knows nobody", "401", 4, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen, base := serveScript(t, tt.script)
			rep := runBatch(t, base, n, concurrency, tt.attempts)
			if len(seen.texts) != rep.Totals.Attempts {
				t.Errorf("%d requests arrived, %d attempts were told", len(seen.texts), rep.Totals.Attempts)
			}
			if !tt.dead {
				if want := (batchTotals{Rows: n, Refused: n, Attempts: n}); rep.Stopped != "" || rep.Totals != want {
					t.Errorf("stopped = %q, %+v, want %+v", rep.Stopped, rep.Totals, want)
				}
				return
			}
			if got := rep.Totals.Attempts; got < tokens || got > tokens+concurrency-1 {
				t.Errorf("%d requests, want from %d to %d", got, tokens, tokens+concurrency-1)
			}
			if rep.Stopped != stoppedByBudget || rep.Totals.Unsent == 0 || rep.Totals.Unsent+rep.Totals.Unconfirmed != n {
				t.Errorf("stopped = %q, %+v, want %q and rows not sent", rep.Stopped, rep.Totals, stoppedByBudget)
			}
		})
	}
}

// TestNobodyListens: the budget ends a run against a closed port too, where there is no
// server to be hammered, but no use in going on either.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	const n, concurrency, tokens = 200, 4, 16
	rep := runBatch(t, closedPort(t), n, concurrency, 4)
	if got := rep.Totals.Attempts; got < tokens || got > tokens+concurrency-1 {
		t.Errorf("%d attempts, want from %d to %d", got, tokens, tokens+concurrency-1)
	}
	if rep.Complete || rep.Stopped != stoppedByBudget || rep.Totals.Unconfirmed == 0 || rep.Totals.Unsent+rep.Totals.Unconfirmed != n {
		t.Errorf("stopped = %q, %+v, want %q, and every row unconfirmed or not sent", rep.Stopped, rep.Totals, stoppedByBudget)
	}
	for _, row := range rep.Rows {
		if row.Outcome == rowUnconfirmed && !strings.Contains(row.Why, "ECONNREFUSED") {
			t.Errorf("line %d: %q, want it to say ECONNREFUSED", row.Line, row.Why)
		}
	}
}

// TestServerThatComesBack: a failure now and then does not stop a run that gets answers.
func TestServerThatComesBack(t *testing.T) {
	t.Parallel()
	const n = 200
	var requests atomic.Int64
	base := "http://" + serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%3 != 0 { // two of three: far more failures than tokens
			w.WriteHeader(503)
			return
		}
		w.WriteHeader(201)
	}))
	rep := runBatch(t, base, n, 1, 4)
	if want := (batchTotals{Rows: n, Registered: n, Attempts: 3 * n, Unproven: n}); !rep.Complete || rep.Totals != want {
		t.Errorf("stopped = %q, %+v, want %+v", rep.Stopped, rep.Totals, want)
	}
}

// runBatch sends n rows, without waiting between attempts.
func runBatch(t *testing.T, base string, n, concurrency, attempts int) batchReport {
	t.Helper()
	like := newRegistration(t, base, &registerRun{})
	like.attempts = attempts
	like.wait = func(context.Context, time.Duration) error { return nil }
	b := &batch{name: "b", concurrency: concurrency, registrar: like.registrar, terminal: io.Discard}
	for i := range n {
		b.rows = append(b.rows, serviceRow{line: i + 1, name: fmt.Sprint("s-", i), url: "http://x/"})
	}
	b.run(t.Context())
	return newBatchReport(b.name, b.stopped, b.results)
}

// TestBatchFromStandardInput: "-" reads it, and waiting for it can be interrupted.
func TestBatchFromStandardInput(t *testing.T) {
	t.Parallel()
	seen, base := serveScript(t, "201")
	run := func(ctx context.Context, stdin io.Reader) (string, error) {
		var out strings.Builder
		p := &process{ctx: ctx, getenv: environment{}.getenv, stdin: stdin, stdout: &out, stderr: io.Discard, now: time.Now, random: func() float64 { return 0 }}
		command, err := parseCommandLine([]string{"register", "--from=-", "--batch=b", "--base=" + base}, p)
		if err != nil {
			t.Fatal(err)
		}
		err = command(p)
		return out.String(), err
	}
	out, err := run(t.Context(), strings.NewReader("nombre,url\na,http://x/\n"))
	if err != nil || len(seen.texts) != 1 || !strings.HasSuffix(out, "todas las filas están registradas\n") {
		t.Errorf("run = %v, %q after %d requests, want success after one", err, out, len(seen.texts))
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent, typing := io.Pipe()
	defer typing.Close()
	go func() {
		io.WriteString(typing, "nombre,url\nb,http://x/\n") // returns when it was read
		cancel()
	}()
	if _, err := run(ctx, silent); exitStatus(err) != 1 || !strings.Contains(err.Error(), "no se envió nada") || len(seen.texts) != 1 {
		t.Errorf("interrupted = %v after %d requests, want exit status 1 and nothing sent", err, len(seen.texts))
	}
}

// TestTooLargeAFile is refused before it fills the memory.
func TestTooLargeAFile(t *testing.T) {
	t.Parallel()
	p := &process{ctx: t.Context(), stdin: strings.NewReader(strings.Repeat("x", 2<<20))}
	if text, err := p.readFile("-", 1<<20); err == nil || !strings.Contains(err.Error(), "1 MiB") {
		t.Errorf("readFile of 2 MiB = %d bytes, %v, want an error with the limit, 1 MiB", len(text), err)
	}
	p.stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	if text, err := p.readFile("-", 1<<20); err != nil || len(text) != 1<<20 {
		t.Errorf("readFile of 1 MiB = %d bytes, %v, want all", len(text), err)
	}
}
