// faults.go owns which arrival meets a fault: how one is asked for, what makes two
// requests the same one, and whether one was seen before. Pure: it knows no server, no connection and no
// clock; the gateway asks it and carries the verdict out.

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

const (
	// simulateHeader asks for a fault; loseFirst is the one there is. A real gateway
	// would obey no such thing: it is for the bench.
	simulateHeader = "X-Simular"
	loseFirst      = "perder-primera"
	// seenLimit is how many requests are remembered; the oldest is forgotten first,
	// and would meet its fault once more. 65,536 cost about 5 MiB, and only a client
	// that starts as many new requests between a loss and its retry could notice.
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
// with the query, the first identityBody bytes of its body and the length that it
// declared (-1: none).
func identifyRequest(method, target string, body []byte, length int64) identity {
	declared := binary.BigEndian.AppendUint64(nil, uint64(length))
	return frame("request", []byte(method), []byte(target), body[:min(len(body), identityBody)], declared)
}

// frame hashes its parts each behind its length, so that no two lists of parts can
// be spelled alike.
func frame(kind string, parts ...[]byte) identity {
	framed := []byte(kind)
	for _, part := range parts {
		framed = binary.BigEndian.AppendUint64(framed, uint64(len(part)))
		framed = append(framed, part...)
	}
	return sha256.Sum256(framed)
}

// seenRequests remembers the latest limit identities. Safe for concurrent use.
type seenRequests struct {
	mu     sync.Mutex
	limit  int
	known  map[identity]struct{}
	order  []identity // a ring once it is full
	oldest int
}

// newSeenRequests remembers at most limit identities.
func newSeenRequests(limit int) *seenRequests {
	return &seenRequests{limit: limit, known: make(map[identity]struct{})}
}

// first tells whether this is the first arrival of id, and remembers it: of any
// number of equal arrivals at once, exactly one is the first.
func (s *seenRequests) first(id identity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, seen := s.known[id]; seen {
		return false
	}
	s.known[id] = struct{}{}
	if len(s.order) < s.limit {
		s.order = append(s.order, id)
		return true
	}
	delete(s.known, s.order[s.oldest])
	s.order[s.oldest] = id
	s.oldest = (s.oldest + 1) % s.limit
	return true
}
