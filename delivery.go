// delivery.go owns the client's side of an exchange that goes through the gateway: which
// interim answers it may be sent, how much of an answer was delivered, and how its
// connection is cut. It must not know what is delivered, nor why it is cut.

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// delivery counts what a client is sent, and cuts it off after so many bytes.
type delivery struct {
	http.ResponseWriter
	client context.Context // ends when net/http sees that the client left
	status int             // of the final answer; 0 until it begins
	bytes  int64           // of its body that were handed over
	length int64           // that its body has; negative: unknown
	limit  int64           // of bytes, after which cut is called; negative: none
	cut    func()
	gone   bool // some of it was handed over although the client was known to have left
	whole  bool // the answer was handed over to its end, to a client that was there
	ended  bool // nothing of it is still to come
	taken  bool // the connection is not net/http's any more
}

// newDelivery delivers to w, whose request's context is client.
func newDelivery(w http.ResponseWriter, client context.Context) *delivery {
	return &delivery{ResponseWriter: w, client: client, length: -1, limit: -1}
}

// left tells whether the client is known to have left. Asked before something is handed
// over: a client that leaves afterwards may well have it.
func (d *delivery) left() bool { return d.client != nil && d.client.Err() != nil }

// WriteHeader sends the head of an answer, and with a limit of nothing no more than it.
func (d *delivery) WriteHeader(status int) {
	d.ResponseWriter.WriteHeader(status)
	if status < 200 {
		return
	}
	d.status, d.gone = status, d.gone || d.left()
	d.cutAtLimit()
}

func (d *delivery) Write(p []byte) (int, error) {
	if d.limit >= 0 {
		p = p[:min(int64(len(p)), d.limit-d.bytes)]
	}
	left := d.left()
	n, err := d.ResponseWriter.Write(p)
	d.bytes += int64(n)
	d.gone = d.gone || left || err != nil
	if err == nil {
		d.cutAtLimit()
	}
	return n, err
}

func (d *delivery) cutAtLimit() {
	if d.limit >= 0 && d.bytes == d.limit {
		d.cut()
	}
}

// finish notes that the answer was handed over to its end.
func (d *delivery) finish() { d.ended, d.whole = true, !d.gone }

// sent notes an answer of the gateway's own, whole unless its client was known to have
// gone. It is told and not counted: with an unread body such an answer is the connection's
// last, and sendLast takes the connection over and writes past this delivery.
func (d *delivery) sent(rep reply, method string, gone bool) {
	d.status, d.bytes, d.ended, d.whole = rep.status, int64(len(rep.body)), true, !gone
	if method == http.MethodHead {
		d.bytes = 0
	}
}

// FlushError sends what was written, as long as there is something to flush. httputil also
// flushes on a goroutine of its own, once a Write has let go of its lock, and that may be a
// Write that cut the connection: net/http would follow a nil pointer there, where no edge
// catches the panic.
func (d *delivery) FlushError() error {
	if d.taken {
		return http.ErrHijacked
	}
	err := http.NewResponseController(d.ResponseWriter).Flush()
	d.gone = d.gone || err != nil
	return err
}

// flushRest sends what has come of an answer that breaks off here: the client is to see as
// much of it as it would have seen without a gateway.
func (d *delivery) flushRest() {
	if d.status != 0 && !d.ended && !d.taken {
		d.FlushError()
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (d *delivery) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// sever sends what was written and then cuts the connection: with reset by a RST, which
// the client's system may let overtake what it has not read yet, else by a FIN, and then
// it goes on reading for a while (see closeGently), because to close with unread bytes
// would be a reset.
func (d *delivery) sever(reset bool) error {
	if d.status != 0 {
		if err := d.FlushError(); err != nil {
			return fmt.Errorf("send what comes before the cut: %w", err)
		}
	}
	d.taken, d.whole = true, d.status != 0 && d.bytes == d.length && !d.gone
	conn, err := takeConnection(d.ResponseWriter)
	if err != nil {
		return err
	}
	if reset {
		return resetConnection(conn)
	}
	closeGently(conn)
	return nil
}

// allowLonger moves the connection's deadlines, which bound a whole exchange, by what is
// added to this one on purpose.
func allowLonger(w http.ResponseWriter, added time.Duration) error {
	control, deadline := http.NewResponseController(w), time.Now().Add(writeTime+added)
	if err := control.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("allow a longer exchange: %w", err)
	}
	if err := control.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("allow a longer exchange: %w", err)
	}
	return nil
}

// interimFilter passes on the interim answers (RFC 9110 section 15.2) that this client
// may be sent now. The 100 is not among them: net/http writes its own, exactly one, when
// the body is read for the first time, which it is when the upstream wants it.
type interimFilter struct {
	http.ResponseWriter
	may func() bool
}

func (f *interimFilter) WriteHeader(status int) {
	if status < 200 && (status == http.StatusContinue || !f.may()) {
		return
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *interimFilter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// nobody is a client that takes any answer and keeps nothing of it.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header         { return n.header }
func (n nobody) WriteHeader(int)             {}
func (n nobody) Write(p []byte) (int, error) { return len(p), nil }
