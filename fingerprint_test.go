// fingerprint_test.go owns which keys are read, and when two requests have the same
// fingerprint.

package main

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func TestParseIdempotencyKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	const visible = `!#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_` + "`" + `abcdefghijklmnopqrstuvwxyz{|}~`
	tests := []struct {
		name  string
		lines []string
		want  string
	}{
		{"bare", []string{"k1"}, "k1"},
		{"bare, one character", []string{"k"}, "k"},
		{"bare, every visible character but the quote", []string{visible}, visible},
		{"bare, comma and semicolon are literal", []string{"a,b;c=1"}, "a,b;c=1"},
		{"bare, backslash is literal", []string{`a\b`}, `a\b`},
		{"bare, percent is literal", []string{"a%20b"}, "a%20b"},
		{"bare, 255 characters", []string{long}, long},
		{"bare UUID", []string{"8e03978e-40d5-43dd-bc93-6894a57f9324"}, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{"bare, what else would be another structured type", []string{"?1"}, "?1"},

		{"quoted", []string{`"k1"`}, "k1"},
		{"quoted, spaces belong to the key", []string{`" k 1 "`}, " k 1 "},
		{"quoted, escaped quote", []string{`"a\"b"`}, `a"b`},
		{"quoted, escaped backslash", []string{`"a\\b"`}, `a\b`},
		{"quoted, comma", []string{`"a, b"`}, "a, b"},
		{"quoted, every visible character but quote and backslash",
			[]string{`"` + strings.ReplaceAll(visible, `\`, "") + `"`}, strings.ReplaceAll(visible, `\`, "")},
		{"quoted, 255 characters", []string{`"` + long + `"`}, long},
		{"quoted, 255 characters once unescaped", []string{`"` + strings.Repeat(`\"`, 255) + `"`}, strings.Repeat(`"`, 255)},
		{"parameter", []string{`"k1";a=1`}, "k1"},
		{"parameter without a value", []string{`"k1";a`}, "k1"},
		{"parameters of every type", []string{`"k1"; a=1; b=-2.5;c=?0;d="x;\"y";e=tok/en:1;f=:YQ==:;g=@1659578233;h=%"f%c3%bc"`}, "k1"},
		{"parameter twice", []string{`"k1";a=1;a=2`}, "k1"},

		{"no line", nil, ""},
		{"empty", []string{""}, ""},
		{"empty between the quotes", []string{`""`}, ""},
		{"empty with parameters", []string{`"";a=1`}, ""},
		{"two lines", []string{"k1", "k2"}, ""},
		{"two equal lines", []string{"k1", "k1"}, ""},
		{"an empty second line", []string{"k1", ""}, ""},
		{"bare, 256 characters", []string{long + "k"}, ""},
		{"quoted, 256 characters", []string{`"` + long + `k"`}, ""},
		{"quoted, 256 characters once unescaped", []string{`"` + strings.Repeat(`\\`, 256) + `"`}, ""},
		{"bare, space inside", []string{"k 1"}, ""},
		{"bare, space before", []string{" k1"}, ""},
		{"bare, space after", []string{"k1 "}, ""},
		{"bare, tab", []string{"k\t1"}, ""},
		{"bare, control character", []string{"k\x011"}, ""},
		{"bare, DEL", []string{"k\x7f"}, ""},
		{"bare, NUL", []string{"k\x00"}, ""},
		{"bare, non-ASCII", []string{"llavé"}, ""},
		{"bare, not UTF-8", []string{"k\xff"}, ""},
		{"bare, quote inside", []string{`k"1`}, ""},
		{"bare, quote at the end", []string{`k1"`}, ""},
		{"bare, quoted parameter", []string{`k1;a="x"`}, ""},
		{"quote never closed", []string{`"k1`}, ""},
		{"a lone quote", []string{`"`}, ""},
		{"closing quote escaped", []string{`"k1\"`}, ""},
		{"escape of another character", []string{`"k\n"`}, ""},
		{"quoted, tab", []string{"\"k\t1\""}, ""},
		{"quoted, control character", []string{"\"k\x1f\""}, ""},
		{"quoted, DEL", []string{"\"k\x7f\""}, ""},
		{"quoted, non-ASCII", []string{`"llavé"`}, ""},
		{"quoted, not UTF-8", []string{"\"\xff\""}, ""},
		{"quoted, something after", []string{`"k1"x`}, ""},
		{"quoted, another quoted after", []string{`"k1""k2"`}, ""},
		{"list of two", []string{`"k1", "k2"`}, ""},
		{"comma after", []string{`"k1",`}, ""},
		{"quoted, space before", []string{` "k1"`}, ""},
		{"quoted, space after", []string{`"k1" `}, ""},
		{"parameter, space after", []string{`"k1";a=1 `}, ""},
		{"parameter, space before the semicolon", []string{`"k1" ;a=1`}, ""},
		{"parameter, space before the next semicolon", []string{`"k1";a=1 ;b`}, ""},
		{"parameter without a name", []string{`"k1";`}, ""},
		{"parameter in upper case", []string{`"k1";A=1`}, ""},
		{"parameter without its value", []string{`"k1";a=`}, ""},
		{"parameter with a broken value", []string{`"k1";a="x`}, ""},
		{"parameter, space around the sign", []string{`"k1";a =1`}, ""},
		{"parameter, number too long", []string{`"k1";a=1234567890123456`}, ""},
		{"inner list", []string{`("k1")`}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseIdempotencyKey(test.lines)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("parseIdempotencyKey(%q) = %q, %v, want %q", test.lines, got, err, test.want)
			}
			if err != nil && !errors.Is(err, errMalformedKey) {
				t.Errorf("parseIdempotencyKey(%q) = %v, want errMalformedKey", test.lines, err)
			}
		})
	}
}

func TestMalformedKeyTellsWhy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		lines []string
		want  string
	}{
		{nil, "la llave de idempotencia no es válida: falta la cabecera Idempotency-Key"},
		{[]string{"a", "b"}, "la llave de idempotencia no es válida: la cabecera Idempotency-Key vino más de una vez"},
		{[]string{""}, "la llave de idempotencia no es válida: está vacía"},
		{[]string{`""`}, "la llave de idempotencia no es válida: está vacía"},
		{[]string{strings.Repeat("k", 256)}, "la llave de idempotencia no es válida: tiene más de 255 caracteres"},
		{[]string{"a b"}, "la llave de idempotencia no es válida: sin comillas solo admite caracteres ASCII visibles, y ninguna comilla doble"},
		{[]string{`"a`}, "la llave de idempotencia no es válida: entre comillas tiene que ser una cadena de RFC 9651, y nada más"},
	}
	for _, test := range tests {
		if _, err := parseIdempotencyKey(test.lines); err == nil || err.Error() != test.want {
			t.Errorf("parseIdempotencyKey(%q) = %v, want %s", test.lines, err, test.want)
		}
	}
}

