// destination.go owns which addresses may be reached: the public internet and the list
// of allowed ones, judging the addresses behind a URL's host, and the dialer that
// connects to judged addresses and to nothing else. Reading the URL is serviceurl.go's.
// It must not know services, HTTP requests or the store.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

var (
	// errUnresolved says that a name has no address now.
	errUnresolved = errors.New("name has no address")
	// errNotJudged says that nobody asked where this connection may lead: a mistake of ours.
	errNotJudged = errors.New("no address was judged for this connection")
)

// The IANA special-purpose address registries (RFC 6890), reduced to what nobody may
// be sent to. Multicast (RFC 5771) and the reserved class E (RFC 1112 section 4)
// close the IPv4 list.
var (
	refusedIPv4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8",
		"169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4")
	// globalIPv6 is the only part of IPv6 that was ever given out as public
	// (RFC 4291 section 2.4).
	globalIPv6  = netip.MustParsePrefix("2000::/3")
	refusedIPv6 = prefixes("2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16")
)

// carriers are the IPv6 forms that carry an IPv4 address, and the byte where it starts:
// IPv4-mapped and IPv4-compatible (RFC 4291 section 2.5.5), the well-known NAT64 prefix
// (RFC 6052 section 2.1), 6to4 (RFC 3056 section 2).
var carriers = []struct {
	prefix netip.Prefix
	offset int
}{
	{netip.MustParsePrefix("::ffff:0:0/96"), 12},
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// isPublic says whether an address belongs to the public internet. One with a zone
// never does.
func isPublic(addr netip.Addr) bool {
	if addr.Zone() != "" {
		return false
	}
	addr = carriedIPv4(addr)
	if addr.Is4() {
		return !within(refusedIPv4, addr)
	}
	return globalIPv6.Contains(addr) && !within(refusedIPv6, addr)
}

// carriedIPv4 is the IPv4 address inside an IPv6 one, or the address itself.
func carriedIPv4(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	bytes := addr.As16()
	for _, c := range carriers {
		if c.prefix.Contains(addr) {
			v4, _ := netip.AddrFromSlice(bytes[c.offset : c.offset+4])
			return v4
		}
	}
	return addr
}

func within(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// allowed are the destinations that may be reached although they are not public.
type allowed struct {
	endpoints map[netip.AddrPort]bool
	networks  []netip.Prefix
}

// parseAllowed reads entries of the forms ip:port, [ip6]:port, an address alone (any
// port) or a CIDR block. White space around an entry and blank entries mean nothing;
// the error names the first bad one.
func parseAllowed(list []string) (allowed, error) {
	a := allowed{endpoints: map[netip.AddrPort]bool{}}
	for _, entry := range list {
		text := strings.TrimSpace(entry)
		if text == "" {
			continue
		}
		if !a.add(text) {
			return allowed{}, fmt.Errorf("allowed destination %q: want ip:port, [ip6]:port, an address or a CIDR block", entry)
		}
	}
	return a, nil
}

func (a *allowed) add(text string) bool {
	if p, err := netip.ParsePrefix(text); err == nil {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		a.networks = append(a.networks, p.Masked())
		return true
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		a.networks = append(a.networks, netip.PrefixFrom(addr, addr.BitLen()))
		return true
	}
	p, err := netip.ParseAddrPort(text)
	if err != nil || p.Addr().Zone() != "" || p.Port() == 0 {
		return false
	}
	a.endpoints[netip.AddrPortFrom(p.Addr().Unmap(), p.Port())] = true
	return true
}

// has expects an address without the IPv4-mapped form: to it, that is its IPv4.
func (a allowed) has(p netip.AddrPort) bool {
	return a.endpoints[p] || within(a.networks, p.Addr())
}

// forbiddenDestination refuses a URL. Its text is for a person, and names what the
// client wrote but never what a name resolved to.
type forbiddenDestination struct{ detail string }

func (f *forbiddenDestination) Error() string { return f.detail }

// forbid says why u is refused.
func forbid(u serviceURL) *forbiddenDestination {
	if u.literal.IsValid() {
		return &forbiddenDestination{u.target() + " no es una dirección pública ni permitida"}
	}
	return &forbiddenDestination{u.target() + " no lleva solo a direcciones públicas o permitidas"}
}

// destinations decides where the checker may connect to, and connects.
type destinations struct {
	allow   allowed
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// connect opens one connection to one ip:port.
	connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// newDestinations allows what allow lists and what is public. resolve gives all the
// addresses of a name.
func newDestinations(allow allowed, resolve func(ctx context.Context, host string) ([]netip.Addr, error)) *destinations {
	return &destinations{allow: allow, resolve: resolve, connect: new(net.Dialer).DialContext}
}

// systemResolve asks the system's resolver for the addresses of both families.
func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// judge resolves the host of u once and returns where to connect. One address that is
// neither public nor allowed refuses them all, with a *forbiddenDestination. A name
// without addresses is errUnresolved; a context that ended is the context's error.
func (d *destinations) judge(ctx context.Context, u serviceURL) ([]netip.AddrPort, error) {
	addrs := []netip.Addr{u.literal}
	if !u.literal.IsValid() {
		var err error
		addrs, err = d.resolve(ctx, u.host)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("resolve %s: %w", u.host, context.Cause(ctx))
		}
		if err != nil || len(addrs) == 0 {
			return nil, fmt.Errorf("resolve %s: %w", u.host, errUnresolved)
		}
	}
	judged := make([]netip.AddrPort, len(addrs))
	for i, addr := range addrs {
		// An IPv4-mapped address is reached, and so listed, as its IPv4.
		judged[i] = netip.AddrPortFrom(addr.Unmap(), u.port)
		if !isPublic(addr) && !d.allow.has(judged[i]) {
			return nil, forbid(u)
		}
	}
	return judged, nil
}

// judgedKey is the context key of the addresses judged for one attempt.
type judgedKey struct{}

// judgedAttempt is what the dialer needs to know of one attempt. It holds the attempt's
// context because http.Transport dials on one that neither limit nor shutdown ends.
type judgedAttempt struct {
	ctx       context.Context
	addresses []netip.AddrPort
}

// withJudged makes ctx the context of one attempt that may connect to addresses. No
// connection opened under it outlives it: whoever calls this must end ctx.
func withJudged(ctx context.Context, addresses []netip.AddrPort) context.Context {
	return context.WithValue(ctx, judgedKey{}, judgedAttempt{ctx, addresses})
}

// dialError is a connection that never came to be.
type dialError struct{ err error }

func (e *dialError) Error() string { return "dial: " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dial is the DialContext of the checker's transport. It ignores the name that it is
// given and tries only the addresses judged for this attempt, in order; every error is
// a *dialError.
func (d *destinations) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	attempt, ok := ctx.Value(judgedKey{}).(judgedAttempt)
	if !ok {
		return nil, &dialError{errNotJudged}
	}
	var errs []error
	for i, address := range attempt.addresses {
		conn, err := d.connectInShare(attempt.ctx, network, address, len(attempt.addresses)-i)
		if err == nil {
			context.AfterFunc(attempt.ctx, func() { conn.Close() })
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, &dialError{errors.Join(errs...)}
}

// connectInShare gives an address its share of the time that is left, so that a silent
// first address leaves some to the next.
func (d *destinations) connectInShare(ctx context.Context, network string, address netip.AddrPort, addressesLeft int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && addressesLeft > 1 {
		share, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(addressesLeft))
		defer cancel()
		ctx = share
	}
	return d.connect(ctx, network, address.String())
}
