// document_test.go owns which bodies are one JSON object, what is read of them, and numbers
// as exact decimals.

package main

import (
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestParseDocumentRefuses(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	tests := []struct {
		name string
		body string
		want string // the reason
	}{
		{"empty", "", "está vacío"},
		{"white space", " \r\n\t", "está vacío"},
		{"array", `[{"a":1}]`, "tiene que ser un objeto JSON y es una lista"},
		{"null", "null", "tiene que ser un objeto JSON y es null"},
		{"text", `"{}"`, "tiene que ser un objeto JSON y es un texto"},
		{"number", "7", "tiene que ser un objeto JSON y es un número"},
		{"boolean", "true", "tiene que ser un objeto JSON y es un booleano"},
		{"truncated object", `{"a":1`, "está incompleto"},
		{"truncated after a name", `{"a"`, "está incompleto"},
		{"truncated after a comma", `{"a":1,`, "está incompleto"},
		{"truncated text", `{"a":"b`, "está incompleto"},
		{"truncated literal", `{"a":tru`, "está incompleto"},
		{"truncated array", `{"a":[1`, "está incompleto"},
		{"truncated escape", `{"a":"\u12`, "está incompleto"},
		{"followed by another object", `{} {}`, "sobra algo después del objeto JSON"},
		{"followed by a bracket", `{}]`, "sobra algo después del objeto JSON"},
		{"followed by a comma", `{},`, "sobra algo después del objeto JSON"},
		{"followed by NUL", "{}\x00", "sobra algo después del objeto JSON"},
		{"followed by a word", `{} x`, "sobra algo después del objeto JSON"},
		{"byte order mark", "\uFEFF{}", "empieza con una marca de orden de bytes (BOM)"},
		{"byte order mark after white space", " \uFEFF{}", "no es JSON válido en el byte 2"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "no es UTF-8 válido"},
		{"invalid UTF-8 in a text", "{\"a\":\"\xff\"}", "no es UTF-8 válido"},
		{"invalid UTF-8 in a name", "{\"\xc3\":1}", "no es UTF-8 válido"},
		{"overlong UTF-8", "{\"a\":\"\xc0\xaf\"}", "no es UTF-8 válido"},
		{"surrogate in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", "no es UTF-8 válido"},
		{"lone high surrogate", `{"a":"\ud800"}`, "lleva medio par sustituto UTF-16 en el byte 7"},
		{"lone low surrogate", `{"a":"x\uDC00"}`, "lleva medio par sustituto UTF-16 en el byte 8"},
		{"high surrogate before a letter", `{"a":"\ud83dabcdefgh"}`, "lleva medio par sustituto UTF-16 en el byte 7"},
		{"two high surrogates", `{"a":"\ud83d\ud83d"}`, "lleva medio par sustituto UTF-16 en el byte 7"},
		{"a pair the wrong way round", `{"a":"\ude00\ud83d"}`, "lleva medio par sustituto UTF-16 en el byte 7"},
		{"lone surrogate in a name", `{"\ud800":1}`, "lleva medio par sustituto UTF-16 en el byte 3"},
		{"repeated member", `{"url":1,"x":2,"url":1}`, "repite el miembro «url»"},
		{"repeated member, escaped", `{"a":1,"\u0061":1}`, "repite el miembro «a»"},
		{"repeated member, escaped first", `{"\u0061":1,"a":1}`, "repite el miembro «a»"},
		{"repeated member, deep", `{"a":{"b":[{"c":1,"c":2}]}}`, "repite el miembro «c»"},
		{"repeated empty member", `{"":1,"":2}`, "repite el miembro «»"},
		{"repeated member with a slash", `{"a/b~":1,"a/b~":2}`, "repite el miembro «a/b~»"},
		{"repeated long member", `{"` + strings.Repeat("ñ", 500) + `":1,"` + strings.Repeat("ñ", 500) + `":1}`,
			"repite el miembro «" + strings.Repeat("ñ", 40) + "…»"},
		{"repeated unprintable member", `{"\n\u0000":1,"\n\u0000":1}`, "repite el miembro «\uFFFD\uFFFD»"},
		{"too deep", nested(10_001), "tiene más de 10000 niveles"},
		{"endlessly deep", strings.Repeat(`{"":`, 100_000), "tiene más de 10000 niveles"},
		{"single quotes", `{'a':1}`, "no es JSON válido en el byte 2"},
		{"bare name", `{a:1}`, "no es JSON válido en el byte 2"},
		{"number for a name", `{1:1}`, "no es JSON válido en el byte 2"},
		{"comma at the end", `{"a":1,}`, "no es JSON válido en el byte 7"},
		{"comma at the end of an array", `{"a":[1,]}`, "no es JSON válido en el byte 8"},
		{"comma in front", `{,"a":1}`, "no es JSON válido en el byte 2"},
		{"no colon", `{"a" 1}`, "no es JSON válido en el byte 6"},
		{"no comma", `{"a":1 "b":2}`, "no es JSON válido en el byte 8"},
		{"closed by the wrong bracket", `{"a":[1}}`, "no es JSON válido en el byte 8"},
		{"comment", `{/**/}`, "no es JSON válido en el byte 2"},
		{"NaN", `{"a":NaN}`, "no es JSON válido en el byte 6"},
		{"upper-case literal", `{"a":True}`, "no es JSON válido en el byte 6"},
		{"leading zero", `{"a":01}`, "no es JSON válido en el byte 7"},
		{"plus sign", `{"a":+1}`, "no es JSON válido en el byte 6"},
		{"point without digits", `{"a":1.}`, "no es JSON válido en el byte 8"},
		{"point in front", `{"a":.5}`, "no es JSON válido en el byte 6"},
		{"exponent without digits", `{"a":1e}`, "no es JSON válido en el byte 8"},
		{"hexadecimal", `{"a":0x1}`, "no es JSON válido en el byte 7"},
		{"line break in a text", "{\"a\":\"\n\"}", "no es JSON válido en el byte 7"},
		{"unknown escape", `{"a":"\x41"}`, "no es JSON válido en el byte 7"},
		{"no-break space", "{\u00a0}", "no es JSON válido en el byte 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseDocument([]byte(test.body))
			want := "el cuerpo no se puede leer: " + test.want
			if unreadable, ok := errors.AsType[*documentError](err); !ok || unreadable.reason != test.want || err.Error() != want {
				t.Errorf("parseDocument(%.60q) = %v, want %s", test.body, err, want)
			}
		})
	}
}

