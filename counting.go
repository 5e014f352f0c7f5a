// counting.go owns how effects are counted in what an API answers: a list, a number. It
// must not know what an effect is, nor who asks.

package main

import (
	"fmt"
	"net/http"
	"strconv"

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
