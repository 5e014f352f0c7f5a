// http.go owns the edge that every server of this binary shares: the handler type
// that returns an error, the router's settings, reading a body under a limit,
// sending an answer, the staged close, the request log line, serving and draining.
// It must not know any route, any representation or the store.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"
	"golang.org/x/sync/errgroup"
)

const (
	// headerTime bounds the arrival of a request's header section; bodyTime that of
	// its body. Clients sit on loopback or a local network, so both are generous;
	// they exist so that a client that sends a byte a second holds nothing for long.
	headerTime = 10 * time.Second
	bodyTime   = 20 * time.Second
	// idleTime is how long a kept-alive connection may wait for its next request.
	idleTime = 120 * time.Second
	// writeTime bounds a whole exchange: the longest wait for an original (30 s),
	// the longest piece of work (30 s), and time to read the answer.
	writeTime = 90 * time.Second
	// maxHeaderBytes is far above what a client with a 255-character key needs.
	maxHeaderBytes = 32 << 10
	// drainTime is how long a stopping process lets running work finish.
	drainTime = 10 * time.Second
	// lingerTime is how long a staged close reads on after its half-close
	// (RFC 9112 section 9.6), at most.
	lingerTime = 2 * time.Second
	// smallBody is what net/http itself reads and discards of an unread body before
	// it answers; a declared length above it needs the staged close.
	smallBody = 256 << 10
)

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
	header http.Header
	body   []byte
}

// jsonReply encodes v, ended by one newline.
func jsonReply(status int, v any) (reply, error) {
	body, err := encodeJSON(v)
	if err != nil {
		return reply{}, err
	}
	return reply{
		status: status,
		header: http.Header{"Content-Type": {"application/json"}},
		body:   body,
	}, nil
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

// send writes the reply. When the client may still be sending a body that nobody
// will read, it is the connection's last.
func (rep reply) send(w http.ResponseWriter, r *http.Request) {
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

func (rep reply) setHeader(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range rep.header {
		header[name] = values
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

// readBody reads a request body of at most limit bytes. Its errors are
// errBodyTooLarge, decided without reading when the declared length says so, and
// errBodyCut when the client sent less than it announced, or too slowly.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errBodyTooLarge
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("%w: %w", errBodyCut, err)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBodyCut, err)
	}
	if int64(len(body)) > limit {
		return nil, errBodyTooLarge
	}
	control.SetReadDeadline(time.Time{})
	return body, nil
}

// watchedBody knows whether the body was read to its end.
type watchedBody struct {
	io.ReadCloser
	ended bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended = true
	}
	return n, err
}

// unreadBody tells whether more of the body may still be on its way than net/http
// would swallow by itself before it answers. A client that waits for "100 Continue"
// (RFC 9110 section 10.1.1) has sent nothing yet, and would be waited for in vain.
func unreadBody(r *http.Request) bool {
	body, ok := r.Body.(*watchedBody)
	if !ok || body.ended {
		return false
	}
	return r.ContentLength < 0 || r.ContentLength > smallBody || r.Header.Get("Expect") != ""
}

// sendLast answers and ends the connection in the stages of RFC 9112 section 9.6:
// answer, half-close, read until the client ends or lingerTime has passed, close. So
// the answer reaches a client that sends everything before it reads. (net/http's own
// close lingers 500 ms without reading, and then resets.)
func (rep reply) sendLast(w http.ResponseWriter, r *http.Request) {
	rep.setHeader(w)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		w.Header().Set("Connection", "close")
		w.WriteHeader(rep.status)
		w.Write(rep.body)
		return
	}
	defer conn.Close()
	if err := rep.writeLast(conn, w, r); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.Copy(io.Discard, conn)
}

// writeLast writes the answer to a connection that was taken over from w.
func (rep reply) writeLast(conn net.Conn, w http.ResponseWriter, r *http.Request) error {
	if rec, ok := w.(*recorder); ok {
		rec.status = rep.status
	}
	header := w.Header().Clone()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	answer := http.Response{
		StatusCode: rep.status, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: header, Close: true,
		ContentLength: int64(len(rep.body)), Body: io.NopCloser(bytes.NewReader(rep.body)),
	}
	conn.SetDeadline(time.Now().Add(lingerTime))
	return answer.Write(conn)
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

// panicError is a recovered panic with the stack it came from.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

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
	r.Body = &watchedBody{ReadCloser: r.Body, ended: r.Body == http.NoBody}
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
func (e *edge) attempt(w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if value == http.ErrAbortHandler {
			panic(value)
		}
		err = &panicError{value: value, stack: debug.Stack()}
	}()
	return e.handle(w, r)
}

// site is one server with its listener: what runs where.
type site struct {
	role     string
	listener net.Listener
	handler  http.Handler
	// base, when set, ends with the process: for handlers that only pretend to work
	// and must not delay a stop.
	base context.Context
}

// listen takes an address. The error says which role wanted it.
func listen(role, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	return listener, nil
}

// serve runs all sites until ctx ends or one of them fails; then it stops accepting
// and lets requests finish until drainTime has passed. drain, which ends the work in
// the background, runs beside them; its context ends at the same time.
func serve(ctx context.Context, log *slog.Logger, sites []site, drain func(ctx context.Context)) error {
	group, failing := errgroup.WithContext(ctx)
	servers := make([]*http.Server, len(sites))
	for i, s := range sites {
		servers[i] = newHTTPServer(s, log)
		group.Go(func() error {
			err := servers[i].Serve(s.listener)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve %s: %w", s.role, err)
		})
	}
	<-failing.Done()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	var stopping sync.WaitGroup
	for _, server := range servers {
		stopping.Go(func() {
			if server.Shutdown(limit) != nil {
				server.Close()
			}
		})
	}
	stopping.Go(func() { drain(limit) })
	stopping.Wait()
	return group.Wait()
}

func newHTTPServer(s site, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:                      s.handler,
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  writeTime, // the body has its own, shorter limit where it is read
		WriteTimeout:                 writeTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.With("role", s.role).Handler(), slog.LevelWarn),
	}
	if s.base != nil {
		server.BaseContext = func(net.Listener) context.Context { return s.base }
	}
	return server
}

// pause waits for d, or for ctx to end, whose error it then returns.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