func TestParseDocumentReads(t *testing.T) {
	t.Parallel()
	body := "\t{ \"nombre\" : \"a\\u00f1\\ud83d\\ude00\\/\",\r\n \"activo\":true, \"no\":false, \"nada\":null," +
		` "NOMBRE":"", "lista":[1,"1",[]], "objeto":{"nombre":"otro"}, "limite_ms":1.5e3 } `
	d, err := parseDocument([]byte(body))
	if err != nil {
		t.Fatalf("parseDocument(%q) = %v, want no error", body, err)
	}
	one := decimal{digits: "1", exponent: "0"}
	want := []jsonMember{
		{"nombre", jsonValue{kind: jsonText, chars: "añ😀/"}},
		{"activo", jsonValue{kind: jsonBoolean, truth: true}},
		{"no", jsonValue{kind: jsonBoolean}},
		{"nada", jsonValue{}},
		{"NOMBRE", jsonValue{kind: jsonText}},
		{"lista", jsonValue{kind: jsonArray, elements: []jsonValue{
			{kind: jsonNumber, number: one}, {kind: jsonText, chars: "1"}, {kind: jsonArray},
		}}},
		{"objeto", jsonValue{kind: jsonObject, members: []jsonMember{{"nombre", jsonValue{kind: jsonText, chars: "otro"}}}}},
		{"limite_ms", jsonValue{kind: jsonNumber, number: decimal{digits: "15", exponent: "2"}}},
	}
	if !reflect.DeepEqual(d.root.members, want) {
		t.Errorf("parseDocument(%q) = %+v, want %+v", body, d.root.members, want)
	}
	if _, err := parseDocument([]byte(`{"":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`)); err != nil {
		t.Errorf("parseDocument(10000 levels) = %v, want no error", err)
	}
}

