// plan_test.go owns how faults are written, and what is refused.

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// once is the occasion of a fault that says none.
var once = occasion{kind: whenFirst, count: 1}

func TestParseFault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		spec string
		want fault
	}{
		{"before", fault{point: "before", when: once}},
		{"after,first", fault{point: "after", when: once}},
		{"after,first=3", fault{point: "after", when: occasion{kind: "first", count: 3}}},
		{"after,nth=2", fault{point: "after", when: occasion{kind: "nth", count: 2}}},
		{"after,every=10", fault{point: "after", when: occasion{kind: "every", count: 10}}},
		{"after,rate=0.25", fault{point: "after", when: occasion{kind: "rate", rate: 0.25}}},
		{"after,rate=1", fault{point: "after", when: occasion{kind: "rate", rate: 1}}},
		{"duplicate", fault{point: "duplicate", when: once}},
		{"cut-before-headers", fault{point: "cut-before-headers", when: once}},
		{"cut-before-headers:reset,nth=2", fault{point: "cut-before-headers", reset: true, when: occasion{kind: "nth", count: 2}}},
		{"cut-after-headers:close", fault{point: "cut-after-headers", when: once}},
		{"cut-after=0", fault{point: "cut-after", when: once}},
		{"cut-after=512:reset", fault{point: "cut-after", bytes: 512, reset: true, when: once}},
		{"delay=1m30s", fault{point: "delay", delay: 90 * time.Second, when: once}},
		{"delay=300ms:after,every=2", fault{point: "delay", delay: 300 * time.Millisecond, late: true, when: occasion{kind: "every", count: 2}}},
		{"status=503", fault{point: "status", status: 503, when: once}},
		{"status=429:2,first=2", fault{point: "status", status: 429, retryAfter: "2", when: occasion{kind: "first", count: 2}}},
		{"status=503:-1.5", fault{point: "status", status: 503, retryAfter: "-1.5", when: once}},
		{"status=503:Wed, 21 Oct 2026 07:28:00 GMT", fault{point: "status", status: 503, retryAfter: "Wed, 21 Oct 2026 07:28:00 GMT", when: once}},
		{"status=503:Wed, 21 Oct 2026 07:28:00 GMT,nth=2",
			fault{point: "status", status: 503, retryAfter: "Wed, 21 Oct 2026 07:28:00 GMT", when: occasion{kind: "nth", count: 2}}},
	}
	for _, tt := range tests {
		got, err := parseFault(tt.spec)
		if err != nil || got != tt.want {
			t.Errorf("parseFault(%q) = %+v, %v, want %+v", tt.spec, got, err, tt.want)
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ spec, want string }{
		{"", "none of before"},
		{"loose", `"loose" is none of before`},
		{"After", `"After" is none of before`},
		{" after", "none of before"},
		{loseFirst, "none of before"},
		{"after=1", "after takes no value"},
		{"after:reset", "after takes no option"},
		{"before,", "none of first"},
		{"before,sometimes", `"sometimes" is none of first`},
		{"before,first,nth=2", "one WHEN only, first or nth=2"},
		{"after,nth=1,first=2", "one WHEN only, nth=1 or first=2"},
		{"after,rate=x,first", "one WHEN only, rate=x or first"},
		{"delay=1s:after,every=2,nth=1,first", "one WHEN only, nth=1 or first"},
		{"status=503:2,nth=1,first=2", "one WHEN only, nth=1 or first=2"},
		{"before,first=0", "K is a number from 1"},
		{"before,first=", "K is a number from 1"},
		{"before,nth", "K is a number from 1"},
		{"before,every=-2", "K is a number from 1"},
		{"before,every=+2", "K is a number from 1"},
		{"before,nth=99999999999", "K is a number from 1"},
		{"before,rate", "no rate"},
		{"before,rate=0", "no rate"},
		{"before,rate=1.1", "no rate"},
		{"before,rate=NaN", "no rate"},
		{"cut-after", "no number of bytes"},
		{"cut-after=-1", "no number of bytes"},
		{"cut-after=1k", "no number of bytes"},
		{"cut-after=1:gently", `"gently" is neither close nor reset`},
		{"cut-after-headers=3", "cut-after-headers takes no value"},
		{"cut-before-headers:", "neither close nor reset"},
		{"delay", "like 300ms"},
		{"delay=5", "like 300ms"},
		{"delay=0s", "like 300ms"},
		{"delay=-1s", "like 300ms"},
		{"delay=11m", "like 300ms"},
		{"delay=1s:before", "the one option of a delay"},
		{"duplicate=2", "duplicate takes no value"},
		{"status", "no status"},
		{"status=200", "no status"},
		{"status=600", "no status"},
		{"status=5x3", "no status"},
		{"status=+50", "no status"},
		{"status=503:", "Retry-After"},
		{"status=503:a\r\nX: y", "Retry-After"},
		{"status=503: 2", "Retry-After"},
		{"status=503,soon", "none of first"},
	}
	for _, tt := range tests {
		_, err := parseFault(tt.spec)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("parseFault(%q) = %v, want one line with %q", tt.spec, err, tt.want)
		}
	}
}

