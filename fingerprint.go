// fingerprint.go owns what makes two requests one: the idempotency key, read strictly,
// and the fingerprint of the request under it. Pure: it sees text and bytes and must
// not know HTTP servers, nor where keys are kept.

package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/dunglas/httpsfv"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxKeyLength is the most characters of an idempotency key, as published.
	maxKeyLength = 255
	// schemeOrdered and schemeCanonical are the versions of the encodings below: the
	// first byte of a fingerprint. An encoding that gives the same request another hash
	// takes a new number, for keys outlive an upgrade.
	schemeOrdered   = 1
	schemeCanonical = 2
	// hashBuffer gathers the small pieces of an encoding into whole blocks.
	hashBuffer = 512
)

// What stands in front of each piece of the encoding, and what follows it:
// nothing, a frame (eight bytes of length, then so many bytes) or a count of
// eight bytes. No encoding is the beginning of another one, so no two different
// requests share theirs.
const (
	tagRawBody   = 'R' // frame
	tagDocument  = 'D' // one value
	tagCanonical = 'C' // frame
	tagNull      = 'n'
	tagFalse     = 'f'
	tagTrue      = 't'
	tagText      = 's' // frame
	tagPositive  = '+' // frame of digits, frame of exponent; zero too
	tagNegative  = '-' // likewise
	tagArray     = 'a' // count, so many values
	tagObject    = 'o' // count, so many frames of a name and values
)

// errMalformedKey is an Idempotency-Key that is not read. It comes wrapped with
// the reason: the whole text is a sentence fit for a problem's detail.
var errMalformedKey = errors.New("la llave de idempotencia no es válida")

// fingerprint identifies what a request asks for: one byte of scheme, then a
// SHA-256.
type fingerprint [1 + sha256.Size]byte

// parseIdempotencyKey reads the lines of an Idempotency-Key field: exactly one,
// with either a bare value of visible ASCII characters without double quotes,
// taken literally, or a String of RFC 9651 section 3.3.3, whose parameters are
// ignored. The key has 1 to 255 characters. Anything else is an errMalformedKey:
// a client that believes itself protected must learn that it is not.
func parseIdempotencyKey(lines []string) (string, error) {
	switch {
	case len(lines) == 0:
		return "", malformedKey("falta la cabecera Idempotency-Key")
	case len(lines) > 1:
		return "", malformedKey("la cabecera Idempotency-Key vino más de una vez")
	}
	key, err := unwrapKey(lines[0])
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", malformedKey("está vacía")
	case len(key) > maxKeyLength:
		return "", malformedKey(fmt.Sprintf("tiene más de %d caracteres", maxKeyLength))
	}
	return key, nil
}

// unwrapKey takes the spelling off a key of any length.
func unwrapKey(line string) (string, error) {
	if !strings.HasPrefix(line, `"`) {
		for i := range len(line) {
			if line[i] < 0x21 || line[i] > 0x7E || line[i] == '"' {
				return "", malformedKey("sin comillas solo admite caracteres ASCII visibles, y ninguna comilla doble")
			}
		}
		return line, nil
	}
	// A field value comes without white space around it (RFC 9110 section 5.5).
	// The parser forgives spaces at the end; a key forgives none, in either form.
	item, err := httpsfv.UnmarshalItem([]string{line})
	key, isString := item.Value.(string)
	if err != nil || !isString || strings.HasSuffix(line, " ") {
		return "", malformedKey("entre comillas tiene que ser una cadena de RFC 9651, y nada más")
	}
	return key, nil
}

// fingerprintDocument is the fingerprint of a request whose body is JSON, as data:
// white space and escapes do not matter. Under schemeOrdered numbers compare by exact
// value and the order of members matters. Under schemeCanonical the body is brought
// into the form of RFC 8785, so that the order does not matter and numbers are IEEE
// 754 doubles; a body with a number that is none (1e400) has no such form and keeps
// schemeOrdered. path has no query.
func fingerprintDocument(scheme byte, method, path string, d document) fingerprint {
	if scheme == schemeCanonical && d.root.onlyDoubles() {
		canonical := jsontext.Value(bytes.Clone(d.source))
		if err := canonical.Canonicalize(); err == nil {
			e := newFingerprintEncoder(method, path)
			e.tag(tagCanonical)
			e.frame(string(canonical))
			return e.sum(schemeCanonical)
		}
	}
	e := newFingerprintEncoder(method, path)
	e.tag(tagDocument)
	e.value(d.root)
	return e.sum(schemeOrdered)
}

// fingerprintBytes is the fingerprint of a request whose body is not
// interpreted. path has no query.
func fingerprintBytes(method, path string, body []byte) fingerprint {
	e := newFingerprintEncoder(method, path)
	e.tag(tagRawBody)
	e.count(len(body))
	e.out.Write(body)
	return e.sum(schemeOrdered)
}

// fingerprintEncoder writes the encoding of a request into a hash as it goes.
// A hash takes every write, so none of them is checked.
type fingerprintEncoder struct {
	hash hash.Hash
	out  *bufio.Writer
}

func newFingerprintEncoder(method, path string) fingerprintEncoder {
	h := sha256.New()
	e := fingerprintEncoder{hash: h, out: bufio.NewWriterSize(h, hashBuffer)}
	e.frame(method)
	e.frame(path)
	return e
}

func (e fingerprintEncoder) tag(tag byte) { e.out.WriteByte(tag) }

func (e fingerprintEncoder) count(n int) {
	var eight [8]byte
	binary.BigEndian.PutUint64(eight[:], uint64(n))
	e.out.Write(eight[:])
}

func (e fingerprintEncoder) frame(s string) {
	e.count(len(s))
	e.out.WriteString(s)
}

func (e fingerprintEncoder) value(v jsonValue) {
	switch v.kind {
	case jsonNull:
		e.tag(tagNull)
	case jsonBoolean:
		if v.truth {
			e.tag(tagTrue)
		} else {
			e.tag(tagFalse)
		}
	case jsonText:
		e.tag(tagText)
		e.frame(v.chars)
	case jsonNumber:
		e.number(v.number)
	case jsonArray:
		e.tag(tagArray)
		e.count(len(v.elements))
		for _, element := range v.elements {
			e.value(element)
		}
	case jsonObject:
		e.tag(tagObject)
		e.count(len(v.members))
		for _, member := range v.members {
			e.frame(member.name)
			e.value(member.value)
		}
	}
}

func (e fingerprintEncoder) number(d decimal) {
	if d.negative {
		e.tag(tagNegative)
	} else {
		e.tag(tagPositive)
	}
	e.frame(d.digits)
	e.frame(d.exponent)
}

func (e fingerprintEncoder) sum(scheme byte) fingerprint {
	e.out.Flush()
	f := fingerprint{scheme}
	e.hash.Sum(f[:1])
	return f
}

// malformedKey wraps errMalformedKey with the reason, in Spanish.
func malformedKey(reason string) error {
	return fmt.Errorf("%w: %s", errMalformedKey, reason)
}
