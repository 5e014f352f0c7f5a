// ledger.go owns the gateway's ledger: what arrived, what was done to it, what the
// upstream and the client got and when; how much of that is kept, and how it is told, as
// JSON over HTTP and as lines. It must not know how an exchange is carried out.

package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// ledgerLimit is how many arrivals are kept in memory; with texts of shownText
	// characters at most they cost some 30 MiB when each is as long as it may be.
	ledgerLimit = 10000
	// shownText is how many characters of a path or a key are kept.
	shownText = 500
	// ledgerPath is where the ledger can be read.
	ledgerPath = "/__pasarela/arribos"
	// gatewayAdmin is the role of the site beside the gateway that tells it.
	gatewayAdmin = "gateway-admin"
	// settleTime is how long a stopping process waits for the exchanges that it has cut to
	// be noted: above lingerTime, which the gentle close of a connection may take.
	settleTime = 5 * time.Second
)

// arrival is one request that came to the gateway, and what became of it. A time that
// never came is zero and left out.
type arrival struct {
	Sequence  uint64    `json:"secuencia"` // among all, from 1
	Number    uint64    `json:"numero"`    // among those of its identity, from 1; 0: it did not come whole and was not counted
	Identity  string    `json:"identidad"`
	Method    string    `json:"metodo"`
	Path      string    `json:"ruta"` // with the query
	Key       string    `json:"llave,omitempty"`
	Fault     string    `json:"falla,omitempty"`            // what the plan had for it: "delay=1s, after"
	Upstream  int       `json:"estado_detras,omitempty"`    // of the upstream's answer; 0: there was none
	Duplicate int       `json:"estado_duplicado,omitempty"` // of its answer to a duplicate
	Status    int       `json:"estado,omitempty"`           // that the client was sent; 0: none
	Bytes     int64     `json:"bytes"`                      // of the body that were handed over to the client
	Whole     bool      `json:"completa"`                   // the answer was handed over to its end, to a client not known to have left
	Arrived   time.Time `json:"llego"`
	Forwarded time.Time `json:"reenviada,omitzero"`
	Answered  time.Time `json:"contestada,omitzero"` // the head had come; where the gateway takes the whole answer, all of it
	Ended     time.Time `json:"termino,omitzero"`    // zero: it goes on
}

// ledger keeps the latest limit arrivals. Safe for concurrent use. A gateway without one
// has a nil ledger: begin, note and end do nothing on it, and nobody may read it.
type ledger struct {
	mu     sync.Mutex
	limit  int
	kept   []*arrival // a ring once it is full
	oldest int
	all    uint64

	lines io.Writer // gets an arrival a line, as it ends; nil: nobody does
	torn  bool      // the latest line there has no end
	log   *slog.Logger
	mute  bool // a line could not be written, and that was told

	inside int           // exchanges under way
	empty  chan struct{} // told when there is none any more; holds one
}

// newLedger keeps limit arrivals in memory and writes each, when it has ended, to lines
// (nil: nowhere) as a line of JSON. A line that cannot be written is told to log once.
func newLedger(limit int, lines io.Writer, log *slog.Logger) *ledger {
	return &ledger{limit: limit, lines: lines, log: log, empty: make(chan struct{}, 1)}
}

// enter says that an exchange is under way, whether or not it will have an entry, and
// leave that it is over and has been noted to its end.
func (l *ledger) enter() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside++
}

func (l *ledger) leave() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside--; l.inside == 0 {
		select {
		case l.empty <- struct{}{}:
		default:
		}
	}
}

// settle waits until no exchange is under way, at most for limit.
func (l *ledger) settle(limit time.Duration) {
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		l.mu.Lock()
		inside := l.inside
		l.mu.Unlock()
		if inside == 0 {
			return
		}
		select {
		case <-l.empty:
		case <-over.C:
			return
		}
	}
}

// begin enters an arrival and gives it its place in the sequence.
func (l *ledger) begin(a arrival) *arrival {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all++
	a.Sequence = l.all
	if len(l.kept) < l.limit {
		l.kept = append(l.kept, &a)
		return &a
	}
	l.kept[l.oldest] = &a
	l.oldest = (l.oldest + 1) % l.limit
	return &a
}

// note changes what is known of an arrival that begin returned.
func (l *ledger) note(a *arrival, change func(*arrival)) {
	if l == nil || a == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	change(a)
}

// end is the last note of an arrival: its line is written.
func (l *ledger) end(a *arrival, change func(*arrival)) {
	if l == nil || a == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	change(a)
	if l.lines == nil {
		return
	}
	line, err := encodeJSON(a)
	if err == nil {
		err = l.writeLine(line)
	}
	if err != nil && !l.mute {
		l.mute = true
		l.log.Error("the ledger's file lacks lines from here on", "error", err)
	}
}

// writeLine writes a line, on a line of its own also behind one that was torn.
func (l *ledger) writeLine(line []byte) error {
	if l.torn {
		line = slices.Concat([]byte("\n"), line)
	}
	n, err := l.lines.Write(line)
	if err == nil || n > 0 {
		l.torn = err != nil && line[n-1] != '\n'
	}
	return err
}

// snapshot is a copy of what is kept, oldest first, and how many older ones were
// forgotten.
func (l *ledger) snapshot() (kept []arrival, forgotten uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept = make([]arrival, 0, len(l.kept))
	for i := range l.kept {
		kept = append(kept, *l.kept[(l.oldest+i)%len(l.kept)])
	}
	return kept, l.all - uint64(len(kept))
}

// page is the ledger as it is read over HTTP: one JSON object, with a line for each
// arrival, so that it can be read without a tool too.
func (l *ledger) page(seed uint64) (reply, error) {
	kept, forgotten := l.snapshot()
	var body bytes.Buffer
	fmt.Fprintf(&body, `{"semilla":%d,"olvidados":%d,"arribos":[`, seed, forgotten)
	for i, a := range kept {
		line, err := encodeJSON(a)
		if err != nil {
			return reply{}, err
		}
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteByte('\n')
		body.Write(bytes.TrimSuffix(line, []byte("\n")))
	}
	body.WriteString("\n]}\n")
	return reply{status: http.StatusOK, body: body.Bytes()}.with("Content-Type", "application/json"), nil
}

// newLedgerSite serves the ledger, and the seed that its faults were drawn with.
func newLedgerSite(l *ledger, seed uint64, log *slog.Logger) http.Handler {
	handle := func(w http.ResponseWriter, r *http.Request) error {
		switch {
		case r.URL.EscapedPath() != ledgerPath:
			return blankProblem(http.StatusNotFound, "aquí solo está %s", ledgerPath)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			return blankProblem(http.StatusMethodNotAllowed, "%s solo se lee", ledgerPath).withHeader("Allow", "GET, HEAD")
		}
		rep, err := l.page(seed)
		if err != nil {
			return err
		}
		rep.send(w, r)
		return nil
	}
	return &edge{role: gatewayAdmin, log: log, handle: handle, render: renderProblem(log, nil)}
}