func TestParsePlan(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/plan.json")
	if err != nil {
		t.Fatal(err)
	}
	faults, seed, err := parsePlan(text)
	if err != nil || seed == nil || *seed != 7 {
		t.Fatalf("parsePlan = seed %v, %v, want 7", seed, err)
	}
	want := []fault{
		{point: "after", when: occasion{kind: "first", count: 2}},
		{point: "delay", delay: 50 * time.Millisecond, late: true, when: occasion{kind: "rate", rate: 0.5}},
		{point: "cut-after", bytes: 10, reset: true, when: occasion{kind: "nth", count: 3}},
	}
	if diff := cmp.Diff(want, faults, cmp.AllowUnexported(fault{}, occasion{})); diff != "" {
		t.Errorf("faults differ (-want +got):\n%s", diff)
	}
	faults, seed, err = parsePlan([]byte(`{"fallas":[{"punto":"before"}]}`))
	if err != nil || seed != nil || len(faults) != 1 || faults[0] != (fault{point: "before", when: once}) {
		t.Errorf("a plan without seed and occasion = %+v, %v, %v, want before,first", faults, seed, err)
	}
}

func TestParsePlanRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"nothing", ``, "EOF"},
		{"no object", `[]`, "array"},
		{"no faults", `{"semilla":1}`, `"fallas" is missing`},
		{"an unknown member", `{"seed":1,"fallas":[{"punto":"after"}]}`, `"seed"`},
		{"an unknown member of a fault", `{"fallas":[{"punto":"after","cuándo":"nth=2"}]}`, `"cuándo"`},
		{"a member in another case", `{"Fallas":[{"punto":"after"}]}`, `"Fallas"`},
		{"a member twice", `{"fallas":[{"punto":"after","punto":"before"}]}`, "duplicate"},
		{"something behind it", `{"fallas":[{"punto":"after"}]} {}`, "after top-level"},
		{"a seed that is no number", `{"semilla":"7","fallas":[{"punto":"after"}]}`, "/semilla"},
		{"a negative seed", `{"semilla":-7,"fallas":[{"punto":"after"}]}`, "/semilla"},
		{"no point", `{"fallas":[{"punto":"after"},{"cuando":"nth=2"}]}`, `/fallas/1: "punto" is missing`},
		{"an unknown point", `{"fallas":[{"punto":"after"},{"punto":"later"}]}`, `/fallas/1: "later"`},
		{"an occasion in the point", `{"fallas":[{"punto":"after,nth=2","cuando":"first"}]}`, "/fallas/0: \"after,nth=2,first\": there can be one WHEN only"},
		{"a point that is a number", `{"fallas":[{"punto":"after"},{"punto":7}]}`, `/fallas/1/punto: wanted is a string like "after"`},
		{"an occasion that is a number", `{"fallas":[{"punto":"after","cuando":1}]}`, `/fallas/0/cuando: wanted is a string like "first=2"`},
		{"a fault that is a string", `{"fallas":["after"]}`, `/fallas/0: wanted is an object with "punto" and "cuando"`},
		{"faults that are an object", `{"fallas":{"punto":"after"}}`, `/fallas: wanted is an array`},
		{"a seed with a fraction", `{"semilla":1.5,"fallas":[{"punto":"after"}]}`, `/semilla: wanted is a whole number`},
		{"a seed too large", `{"semilla":99999999999999999999,"fallas":[{"punto":"after"}]}`, `/semilla: wanted is a whole number`},
		{"no object but a word", `"after"`, `the whole: wanted is a JSON object`},
		{"an unknown member says what is known", `{"fallas":[{"point":"after"}]}`, `/fallas/0/point: unknown member "point"; wanted is an object with "punto" and "cuando"`},
		{"no JSON in its third line", "{\n \"fallas\": [\n  {\"punto\": after}\n]}", "line 3, byte 13: no JSON"},
		{"a comma too many", `{"fallas":[{"punto":"after"},]}`, "line 1, byte 29: no JSON"},
		{"no UTF-8", "{\"fallas\":[{\"punto\":\"\xff\"}]}", "no JSON: invalid UTF-8"},
	}
	for _, tt := range tests {
		_, _, err := parsePlan([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n*") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: parsePlan(%s) = %v, want one line with %q", tt.name, tt.text, err, tt.want)
		}
	}
}
