// retry_test.go owns the waits between attempts and the reading of Retry-After, to the
// letter.

package main

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestBackoffCeiling(t *testing.T) {
	t.Parallel()
	tests := []struct {
		n    int
		want time.Duration
	}{
		{1, 500 * time.Millisecond},
		{2, time.Second},
		{3, 2 * time.Second},
		{4, 2 * time.Second},
		{64, 2 * time.Second},
		{math.MaxInt, 2 * time.Second},
	}
	for _, test := range tests {
		if got := backoffCeiling(test.n); got != test.want {
			t.Errorf("backoffCeiling(%d) = %v, want %v", test.n, got, test.want)
		}
	}
}

func TestFullJitter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		ceiling time.Duration
		random  float64
		want    time.Duration
	}{
		{"the least", time.Second, 0, 0},
		{"the middle", time.Second, 0.5, 500 * time.Millisecond},
		{"the most is the ceiling itself", time.Second, math.Nextafter(1, 0), time.Second},
		{"a source that reaches 1 does not pass the ceiling", time.Second, 1, time.Second},
		{"no ceiling, no wait", 0, 0.9, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := fullJitter(test.ceiling, func() float64 { return test.random })
			if got != test.want {
				t.Errorf("fullJitter(%v, %v) = %v, want %v", test.ceiling, test.random, got, test.want)
			}
		})
	}
}

func TestNextWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		n             int
		retryAfter    int64
		hasRetryAfter bool
		random        float64
		want          time.Duration
		wantOK        bool
	}{
		{"jitter before the second attempt", 1, 0, false, 0.5, 250 * time.Millisecond, true},
		{"jitter before the third attempt", 2, 0, false, 0.5, 500 * time.Millisecond, true},
		{"Retry-After of 0 is obeyed, not jittered", 1, 0, true, 0.5, 0, true},
		{"Retry-After is obeyed above the ceiling", 1, 5, true, 0.5, 5 * time.Second, true},
		{"Retry-After is obeyed below the ceiling", 2, 1, true, 0.1, time.Second, true},
		{"one second more ends the attempts", 1, 6, true, 0.5, 0, false},
		{"an enormous one does not overflow", 1, 9_999_999_999, true, 0.5, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			random := func() float64 { return test.random }
			got, ok := nextWait(test.n, test.retryAfter, test.hasRetryAfter, random)
			if ok != test.wantOK || absDuration(got-test.want) > 1 {
				t.Errorf("nextWait(%d, %d, %t) = %v, %t, want %v, %t",
					test.n, test.retryAfter, test.hasRetryAfter, got, ok, test.want, test.wantOK)
			}
		})
	}
}

// absDuration absorbs the nanosecond that jitter may round away.
func absDuration(d time.Duration) time.Duration { return max(d, -d) }

