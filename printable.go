// printable.go owns how what tools show is spelled for a person: text from strangers, made
// harmless, and durations. Pure: it must not know where the text came from.

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// shownBody is how many characters of a body are shown in one line: a problem of ours
// fits, a page of HTML does not.
const shownBody = 600

// printable makes text from strangers safe for a terminal and for one line: what is
// not a printable character (control codes, line ends, direction marks, bytes that
// are not UTF-8) is shown as an escape. At most limit characters of it are shown.
func printable(text []byte, limit int) string {
	var out strings.Builder
	for n := 0; len(text) > 0; n++ {
		if n == limit {
			out.WriteString("…")
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return out.String()
}

// spell writes a duration as a person says it: 231 ms, 1,5 s, 2 s.
func spell(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	// From whole milliseconds, so that no 1.5270000000000001 comes out.
	seconds := strconv.FormatFloat(float64(d.Milliseconds())/1000, 'f', -1, 64)
	return strings.Replace(seconds, ".", ",", 1) + " s"
}
