// labanswers.go owns the bench's answers that a client can do something with: any status,
// slowness, waits, redirects, sequences, large and dripping bodies; and the two that are
// nothing at all. It must not know who asks, nor what becomes of it.

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// labLowest is the first final status: an interim one (1xx) is no answer, so a
	// client would go on waiting (RFC 9110 section 15.2).
	labLowest = 200
	// labSlowDigits bounds /lento to 99 999 ms: longer than any client of ours waits.
	labSlowDigits = 5
	// labLongestWait is the longest Retry-After that can be asked for, in seconds: a day.
	labLongestWait = 86400
	// labLongestChain is the longest chain of redirects: far longer than any client follows.
	labLongestChain = 99_999
	// labGarbage cannot begin a status line (RFC 9112 section 4). It ends a line, for
	// clients that read one before they look at it.
	labGarbage = "\x00\xff\xfe esto no es HTTP\r\n"
	// labContentType is that of everything but the counters.
	labContentType = "text/plain; charset=utf-8"
)

// labFields are the header fields that a status needs to make sense (RFC 9110
// sections 15.3.2, 15.4, 11.6.1, 15.5.6, 10.2.3; RFC 6585 section 4).
var labFields = map[int]headerField{
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

// labStatus answers any final status, with the fields that it needs.
func labStatus(w http.ResponseWriter, r *http.Request, args []string) error {
	digits := args[0]
	if len(digits) != 3 || !isDigits(digits) {
		return unknownForm("un código son tres cifras")
	}
	if err := labOnlyReads(r); err != nil {
		return err
	}
	status, err := strconv.Atoi(digits)
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if status < labLowest {
		return impossible("los códigos van de 200 a 999: por debajo de 100 no existen y los 1xx no son una respuesta final")
	}
	rep := replyWithStatus(r, status)
	query, err := labQuery(r)
	if err != nil {
		return err
	}
	if query.Has("retry-after") {
		value := query.Get("retry-after")
		if !isFieldText(value) {
			return impossible("ese retry-after no cabe en una cabecera")
		}
		rep = rep.with("Retry-After", value)
	}
	rep.send(w, r)
	return nil
}

// replyWithStatus is the answer with that status and the field that it needs.
func replyWithStatus(r *http.Request, status int) reply {
	rep := labReply(r, status, "")
	if noContent(status) {
		rep = reply{status: status}
	}
	if field, ok := labFields[status]; ok {
		rep = rep.with(field.name, field.value)
	}
	return rep
}

// slow answers 200 after some milliseconds. A wait that ends early ends without an
// answer: a 200 would come too soon.
func (l *lab) slow(w http.ResponseWriter, r *http.Request, args []string) error {
	digits := args[0]
	if len(digits) > labSlowDigits || !isDigits(digits) {
		return unknownForm("los milisegundos son de una a cinco cifras")
	}
	ms, err := strconv.Atoi(digits)
	if err != nil {
		return fmt.Errorf("read milliseconds: %w", err)
	}
	delay := time.Duration(ms) * time.Millisecond
	if delay > l.limits.delay {
		return impossible("el banco no espera más de %d ms", l.limits.delay.Milliseconds())
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	if !holdRequest(w, r, timer.C) {
		return cutConnection(w)
	}
	labReply(r, http.StatusOK, "").send(w, r)
	return nil
}

// cutAtOnce closes without a byte.
func cutAtOnce(w http.ResponseWriter, _ *http.Request, _ []string) error { return cutConnection(w) }

// sendGarbage answers with something that is not HTTP, and closes: gently when a body
// may still be on its way.
func sendGarbage(w http.ResponseWriter, r *http.Request, _ []string) error {
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

// wait answers with a Retry-After of the form asked for, to the byte: net/http would
// take white space off.
func (l *lab) wait(w http.ResponseWriter, r *http.Request, args []string) error {
	at := slices.IndexFunc(retryForms, func(form retryForm) bool { return form.name == args[0] })
	if at < 0 {
		return unknownForm("esa forma de Retry-After no existe; GET /ayuda dice cuáles hay")
	}
	if err := labOnlyReads(r); err != nil {
		return err
	}
	seconds, err := labParameter(r, "segundos", 2, labLongestWait)
	if err != nil {
		return err
	}
	status, err := labChoice(r, http.StatusServiceUnavailable, http.StatusTooManyRequests)
	if err != nil {
		return err
	}
	now, text := l.now(), labText(r, status, "")
	fields := []string{fmt.Sprintf("Content-Length: %d", len(text))}
	for _, line := range retryForms[at].lines(now, seconds) {
		fields = append(fields, "Retry-After: "+line)
	}
	return l.sendRaw(w, r, rawAnswer{status: status, head: rawHead(status, now, fields...), body: textBody(text), end: (*rawConnection).finish})
}

// labChoice reads the query's codigo: one of choices, the first when it is left out.
func labChoice(r *http.Request, choices ...int) (int, error) {
	query, err := labQuery(r)
	if err != nil {
		return 0, err
	}
	if !query.Has("codigo") {
		return choices[0], nil
	}
	status, err := strconv.Atoi(query.Get("codigo"))
	if err != nil || !slices.Contains(choices, status) {
		return 0, impossible("aquí el codigo es uno de %s", strings.Trim(fmt.Sprint(choices), "[]"))
	}
	return status, nil
}

// loopForm is one way to be sent round: from each name to the next one's.
type loopForm struct{ name, to, what string }

var loopForms = []loopForm{
	{"mismo", "mismo", "a sí mismo"},
	{"ida", "vuelta", "a vuelta"},
	{"vuelta", "ida", "a ida"},
}

// labLoop redirects to where no way leads out of.
func labLoop(w http.ResponseWriter, r *http.Request, args []string) error {
	at := slices.IndexFunc(loopForms, func(form loopForm) bool { return form.name == args[0] })
	if at < 0 {
		return unknownForm("ese bucle no existe; GET /ayuda dice cuáles hay")
	}
	return labRedirect(w, r, "/bucle/"+loopForms[at].to)
}

// labChain redirects to a chain one shorter, and answers at its end.
func labChain(w http.ResponseWriter, r *http.Request, args []string) error {
	n, err := labNumber(args[0])
	if err != nil {
		return err
	}
	if err := labOnlyReads(r); err != nil {
		return err
	}
	switch {
	case n > labLongestChain:
		return impossible("la cadena más larga es de %d", labLongestChain)
	case n == 0:
		labReply(r, http.StatusOK, "").send(w, r)
		return nil
	}
	return labRedirect(w, r, fmt.Sprintf("/bucle/cadena/%d", n-1))
}

// labRedirect sends the client to another path of the bench, with the query it came with.
func labRedirect(w http.ResponseWriter, r *http.Request, to string) error {
	if err := labOnlyReads(r); err != nil {
		return err
	}
	status, err := labChoice(r, http.StatusFound, http.StatusMovedPermanently, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect)
	if err != nil {
		return err
	}
	if r.URL.Query().Has("codigo") { // which labChoice could read
		to += fmt.Sprintf("?codigo=%d", status)
	}
	labReply(r, status, "").with("Location", to).send(w, r)
	return nil
}

// sequence gives the name's next answer of a list.
func (l *lab) sequence(w http.ResponseWriter, r *http.Request, args []string) error {
	list, err := parseSequence(args[0])
	if err != nil {
		return err
	}
	query, err := labQuery(r)
	if err != nil {
		return err
	}
	name := query.Get("k")
	if len(name) > sequenceNameBytes {
		return impossible("un nombre tiene hasta %d bytes", sequenceNameBytes)
	}
	if r.Method == http.MethodDelete {
		l.sequences.forget(name)
		reply{status: http.StatusNoContent}.send(w, r)
		return nil
	}
	answer := list[min(l.sequences.next(name, args[0]), len(list)-1)]
	if answer.status == 0 {
		timer := time.NewTimer(l.limits.delay)
		defer timer.Stop()
		holdRequest(w, r, timer.C)
		return cutConnection(w)
	}
	rep := replyWithStatus(r, answer.status)
	// The list says what there is to wait for, and no status by itself.
	rep.header = slices.DeleteFunc(rep.header, func(field headerField) bool { return field.name == "Retry-After" })
	if answer.retryAfter != "" {
		rep = rep.with("Retry-After", answer.retryAfter)
	}
	rep.send(w, r)
	return nil
}

// parseSequence reads a list of script's words, percent-encoded each. The bench has no
// problems to tell, so it cannot answer a conflict by its type.
func parseSequence(text string) ([]scriptedAnswer, error) {
	if len(text) > sequenceBytes {
		return nil, impossible("una lista tiene hasta %d bytes", sequenceBytes)
	}
	var list []scriptedAnswer
	for escaped := range strings.SplitSeq(text, ",") {
		word, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, impossible("%q no se puede leer", escaped)
		}
		answer, err := parseScriptWord(word)
		if err != nil || answer.inFlight {
			return nil, impossible("%q no es NNN, NNN:RETRY-AFTER ni mudo, con NNN de 200 a 999", word)
		}
		list = append(list, answer)
	}
	return list, nil
}