func TestRetryableStatus(t *testing.T) {
	t.Parallel()
	for status := 100; status < 600; status++ {
		want := status == 502 || status == 503 || status == 504
		if got := retryableStatus(status); got != want {
			t.Errorf("retryableStatus(%d) = %t, want %t", status, got, want)
		}
	}
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.October, 21, 22, 26, 31, 0, time.UTC) // a Wednesday
	tests := []struct {
		name   string
		lines  []string
		now    time.Time
		want   int64
		wantOK bool
	}{
		{"absent", nil, now, 0, false},
		{"empty", []string{""}, now, 0, false},
		{"two lines", []string{"1", "1"}, now, 0, false},
		{"seconds", []string{"120"}, now, 120, true},
		{"zero", []string{"0"}, now, 0, true},
		{"leading zeros", []string{"0000000000000000000000000000007"}, now, 7, true},
		{"zeros only", []string{strings.Repeat("0", 40)}, now, 0, true},
		{"ten digits", []string{"9999999999"}, now, 9999999999, true},
		{"eleven digits", []string{"10000000000"}, now, 0, false},
		{"digits without end", []string{strings.Repeat("9", 400)}, now, 0, false},
		{"a fraction", []string{"1.5"}, now, 0, false},
		{"negative", []string{"-1"}, now, 0, false},
		{"signed", []string{"+1"}, now, 0, false},
		{"two numbers", []string{"12 30"}, now, 0, false},
		{"a list", []string{"1, 2"}, now, 0, false},
		{"a unit", []string{"3s"}, now, 0, false},
		{"an exponent", []string{"1e2"}, now, 0, false},
		{"hexadecimal", []string{"0x10"}, now, 0, false},
		{"space before", []string{" 1"}, now, 0, false},
		{"space after", []string{"1 "}, now, 0, false},
		{"full-width digits", []string{"１２"}, now, 0, false},

		{"IMF-fixdate", []string{"Wed, 21 Oct 2026 22:26:41 GMT"}, now, 10, true},
		{"RFC 850", []string{"Wednesday, 21-Oct-26 22:26:41 GMT"}, now, 10, true},
		{"asctime", []string{"Wed Oct 21 22:26:41 2026"}, now, 10, true},
		{"asctime, day padded with a space", []string{"Sun Nov  1 22:26:31 2026"}, now, 11 * 86400, true},
		{"asctime, day padded with a zero", []string{"Sun Nov 01 22:26:31 2026"}, now, 11 * 86400, true},
		{"now", []string{"Wed, 21 Oct 2026 22:26:31 GMT"}, now, 0, true},
		{"the past", []string{"Wed, 21 Oct 2026 22:26:30 GMT"}, now, 0, true},
		{"the remote past", []string{"Sun, 06 Nov 1994 08:49:37 GMT"}, now, 0, true},
		{"a part of a second counts whole", []string{"Wed, 21 Oct 2026 22:26:41 GMT"}, now.Add(time.Millisecond), 10, true},
		{"almost a second counts whole", []string{"Wed, 21 Oct 2026 22:26:32 GMT"}, now.Add(999 * time.Millisecond), 1, true},
		{"past by a part of a second", []string{"Wed, 21 Oct 2026 22:26:31 GMT"}, now.Add(time.Nanosecond), 0, true},
		{"further than a Duration reaches", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, now, 251609679208, true},
		{"another zone's clock", []string{"Wed, 21 Oct 2026 22:26:41 GMT"}, now.In(time.FixedZone("", 7200)), 10, true},

		{"32 October", []string{"Sun, 32 Oct 2026 22:26:31 GMT"}, now, 0, false},
		{"31 September", []string{"Thu, 31 Sep 2026 22:26:31 GMT"}, now, 0, false},
		{"29 February of a common year", []string{"Mon, 29 Feb 2027 00:00:00 GMT"}, now, 0, false},
		{"25:00", []string{"Thu, 22 Oct 2026 25:00:00 GMT"}, now, 0, false},
		{"24:00", []string{"Thu, 22 Oct 2026 24:00:00 GMT"}, now, 0, false},
		{"minute 60", []string{"Thu, 22 Oct 2026 22:60:00 GMT"}, now, 0, false},
		{"leap second", []string{"Thu, 31 Dec 2026 23:59:60 GMT"}, time.Date(2026, 12, 31, 23, 59, 58, 0, time.UTC), 2, true},
		{"leap second, RFC 850", []string{"Thursday, 31-Dec-26 23:59:60 GMT"}, time.Date(2026, 12, 31, 23, 59, 58, 0, time.UTC), 2, true},
		{"second 60 elsewhere", []string{"Thu, 22 Oct 2026 22:26:60 GMT"}, now, 0, false},
		{"second 61", []string{"Thu, 31 Dec 2026 23:59:61 GMT"}, now, 0, false},
		{"a fraction of a second", []string{"Wed, 21 Oct 2026 22:26:41.5 GMT"}, now, 0, false},
		{"a fraction after a comma", []string{"Wed, 21 Oct 2026 22:26:41,5 GMT"}, now, 0, false},
		{"a fraction in asctime", []string{"Wed Oct 21 22:26:41.0 2026"}, now, 0, false},
		{"a weekday that does not fit", []string{"Thu, 21 Oct 2026 22:26:41 GMT"}, now, 0, false},
		{"a weekday that does not fit, RFC 850", []string{"Thursday, 21-Oct-26 22:26:41 GMT"}, now, 0, false},
		{"a weekday that does not fit, asctime", []string{"Thu Oct 21 22:26:41 2026"}, now, 0, false},
		{"no weekday", []string{"21 Oct 2026 22:26:41 GMT"}, now, 0, false},
		{"UTC", []string{"Wed, 21 Oct 2026 22:26:41 UTC"}, now, 0, false},
		{"lower-case gmt", []string{"Wed, 21 Oct 2026 22:26:41 gmt"}, now, 0, false},
		{"an offset", []string{"Wed, 21 Oct 2026 22:26:41 +0000"}, now, 0, false},
		{"no zone", []string{"Wed, 21 Oct 2026 22:26:41"}, now, 0, false},
		{"asctime with a zone", []string{"Wed Oct 21 22:26:41 2026 GMT"}, now, 0, false},
		{"lower-case month", []string{"Wed, 21 oct 2026 22:26:41 GMT"}, now, 0, false},
		{"upper-case weekday", []string{"WED, 21 Oct 2026 22:26:41 GMT"}, now, 0, false},
		{"one-digit day", []string{"Sun, 1 Nov 2026 22:26:31 GMT"}, now, 0, false},
		{"space-padded day out of asctime", []string{"Sun,  1 Nov 2026 22:26:31 GMT"}, now, 0, false},
		{"unpadded asctime day", []string{"Sun Nov 1 22:26:31 2026"}, now, 0, false},
		{"one-digit hour", []string{"Thu, 22 Oct 2026 2:26:41 GMT"}, now, 0, false},
		{"two-digit year in IMF-fixdate", []string{"Wed, 21 Oct 26 22:26:41 GMT"}, now, 0, false},
		{"four-digit year in RFC 850", []string{"Wednesday, 21-Oct-2026 22:26:41 GMT"}, now, 0, false},
		{"short weekday in RFC 850", []string{"Wed, 21-Oct-26 22:26:41 GMT"}, now, 0, false},
		{"two spaces", []string{"Wed, 21  Oct 2026 22:26:41 GMT"}, now, 0, false},
		{"no space", []string{"Wed,21 Oct 2026 22:26:41 GMT"}, now, 0, false},
		{"leftovers", []string{"Wed, 21 Oct 2026 22:26:41 GMT;"}, now, 0, false},
		{"two dates in a list", []string{"Wed, 21 Oct 2026 22:26:41 GMT, Wed, 21 Oct 2026 22:26:41 GMT"}, now, 0, false},
		{"ISO 8601", []string{"2026-10-21T22:26:41Z"}, now, 0, false},
		{"a dash at the end", []string{"Wednesday, 21-Oct-"}, now, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := parseRetryAfter(test.lines, test.now)
			if got != test.want || ok != test.wantOK {
				t.Errorf("parseRetryAfter(%q) = %d, %t, want %d, %t", test.lines, got, ok, test.want, test.wantOK)
			}
		})
	}
}

