// keyfield.go owns the header fields of idempotency by name, and a key as a client of
// ours spells it. How a server reads one is fingerprint.go's. It must not know who sends
// a key, nor what for.

package main

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// keyHeader and replayedHeader are the request's field and the answer's.
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
)

// validateKey tells whether key can be an idempotency key: 1 to maxKeyLength ASCII
// characters without controls, which is what a String holds (RFC 9651 section 3.3.3).
func validateKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKeyLength:
		return fmt.Errorf("the key has more than %d characters", maxKeyLength)
	case strings.ContainsFunc(key, func(c rune) bool { return c < 0x20 || c > 0x7e }):
		return errors.New("a key has only printable ASCII characters")
	}
	return nil
}

// keyField spells a valid key as the field's value: as it is where it can be a bare
// value, else as a String (RFC 9651 section 4.1.6).
func keyField(key string) string {
	if !strings.ContainsAny(key, ` "`) {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
