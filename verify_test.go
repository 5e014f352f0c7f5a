// verify_test.go owns that each check of verify can fail, and fails for its own reason
// alone: a small server keeps the promise, and its variants break it in one way each.

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// revisorTestProfile is the built-in profile, with the practice credentials.
func revisorTestProfile(t *testing.T) *profile {
	t.Helper()
	p, err := parseProfile(revisorProfile)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.resolve(environment{}.getenv, practiceWriter, practiceOtherWriter); err != nil {
		t.Fatal(err)
	}
	return p
}

// runVerify runs verify with a profile and returns the lines of its report.
func runVerify(t *testing.T, ctx context.Context, p *profile, change func(v *verification)) ([]string, error) {
	t.Helper()
	var out strings.Builder
	gateways := process{now: time.Now}
	v := &verification{
		profile: p, newUnique: func() string { return "v-" + uuid.NewString()[:13] }, newKey: uuid.NewString,
		wait: pause, now: time.Now, lossy: gateways.openLossyGateway, bursts: []int{2, 10},
		report: newReporter(&out, io.Discard, "text", p.base.String(), len(promiseChecks(p))),
	}
	if change != nil {
		change(v)
	}
	err := v.run(ctx)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), err
}

// failedChecks are the ids in the lines that say FAIL.
func failedChecks(lines []string) []string {
	failed := []string{}
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, "FAIL "); ok {
			failed = append(failed, strings.Fields(rest)[0])
		}
	}
	return failed
}

