// experiment_test.go compares every cell of the matrix, on real servers, and holds the
// experiment to saying no when an origin is wrong, and to leaving nothing behind.

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// experimentOn is an experiment on real servers of this process.
func experimentOn(ctx context.Context, stderr *syncBuffer) (*experiment, *process) {
	p := &process{ctx: ctx, stderr: stderr, now: time.Now, random: func() float64 { return 0 }}
	return &experiment{open: p.openScene, newKey: uuid.NewString, now: p.now}, p
}

// tellTable lets the command make an experiment, and returns what it tells.
func tellTable(e *experiment, p *process) (string, error) {
	var out bytes.Buffer
	p.stdout = &out
	err := (&experimentCommand{Format: "table"}).tell(p, e)
	return out.String(), err
}

// realReports makes the experiment as the command does.
func realReports(t *testing.T) []caseReport {
	t.Helper()
	var stderr syncBuffer
	e, _ := experimentOn(t.Context(), &stderr)
	reports, err := e.run(t.Context())
	if err != nil || stderr.String() != "" {
		t.Fatalf("run() = %v, standard error %q, want nil, nothing", err, stderr.String())
	}
	return reports
}

// row is what a test compares of a case.
type row struct {
	id                             string
	posts, gets, effects           int
	result                         clientResult
	attempts, failures, unresolved int
	firstRequest, secondRequest    string // the order of events
}

func rowOf(r caseReport) row {
	order := map[int][]string{}
	for _, e := range r.order {
		order[e.request] = append(order[e.request], string(e.what))
	}
	return row{r.id, r.got.posts, r.got.gets, r.got.effects, r.got.result, r.attempts, r.failures, r.unresolved,
		strings.Join(order[1], " "), strings.Join(order[2], " ")}
}

// TestExperimentMatrix: every cell, what is kept apart, and the order of events.
func TestExperimentMatrix(t *testing.T) {
	t.Parallel()
	const (
		lost     = "enviada aplicada respondida recibida-entera descartada fallo-cliente"
		effect   = "enviada aplicada respondida respuesta-cliente"
		noEffect = "enviada respondida respuesta-cliente"
	)
	want := []row{
		{"sin-contrato", 2, 0, 2, "exito-segundo-efecto", 2, 1, 1, lost, effect},
		{"llave-ignorada", 2, 0, 2, "exito-segundo-efecto", 2, 1, 1, lost, effect},
		{"misma-llave", 2, 0, 1, "exito-respuesta-guardada", 2, 1, 0, lost, noEffect},
		{"llave-nueva", 2, 0, 2, "exito-segundo-efecto", 2, 1, 1, lost, effect},
		{"otra-entrada", 2, 0, 1, "422-rechazada", 2, 1, 1, lost, noEffect},
		{"preguntar", 1, 1, 1, "200-encontrada", 1, 1, 0, lost, noEffect},
	}
	var got []row
	for _, r := range realReports(t) {
		got = append(got, rowOf(r))
		if d := r.differences(); len(d) != 0 {
			t.Errorf("differences of %s = %q, want none", r.id, d)
		}
		if !slices.IsSortedFunc(r.order, func(a, b event) int { return int(a.at - b.at) }) || r.order[0].at < 0 {
			t.Errorf("order of %s = %v, want times that never go back", r.id, r.order)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("matrix differs (-want +got):\n%s", diff)
	}
}

// TestExperimentCommand: the matrix is as it must be, so the exit status is 0.
func TestExperimentCommand(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := ran(t, nil, "experiment")
	if err != nil || stderr != "" || !strings.HasSuffix(stdout, "\n6 de 6 casos como se esperaba.\n") {
		t.Errorf("run(experiment) = %v, %q, %q, want nil, the tables, nothing", err, stdout, stderr)
	}
	for _, header := range []string{
		"TRAS PERDER LA RESPUESTA POST GET EFECTOS RESULTADO DEL CLIENTE",
		"TRAS PERDER LA RESPUESTA INTENTOS FALLOS VISTOS EFECTOS SIN RESOLVER",
	} {
		if told := strings.Join(strings.Fields(stdout), " "); !strings.Contains(told, header) {
			t.Errorf("the tables are %q, want the header %q", told, header)
		}
	}
}

// TestExperimentFindsAWrongOrigin: whatever is wrong with an origin, the exit status is 1
// and the cell is named.
func TestExperimentFindsAWrongOrigin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		broken defect
		want   []string
	}{
		{"keys do nothing", ignoreKey, []string{
			"caso misma-llave, efectos_confirmados: 2, se esperaba 1",
			"caso misma-llave, resultado: exito-segundo-efecto, se esperaba exito-respuesta-guardada",
			"caso otra-entrada, efectos_confirmados: 2, se esperaba 1",
			"caso otra-entrada, resultado: exito-segundo-efecto, se esperaba 422-rechazada",
			"caso preguntar, resultado: otro, se esperaba 200-encontrada",
		}},
		{"a changed body is replayed", noFingerprint, []string{
			"caso llave-ignorada, efectos_confirmados: 1, se esperaba 2",
			"caso llave-ignorada, resultado: exito-respuesta-guardada, se esperaba exito-segundo-efecto",
			"caso otra-entrada, resultado: exito-respuesta-guardada, se esperaba 422-rechazada",
		}},
		{"its records cannot be read", report500, []string{"caso sin-contrato: GET /servicios/1/informe: 500 "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, p := experimentOn(t.Context(), &syncBuffer{})
			e.open = func(seen *observer, _ bool) (*scene, error) {
				return p.openSceneWith(seen, defects{tt.broken: true})
			}
			out, err := tellTable(e, p)
			if exitStatus(err) != 1 {
				t.Fatalf("tell() = %v, exit status %d, want 1", err, exitStatus(err))
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("tell() = %q, want it to say %q", err, want)
				}
			}
			if strings.Contains(out, "6 de 6") {
				t.Errorf("told %q, want not all as expected", out)
			}
		})
	}
}

