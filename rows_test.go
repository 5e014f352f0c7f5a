// rows_test.go owns what a batch's file may look like, what is told of a bad one, and that
// a row's key is its own for ever.

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// spellRows writes what was read, one row a line: line, name, url and limit.
func spellRows(rows []serviceRow) (spelled []string) {
	for _, r := range rows {
		limit := "-"
		if r.limitMS != nil {
			limit = fmt.Sprint(*r.limitMS)
		}
		spelled = append(spelled, fmt.Sprintf("%d %q %q %s", r.line, r.name, r.url, limit))
	}
	return spelled
}

func TestReadRows(t *testing.T) {
	t.Parallel()
	const head = "nombre,url,limite_ms\n"
	const headerFault = "1 el archivo tiene que empezar con la cabecera nombre,url,limite_ms (CSV) o con un objeto JSON por línea"
	longest := strings.Repeat("x", maxRow-len("a1500"))
	tests := []struct {
		name string
		text string
		want []string
		bad  []string // line and reason
	}{
		{"CSV", head + "a,http://x/,1500\nb,http://y/,\n", []string{`2 "a" "http://x/" 1500`, `3 "b" "http://y/" -`}, nil},
		{"without limits", "nombre,url\na,x\n", []string{`2 "a" "x" -`}, nil},
		{"without one limit", head + "a,x\n", []string{`2 "a" "x" -`}, nil},
		{"no line end at the end", head + "a,x,1", []string{`2 "a" "x" 1`}, nil},
		{"CRLF, a byte order mark, blank lines", "\uFEFFnombre,url\r\n\r\na,x\r\n\r\n\r\nb,y\r\n", []string{`3 "a" "x" -`, `6 "b" "y" -`}, nil},
		{"quotes", "\"nombre\",\"url\"\n\"a, \"\"b\"\"\",\"x\"\n\"dos\nlíneas\",y\nc,z\n", []string{`2 "a, \"b\"" "x" -`, `3 "dos\nlíneas" "y" -`, `5 "c" "z" -`}, nil},
		{"white space is part of it", head + " a ,x\t,\n", []string{`2 " a " "x\t" -`}, nil},
		{"odd characters", head + "a\x00\x1b[31m\u202e,x,\n", []string{`2 "a\x00\x1b[31m\u202e" "x" -`}, nil},
		{"limits that the server judges", head + "a,x,-1\nb,x,+007\n", []string{`2 "a" "x" -1`, `3 "b" "x" 7`}, nil},
		{"the longest row", head + "a," + longest + ",1500\n", []string{fmt.Sprintf(`2 "a" %q 1500`, longest)}, nil},

		{"nothing", "", nil, nil},
		{"only a byte order mark", "\uFEFF", nil, nil},
		{"only a header", head, nil, nil},
		{"no header", "a,x,1\n", nil, []string{headerFault}},
		{"another header", "nombre;url;limite_ms\na;x;1\n", nil, []string{headerFault}},
		{"columns in another order", "url,nombre\nx,a\n", nil, []string{headerFault}},
		{"a header that is no CSV", "nom\"bre,url\n", nil, []string{headerFault}},
		{"UTF-16", "\xff\xfen\x00o\x00m\x00", nil, []string{"1 no es UTF-8 válido"}},
		{"columns", head + "a\na,x,1,\nb,x,1\n", []string{`4 "b" "x" 1`}, []string{"2 tiene 1 columnas y la cabecera 3", "3 tiene 4 columnas y la cabecera 3"}},
		{"a column too many for this header", "nombre,url\na,x,1\n", nil, []string{"2 tiene 3 columnas y la cabecera 2"}},
		{"not UTF-8", head + "a,x,1\n\xff,x,1\nb,\xc3,1\n", []string{`2 "a" "x" 1`}, []string{"3 no es UTF-8 válido", "4 no es UTF-8 válido"}},
		{"numbers that are none", head + "a,x,1.5\nb,x,1e3\nc,x, 1\nd,x,99999999999999999999\n", nil, []string{
			"2 «limite_ms» no es un número entero", "3 «limite_ms» no es un número entero", "4 «limite_ms» no es un número entero", "5 «limite_ms» no es un número entero"}},
		{"what is missing", head + ",x,1\na,,1\n,,z\n", nil, []string{"2 falta «nombre»", "3 falta «url»", "4 falta «nombre»; falta «url»; «limite_ms» no es un número entero"}},
		{"quotes in the middle, and rows after it", head + "a\"b,x\n\"a\"b,x\nc,x\n", []string{`4 "c" "x" -`}, []string{
			"2 lleva comillas dentro de un campo sin comillas", "3 lleva unas comillas que no se cierran, o con algo detrás"}},
		{"quotes that are never closed", head + "c,x\n\"a,x\nb,x\n", []string{`2 "c" "x" -`}, []string{"3 lleva unas comillas que no se cierran, o con algo detrás"}},
		{"too long", head + "a,x" + longest + ",1500\n", nil, []string{"2 tiene más de 16384 bytes"}},

		{"JSON lines", `{"nombre":"a","url":"x","limite_ms":1500}` + "\n" + `{"url":"y","nombre":"b"}`, []string{`1 "a" "x" 1500`, `2 "b" "y" -`}, nil},
		{"CRLF, a byte order mark, blank lines, white space", "\uFEFF\r\n {\"nombre\":\"a\",\t\"url\":\"x\"} \r\n\r\n{\"nombre\":\"b\",\"url\":\"x\"}\r\n", []string{`2 "a" "x" -`, `4 "b" "x" -`}, nil},
		{"escapes, numbers in other words, a limit of null", `{"nombre":"\u00e9\n","url":"x","limite_ms":1.5e3}` + "\n" + `{"nombre":"a","url":"x","limite_ms":null}`, []string{`1 "é\n" "x" 1500`, `2 "a" "x" -`}, nil},
		{"members", `{"nombre":"a","url":"x","limite":1}` + "\n" + `{"nombre":"a","Url":"x"}` + "\n{}", nil, []string{
			"1 «limite» no es un miembro conocido", "2 falta «url»; «Url» no es un miembro conocido", "3 falta «nombre»; falta «url»"}},
		{"kinds", `{"nombre":1,"url":null,"limite_ms":"1500"}` + "\n" + `{"nombre":"a","url":"x","limite_ms":1.5}`, nil, []string{
			"1 «nombre» no es un texto; «url» no es un texto; «limite_ms» no es un número entero", "2 «limite_ms» no es un número entero"}},
		{"not JSON, and rows after it", `{"nombre":"a"` + "\n" + `{"nombre":"a","nombre":"b"}` + "\n[1]\n\x00\n\xff\n" + `{"nombre":"a","url":"x"}x` + "\n" + `{"nombre":"c","url":"x"}`,
			[]string{`7 "c" "x" -`}, []string{"1 está incompleto", "2 repite el miembro «nombre»", "3 tiene que ser un objeto JSON y es una lista",
				"4 no es JSON válido en el byte 1", "5 no es UTF-8 válido", "6 sobra algo después del objeto JSON"}},
		{"a harmless name of a member", `{"\u001b[2J` + strings.Repeat("x", 100) + `":1,"nombre":"a","url":"x"}`, nil, []string{
			"1 «\uFFFD[2J" + strings.Repeat("x", 36) + "…» no es un miembro conocido"}},
		{"too long a line", `{"nombre":"a","url":"x"}` + "\n" + `{"nombre":"` + longest + longest, []string{`1 "a" "x" -`}, []string{"2 tiene más de 16384 bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rows, bad := readRows([]byte(tt.text))
			if got := spellRows(rows); !slices.Equal(got, tt.want) {
				t.Errorf("rows = %q, want %q", got, tt.want)
			}
			var told []string
			for _, b := range bad {
				told = append(told, fmt.Sprint(b.line, " ", b.why))
			}
			if !slices.Equal(told, tt.bad) {
				t.Errorf("bad = %q, want %q", told, tt.bad)
			}
		})
	}
}

