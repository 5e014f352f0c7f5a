// rows.go owns the file of a batch: many services, as CSV or as JSON lines, read whole,
// every bad row told with its line; and the key of a row. Pure: it must not know where
// the text comes from, nor what becomes of a row.

package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	// maxRowsFile bounds a file, which is held in memory: a hundred thousand rows.
	maxRowsFile = 16 << 20
	// maxRow bounds the text of one row, in bytes. A service takes some hundred; what
	// is longer is no row, but a quote that was not closed, or another file.
	maxRow = 16 << 10
	// rowSpace is the namespace of our keys (RFC 9562 section 5.5), drawn once for them.
	// Another one would make other keys, and every batch already sent could then be sent
	// twice.
	rowSpace = "4732096f-dfb4-493b-a297-65e2023be8f3"
)

// serviceRow is one service to be registered.
type serviceRow struct {
	line      int // where it begins in the file, the first being 1
	name, url string
	limitMS   *int64 // nil: left out, which is the server's to fill in
}

// badRow is a row that cannot be meant, and why.
type badRow struct {
	line int
	why  string // Spanish; may repeat the file's text
}

// key is the row's Idempotency-Key in a batch: a UUIDv5 of the batch's name and of all
// that the row says. The same row of the same batch has the same key whenever it is
// sent, and any other row or batch another one.
func (r serviceRow) key(batch string) string {
	limit := "" // no number is spelled so
	if r.limitMS != nil {
		limit = strconv.FormatInt(*r.limitMS, 10)
	}
	return uuid.NewSHA1(uuid.MustParse(rowSpace), appendFramed(nil, batch, r.name, r.url, limit)).String()
}

// readRows reads a file: JSON lines when it begins with a brace, CSV otherwise (a header
// of ours does not begin so). A byte order mark before it is passed over. Blank lines are
// no rows.
func readRows(text []byte) (rows []serviceRow, bad []badRow) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return readJSONLines(text)
	}
	return readCSV(text)
}

// readCSV reads RFC 4180 with a header. Its lines may end with LF alone.
func readCSV(text []byte) (rows []serviceRow, bad []badRow) {
	reader := csv.NewReader(bytes.NewReader(text))
	reader.FieldsPerRecord = -1 // we say it better
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if why := headerFault(header, err); why != "" {
		line := 1
		if err == nil {
			line, _ = reader.FieldPos(0)
		}
		return nil, []badRow{{line, why}}
	}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, bad
		}
		if broken, ok := errors.AsType[*csv.ParseError](err); ok {
			bad = append(bad, badRow{broken.StartLine, whyBroken(broken)})
			continue
		}
		line, _ := reader.FieldPos(0)
		row, why := csvRow(record, len(header))
		if why != "" {
			bad = append(bad, badRow{line, why})
			continue
		}
		row.line = line
		rows = append(rows, row)
	}
}

// headerFault tells what is wrong with the first line, "" when nothing is.
func headerFault(header []string, err error) string {
	switch {
	case err == nil && (slices.Equal(header, []string{"nombre", "url"}) || slices.Equal(header, []string{"nombre", "url", "limite_ms"})):
		return ""
	case !utf8.ValidString(strings.Join(header, ",")):
		return "no es UTF-8 válido"
	}
	return "el archivo tiene que empezar con la cabecera nombre,url,limite_ms (CSV) o con un objeto JSON por línea"
}

// whyBroken tells what is wrong with quotes.
func whyBroken(err *csv.ParseError) string {
	if errors.Is(err, csv.ErrBareQuote) {
		return "lleva comillas dentro de un campo sin comillas"
	}
	return "lleva unas comillas que no se cierran, o con algo detrás"
}

// csvRow judges the fields of one row. The last column may be left out.
func csvRow(record []string, columns int) (row serviceRow, why string) {
	length := 0
	for _, field := range record {
		if length += len(field); !utf8.ValidString(field) {
			return serviceRow{}, "no es UTF-8 válido"
		}
	}
	switch {
	case length > maxRow:
		return serviceRow{}, tooLong()
	case len(record) < 2 || len(record) > columns:
		return serviceRow{}, fmt.Sprintf("tiene %d columnas y la cabecera %d", len(record), columns)
	}
	row = serviceRow{name: record[0], url: record[1]}
	var faults []string
	if len(record) == 3 && record[2] != "" {
		limit, err := strconv.ParseInt(record[2], 10, 64)
		if err != nil {
			faults = append(faults, limitFault)
		}
		row.limitMS = &limit
	}
	return row, row.faults(faults)
}

const limitFault = "«limite_ms» no es un número entero"

func tooLong() string { return fmt.Sprintf("tiene más de %d bytes", maxRow) }

// faults adds to those already found what a row lacks, as one sentence.
func (r serviceRow) faults(found []string) string {
	if r.url == "" {
		found = slices.Insert(found, 0, "falta «url»")
	}
	if r.name == "" {
		found = slices.Insert(found, 0, "falta «nombre»")
	}
	return strings.Join(found, "; ")
}

// readJSONLines reads one JSON object a line.
func readJSONLines(text []byte) (rows []serviceRow, bad []badRow) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.Trim(line, " \t\r\n")
		if len(line) == 0 {
			continue
		}
		row, why := jsonRow(line)
		if why != "" {
			bad = append(bad, badRow{number, why})
			continue
		}
		row.line = number
		rows = append(rows, row)
	}
	return rows, bad
}

// jsonRow judges one line. A limit of null is one left out.
func jsonRow(line []byte) (row serviceRow, why string) {
	if len(line) > maxRow {
		return serviceRow{}, tooLong()
	}
	doc, err := parseDocument(line)
	if unreadable, ok := errors.AsType[*documentError](err); ok {
		return serviceRow{}, unreadable.reason
	}
	var faults []string
	text := func(value jsonValue, member string) string {
		chars, ok := value.text()
		if !ok {
			faults = append(faults, "«"+member+"» no es un texto")
			chars = "?" // it is there, and it is told already
		}
		return chars
	}
	for _, m := range doc.root.members {
		switch {
		case m.name == "nombre":
			row.name = text(m.value, m.name)
		case m.name == "url":
			row.url = text(m.value, m.name)
		case m.name != "limite_ms":
			faults = append(faults, "«"+tellName(m.name)+"» no es un miembro conocido")
		case m.value.kind != jsonNull:
			limit, ok := m.value.integer()
			if !ok {
				faults = append(faults, limitFault)
			}
			row.limitMS = &limit
		}
	}
	return row, row.faults(faults)
}