// TestExperimentNeedsALoss: when the first answer comes through there is no matrix.
func TestExperimentNeedsALoss(t *testing.T) {
	t.Parallel()
	e, p := experimentOn(t.Context(), &syncBuffer{})
	e.open = func(seen *observer, ignoresKeys bool) (*scene, error) {
		s, err := p.openScene(seen, ignoresKeys)
		if err == nil {
			s.gateway = s.judge
		}
		return s, err
	}
	out, err := tellTable(e, p)
	if err == nil || !strings.Contains(err.Error(), "caso sin-contrato: la pasarela no perdió la primera respuesta: 202") || out != "" {
		t.Errorf("tell() = %v, %q, want that nothing was lost", err, out)
	}
}

// TestExperimentCountsTheClientAlone: what goes past the observer, the set-up's requests
// and the judge's, is in the origin's records but not in the counts.
func TestExperimentCountsTheClientAlone(t *testing.T) {
	t.Parallel()
	e, p := experimentOn(t.Context(), &syncBuffer{})
	var judge *conversation
	e.open = func(seen *observer, ignoresKeys bool) (*scene, error) {
		s, err := p.openScene(seen, ignoresKeys)
		if err != nil {
			return nil, err
		}
		judge = &conversation{experiment: e, ctx: t.Context(), servers: s, seen: seen, transport: newTransport()}
		setUp := judge.post("", experimentInput)
		setUp.base = s.judge
		if got, err := attempt(t.Context(), judge.transport, experimentPatience, observedBody, setUp); err != nil || got.status != http.StatusAccepted {
			t.Errorf("POST by the set-up = %s, %v, want 202", got.line(), err)
		}
		return s, nil
	}
	for _, c := range []experimentCase{experimentCases()[0], experimentCases()[5]} {
		r, err := e.runCase(t.Context(), c)
		if err != nil || r.got != c.want {
			t.Errorf("case %s = %+v, %v, want %+v: the set-up's effect and the judge's questions left out", c.id, r.got, err, c.want)
		}
	}
}

