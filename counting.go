// counting.go owns how effects are counted in what an API answers: a list, a number. It
// must not know what an effect is, nor who asks.

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// counting says where the effects of an intention are to be seen: in the answer to GET
// path, as the elements of a list, or as a number.
type counting struct {
	path   string
	list   *jsontext.Pointer // to an array; nil: count is given
	member *jsontext.Pointer // in an element: must be the intention's unique; nil: each element counts
	id     *jsontext.Pointer // in an element: its id, for removing what is left
	count  *jsontext.Pointer // to a number
}

// counting reads how to count; nil when it is absent.
func (r *profileReader) counting(n profileNode) *counting {
	m := r.object(n, "!path", "list", "member", "id", "count")
	if !n.given() {
		return nil
	}
	pointer := func(n profileNode) *jsontext.Pointer {
		if !n.given() {
			return nil
		}
		p := r.pointer(n)
		return &p
	}
	c := &counting{r.text(m["path"]), pointer(m["list"]), pointer(m["member"]), pointer(m["id"]), pointer(m["count"])}
	r.path(m["path"], c.path, "unique")
	switch {
	case (c.list == nil) == (c.count == nil):
		r.fail(n.wrong("want either list or count"))
	case c.count != nil && (c.member != nil || c.id != nil):
		r.fail(n.wrong("member and id belong to list"))
	case c.member == nil && !hasPlace(c.path, "unique"):
		r.fail(n.wrong("want a member, or {{unique}} in path: else the effects of others would be counted"))
	}
	return c
}

// demandEffects is the error of more effects than were wanted, or of fewer.
func demandEffects(got, want int) error {
	if got != want {
		return fmt.Errorf("efectos: %d; se esperaba %d", got, want)
	}
	return nil
}

// read counts the effects of unique in an answer, and lists the ids of those that have one.
func (c *counting) read(got answer, unique string) (effects int, ids []string, err error) {
	if got.status == http.StatusNotFound && hasPlace(c.path, "unique") {
		return 0, nil, nil // nothing was done that could be found
	}
	var whole any
	if got.status != http.StatusOK || decodeJSON(got.body, &whole) != nil {
		return 0, nil, unexpected(got, "200 con JSON")
	}
	if c.count != nil {
		text, _ := textAt(whole, *c.count)
		if effects, err = strconv.Atoi(text); err != nil {
			return 0, nil, fmt.Errorf("en la respuesta no hay un número en %q", *c.count)
		}
		return effects, nil, nil
	}
	found, _ := valueAt(whole, *c.list)
	elements, ok := found.([]any)
	if !ok {
		return 0, nil, fmt.Errorf("en la respuesta no hay una lista en %q", *c.list)
	}
	for _, element := range elements {
		if c.member != nil {
			if text, ok := textAt(element, *c.member); !ok || text != unique {
				continue
			}
		}
		effects++
		if c.id == nil {
			continue
		}
		if id, ok := textAt(element, *c.id); ok {
			ids = append(ids, id)
		}
	}
	return effects, ids, nil
}

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
