// outcome_test.go owns how an end becomes a row's outcome, and how a batch's end is told
// to a person and to a program.

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// toldProblem is a problem as a client gets it; members are JSON with a comma before.
func toldProblem(status int, typ, members string) answer {
	return answer{status: status, header: http.Header{"Content-Type": {"application/problem+json"}}, body: []byte(`{"type":"` + typ + `"` + members + `}`)}
}

func TestRowOutcome(t *testing.T) {
	t.Parallel()
	created := func(replayed string) answer {
		return answer{status: 201, header: http.Header{"Location": {"/servicios/7"}, "Idempotency-Replayed": {replayed}}}
	}
	const exhausted = "se acabaron los intentos (4)"
	faults := toldProblem(422, problemBase+"datos-invalidos", `,"detail":"mal","errors":[{"detail":"falta","pointer":"#/url"},{"detail":"sobra","pointer":"#/x"}]`)
	taken := toldProblem(409, problemBase+"nombre-repetido", `,"detail":"ya tienes uno"`)
	tests := []struct {
		name string
		end  ending
		want rowResult
	}{
		{"registered", ending{cause: endedWell, attempts: 1, got: created("false")}, rowResult{Outcome: rowRegistered, Location: "/servicios/7", Attempts: 1}},
		{"registered before", ending{cause: endedWell, attempts: 1, got: created("true")}, rowResult{Outcome: rowKnown, Location: "/servicios/7", Attempts: 1, Recorded: true}},
		{"registered by a lost attempt", ending{cause: endedWell, attempts: 2, got: created("true"), uncertain: true}, rowResult{Outcome: rowRegistered, Location: "/servicios/7", Attempts: 2, Recorded: true}},
		{"another's success: nobody says that the key was understood", ending{cause: endedWell, attempts: 1, got: answer{status: 200, body: []byte("<html>")}}, rowResult{Outcome: rowRegistered, Attempts: 1, Unproven: true}},
		{"refused, with faults", ending{cause: endedFinal, attempts: 1, got: faults}, rowResult{Outcome: rowRefused, Attempts: 1, Why: "422 datos-invalidos: url: falta; x: sobra"}},
		{"refused for what it says, after a lost answer", ending{cause: endedFinal, attempts: 2, got: faults, uncertain: true}, rowResult{Outcome: rowRefused, Attempts: 2, Why: "422 datos-invalidos: url: falta; x: sobra"}},
		{"refused for how things stand", ending{cause: endedFinal, attempts: 1, got: taken}, rowResult{Outcome: rowRefused, Attempts: 1, Why: "409 nombre-repetido: ya tienes uno"}},
		{"refused for how things stand, after a lost answer: it may be its own doing", ending{cause: endedFinal, attempts: 2, got: taken, uncertain: true},
			rowResult{Outcome: rowUnconfirmed, Attempts: 2, Why: "409 nombre-repetido: ya tienes uno; antes hubo un intento sin respuesta"}},
		{"another request's key, after a lost answer", ending{cause: endedFinal, attempts: 2, got: toldProblem(422, problemBase+"llave-reutilizada", `,"detail":"otra"`), uncertain: true},
			rowResult{Outcome: rowUnconfirmed, Attempts: 2, Why: "422 llave-reutilizada: otra; antes hubo un intento sin respuesta"}},
		{"a 500", ending{cause: endedFinal, attempts: 1, got: toldProblem(500, problemBase+"error-interno", `,"detail":"mal"`), uncertain: true}, rowResult{Outcome: rowUnconfirmed, Attempts: 1, Why: "500 error-interno: mal"}},
		{"a 429", ending{cause: endedFinal, attempts: 1, got: answer{status: 429}}, rowResult{Outcome: rowUnconfirmed, Attempts: 1, Why: "429 (sin cuerpo)"}},
		{"busy to the end", ending{cause: endedSpent, attempts: 4, got: toldProblem(502, "about:blank", `,"detail":"nadie"`), uncertain: true},
			rowResult{Outcome: rowUnconfirmed, Attempts: 4, Why: exhausted + "; lo último: 502 Bad Gateway: nadie"}},
		{"nobody to the end", ending{cause: endedSpent, attempts: 4, err: syscall.ECONNREFUSED, uncertain: true},
			rowResult{Outcome: rowUnconfirmed, Attempts: 4, Why: exhausted + "; lo último: sin respuesta: ECONNREFUSED, nadie escucha en esa dirección"}},
		{"too slow to the end", ending{cause: endedSpent, attempts: 4, err: context.DeadlineExceeded, uncertain: true},
			rowResult{Outcome: rowUnconfirmed, Attempts: 4, Why: exhausted + "; lo último: sin respuesta completa en 2 s"}},
		{"cut to the end", ending{cause: endedSpent, attempts: 4, got: answer{status: 201}, err: io.ErrUnexpectedEOF, uncertain: true},
			rowResult{Outcome: rowUnconfirmed, Attempts: 4, Why: exhausted + "; lo último: llegó un 201 sin terminar: la conexión se cortó"}},
		{"interrupted", ending{cause: endedInterrupted, attempts: 1, err: context.Canceled, uncertain: true}, rowResult{Outcome: rowUnconfirmed, Attempts: 1, Why: "interrumpido"}},
		{"a stranger's text", ending{cause: endedFinal, attempts: 1, got: toldProblem(422, problemBase+`a\u001b[2J`, `,"detail":"uno\r\ndos`+strings.Repeat("x", 300)+`"`)},
			rowResult{Outcome: rowRefused, Attempts: 1, Why: `422 a\x1b[2J: uno\r\ndos` + strings.Repeat("x", shownReason-len("422 a?[2J: uno??dos")) + "…"}},
		{"a problem of another shape", ending{cause: endedFinal, attempts: 1, got: toldProblem(422, "about:blank", `,"detail":7`)}, rowResult{Outcome: rowRefused, Attempts: 1, Why: `422 {"type":"about:blank","detail":7}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got rowResult
			got.end(tt.end, 2*time.Second)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// oneOfEach has a row of every outcome.
func oneOfEach() []rowResult {
	return []rowResult{
		{Line: 2, Name: "a", Outcome: rowRegistered, Location: "/servicios/7", Attempts: 1, Key: "k1"},
		{Line: 3, Name: "b\x1b[2J" + strings.Repeat("x", 100), Outcome: rowRegistered, Location: "/servicios/8", Attempts: 2, Recorded: true, Key: "k2"},
		{Line: 4, Name: "c", Outcome: rowKnown, Location: "/servicios/9", Attempts: 1, Recorded: true, Key: "k3"},
		{Line: 5, Name: "a", Outcome: rowRepeated, Of: 2, Key: "k1"},
		{Line: 6, Name: "d", Outcome: rowRefused, Attempts: 1, Why: "422 datos-invalidos: mal", Key: "k4"},
		{Line: 7, Name: "e", Outcome: rowUnconfirmed, Attempts: 4, Why: "se acabaron los intentos (4)", Key: "k5"},
		{Line: 9, Name: "f", Outcome: rowUnsent, Key: "k6"},
		{Line: 10, Name: "g", Outcome: rowRegistered, Attempts: 1, Unproven: true, Key: "k7"},
	}
}

func TestBatchTable(t *testing.T) {
	t.Parallel()
	const again = "repetir el lote entero es seguro, ninguna fila se registra dos veces mientras el servidor recuerde las llaves: revisor register …"
	const refused = "de las filas rechazadas el servidor no guardó nada; una fila corregida es otra intención, con otra llave"
	const unconfirmed = "de las filas sin confirmar no se sabe si quedaron registradas: hay que repetirlas tal cual antes de cambiarlas"
	const unproven = "filas registradas sin prueba de la llave: 1; llegó un 2xx sin Idempotency-Replayed, y nada prueba que quien contestó entienda la llave"
	all := oneOfEach()
	tests := []struct {
		name    string
		stopped stop
		rows    []rowResult
		want    []string // the end, after the table
	}{
		{"all registered", "", all[:4], []string{
			"filas: 4; registradas: 3 (1 ya lo estaban); rechazadas: 0; sin confirmar: 0; sin enviar: 0; repetidas: 1; intentos: 4", "todas las filas están registradas"}},
		{"stopped when all was done", stoppedByPerson, all[:1], []string{
			"filas: 1; registradas: 1 (0 ya lo estaban); rechazadas: 0; sin confirmar: 0; sin enviar: 0; repetidas: 0; intentos: 1", "todas las filas están registradas"}},
		{"all kinds whose keys are understood", stoppedByBudget, all[:7], []string{
			"filas: 7; registradas: 3 (1 ya lo estaban); rechazadas: 1; sin confirmar: 1; sin enviar: 1; repetidas: 1; intentos: 9",
			"el presupuesto de reintentos se agotó: fallan demasiados intentos, y a un servidor que no atiende no se le insiste", refused, unconfirmed, again}},
		{"registered, for all that is known", "", all[7:], []string{
			"filas: 1; registradas: 1 (0 ya lo estaban); rechazadas: 0; sin confirmar: 0; sin enviar: 0; repetidas: 0; intentos: 1", unproven, "todas las filas están registradas"}},
		{"nobody knows whether it is safe again", "", []rowResult{all[7], all[5]}, []string{
			"filas: 2; registradas: 1 (0 ya lo estaban); rechazadas: 0; sin confirmar: 1; sin enviar: 0; repetidas: 0; intentos: 5", unproven, unconfirmed,
			"repetir el lote entero solo es seguro si el servidor entiende las llaves, y mientras las recuerde: revisor register …"}},
		{"refused", "", all[4:5], []string{
			"filas: 1; registradas: 0 (0 ya lo estaban); rechazadas: 1; sin confirmar: 0; sin enviar: 0; repetidas: 0; intentos: 1", refused, again}},
		{"interrupted", stoppedByPerson, all[6:7], []string{
			"filas: 1; registradas: 0 (0 ya lo estaban); rechazadas: 0; sin confirmar: 0; sin enviar: 1; repetidas: 0; intentos: 0", "interrumpido: no se envía nada más", again}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := newBatchReport("altas", tt.stopped, tt.rows).printTable(&out, "revisor register …"); err != nil {
				t.Fatal(err)
			}
			table, end, _ := strings.Cut(out.String(), "\n\n")
			if diff := cmp.Diff(strings.Join(tt.want, "\n")+"\n", end); diff != "" {
				t.Errorf("the end differs (-want +got):\n%s", diff)
			}
			if got := strings.Count(table, "\n"); got != len(tt.rows) {
				t.Errorf("%d rows in the table, want %d:\n%s", got, len(tt.rows), table)
			}
		})
	}
	var out strings.Builder
	if err := newBatchReport("altas", "", all).printTable(&out, ""); err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(out.String(), "\n\n")
	want := `
LÍNEA  NOMBRE                                        RESULTADO                            INTENTOS  UBICACIÓN     MOTIVO
2      a                                             registrado                           1         /servicios/7  –
3      b\x1b[2Jxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…  registrado (respuesta guardada)      2         /servicios/8  –
4      c                                             ya estaba registrado                 1         /servicios/9  –
5      a                                             repetida de la línea 2               0         –             –
6      d                                             rechazado                            1         –             422 datos-invalidos: mal
7      e                                             sin confirmar                        4         –             se acabaron los intentos (4)
9      f                                             sin enviar                           0         –             –
10     g                                             registrado (sin prueba de la llave)  1         –             –`
	if diff := cmp.Diff(want, "\n"+table); diff != "" {
		t.Errorf("table differs (-want +got):\n%s", diff)
	}
}

// TestBatchJSON: the names are what programs rely on.
func TestBatchJSON(t *testing.T) {
	t.Parallel()
	all := oneOfEach()
	var out strings.Builder
	if err := newBatchReport("altas", stoppedByPerson, append(all[:1:1], all[3:5]...)).printJSON(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"lote":"altas","completo":false,"detenido":"interrumpido","totales":{"filas":3,"registrado":1,"ya_registrado":0,"rechazado":1,"sin_confirmar":0,"sin_enviar":0,"repetida":1,"sin_prueba":0,"intentos":2},"filas":[` +
		`{"linea":2,"nombre":"a","resultado":"registrado","ubicacion":"/servicios/7","intentos":1,"respuesta_guardada":false,"sin_prueba":false,"llave":"k1"},` +
		`{"linea":5,"nombre":"a","resultado":"repetida","repetida_de":2,"intentos":0,"respuesta_guardada":false,"sin_prueba":false,"llave":"k1"},` +
		`{"linea":6,"nombre":"d","resultado":"rechazado","intentos":1,"respuesta_guardada":false,"sin_prueba":false,"motivo":"422 datos-invalidos: mal","llave":"k4"}]}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	out.Reset()
	whole := newBatchReport("altas", "", all)
	if err := whole.printJSON(&out); err != nil {
		t.Fatal(err)
	}
	var read batchReport
	if err := json.Unmarshal([]byte(out.String()), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, read); diff != "" {
		t.Errorf("read again differs (-want +got):\n%s", diff)
	}
}
