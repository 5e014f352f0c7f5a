// defects_test.go holds each deliberate defect to being found by the check that looks for
// it, and by no other.

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// judge runs verify against a revisor and lists the ids of the checks that fail.
func judge(t *testing.T, base string, bursts ...int) (failed []string, told string) {
	t.Helper()
	p := revisorTestProfile(t)
	p.base = mustURL(t, base)
	lines, err := runVerify(t, t.Context(), p, func(v *verification) { v.bursts, v.patience = bursts, time.Second })
	failed = failedChecks(lines)
	if (err != nil) != (len(failed) > 0) {
		t.Errorf("run = %v with failed checks %v", err, failed)
	}
	return failed, strings.Join(lines, "\n")
}

// defectMatrix says which checks find each defect of the role revisor. docs/verify.md
// shows it.
var defectMatrix = []struct {
	defect defect
	found  []string
}{
	{"", nil},
	{noFingerprint, []string{"changed-body", "concurrent-body", "other-route"}},
	{ignoreKey, []string{"replay", "changed-body", "in-flight", "concurrent-body", "other-route", "quoted-key",
		"key-empty", "key-two-lines", "key-too-long", "key-non-ascii", "hang-up",
		"lost-request", "lost-answer", "cut-before-head", "cut-after-head", "cut-body", "retired-replay"}},
	{noScope, []string{"other-credential"}},
	{lateReserve, []string{"in-flight", "concurrent-body", "hang-up"}},
	{recordFailures, []string{"failure-frees"}},
	{volatileKeys, nil},     // a restart shows it
	{splitTransaction, nil}, // a crash shows it
	{report500, nil},        // no check asks for a report
	{abrupt413, nil},        // no check sends too much
	{cancelOnHangup, []string{"hang-up"}},
	{lateFingerprint, []string{"concurrent-body"}},
	{stuckOnConflict, []string{"in-flight", "hang-up"}},
	{bareReplay, []string{"replay"}},
}

// TestDefectsAreFound: each defect is found by the checks that look for it, and by no
// check that has nothing to do with it.
func TestDefectsAreFound(t *testing.T) {
	t.Parallel()
	for _, d := range serverDefects {
		if !slices.ContainsFunc(defectMatrix, func(row struct {
			defect defect
			found  []string
		}) bool {
			return row.defect == d
		}) {
			t.Errorf("%s is not in the matrix", d)
		}
	}
	for _, row := range defectMatrix {
		t.Run(string(row.defect), func(t *testing.T) {
			t.Parallel()
			bursts := []int{2, 10}
			if row.defect == "" {
				bursts = verifyBursts
			}
			b := newBench(t, benchOptions{broken: defects{row.defect: true}, saveDelay: 50 * time.Millisecond, queueDelay: time.Minute})
			if got, told := judge(t, b.url, bursts...); !slices.Equal(got, row.found) && len(got)+len(row.found) > 0 {
				t.Errorf("failed checks = %q, want %q:\n%s", got, row.found, told)
			}
		})
	}
}

// matrixTable is the defects that verify finds, check by check, as docs/verify.md shows it.
func matrixTable(checks []check) string {
	var columns []string
	for _, row := range defectMatrix {
		if len(row.found) > 0 {
			columns = append(columns, "`"+string(row.defect)+"`")
		}
	}
	lines := []string{"| check | " + strings.Join(columns, " | ") + " |", "|---" + strings.Repeat("|:-:", len(columns)) + "|"}
	for _, c := range checks {
		line := "| `" + c.id + "` |"
		for _, row := range defectMatrix {
			if len(row.found) == 0 {
				continue
			}
			mark := " "
			if slices.Contains(row.found, c.id) {
				mark = " × "
			}
			line += mark + "|"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestVerifyDocument: what docs/verify.md says of checks and defects is what there is,
// and its profile is one.
func TestVerifyDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	checks := promiseChecks(revisorTestProfile(t))
	lines := []string{regexp.QuoteMeta("| id | in English | what must hold | where it stands |"), regexp.QuoteMeta("|---|---|---|---|")}
	for _, c := range checks {
		lines = append(lines, regexp.QuoteMeta("| `"+c.id+"` | ")+`[^|\n]{10,}`+regexp.QuoteMeta(" | "+c.sentence+" | "+c.source+" |"))
	}
	for _, want := range []string{strings.Join(lines, "\n"), regexp.QuoteMeta(matrixTable(checks))} {
		if !regexp.MustCompile("\n\n" + want + "\n\n").Match(text) {
			t.Errorf("docs/verify.md does not have this table:\n%s", want)
		}
	}
	_, profile, _ := strings.Cut(string(text), "cat > pedidos.json <<'END'\n")
	profile, _, _ = strings.Cut(profile, "END\n")
	if _, err := parseProfile([]byte(profile)); err != nil {
		t.Errorf("its profile: %v", err)
	}
}

// TestReport500: a student can see a 500 with its reference, and only there.
func TestReport500(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{broken: defects{report500: true}})
	b.call("POST", "/servicios", "escritura-a", b.service("avisos"))
	got := b.call("GET", "/servicios/1/informe", "lectura-a", "")
	reference, _ := got.member("instance").(string)
	if got.status != 500 || got.problem() != "error-interno" || !strings.HasPrefix(reference, "urn:uuid:") {
		t.Errorf("report = %d %s", got.status, got.body)
	}
	if !strings.Contains(b.log.String(), reference) {
		t.Errorf("the log does not hold %s", reference)
	}
	b.call("POST", "/servicios/1/revisiones", "escritura-a", "")
	eventually(t, "the revision finishes", func() bool {
		return b.call("GET", "/revisiones/1", "lectura-a", "").member("estado") == "terminada"
	})
	if got := b.call("GET", "/servicios/1/informe", "lectura-a", ""); got.status != 200 {
		t.Errorf("report with a finished revision = %d, want 200", got.status)
	}
}

func TestParseDefects(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		names []string
		want  string
		fails bool
	}{
		{"none", nil, "", false},
		{"one", []string{"no-scope"}, "no-scope", false},
		{"two in the fixed order", []string{"abrupt-413", "no-scope"}, "no-scope, abrupt-413", false},
		{"unknown", []string{"no-such"}, "", true},
		{"of another command", []string{"key-per-attempt"}, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseDefects(test.names, serverDefects)
			if (err != nil) != test.fails || got.String() != test.want {
				t.Errorf("parseDefects(%v) = %v, %v, want %q", test.names, got, err, test.want)
			}
		})
	}
}

// TestAbrupt413: a client that sends 20 MiB before it reads loses its answer at least
// once in ten, which the staged close never lets happen.
func TestAbrupt413(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{broken: defects{abrupt413: true}})
	lost := 0
	for range 10 {
		conn, in := b.dial()
		const length = 20 << 20
		_, err := fmt.Fprintf(conn, "POST /servicios HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer escritura-a\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", length)
		if err == nil {
			_, err = conn.Write(make([]byte, length))
		}
		if _, readErr := in.ReadString('\n'); err != nil || readErr != nil {
			lost++
		}
		conn.Close()
	}
	if lost == 0 {
		t.Error("no answer was lost in 10 tries, want the defect to show")
	}
}
