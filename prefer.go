// prefer.go owns reading the Prefer field (RFC 7240). Pure: it must not know who waits,
// nor for what.

package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// preferredWait reads the lines of Prefer (RFC 7240): the first wait preference counts,
// in whole seconds (section 4.3), and more than 30 count as 30.
func preferredWait(lines []string) (wait time.Duration, ok bool) {
	for _, preference := range splitField(strings.Join(lines, ","), ',') {
		name, value, _ := strings.Cut(splitField(preference, ';')[0], "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		seconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, false
		}
		return time.Duration(min(seconds, uint64(longestWait/time.Second))) * time.Second, true
	}
	return 0, false
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
