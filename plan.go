// plan.go owns how faults are written: one in the text of a flag, a whole plan in JSON.
// Pure: it must not know what becomes of a fault, nor where the text came from.

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxFaultDelay is longer than any client should wait, and keeps a slip of the
	// hand (5h) from looking like a gateway that hangs.
	maxFaultDelay = 10 * time.Minute
	// maxCount bounds K, far above what anybody counts by hand.
	maxCount = 1 << 31
)

// parseFault reads one fault: POINT[=VALUE][:OPTION][,WHEN].
//
//	before                       never forwarded
//	after                        the whole answer is taken and discarded
//	cut-before-headers[:HOW]     the same, and the client's connection is cut; HOW is
//	cut-after-headers[:HOW]      close (the default) or reset
//	cut-after=N[:HOW]            after N bytes of the body
//	delay=D[:after]              before forwarding, or before the answer is delivered
//	duplicate                    forwarded twice, the first answer delivered
//	status=NNN[:RETRY-AFTER]     answered by the gateway, never forwarded
//
// WHEN is first[=K], nth=K, every=K or rate=P; without it, first.
func parseFault(spec string) (fault, error) {
	what, when, _ := splitWhen(spec)
	if _, another, twice := splitWhen(what); twice {
		return fault{}, fmt.Errorf("%q: there can be one WHEN only, %s or %s", spec, another, when)
	}
	occurs, err := parseOccasion(when)
	if err != nil {
		return fault{}, fmt.Errorf("%q: %w", spec, err)
	}
	head, option, optional := strings.Cut(what, ":")
	name, value, valued := strings.Cut(head, "=")
	f := fault{point: faultPoint(name), when: occurs}
	switch f.point {
	case pointBefore, pointAfter, pointDuplicate, pointCutBeforeHeaders, pointCutAfterHeaders:
		if valued {
			err = fmt.Errorf("%s takes no value", name)
		}
	case pointCutAfter:
		f.bytes, err = parseBytes(value)
	case pointDelay:
		f.delay, err = parseDelay(value)
	case pointStatus:
		f.status, err = parseFaultStatus(value)
	default:
		err = fmt.Errorf("%q is none of before, after, cut-before-headers, cut-after-headers, cut-after=N, delay=TIME, duplicate, status=NNN", name)
	}
	if err == nil && optional {
		err = f.setOption(option)
	}
	if err != nil {
		return fault{}, fmt.Errorf("%q: %w", spec, err)
	}
	return f, nil
}

// splitWhen cuts WHEN off; it is first when there is none. A comma in a Retry-After (its
// dates have one) is no such place: nothing that begins like a WHEN follows it.
func splitWhen(spec string) (what, when string, given bool) {
	comma := strings.LastIndexByte(spec, ',')
	if comma < 0 {
		return spec, string(whenFirst), false
	}
	kind, _, _ := strings.Cut(spec[comma+1:], "=")
	switch occasionKind(kind) {
	case whenFirst, whenNth, whenEvery, whenRate:
	default:
		if strings.HasPrefix(spec, string(pointStatus)+"=") && strings.Contains(spec[:comma], ":") {
			return spec, string(whenFirst), false
		}
	}
	return spec[:comma], spec[comma+1:], true
}

func parseOccasion(text string) (occasion, error) {
	name, value, valued := strings.Cut(text, "=")
	kind := occasionKind(name)
	switch kind {
	case whenFirst:
		if !valued {
			return occasion{kind: whenFirst, count: 1}, nil
		}
	case whenNth, whenEvery:
	case whenRate:
		rate, err := strconv.ParseFloat(value, 64)
		if err != nil || !(rate > 0 && rate <= 1) {
			return occasion{}, fmt.Errorf("%q is no rate above 0 and up to 1", value)
		}
		return occasion{kind: whenRate, rate: rate}, nil
	default:
		return occasion{}, fmt.Errorf("%q is none of first, first=K, nth=K, every=K, rate=P", text)
	}
	count, err := strconv.ParseUint(value, 10, 64)
	if err != nil || count == 0 || count > maxCount || !isDigits(value) {
		return occasion{}, fmt.Errorf("%s=%s: K is a number from 1 to %d", kind, value, maxCount)
	}
	return occasion{kind: kind, count: count}, nil
}

func parseBytes(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !isDigits(value) {
		return 0, fmt.Errorf("cut-after=N: %q is no number of bytes", value)
	}
	return n, nil
}