// The weekday of every row is that of the year wanted, so a wrong century would
// be refused too.
func TestTwoDigitYears(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		now   time.Time
		value string
		want  time.Time
	}{
		{"this year", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			"Wednesday, 21-Oct-26 00:00:00 GMT", time.Date(2026, 10, 21, 0, 0, 0, 0, time.UTC)},
		{"the last year of the other century", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			"Friday, 31-Dec-99 23:59:59 GMT", time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)},
		{"fifty years ahead to the second", time.Date(2026, 10, 21, 0, 0, 0, 0, time.UTC),
			"Wednesday, 21-Oct-76 00:00:00 GMT", time.Date(2076, 10, 21, 0, 0, 0, 0, time.UTC)},
		{"a second more than fifty years is the past", time.Date(2026, 10, 21, 0, 0, 0, 0, time.UTC),
			"Thursday, 21-Oct-76 00:00:01 GMT", time.Date(1976, 10, 21, 0, 0, 1, 0, time.UTC)},
		{"69, which the library takes for 1969", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			"Thursday, 10-Jan-69 00:00:00 GMT", time.Date(2069, 1, 10, 0, 0, 0, 0, time.UTC)},
		{"the next century", time.Date(2099, 12, 31, 0, 0, 0, 0, time.UTC),
			"Thursday, 01-Jan-05 00:00:00 GMT", time.Date(2105, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"a leap day that one century alone has", time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC),
			"Tuesday, 29-Feb-00 00:00:00 GMT", time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := parseHTTPDate(test.value, test.now)
			if !ok || !got.Equal(test.want) {
				t.Errorf("parseHTTPDate(%q) in %v = %v, %t, want %v, true", test.value, test.now, got, ok, test.want)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"120", "0", "007", "99999999999", "1.5", "-1", "12 30", "",
		"Wed, 21 Oct 2026 22:26:41 GMT", "Wednesday, 21-Oct-26 22:26:41 GMT", "Wed Oct 21 22:26:41 2026",
		"Sun Nov  1 22:26:31 2026", "Thu, 31 Dec 2026 23:59:60 GMT", "Sunday, 29-Feb-00 00:00:00 GMT",
		"Wed, 21 Oct 2026 22:26:41.5 GMT", "Sun, 32 Oct 2026 22:26:31 GMT",
	} {
		f.Add(seed, int64(1792621591), int64(0))
	}
	f.Fuzz(func(t *testing.T, value string, unix, nanos int64) {
		const year9000 = 221845392000
		now := time.Unix(unix%year9000, nanos%1e9).UTC()
		seconds, ok := parseRetryAfter([]string{value}, now)
		if seconds < 0 || !ok && seconds != 0 {
			t.Fatalf("parseRetryAfter(%q) = %d, %t, want no negative seconds, and 0 when not ok", value, seconds, ok)
		}
		if !ok {
			return
		}
		if !isDigits(value) && !strings.Contains(value, leapSecond) {
			checkAgainstLibrary(t, value, now, seconds)
		}
		spelled := strconv.FormatInt(seconds, 10)
		if again, ok := parseRetryAfter([]string{spelled}, now); len(spelled) <= maxDeltaDigits && (!ok || again != seconds) {
			t.Errorf("parseRetryAfter(%q) = %d, %t, want %d, true", spelled, again, ok, seconds)
		}
	})
}

