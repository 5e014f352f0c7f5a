// serviceurl_test.go owns that a URL is read as browsers read it, and what is refused.

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestParseServiceURLHosts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		raw  string
		want string // target
	}{
		{"http://127.0.0.1/", "127.0.0.1:80"},
		{"http://127.1", "127.0.0.1:80"},
		{"http://127.0.1:8080/x", "127.0.0.1:8080"},
		{"http://2130706433/", "127.0.0.1:80"},
		{"http://0x7f000001/", "127.0.0.1:80"},
		{"http://0x7F.1/", "127.0.0.1:80"},
		{"http://0177.0.0.1/", "127.0.0.1:80"},
		{"http://017700000001/", "127.0.0.1:80"},
		{"http://127.0.0.1./", "127.0.0.1:80"},
		{"http://１２７.０.０.１/", "127.0.0.1:80"},
		{"http://127。0．0｡1/", "127.0.0.1:80"},
		{"http://①②⑦.0.0.1/", "127.0.0.1:80"},
		{"http://０ｘ７ｆ.1/", "127.0.0.1:80"},
		{"http://%31%32%37.0.0.1/", "127.0.0.1:80"},
		{"http://127.0.0.1\u200b/", "127.0.0.1:80"},
		{"http://0/", "0.0.0.0:80"},
		{"http://0x/", "0.0.0.0:80"},
		{"http://[::1]/", "[::1]:80"},
		{"http://[0:0:0:0:0:0:0:1]:81/", "[::1]:81"},
		{"http://[::ffff:127.0.0.1]/", "[::ffff:127.0.0.1]:80"},
		{"http://[2606:4700::6810:84E5]/", "[2606:4700::6810:84e5]:80"},
		{"https://EXAMPLE.com/", "example.com:443"},
		{"HTTPS://example.com:443/", "example.com:443"},
		{"hTTp://example.com:80/", "example.com:80"},
		{"https://example.com:80/", "example.com:80"},
		{"http://example.com:/", "example.com:80"},
		{"http://example.com:0/", "example.com:0"},
		{"http://example.com.:65535/", "example.com.:65535"},
		{"http://faß.example/", "xn--fa-hia.example:80"},
		{"http://ñandú.example/", "xn--and-6ma2c.example:80"},
		{"http://a_b.example/", "a_b.example:80"},
		{"http://127.0.0.1@example.com/", "example.com:80"},
		{"http://example.com@127.0.0.1:22/", "127.0.0.1:22"},
		{"http://a@b@127.0.0.1/", "127.0.0.1:80"},
		{"http://example.com#@127.0.0.1/", "example.com:80"},
		{"http://example.com?@127.0.0.1/", "example.com:80"},
		{"http://1.foo/", "1.foo:80"},
	}
	for _, tt := range tests {
		u, err := parseServiceURL(tt.raw)
		if err != nil {
			t.Errorf("parseServiceURL(%q) = %v, want target %s", tt.raw, err, tt.want)
			continue
		}
		if got := u.target(); got != tt.want {
			t.Errorf("parseServiceURL(%q).target() = %s, want %s", tt.raw, got, tt.want)
		}
		if host, _, _ := net.SplitHostPort(tt.want); u.literal.IsValid() != (net.ParseIP(host) != nil) {
			t.Errorf("parseServiceURL(%q).literal = %v, want it to say whether %s is an address", tt.raw, u.literal, host)
		}
	}
}

func TestParseServiceURLRefusals(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"", "x", "example.com", "/ruta", "//example.com/", "ftp://example.com/", "file:///etc/passwd",
		"javascript:alert(1)", "ws://example.com/", "httpx://example.com/", "httpſ://example.com/",
		"http:example.com", "http:/example.com", "http:", "http://", "https://", "http:///example.com",
		"http:////example.com", "http://?x", "http://#x", "http://:80/", "http://u@/", "http://u:p@:80/",
		`http:\\example.com`, `http://example.com\x`, `http://example.com\@127.0.0.1/`,
		" http://example.com/", "http://example.com/ ", "http://exa mple.com/", "http://example.com/a b",
		"http://example.com/\t", "http://example.com/\n", "http://exam\nple.com/", "http://example.com/\x00",
		"http://example.com/\x7f", "http://example.com/\u0085", "http://example.com/\u00a0", "http://example.com/\u3000",
		"http://example.com/\xff", "http://example.com:65536/", "http://example.com:-1/", "http://example.com:x/",
		"http://example.com:80:80/", "http://[::1/", "http://::1/", "http://[::1%25eth0]/", "http://[fe80::1%eth0]/",
		"http://[1::2::3]/", "http://[::1.2.3]/", "http://[12345::]/", "http://[v1.x]/", "http://[]/",
		"http://256.0.0.1/", "http://1.2.3.4.5/", "http://4294967296/", "http://0400.0.0.1/", "http://09/", "http://foo.1/",
		"http://exa%mple/", "http://a%00b/", "http://a<b/", "http://a|b/", "http://h{x/", "http://xn--/", "http://xn--a/",
		"http://example.com/%zz", "http://u:%zz@example.com/",
		// What the WHATWG parser accepts although no browser does.
		"http://-1/", "http://+1/", "http://0x-1/", "http://1.2.3.-4/", "http://%2D1/", "http://%2b1/", "http://－1/", "http://﹣1/",
		"http://[[::1]]/", "http://[::1]]/", "http://u@[[::1]]:80/",
		"http://" + strings.Repeat("v", 3800) + "0齪/", "http://" + strings.Repeat("v.", 127) + "v/",
	} {
		if u, err := parseServiceURL(raw); !errors.Is(err, errServiceURL) {
			t.Errorf("parseServiceURL(%q) = %q, %v, want errServiceURL", raw, u.url, err)
		}
	}
}

func TestParseServiceURLErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"http://u:secreto@/", "http://u:secreto%zz@h/", "ftp://u:secreto@h/", "http://u:secreto@h{/", "http://u:secreto@-1/"} {
		_, err := parseServiceURL(raw)
		if err == nil || strings.Contains(err.Error(), "secreto") {
			t.Errorf("parseServiceURL(%q) = %v, want an error without the password", raw, err)
		}
	}
}

func TestParseServiceURLKeepsPathAndQuery(t *testing.T) {
	t.Parallel()
	tests := []struct{ raw, want string }{
		{"http://h", "/"},
		{"http://h/a/../b/./c", "/b/c"},
		{"http://h//a", "//a"},
		{"http://h/a%2Fb|c^d", "/a%2Fb%7Cc%5Ed"},
		{"http://h/ñ?ñ=1#f", "/%C3%B1?%C3%B1=1"},
		{"http://h/?a|b{c}", "/?a|b{c}"},
		{"http://h/a;b=c,d'e", "/a;b=c,d'e"},
		{"http://h?", "/?"},
	}
	for _, tt := range tests {
		u, err := parseServiceURL(tt.raw)
		if err != nil || u.url.RequestURI() != tt.want {
			t.Errorf("parseServiceURL(%q) requests %q, %v, want %q", tt.raw, u.url.RequestURI(), err, tt.want)
		}
	}
}

// FuzzParseServiceURL: a URL that is accepted reads the same when it is read again, and
// one with a public address leads to that address and nowhere else.
func FuzzParseServiceURL(f *testing.F) {
	for _, seed := range []string{
		"http://127.1/", "http://8.8.8.8:81/x?y#z", "https://[2606:4700::1]/", "http://[::ffff:8.8.8.8]/", "http://0x08080808",
		"http://" + strings.Repeat("v", 3800) + "0齪", "http://u:p@１.１.1.1/", "http://faß.example./", "http://[[::1]]", "http://-1", "http://a%2eb/", "http://[::1.2.3.4]:0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseServiceURL(raw)
		if err != nil {
			return
		}
		again, err := parseServiceURL(u.url.String())
		if err != nil || again.target() != u.target() || again.url.RequestURI() != u.url.RequestURI() {
			t.Fatalf("parseServiceURL(%q) = %q, then %q, %v", raw, u.url, again.url, err)
		}
		if u.host == "" || u.url.Hostname() != u.host {
			t.Fatalf("parseServiceURL(%q) judges host %q, requests %q", raw, u.host, u.url.Host)
		}
		if !u.literal.IsValid() {
			return
		}
		d := newDestinations(allowed{}, func(context.Context, string) ([]netip.Addr, error) {
			t.Fatalf("%q: an address was resolved", raw)
			return nil, nil
		})
		addresses, err := d.judge(t.Context(), u)
		if (err == nil) != isPublic(u.literal) {
			t.Fatalf("judge(%q) = %v, want a refusal unless %v is public", raw, err, u.literal)
		}
		if err != nil {
			return
		}
		var dialled []string
		d.connect = func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return nil, errors.New("no network here")
		}
		_, err = d.dial(withJudged(t.Context(), addresses), "tcp", "127.0.0.1:1")
		if want := netip.AddrPortFrom(u.literal.Unmap(), u.port).String(); err == nil || len(dialled) != 1 || dialled[0] != want {
			t.Fatalf("%q dialled %v, %v, want %s alone", raw, dialled, err, want)
		}
	})
}
