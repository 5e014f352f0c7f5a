// rawconnection.go owns a connection that was taken over for an answer of any bytes: how
// long it may last, that it ends when the client or the process does, and how it is
// closed. It must not know what is written.

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// rawConnection is a connection of which every byte is the writer's. A write returns an
// error when the client has reset it, the process stops or its time is up. End it with
// finish, reset or release; then nothing of it is left.
type rawConnection struct {
	net.Conn
	until time.Time // the limit of all of it
	// ctx ends with whatever would end the writing, and when the client has closed its
	// side: a half-closed connection counts as one left, as it does in holdRequest.
	ctx context.Context

	ended   context.CancelFunc
	unwatch func() bool
	reading sync.WaitGroup
}

// takeRaw takes the connection over from net/http for at most limit; status is what the
// request log will say. What the client still sends is read and discarded, so that a
// close is a FIN and not a reset, and so that its leaving is noticed.
func takeRaw(w http.ResponseWriter, r *http.Request, status int, limit time.Duration) (*rawConnection, error) {
	conn, err := takeConnection(w)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(limit)
	conn.SetDeadline(until)
	if rec, ok := w.(*recorder); ok {
		rec.status = status
	}
	c := &rawConnection{Conn: conn, until: until}
	c.ctx, c.ended = context.WithCancel(r.Context())
	c.unwatch = context.AfterFunc(r.Context(), func() { conn.Close() })
	c.reading.Go(func() {
		defer c.ended()
		io.Copy(io.Discard, conn)
	})
	return c, nil
}

// finish ends with a FIN, in the stages of closeGently, within the limit.
func (c *rawConnection) finish() {
	defer c.release()
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	if linger := time.Now().Add(lingerTime); linger.Before(c.until) {
		c.SetReadDeadline(linger)
	}
	<-c.ctx.Done()
}

// reset ends with an RST. What the client has not acknowledged by then is lost.
func (c *rawConnection) reset() {
	resetConnection(c.Conn)
	c.release()
}

// keepOpen says nothing more, until the client leaves or time is up.
func (c *rawConnection) keepOpen() {
	<-c.ctx.Done()
	c.release()
}

// release closes the connection, however it stands.
func (c *rawConnection) release() {
	c.unwatch()
	c.Close()
	c.reading.Wait()
}