// checkAgainstLibrary compares with the laxer reading of net/http, which has
// to accept whatever we accept and to agree but for the century of RFC 850.
func checkAgainstLibrary(t *testing.T, value string, now time.Time, seconds int64) {
	t.Helper()
	date, err := http.ParseTime(value)
	if err != nil {
		t.Fatalf("parseRetryAfter(%q) is ok, want what http.ParseTime says: %v", value, err)
	}
	if strings.Contains(value, "-") {
		return
	}
	wait := date.Unix() - now.Unix()
	if want := max(0, wait); seconds != want {
		t.Errorf("parseRetryAfter(%q) = %d, want %d", value, seconds, want)
	}
}

// Every date that a server writes with Go's own layout is read.
func FuzzRetryAfterDates(f *testing.F) {
	f.Add(int64(1792621591), int64(10), int64(1))
	f.Add(int64(4102444799), int64(1), int64(0))
	f.Add(int64(0), int64(-5), int64(999))
	f.Fuzz(func(t *testing.T, unix, ahead, nanos int64) {
		const year9000 = 221845392000
		nanos = max(0, nanos%1e9)
		now := time.Unix(max(0, unix%year9000), nanos).UTC()
		date := time.Unix(max(0, now.Unix()+ahead%year9000/10), 0).UTC()
		want := max(0, date.Unix()-now.Unix())
		values := []string{date.Format(layoutIMFFixdate), date.Format(layoutAsctime), date.Format(layoutAsctimeZero)}
		if !date.After(now.AddDate(twoDigitYearHorizon, 0, 0)) && date.After(now.AddDate(twoDigitYearHorizon-100, 0, 0)) {
			values = append(values, date.Format("Monday, 02-Jan-06 15:04:05 GMT"))
		}
		for _, value := range values {
			if got, ok := parseRetryAfter([]string{value}, now); !ok || got != want {
				t.Errorf("parseRetryAfter(%q) at %v = %d, %t, want %d, true", value, now, got, ok, want)
			}
		}
	})
}
