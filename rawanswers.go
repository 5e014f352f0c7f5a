// rawanswers.go owns the bench's answers that are written byte by byte: those of
// rawforms.go, the large and the dripping ones, within the bench's limits. It must not know
// who asks, nor what a client makes of them.

package main

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// cutBytes is how much of a body arrives before it is cut, unless the query says.
	cutBytes = 10
	// fillerLine is what bodies without a meaning are made of.
	fillerLine = "el banco de pruebas se porta mal cuando se le pide, y esto solo\n"
	// fillerBlock is how much of it is written at once, in bytes: whole lines, of 64.
	fillerBlock = 16 << 10
)

// rawAnswer is an answer as bytes.
type rawAnswer struct {
	status int    // of the status line, if that goes out whole; 0 otherwise
	head   string // what goes out first; with its empty line, if the header section is whole
	// more goes on with the header section, and body is what a HEAD does not get. Either
	// may be nil.
	more, body rawPart
	end        func(c *rawConnection)
}

// rawPart writes a part of an answer. An error means that there is nobody to write to any
// more.
type rawPart func(c *rawConnection) error

// raw answers with the form that the path names.
func (l *lab) raw(forms []rawForm, end func(*rawConnection)) labHandler {
	return func(w http.ResponseWriter, r *http.Request, args []string) error {
		at := slices.IndexFunc(forms, func(form rawForm) bool { return form.name == args[0] })
		if at < 0 {
			return unknownForm("eso no existe; GET /ayuda dice lo que hay")
		}
		if err := labOnlyReads(r); err != nil {
			return err
		}
		size, err := labParameter(r, "bytes", min(cutBytes, l.limits.bytes), l.limits.bytes)
		if err != nil {
			return err
		}
		answer := forms[at].answer(rawTask{text: labText(r, http.StatusOK, ""), now: l.now(), bytes: size, most: l.limits.bytes})
		if answer.end == nil {
			answer.end = end
		}
		return l.sendRaw(w, r, answer)
	}
}

// sendRaw writes an answer on a connection taken over. It has the bench's longest delay, and
// what is still to be written then has lingerTime.
func (l *lab) sendRaw(w http.ResponseWriter, r *http.Request, answer rawAnswer) error {
	conn, err := takeRaw(w, r, answer.status, l.limits.delay+lingerTime)
	if err != nil {
		return err
	}
	parts := []rawPart{textBody(answer.head), answer.more}
	if r.Method != http.MethodHead {
		parts = append(parts, answer.body)
	}
	if err := inTurn(parts...)(conn); err != nil {
		conn.release()
		return nil
	}
	answer.end(conn)
	return nil
}

// large answers 200 with a body of so many bytes.
func (l *lab) large(w http.ResponseWriter, r *http.Request, args []string) error {
	size, err := labNumber(args[0])
	if err != nil {
		return err
	}
	if err := labOnlyReads(r); err != nil {
		return err
	}
	if size > l.limits.bytes {
		return impossible("el banco no envía más de %d bytes", l.limits.bytes)
	}
	return l.sendRaw(w, r, rawAnswer{
		status: http.StatusOK, head: rawHead(http.StatusOK, l.now(), contentLength(size)), body: fillerBody(size), end: (*rawConnection).finish,
	})
}

// drip answers 200 with a body that comes byte by byte.
func (l *lab) drip(w http.ResponseWriter, r *http.Request, args []string) error {
	size, every, err := l.dripArguments(r, args)
	if err != nil {
		return err
	}
	return l.sendRaw(w, r, rawAnswer{
		status: http.StatusOK, head: rawHead(http.StatusOK, l.now(), contentLength(size)), body: drops(size, every), end: (*rawConnection).finish,
	})
}

// dripHeader answers 200 with a header field that comes byte by byte.
func (l *lab) dripHeader(w http.ResponseWriter, r *http.Request, args []string) error {
	size, every, err := l.dripArguments(r, args)
	if err != nil {
		return err
	}
	text := labText(r, http.StatusOK, "")
	rest := strings.TrimPrefix(rawHead(http.StatusOK, l.now(), contentLength(int64(len(text)))), rawStatusLine)
	return l.sendRaw(w, r, rawAnswer{
		status: http.StatusOK, head: rawStatusLine + "X-Goteo: ", more: inTurn(drops(size, every), textBody("\r\n"+rest)),
		body: textBody(text), end: (*rawConnection).finish,
	})
}

// dripArguments reads BYTES and MS. All the drops together must fit the bench's longest
// delay, which is what the whole answer has.
func (l *lab) dripArguments(r *http.Request, args []string) (size int64, every time.Duration, err error) {
	if size, err = labNumber(args[0]); err != nil {
		return 0, 0, err
	}
	ms, err := labNumber(args[1])
	if err != nil {
		return 0, 0, err
	}
	if err := labOnlyReads(r); err != nil {
		return 0, 0, err
	}
	most := l.limits.delay.Milliseconds()
	switch {
	case ms == 0:
		return 0, 0, impossible("entre gota y gota pasa al menos 1 ms")
	case size > l.limits.bytes, size > most/ms, ms > math.MaxInt64/int64(time.Millisecond):
		return 0, 0, impossible("el goteo entero no puede durar más de %d ms ni pasar de %d bytes", most, l.limits.bytes)
	}
	return size, time.Duration(ms) * time.Millisecond, nil
}

// textBody writes a text.
func textBody(text string) rawPart {
	return func(c *rawConnection) error {
		_, err := io.WriteString(c, text)
		return err
	}
}

// fillerBody writes n bytes of no meaning.
func fillerBody(n int64) rawPart {
	return repeat(fillerLine, n)
}

// repeat writes a text again and again, up to n bytes.
func repeat(text string, n int64) rawPart {
	return func(c *rawConnection) error {
		block := bytes.Repeat([]byte(text), fillerBlock/len(text))
		for left := n; left > 0; {
			wrote, err := c.Write(block[:min(left, int64(len(block)))])
			if err != nil {
				return err
			}
			left -= int64(wrote)
		}
		return nil
	}
}

// drops writes n bytes, one at each tick.
func drops(n int64, every time.Duration) rawPart {
	return func(c *rawConnection) error {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for i := range n {
			select {
			case <-ticker.C:
			case <-c.ctx.Done():
				return c.ctx.Err()
			}
			if _, err := c.Write([]byte{fillerLine[i%int64(len(fillerLine)-1)]}); err != nil {
				return err
			}
		}
		return nil
	}
}

// inTurn writes one part after the other; nil is none.
func inTurn(parts ...rawPart) rawPart {
	return func(c *rawConnection) error {
		for _, part := range parts {
			if part == nil {
				continue
			}
			if err := part(c); err != nil {
				return err
			}
		}
		return nil
	}
}