func parseDelay(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 || d > maxFaultDelay {
		return 0, fmt.Errorf("delay=TIME: %q is no time above 0 and up to %v, like 300ms or 2s", value, maxFaultDelay)
	}
	return d, nil
}

// parseFaultStatus reads a status of failure: the gateway claims no success that
// nobody had.
func parseFaultStatus(value string) (int, error) {
	status, err := strconv.Atoi(value)
	if err != nil || len(value) != 3 || status < 400 || status > 599 {
		return 0, fmt.Errorf("status=NNN: %q is no status from 400 to 599", value)
	}
	return status, nil
}

// setOption reads what stands behind the colon.
func (f *fault) setOption(option string) error {
	switch {
	case f.point == pointStatus:
		if option == "" {
			return errors.New("nothing follows the colon: it announces a Retry-After")
		}
		if err := validateFieldText(option); err != nil {
			return fmt.Errorf("Retry-After: %w", err)
		}
		f.retryAfter = option
	case f.cuts() && option == "close":
	case f.cuts() && option == "reset":
		f.reset = true
	case f.point == pointDelay && option == "after":
		f.late = true
	case f.cuts():
		return fmt.Errorf("%q is neither close nor reset", option)
	case f.point == pointDelay:
		return fmt.Errorf("%q is not after, the one option of a delay", option)
	default:
		return fmt.Errorf("%s takes no option", f.point)
	}
	return nil
}

// planFile is a plan in JSON: {"semilla":7,"fallas":[{"punto":"after","cuando":"first=2"}]}.
// punto is a fault without its WHEN, cuando the WHEN.
type planFile struct {
	Seed   *uint64 `json:"semilla"`
	Faults []struct {
		Point *string `json:"punto"`
		When  *string `json:"cuando"`
	} `json:"fallas"`
}

// parsePlan reads a plan in JSON, strictly: an unknown or repeated member is an error.
// seed is nil when the plan has none.
func parsePlan(text []byte) (faults []fault, seed *uint64, err error) {
	var file planFile
	if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, nil, planError(text, err)
	}
	if len(file.Faults) == 0 {
		return nil, nil, errors.New(`"fallas" is missing or empty`)
	}
	for i, entry := range file.Faults {
		if entry.Point == nil {
			return nil, nil, fmt.Errorf(`/fallas/%d: "punto" is missing`, i)
		}
		spec := *entry.Point
		if entry.When != nil {
			spec += "," + *entry.When
		}
		f, err := parseFault(spec)
		if err != nil {
			return nil, nil, fmt.Errorf("/fallas/%d: %w", i, err)
		}
		faults = append(faults, f)
	}
	return faults, file.Seed, nil
}

// planError says what is wrong with a plan in the plan's own words: which member, and what
// is wanted there; or where it is no JSON.
func planError(text []byte, err error) error {
	var wrong *json.SemanticError
	var broken *jsontext.SyntacticError
	switch {
	case errors.As(err, &broken):
		before := text[:min(broken.ByteOffset, int64(len(text)))]
		line := 1 + bytes.Count(before, []byte("\n"))
		return fmt.Errorf("line %d, byte %d: no JSON: %w", line, len(before)-bytes.LastIndexByte(before, '\n'), broken.Err)
	case !errors.As(err, &wrong):
		return err
	case errors.Is(wrong.Err, json.ErrUnknownName):
		return fmt.Errorf("%s: unknown member %q; wanted is %s", wrong.JSONPointer, wrong.JSONPointer.LastToken(), wantedAt(wrong.JSONPointer.Parent()))
	}
	return fmt.Errorf("%s: wanted is %s", cmp.Or(string(wrong.JSONPointer), "the whole"), wantedAt(wrong.JSONPointer))
}

// wantedAt is what a plan has at that place.
func wantedAt(place jsontext.Pointer) string {
	switch depth := strings.Count(string(place), "/"); {
	case depth == 0:
		return `a JSON object with "semilla" and "fallas", not an array nor anything else`
	case place == "/semilla":
		return "a whole number from 0 to 18446744073709551615"
	case depth == 1:
		return `an array of objects like {"punto":"after","cuando":"first=2"}`
	case depth == 2:
		return `an object with "punto" and "cuando", like {"punto":"after","cuando":"first=2"}`
	case place.LastToken() == "cuando":
		return `a string like "first=2"`
	}
	return `a string like "after" or "status=503:1"`
}
