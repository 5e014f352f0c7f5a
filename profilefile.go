// profilefile.go owns the file that a profile is read from: strict JSON, of which each
// mistake is told with where it stands. It must not know what the members mean.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// profileNode is a value in the file and where it stands; without a value it is absent.
type profileNode struct {
	at    string
	value jsontext.Value
}

// given tells whether the file has it.
func (n profileNode) given() bool { return n.value != nil }

// member is one of an object's members; nil is the value of one that is absent.
func (n profileNode) member(name string, value jsontext.Value) profileNode {
	return profileNode{strings.TrimPrefix(n.at+"."+name, "."), value.Clone()}
}

// wrong is a mistake at this place.
func (n profileNode) wrong(format string, args ...any) error {
	at := shownPlace(n.at)
	if at == "" {
		at = "the profile"
	}
	return fmt.Errorf("%s: %s", at, printable(fmt.Appendf(nil, format, args...), shownMistake))
}

// shownMistake bounds what is told of a mistake, and half of it where the mistake is, in
// characters: a line on a terminal or two.
const shownMistake = 200

// shownPlace is a place that a person can look at: of a deep one its beginning.
func shownPlace(at string) string { return printable([]byte(at), shownMistake/2) }

// lineColumn counts both from 1, columns in bytes, up to an offset.
func lineColumn(text []byte, offset int64) string {
	before := text[:min(int64(len(text)), offset)]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}

// readProfileFile reads text as one JSON object: no member twice, nothing behind it.
func readProfileFile(text []byte) (profileNode, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text))
	value, err := decoder.ReadValue()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at := shownPlace(strings.ReplaceAll(strings.Trim(string(syntax.JSONPointer), "/"), "/", "."))
		if at != "" {
			at += ": "
		}
		return profileNode{}, fmt.Errorf("%sno good JSON at %s: %w", at, lineColumn(text, syntax.ByteOffset), syntax.Err)
	}
	if err != nil {
		return profileNode{}, fmt.Errorf("no good JSON: %w", err)
	}
	value = value.Clone()
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return profileNode{}, errors.New("there is something behind the JSON value")
	}
	return profileNode{value: value}, nil
}

// profileReader reads members and keeps the first mistake.
type profileReader struct{ mistake error }

// fail keeps a mistake, unless there was one.
func (r *profileReader) fail(err error) {
	if r.mistake == nil {
		r.mistake = err
	}
}

// object returns the members of an object: those that are allowed, of which those that
// begin with ! must be there. What is absent, or no object, has none.
func (r *profileReader) object(n profileNode, allowed ...string) map[string]profileNode {
	members := map[string]profileNode{}
	if !n.given() {
		return members
	}
	if n.value.Kind() != jsontext.KindBeginObject {
		r.fail(n.wrong("want an object"))
		return members
	}
	required := map[string]bool{} // of each that is allowed
	for _, mark := range allowed {
		name, must := strings.CutPrefix(mark, "!")
		required[name] = must
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(n.value.Clone()))
	decoder.ReadToken() // its opening brace: the whole was read before
	for decoder.PeekKind() != jsontext.KindEndObject {
		token, _ := decoder.ReadToken()
		name := token.String()
		value, _ := decoder.ReadValue()
		member := n.member(name, value)
		if _, known := required[name]; !known {
			r.fail(member.wrong("there is no such member"))
			continue
		}
		members[name] = member
	}
	for _, mark := range allowed { // in their order
		if name := strings.TrimPrefix(mark, "!"); required[name] && !members[name].given() {
			r.fail(n.member(name, nil).wrong("is missing"))
		}
	}
	return members
}

// elements returns those of an array.
func (r *profileReader) elements(n profileNode) []profileNode {
	if !n.given() {
		return nil
	}
	if n.value.Kind() != jsontext.KindBeginArray {
		r.fail(n.wrong("want an array"))
		return nil
	}
	var all []profileNode
	decoder := jsontext.NewDecoder(bytes.NewBuffer(n.value.Clone()))
	decoder.ReadToken()
	for decoder.PeekKind() != jsontext.KindEndArray {
		value, _ := decoder.ReadValue()
		all = append(all, profileNode{fmt.Sprintf("%s[%d]", n.at, len(all)), value.Clone()})
	}
	return all
}

// text returns a string, "" when it is absent.
func (r *profileReader) text(n profileNode) string {
	if !n.given() {
		return ""
	}
	if n.value.Kind() != jsontext.KindString {
		r.fail(n.wrong("want a string"))
		return ""
	}
	chars, err := jsontext.AppendUnquote(nil, n.value)
	if err != nil {
		r.fail(n.wrong("%v", err))
	}
	return string(chars)
}

// texts returns an array of strings.
func (r *profileReader) texts(n profileNode) []string {
	var all []string
	for _, element := range r.elements(n) {
		all = append(all, r.text(element))
	}
	return all
}

// pairs returns an object of strings, in its order.
func (r *profileReader) pairs(n profileNode) [][2]string {
	if !n.given() {
		return nil
	}
	if n.value.Kind() != jsontext.KindBeginObject {
		r.fail(n.wrong("want an object"))
		return nil
	}
	var all [][2]string
	decoder := jsontext.NewDecoder(bytes.NewBuffer(n.value.Clone()))
	decoder.ReadToken()
	for decoder.PeekKind() != jsontext.KindEndObject {
		token, _ := decoder.ReadToken()
		name := token.String()
		value, _ := decoder.ReadValue()
		all = append(all, [2]string{name, r.text(n.member(name, value))})
	}
	return all
}

// number returns a whole number from least to most, 0 when it is absent.
func (r *profileReader) number(n profileNode, least, most int) int {
	if !n.given() {
		return 0
	}
	number, err := strconv.Atoi(string(n.value))
	if err != nil || number < least || number > most {
		bare := ""
		if n.value.Kind() == jsontext.KindString {
			bare = ", without quotes"
		}
		r.fail(n.wrong("want a whole number from %d to %d%s", least, most, bare))
	}
	return number
}

// choice returns one of the words, the first when it is absent.
func (r *profileReader) choice(n profileNode, words ...string) string {
	if !n.given() {
		return words[0]
	}
	word := r.text(n)
	if !slices.Contains(words, word) {
		r.fail(n.wrong("want one of %s", strings.Join(words, ", ")))
	}
	return word
}

// pointer returns a JSON pointer (RFC 6901).
func (r *profileReader) pointer(n profileNode) jsontext.Pointer {
	p := jsontext.Pointer(r.text(n))
	if !p.IsValid() {
		r.fail(n.wrong("%q is no JSON pointer (RFC 6901): want \"\" or /name/name", p))
	}
	return p
}
