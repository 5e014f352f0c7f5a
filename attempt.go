// attempt.go owns one attempt of a client of ours: a fresh connection, exactly one
// request on the wire, an answer read under a limit, and why there was none. It knows
// nothing of what is asked, of retries, or of revisor's insides.

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxAnswerHeader is far above what any answer of ours needs, and bounds what a stranger's
// answer can make us keep, in bytes.
const maxAnswerHeader = 256 << 10

// errAnswerTooLong says that an answer's body went past the limit of the attempt.
var errAnswerTooLong = errors.New("answer over the limit")

// newTransport is the transport of our tools.
func newTransport() *http.Transport { return oneRequestTransport(nil, maxAnswerHeader) }

// parseBase reads a server's address, as a person writes it; of one without its scheme it
// says how to write it.
func parseBase(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		if u, err := url.Parse("http://" + text); err == nil && validateBase(u) == nil {
			return nil, fmt.Errorf("a server's address begins with http:// or https://: write http://%.80s", text)
		}
	}
	u, err := url.Parse(text)
	if err != nil { // the library's words do not help here
		return nil, fmt.Errorf("%.80q is no address: want http://host:port", text)
	}
	return u, validateBase(u)
}

// validateBase tells whether u can be the base address of a server: http or https,
// a host, and nothing behind it.
func validateBase(u *url.URL) error {
	switch {
	case u == nil || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("a server's address begins with http:// or https://")
	case u.Hostname() == "":
		return errors.New("the address lacks a host")
	case u.Port() != "" && !isPort(u.Port()):
		return fmt.Errorf("%q is no port from 1 to 65535", u.Port())
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("a server's address ends with the host and port, without a path")
	case u.User != nil:
		return errors.New("a server's address carries no user or password")
	}
	return nil
}

// isPort tells whether a server can be reached at it.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
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
	req.Header.Set("User-Agent", userAgent)
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
	return answerWithin(resp, limit)
}

// answerWithin reads at most limit bytes of the body; errAnswerTooLong tells that there
// are more.
func answerWithin(resp *http.Response, limit int64) (answer, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(body)) > limit {
		body, err = body[:limit], errAnswerTooLong
	}
	return answer{resp.StatusCode, resp.Header, body}, err
}

// tellWritten is ctx for an attempt that calls written as soon as its whole request is
// on its way.
func tellWritten(ctx context.Context, written func()) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written() }})
}

// line is the answer in one line: status and body.
func (a answer) line() string {
	body := strings.TrimSpace(printable(bytes.TrimRight(a.body, "\r\n"), shownBody))
	if body == "" {
		return strconv.Itoa(a.status) + " (sin cuerpo)"
	}
	return strconv.Itoa(a.status) + " " + body
}

// problemType is the type of a problem (RFC 9457 section 3.1.1), "" when the answer
// is none.
func (a answer) problemType() string {
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/problem+json") {
		return ""
	}
	var problem struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(a.body, &problem) != nil {
		return ""
	}
	return problem.Type
}

// inFlight tells whether the original of this key is still running. Its status does
// not tell: 409 is also what a taken name gets.
func (a answer) inFlight() bool { return a.problemType() == problemBase+"llave-en-curso" }

// whyNoAnswer says in a few words why an attempt got no answer.
func whyNoAnswer(err error) string {
	var (
		errno   syscall.Errno
		unknown *net.DNSError
		timeout net.Error
		cert    *tls.CertificateVerificationError
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
	case errors.As(err, &cert):
		return "el certificado no vale"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return "la conexión se cortó"
	case errors.Is(err, errAnswerTooLong):
		return "la respuesta es demasiado larga"
	}
	return "lo que llegó no se entiende como HTTP"
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
