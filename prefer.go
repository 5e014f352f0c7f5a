// prefer.go owns reading the Prefer field (RFC 7240). Pure: it must not know who waits,
// nor for what.

package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// longestWait is the most that a client may wait for an original (Prefer: wait).
const longestWait = 30 * time.Second

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
