// pointer.go owns what stands at a place in a JSON text, as a JSON pointer (RFC 6901) names
// it. Pure: it must not know what the place is for.

package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// decodeJSON keeps numbers as they are written: an id may be longer than a float is exact.
func decodeJSON(text []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// valueAt follows a JSON pointer (RFC 6901).
func valueAt(value any, pointer jsontext.Pointer) (any, bool) {
	for token := range pointer.Tokens() {
		ok := false
		switch inner := value.(type) {
		case map[string]any:
			value, ok = inner[token]
		case []any:
			i, err := strconv.Atoi(token)
			if ok = err == nil && i >= 0 && i < len(inner) && strconv.Itoa(i) == token; ok {
				value = inner[i]
			}
		}
		if !ok {
			return nil, false
		}
	}
	return value, true
}

// textAt is the string or the number at a pointer, as text.
func textAt(value any, pointer jsontext.Pointer) (string, bool) {
	found, _ := valueAt(value, pointer)
	switch text := found.(type) {
	case string:
		return text, true
	case json.Number:
		return text.String(), true
	}
	return "", false
}