// limit is a limit that is given.
func limit(ms int64) *int64 { return &ms }

// TestRowKey: if this key changes, every batch that was ever sent can be sent twice.
func TestRowKey(t *testing.T) {
	t.Parallel()
	row := serviceRow{line: 2, name: "agenda", url: "http://127.0.0.1:18081/codigo/200", limitMS: limit(1500)}
	const want = "c0e33d0c-3189-50e4-a333-95dccec66dd2"
	if got := row.key("altas"); got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
	moved := row
	moved.line, moved.limitMS = 9, limit(1500)
	if got := moved.key("altas"); got != want {
		t.Errorf("the same row elsewhere: key = %s, want %s", got, want)
	}
}

// TestRowKeysDiffer: rows that differ in anything, or only in where one part ends, have
// different keys.
func TestRowKeysDiffer(t *testing.T) {
	t.Parallel()
	type entry struct {
		batch string
		row   serviceRow
	}
	entries := []entry{
		{"b", serviceRow{name: "n", url: "u"}},
		{"b", serviceRow{name: "n", url: "u", limitMS: limit(0)}},
		{"b", serviceRow{name: "n", url: "u", limitMS: limit(2000)}}, // the server's default, written out
		{"b", serviceRow{name: "n", url: "u", limitMS: limit(-2000)}},
		{"b", serviceRow{name: "n", url: "u2000"}},
		{"b", serviceRow{name: "nu", url: ""}},
		{"b", serviceRow{name: "", url: "nu"}},
		{"bn", serviceRow{name: "", url: "u"}},
		{"", serviceRow{name: "bn", url: "u"}},
		{"B", serviceRow{name: "n", url: "u"}},
		{"b", serviceRow{name: "N", url: "u"}},
		{"b", serviceRow{name: "n\x00", url: "u"}},
		{"b", serviceRow{name: "n", url: "\x00u"}},
		{"b", serviceRow{name: "é", url: "u"}},
		{"b", serviceRow{name: "e\u0301", url: "u"}},
	}
	seen := map[string]entry{}
	for _, e := range entries {
		key := e.row.key(e.batch)
		if other, ok := seen[key]; ok {
			t.Errorf("%+v and %+v have the same key", e, other)
		}
		seen[key] = e
		if err := validateKey(key); err != nil {
			t.Errorf("key of %+v: %v", e, err)
		}
	}
}

