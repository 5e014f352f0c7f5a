// attempt.go owns one attempt of a client of ours: a fresh connection, exactly one
// request on the wire, an answer read under a limit, and how either outcome is told
// to a person. It knows nothing of what is asked, of retries, or of revisor's insides.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxAnswerHeader is far above what any answer of ours needs, and bounds what a
	// stranger's answer can make us keep.
	maxAnswerHeader = 256 << 10
	// shownBody is how many characters of a body are shown in one line: a problem of
	// ours fits, a page of HTML does not.
	shownBody = 600
)

// errAnswerTooLong says that an answer's body went past the limit of the attempt.
var errAnswerTooLong = errors.New("answer over the limit")

// newTransport returns a transport of which each RoundTrip is exactly one request on
// a connection of its own. (On a reused connection Go's transport sends a request
// again by itself when that connection dies, a POST with an Idempotency-Key
// included.) No proxy from the environment, no compression asked for, HTTP/1.1 alone.
// Its only time limit is the request's context.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHeader,
		Protocols:              protocols,
	}
}

// validateBase tells whether u can be the base address of a server: http or https,
// a host, and nothing behind it.
func validateBase(u *url.URL) error {
	switch {
	case u == nil || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("la dirección debe empezar por http:// o https://")
	case u.Hostname() == "":
		return errors.New("a la dirección le falta el servidor")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("la dirección debe acabar en el servidor y el puerto, sin ruta")
	case u.User != nil:
		return errors.New("la dirección no puede llevar usuario ni contraseña")
	}
	return nil
}

// validateHeaderText tells whether text can travel as a header field's value
// (RFC 9110 section 5.5): visible ASCII with single spaces or tabs inside. what
// names it in the error; the text itself may be a secret and is never in it.
func validateHeaderText(what, text string) error {
	for i := range len(text) {
		if c := text[i]; c < 0x20 && c != '\t' || c > 0x7e {
			return fmt.Errorf("%s solo puede llevar caracteres ASCII visibles", what)
		}
	}
	if strings.Trim(text, " \t") != text {
		return fmt.Errorf("%s no puede empezar ni acabar en blanco", what)
	}
	return nil
}

// call is one request to be made.
type call struct {
	method string
	base   *url.URL
	path   string // begins with a slash; sent as it is
	header http.Header
	body   []byte // nil: none
}

// answer is what came back. After a failure midway it holds what had come.
type answer struct {
	status int // 0: not even a status line
	header http.Header
	body   []byte
}

// attempt makes the call once and reads at most limit bytes of the answer's body.
// Redirects are answers like any other. Its error means that no whole answer came
// within timeout; or errAnswerTooLong, with the status and the first limit bytes.
func attempt(ctx context.Context, transport *http.Transport, timeout time.Duration, limit int64, c call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Opaque: c.path}
	req := (&http.Request{Method: c.method, URL: &target, Host: c.base.Host, Header: c.header.Clone()}).WithContext(ctx)
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", "revisor")
	if c.body != nil {
		// Without GetBody nobody can send it a second time.
		req.Body = io.NopCloser(bytes.NewReader(c.body))
		req.ContentLength = int64(len(c.body))
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got := answer{status: resp.StatusCode, header: resp.Header}
	got.body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(got.body)) > limit {
		got.body = got.body[:limit]
		return got, errAnswerTooLong
	}
	return got, err
}

// line is the answer in one line: status and body.
func (a answer) line() string {
	body := strings.TrimSpace(printable(bytes.TrimRight(a.body, "\r\n"), shownBody))
	if body == "" {
		return strconv.Itoa(a.status) + " (sin cuerpo)"
	}
	return strconv.Itoa(a.status) + " " + body
}

// whyNoAnswer says in a few words why an attempt got no answer.
func whyNoAnswer(err error) string {
	var (
		errno   syscall.Errno
		unknown *net.DNSError
		timeout net.Error
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "interrumpido"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "se acabó el tiempo límite"
	case errors.As(err, &unknown):
		return "el nombre no se encuentra: " + printable([]byte(unknown.Name), shownBody)
	case errors.As(err, &errno):
		return errnoLine(errno)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return "la conexión se cortó"
	case errors.Is(err, errAnswerTooLong):
		return "la respuesta es demasiado larga"
	}
	return "la conversación falló (" + printable([]byte(err.Error()), shownBody) + ")"
}

// errnoLine names an error of the system as its manuals do, with its meaning.
func errnoLine(errno syscall.Errno) string {
	switch errno {
	case syscall.ECONNREFUSED:
		return "ECONNREFUSED, nadie escucha en esa dirección"
	case syscall.ECONNRESET:
		return "ECONNRESET, el otro lado cortó la conexión"
	case syscall.EPIPE:
		return "EPIPE, el otro lado cerró antes de leerlo todo"
	case syscall.EHOSTUNREACH:
		return "EHOSTUNREACH, no hay camino hasta esa máquina"
	case syscall.ENETUNREACH:
		return "ENETUNREACH, no hay camino hasta esa red"
	}
	return printable([]byte(errno.Error()), shownBody)
}

// printable makes text from strangers safe for a terminal and for one line: what is
// not a printable character (control codes, line ends, direction marks, bytes that
// are not UTF-8) is shown as an escape. At most limit characters of it are shown.
func printable(text []byte, limit int) string {
	var out strings.Builder
	for n := 0; len(text) > 0; n++ {
		if n == limit {
			out.WriteString("…")
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return out.String()
}
