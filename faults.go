// faults.go owns which arrival meets a fault: what makes two requests the same one, how
// often one has arrived, and what befalls this arrival. Pure: it knows no server, no
// connection and no clock; the gateway asks it and carries the verdict out.

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// simulateHeader asks for a fault; loseFirst is its one word, and asks for
	// pointLoseFirst. A real gateway would obey no such thing: it is for the bench.
	simulateHeader = "X-Simular"
	loseFirst      = "perder-primera"
	// simulatedHeader names, in an answer, what the gateway did to the exchange.
	simulatedHeader = "X-Simulado"
	// seenLimit is how many requests are remembered; the oldest is forgotten first, and
	// is counted from one again. 65,536 cost about 6 MiB, and only a client that starts
	// as many new requests between a loss and its retry could notice.
	seenLimit = 65536
	// identityBody is how many bytes of a body without a key take part in telling
	// requests apart: four times what revisor reads of a body. Two longer ones that
	// begin alike and declare the same length count as one request.
	identityBody = 64 << 10
)

// identity tells one request from another.
type identity [sha256.Size]byte

// identifyKey is the identity of a request with an Idempotency-Key: the key's text
// alone, as it came.
func identifyKey(key string) identity {
	return frame("key", []byte(key))
}

// identifyRequest is the identity of a request without a key: its method, its path
// with the query, the first identityBody bytes of its body and its length, that of a
// longer body as it was declared (-1: it was not).
func identifyRequest(method, target string, body []byte, length int64) identity {
	declared := binary.BigEndian.AppendUint64(nil, uint64(length))
	return frame("request", []byte(method), []byte(target), body[:min(len(body), identityBody)], declared)
}

// frame hashes its parts each behind its length, so that no two lists of parts can
// be spelled alike.
func frame(kind string, parts ...[]byte) identity {
	return sha256.Sum256(appendFramed([]byte(kind), parts...))
}

// short is an identity as a person can compare it.
func (id identity) short() string { return hex.EncodeToString(id[:4]) }

// seenRequests counts the arrivals of the latest limit identities. Safe for concurrent
// use.
type seenRequests struct {
	mu     sync.Mutex
	limit  int
	known  map[identity]uint64
	free   map[identity][]uint64 // numbers that were given back, one for each arrival at most
	order  []identity            // a ring once it is full
	oldest int
}

// newSeenRequests remembers at most limit identities.
func newSeenRequests(limit int) *seenRequests {
	return &seenRequests{limit: limit, known: make(map[identity]uint64), free: make(map[identity][]uint64)}
}

// arrive counts one arrival of id and returns its number, from 1: of any number of
// equal arrivals at once, each has another. A number that was given back goes to the next.
func (s *seenRequests) arrive(id identity) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if free := s.free[id]; len(free) > 0 {
		number := slices.Min(free)
		s.setFree(id, slices.DeleteFunc(free, func(n uint64) bool { return n == number }))
		return number
	}
	s.known[id]++
	number := s.known[id]
	switch {
	case number > 1:
	case len(s.order) < s.limit:
		s.order = append(s.order, id)
	default:
		delete(s.known, s.order[s.oldest])
		delete(s.free, s.order[s.oldest])
		s.order[s.oldest] = id
		s.oldest = (s.oldest + 1) % s.limit
	}
	return number
}

// giveBack takes the count of an arrival back.
func (s *seenRequests) giveBack(id identity, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch last := s.known[id]; {
	case number > last: // of a time that was forgotten
	case !slices.Contains(s.free[id], number):
		s.setFree(id, append(s.free[id], number))
	}
}

func (s *seenRequests) setFree(id identity, numbers []uint64) {
	if len(numbers) == 0 {
		delete(s.free, id)
		return
	}
	s.free[id] = numbers
}

// first tells whether this is the first arrival of id, and counts it.
func (s *seenRequests) first(id identity) bool { return s.arrive(id) == 1 }

// faultPoint is where and how an exchange is spoiled, by the name that it has in a fault's
// text, in X-Simulado and in the ledger. "" is nowhere.
type faultPoint string

const (
	pointBefore           faultPoint = "before"
	pointAfter            faultPoint = "after"
	pointCutBeforeHeaders faultPoint = "cut-before-headers"
	pointCutAfterHeaders  faultPoint = "cut-after-headers"
	pointCutAfter         faultPoint = "cut-after"
	pointDelay            faultPoint = "delay"
	pointDuplicate        faultPoint = "duplicate"
	pointStatus           faultPoint = "status"
	// pointLoseFirst is pointAfter when X-Simular asked for it; no fault's text can.
	pointLoseFirst faultPoint = "perder-primera"
)

// fault is what befalls an arrival, and which arrivals. See parseFault.
type fault struct {
	point      faultPoint
	bytes      int64 // of the answer's body that a cut-after lets through
	reset      bool  // a cut is a reset (RST), not an orderly close (FIN)
	delay      time.Duration
	late       bool   // the delay is between the upstream's answer and its delivery
	status     int    // that the gateway answers by itself
	retryAfter string // with it; "" for none
	when       occasion
}

// takesWhole tells whether the upstream's whole answer is taken and none of it passed on.
func (f fault) takesWhole() bool {
	switch f.point {
	case pointAfter, pointLoseFirst, pointCutBeforeHeaders:
		return true
	}
	return false
}

