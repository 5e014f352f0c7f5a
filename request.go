// request.go owns a request as a profile states it, with places that each intention fills
// in anew. It must not know what the request is good for, nor send it.

package main

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// requestTemplate is a request with places.
type requestTemplate struct {
	method  string
	path    string // with the query
	headers [][2]string
	body    []byte // nil: none
	text    bool   // the body is no JSON, as the forms of old
}

// request reads the members of a request; what is absent is as in otherwise. The path and
// the body may have these places; of them a header may not have {{id}}, nor those {{etag}}.
func (r *profileReader) request(m map[string]profileNode, otherwise requestTemplate, places ...string) requestTemplate {
	t := otherwise
	apart := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(places), func(place string) bool { return place == name })
	}
	if n := m["method"]; n.given() {
		if t.method = r.text(n); t.method == "" || strings.Trim(t.method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			r.fail(n.wrong("%q is no method: want capitals", t.method))
		}
	}
	if n := m["path"]; n.given() {
		t.path = r.text(n)
		r.path(n, t.path, apart("etag")...)
	}
	if n := m["headers"]; n.given() {
		t.headers = r.pairs(n)
		for _, h := range t.headers {
			r.header(profileNode{at: n.at + "." + h[0]}, h, apart("id")...)
		}
	}
	if n := m["body"]; n.given() {
		t.body, t.text = slices.Clone([]byte(n.value)), false
		if n.value.Kind() == jsontext.KindString {
			t.body, t.text = []byte(r.text(n)), true
		} else if err := (*jsontext.Value)(&t.body).Compact(); err != nil {
			r.fail(n.wrong("%v", err))
		}
		r.places(n, string(t.body), apart("etag")...)
	}
	return t
}

// path finds what cannot be asked for.
func (r *profileReader) path(n profileNode, path string, places ...string) {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' }) {
		r.fail(n.wrong("%q is no path: want /name/name, with anything else percent-encoded", path))
	}
	r.places(n, path, places...)
}

// header finds a field that cannot be sent, or that verify sends itself.
func (r *profileReader) header(n profileNode, h [2]string, places ...string) {
	r.fieldName(n, h[0])
	switch http.CanonicalHeaderKey(h[0]) {
	case keyHeader, "Host", "Content-Length", "Transfer-Encoding", "Connection", "User-Agent":
		r.fail(n.wrong("verify sends this field itself"))
	}
	if err := validateFieldText(h[1]); err != nil {
		r.fail(n.wrong("%v", err))
	}
	r.places(n, h[1], places...)
}

// call fills the places in. Without a Content-Type a body is JSON, or a form.
func (t requestTemplate) call(base *url.URL, values map[string]string) call {
	c := call{method: t.method, base: base, path: fillPlaces(t.path, values, escapeInURL), header: http.Header{}}
	for _, h := range t.headers {
		c.header.Add(h[0], fillPlaces(h[1], values, func(s string) string { return s }))
	}
	if t.body == nil {
		return c
	}
	escape, media := escapeInJSON, "application/json"
	if t.text {
		escape, media = escapeInURL, "application/x-www-form-urlencoded"
	}
	c.body = []byte(fillPlaces(string(t.body), values, escape))
	if c.header.Get("Content-Type") == "" {
		c.header.Set("Content-Type", media)
	}
	return c
}

// escapeInURL makes a text part of a path, of a query or of a form: only what is
// unreserved (RFC 3986 section 2.3) stays as it is.
func escapeInURL(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// escapeInJSON makes a text part of a JSON string.
func escapeInJSON(text string) string {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil { // what is not UTF-8 was made so on the way
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return string(quoted[1 : len(quoted)-1])
}