// FuzzReadRows: whatever the bytes, every row is whole and its text UTF-8, lines go
// forward, and what was read is read again from JSON lines as the same intentions.
func FuzzReadRows(f *testing.F) {
	for _, seed := range []string{
		"nombre,url,limite_ms\na,x,1\n\"b\n\",y,\n", "\uFEFFnombre,url\r\n\r\na,x\n\"", "{\"nombre\":\"a\",\"url\":\"x\",\"limite_ms\":1e2}\n{}\n\xff", "\xff\xfe",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, bad := readRows(text)
		last := 0
		var again strings.Builder
		for _, r := range rows {
			if r.name == "" || r.url == "" || !utf8.ValidString(r.name+r.url) || r.line <= last {
				t.Fatalf("row = %+v after line %d, want a whole one further on", r, last)
			}
			last = r.line
			line, err := encodeJSON(map[string]any{"nombre": r.name, "url": r.url, "limite_ms": r.limitMS})
			if err != nil {
				t.Fatal(err)
			}
			if len(line) > maxRow { // escapes take room
				return
			}
			again.Write(line)
		}
		for _, b := range bad {
			if b.line < 1 || b.why == "" || strings.Contains(b.why, "\n") {
				t.Fatalf("bad = %+v, want a line and a reason", b)
			}
		}
		read, worse := readRows([]byte(again.String()))
		if len(worse) > 0 || len(read) != len(rows) {
			t.Fatalf("again: %d rows, %v, want %d rows", len(read), worse, len(rows))
		}
		for i := range rows {
			if read[i].key("b") != rows[i].key("b") {
				t.Fatalf("again: %+v, want %+v", read[i], rows[i])
			}
		}
	})
}
