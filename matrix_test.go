// matrix_test.go reads back what an experiment tells: JSON and CSV by a parser, the tables
// as a person does.

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inventedReports are two cases, one of them with a cell that is wrong, and a text that is
// awkward in CSV.
func inventedReports() []caseReport {
	cases := experimentCases()
	return []caseReport{
		{
			experimentCase: cases[2], got: cells{2, 0, 1, gotRecorded}, last: `202 {"a":"b, c"}`, attempts: 2, failures: 1,
			order: []event{{clientSends, 1, 250 * time.Microsecond}, {originApplied, 1, 1512 * time.Microsecond}},
		},
		{experimentCase: cases[5], got: cells{1, 1, 0, gotOther}, last: "404 operacion-inexistente", attempts: 1, failures: 1, unresolved: 1},
	}
}

func TestMatrixJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeMatrix(&out, "json", inventedReports()); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("Unmarshal(%s) = %v", out.String(), err)
	}
	definitions, _ := got["definiciones"].([]any)
	delete(got, "definiciones")
	want := map[string]any{
		"accion": "POST /servicios/1/revisiones", "conforme": false,
		"casos": []any{
			map[string]any{
				"caso": "misma-llave", "tras_la_perdida": "repetir, misma llave y entrada", "post": 2.0, "get": 0.0,
				"efectos_confirmados": 1.0, "resultado": "exito-respuesta-guardada", "respuesta": `202 {"a":"b, c"}`,
				"intentos": 2.0, "fallos_vistos": 1.0, "operaciones_sin_resolver": 0.0, "diferencias": []any{},
				"sucesos": []any{
					map[string]any{"orden": 1.0, "peticion": 1.0, "suceso": "enviada", "us": 250.0},
					map[string]any{"orden": 2.0, "peticion": 1.0, "suceso": "aplicada", "us": 1512.0},
				},
			},
			map[string]any{
				"caso": "preguntar", "tras_la_perdida": "preguntar, sin segundo POST", "post": 1.0, "get": 1.0,
				"efectos_confirmados": 0.0, "resultado": "otro", "respuesta": "404 operacion-inexistente",
				"intentos": 1.0, "fallos_vistos": 1.0, "operaciones_sin_resolver": 1.0,
				"diferencias": []any{"efectos_confirmados: 0, se esperaba 1", "resultado: otro, se esperaba 200-encontrada"},
				"sucesos":     []any{},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON differs (-want +got):\n%s", diff)
	}
	defined := map[any]bool{}
	for _, d := range definitions {
		defined[d.(map[string]any)["nombre"]] = true
	}
	for _, name := range []string{"post", "get", "intentos", "fallos_vistos", "efectos_confirmados", "operaciones_sin_resolver"} {
		if !defined[name] {
			t.Errorf("definiciones = %v, want one of %s", definitions, name)
		}
	}
}

func TestMatrixCSV(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeMatrix(&out, "csv", inventedReports()); err != nil {
		t.Fatal(err)
	}
	got, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"caso", "tras_la_perdida", "post", "get", "efectos_confirmados", "resultado", "respuesta",
			"intentos", "fallos_vistos", "operaciones_sin_resolver", "diferencias", "sucesos"},
		{"misma-llave", "repetir, misma llave y entrada", "2", "0", "1", "exito-respuesta-guardada", `202 {"a":"b, c"}`,
			"2", "1", "0", "", "1:1:enviada:250 2:1:aplicada:1512"},
		{"preguntar", "preguntar, sin segundo POST", "1", "1", "0", "otro", "404 operacion-inexistente",
			"1", "1", "1", "efectos_confirmados: 0, se esperaba 1; resultado: otro, se esperaba 200-encontrada", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CSV differs (-want +got):\n%s", diff)
	}
}

// TestMatrixTable, of the real thing: the rows of both tables, every definition, every
// event in words, and no line too long for a terminal.
func TestMatrixTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	reports := realReports(t)
	if err := writeMatrix(&out, "table", reports); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	spaces := regexp.MustCompile(` +`)
	for i, line := range lines {
		if width := len([]rune(line)); width > 80 && !strings.HasPrefix(line, "  ") { // a definition may be long
			t.Errorf("line %q has %d columns, want at most 80", line, width)
		}
		lines[i] = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	}
	for _, want := range []string{
		"repetir, sin contrato 2 0 2 éxito, un segundo efecto", "repetir, sin contrato 2 1 2 1",
		"repetir, llave que se ignora 2 0 2 éxito, un segundo efecto", "repetir, llave que se ignora 2 1 2 1",
		"repetir, misma llave y entrada 2 0 1 éxito, la respuesta guardada", "repetir, misma llave y entrada 2 1 1 0",
		"repetir, llave nueva 2 0 2 éxito, un segundo efecto", "repetir, llave nueva 2 1 2 1",
		"misma llave, otra entrada 2 0 1 422, rechazada", "misma llave, otra entrada 2 1 1 1",
		"preguntar, sin segundo POST 1 1 1 200, encontró la existente", "preguntar, sin segundo POST 1 1 1 0",
		"6 de 6 casos como se esperaba.",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("tables = %s, want the line %q", out.String(), want)
		}
	}
	for _, r := range reports {
		for i, e := range r.order {
			want := fmt.Sprintf("%d %s petición %d: %s", i+1, milliseconds(e.at), e.request, e.what.inWords())
			if !slices.Contains(lines, want) || e.what.inWords() == string(e.what) {
				t.Errorf("tables = %s, want the event %q", out.String(), want)
			}
		}
	}
	for _, d := range matrixDefinitions {
		if !slices.Contains(lines, d.column+": "+d.Meaning+".") {
			t.Errorf("tables = %s, want the definition of %s", out.String(), d.column)
		}
	}
}
