// lab.go owns the bench that misbehaves on request: any status, slowness, cut
// connections, bytes that are not HTTP, and counters of what it was asked. It speaks
// plain text, never problems. It must not know the store, revisor's insides or who
// uses it.

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// labLowest is the first final status: an interim one (1xx) is no answer, so a
	// client would go on waiting (RFC 9110 section 15.2).
	labLowest = 200
	// labSlowDigits bounds /lento to 99 999 ms: longer than any client of ours waits.
	labSlowDigits = 5
	// labPaths is how many distinct paths are counted apart: all the statuses and
	// far more delays than anybody tries. labPathBytes is above the length of every
	// route with its argument. Together they hold the counters under about 1 MiB;
	// what does not fit is counted together, under labOtherPaths, which is no path.
	labPaths      = 4096
	labPathBytes  = 200
	labOtherPaths = "(otras)"
	// labReads are the methods of what can only be read.
	labReads = "GET, HEAD"
	// labGarbage cannot begin a status line (RFC 9112 section 4). It ends a line, for
	// clients that read one before they look at it.
	labGarbage = "\x00\xff\xfe esto no es HTTP\r\n"
)

const labHelp = `El banco de pruebas: se porta mal cuando se le pide.

GET    /codigo/NNN    responde con el código NNN, de 200 a 999 (y HEAD); con ?retry-after=2, o una fecha HTTP, envía además ese Retry-After
*      /lento/MS      responde 200 después de MS milisegundos (de 1 a 5 cifras), con cualquier método
*      /cortar        cierra la conexión sin enviar un solo byte
*      /basura        envía algo que no es HTTP
GET    /contadores    dice en JSON cuántas peticiones recibió cada ruta (y HEAD); las suyas no cuentan
DELETE /contadores    pone los contadores a cero
GET    /ayuda         esta lista (y HEAD)
`

// labFields are the header fields that a status needs to make sense (RFC 9110
// sections 15.3.2, 15.4, 11.6.1, 15.5.6, 10.2.3; RFC 6585 section 4).
var labFields = map[int]struct{ name, value string }{
	201: {"Location", "/servicios/demo"},
	301: {"Location", "/codigo/200"},
	302: {"Location", "/codigo/200"},
	304: {"ETag", `"v1"`},
	307: {"Location", "/codigo/200"},
	308: {"Location", "/codigo/200"},
	401: {"WWW-Authenticate", `Bearer realm="revisor"`},
	405: {"Allow", labReads},
	429: {"Retry-After", "30"},
	503: {"Retry-After", "120"},
}

// labRefusal is an error that the lab's client is told: a status of its own, why,
// and for a 405 the methods that would do.
type labRefusal struct {
	status int
	why    string
	allow  string
}

func (e *labRefusal) Error() string { return fmt.Sprintf("lab %d: %s", e.status, e.why) }

// lab is the role's state: the counters.
type lab struct {
	mu     sync.Mutex
	counts map[string]int
}

// newLab returns the bench, with its request log.
func newLab(log *slog.Logger) http.Handler {
	l := &lab{counts: map[string]int{}}
	return &edge{role: "lab", log: log, handle: l.handle, render: renderLab(log)}
}

// handle finds the route by the path as it was written, then its method, then its
// argument's value. So nothing of an unknown path is 405.
func (l *lab) handle(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.EscapedPath()
	if path == "/contadores" {
		return l.counters(w, r)
	}
	l.count(path)
	switch path {
	case "/ayuda":
		return labGuide(w, r)
	case "/cortar":
		return cutConnection(w)
	case "/basura":
		return sendGarbage(w, r)
	}
	if digits, ok := strings.CutPrefix(path, "/codigo/"); ok {
		return labStatus(w, r, digits)
	}
	if digits, ok := strings.CutPrefix(path, "/lento/"); ok {
		return labSlow(w, r, digits)
	}
	return &labRefusal{status: http.StatusNotFound, why: "esta ruta no existe; GET /ayuda dice cuáles hay"}
}

