// rawforms.go owns the ways in which an answer of the bench is not HTTP as it should be
// (RFC 9112): cut anywhere, of a false length, in bad chunks, without end. It must not know
// who asks, nor how bytes are written.

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// cutMissing is how many bytes of a cut body were promised and do not come.
	cutMissing = 1000
	// The first bytes of an answer, whole and cut.
	rawStatusLine    = "HTTP/1.1 200 OK\r\n"
	rawStatusLineCut = "HTTP/1.1 2"
	rawHeaderCut     = "Content-Type: text/pl"
	// chunkedField declares a body in chunks; lastChunk ends it, without trailers.
	chunkedField = "Transfer-Encoding: chunked"
	lastChunk    = "0\r\n\r\n"
)

// rawTask is what an answer may depend on.
type rawTask struct {
	text  string // the two lines that the bench would say
	now   time.Time
	bytes int64 // asked for with ?bytes
	most  int64 // bytes, where "endless" ends
}

// rawForm is one way to be wrong: its name in the path, and what is told of it. The answer's
// end is the route's, unless it has its own.
type rawForm struct {
	name, what string
	answer     func(t rawTask) rawAnswer
}

// cutPlaces are where an answer can be cut.
var cutPlaces = []rawForm{
	{"antes", "antes del primer byte", func(rawTask) rawAnswer { return rawAnswer{} }},
	{"estado", "en mitad de la línea de estado", func(rawTask) rawAnswer { return rawAnswer{head: rawStatusLineCut} }},
	{"cabeceras", "en mitad de las cabeceras", func(rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: rawStatusLine + rawHeaderCut}
	}},
	{"tras-cabeceras", "después de las cabeceras, que prometían un cuerpo", func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: okHead(t, contentLength(cutMissing))}
	}},
	{"cuerpo", "en el cuerpo, que iba a ser 1000 bytes más largo", func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: okHead(t, contentLength(t.bytes+cutMissing)), body: fillerBody(t.bytes)}
	}},
	{"trozo", "en un trozo (chunk) al que le faltan 1000 bytes", func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: okHead(t, chunkedField), body: inTurn(
			textBody(fmt.Sprintf("%x\r\n", t.bytes+cutMissing)), fillerBody(t.bytes))}
	}},
}

// lengthForms are the lengths that are not the body's.
var lengthForms = []rawForm{
	{"corta", "la mitad de lo que envía", withLength(func(n int) []string { return []string{contentLength(int64(n / 2))} })},
	{"larga", "el doble de lo que envía antes de cerrar", withLength(func(n int) []string { return []string{contentLength(int64(2 * n))} })},
	{"abierta", "el doble de lo que envía, y no cierra", func(t rawTask) rawAnswer {
		answer := withLength(func(n int) []string { return []string{contentLength(int64(2 * n))} })(t)
		answer.end = (*rawConnection).keepOpen
		return answer
	}},
	{"dos", "dos longitudes distintas", withLength(func(n int) []string {
		return []string{contentLength(int64(n)), contentLength(int64(n + 1))}
	})},
	{"palabra", "una palabra", withLength(func(int) []string { return []string{"Content-Length: muchos"} })},
	{"negativa", "un número negativo", withLength(func(n int) []string { return []string{contentLength(int64(-n))} })},
	{"enorme", "más de lo que cabe en 64 bits", withLength(func(int) []string {
		return []string{"Content-Length: " + strings.Repeat("9", 20)}
	})},
	{"con-trozos", "una longitud y además trozos, que es como se cuelan peticiones", func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: okHead(t, contentLength(5), chunkedField), body: textBody(chunk(t.text) + lastChunk)}
	}},
}

// chunkForms are the chunks that are none (RFC 9112 section 7.1).
var chunkForms = []rawForm{
	{"no-hexadecimal", "un tamaño que no es hexadecimal", inChunks(func(text string) string { return "xyz\r\n" + text + "\r\n" + lastChunk })},
	{"negativo", "un tamaño negativo", inChunks(func(text string) string { return fmt.Sprintf("-%x\r\n%s\r\n%s", len(text), text, lastChunk) })},
	{"enorme", "un tamaño que no cabe en 64 bits", inChunks(func(text string) string { return strings.Repeat("f", 17) + "\r\n" + text + "\r\n" + lastChunk })},
	{"sin-salto", "sin el salto de línea que termina el trozo", inChunks(func(text string) string { return fmt.Sprintf("%x\r\n%s%s", len(text), text, lastChunk) })},
	{"mas-largo", "un trozo más largo de lo que dice", inChunks(func(text string) string {
		return fmt.Sprintf("%x\r\n%s\r\n%s", len(text)/2, text, lastChunk)
	})},
	{"mas-corto", "un trozo más corto de lo que dice", inChunks(func(text string) string {
		return fmt.Sprintf("%x\r\n%s\r\n%s", 2*len(text), text, lastChunk)
	})},
	{"sin-final", "todo bien, pero falta el último trozo", inChunks(chunk)},
}

// endlessForms go on until the bench's limit of bytes.
var endlessForms = []rawForm{
	{"cabeceras", "una cabecera tras otra", func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: rawStatusLine, more: repeat("X-Sin-Fin: "+fillerLine[:len(fillerLine)-1]+"\r\n", t.most)}
	}},
	{"cabecera", "una sola cabecera, que no termina", func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: rawStatusLine + "X-Sin-Fin: ", more: repeat(strings.Repeat("x", len(fillerLine)), t.most)}
	}},
	{"cuerpo", "un cuerpo en trozos, que no termina", func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: okHead(t, chunkedField), body: repeat(chunk(fillerLine), t.most)}
	}},
}

// rawHead is a whole header section of the bench's.
func rawHead(status int, now time.Time, fields ...string) string {
	lines := slices.Concat([]string{
		fmt.Sprintf("HTTP/1.1 %d %s", status, statusPhrase(status)),
		"Date: " + now.UTC().Format(http.TimeFormat),
		"Content-Type: " + labContentType,
	}, fields, []string{"Connection: close"})
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func okHead(t rawTask, fields ...string) string { return rawHead(http.StatusOK, t.now, fields...) }

func contentLength(n int64) string { return fmt.Sprintf("Content-Length: %d", n) }

// withLength declares, for a body of n bytes, what fields says.
func withLength(fields func(n int) []string) func(rawTask) rawAnswer {
	return func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: okHead(t, fields(len(t.text))...), body: textBody(t.text)}
	}
}

// inChunks declares chunks and sends what spell makes of the text.
func inChunks(spell func(text string) string) func(rawTask) rawAnswer {
	return func(t rawTask) rawAnswer {
		return rawAnswer{status: http.StatusOK, head: okHead(t, chunkedField), body: textBody(spell(t.text))}
	}
}

// chunk is text as one chunk.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
