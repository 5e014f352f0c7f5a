// observer.go owns what is seen of an origin from outside, while a client speaks to it:
// how many requests arrived, the answers it gave, and in which order what happened. It
// must not know what is asked, nor the insides of any server.

package main

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// observedBody is how many bytes of an answer's body are kept: many times a revision.
const observedBody = 64 << 10

// happening is something that can be seen to happen to a request. Its value is its name
// in JSON and CSV.
type happening string

const (
	clientSends    happening = "enviada"           // the client begins to send the request
	originApplied  happening = "aplicada"          // its effect stands in the origin's records
	originAnswered happening = "respondida"        // the origin's handler has given the whole answer
	gatewayHasAll  happening = "recibida-entera"   // the gateway has read that answer to its end
	gatewayDrops   happening = "descartada"        // and throws it away
	clientFails    happening = "fallo-cliente"     // the client learns nothing of the outcome
	clientLearns   happening = "respuesta-cliente" // the client has an answer
)

// event is one happening. Its number in the order of events is its place in the list.
type event struct {
	what    happening
	request int           // of the client, from 1
	at      time.Duration // since the observation began, on a monotonic clock
}

// observer watches one origin, of which one client asks one thing after the other. Safe
// for concurrent use.
type observer struct {
	now func() time.Time

	mu      sync.Mutex
	effects func() (int, error) // see begin
	began   time.Time
	request int // the client's current one
	events  []event
	arrived map[string]int // requests, by method
	answers []answer       // of the origin, in the order in which they were whole
	known   int            // effects seen so far
}

// newObserver returns an observer that has seen nothing. It can stand around its origin at
// once; begin comes before the first request.
func newObserver(now func() time.Time) *observer {
	return &observer{now: now, arrived: map[string]int{}}
}

// begin starts the observation, and returns how many effects there are already: they are
// no events. effects asks the origin's own records how many there are, past the observer.
func (o *observer) begin(effects func() (int, error)) (int, error) {
	before, err := effects()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.effects, o.known, o.began = effects, before, o.now()
	return before, err
}

// sends says that the client begins its next request.
func (o *observer) sends() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.request++
	o.note(clientSends)
}

// saw puts a happening at the end of the order of events.
func (o *observer) saw(what happening) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(what)
}

// note is saw for who holds the lock.
func (o *observer) note(what happening) {
	o.events = append(o.events, event{what, o.request, o.now().Sub(o.began)})
}

// look reads the origin's records, and each effect that is new in them happened at the
// latest now. It returns how many there are.
func (o *observer) look() (int, error) {
	o.mu.Lock()
	effects := o.effects
	o.mu.Unlock()
	count, err := effects() // not under the lock: it is a request, and others are observed meanwhile
	if err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; o.known < count; o.known++ {
		o.note(originApplied)
	}
	return count, nil
}

// around puts the observer around the origin: what comes this way is counted, and what
// comes past it (the set-up's requests and the judge's) is not.
//
// In the moment in which an answer is about to begin it looks at the origin's records: so
// an effect that was committed before the first byte of its answer comes before it in the
// order, and one that was not comes after. That look must not fail the answer: a later
// one fails again, for the judge.
func (o *observer) around(origin http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.arrived[r.Method]++
		o.mu.Unlock()
		watched := &watchedAnswer{ResponseWriter: w, begins: func() { o.look() }}
		origin.ServeHTTP(watched, r)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.answers = append(o.answers, watched.got)
		o.note(originAnswered)
	})
}

// arrivals is how many requests with a method reached the origin.
func (o *observer) arrivals(method string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.arrived[method]
}

// answer is the origin's n-th answer, from 1; the zero value when it gave none.
func (o *observer) answer(n int) answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > len(o.answers) {
		return answer{}
	}
	return o.answers[n-1]
}

// order is all events so far.
func (o *observer) order() []event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// watchedAnswer keeps what an origin answers while it passes it on.
type watchedAnswer struct {
	http.ResponseWriter
	begins func() // called once, before anything of the answer is passed on
	got    answer
}

func (a *watchedAnswer) WriteHeader(status int) {
	if status >= 200 { // interim answers are none
		a.begin(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *watchedAnswer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	a.got.body = append(a.got.body, p[:min(len(p), observedBody-len(a.got.body))]...)
	return a.ResponseWriter.Write(p)
}

// begin keeps the head of the answer, once.
func (a *watchedAnswer) begin(status int) {
	if a.got.status == 0 {
		a.got.status, a.got.header = status, a.Header().Clone()
		a.begins()
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (a *watchedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
