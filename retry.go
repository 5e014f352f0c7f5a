// retry.go owns when to try again and how long to wait first: backoff ceilings, full
// jitter, the Retry-After field and the statuses that can get better by themselves.
// Pure: clock and randomness come in as arguments; it must not know who retries, what
// is asked for, or how often.

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// backoffBase is doubled once per attempt made: 500 ms before the second
	// attempt, 1 s before the third.
	backoffBase = 250 * time.Millisecond
	// backoffCap keeps a long series of attempts from waiting for minutes.
	backoffCap = 2 * time.Second
	// longestObeyedRetryAfter is the longest wait that an origin may impose. One
	// that asks for more is not coming back while somebody waits for the answer.
	longestObeyedRetryAfter = 5 * time.Second
	// maxDeltaDigits is the most significant digits of a delay in seconds that
	// can still mean a delay: ten digits are already three hundred years.
	maxDeltaDigits = 10
	// twoDigitYearHorizon is how many years ahead a two-digit year may lie
	// before it means the past (RFC 9110 section 5.6.7).
	twoDigitYearHorizon = 50
)

// The layouts of RFC 9110 section 5.6.7. The day of asctime has two spellings
// in the grammar, 2DIGIT and SP DIGIT; RFC 850's year is widened before it is
// read.
const (
	layoutIMFFixdate  = "Mon, 02 Jan 2006 15:04:05 GMT"
	layoutAsctime     = "Mon Jan _2 15:04:05 2006"
	layoutAsctimeZero = "Mon Jan 02 15:04:05 2006"
	layoutRFC850Wide  = "Monday, 02-Jan-2006 15:04:05 GMT"
)

// The only leap second of the HTTP-date grammar, and the second before it.
const (
	leapSecond       = "23:59:60"
	beforeLeapSecond = "23:59:59"
)

// backoffCeiling is the longest that a client may wait between attempt n, the
// first being 1, and attempt n+1: min(2000, 250·2ⁿ) milliseconds.
func backoffCeiling(n int) time.Duration {
	ceiling := backoffBase
	for range n {
		ceiling *= 2
		if ceiling >= backoffCap {
			return backoffCap
		}
	}
	return ceiling
}

// fullJitter is a random wait from 0 to ceiling, both included, every one as
// likely as any other. random returns numbers in [0, 1), as rand.Float64 does.
func fullJitter(ceiling time.Duration, random func() float64) time.Duration {
	wait := time.Duration(random() * float64(ceiling+1))
	return max(0, min(wait, ceiling))
}

// nextWait is the wait between attempt n and attempt n+1: full jitter under
// backoffCeiling, or exactly the seconds of a valid Retry-After. ok is false
// when the origin asks for more than longestObeyedRetryAfter: give up then.
func nextWait(n int, retryAfter int64, hasRetryAfter bool, random func() float64) (wait time.Duration, ok bool) {
	if !hasRetryAfter {
		return fullJitter(backoffCeiling(n), random), true
	}
	// Compared as seconds: as a time.Duration the product could overflow.
	if retryAfter > int64(longestObeyedRetryAfter/time.Second) {
		return 0, false
	}
	return time.Duration(retryAfter) * time.Second, true
}

// retryableStatus says whether an answer can get better by itself: 502, 503
// and 504 speak of somebody behind the origin, or of the moment. A 500 repeats
// itself, and so does every 4xx.
func retryableStatus(status int) bool {
	switch status {
	case 502, 503, 504:
		return true
	}
	return false
}

// parseRetryAfter reads the lines of a Retry-After field (RFC 9110 section
// 10.2.3) as the whole seconds from now that they ask for, never negative. A
// date is rounded up, and one in the past is 0. ok is false when there is no
// line, when there are several, and when the value is neither digits alone nor
// an HTTP-date to the letter: the answer counts as one without the field.
func parseRetryAfter(lines []string, now time.Time) (seconds int64, ok bool) {
	if len(lines) != 1 {
		return 0, false
	}
	value := lines[0]
	if isDigits(value) {
		return parseDeltaSeconds(value)
	}
	date, ok := parseHTTPDate(value, now)
	if !ok {
		return 0, false
	}
	// The date has whole seconds and Unix rounds now down, so the difference is
	// the wait rounded up. time.Time.Sub would saturate after 292 years.
	return max(0, date.Unix()-now.Unix()), true
}

// parseDeltaSeconds reads digits as a number of seconds.
func parseDeltaSeconds(digits string) (seconds int64, ok bool) {
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return 0, true
	}
	if len(digits) > maxDeltaDigits {
		return 0, false
	}
	seconds, err := strconv.ParseInt(digits, 10, 64)
	return seconds, err == nil
}

// parseHTTPDate reads one of the three forms of HTTP-date (RFC 9110 section
// 5.6.7), to the letter. now decides the century of a two-digit year. The leap
// second is the second that follows it, as in Unix time.
func parseHTTPDate(value string, now time.Time) (date time.Time, ok bool) {
	hasLeap := strings.Contains(value, leapSecond)
	if hasLeap {
		value = strings.Replace(value, leapSecond, beforeLeapSecond, 1)
	}
	for _, layout := range []string{layoutIMFFixdate, layoutAsctime, layoutAsctimeZero} {
		if date, ok = parseExactly(layout, value); ok {
			break
		}
	}
	if !ok {
		date, ok = parseRFC850(value, now)
	}
	if ok && hasLeap {
		date = date.Add(time.Second)
	}
	return date, ok
}

// parseExactly reads a date that is spelled just as the layout would spell it.
// time.Parse alone overlooks wrong weekdays, other letter case, fractions of a
// second, missing digits and spaces; writing the date again shows them all.
func parseExactly(layout, value string) (date time.Time, ok bool) {
	date, err := time.Parse(layout, value)
	return date, err == nil && date.Format(layout) == value
}

// parseRFC850 reads the obsolete form of RFC 850. Its two-digit year is the
// latest one that does not put the date more than twoDigitYearHorizon years
// after now; the weekday has to fit that year.
func parseRFC850(value string, now time.Time) (date time.Time, ok bool) {
	dash := strings.LastIndexByte(value, '-')
	if dash < 0 || len(value) < dash+3 || !isDigits(value[dash+1:dash+3]) {
		return time.Time{}, false
	}
	lastTwo, err := strconv.Atoi(value[dash+1 : dash+3])
	if err != nil {
		return time.Time{}, false
	}
	horizon := now.UTC().AddDate(twoDigitYearHorizon, 0, 0)
	latest := horizon.Year() - horizon.Year()%100 + lastTwo
	for _, year := range []int{latest, latest - 100} {
		wide := value[:dash+1] + fmt.Sprintf("%04d", year) + value[dash+3:]
		date, err := time.Parse(layoutRFC850Wide, wide)
		if err == nil && !date.After(horizon) {
			return date, date.Format(layoutRFC850Wide) == wide
		}
	}
	return time.Time{}, false
}
