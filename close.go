// close.go owns what becomes of a connection beside the ordinary: the answer that is its
// last and must arrive all the same, the cut without an answer, the request that is held,
// and how much of a request's body may still be on its way. It must not know any route,
// nor why a connection ends.

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// lingerTime is how long a staged close reads on after its half-close
	// (RFC 9112 section 9.6), at most.
	lingerTime = 2 * time.Second
	// smallBody is what is read and discarded of an unread body before the answer, as
	// net/http does; a declared length above it needs the staged close.
	smallBody = 256 << 10
)

// watchedBody is a request's body that knows whether it was read to its end.
type watchedBody struct {
	io.ReadCloser
	ended bool
	small bool // see isSmall
}

// watchBody watches the body of a request that net/http has just handed over.
func watchBody(r *http.Request) *watchedBody {
	return &watchedBody{ReadCloser: r.Body, ended: r.Body == http.NoBody, small: isSmall(r)}
}

// isSmall tells whether what nobody read of this request's body is swallowed. A client
// that waits for "100 Continue" (RFC 9110 section 10.1.1) has sent nothing yet,
// and would be waited for in vain.
func isSmall(r *http.Request) bool {
	return r.ContentLength >= 0 && r.ContentLength <= smallBody && r.Header.Get("Expect") == ""
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended = true
	}
	return n, err
}

func (b *watchedBody) unread() bool { return !b.ended }

// swallowSmall reads what nobody read of a small body, so that its connection can serve
// on. net/http would do it too, but wait for it as long as a whole exchange may take.
func swallowSmall(w http.ResponseWriter, r *http.Request) {
	body, watched := r.Body.(*watchedBody)
	if !watched || body.ended || !body.small {
		return
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	io.Copy(io.Discard, body)
}

// unreadBody tells whether more of the body may still be on its way.
func unreadBody(r *http.Request) bool {
	body, watched := r.Body.(interface{ unread() bool })
	return watched && body.unread()
}

// sendLast answers and ends the connection gently, so that the answer reaches a client
// that sends everything before it reads.
func (rep reply) sendLast(w http.ResponseWriter, r *http.Request) {
	rep.setHeader(w)
	conn, err := takeConnection(w)
	if err != nil {
		w.Header().Set("Connection", "close")
		w.WriteHeader(rep.status)
		w.Write(rep.body)
		return
	}
	if err := rep.writeLast(conn, w, r); err != nil {
		conn.Close()
		return
	}
	closeGently(conn)
}

// writeLast writes the answer to a connection that was taken over from w.
func (rep reply) writeLast(conn net.Conn, w http.ResponseWriter, r *http.Request) error {
	if rec, ok := w.(*recorder); ok {
		rec.status = rep.status
	}
	header := w.Header().Clone()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	answer := http.Response{
		StatusCode: rep.status, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: header, Close: true,
		ContentLength: int64(len(rep.body)), Body: io.NopCloser(bytes.NewReader(rep.body)),
	}
	return answer.Write(conn)
}

// takeConnection takes the connection over from net/http. Whatever is still to be
// written has lingerTime.
func takeConnection(w http.ResponseWriter) (net.Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("take connection: %w", err)
	}
	conn.SetDeadline(time.Now().Add(lingerTime))
	return conn, nil
}

// closeGently ends a connection in the stages of RFC 9112 section 9.6: half-close, read
// until the client ends or lingerTime has passed, close. A close with unread bytes is a
// reset, which can destroy what was sent. (net/http's own close lingers 500 ms without
// reading, and then resets.)
func closeGently(conn net.Conn) {
	defer conn.Close()
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.Copy(io.Discard, conn)
}

// resetConnection closes the connection by an RST. What the client has not read by then
// may be lost.
func resetConnection(conn net.Conn) error {
	if abrupt, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		abrupt.SetLinger(0)
	}
	return conn.Close()
}

// cutConnection closes the connection without a byte, read or written.
// http.ErrAbortHandler would do the same only after waiting for an unread body.
func cutConnection(w http.ResponseWriter) error {
	conn, err := takeConnection(w)
	if err != nil {
		return err
	}
	conn.Close()
	return nil
}

// holdRequest reads the request's body and then waits for until (nil: for ever). It
// returns false when the client left or the process stops first. The body comes
// first because net/http only notices a client that leaves once the body was read; it
// takes a half-closed connection for one, too. The server's deadlines are lifted:
// they would end the longest waits, which are bounded here.
func holdRequest(w http.ResponseWriter, r *http.Request, until <-chan time.Time) bool {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return false
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Time{}) != nil || control.SetWriteDeadline(time.Time{}) != nil {
		return false // the connection is gone
	}
	select {
	case <-until:
		return true
	case <-r.Context().Done():
		return false
	}
}
