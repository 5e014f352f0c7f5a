// retryforms.go owns the forms that a Retry-After can come in, legal and illegal (RFC 9110
// sections 10.2.3 and 5.6.7), as the bench offers them. Pure: the clock comes in; it must
// not know who sends them, nor how a client reads them.

package main

import (
	"fmt"
	"strings"
	"time"
)

// retryForm is one form of the field: its name, whether a client may obey it, and its
// lines for a wait of so many seconds from now.
type retryForm struct {
	name  string
	valid bool
	what  string
	lines func(now time.Time, seconds int64) []string
}

// layoutRFC850 is the obsolete form with its two-digit year.
const layoutRFC850 = "Monday, 02-Jan-06 15:04:05 GMT"

// retryForms are all of them, in the order in which they are told.
var retryForms = []retryForm{
	{"segundos", true, "N", inSeconds("%d")},
	{"cero", true, "0, diga lo que diga N", always("0")},
	{"ceros", true, "N con ceros delante", inSeconds("00%d")},
	{"margen", true, "N con blancos alrededor, que no cuentan", inSeconds(" \t %d \t ")},
	{"fecha", true, "la fecha de dentro de N segundos, en la forma de hoy (IMF-fixdate)", asDate(layoutIMFFixdate)},
	{"rfc850", true, "la misma, en la forma de RFC 850, con el año en dos cifras", asDate(layoutRFC850)},
	{"asctime", true, "la misma, en la forma de asctime", asDate(layoutAsctime)},
	{"pasada", true, "la fecha de hace una hora, que es no esperar", dateWith(func(now, _ time.Time) string {
		return now.Add(-time.Hour).Format(layoutIMFFixdate)
	})},
	{"intercalar", true, "hoy a las 23:59:60, el segundo intercalar", dateWith(func(now, _ time.Time) string {
		return now.Format("Mon, 02 Jan 2006 ") + leapSecond + " GMT"
	})},

	{"negativo", false, "-N", inSeconds("-%d")},
	{"signo", false, "+N", inSeconds("+%d")},
	{"fraccion", false, "N.5", inSeconds("%d.5")},
	{"exponente", false, "Ne0", inSeconds("%de0")},
	{"hexadecimal", false, "N en hexadecimal, con 0x", inSeconds("%#x")},
	{"unidad", false, "N con una s detrás", inSeconds("%ds")},
	{"espacios", false, "dos números separados por un espacio", inSeconds("%[1]d %[1]d")},
	{"lista", false, "dos números separados por una coma", inSeconds("%[1]d, %[1]d")},
	{"dos-lineas", false, "la cabecera dos veces, con N y con N otra vez", func(_ time.Time, seconds int64) []string {
		return []string{fmt.Sprint(seconds), fmt.Sprint(seconds)}
	}},
	{"vacio", false, "nada", always("")},
	{"palabra", false, "pronto", always("pronto")},
	{"enorme", false, "veinte nueves", always(strings.Repeat("9", 20))},
	{"anchas", false, "2 en una cifra de anchura completa, que no es ASCII", always("２")},
	{"dia-imposible", false, "un día 32", dateWith(func(_, then time.Time) string {
		return then.Format("Mon, ") + "32" + then.Format(" Jan 2006 15:04:05 GMT")
	})},
	{"hora-imposible", false, "las 25:00:00", dateWith(func(_, then time.Time) string {
		return then.Format("Mon, 02 Jan 2006 ") + "25:00:00 GMT"
	})},
	{"dia-equivocado", false, "un día de la semana que no es el de la fecha", dateWith(func(_, then time.Time) string {
		return then.AddDate(0, 0, 1).Format("Mon") + then.Format(", 02 Jan 2006 15:04:05 GMT")
	})},
	{"sin-dia", false, "la fecha sin día de la semana", asDate("02 Jan 2006 15:04:05 GMT")},
	{"minusculas", false, "la fecha en minúsculas", dateWith(func(_, then time.Time) string {
		return strings.ToLower(then.Format(layoutIMFFixdate))
	})},
	{"decimales", false, "la fecha con fracciones de segundo", asDate("Mon, 02 Jan 2006 15:04:05.000 GMT")},
	{"zona", false, "la fecha con +0000 en lugar de GMT", asDate(time.RFC1123Z)},
	{"utc", false, "la fecha con UTC en lugar de GMT", asDate("Mon, 02 Jan 2006 15:04:05 UTC")},
	{"iso", false, "la fecha como en ISO 8601", asDate(time.RFC3339)},
}

// inSeconds writes the seconds by a format.
func inSeconds(format string) func(time.Time, int64) []string {
	return func(_ time.Time, seconds int64) []string { return []string{fmt.Sprintf(format, seconds)} }
}

// always is one value, whatever is asked for.
func always(value string) func(time.Time, int64) []string {
	return func(time.Time, int64) []string { return []string{value} }
}

// asDate writes the moment when the wait is over by a layout.
func asDate(layout string) func(time.Time, int64) []string {
	return dateWith(func(_, then time.Time) string { return then.Format(layout) })
}

// dateWith writes a date from now and from when the wait is over, both in GMT.
func dateWith(spell func(now, then time.Time) string) func(time.Time, int64) []string {
	return func(now time.Time, seconds int64) []string {
		now = now.UTC()
		return []string{spell(now, now.Add(time.Duration(seconds)*time.Second))}
	}
}
