// script.go owns the server that answers what it is told: the grammar of a script's
// words, and one answer per request in order of arrival. It must not know the store,
// revisor's insides or who asks.

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	// scriptMute is the word for a request that is accepted and never answered;
	// scriptInFlight, after the colon of a 409, is the one problem that a client
	// tells apart by its type.
	scriptMute     = "mudo"
	scriptInFlight = "en-curso"
	// scriptService is what a success says: one invented service.
	scriptService  = `{"id":1,"nombre":"avisos","url":"http://127.0.0.1:18081/codigo/200","limite_ms":2000}` + "\n"
	scriptLocation = "/servicios/1"
)

// scriptedAnswer is one word of a script, understood.
type scriptedAnswer struct {
	word       string // as it was written
	status     int    // 0 for scriptMute
	retryAfter string // untouched; "" for none
	inFlight   bool   // the 409 of a key in flight
}

// parseScript reads a script, one answer per word:
//
//	STATUS         200 to 999
//	STATUS:VALUE   with Retry-After: VALUE, whatever that is
//	409:en-curso   the problem llave-en-curso
//	mudo           accepts and never answers
//
// Its errors are one line, with the word and what is wrong with it.
func parseScript(words []string) ([]scriptedAnswer, error) {
	if len(words) == 0 {
		return nil, errors.New("a script needs at least one answer, such as 503:2 or 201")
	}
	answers := make([]scriptedAnswer, len(words))
	for i, word := range words {
		answer, err := parseScriptWord(word)
		if err != nil {
			return nil, fmt.Errorf("answer %d, %q: %w", i+1, word, err)
		}
		answers[i] = answer
	}
	return answers, nil
}

func parseScriptWord(word string) (scriptedAnswer, error) {
	answer := scriptedAnswer{word: word}
	digits, value, colon := strings.Cut(word, ":")
	if digits == scriptMute {
		if colon {
			return answer, errors.New("mudo takes no colon, because it sends nothing")
		}
		return answer, nil
	}
	status, err := strconv.Atoi(digits)
	if err != nil || len(digits) != 3 || status < 200 {
		return answer, errors.New("want NNN, NNN:RETRY-AFTER, 409:en-curso or mudo, with NNN from 200 to 999")
	}
	answer.status = status
	switch {
	case !colon:
	case status == http.StatusConflict && value == scriptInFlight:
		answer.inFlight = true
	case value == "":
		return answer, errors.New("nothing follows the colon; want the value of Retry-After")
	case !isFieldText(value):
		return answer, errors.New("what follows the colon has control characters, so no header field can carry it")
	default:
		answer.retryAfter = value
	}
	return answer, nil
}

// script is the role's state: what to answer, and how many requests came.
type script struct {
	log     *slog.Logger
	answers []scriptedAnswer // at least one
	arrived atomic.Int64
}

// newScript returns the server of a script. Each request takes the next answer when
// its header section has come; the last answer repeats. The request log tells which
// one it took.
func newScript(answers []scriptedAnswer, log *slog.Logger) http.Handler {
	return &script{log: log, answers: answers}
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	position := min(int(s.arrived.Add(1)), len(s.answers))
	answer := s.answers[position-1]
	turn := &edge{
		role:   "script",
		log:    s.log.With("answer", position, "word", answer.word),
		handle: answer.handle,
		render: renderProblem(s.log, nil),
	}
	turn.ServeHTTP(w, r)
}

// handle reads the whole request and gives the answer. A request that does not come
// whole gets none, like one that is to get none.
func (a scriptedAnswer) handle(w http.ResponseWriter, r *http.Request) error {
	if a.status == 0 {
		holdRequest(w, r, nil)
		return cutConnection(w)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return cutConnection(w)
	}
	rep, err := a.reply(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	if a.retryAfter != "" {
		rep = rep.with("Retry-After", a.retryAfter)
	}
	rep.send(w, r)
	return nil
}

// reply is what a client of revisor would expect to see with this status: a service,
// nothing, or a problem about the path asked for.
func (a scriptedAnswer) reply(path string) (reply, error) {
	switch {
	case a.inFlight:
		return newProblem("llave-en-curso", "el guion dice que la petición original sigue en curso").reply(path)
	case a.status == http.StatusConflict:
		return newProblem("nombre-repetido", "el guion dice que otro servicio tiene ese nombre").
			with("existente", scriptLocation).reply(path)
	case a.status >= 400:
		// The script stands where the gateway would, and promises nothing about repeating.
		return bareProblem(a.status, "es lo que dice el guion")
	case a.status >= 300 || noContent(a.status):
		return reply{status: a.status}, nil
	}
	rep := reply{status: a.status, body: []byte(scriptService)}.with("Content-Type", "application/json")
	if a.status == http.StatusCreated {
		rep = rep.with("Location", scriptLocation)
	}
	return rep, nil
}