// labStatus answers any final status, with the fields that it needs.
func labStatus(w http.ResponseWriter, r *http.Request, digits string) error {
	if len(digits) != 3 || !isDigits(digits) {
		return &labRefusal{status: http.StatusNotFound, why: "un código son tres cifras"}
	}
	if err := labOnlyReads(r); err != nil {
		return err
	}
	status, err := strconv.Atoi(digits)
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if status < labLowest {
		return &labRefusal{status: http.StatusBadRequest,
			why: "los códigos van de 200 a 999: por debajo de 100 no existen y los 1xx no son una respuesta final"}
	}
	rep := labText(r, status, "")
	if noContent(status) {
		rep = reply{status: status}
	}
	if field, ok := labFields[status]; ok {
		rep = rep.with(field.name, field.value)
	}
	if query := r.URL.Query(); query.Has("retry-after") {
		value := query.Get("retry-after")
		if !isFieldText(value) {
			return &labRefusal{status: http.StatusBadRequest, why: "ese retry-after no cabe en una cabecera"}
		}
		rep = rep.with("Retry-After", value)
	}
	rep.send(w, r)
	return nil
}

// labSlow answers 200 after some milliseconds. A wait that ends early ends without
// an answer: a 200 would come too soon.
func labSlow(w http.ResponseWriter, r *http.Request, digits string) error {
	if len(digits) > labSlowDigits || !isDigits(digits) {
		return &labRefusal{status: http.StatusNotFound, why: "los milisegundos son de una a cinco cifras"}
	}
	ms, err := strconv.Atoi(digits)
	if err != nil {
		return fmt.Errorf("read milliseconds: %w", err)
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	if !holdRequest(w, r, timer.C) {
		return cutConnection(w)
	}
	labText(r, http.StatusOK, "").send(w, r)
	return nil
}

// sendGarbage answers with something that is not HTTP, and closes: gently when a body
// may still be on its way.
func sendGarbage(w http.ResponseWriter, r *http.Request) error {
	conn, err := takeConnection(w)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(conn, labGarbage); err != nil || r.ContentLength == 0 {
		conn.Close()
		return nil
	}
	closeGently(conn)
	return nil
}

func labGuide(w http.ResponseWriter, r *http.Request) error {
	if err := labOnlyReads(r); err != nil {
		return err
	}
	labPlain(http.StatusOK, labHelp).send(w, r)
	return nil
}

// count notes a request before it is answered, so that whoever has the answer finds
// it counted.
func (l *lab) count(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.counts[path]; !known && (len(path) > labPathBytes || len(l.counts) >= labPaths) {
		path = labOtherPaths
	}
	l.counts[path]++
}

// counters tells how many requests each path got, or forgets them.
func (l *lab) counters(w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		l.mu.Lock()
		counts := maps.Clone(l.counts)
		l.mu.Unlock()
		rep, err := jsonReply(http.StatusOK, counts) // a map's members are sorted
		if err != nil {
			return err
		}
		rep.send(w, r)
		return nil
	case http.MethodDelete:
		l.mu.Lock()
		clear(l.counts)
		l.mu.Unlock()
		reply{status: http.StatusNoContent}.send(w, r)
		return nil
	}
	return &labRefusal{status: http.StatusMethodNotAllowed, why: "aquí solo GET, HEAD y DELETE", allow: "GET, HEAD, DELETE"}
}

func labOnlyReads(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	return &labRefusal{status: http.StatusMethodNotAllowed, why: "aquí solo GET y HEAD", allow: labReads}
}

// renderLab answers an error in the lab's own form.
func renderLab(log *slog.Logger) func(w http.ResponseWriter, r *http.Request, err error) {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		var refusal *labRefusal
		if !errors.As(err, &refusal) {
			logFailure(log, "internal error", err, "role", "lab")
			refusal = &labRefusal{status: http.StatusInternalServerError, why: "algo falló aquí dentro"}
		}
		rep := labText(r, refusal.status, refusal.why)
		if refusal.allow != "" {
			rep = rep.with("Allow", refusal.allow)
		}
		rep.send(w, r)
	}
}

// labText is the lab's answer in two lines: the status with its registered phrase;
// what was asked, with why it cannot be when it cannot. A HEAD is told as the GET
// that it stands for, so that both have one length (RFC 9110 section 9.3.2).
func labText(r *http.Request, status int, why string) reply {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	asked := method + " " + strings.ToValidUTF8(r.URL.RequestURI(), "?")
	if why != "" {
		asked += ": " + why
	}
	return labPlain(status, fmt.Sprintf("%d %s\n%s\n", status, statusPhrase(status), asked))
}

func labPlain(status int, text string) reply {
	return reply{status: status, body: []byte(text)}.with("Content-Type", "text/plain; charset=utf-8")
}
