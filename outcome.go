// outcome.go owns what is known of a batch's rows when its run is over, and how that is
// told: a table for a person, one JSON object for a program. It must not know how rows
// are sent, nor to whom.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// shownName is how many characters of a name the table shows: as many as revisor's
	// own names can have.
	shownName = 40
	// shownReason is how many characters of a reason are shown.
	shownReason = 200
)

// rowOutcome is what became of a row, in its word on the wire.
type rowOutcome string

// The outcomes of a row. Where several fit, the first is meant.
const (
	rowRepeated    rowOutcome = "repetida"      // the same intention as an earlier row
	rowKnown       rowOutcome = "ya-registrado" // an earlier run's: the first attempt got the recorded answer
	rowRegistered  rowOutcome = "registrado"
	rowRefused     rowOutcome = "rechazado"     // and nothing was kept
	rowUnconfirmed rowOutcome = "sin-confirmar" // nobody knows yet
	rowUnsent      rowOutcome = "sin-enviar"
)

// stop is why a run ended before its rows did; "" when it did not.
type stop string

const (
	stoppedByPerson stop = "interrumpido"
	stoppedByBudget stop = "presupuesto-agotado"
)

// rowResult is what is known of a row.
type rowResult struct {
	Line     int        `json:"linea"`
	Name     string     `json:"nombre"`
	Outcome  rowOutcome `json:"resultado"`
	Of       int        `json:"repetida_de,omitempty"` // the line of the row that this one repeats
	Location string     `json:"ubicacion,omitempty"`   // printable
	Attempts int        `json:"intentos"`
	Recorded bool       `json:"respuesta_guardada"` // what came was the recorded answer
	Unproven bool       `json:"sin_prueba"`         // registered, and nothing proves that the key was understood
	Why      string     `json:"motivo,omitempty"`   // printable
	Key      string     `json:"llave"`
}

// end writes down how a row's attempts, of so much time each, came to an end.
func (r *rowResult) end(e ending, timeout time.Duration) {
	r.Attempts = e.attempts
	if e.cause == endedWell {
		r.Outcome, r.Recorded = rowRegistered, e.got.header.Get(replayedHeader) == "true"
		r.Unproven = !e.understood()
		r.Location = printable([]byte(e.got.header.Get("Location")), shownReason)
		if r.Recorded && e.attempts == 1 {
			r.Outcome = rowKnown
		}
		return
	}
	r.Outcome = rowUnconfirmed
	switch {
	case e.refused() && (!e.uncertain || refusesContent(e.got)):
		r.Outcome, r.Why = rowRefused, reasonIn(e.got)
	case e.refused():
		r.Why = reasonIn(e.got) + "; antes hubo un intento sin respuesta"
	case errors.Is(e.err, context.Canceled):
		r.Why = e.why()
	case e.err != nil:
		r.Why = e.why() + "; lo último: " + attemptLine(e.got, e.err, timeout)
	case mayRepeat(e.got):
		r.Why = e.why() + "; lo último: " + reasonIn(e.got)
	default:
		r.Why = reasonIn(e.got)
	}
}

// refusesContent tells whether an answer refuses what the request says, and not who asks
// or how things stand: equal bytes that were sent before, and whose answer was lost, were
// then refused too.
func refusesContent(got answer) bool {
	return (got.status == http.StatusBadRequest || got.status == http.StatusUnprocessableEntity) &&
		got.problemType() != problemBase+"llave-reutilizada"
}

// reasonIn finds in an answer why it is no success: of a problem (RFC 9457) its name, its
// detail and the faults that it lists; of anything else its beginning.
func reasonIn(got answer) string {
	typ := got.problemType()
	if typ == "" {
		return got.line()
	}
	var problem struct {
		Detail string `json:"detail"`
		Errors []struct {
			Detail  string `json:"detail"`
			Pointer string `json:"pointer"`
		} `json:"errors"`
	}
	if json.Unmarshal(got.body, &problem) != nil { // members of other kinds
		return got.line()
	}
	reason := problem.Detail
	for i, fault := range problem.Errors {
		if i == 0 {
			reason = ""
		} else {
			reason += "; "
		}
		reason += strings.TrimPrefix(fault.Pointer, "#/") + ": " + fault.Detail
	}
	slug, ours := strings.CutPrefix(typ, problemBase)
	if !ours {
		slug = http.StatusText(got.status)
	}
	return printable(fmt.Appendf(nil, "%d %s: %s", got.status, slug, reason), shownReason)
}

