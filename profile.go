// profile.go owns the profile of an API that verify judges: what its members are, what
// they must be, and the one of revisor that is built in. It must not know how a check
// uses them, nor where the text came from.

package main

import (
	_ "embed"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// longestLifetime bounds the wait for a key to expire: a run is for a person who waits.
const longestLifetime = time.Minute

// revisorProfile is the profile of revisor itself, as a file.
//
//go:embed profile.json
var revisorProfile []byte

// shortestKey is the fewest characters of a key that a client can draw and nobody else
// will: 16 hexadecimal digits, which are 64 bits.
const shortestKey = 16

// creatingMethods are those that may create, and take keys.
var creatingMethods = []string{"POST", "PUT", "PATCH"}

// environmentPlace is ${NAME} in a credential.
var environmentPlace = regexp.MustCompile(`\$\{[^{}]*\}`)

// profile describes an API. A nil or empty part cannot be tested.
type profile struct {
	base        *url.URL
	credentials []credentialField // one or two
	create      requestTemplate
	created     expectation       // how its success looks
	id          *jsontext.Pointer // of what was created, in the answer
	changed     *requestTemplate  // another request of the same intention
	slow        *requestTemplate  // a creation that takes long
	counting    *counting
	mismatch    expectation
	inFlight    expectation
	malformed   expectation
	secondKey   expectation // zero: an effect of its own
	replay      replayRule
	spelling    keySpelling   // of a key
	longest     int           // characters of a key; 0: unknown
	lifetime    time.Duration // 0: too long to wait for
	invalid     *invalidRequest
	other       *otherRoute
	update      *statedRequest
	remove      *statedRequest
	required    []string // ids of checks; nil: all that can be made
}

// keySpelling is how an API wants a key: as a String of RFC 9651, bare as clients of old
// send it, or either.
type keySpelling string

const (
	spelledBare   keySpelling = "bare"
	spelledQuoted keySpelling = "quoted"
	spelledBoth   keySpelling = "both"
)

// credentialField is a header field that says who asks.
type credentialField struct{ header, value string }

// replayRule is what a replay repeats beside status and body, and what marks one.
type replayRule struct {
	headers      []string
	marker       string // "": none
	first, again string // the marker's values; "": the field is absent
}

// invalidRequest is a request that is refused for its data.
type invalidRequest struct {
	request requestTemplate
	refused expectation
	records bool // the refusal becomes the key's answer
}

// statedRequest is a request and how its success looks.
type statedRequest struct {
	request requestTemplate
	success expectation
}

// otherRoute is another creating request that honours keys.
type otherRoute struct {
	statedRequest
	own bool // an equal key is another key there; else it is a mismatch
}

// parseProfile reads a profile. Its errors say where.
func parseProfile(text []byte) (*profile, error) {
	root, err := readProfileFile(text)
	if err != nil {
		return nil, err
	}
	r, p := &profileReader{}, &profile{}
	m := r.object(root, "!base", "credentials", "!create", "changed", "slow", "effects", "expect", "replay", "key",
		"invalid", "other_route", "update", "remove", "required")
	p.base = r.base(m["base"])
	p.readCredentials(r, m["credentials"])
	p.readCreate(r, m["create"])
	p.changed = r.variant(m["changed"], p.create)
	p.slow = r.variant(m["slow"], p.create)
	p.counting = r.counting(m["effects"])
	p.readExpect(r, m["expect"])
	p.readReplay(r, m["replay"])
	p.readKey(r, m["key"])
	p.readInvalid(r, m["invalid"])
	p.readOther(r, m["other_route"])
	p.update = r.stated(m["update"], "PUT")
	if p.update != nil && p.update.request.method != "PUT" {
		r.fail(profileNode{at: "update.method"}.wrong("want PUT"))
	}
	p.remove = r.stated(m["remove"], "DELETE")
	p.required = r.texts(m["required"])
	if r.mistake == nil && p.counting == nil && p.id == nil {
		r.fail(profileNode{at: "effects"}.wrong("is missing, and create.id too: nothing would tell how often something was done"))
	}
	return p, r.mistake
}

func (r *profileReader) base(n profileNode) *url.URL {
	u, err := parseBase(r.text(n))
	if err != nil && r.mistake == nil {
		r.fail(n.wrong("%v", err))
	}
	return u
}

func (p *profile) readCredentials(r *profileReader, n profileNode) {
	elements := r.elements(n)
	if r.mistake == nil && n.given() && len(elements) == 0 {
		r.fail(n.wrong("want one or two; leave the member out to send none"))
	}
	for i, element := range elements {
		if i == 2 {
			r.fail(n.wrong("at most two, the second another's"))
			return
		}
		m := r.object(element, "!header", "!value")
		c := credentialField{r.text(m["header"]), r.text(m["value"])}
		r.fieldName(m["header"], c.header)
		r.places(m["value"], c.value, [...]string{"token", "other-token"}[i])
		p.credentials = append(p.credentials, c)
	}
}

func (p *profile) readCreate(r *profileReader, n profileNode) {
	m := r.object(n, "method", "!path", "headers", "body", "!status", "id")
	p.create = r.creating(m, requestTemplate{method: "POST"}, "unique")
	p.created = r.statuses(m["status"])
	if m["id"].given() {
		id := r.pointer(m["id"])
		p.id = &id
	}
	if r.mistake == nil && !hasPlace(p.create.path+string(p.create.body), "unique") {
		where := m["body"]
		if !where.given() {
			where = m["path"]
		}
		r.fail(where.wrong("has no {{unique}}: each request would be the same intention"))
	}
}

func (p *profile) readExpect(r *profileReader, n profileNode) {
	m := r.object(n, "mismatch", "in_flight", "malformed", "second_key")
	p.mismatch = r.statuses(m["mismatch"])
	p.inFlight = r.expectation(m["in_flight"])
	p.malformed = r.statuses(m["malformed"])
	p.secondKey = r.statuses(m["second_key"])
}

func (p *profile) readReplay(r *profileReader, n profileNode) {
	m := r.object(n, "headers", "marker")
	p.replay.headers = []string{"Location", "ETag", "Content-Type"}
	if m["headers"].given() {
		p.replay.headers = r.texts(m["headers"])
	}
	marker := r.object(m["marker"], "!header", "first", "again")
	p.replay.marker = r.text(marker["header"])
	p.replay.first, p.replay.again = r.text(marker["first"]), r.text(marker["again"])
	if m["marker"].given() && p.replay.first == p.replay.again {
		r.fail(m["marker"].wrong("first and again are the same: it would mark nothing"))
	}
}

func (p *profile) readKey(r *profileReader, n profileNode) {
	m := r.object(n, "spelling", "longest", "lifetime")
	p.spelling = keySpelling(r.choice(m["spelling"], string(spelledBare), string(spelledQuoted), string(spelledBoth)))
	p.longest = r.number(m["longest"], 1, 8192)
	if m["longest"].given() && p.longest < shortestKey {
		r.fail(m["longest"].wrong("verify draws its keys at random, and needs room for %d characters", shortestKey))
	}
	if m["lifetime"].given() {
		lifetime, err := time.ParseDuration(r.text(m["lifetime"]))
		if err != nil || lifetime <= 0 || lifetime > longestLifetime {
			r.fail(m["lifetime"].wrong("want a time up to %v, like \"2s\"; leave a longer one out", longestLifetime))
		}
		p.lifetime = lifetime
	}
}

func (p *profile) readInvalid(r *profileReader, n profileNode) {
	m := r.object(n, "method", "path", "headers", "body", "!status", "!failure")
	if n.given() {
		p.invalid = &invalidRequest{r.variantOf(n, m, p.create), r.statuses(m["status"]),
			r.choice(m["failure"], "frees", "recorded") == "recorded"}
	}
}

func (p *profile) readOther(r *profileReader, n profileNode) {
	m := r.object(n, "method", "!path", "headers", "body", "status", "!answer")
	if !n.given() {
		return
	}
	p.other = &otherRoute{statedRequest{r.creating(m, requestTemplate{method: "POST"}, "unique", "id", "etag"), r.statuses(m["status"])},
		r.choice(m["answer"], "mismatch", "own") == "own"}
	if p.other.own && !p.other.success.given() {
		r.fail(profileNode{at: "other_route.status"}.wrong("is missing: how does its own success look?"))
	}
}

// variant is a request that differs from create in what it says; nil when it is absent.
func (r *profileReader) variant(n profileNode, create requestTemplate) *requestTemplate {
	if !n.given() {
		return nil
	}
	request := r.variantOf(n, r.object(n, "method", "path", "headers", "body"), create)
	return &request
}

// variantOf reads the members of a variant, one of which must be there.
func (r *profileReader) variantOf(n profileNode, m map[string]profileNode, create requestTemplate) requestTemplate {
	if !m["method"].given() && !m["path"].given() && !m["headers"].given() && !m["body"].given() {
		r.fail(n.wrong("differs from create in nothing: want another method, path, headers or body"))
	}
	return r.creating(m, create, "unique")
}

// creating reads the members of a request that may create something.
func (r *profileReader) creating(m map[string]profileNode, otherwise requestTemplate, places ...string) requestTemplate {
	t := r.request(m, otherwise, places...)
	if n := m["method"]; n.given() && !slices.Contains(creatingMethods, t.method) {
		r.fail(n.wrong("want a method that creates: %s", strings.Join(creatingMethods, ", ")))
	}
	return t
}

// stated is a request about something that was created; nil when it is absent.
func (r *profileReader) stated(n profileNode, method string) *statedRequest {
	m := r.object(n, "method", "!path", "headers", "body", "!status")
	if !n.given() {
		return nil
	}
	s := &statedRequest{r.request(m, requestTemplate{method: method}, "unique", "id", "etag"), r.statuses(m["status"])}
	return s
}

// resolve fills the credentials in: {{token}} and {{other-token}} from flags, ${NAME}
// from the environment. Its errors never hold a value, which is a secret.
func (p *profile) resolve(getenv func(string) string, token, otherToken string) error {
	for i, c := range p.credentials {
		var missing error
		value := environmentPlace.ReplaceAllStringFunc(c.value, func(place string) string {
			text := getenv(place[2 : len(place)-1])
			if text == "" && missing == nil {
				missing = fmt.Errorf("credentials[%d].value: the environment has no %s", i, place[2:len(place)-1])
			}
			return text
		})
		if missing != nil {
			return missing
		}
		value = fillPlaces(value, map[string]string{"token": token, "other-token": otherToken}, func(s string) string { return s })
		if err := validateFieldText(value); err != nil {
			return fmt.Errorf("credentials[%d].value: %w", i, err)
		}
		p.credentials[i].value = value
	}
	if len(p.credentials) == 2 && p.credentials[0] == p.credentials[1] {
		return fmt.Errorf("credentials[1]: must not be the first once more, and belong to somebody else")
	}
	return nil
}

// hasSecond tells whether there is a second credential.
func (p *profile) hasSecond() bool { return len(p.credentials) == 2 }

// asksFor tells whether a check is required: those that the profile lists, or else all
// that can be made.
func (p *profile) asksFor(id string, possible bool) bool {
	if p.required == nil {
		return possible
	}
	return slices.Contains(p.required, id)
}

// places finds what cannot be filled in.
func (r *profileReader) places(n profileNode, text string, known ...string) {
	if err := checkPlaces(text, known...); err != nil {
		r.fail(n.wrong("%v", err))
	}
}

// fieldName finds what is no name of a header field (RFC 9110 section 5.1).
func (r *profileReader) fieldName(n profileNode, name string) {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }) {
		r.fail(n.wrong("%q is no name of a header field", name))
	}
}
