// document.go owns the JSON object in a request's body: read once, by one token
// reader, for validation and fingerprint alike, members in their order, numbers as
// exact decimals. Pure: it must not know services, requests or problem types; its
// errors are Spanish because a person reads them.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDocumentDepth is where the token reader gives up, said here so that the
	// reason can be told. No body of 16 KiB comes near: a level takes two bytes.
	maxDocumentDepth = 10_000
	// maxToldName bounds, in characters, what an error repeats of a member name.
	maxToldName = 40
	// maxInt64Digits is the most decimal digits that an int64 can have.
	maxInt64Digits = 19
	// byteOrderMark opens some UTF-8 files; RFC 8259 section 8.1 forbids sending it.
	byteOrderMark = "\uFEFF"
)

// documentError is a body that is not one JSON object. Its text is a sentence fit for a
// problem's detail.
type documentError struct {
	reason string // Spanish, of the body: "está vacío"
}

func (e *documentError) Error() string { return "el cuerpo no se puede leer: " + e.reason }

// errTooDeep ends the reading at maxDocumentDepth.
var errTooDeep = errors.New("nested too deep")

// jsonKind is the kind of a JSON value.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBoolean
	jsonText
	jsonNumber
	jsonArray
	jsonObject
)

// document is one JSON object, as a request's body holds it.
type document struct {
	root   jsonValue
	source []byte // as it came
}

// jsonValue is one JSON value and all it contains. Only the fields of its kind
// are set.
type jsonValue struct {
	kind     jsonKind
	truth    bool         // of a boolean
	chars    string       // of a text, unescaped
	number   decimal      // of a number
	elements []jsonValue  // of an array
	members  []jsonMember // of an object, in the order in which they came
}

// jsonMember is one member of an object. Names are unescaped.
type jsonMember struct {
	name  string
	value jsonValue
}

// decimal is an exact number: digits × 10^exponent. Equal numbers have equal
// decimals, however they were written: digits neither begins nor ends with a
// zero, and zero itself is no digits, exponent "0" and no sign.
type decimal struct {
	negative bool
	digits   string
	exponent string // an integer of any size, in decimal
}

// parseDocument reads body as one JSON object (RFC 8259), within the limits of
// I-JSON (RFC 7493): UTF-8, no byte order mark, no lone surrogate, no member
// name twice in one object. Its error is a documentError, always.
func parseDocument(body []byte) (document, error) {
	switch {
	case bytes.HasPrefix(body, []byte(byteOrderMark)):
		return document{}, &documentError{"empieza con una marca de orden de bytes (BOM)"}
	case !utf8.Valid(body):
		return document{}, &documentError{"no es UTF-8 válido"}
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body))
	root, err := readJSON(decoder)
	if err != nil {
		return document{}, &documentError{whyUnreadable(err, body)}
	}
	if root.kind != jsonObject {
		return document{}, &documentError{"tiene que ser un objeto JSON y es " + root.kind.article()}
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return document{}, &documentError{"sobra algo después del objeto JSON"}
	}
	return document{root: root, source: body}, nil
}

// member returns the member of that exact name.
func (d document) member(name string) (jsonValue, bool) { return d.root.member(name) }

// member returns the member of that exact name; what is no object has none.
func (v jsonValue) member(name string) (jsonValue, bool) {
	i := slices.IndexFunc(v.members, func(m jsonMember) bool { return m.name == name })
	if i < 0 {
		return jsonValue{}, false
	}
	return v.members[i].value, true
}

// text returns the characters of a text.
func (v jsonValue) text() (chars string, ok bool) { return v.chars, v.kind == jsonText }

// boolean returns the value of true or false.
func (v jsonValue) boolean() (truth, ok bool) { return v.truth, v.kind == jsonBoolean }

// integer returns the value of a number that has no fraction and fits an int64,
// in whatever way it is written: 1.5e3 is 1500.
func (v jsonValue) integer() (n int64, ok bool) {
	if v.kind != jsonNumber {
		return 0, false
	}
	return v.number.integer()
}

// onlyDoubles tells whether every number in v is within the range of an IEEE 754
// double, which RFC 8785 (section 3.2.2.3) takes for granted.
func (v jsonValue) onlyDoubles() bool {
	switch v.kind {
	case jsonNumber:
		_, err := strconv.ParseFloat("0"+v.number.digits+"e"+v.number.exponent, 64)
		return err == nil
	case jsonArray:
		return !slices.ContainsFunc(v.elements, func(e jsonValue) bool { return !e.onlyDoubles() })
	case jsonObject:
		return !slices.ContainsFunc(v.members, func(m jsonMember) bool { return !m.value.onlyDoubles() })
	}
	return true
}