// batchReport is what is known when a run is over.
type batchReport struct {
	Batch    string      `json:"lote"`
	Complete bool        `json:"completo"` // every row is registered
	Stopped  stop        `json:"detenido,omitempty"`
	Totals   batchTotals `json:"totales"`
	Rows     []rowResult `json:"filas"`
}

// batchTotals counts rows by outcome, and all attempts.
type batchTotals struct {
	Rows        int `json:"filas"`
	Registered  int `json:"registrado"`
	Known       int `json:"ya_registrado"`
	Refused     int `json:"rechazado"`
	Unconfirmed int `json:"sin_confirmar"`
	Unsent      int `json:"sin_enviar"`
	Repeated    int `json:"repetida"`
	Unproven    int `json:"sin_prueba"` // of those registered
	Attempts    int `json:"intentos"`
}

// newBatchReport counts. A row that repeats another is registered when that one is.
func newBatchReport(batch string, stopped stop, rows []rowResult) batchReport {
	t := batchTotals{Rows: len(rows)}
	for _, row := range rows {
		t.Attempts += row.Attempts
		if row.Unproven {
			t.Unproven++
		}
		switch row.Outcome {
		case rowRegistered:
			t.Registered++
		case rowKnown:
			t.Known++
		case rowRefused:
			t.Refused++
		case rowUnconfirmed:
			t.Unconfirmed++
		case rowUnsent:
			t.Unsent++
		case rowRepeated:
			t.Repeated++
		}
	}
	complete := t.Refused+t.Unconfirmed+t.Unsent == 0
	if complete { // whatever happened at the end, nothing was left undone
		stopped = ""
	}
	return batchReport{batch, complete, stopped, t, rows}
}

// printJSON writes the report as one object.
func (rep batchReport) printJSON(out io.Writer) error {
	return writeJSON(out, rep)
}

// printTable writes the report for a person. again is how the same run is begun once more.
func (rep batchReport) printTable(out io.Writer, again string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LÍNEA\tNOMBRE\tRESULTADO\tINTENTOS\tUBICACIÓN\tMOTIVO")
	for _, row := range rep.Rows {
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%s\t%s\n",
			row.Line, printable([]byte(row.Name), shownName), row.spell(), row.Attempts, dash(row.Location), dash(row.Why))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	t := rep.Totals
	_, err := fmt.Fprintf(out, "\nfilas: %d; registradas: %d (%d ya lo estaban); rechazadas: %d; sin confirmar: %d; sin enviar: %d; repetidas: %d; intentos: %d\n%s\n",
		t.Rows, t.Registered+t.Known, t.Known, t.Refused, t.Unconfirmed, t.Unsent, t.Repeated, t.Attempts, rep.known(again))
	return err
}

// spell is a row's outcome as a person reads it.
func (r rowResult) spell() string {
	switch {
	case r.Outcome == rowRepeated:
		return fmt.Sprintf("repetida de la línea %d", r.Of)
	case r.Outcome == rowKnown:
		return "ya estaba registrado"
	case r.Recorded:
		return "registrado (respuesta guardada)"
	case r.Unproven:
		return "registrado (sin prueba de la llave)"
	}
	return strings.ReplaceAll(string(r.Outcome), "-", " ")
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// known tells in sentences why the run stopped, what is known and what to do now.
func (rep batchReport) known(again string) string {
	var known []string
	safe := "repetir el lote entero es seguro, ninguna fila se registra dos veces mientras el servidor recuerde las llaves: "
	if n := rep.Totals.Unproven; n > 0 {
		known = append(known, fmt.Sprintf("filas registradas sin prueba de la llave: %d; llegó un 2xx sin %s, y nada prueba que quien contestó entienda la llave", n, replayedHeader))
		safe = "repetir el lote entero solo es seguro si el servidor entiende las llaves, y mientras las recuerde: "
	}
	if rep.Complete {
		return strings.Join(append(known, "todas las filas están registradas"), "\n")
	}
	switch rep.Stopped {
	case stoppedByPerson:
		known = append(known, "interrumpido: no se envía nada más")
	case stoppedByBudget:
		known = append(known, "el presupuesto de reintentos se agotó: fallan demasiados intentos, y a un servidor que no atiende no se le insiste")
	}
	if rep.Totals.Refused > 0 {
		known = append(known, "de las filas rechazadas el servidor no guardó nada; una fila corregida es otra intención, con otra llave")
	}
	if rep.Totals.Unconfirmed > 0 {
		known = append(known, "de las filas sin confirmar no se sabe si quedaron registradas: hay que repetirlas tal cual antes de cambiarlas")
	}
	return strings.Join(append(known, safe+again), "\n")
}
