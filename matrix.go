// matrix.go owns how an experiment is told: as tables for a person, as JSON or as CSV. It
// must not know how the experiment is made.

package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// definition says what a column counts.
type definition struct {
	column  string // of the tables
	Name    string `json:"nombre"`
	Meaning string `json:"significado"`
}

// matrixDefinitions are the columns that are easily taken for each other.
var matrixDefinitions = []definition{
	{"POST", "post", "los POST que llegaron al origen; ni la preparación ni el juez cuentan"},
	{"GET", "get", "lo mismo de los GET"},
	{"EFECTOS", "efectos_confirmados", "revisiones nuevas que constan en los registros del origen, lo sepa el cliente o no"},
	{"INTENTOS", "intentos", "los POST que envió el cliente"},
	{"FALLOS VISTOS", "fallos_vistos", "peticiones que dejaron al cliente sin saber qué pasó: sin respuesta entera, o con un 5xx"},
	{"SIN RESOLVER", "operaciones_sin_resolver", "operaciones de las que el cliente no sabe al final si se hicieron"},
}

// matrixJSON is a whole experiment on the wire.
type matrixJSON struct {
	Action      string       `json:"accion"`
	Definitions []definition `json:"definiciones"`
	AsExpected  bool         `json:"conforme"`
	Cases       []caseJSON   `json:"casos"`
}

// caseJSON is one case on the wire.
type caseJSON struct {
	ID          string       `json:"caso"`
	Action      string       `json:"tras_la_perdida"`
	Posts       int          `json:"post"`
	Gets        int          `json:"get"`
	Effects     int          `json:"efectos_confirmados"`
	Result      clientResult `json:"resultado"`
	Last        string       `json:"respuesta"`
	Attempts    int          `json:"intentos"`
	Failures    int          `json:"fallos_vistos"`
	Unresolved  int          `json:"operaciones_sin_resolver"`
	Differences []string     `json:"diferencias"`
	Events      []eventJSON  `json:"sucesos"`
}

// eventJSON is one event on the wire. Its time is from the beginning of the case, in
// microseconds.
type eventJSON struct {
	Order   int       `json:"orden"`
	Request int       `json:"peticion"`
	What    happening `json:"suceso"`
	AtUS    int64     `json:"us"`
}

func wireCase(r caseReport) caseJSON {
	c := caseJSON{
		ID: r.id, Action: r.action, Posts: r.got.posts, Gets: r.got.gets, Effects: r.got.effects, Result: r.got.result,
		Last: r.last, Attempts: r.attempts, Failures: r.failures, Unresolved: r.unresolved,
		Differences: append([]string{}, r.differences()...), Events: []eventJSON{},
	}
	for i, e := range r.order {
		c.Events = append(c.Events, eventJSON{i + 1, e.request, e.what, e.at.Microseconds()})
	}
	return c
}

// writeMatrix tells an experiment in a format: table, json or csv.
func writeMatrix(out io.Writer, format string, reports []caseReport) error {
	switch format {
	case "json":
		return writeMatrixJSON(out, reports)
	case "csv":
		return writeMatrixCSV(out, reports)
	}
	return writeMatrixTable(out, reports)
}

func writeMatrixJSON(out io.Writer, reports []caseReport) error {
	whole := matrixJSON{
		Action: "POST " + experimentPath, Definitions: matrixDefinitions,
		AsExpected: judgeMatrix(reports) == nil, Cases: []caseJSON{},
	}
	for _, r := range reports {
		whole.Cases = append(whole.Cases, wireCase(r))
	}
	return writeJSON(out, whole)
}

// writeMatrixCSV writes a line per case. Its events are in one field, separated by spaces,
// each as order:request:what:microseconds.
func writeMatrixCSV(out io.Writer, reports []caseReport) error {
	w := csv.NewWriter(out)
	w.Write([]string{"caso", "tras_la_perdida", "post", "get", "efectos_confirmados", "resultado", "respuesta",
		"intentos", "fallos_vistos", "operaciones_sin_resolver", "diferencias", "sucesos"})
	for _, r := range reports {
		c := wireCase(r)
		events := make([]string, len(c.Events))
		for i, e := range c.Events {
			events[i] = fmt.Sprintf("%d:%d:%s:%d", e.Order, e.Request, e.What, e.AtUS)
		}
		w.Write([]string{c.ID, c.Action, strconv.Itoa(c.Posts), strconv.Itoa(c.Gets), strconv.Itoa(c.Effects), string(c.Result), c.Last,
			strconv.Itoa(c.Attempts), strconv.Itoa(c.Failures), strconv.Itoa(c.Unresolved),
			strings.Join(c.Differences, "; "), strings.Join(events, " ")})
	}
	w.Flush()
	return w.Error()
}

// inWords is a result as a person reads it.
func (r caseReport) inWords() string {
	switch r.got.result {
	case gotSecondEffect:
		return "éxito, un segundo efecto"
	case gotRecorded:
		return "éxito, la respuesta guardada"
	case gotRefused:
		return "422, rechazada"
	case gotExisting:
		return "200, encontró la existente"
	}
	return "otra cosa: " + r.last
}

// inWords is a happening as a person reads it.
func (h happening) inWords() string {
	switch h {
	case clientSends:
		return "el cliente la envía"
	case originApplied:
		return "aplicada: el efecto consta en los registros del origen"
	case originAnswered:
		return "el origen la ha respondido"
	case gatewayHasAll:
		return "la pasarela ha recibido entera la respuesta"
	case gatewayDrops:
		return "la pasarela descarta la respuesta"
	case clientFails:
		return "el cliente ve un fallo"
	case clientLearns:
		return "el cliente tiene una respuesta"
	}
	return string(h)
}

func writeMatrixTable(out io.Writer, reports []caseReport) error {
	var text strings.Builder
	fmt.Fprintf(&text, "POST %s: el origen la aplica, y su respuesta se pierde.\n", experimentPath)
	fmt.Fprint(&text, "¿Y después? Cada caso, en servidores propios recién arrancados.\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TRAS PERDER LA RESPUESTA\tPOST\tGET\tEFECTOS\tRESULTADO DEL CLIENTE")
	for _, r := range reports {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", r.action, r.got.posts, r.got.gets, r.got.effects, r.inWords())
	}
	fmt.Fprintln(table)
	table.Flush()
	fmt.Fprintln(table, "TRAS PERDER LA RESPUESTA\tINTENTOS\tFALLOS VISTOS\tEFECTOS\tSIN RESOLVER")
	for _, r := range reports {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", r.action, r.attempts, r.failures, r.got.effects, r.unresolved)
	}
	table.Flush()
	fmt.Fprintln(&text)
	for _, d := range matrixDefinitions {
		fmt.Fprintf(&text, "  %s: %s.\n", d.column, d.Meaning)
	}
	fmt.Fprint(&text, "\nEl orden de los sucesos, con los milisegundos desde el comienzo del caso:\n")
	for _, r := range reports {
		fmt.Fprintf(&text, "\n%s\n", r.action)
		for i, e := range r.order {
			fmt.Fprintf(&text, "  %2d  %8s  petición %d: %s\n", i+1, milliseconds(e.at), e.request, e.what.inWords())
		}
	}
	right := 0
	for _, r := range reports {
		if len(r.differences()) == 0 {
			right++
		}
	}
	fmt.Fprintf(&text, "\n%d de %d casos como se esperaba.\n", right, len(reports))
	_, err := io.WriteString(out, text.String())
	return err
}

// milliseconds is a time with two decimals.
func milliseconds(d time.Duration) string {
	return strings.Replace(strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 2, 64), ".", ",", 1)
}