func (d decimal) integer() (n int64, ok bool) {
	zeros, err := strconv.Atoi(d.exponent)
	// A negative exponent is a fraction, for digits does not end with a zero.
	if err != nil || zeros < 0 || zeros > maxInt64Digits {
		return 0, false
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	n, err = strconv.ParseInt(sign+"0"+d.digits+strings.Repeat("0", zeros), 10, 64)
	if err != nil {
		return 0, false // ParseInt returns the nearest int64 with its error
	}
	return n, true
}

// article names a kind as the complement of "es", in Spanish.
func (k jsonKind) article() string {
	switch k {
	case jsonNull:
		return "null"
	case jsonBoolean:
		return "un booleano"
	case jsonText:
		return "un texto"
	case jsonNumber:
		return "un número"
	case jsonArray:
		return "una lista"
	default:
		return "un objeto"
	}
}

// readJSON reads the next value. Its errors are the reader's, or errTooDeep.
func readJSON(decoder *jsontext.Decoder) (jsonValue, error) {
	switch decoder.PeekKind() {
	case jsontext.KindBeginObject:
		return readObject(decoder)
	case jsontext.KindBeginArray:
		return readArray(decoder)
	}
	token, err := decoder.ReadToken()
	if err != nil {
		return jsonValue{}, err
	}
	switch token.Kind() {
	case jsontext.KindTrue, jsontext.KindFalse:
		return jsonValue{kind: jsonBoolean, truth: token.Bool()}, nil
	case jsontext.KindString:
		return jsonValue{kind: jsonText, chars: token.String()}, nil
	case jsontext.KindNumber:
		return jsonValue{kind: jsonNumber, number: parseDecimal(token.String())}, nil
	default:
		return jsonValue{kind: jsonNull}, nil
	}
}

func readObject(decoder *jsontext.Decoder) (jsonValue, error) {
	if err := enter(decoder); err != nil {
		return jsonValue{}, err
	}
	object := jsonValue{kind: jsonObject}
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return jsonValue{}, err
		}
		if token.Kind() == jsontext.KindEndObject {
			return object, nil
		}
		name := token.String()
		value, err := readJSON(decoder)
		if err != nil {
			return jsonValue{}, err
		}
		object.members = append(object.members, jsonMember{name, value})
	}
}

func readArray(decoder *jsontext.Decoder) (jsonValue, error) {
	if err := enter(decoder); err != nil {
		return jsonValue{}, err
	}
	array := jsonValue{kind: jsonArray}
	for decoder.PeekKind() != jsontext.KindEndArray {
		element, err := readJSON(decoder)
		if err != nil {
			return jsonValue{}, err
		}
		array.elements = append(array.elements, element)
	}
	_, err := decoder.ReadToken()
	return array, err
}

// enter reads the opening delimiter of an object or array.
func enter(decoder *jsontext.Decoder) error {
	if decoder.StackDepth() >= maxDocumentDepth {
		return errTooDeep
	}
	_, err := decoder.ReadToken()
	return err
}

// parseDecimal reads a number of the JSON grammar (RFC 8259 section 6).
func parseDecimal(literal string) decimal {
	unsigned, negative := strings.CutPrefix(literal, "-")
	mantissa, power := unsigned, "0"
	if e := strings.IndexAny(unsigned, "eE"); e >= 0 {
		mantissa, power = unsigned[:e], unsigned[e+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits := strings.TrimRight(all, "0")
	shift := len(all) - len(digits) - len(fraction)
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return decimal{exponent: "0"}
	}
	return decimal{negative: negative, digits: digits, exponent: addToPower(power, shift)}
}

// addToPower adds shift to an exponent as written, of any length, with or
// without a sign.
func addToPower(power string, shift int) string {
	sum, ok := new(big.Int).SetString(power, 10)
	if !ok {
		panic("unreachable: the token reader let pass the exponent " + power)
	}
	return sum.Add(sum, big.NewInt(int64(shift))).String()
}

// whyUnreadable is the reason in an error of readJSON.
func whyUnreadable(err error, body []byte) string {
	syntax, isSyntax := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.EOF):
		return "está vacío"
	case errors.Is(err, errTooDeep):
		return fmt.Sprintf("tiene más de %d niveles", maxDocumentDepth)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "está incompleto"
	case isSyntax && errors.Is(err, jsontext.ErrDuplicateName):
		return "repite el miembro «" + tellName(syntax.JSONPointer.LastToken()) + "»"
	case isSyntax && startsSurrogate(body[syntax.ByteOffset:]):
		return fmt.Sprintf("lleva medio par sustituto UTF-16 en el byte %d", syntax.ByteOffset+1)
	case isSyntax:
		return fmt.Sprintf("no es JSON válido en el byte %d", syntax.ByteOffset+1)
	}
	return "no es JSON válido"
}

// startsSurrogate says whether text begins with the escape of a UTF-16
// surrogate: an error that points at one means that its other half is missing.
func startsSurrogate(text []byte) bool {
	return len(text) > 3 && text[0] == '\\' && text[1] == 'u' &&
		(text[2] == 'd' || text[2] == 'D') && strings.IndexByte("89abcdefABCDEF", text[3]) >= 0
}

// tellName shortens a member name, and blanks what would not print, so that it
// can be repeated to a person.
func tellName(name string) string {
	var told strings.Builder
	length := 0
	for _, r := range name {
		if length == maxToldName {
			return told.String() + "…"
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		told.WriteRune(r)
		length++
	}
	return told.String()
}