// answersHere tells whether the gateway answers by itself and forwards nothing.
func (f fault) answersHere() bool { return f.point == pointBefore || f.point == pointStatus }

// cuts tells whether the client's connection is cut.
func (f fault) cuts() bool {
	switch f.point {
	case pointCutBeforeHeaders, pointCutAfterHeaders, pointCutAfter:
		return true
	}
	return false
}

// delivers is how many bytes of the answer's body a fault lets through; negative: all.
func (f fault) delivers() int64 {
	switch f.point {
	case pointCutAfterHeaders:
		return 0
	case pointCutAfter:
		return f.bytes
	}
	return -1
}

// String is the fault as it is written in a plan, without its WHEN.
func (f fault) String() string {
	switch option := f.option(); f.point {
	case pointCutAfter:
		return fmt.Sprintf("%s=%d%s", f.point, f.bytes, option)
	case pointDelay:
		return fmt.Sprintf("%s=%v%s", f.point, f.delay, option)
	case pointStatus:
		return fmt.Sprintf("%s=%d%s", f.point, f.status, option)
	default:
		return string(f.point) + option
	}
}

// option is what stands behind a fault's point and value, with its colon.
func (f fault) option() string {
	switch {
	case f.reset:
		return ":reset"
	case f.late:
		return ":after"
	case f.retryAfter != "":
		return ":" + f.retryAfter
	}
	return ""
}

// occasion is which arrivals of a request a fault befalls.
type occasion struct {
	kind  occasionKind
	count uint64 // K; none for whenRate
	rate  float64
}

// occasionKind is, by its name in a fault's text, what an occasion can be: the first K
// arrivals, the Kth alone, each Kth, or a share of all.
type occasionKind string

const (
	whenFirst occasionKind = "first"
	whenNth   occasionKind = "nth"
	whenEvery occasionKind = "every"
	whenRate  occasionKind = "rate"
)

// faultPlan is the faults of one gateway and what has arrived there. Safe for concurrent
// use.
type faultPlan struct {
	faults []fault
	seed   uint64
	seen   *seenRequests
}

// newFaultPlan plans faults, the first of which has precedence. With the same seed the
// same arrivals meet the same faults.
func newFaultPlan(faults []fault, seed uint64) *faultPlan {
	return &faultPlan{faults: faults, seed: seed, seen: newSeenRequests(seenLimit)}
}

// verdict is what befalls one arrival.
type verdict struct {
	number uint64        // of the arrival among those of its identity, from 1; 0: not counted
	before time.Duration // before it is forwarded
	after  time.Duration // between the upstream's answer and its delivery
	delays string        // both, as they are written: "delay=1s, delay=2s:after"
	fault  fault         // beside the delays; its point is "" for none
}

// arrive counts an arrival and says what befalls it: all the delays that apply, added
// up, and the first other fault that does.
func (p *faultPlan) arrive(id identity) verdict {
	v := verdict{number: p.seen.arrive(id)}
	for place, f := range p.faults {
		switch {
		case f.point != pointDelay && v.fault.point != "", !p.befalls(place, id, v.number):
		case f.point != pointDelay:
			v.fault = f
		case f.late:
			v.after += f.delay
			v.delays = listed(v.delays, f.String())
		default:
			v.before += f.delay
			v.delays = listed(v.delays, f.String())
		}
	}
	return v
}

// giveBack takes the count of an arrival back: nothing has befallen it, and its number,
// with what is planned for it, is the next one's.
func (p *faultPlan) giveBack(id identity, v verdict) { p.seen.giveBack(id, v.number) }

// befalls tells whether the fault at that place of the plan befalls that arrival: a
// function of the seed, the place, the identity and the number alone.
func (p *faultPlan) befalls(place int, id identity, number uint64) bool {
	when := p.faults[place].when
	switch when.kind {
	case whenNth:
		return number == when.count
	case whenEvery:
		return number%when.count == 0
	case whenRate:
		return p.draw(place, id, number) < when.rate
	}
	return number <= when.count
}

// draw is uniform in [0, 1). The place takes part so that two faults of one rate befall
// different arrivals.
func (p *faultPlan) draw(place int, id identity, number uint64) float64 {
	var numbers []byte
	for _, n := range []uint64{p.seed, uint64(place), number} {
		numbers = binary.BigEndian.AppendUint64(numbers, n)
	}
	drawn := frame("draw", numbers, id[:])
	const bits = 53 // that a float64 holds exactly
	return float64(binary.BigEndian.Uint64(drawn[:])>>(64-bits)) / (1 << bits)
}

// spoils tells whether anything befalls the arrival.
func (v verdict) spoils() bool { return v.fault.point != "" || v.delay() > 0 }

// delay is how much longer the exchange takes.
func (v verdict) delay() time.Duration { return v.before + v.after }

// String names what befalls the arrival: "delay, after".
func (v verdict) String() string {
	names := ""
	if v.delay() > 0 {
		names = string(pointDelay)
	}
	return listed(names, string(v.fault.point))
}

// text is what befalls the arrival as it is written in a plan: "delay=1s:after, after".
func (v verdict) text() string { return listed(v.delays, v.fault.String()) }

// listed puts an item behind a list, either of which may be empty.
func listed(list, item string) string {
	if list == "" || item == "" {
		return list + item
	}
	return list + ", " + item
}
