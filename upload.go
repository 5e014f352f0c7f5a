// upload.go owns a request's body while a proxy passes it on: whose turn it is to do
// something next (the client's or the upstream's), how the body ended, and that
// nobody reads from the client's connection any more once the proxy is done with it.
// It must not know what is passed on, nor why.

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// errBodyReturned is what the transport's goroutine reads after the proxy is done: it
// may outlive the exchange, and net/http allows no late or second reader.
var errBodyReturned = errors.New("request body is no longer lent out")

// clientBody is the body of one request, lent to a transport. Safe for concurrent use.
type clientBody struct {
	waiting *patience
	control *http.ResponseController

	short bool // what is still to come is read before an answer is given

	reading sync.Mutex // held during a read: at most one reader at a time
	src     io.Reader
	lent    bool

	mu    sync.Mutex
	first bool  // something of it was read
	left  int64 // bytes still to be read; negative: unknown until the end
	end   error // nil while there may be more; io.EOF; or what cut it
}

// newClientBody takes the body of r, whose connection is w's. Its reads pause waiting.
func newClientBody(w http.ResponseWriter, r *http.Request, waiting *patience) *clientBody {
	body := &clientBody{
		waiting: waiting, control: http.NewResponseController(w),
		src: r.Body, lent: true, left: r.ContentLength,
		short: isSmall(r),
	}
	if body.left == 0 {
		body.end = io.EOF
	}
	return body
}

// Read reads for the upstream. While it waits for the client, the upstream's
// patience does not run.
func (b *clientBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if !b.lent {
		return 0, errBodyReturned
	}
	b.waiting.pause()
	defer b.waiting.resume()
	n, err := b.src.Read(p)
	b.note(n, err)
	return n, err
}

// Close does nothing: the body belongs to the server, see giveBack.
func (b *clientBody) Close() error { return nil }

func (b *clientBody) note(n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first = b.first || n > 0
	if b.left > 0 {
		b.left -= int64(n)
	}
	switch {
	case b.end != nil:
	case err != nil:
		b.end = err
	case b.left == 0:
		b.end = io.EOF
	}
}

// ended tells whether the client has sent its whole body.
func (b *clientBody) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end == io.EOF
}

// unread is for unreadBody: once the body was given back, nobody swallows the rest.
func (b *clientBody) unread() bool { return !b.ended() }

// failure is what cut the body short on the client's side, nil when nothing did.
func (b *clientBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == io.EOF {
		return nil
	}
	return b.end
}

// begun tells whether the client's body has begun to come, or will not come.
func (b *clientBody) begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first || b.end != nil
}

// departed tells whether the client's side of the connection ended within the body.
func (b *clientBody) departed() bool {
	cut := b.failure()
	return errors.Is(cut, io.ErrUnexpectedEOF) || errors.Is(cut, syscall.ECONNRESET)
}

// peek reads at most limit bytes of the body's beginning, which stay in it. To be
// called before the body is lent to anybody.
func (b *clientBody) peek(limit int64) ([]byte, error) {
	begin, err := io.ReadAll(io.LimitReader(b.src, limit))
	if err != nil {
		b.note(0, err)
		return nil, err
	}
	b.mu.Lock()
	b.first = b.first || len(begin) > 0
	b.mu.Unlock()
	b.src = io.MultiReader(bytes.NewReader(begin), b.src)
	return begin, nil
}

// linger reads on after the answer was sent, until the client has sent everything or
// lingerTime has passed (RFC 9112 section 9.6): a client that sends all before it
// reads would otherwise lose the answer to a reset connection.
func (b *clientBody) linger() {
	if b.ended() || b.control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	io.Copy(io.Discard, b)
	if b.ended() {
		b.control.SetReadDeadline(time.Time{})
	}
}

// giveBack ends the loan. What is left of a short body is read first, so that its
// connection can serve on.
func (b *clientBody) giveBack() {
	if b.short {
		b.linger()
	}
	b.revoke()
}

// revoke ends the loan at once: a read under way is broken off, a later one fails.
func (b *clientBody) revoke() {
	if !b.ended() {
		b.control.SetReadDeadline(time.Unix(1, 0)) // long past
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	b.lent = false
}

// patience is a time limit that runs only while the upstream is the one to act.
type patience struct {
	mu      sync.Mutex
	limit   time.Duration
	timer   *time.Timer
	running bool
}

// newPatience returns a patience of limit, not yet running. over is called, on a
// goroutine of its own, when it is exhausted.
func newPatience(limit time.Duration, over func()) *patience {
	p := &patience{limit: limit, timer: time.AfterFunc(limit, over)}
	p.timer.Stop()
	return p
}

func (p *patience) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
	p.timer.Reset(p.limit)
}

func (p *patience) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		p.timer.Stop()
	}
}

// resume begins the limit anew: the upstream has just taken a piece.
func (p *patience) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		p.timer.Reset(p.limit)
	}
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	p.timer.Stop()
}
