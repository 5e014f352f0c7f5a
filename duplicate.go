// duplicate.go owns a request that the gateway sends twice: what is held for that, and
// the second sending. It must not know why it is done.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// heldBody is the most of a body, of a request or of an answer, that is held for a
// duplicate, in bytes.
const heldBody = 1 << 20

// holdAnswer reads an answer, up to heldBody bytes: an upstream that serves one request
// after the other takes the next one only when it is rid of this one. An answer that
// breaks off does so again where it is read.
func holdAnswer(resp *http.Response) {
	begin, _ := io.ReadAll(io.LimitReader(resp.Body, heldBody))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), resp.Body), resp.Body}
}

// sendAgain forwards the request, whose body is held, once more, and discards the
// answer. That there is none is noted and nothing more: the first one stands.
func (x *exchange) sendAgain(r *http.Request) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), x.patience, errUpstreamSlow)
	defer cancel()
	again := r.Clone(ctx)
	again.Body = io.NopCloser(bytes.NewReader(x.held))
	var failed error
	proxy := x.proxy(func(err error) { failed = err })
	proxy.ModifyResponse = func(resp *http.Response) error {
		x.ledger.note(x.entry, func(a *arrival) { a.Duplicate = resp.StatusCode })
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return fmt.Errorf("read the answer to a duplicate: %w", err)
		}
		return errAnswerLost
	}
	proxy.ServeHTTP(nobody{http.Header{}}, again)
	if !errors.Is(failed, errAnswerLost) {
		x.log.Warn("upstream did not answer a duplicate", "role", "gateway", "method", r.Method, "path", r.URL.EscapedPath(), "error", failed)
	}
}