// TestClientResult: a result is named by what the answer is, not by its status alone.
func TestClientResult(t *testing.T) {
	t.Parallel()
	header := func(replayed, location string) http.Header {
		return http.Header{replayedHeader: {replayed}, "Location": {location}, "Content-Type": {"application/problem+json"}}
	}
	lost := answer{202, header("false", "/revisiones/1"), []byte("a")}
	state := func(estado, recurso string) []byte {
		return []byte(`{"estado":"` + estado + `","recurso":"` + recurso + `"}`)
	}
	tests := []struct {
		name   string
		method string
		got    answer
		grown  int
		want   clientResult
	}{
		{"another effect", "POST", answer{202, header("false", "/revisiones/2"), []byte("b")}, 1, gotSecondEffect},
		{"another answer without an effect", "POST", answer{202, header("false", "/revisiones/2"), []byte("b")}, 0, gotOther},
		{"an effect behind a replay", "POST", answer{202, header("true", "/revisiones/1"), []byte("a")}, 1, gotOther},
		{"the lost answer", "POST", answer{202, header("true", "/revisiones/1"), []byte("a")}, 0, gotRecorded},
		{"the lost answer, not said to be replayed", "POST", answer{202, header("false", "/revisiones/1"), []byte("a")}, 0, gotOther},
		{"another status", "POST", answer{201, header("true", "/revisiones/1"), []byte("a")}, 0, gotOther},
		{"another body", "POST", answer{202, header("true", "/revisiones/1"), []byte("b")}, 0, gotOther},
		{"another place", "POST", answer{202, header("true", "/revisiones/2"), []byte("a")}, 0, gotOther},
		{"refused", "POST", answer{422, header("", ""), []byte(`{"type":"` + problemBase + `llave-reutilizada"}`)}, 0, gotRefused},
		{"refused for something else", "POST", answer{422, header("", ""), []byte(`{"type":"` + problemBase + `datos-invalidos"}`)}, 0, gotOther},
		{"failed", "POST", answer{502, header("", ""), nil}, 0, gotOther},
		{"found", "GET", answer{200, header("", ""), state("terminada", "/revisiones/1")}, 0, gotExisting},
		{"found running", "GET", answer{200, header("", ""), state("en-curso", "")}, 0, gotOther},
		{"found another", "GET", answer{200, header("", ""), state("terminada", "/revisiones/2")}, 0, gotOther},
		{"not found", "GET", answer{404, header("", ""), nil}, 0, gotOther},
	}
	for _, tt := range tests {
		c := &conversation{seen: newObserver(time.Now)}
		c.seen.answers = []answer{lost}
		if got := c.resultOf(call{method: tt.method}, tt.got, nil, tt.grown); got != tt.want {
			t.Errorf("%s: resultOf(%d) = %s, want %s", tt.name, tt.got.status, got, tt.want)
		}
	}
}

// TestExperimentInterrupted: who breaks it off is told so, and its servers are gone.
func TestExperimentInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	e, p := experimentOn(ctx, &syncBuffer{})
	var opened *scene
	e.open = func(seen *observer, ignoresKeys bool) (*scene, error) {
		var err error
		opened, err = p.openScene(seen, ignoresKeys)
		cancel()
		return opened, err
	}
	if out, err := tellTable(e, p); err == nil || err.Error() != "interrumpido" || out != "" {
		t.Errorf("tell() = %v, %q, want interrumpido and nothing told", err, out)
	}
	for _, address := range []string{opened.gateway.Host, opened.judge.Host} {
		if conn, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial(%s) = %v, %v, want a refused connection", address, conn, err)
		}
	}
}

// TestExperimentLeavesNothing: no file is left, at its end and when a signal ends it.
func TestExperimentLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, interrupt := range []bool{false, true} {
		dir := t.TempDir()
		c := spawn(t, "experiment", "TMPDIR="+dir)
		if interrupt {
			eventually(t, "a case began", func() bool {
				select {
				case <-c.exited:
					return true
				default:
					return len(filesIn(t, dir)) > 0
				}
			})
			c.cmd.Process.Signal(syscall.SIGINT) // an error: it has ended by itself
		}
		code := c.finish()
		if !interrupt && code != 0 || interrupt && code != 0 && (code != 1 || c.stderr.String() != "revisor: interrumpido\n") {
			t.Errorf("interrupt %v: exit status %d, standard error %q, want 0, or 1 and that it was interrupted", interrupt, code, c.stderr)
		}
		if files := filesIn(t, dir); len(files) != 0 {
			t.Errorf("interrupt %v: files = %v, want none", interrupt, files)
		}
	}
}
