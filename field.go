// field.go owns the text of header fields (RFC 9110 section 5): what can travel in a
// value, and how a value is taken apart. Pure: it must not know what a field means.

package main

import (
	"errors"
	"strings"
	"unicode"
)

// isFieldText tells whether text can be a field value as it is: no CR, LF, NUL or other
// control character but the tab (RFC 9110 section 5.5).
func isFieldText(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c != '\t' && (c < ' ' || c == 0x7f) })
}

// validateFieldText is for what a client of ours sends, and stricter: visible ASCII, and
// white space inside only. Its error never holds the text, which may be a secret.
func validateFieldText(text string) error {
	switch {
	case !isFieldText(text) || strings.ContainsFunc(text, func(c rune) bool { return c > unicode.MaxASCII }):
		return errors.New("only visible ASCII characters can travel in a header field")
	case trimOWS(text) != text:
		return errors.New("a header field cannot carry white space at either end")
	}
	return nil
}

// trimOWS takes the optional white space of RFC 9110 section 5.6.3 off both ends.
func trimOWS(s string) string { return strings.Trim(s, " \t") }

// isDigits says whether s is one or more ASCII digits and nothing else.
func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// splitField cuts a field value at each separator that is not inside a quoted string
// (RFC 9110 section 5.6.4).
func splitField(value string, separator byte) (parts []string) {
	quoted, begin := false, 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == separator:
			parts, begin = append(parts, value[begin:i]), i+1
		}
	}
	return append(parts, value[begin:])
}
