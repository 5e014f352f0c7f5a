// transport.go owns the transport of all our clients, and how they call themselves. It
// must not know who sends, nor where to.

package main

import (
	"context"
	"net"
	"net/http"
)

// userAgent is the User-Agent of every client of ours.
const userAgent = "revisor"

// oneRequestTransport returns a transport of which each RoundTrip is exactly one request
// on a connection of its own. (On a reused connection Go's transport sends a request
// again by itself when that connection dies, a POST with an Idempotency-Key included.)
// No proxy from the environment, no compression asked for, HTTP/1.1 alone: HTTP/2 shares
// connections. Its only time limit is the request's context. dial opens the connections,
// nil as the system does; maxHeader bounds the header section of an answer, in bytes.
func oneRequestTransport(dial func(ctx context.Context, network, address string) (net.Conn, error), maxHeader int64) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dial,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              protocols,
	}
}
