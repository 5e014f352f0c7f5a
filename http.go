// http.go owns the edge that every server of this binary shares: the handler type
// that returns an error, the router's settings, reading a body under a limit, sending
// an answer, and the request log line. It must not know any route, any representation
// or the store.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"
)

const (
	// bodyTime bounds the arrival of a request's body. Clients sit on loopback or a local
	// network, so it is generous; it exists so that a client that sends a byte a second
	// holds nothing for long.
	bodyTime = 20 * time.Second
	// maxBody is the most that is read of a request body, in bytes: 16 KiB.
	maxBody = 16 << 10
)

// What keeps a body from being read: see readBody.
var (
	errBodyTooLarge = errors.New("request body over the limit")
	errBodyCut      = errors.New("request body did not arrive whole")
)

// handler is what a route does: it answers, or it returns an error and has written
// nothing. Handlers never write an error answer and never log one.
type handler func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error

// newRouter returns a router that only matches: redirects, 405 and OPTIONS are
// decided by the server that owns the routes, in its own order.
func newRouter() *httprouter.Router {
	router := httprouter.New()
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.HandleMethodNotAllowed = false
	router.HandleOPTIONS = false
	return router
}

// reply is a whole answer, made before its first byte is sent: so that a failure to
// build one can still become another, and Content-Length is exact.
type reply struct {
	status int
	header []headerField
	body   []byte
}

// headerField is one field of an answer's header, with its canonical name.
type headerField struct{ name, value string }

// jsonReply encodes v, ended by one newline.
func jsonReply(status int, v any) (reply, error) {
	body, err := encodeJSON(v)
	if err != nil {
		return reply{}, err
	}
	return reply{status: status, body: body}.with("Content-Type", "application/json"), nil
}

// with sets a header field of the answer, instead of whatever it held.
func (rep reply) with(name, value string) reply {
	rep.header = append(rep.header, headerField{name, value})
	return rep
}

// encodeJSON is JSON as we send it: one newline at the end, and no HTML escapes, so
// that a URL is returned as it was written.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return buf.Bytes(), nil
}

// writeJSON writes v, as we send it, to whom a tool tells what it found.
func writeJSON(out io.Writer, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}

// send writes the reply. When the client may still be sending a body that nobody
// will read, it is the connection's last.
func (rep reply) send(w http.ResponseWriter, r *http.Request) {
	swallowSmall(w, r)
	if unreadBody(r) {
		rep.sendLast(w, r)
		return
	}
	rep.setHeader(w)
	w.WriteHeader(rep.status)
	if r.Method != http.MethodHead && len(rep.body) > 0 {
		w.Write(rep.body) // a client that left cannot be told anything
	}
}

// sendJSON answers 200 with v.
func sendJSON(w http.ResponseWriter, r *http.Request, v any) error {
	rep, err := jsonReply(http.StatusOK, v)
	if err != nil {
		return err
	}
	rep.send(w, r)
	return nil
}

func (rep reply) setHeader(w http.ResponseWriter) {
	header := w.Header()
	for _, field := range rep.header {
		header.Set(field.name, field.value)
	}
	if bodyHasLength(rep.status) {
		header.Set("Content-Length", strconv.Itoa(len(rep.body)))
	}
}

// bodyHasLength tells whether an answer with this status declares a length
// (RFC 9110 section 8.6: never with 1xx and 204; our 304 carries none either).
func bodyHasLength(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// readBody reads a request body of at most maxBody bytes. Its errors are
// errBodyTooLarge, decided without reading when the declared length says so, and
// errBodyCut when the client sent less than it announced, or too slowly.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errBodyTooLarge
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("%w: %w", errBodyCut, err)
	}
	body, err := readWhole(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBodyCut, err)
	}
	if len(body) > maxBody {
		return nil, errBodyTooLarge
	}
	control.SetReadDeadline(time.Time{})
	return body, nil
}

// readWhole reads a body of at most maxBody bytes, or one byte more of a longer one.
func readWhole(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

// readJSONBody asks questions 10 and 12 of a JSON request: is it JSON by its type, and
// can it be read.
func readJSONBody(w http.ResponseWriter, r *http.Request) (document, error) {
	if err := demandJSON(r); err != nil {
		return document{}, err
	}
	return readDocument(w, r)
}

// readDocument reads a body as one JSON object.
func readDocument(w http.ResponseWriter, r *http.Request) (document, error) {
	body, err := readBody(w, r)
	if err != nil {
		return document{}, err
	}
	doc, err := parseDocument(body)
	if err != nil {
		return document{}, newProblem("cuerpo-ilegible", "%v", err)
	}
	return doc, nil
}

// demandJSON lets only application/json pass, in any case and with any parameters.
func demandJSON(r *http.Request) error {
	types := r.Header.Values("Content-Type")
	if len(types) == 1 {
		mediaType, _, _ := strings.Cut(types[0], ";")
		if strings.EqualFold(strings.TrimSpace(mediaType), "application/json") {
			return nil
		}
	}
	return blankProblem(http.StatusUnsupportedMediaType, "el cuerpo tiene que venir como application/json").
		withHeader("Accept", "application/json")
}

// recorder remembers the status that went out, for the log line.
type recorder struct {
	http.ResponseWriter
	status int
}

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	return rec.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// edge is the outermost handler of one role: one log line per request, panics caught,
// errors rendered in one place.
type edge struct {
	role   string
	log    *slog.Logger
	handle func(w http.ResponseWriter, r *http.Request) error
	render func(w http.ResponseWriter, r *http.Request, err error)
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	r.Body = watchBody(r)
	defer func() {
		e.log.Info("request", "role", e.role, "method", r.Method, "path", r.URL.EscapedPath(), "status", rec.status)
	}()
	err := e.attempt(rec, r)
	if err == nil {
		return
	}
	if rec.status != 0 { // the answer began: only cutting it short is honest
		e.log.Error("answer cut short", "role", e.role, "error", err)
		panic(http.ErrAbortHandler)
	}
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil { // the client left: nobody to tell, nothing wrong here
		panic(http.ErrAbortHandler)
	}
	e.render(rec, r, err)
}

// attempt runs the handler and turns a panic into an error. A handler that means to
// cut the connection (http.ErrAbortHandler) is left to do so.
func (e *edge) attempt(w http.ResponseWriter, r *http.Request) error {
	err := guard(func() error { return e.handle(w, r) })
	var crash *panicError
	if errors.As(err, &crash) && crash.value == http.ErrAbortHandler {
		panic(http.ErrAbortHandler)
	}
	return err
}
