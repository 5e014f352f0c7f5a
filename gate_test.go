// gate_test.go owns a resolver that a test can shut, to hold a request in the middle of
// its work without waiting for a clock.

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// gate resolves one name, gateHost, to loopback: at once while it is open, and only
// when it opens while it is shut. So a test can stop a request in the middle of its
// work. Other names resolve to nothing.
type gate struct {
	mu      sync.Mutex
	shut    chan struct{} // closed when the gate opens; nil while it is open
	entered chan struct{} // one token for each request that came to a shut gate
}

const gateHost = "puerta.example"

func newGate() *gate { return &gate{entered: make(chan struct{}, 64)} }

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if host != gateHost {
		return nil, errors.New("no such host")
	}
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		g.entered <- struct{}{}
		select {
		case <-shut:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// arrived waits until a request has come to the shut gate.
func (g *gate) arrived(t *testing.T) {
	t.Helper()
	select {
	case <-g.entered:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody came to the gate")
	}
}

// gateURL is a URL behind the gate, at the lab.
func (b *bench) gateURL(path string) string {
	_, port, _ := net.SplitHostPort(b.lab)
	return "http://" + net.JoinHostPort(gateHost, port) + path
}