func mustDocument(t *testing.T, body string) document {
	t.Helper()
	d, err := parseDocument([]byte(body))
	if err != nil {
		t.Fatalf("parseDocument(%q) = %v, want no error", body, err)
	}
	return d
}

func TestFingerprintDocument(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		one, two string
		same     bool
	}{
		{"white space", `{"a":[1,{"b":2}]}`, "\r\n{ \"a\" :\t[ 1 , { \"b\" : 2 } ] } ", true},
		{"escapes in a text", `{"a":"ñ/\"😀"}`, `{"a":"\u00F1\/\u0022\uD83D\ude00"}`, true},
		{"escapes in a name", `{"url":1}`, `{"\u0075rl":1}`, true},
		{"1 and 1.0", `{"n":1}`, `{"n":1.0}`, true},
		{"1 and 1e0", `{"n":1}`, `{"n":1e0}`, true},
		{"1 and 10e-1", `{"n":1}`, `{"n":10e-1}`, true},
		{"1500 and 1.5e3", `{"n":1500}`, `{"n":1.5E+3}`, true},
		{"-0 and 0", `{"n":-0}`, `{"n":0.0e9}`, true},
		{"enormous equals", `{"n":1e999999999}`, `{"n":10e999999998}`, true},

		{"enormous neighbours", `{"n":1e999999999}`, `{"n":1e999999998}`, false},
		{"beyond the exactness of a double", `{"n":9007199254740992}`, `{"n":9007199254740993}`, false},
		{"below the smallest double", `{"n":1e-400}`, `{"n":0}`, false},
		{"sign", `{"n":1}`, `{"n":-1}`, false},
		{"order of members", `{"a":1,"b":2}`, `{"b":2,"a":1}`, false},
		{"order of members, deep", `{"o":{"a":1,"b":2}}`, `{"o":{"b":2,"a":1}}`, false},
		{"order of elements", `{"l":[1,2]}`, `{"l":[2,1]}`, false},
		{"text and number", `{"n":"1"}`, `{"n":1}`, false},
		{"text and boolean", `{"n":"true"}`, `{"n":true}`, false},
		{"text and null", `{"n":"null"}`, `{"n":null}`, false},
		{"false and null", `{"n":false}`, `{"n":null}`, false},
		{"false and 0", `{"n":false}`, `{"n":0}`, false},
		{"null and nothing", `{"n":null}`, `{}`, false},
		{"empty array and empty object", `{"n":[]}`, `{"n":{}}`, false},
		{"array and object", `{"n":["a","b"]}`, `{"n":{"a":"b"}}`, false},
		{"nesting", `{"n":[[1],2]}`, `{"n":[[1,2]]}`, false},
		{"one text or two", `{"n":["ab"]}`, `{"n":["a","b"]}`, false},
		{"where a text ends", `{"n":["a","bc"]}`, `{"n":["ab","c"]}`, false},
		{"where a name ends", `{"ab":"c"}`, `{"a":"bc"}`, false},
		{"letter case", `{"a":1}`, `{"A":1}`, false},
		{"composed and decomposed", `{"a":"\u00f1"}`, `{"a":"n\u0303"}`, false},
		{"an explicit default", `{"nombre":"a"}`, `{"nombre":"a","limite_ms":2000}`, false},
		{"an unknown member", `{"nombre":"a"}`, `{"nombre":"a","x":1}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			one := fingerprintDocument(schemeOrdered, "POST", "/servicios", mustDocument(t, test.one))
			two := fingerprintDocument(schemeOrdered, "POST", "/servicios", mustDocument(t, test.two))
			if got := one == two; got != test.same {
				t.Errorf("fingerprints of %s and %s are equal = %t, want %t", test.one, test.two, got, test.same)
			}
		})
	}
}

// No two of these requests may share a fingerprint.
func TestFingerprintsAreFramed(t *testing.T) {
	t.Parallel()
	empty := mustDocument(t, `{}`)
	prints := map[string]fingerprint{
		"POST /a, document":               fingerprintDocument(schemeOrdered, "POST", "/a", empty),
		"PUT /a, document":                fingerprintDocument(schemeOrdered, "PUT", "/a", empty),
		"POST /b, document":               fingerprintDocument(schemeOrdered, "POST", "/b", empty),
		"POS T/a, document":               fingerprintDocument(schemeOrdered, "POS", "T/a", empty),
		"POST /a, raw {}":                 fingerprintBytes("POST", "/a", []byte("{}")),
		"POST /a, raw { }":                fingerprintBytes("POST", "/a", []byte("{ }")),
		"POST /a, raw nothing":            fingerprintBytes("POST", "/a", nil),
		"POST /a, raw zero byte":          fingerprintBytes("POST", "/a", []byte{0}),
		"POST /a{}, raw nothing":          fingerprintBytes("POST", "/a{}", nil),
		"POST/ a, raw nothing":            fingerprintBytes("POST/", "a", nil),
		"POST nothing, raw /a":            fingerprintBytes("POST", "", []byte("/a")),
		"nothing, raw nothing":            fingerprintBytes("", "", nil),
		"POST /a, raw encoded document":   fingerprintBytes("POST", "/a", []byte("Do\x00\x00\x00\x00\x00\x00\x00\x00")),
		"POST /a, raw encoding's own end": fingerprintBytes("POST", "/a", []byte("o\x00\x00\x00\x00\x00\x00\x00\x00")),
	}
	seen := make(map[fingerprint]string)
	for name, print := range prints {
		if other, taken := seen[print]; taken {
			t.Errorf("%q and %q have one fingerprint, want two", name, other)
		}
		seen[print] = name
		if print[0] != schemeOrdered {
			t.Errorf("the fingerprint of %q begins with %d, want the scheme %d", name, print[0], schemeOrdered)
		}
	}
	if a, b := fingerprintBytes("POST", "/a", nil), fingerprintBytes("POST", "/a", []byte{}); a != b {
		t.Errorf("fingerprints of no body and an empty one = %x and %x, want them equal", a, b)
	}
}

// Keys recorded by one release are compared by the next, so the encoding may
// only change together with schemeOrdered.
func TestFingerprintEncodingIsPinned(t *testing.T) {
	t.Parallel()
	frame := func(s string) string { return "\x00\x00\x00\x00\x00\x00\x00" + string(rune(len(s))) + s }
	count := func(n int) string { return "\x00\x00\x00\x00\x00\x00\x00" + string(rune(n)) }
	request := frame("POST") + frame("/servicios")
	const body = `{"a":[null,false,true,"x"],"b":-1.5,"c":100}`
	encoding := request + "D" + "o" + count(3) +
		frame("a") + "a" + count(4) + "nft" + "s" + frame("x") +
		frame("b") + "-" + frame("15") + frame("-1") +
		frame("c") + "+" + frame("1") + frame("2")
	digest := sha256.Sum256([]byte(encoding))
	want := fingerprint(append([]byte{1}, digest[:]...))
	if got := fingerprintDocument(schemeOrdered, "POST", "/servicios", mustDocument(t, body)); got != want {
		t.Errorf("fingerprintDocument(%s) = %x, want %x", body, got, want)
	}
	digest = sha256.Sum256([]byte(request + "R" + frame("x")))
	want = fingerprint(append([]byte{1}, digest[:]...))
	if got := fingerprintBytes("POST", "/servicios", []byte("x")); got != want {
		t.Errorf("fingerprintBytes(x) = %x, want %x", got, want)
	}
}

// The difficult cases of RFC 8785: its own examples (sections 3.2.2 and 3.2.3,
// appendix B), spelled freely on the left and in canonical form on the right.
func TestCanonicalFingerprint(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		a, b string
		want bool // the same request
	}{
		{"order of members", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"order inside arrays matters", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"order inside objects inside arrays", `{"a":[{"x":1,"y":2}]}`, `{"a":[{"y":2,"x":1}]}`, true},
		{"the sample of section 3.2.2", `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],` +
			`"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`, true},
		{"names sort by UTF-16 units", `{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			`{"\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}`, true},
		{"minus zero", `{"a":-0}`, `{"a":0}`, true},
		{"the smallest double", `{"a":5e-324}`, `{"a":4.9406564584124654e-324}`, true},
		{"the largest double", `{"a":1.7976931348623157e308}`, `{"a":1.7976931348623157081e308}`, true},
		{"large integers are doubles", `{"a":9007199254740993}`, `{"a":9007199254740992}`, true},
		{"21 digits and exponent form", `{"a":1e21}`, `{"a":1000000000000000000000}`, true},
		{"small exponent form", `{"a":1e-7}`, `{"a":0.0000001}`, true},
		{"beyond a double keeps the order", `{"a":1e400,"b":1}`, `{"b":1,"a":1e400}`, false},
		{"beyond a double compares exactly", `{"a":1e400}`, `{"a":1e500}`, false},
		{"beyond a double is still data", `{"a":1e400}`, `{ "a" : 10e399 }`, true},
		{"another value", `{"a":1}`, `{"a":2}`, false},
		{"text is no number", `{"a":1}`, `{"a":"1"}`, false},
		{"an extra member", `{"a":1}`, `{"a":1,"b":null}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := fingerprintDocument(schemeCanonical, "POST", "/servicios", mustDocument(t, test.a))
			b := fingerprintDocument(schemeCanonical, "POST", "/servicios", mustDocument(t, test.b))
			if (a == b) != test.want {
				t.Errorf("fingerprints of %s and %s equal = %t, want %t", test.a, test.b, a == b, test.want)
			}
		})
	}
}

// A key that is read is within its bounds, and is the same key in quotes.
func FuzzParseIdempotencyKey(f *testing.F) {
	for _, seed := range []string{
		"k1", `"k1"`, `"k1";a=1`, `"a\"b"`, "", `""`, `"`, `k"`, "k 1", "llavé", `"k1", "k2"`, `"k1" `, `"k";a=:YQ==:`,
		`"k";a=%"f%c3"`, `"k";a=-`, `"k";a=@`, strings.Repeat("k", 256),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, err := parseIdempotencyKey([]string{line})
		if err != nil {
			if !errors.Is(err, errMalformedKey) || key != "" || len(err.Error()) > 200 {
				t.Fatalf("parseIdempotencyKey(%q) = %q, %v, want no key and a short errMalformedKey", line, key, err)
			}
			return
		}
		if len(key) < 1 || len(key) > 255 || strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			t.Fatalf("parseIdempotencyKey(%q) = %q, want 1 to 255 printable characters", line, key)
		}
		if !strings.HasPrefix(line, `"`) && key != line {
			t.Errorf("parseIdempotencyKey(%q) = %q, want it as it came", line, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if strings.HasPrefix(line, `"`) && !strings.HasPrefix(line, quoted) {
			t.Errorf("parseIdempotencyKey(%q) = %q, want what is between the quotes", line, key)
		}
		if again, err := parseIdempotencyKey([]string{quoted}); err != nil || again != key {
			t.Errorf("parseIdempotencyKey(%q) = %q, %v, want %q", quoted, again, err, key)
		}
		if _, err := parseIdempotencyKey([]string{line, line}); err == nil {
			t.Errorf("parseIdempotencyKey of %q twice is read, want an error", line)
		}
	})
}

// Two documents have one fingerprint if and only if they are the same data, and
// writing a document differently does not change its fingerprint.
func FuzzFingerprint(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":1}`, `{"a":1.0}`}, {`{"a":1,"b":2}`, `{"b":2,"a":1}`}, {`{"a":"1"}`, `{"a":1}`}, {`{}`, `{"a":null}`},
		{`{"a":[[],{}]}`, `{"a":[{},[]]}`}, {`{"a":-0}`, `{"a":0}`}, {`{"a":1e999999999}`, `{"a":0.1e1000000000}`},
		{`{"\u0061":"\ud83d\ude00"}`, `{"a":"😀"}`},
	} {
		f.Add("POST", "/servicios", []byte(seed[0]), []byte(seed[1]), uint64(7))
	}
	f.Fuzz(func(t *testing.T, method, path string, bodyOne, bodyTwo []byte, seed uint64) {
		raw := fingerprintBytes(method, path, bodyOne)
		if same := raw == fingerprintBytes(method, path, bodyTwo); same != (string(bodyOne) == string(bodyTwo)) {
			t.Errorf("fingerprintBytes of %q and %q are equal = %t, want %t", bodyOne, bodyTwo, same, !same)
		}
		one, err := parseDocument(bodyOne)
		if err != nil {
			return
		}
		print := fingerprintDocument(schemeOrdered, method, path, one)
		if print == raw {
			t.Errorf("%q has one fingerprint as JSON and as bytes, want two", bodyOne)
		}
		other := respell(one, rand.New(rand.NewPCG(seed, 1)))
		again, err := parseDocument([]byte(other))
		if err != nil || fingerprintDocument(schemeOrdered, method, path, again) != print {
			t.Errorf("%q and %q (%v) have two fingerprints, want one", bodyOne, other, err)
		}
		if moved := fingerprintDocument(schemeOrdered, method, path+"/", one); moved == print {
			t.Errorf("%q has one fingerprint under %q and %q/, want two", bodyOne, path, path)
		}
		if two, err := parseDocument(bodyTwo); err == nil {
			same := fingerprintDocument(schemeOrdered, method, path, two) == print
			if want := reflect.DeepEqual(one.root, two.root); same != want {
				t.Errorf("fingerprints of %q and %q are equal = %t, want %t", bodyOne, bodyTwo, same, want)
			}
		}
	})
}
