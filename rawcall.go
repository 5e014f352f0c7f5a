// rawcall.go owns a request written byte by byte: for keys that no HTTP library agrees to
// send, and for clients that hang up when they like. It must not know why it is sent.

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"
)

// wireBytes is the call as it goes over the wire, with one line of Idempotency-Key for
// each key, as it is.
func (c call) wireBytes(keys ...string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nConnection: close\r\n", c.method, c.path, c.base.Host, userAgent)
	c.header.Write(&out) // a buffer takes everything
	for _, key := range keys {
		fmt.Fprintf(&out, "%s: %s\r\n", keyHeader, key)
	}
	fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n", len(c.body))
	out.Write(c.body)
	return out.Bytes()
}

// dialServer opens a connection that ends with ctx.
func dialServer(ctx context.Context, base *url.URL) (net.Conn, error) {
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	address := net.JoinHostPort(base.Hostname(), port)
	var conn net.Conn
	var err error
	if base.Scheme == "https" {
		conn, err = (&tls.Dialer{Config: &tls.Config{ServerName: base.Hostname(), NextProtos: []string{"http/1.1"}}}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return conn, nil
}

// attemptRaw sends a call with these keys and reads at most limit bytes of the answer's
// body. Its errors are those of attempt.
func attemptRaw(ctx context.Context, timeout time.Duration, limit int64, c call, keys ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dialServer(ctx, c.base)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	_, sent := conn.Write(c.wireBytes(keys...)) // whoever refuses it may answer before it is whole
	got, err := receive(conn, c.method, limit)
	switch {
	case err != nil && ctx.Err() != nil: // which closed the connection
		return got, ctx.Err()
	case got.status == 0 && sent != nil:
		return got, sent
	}
	return got, err
}

// receive reads the answer to a request with this method.
func receive(conn io.Reader, method string, limit int64) (answer, error) {
	bounded := &io.LimitedReader{R: conn, N: maxAnswerHeader}
	in := bufio.NewReader(bounded)
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		switch {
		case err != nil && bounded.N <= 0:
			return answer{}, errAnswerTooLong
		case err != nil:
			return answer{}, err
		case resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols:
			continue // an interim answer (RFC 9110 section 15.2)
		}
		bounded.N = math.MaxInt64 // the body has its own limit
		return answerWithin(resp, limit)
	}
}

// hangUp sends a call with this key and closes the connection after a while, whatever the
// server has done by then.
func hangUp(ctx context.Context, wait func(context.Context, time.Duration) error, after time.Duration, c call, key string) error {
	conn, err := dialServer(ctx, c.base)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(c.wireBytes(key)); err != nil {
		return err
	}
	return wait(ctx, after)
}
