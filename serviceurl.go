// serviceurl.go owns reading a service's URL as a browser reads it (WHATWG URL), so
// that the host that is judged is the host that is reached. Pure.
// It must not know which hosts may be reached, services, HTTP requests or the store.

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// longestHost is the most bytes of a host name (RFC 1035 section 2.3.4, as text, with a
// dot at its end). Much longer ones do not even read the same twice.
const longestHost = 254

// errServiceURL says that a text is no absolute http or https URL. It and what is
// wrapped around it are for a person, and never repeat the text: it may hold a password.
var errServiceURL = errors.New("tiene que ser una URL absoluta, http o https")

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
		return serviceURL{}, fmt.Errorf("%w: el servidor o el puerto no se entienden", errServiceURL)
	}
	if misread(authority, read) {
		return serviceURL{}, fmt.Errorf("%w: la dirección del servidor no se entiende", errServiceURL)
	}
	u, err := url.Parse(read.Href(true))
	if err != nil {
		return serviceURL{}, fmt.Errorf("%w: lleva un carácter o una secuencia %% que no vale", errServiceURL)
	}
	host := strings.Trim(read.Hostname(), "[]")
	if len(host) > longestHost {
		return serviceURL{}, fmt.Errorf("%w: el nombre del servidor es demasiado largo", errServiceURL)
	}
	port, err := portOf(u)
	if host == "" || u.Hostname() != host || err != nil {
		return serviceURL{}, fmt.Errorf("%w: el servidor es ambiguo", errServiceURL)
	}
	literal, _ := netip.ParseAddr(host)
	return serviceURL{url: u, host: host, literal: literal, port: port}, nil
}

// portOf is the port of a normalised URL, the scheme's own when none is written.
func portOf(u *url.URL) (uint16, error) {
	if u.Port() != "" {
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		return uint16(port), err
	}
	if u.Scheme == "https" {
		return 443, nil
	}
	return 80, nil
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
		return "", fmt.Errorf("%w: no empieza por http:// ni por https://", errServiceURL)
	}
	bad := func(r rune) bool { return r == '\\' || unicode.IsSpace(r) || unicode.IsControl(r) }
	if !utf8.ValidString(raw) || strings.ContainsFunc(raw, bad) {
		return "", fmt.Errorf("%w: no puede llevar espacios, caracteres de control ni barras invertidas", errServiceURL)
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if rest == "" {
		return "", fmt.Errorf("%w: le falta el servidor", errServiceURL)
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
	return u.host + ":" + strconv.Itoa(int(u.port))
}