func TestDocumentAccessors(t *testing.T) {
	t.Parallel()
	d, err := parseDocument([]byte(`{"n":1,"t":"x","b":true,"z":null,"o":{"in":"y"},"a":["x"]}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name                          string
		found, text, boolean, integer bool
	}{
		{"n", true, false, false, true},
		{"t", true, true, false, false},
		{"b", true, false, true, false},
		{"z", true, false, false, false},
		{"o", true, false, false, false},
		{"a", true, false, false, false},
		{"T", false, false, false, false},
		{"in", false, false, false, false},
		{"", false, false, false, false},
	}
	for _, test := range tests {
		value, found := d.member(test.name)
		_, text := value.text()
		_, boolean := value.boolean()
		_, integer := value.integer()
		got := [...]bool{found, text, boolean, integer}
		if want := [...]bool{test.found, test.text, test.boolean, test.integer}; got != want {
			t.Errorf("member(%q) is found, text, boolean, integer = %v, want %v", test.name, got, want)
		}
	}
	object, _ := d.member("o")
	if inner, ok := object.member("in"); !ok || inner.chars != "y" {
		t.Errorf(`member("in") of the inner object = %+v, %t, want the text y`, inner, ok)
	}
}

func TestDecimal(t *testing.T) {
	t.Parallel()
	const maxInt, minInt = "9223372036854775807", "-9223372036854775808"
	tests := []struct {
		literal string
		want    decimal
		integer int64
		whole   bool
	}{
		{"0", decimal{false, "", "0"}, 0, true},
		{"-0", decimal{false, "", "0"}, 0, true},
		{"-0.000e-7", decimal{false, "", "0"}, 0, true},
		{"0e999999999999999999999", decimal{false, "", "0"}, 0, true},
		{"1", decimal{false, "1", "0"}, 1, true},
		{"-1", decimal{true, "1", "0"}, -1, true},
		{"1.0", decimal{false, "1", "0"}, 1, true},
		{"1e0", decimal{false, "1", "0"}, 1, true},
		{"10e-1", decimal{false, "1", "0"}, 1, true},
		{"0.1E+1", decimal{false, "1", "0"}, 1, true},
		{"1.5e3", decimal{false, "15", "2"}, 1500, true},
		{"100.0", decimal{false, "1", "2"}, 100, true},
		{"100.10", decimal{false, "1001", "-1"}, 0, false},
		{"1.5", decimal{false, "15", "-1"}, 0, false},
		{"-0.0250", decimal{true, "25", "-3"}, 0, false},
		{"1e-400", decimal{false, "1", "-400"}, 0, false},
		{"1e400", decimal{false, "1", "400"}, 0, false},
		{"1e18", decimal{false, "1", "18"}, 1_000_000_000_000_000_000, true},
		{"1e19", decimal{false, "1", "19"}, 0, false},
		{"1E999999999", decimal{false, "1", "999999999"}, 0, false},
		{"1e-999999999999999999999999", decimal{false, "1", "-999999999999999999999999"}, 0, false},
		{"0.001e1000000000000000000000", decimal{false, "1", "999999999999999999997"}, 0, false},
		{"1e00000000000000000000000000002", decimal{false, "1", "2"}, 100, true},
		{maxInt, decimal{false, maxInt, "0"}, 9223372036854775807, true},
		{minInt, decimal{true, minInt[1:], "0"}, -9223372036854775808, true},
		{"9223372036854775808", decimal{false, "9223372036854775808", "0"}, 0, false},
		{"9007199254740993", decimal{false, "9007199254740993", "0"}, 9007199254740993, true},
	}
	for _, test := range tests {
		t.Run(test.literal, func(t *testing.T) {
			t.Parallel()
			d, err := parseDocument([]byte(`{"n":` + test.literal + `}`))
			if err != nil {
				t.Fatal(err)
			}
			value, _ := d.member("n")
			if value.number != test.want {
				t.Errorf("%s reads as %+v, want %+v", test.literal, value.number, test.want)
			}
			if n, ok := value.integer(); n != test.integer || ok != test.whole {
				t.Errorf("integer() of %s = %d, %t, want %d, %t", test.literal, n, ok, test.integer, test.whole)
			}
		})
	}
}

// What is read is valid for the standard library too and keeps its meaning when
// it is written in another way; what is refused tells a bounded reason.
func FuzzParseDocument(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"a":1,"b":[true,false,null,"x"]}`, `{"a":1,"\u0061":1}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud800"}`,
		"\uFEFF{}", `{"a":1e999999999}`, `{"a":-0.50E+3}`, `[1]`, `{} x`, `{"a":`, "{\"a\":\"\xff\"}", `{"a":{"b":{"c":[[[]]]}}}`,
		`{"a":"\`, `{"a":"\ud8`, `{"limite_ms":1.5e3,"nombre":"avisos","url":"http://example.com/"}`,
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		d, err := parseDocument(body)
		if err != nil {
			if _, ok := errors.AsType[*documentError](err); !ok || len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
				t.Fatalf("parseDocument(%q) = %q, want a short documentError", body, err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("parseDocument(%q) reads it, want an error: it is not valid JSON", body)
		}
		other := respell(d, rand.New(rand.NewPCG(seed, 0)))
		again, err := parseDocument([]byte(other))
		if err != nil || !reflect.DeepEqual(again.root, d.root) {
			t.Errorf("parseDocument(%q) = %+v, %v, want the same as %q", other, again, err, body)
		}
		checkIntegers(t, d.root)
	})
}

// checkIntegers compares integer with the exact arithmetic of math/big.
func checkIntegers(t *testing.T, v jsonValue) {
	t.Helper()
	for _, element := range v.elements {
		checkIntegers(t, element)
	}
	for _, member := range v.members {
		checkIntegers(t, member.value)
	}
	if v.kind != jsonNumber || len(v.number.exponent) > 4 {
		return
	}
	exact, ok := new(big.Rat).SetString("0" + v.number.digits + "e" + v.number.exponent)
	if !ok {
		t.Fatalf("the decimal %+v is no number", v.number)
	}
	if v.number.negative {
		exact.Neg(exact)
	}
	n, ok := v.integer()
	if want := exact.IsInt() && exact.Num().IsInt64(); ok != want || ok && n != exact.Num().Int64() {
		t.Errorf("integer() of %+v = %d, %t, want %v, %t", v.number, n, ok, exact, want)
	}
}

// respell writes a document with the white space, escapes and spellings of
// numbers that chance dictates: other bytes, the same data.
func respell(d document, chance *rand.Rand) string {
	var b strings.Builder
	respellValue(&b, d.root, chance)
	return respellSpace(chance) + b.String() + respellSpace(chance)
}

func respellValue(b *strings.Builder, v jsonValue, chance *rand.Rand) {
	space := func() { b.WriteString(respellSpace(chance)) }
	switch v.kind {
	case jsonNull:
		b.WriteString("null")
	case jsonBoolean:
		b.WriteString(strconv.FormatBool(v.truth))
	case jsonText:
		respellText(b, v.chars, chance)
	case jsonNumber:
		b.WriteString(respellNumber(v.number, chance))
	case jsonArray:
		b.WriteByte('[')
		for i, element := range v.elements {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			respellValue(b, element, chance)
			space()
		}
		b.WriteByte(']')
	case jsonObject:
		b.WriteByte('{')
		for i, member := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			respellText(b, member.name, chance)
			space()
			b.WriteByte(':')
			space()
			respellValue(b, member.value, chance)
			space()
		}
		b.WriteByte('}')
	}
}

func respellSpace(chance *rand.Rand) string {
	return []string{"", "", " ", "\n\t", "\r\n  "}[chance.IntN(5)]
}

func respellText(b *strings.Builder, s string, chance *rand.Rand) {
	escape := func(unit uint16) {
		hex := strconv.FormatUint(uint64(unit)|0x10000, 16)[1:]
		if chance.IntN(2) == 0 {
			hex = strings.ToUpper(hex)
		}
		b.WriteString(`\u` + hex)
	}
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r >= ' ' && r != '"' && r != '\\' && chance.IntN(2) == 0:
			b.WriteRune(r)
		case r == '/' || r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			escape(uint16(high))
			escape(uint16(low))
		default:
			escape(uint16(r))
		}
	}
	b.WriteByte('"')
}

func respellNumber(d decimal, chance *rand.Rand) string {
	if d.digits == "" {
		return []string{"0", "-0", "0.0", "0e7", "-0.00E-9", "0E+12345678901234567890"}[chance.IntN(6)]
	}
	// Any zeros may follow the digits, and the point may stand anywhere.
	zeros := chance.IntN(3)
	digits := d.digits + strings.Repeat("0", zeros)
	point := chance.IntN(len(digits)) + 1
	literal := digits[:point]
	if point < len(digits) {
		literal += "." + digits[point:]
	} else if chance.IntN(2) == 0 {
		literal += ".0"
	}
	if literal[0] == '0' && point > 1 {
		panic("digits begins with a zero: " + digits)
	}
	exponent, _ := new(big.Int).SetString(d.exponent, 10)
	exponent.Add(exponent, big.NewInt(int64(len(d.digits)-point)))
	if d.negative {
		literal = "-" + literal
	}
	if exponent.Sign() == 0 && chance.IntN(2) == 0 {
		return literal
	}
	sign := ""
	if exponent.Sign() >= 0 && chance.IntN(2) == 0 {
		sign = "+"
	}
	return literal + []string{"e", "E"}[chance.IntN(2)] + sign + exponent.String()
}
