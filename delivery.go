// delivery.go owns the client's side of an exchange that goes through the gateway: which
// interim answers it may be sent, how much of an answer was delivered, and how its
// connection is cut. It must not know what is delivered, nor why it is cut.

package main

import (
	"fmt"
	"net/http"
	"time"
)

// delivery counts what a client is sent, and cuts it off after so many bytes.
type delivery struct {
	http.ResponseWriter
	status int   // of the final answer; 0 until it begins
	bytes  int64 // of its body that were handed over
	limit  int64 // of bytes, after which cut is called; negative: none
	cut    func()
	whole  bool // the answer was handed over to its end
	taken  bool // the connection is not net/http's any more
}

// WriteHeader sends the head of an answer, and with a limit of nothing no more than it.
func (d *delivery) WriteHeader(status int) {
	d.ResponseWriter.WriteHeader(status)
	if status < 200 {
		return
	}
	d.status = status
	d.cutAtLimit()
}

func (d *delivery) Write(p []byte) (int, error) {
	if d.limit >= 0 {
		p = p[:min(int64(len(p)), d.limit-d.bytes)]
	}
	n, err := d.ResponseWriter.Write(p)
	d.bytes += int64(n)
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

// sent notes an answer of the gateway's own, whole. It is told and not counted: with an
// unread body such an answer is the connection's last, and sendLast takes the connection
// over and writes past this delivery.
func (d *delivery) sent(rep reply, method string) {
	d.status, d.bytes, d.whole = rep.status, int64(len(rep.body)), true
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
	return http.NewResponseController(d.ResponseWriter).Flush()
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
	d.taken = true
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

// interimFilter passes on the interim answers (RFC 9110 section 15.2) that this
// client may be sent.
type interimFilter struct {
	http.ResponseWriter
	expects   bool // the client sent Expect: 100-continue
	continued bool // and was told to continue
	silent    bool // none but that 100
}

func (f *interimFilter) WriteHeader(status int) {
	switch {
	case status == http.StatusContinue && f.expects:
		f.continued = true
	case status < 200 && (f.silent || status == http.StatusContinue || f.expects && !f.continued):
		// Before it has continued, net/http may be writing its own 100 right now.
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
