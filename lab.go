// lab.go owns the bench that misbehaves on request: its limits, its counters of what it
// was asked, and its plain text, which is never a problem. It must not know the store,
// revisor's insides or who uses it; what there is to ask for is in labroutes.go.

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// labPaths is how many distinct paths are counted apart: all the statuses and
	// far more delays than anybody tries. labPathBytes is above the length of every
	// route with its argument. Together they hold the counters under about 1 MiB;
	// what does not fit is counted together, under labOtherPaths, which is no path.
	labPaths      = 4096
	labPathBytes  = 200
	labOtherPaths = "(otras)"
	// labReads are the methods of what can only be read.
	labReads = "GET, HEAD"
	// labMostBytes is the most that labLimits.bytes may be: 1 PiB, which nobody waits for,
	// and far from where a sum of lengths would overflow.
	labMostBytes = 1 << 50
	// labBusySeconds is what a client that found the bench full is told to wait.
	labBusySeconds = "1"
)

// labLimits bounds what anybody can make the bench do.
type labLimits struct {
	delay    time.Duration // the longest wait, and the longest that any odd answer lasts
	bytes    int64         // the largest answer; "endless" ends there
	requests int           // answered at the same time
}

// labConfig is what the role depends on.
type labConfig struct {
	limits labLimits
	log    *slog.Logger
	now    func() time.Time
}

// labRefusal is an error that the lab's client is told: a status of its own, why,
// and the header field that such a status needs, if any.
type labRefusal struct {
	status int
	why    string
	field  headerField
}

func (e *labRefusal) Error() string { return fmt.Sprintf("lab %d: %s", e.status, e.why) }

// lab is the role's state: the counters, the sequences, and who is being answered.
type lab struct {
	labConfig
	routes    []labRoute
	guide     string
	sequences *sequences
	busy      chan struct{} // a place for each request that may be answered at the same time

	mu     sync.Mutex
	counts map[string]int
}

// newLab returns the bench, with its request log.
func newLab(cfg labConfig) http.Handler {
	l := &lab{
		labConfig: cfg,
		sequences: newSequences(),
		busy:      make(chan struct{}, cfg.limits.requests),
		counts:    map[string]int{},
	}
	l.routes = l.routeTable()
	l.guide = labGuide(l.routes)
	return &edge{role: "lab", log: cfg.log, handle: l.handle, render: renderLab(cfg.log)}
}

// handle finds the route by the path as it was written, then its method, then its
// argument's value. So nothing of an unknown path is 405. The counters can be asked even
// when the bench is full: that is when somebody wants to know.
func (l *lab) handle(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.EscapedPath()
	if path == labCountersPath {
		return l.counters(w, r)
	}
	l.count(path)
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	default:
		return &labRefusal{http.StatusServiceUnavailable,
			fmt.Sprintf("el banco ya atiende %d peticiones a la vez, que es su límite", l.limits.requests),
			headerField{"Retry-After", labBusySeconds}}
	}
	route, args := findLabRoute(l.routes, path)
	if route == nil {
		return unknownForm("esta ruta no existe; GET /ayuda dice cuáles hay")
	}
	return route.handle(w, r, args)
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
	return &labRefusal{http.StatusMethodNotAllowed, "aquí solo GET, HEAD y DELETE", headerField{"Allow", "GET, HEAD, DELETE"}}
}

func labOnlyReads(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	return &labRefusal{http.StatusMethodNotAllowed, "aquí solo GET y HEAD", headerField{"Allow", labReads}}
}

// unknownForm is the answer to an argument that none of the route's forms fits.
func unknownForm(why string) error { return &labRefusal{status: http.StatusNotFound, why: why} }

// impossible is the answer to an argument of the right form that cannot be.
func impossible(format string, args ...any) error {
	return &labRefusal{status: http.StatusBadRequest, why: fmt.Sprintf(format, args...)}
}

// labNumber reads an argument of decimal digits. A number that is none of Go's is the
// largest of them, which is above every limit.
func labNumber(digits string) (int64, error) {
	if !isDigits(digits) {
		return 0, unknownForm("un número son cifras y nada más")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return math.MaxInt64, nil
	}
	return n, nil
}

// labQuery reads the whole query: of one that cannot be read, nothing is guessed.
func labQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, impossible("lo que sigue al signo ? no se puede leer")
	}
	return query, nil
}

// labParameter reads a number of the query, from 0 to most.
func labParameter(r *http.Request, name string, otherwise, most int64) (int64, error) {
	query, err := labQuery(r)
	if err != nil || !query.Has(name) {
		return otherwise, err
	}
	n, err := labNumber(query.Get(name))
	if err != nil || n > most {
		return 0, impossible("%s va de 0 a %d", name, most)
	}
	return n, nil
}

// renderLab answers an error in the lab's own form.
func renderLab(log *slog.Logger) func(w http.ResponseWriter, r *http.Request, err error) {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		var refusal *labRefusal
		if !errors.As(err, &refusal) {
			logFailure(log, "internal error", err, "role", "lab")
			refusal = &labRefusal{status: http.StatusInternalServerError, why: "algo falló aquí dentro"}
		}
		rep := labReply(r, refusal.status, refusal.why)
		if refusal.field.name != "" {
			rep = rep.with(refusal.field.name, refusal.field.value)
		}
		rep.send(w, r)
	}
}

// labText is the lab's answer in two lines: the status with its registered phrase;
// what was asked, with why it cannot be when it cannot. A HEAD is told as the GET
// that it stands for, so that both have one length (RFC 9110 section 9.3.2).
func labText(r *http.Request, status int, why string) string {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	asked := method + " " + strings.ToValidUTF8(r.URL.RequestURI(), "?")
	if why != "" {
		asked += ": " + why
	}
	return fmt.Sprintf("%d %s\n%s\n", status, statusPhrase(status), asked)
}

func labReply(r *http.Request, status int, why string) reply {
	return labPlain(status, labText(r, status, why))
}

func labPlain(status int, text string) reply {
	return reply{status: status, body: []byte(text)}.with("Content-Type", labContentType)
}
