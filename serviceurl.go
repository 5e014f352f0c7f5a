// serviceurl.go owns reading a service's URL as a browser reads it (WHATWG URL), so
// that the host that is judged is the host that is reached. Pure.
// It must not know which hosts may be reached, services, HTTP requests or the store.

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// errServiceURL says that a text is no absolute http or https URL. Errors around
// it never repeat the text: it may hold a password.
var errServiceURL = errors.New("not an absolute http or https URL")

// browserURLs reads URLs by the WHATWG standard (URL, section 4.4). Beyond its path
// percent-encode set, "^" and "|" are escaped: net/url would otherwise escape the
// whole path anew and turn "%2F" into "/".
var browserURLs = whatwg.NewParser(
	whatwg.WithPathPercentEncodeSet(whatwg.PathPercentEncodeSet.Set('^', '|')))

// serviceURL is a service's URL, read.
type serviceURL struct {
	url     *url.URL   // normalised, without fragment: what to request
	host    string     // normalised, without brackets
	literal netip.Addr // valid when host is an address and not a name
	port    uint16
}

// parseServiceURL reads an absolute http or https URL with a host. The answer is the
// browser's (WHATWG URL), but what browsers forgive is refused here: white space,
// control characters, backslashes, and anything but two slashes after the scheme.
// Every error is errServiceURL.
func parseServiceURL(raw string) (serviceURL, error) {
	authority, err := writtenAuthority(raw)
	if err != nil {
		return serviceURL{}, err
	}
	read, err := browserURLs.Parse(raw)
	if err != nil {
		return serviceURL{}, fmt.Errorf("%w: no browser reads it", errServiceURL)
	}
	if misread(authority, read) {
		return serviceURL{}, fmt.Errorf("%w: malformed address", errServiceURL)
	}
	u, err := url.Parse(read.Href(true))
	if err != nil {
		return serviceURL{}, fmt.Errorf("%w: malformed escape or host", errServiceURL)
	}
	host := strings.Trim(read.Hostname(), "[]")
	if host == "" || u.Hostname() != host || (u.Scheme != "http" && u.Scheme != "https") {
		return serviceURL{}, fmt.Errorf("%w: ambiguous host", errServiceURL)
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return serviceURL{}, fmt.Errorf("%w: port out of range", errServiceURL)
		}
	}
	literal, _ := netip.ParseAddr(host)
	return serviceURL{url: u, host: host, literal: literal, port: uint16(port)}, nil
}

// writtenAuthority cuts the authority out of the text as it was written, and refuses
// what a browser would quietly repair.
func writtenAuthority(raw string) (string, error) {
	rest := raw
	for _, scheme := range []string{"http://", "https://"} {
		if len(raw) >= len(scheme) && strings.EqualFold(raw[:len(scheme)], scheme) {
			rest = raw[len(scheme):]
		}
	}
	if len(rest) == len(raw) {
		return "", fmt.Errorf("%w: scheme", errServiceURL)
	}
	bad := func(r rune) bool { return r == '\\' || unicode.IsSpace(r) || unicode.IsControl(r) }
	if !utf8.ValidString(raw) || strings.ContainsFunc(raw, bad) {
		return "", fmt.Errorf("%w: forbidden character", errServiceURL)
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if rest == "" {
		return "", fmt.Errorf("%w: no host", errServiceURL)
	}
	return rest, nil
}

// misread finds the two spellings where the parser is laxer than the standard: signs
// in a part of an IPv4 address (as they are, full-width, small, or escaped), and more
// than one pair of brackets around an IPv6 one.
func misread(authority string, read *whatwg.Url) bool {
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if read.IsIPv6() {
		return strings.Count(host, "[") != 1 || strings.Count(host, "]") != 1
	}
	if !read.IsIPv4() {
		return false
	}
	if plain, err := url.PathUnescape(host); err == nil {
		host = plain
	}
	return strings.ContainsAny(host, "+-\uff0d\ufe63")
}

// target is what the client wrote, normalised: address and port, or name and port.
func (u serviceURL) target() string {
	if u.literal.IsValid() {
		return netip.AddrPortFrom(u.literal, u.port).String()
	}
	return net.JoinHostPort(u.host, strconv.Itoa(int(u.port)))
}
