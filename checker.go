// checker.go owns one attempt against a service, the attempts of a check, and what
// their outcome is called. Which address may be reached is destination.go's, which
// revision is due queue.go's.
// It must not know routes, the store or who asked.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxAttempts is the contract's: one try and two repeats.
	maxAttempts = 3
	// maxResponseHeader bounds the header section of an answer, in bytes: far above
	// what servers send, and small enough for many checks side by side.
	maxResponseHeader = 64 << 10
	// minStatus is the smallest status of HTTP (RFC 9110 section 15).
	minStatus = 100
)

// The states of a finished revision, as they go over the wire.
const (
	stateUp   = "ARRIBA"
	stateSlow = "LENTO"
	stateDown = "CAIDO"
)

// What an attempt without an answer comes to. liveCheck reports errNoConnection as
// errBadAnswer too.
var (
	errNoConnection = errors.New("no connection")
	errSlow         = errors.New("no answer within the limit")
	errBadAnswer    = errors.New("no valid HTTP answer")
)

// attemptAnswer is the header section that one attempt got.
type attemptAnswer struct {
	code          int
	ms            int64 // whole milliseconds, resolving and connecting included
	retryAfter    int64 // seconds, when hasRetryAfter
	hasRetryAfter bool
}

// checker sends the requests of checks.
type checker struct {
	destinations *destinations
	transport    *http.Transport
	now          func() time.Time
	random       func() float64
	wait         func(ctx context.Context, d time.Duration) error
}

// newChecker takes the clock that measures attempts, random numbers in [0, 1) and the
// wait between attempts, which returns early with an error when its context ends.
func newChecker(d *destinations, now func() time.Time, random func() float64, wait func(ctx context.Context, d time.Duration) error) *checker {
	// A kept connection would skip the judging dialer.
	transport := oneRequestTransport(d.dial, maxResponseHeader)
	return &checker{destinations: d, transport: transport, now: now, random: random, wait: wait}
}

// check makes the attempts of a revision, each under its own limit, and returns what
// the last one came to. The error is not nil only when ctx ended: then nothing is known.
func (c *checker) check(ctx context.Context, rawURL string, limit time.Duration) (checkResult, error) {
	for n := 1; ; n++ {
		got, err := c.attempt(ctx, rawURL, limit)
		if err != nil && ctx.Err() != nil {
			return checkResult{}, fmt.Errorf("check interrupted: %w", context.Cause(ctx))
		}
		if n == maxAttempts || !mayImprove(got, err) {
			return resultOf(got, err, limit), nil
		}
		wait, ok := nextWait(n, got.retryAfter, got.hasRetryAfter, c.random)
		if !ok {
			return resultOf(got, err, limit), nil
		}
		if err := c.wait(ctx, wait); err != nil {
			return checkResult{}, fmt.Errorf("check interrupted: %w", err)
		}
	}
}

// liveCheck makes one attempt. Its errors are *forbiddenDestination, errSlow,
// errBadAnswer (no connection, cut, or not HTTP), or that ctx ended.
func (c *checker) liveCheck(ctx context.Context, rawURL string, limit time.Duration) (code int, ms int64, err error) {
	got, err := c.attempt(ctx, rawURL, limit)
	if errors.Is(err, errNoConnection) {
		err = fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	return got.code, got.ms, err
}

// attempt asks once: it resolves and judges the host, connects to a judged address and
// sends exactly one request. The limit runs from here to the end of the header section.
func (c *checker) attempt(ctx context.Context, rawURL string, limit time.Duration) (attemptAnswer, error) {
	u, err := parseServiceURL(rawURL)
	if err != nil {
		// Registration lets no such URL in; whatever it means, it leads nowhere allowed.
		return attemptAnswer{}, &forbiddenDestination{"la URL no se puede leer"}
	}
	start := c.now()
	limited, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	addresses, err := c.destinations.judge(limited, u)
	if err != nil {
		return attemptAnswer{}, attemptError(limited, err)
	}
	request := (&http.Request{
		Method: http.MethodGet,
		URL:    u.url,
		Header: http.Header{"User-Agent": {userAgent}},
	}).WithContext(withJudged(limited, addresses))
	if u.url.User != nil {
		password, _ := u.url.User.Password()
		request.SetBasicAuth(u.url.User.Username(), password)
	}
	// The transport and not an http.Client, which would follow redirects, and fail on
	// a redirect whose Location it cannot read even when told not to follow.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return attemptAnswer{}, attemptError(limited, err)
	}
	end := c.now()
	response.Body.Close()
	if response.StatusCode < minStatus {
		return attemptAnswer{}, fmt.Errorf("%w: status %d", errBadAnswer, response.StatusCode)
	}
	got := attemptAnswer{code: response.StatusCode, ms: end.Sub(start).Milliseconds()}
	got.retryAfter, got.hasRetryAfter = parseRetryAfter(response.Header.Values("Retry-After"), end)
	return got, nil
}

// attemptError tells why an attempt got no answer. limited is the attempt's context,
// whose end explains whatever the transport made of it.
func attemptError(limited context.Context, err error) error {
	var forbidden *forbiddenDestination
	var dial *dialError
	switch {
	case errors.As(err, &forbidden):
		return forbidden
	case limited.Err() != nil:
		return context.Cause(limited)
	case errors.Is(err, errUnresolved), errors.As(err, &dial):
		return fmt.Errorf("%w: %w", errNoConnection, err)
	default:
		return fmt.Errorf("%w: %w", errBadAnswer, err)
	}
}

// mayImprove says whether another attempt may come to something else: after no answer
// of any kind but a forbidden destination, and after the statuses that pass.
func mayImprove(got attemptAnswer, err error) bool {
	if err != nil {
		var forbidden *forbiddenDestination
		return !errors.As(err, &forbidden)
	}
	return got.code == http.StatusTooManyRequests || retryableStatus(got.code)
}

// resultOf names the outcome of the last attempt.
func resultOf(got attemptAnswer, err error, limit time.Duration) checkResult {
	if err != nil {
		return checkResult{state: stateDown, detail: failureDetail(err)}
	}
	code := int64(got.code)
	result := checkResult{state: stateUp, code: &code, ms: &got.ms, detail: strconv.Itoa(got.code)}
	switch {
	case got.code >= http.StatusBadRequest:
		result.state = stateDown
		if got.hasRetryAfter {
			result.detail += fmt.Sprintf(" (reintentar en %d s)", got.retryAfter)
		}
	case 2*got.ms >= limit.Milliseconds():
		result.state = stateSlow
	}
	return result
}

func failureDetail(err error) string {
	var forbidden *forbiddenDestination
	switch {
	case errors.As(err, &forbidden):
		return "destino prohibido: " + forbidden.detail
	case errors.Is(err, errSlow):
		return "tiempo agotado"
	case errors.Is(err, errNoConnection):
		return "sin conexión"
	default:
		return "respuesta inválida"
	}
}
