// destination_test.go owns which addresses may be reached, at the edge of every range, and
// that the dialer connects nowhere else.

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// resolveTo is a resolver that knows every name by the same addresses.
func resolveTo(list ...string) func(context.Context, string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, text := range list {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return func(context.Context, string) ([]netip.Addr, error) { return addrs, nil }
}

func mustAllow(t *testing.T, list ...string) allowed {
	t.Helper()
	a, err := parseAllowed(list)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustParseURL(t *testing.T, raw string) serviceURL {
	t.Helper()
	u, err := parseServiceURL(raw)
	if err != nil {
		t.Fatalf("parseServiceURL(%q): %v", raw, err)
	}
	return u
}

func TestIsPublicAtTheEdges(t *testing.T) {
	t.Parallel()
	// first and last of each refused block; before and after are public neighbours, ""
	// where the neighbour belongs to another refused block.
	tests := []struct{ before, first, last, after string }{
		{"", "0.0.0.0", "0.255.255.255", "1.0.0.0"},
		{"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"},
		{"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"},
		{"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"},
		{"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"},
		{"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"},
		{"191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"},
		{"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"},
		{"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"},
		{"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"},
		{"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"},
		{"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"},
		{"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"},
		{"223.255.255.255", "224.0.0.0", "239.255.255.255", ""},
		{"", "240.0.0.0", "255.255.255.255", ""},
		{"", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"},
		{"2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::", "2001::", ""},
		{"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"},
		{"3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"},
		{"", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		// around 2000::/3
		{"", "::", "::1", ""},
		{"", "1fff::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"},
		{"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"", "fc00::", "fdff::1", ""},
		{"", "fe80::", "fe80::1", ""},
		{"", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:808:808", ""},
		{"", "::1:0:0:0", "::fffe:8.8.8.8", ""},
		{"2001:ffff::", "2002::", "2002:ff:ffff::", "2003::"},
	}
	for _, tt := range tests {
		for text, want := range map[string]bool{tt.before: true, tt.first: false, tt.last: false, tt.after: true} {
			if text == "" {
				continue
			}
			if got := isPublic(netip.MustParseAddr(text)); got != want {
				t.Errorf("isPublic(%s) = %v, want %v", text, got, want)
			}
		}
	}
}

func TestIsPublicDecidesByTheCarriedIPv4(t *testing.T) {
	t.Parallel()
	tests := []struct {
		addr string
		want bool
	}{
		{"::ffff:8.8.8.8", true}, {"::ffff:127.0.0.1", false}, {"::ffff:169.254.169.254", false},
		{"::8.8.8.8", true}, {"::127.0.0.1", false}, {"::10.0.0.1", false},
		{"64:ff9b::8.8.8.8", true}, {"64:ff9b::10.0.0.1", false}, {"64:ff9b::c0a8:1", false},
		{"2002:808:808::", true}, {"2002:808:808:ffff::7f00:1", true}, {"2002:a9fe:a9fe::", false}, {"2002:7f00:1::808:808", false},
		{"2606:4700::1%eth0", false}, {"::ffff:8.8.8.8%eth0", false},
	}
	for _, tt := range tests {
		if got := isPublic(netip.MustParseAddr(tt.addr)); got != tt.want {
			t.Errorf("isPublic(%s) = %v, want %v", tt.addr, got, tt.want)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("isPublic(no address) = true, want false")
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, list, url string
		want            bool
	}{
		{"address and port", "127.0.0.1:18081", "http://127.0.0.1:18081/", true},
		{"another port", "127.0.0.1:18081", "http://127.0.0.1:18082/", false},
		{"another address", "127.0.0.1:18081", "http://127.0.0.2:18081/", false},
		{"another spelling", "127.0.0.1:18081", "http://0x7f.1:18081/", true},
		{"user information takes no part", "127.0.0.1:18081", "http://127.0.0.1:18081@127.0.0.2:18081/", false},
		{"default port", "127.0.0.1:80", "http://127.0.0.1/", true},
		{"default port of https", "127.0.0.1:443", "https://127.0.0.1/", true},
		{"IPv6 and port", "[::1]:81", "http://[::1]:81/", true},
		{"IPv6, another port", "[::1]:81", "http://[::1]/", false},
		{"IPv4 alone", "10.0.0.7", "http://10.0.0.7:999/", true},
		{"IPv6 alone", "fd00::7", "http://[fd00::7]:999/", true},
		{"IPv6 alone, neighbour", "fd00::7", "http://[fd00::8]/", false},
		{"IPv4 block", "10.1.0.0/16", "http://10.1.255.255/", true},
		{"IPv4 block, outside", "10.1.0.0/16", "http://10.2.0.0/", false},
		{"block with host bits", "10.1.2.3/16", "http://10.1.255.255/", true},
		{"IPv6 block", "fd00::/8", "http://[fdff::1]/", true},
		{"mapped URL, IPv4 listed", "127.0.0.1:81", "http://[::ffff:127.0.0.1]:81/", true},
		{"mapped URL, IPv4 block", "127.0.0.0/8", "http://[::ffff:7f00:1]/", true},
		{"mapped entry", "::ffff:127.0.0.1", "http://127.0.0.1/", true},
		{"mapped entry with port", "[::ffff:127.0.0.1]:81", "http://127.0.0.1:81/", true},
		{"mapped block", "::ffff:127.0.0.0/104", "http://127.1.2.3/", true},
		{"other carriers are not their IPv4", "10.0.0.1", "http://[64:ff9b::10.0.0.1]/", false},
		{"carrier listed as itself", "64:ff9b::/96", "http://[64:ff9b::10.0.0.1]/", true},
		{"all of IPv6 is not IPv4", "::/0", "http://[::ffff:10.0.0.1]/", false},
		{"several", "10.0.0.1, fd00::/8 ,127.0.0.1:81", "http://127.0.0.1:81/", true},
		{"blank entries", ",, ", "http://127.0.0.1/", false},
		{"nothing listed", "", "http://[::1]/", false},
		{"public needs no listing", "", "http://8.8.8.8/", true},
	}
	for _, tt := range tests {
		d := newDestinations(mustAllow(t, strings.Split(tt.list, ",")...), resolveTo())
		_, err := d.judge(t.Context(), mustParseURL(t, tt.url))
		if (err == nil) != tt.want {
			t.Errorf("%s: judge(%s) with %q = %v, want allowed %v", tt.name, tt.url, tt.list, err, tt.want)
		}
	}
}

func TestParseAllowedNamesTheBadEntry(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"localhost", "localhost:80", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x", ":80", "127.1", "010.0.0.1",
		"10.0.0.0/33", "10.0.0.0/", "fd00::/129", "10.0.0.0/8:80", "::1%lo", "[::1%lo]:80", "fe80::%lo/10", "http://10.0.0.1", "*",
	} {
		_, err := parseAllowed([]string{"10.0.0.1", entry, "10.0.0.2"})
		if err == nil || !strings.Contains(err.Error(), `"`+entry+`"`) {
			t.Errorf("parseAllowed(%q) = %v, want an error that names it", entry, err)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	down := errors.New("resolver down at 10.9.8.7")
	tests := []struct {
		name, url, allow string
		resolve          func(context.Context, string) ([]netip.Addr, error)
		want             []string
		refusal          string // for a person; "" when there is none
		unresolved       bool
	}{
		{"every address is public", "https://h.example/", "", resolveTo("8.8.8.8", "2606:4700::1"), []string{"8.8.8.8:443", "[2606:4700::1]:443"}, "", false},
		{"public and allowed", "http://h.example/", "10.0.0.1:80", resolveTo("8.8.8.8", "10.0.0.1"), []string{"8.8.8.8:80", "10.0.0.1:80"}, "", false},
		{"mapped answer", "http://h.example/", "", resolveTo("::ffff:8.8.8.8"), []string{"8.8.8.8:80"}, "", false},
		{"mapped private answer", "http://h.example/", "", resolveTo("::ffff:10.0.0.1"), nil, "h.example:80 no lleva solo a direcciones públicas o permitidas", false},
		{"one bad address, last", "http://h.example/", "", resolveTo("8.8.8.8", "127.0.0.1"), nil, "h.example:80 no lleva solo a direcciones públicas o permitidas", false},
		{"one bad address, first", "http://h.example:81/", "", resolveTo("::1", "8.8.8.8"), nil, "h.example:81 no lleva solo a direcciones públicas o permitidas", false},
		{"address with a zone", "http://h.example/", "", resolveTo("2606:4700::1%eth0"), nil, "h.example:80 no lleva solo a direcciones públicas o permitidas", false},
		{"literal", "http://u:p@127.1:22/", "", resolveTo(), nil, "127.0.0.1:22 no es una dirección pública ni permitida", false},
		{"literal IPv6", "http://[::1]/", "", resolveTo(), nil, "[::1]:80 no es una dirección pública ni permitida", false},
		{"no answer", "http://h.example/", "", resolveTo(), nil, "", true},
		{"resolver failure", "http://h.example./", "", func(context.Context, string) ([]netip.Addr, error) { return nil, down }, nil, "", true},
	}
	for _, tt := range tests {
		d := newDestinations(mustAllow(t, tt.allow), tt.resolve)
		addresses, err := d.judge(t.Context(), mustParseURL(t, tt.url))
		var got []string
		for _, a := range addresses {
			got = append(got, a.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: judge(%s) (-want +got):\n%s", tt.name, tt.url, diff)
		}
		var forbidden *forbiddenDestination
		switch {
		case tt.unresolved:
			if !errors.Is(err, errUnresolved) {
				t.Errorf("%s: judge(%s) = %v, want errUnresolved", tt.name, tt.url, err)
			}
		case tt.refusal == "":
			if err != nil {
				t.Errorf("%s: judge(%s) = %v, want no error", tt.name, tt.url, err)
			}
		case !errors.As(err, &forbidden) || forbidden.Error() != tt.refusal:
			t.Errorf("%s: judge(%s) = %v, want %q", tt.name, tt.url, err, tt.refusal)
		}
	}
}

func TestJudgeReportsTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	d := newDestinations(allowed{}, func(ctx context.Context, _ string) ([]netip.Addr, error) {
		cancel(gone)
		return nil, ctx.Err()
	})
	_, err := d.judge(ctx, mustParseURL(t, "http://h.example/"))
	if !errors.Is(err, gone) || errors.Is(err, errUnresolved) {
		t.Errorf("judge = %v, want the reason why its context ended", err)
	}
}

func TestDialTriesJudgedAddressesInOrder(t *testing.T) {
	t.Parallel()
	var tried []string
	near, far := net.Pipe()
	defer far.Close()
	d := newDestinations(allowed{}, resolveTo())
	d.connect = func(_ context.Context, _, address string) (net.Conn, error) {
		tried = append(tried, address)
		if len(tried) < 3 {
			return nil, errors.New("refused")
		}
		return near, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	judged := []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:80"), netip.MustParseAddrPort("[2606:4700::1]:80"),
		netip.MustParseAddrPort("8.8.4.4:80"), netip.MustParseAddrPort("1.1.1.1:80")}
	conn, err := d.dial(withJudged(ctx, judged), "tcp", "h.example:80")
	if err != nil || conn != near {
		t.Fatalf("dial = %v, %v, want the connection to the third address", conn, err)
	}
	if diff := cmp.Diff([]string{"8.8.8.8:80", "[2606:4700::1]:80", "8.8.4.4:80"}, tried); diff != "" {
		t.Errorf("addresses tried (-want +got):\n%s", diff)
	}
	cancel()
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the connection outlives its attempt")
	}
}

func TestDialWithoutJudgementConnectsNowhere(t *testing.T) {
	t.Parallel()
	d := newDestinations(allowed{}, resolveTo())
	d.connect = func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was opened")
		return nil, errors.New("no")
	}
	if _, err := d.dial(t.Context(), "tcp", "127.0.0.1:80"); !errors.Is(err, errNotJudged) {
		t.Errorf("dial = %v, want errNotJudged", err)
	}
	_, err := d.dial(withJudged(t.Context(), nil), "tcp", "127.0.0.1:80")
	if dial := new(dialError); !errors.As(err, &dial) {
		t.Errorf("dial with nothing judged = %v, want a dialError", err)
	}
}

// A silent first address must leave time for the second: the attempt's deadline is
// shared, and an attempt that has no time left dials on no other clock.
func TestDialSharesTheTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var left []time.Duration
	d := newDestinations(allowed{}, resolveTo())
	d.connect = func(ctx context.Context, _, _ string) (net.Conn, error) {
		deadline, _ := ctx.Deadline()
		left = append(left, time.Until(deadline).Round(time.Minute))
		return nil, context.DeadlineExceeded
	}
	judged := []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:80"), netip.MustParseAddrPort("8.8.4.4:80"), netip.MustParseAddrPort("1.1.1.1:80")}
	if _, err := d.dial(withJudged(ctx, judged), "tcp", ""); err == nil {
		t.Error("dial = nil, want an error")
	}
	if diff := cmp.Diff([]time.Duration{20 * time.Minute, 30 * time.Minute, time.Hour}, left); diff != "" {
		t.Errorf("time for each address (-want +got):\n%s", diff)
	}
}
