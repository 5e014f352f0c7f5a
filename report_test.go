// report_test.go owns what verify's reports look like: each form as a whole, and that
// whatever a server sends stays text in it. The forms are read again by a reader of JSON,
// of XML and a small one of TAP.

package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// hostileDetail has what each form would like to read as its own.
const hostileDetail = "llegó \"x\" ]]> </failure> # TODO \\ 'y'\nok 9 - z\r\n  ...\n\x1b[2J\u009b\u202e\x00\xff\ufffe&amp;"

// harmlessDetail is the same text where a person may read it.
const harmlessDetail = `llegó "x" ]]> </failure> # TODO \ 'y'\nok 9 - z\r\n  ...\n\x1b[2J\u009b\u202e\x00\xff\ufffe&amp;`

// testVerdicts are one of each kind.
func testVerdicts() []checkVerdict {
	return []checkVerdict{
		{"replay", "una frase", "draft-07, sección 2.6", true, checkOK, "", 12 * time.Millisecond},
		{"changed-body", "otra frase", "draft-07, sección 2.7", true, checkFailed, hostileDetail, 1500 * time.Millisecond},
		{"two-keys", "la de más", "política", false, checkFailed, "llegó 201; se esperaba 409", 0},
		{"expiry", "la que falta", "política", false, checkOmitted, "el perfil no da #1 vigencia", 0},
		{"other-credential", "la que se exige", "política", true, checkOmitted, "falta la otra credencial", 0},
	}
}

// reported runs a report through and returns what it wrote.
func reported(t *testing.T, format, target string, verdicts []checkVerdict, warnings ...string) (string, report) {
	t.Helper()
	var out strings.Builder
	r := newReporter(&out, io.Discard, format, target, len(verdicts))
	for _, v := range verdicts {
		r.begin(v.id, v.sentence)
		r.end(v)
	}
	for _, w := range warnings {
		r.warn(w)
	}
	rep, err := r.finish(2345 * time.Millisecond)
	if err != nil {
		t.Fatalf("finish: %v", err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\x00\r\ufffe") || !utf8.ValidString(out.String()) {
		t.Errorf("%s is not harmless: %q", format, out.String())
	}
	return out.String(), rep
}

func expectText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s = \n%s\nwant\n%s", what, got, want)
	}
}

func TestReportText(t *testing.T) {
	t.Parallel()
	got, _ := reported(t, "text", "http://x", testVerdicts(), "quedó \x1b algo")
	expectText(t, "text", got, `ok   replay            una frase
FAIL changed-body      otra frase. `+harmlessDetail+`
FAIL two-keys          la de más. llegó 201; se esperaba 409 (no se exige)
omitida expiry            la que falta. el perfil no da #1 vigencia
omitida other-credential  la que se exige. falta la otra credencial (se exige)
aviso: quedó \x1b algo
no se probó expiry: el perfil no da #1 vigencia
no se probó other-credential: falta la otra credencial (se exige)
verify no puede ver los efectos que el perfil no cuenta (correos, cobros, avisos a otros sistemas), ni lo que queda después de que el servidor se cae o se reinicia
exigidas: 1 of 3
1 of 4
`)
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	got, _ := reported(t, "json", "http://x", testVerdicts()[:3], "quedó algo")
	expectText(t, "json", got, `{
  "objetivo": "http://x",
  "aprobado": false,
  "aprobadas": 1,
  "fallidas": 2,
  "omitidas": 0,
  "ms": 2345,
  "comprobaciones": [
    {
      "id": "replay",
      "frase": "una frase",
      "fuente": "draft-07, sección 2.6",
      "exigida": true,
      "estado": "ok",
      "ms": 12
    },
    {
      "id": "changed-body",
      "frase": "otra frase",
      "fuente": "draft-07, sección 2.7",
      "exigida": true,
      "estado": "FAIL",
      "detalle": "llegó \"x\" ]]> </failure> # TODO \\ 'y'\\nok 9 - z\\r\\n  ...\\n\\x1b[2J\\u009b\\u202e\\x00\\xff\\ufffe&amp;",
      "ms": 1500
    },
    {
      "id": "two-keys",
      "frase": "la de más",
      "fuente": "política",
      "exigida": false,
      "estado": "FAIL",
      "detalle": "llegó 201; se esperaba 409",
      "ms": 0
    }
  ],
  "no_se_puede_probar": [
    "los efectos que el perfil no cuenta (correos, cobros, avisos a otros sistemas)",
    "lo que queda después de que el servidor se cae o se reinicia"
  ],
  "avisos": [
    "quedó algo"
  ]
}
`)
	var read jsonRun
	if err := json.Unmarshal([]byte(got), &read); err != nil || read.Checks[1].Detail != harmlessDetail {
		t.Errorf("read again: %v, detail = %q, want %q", err, read.Checks[1].Detail, harmlessDetail)
	}
}

func TestReportJUnit(t *testing.T) {
	t.Parallel()
	got, _ := reported(t, "junit", `http://"x"&y`, testVerdicts(), "quedó algo")
	type outcome struct {
		Message string `xml:"message,attr"`
	}
	type suite struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Time     string `xml:"time,attr"`
		Out      string `xml:"system-out"`
		Cases    []struct {
			Class   string   `xml:"classname,attr"`
			Name    string   `xml:"name,attr"`
			Time    string   `xml:"time,attr"`
			Failure *outcome `xml:"failure"`
			Error   *outcome `xml:"error"`
			Skipped *outcome `xml:"skipped"`
			Out     string   `xml:"system-out"`
		} `xml:"testcase"`
	}
	var read struct {
		XMLName xml.Name `xml:"testsuites"`
		suite
		Suites []suite `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(got), &read); err != nil || len(read.Suites) != 1 || len(read.Suites[0].Cases) != 5 {
		t.Fatalf("read again: %v, %+v in\n%s", err, read, got)
	}
	if !strings.HasPrefix(got, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"revisor verify\" ") {
		t.Errorf("junit begins %.120q", got)
	}
	one := read.Suites[0]
	for _, s := range []suite{read.suite, one} {
		counts := fmt.Sprintln(s.Tests, s.Failures, s.Errors, s.Skipped, s.Time)
		expectText(t, "counts", counts, "5 1 1 2 2.345\n")
	}
	expectText(t, "suite", one.Name, `http://"x"&y`)
	if !strings.HasPrefix(one.Out, "quedó algo\nverify no puede ver los efectos") {
		t.Errorf("system-out = %q", one.Out)
	}
	var lines []string
	for _, c := range one.Cases {
		line := c.Class + " " + c.Name + " " + c.Time + " " + c.Out
		for kind, o := range map[string]*outcome{" failure: ": c.Failure, " error: ": c.Error, " skipped: ": c.Skipped} {
			if o != nil {
				line += kind + o.Message
			}
		}
		lines = append(lines, line)
	}
	expectText(t, "cases", strings.Join(lines, "\n"), `revisor.verify replay 0.012 una frase (draft-07, sección 2.6)
revisor.verify changed-body 1.500 otra frase (draft-07, sección 2.7) failure: `+harmlessDetail+`
revisor.verify two-keys 0.000 la de más (política) skipped: llegó 201; se esperaba 409 (no se exige)
revisor.verify expiry 0.000 la que falta (política) skipped: el perfil no da #1 vigencia
revisor.verify other-credential 0.000 la que se exige (política) error: falta la otra credencial (se exige)`)
}

// tapPoint is a test point as readTAP understands it.
type tapPoint struct {
	ok                          bool
	description, directive, why string
	diagnostics                 map[string]string
}

// readTAP reads what a producer of TAP 13 may write, without subtests, and nothing else.
func readTAP(t *testing.T, text string) (points []tapPoint, comments []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 2 || lines[0] != "TAP version 13" {
		t.Fatalf("TAP begins %q", lines)
	}
	plan := -1
	point := regexp.MustCompile(`^(not )?ok ([0-9]+)(?: - ((?:[^\\#]|\\.)*))?(?:# *(SKIP|TODO)\b *(.*))?$`)
	unescape := strings.NewReplacer(`\\`, `\`, `\#`, "#")
	for n := 1; n < len(lines); n++ {
		line := lines[n]
		found := point.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "# "):
			comments = append(comments, line[2:])
		case strings.HasPrefix(line, "1.."):
			plan, _ = strconv.Atoi(line[3:])
		case found != nil:
			if found[2] != strconv.Itoa(len(points)+1) {
				t.Errorf("point %q is number %d", line, len(points)+1)
			}
			p := tapPoint{found[1] == "", unescape.Replace(strings.TrimSpace(found[3])), found[4], unescape.Replace(found[5]), nil}
			points = append(points, p)
		case line == "  ---":
			members := map[string]string{}
			for n++; lines[n] != "  ..."; n++ {
				name, value, _ := strings.Cut(strings.TrimPrefix(lines[n], "  "), ": ")
				if strings.HasPrefix(value, `"`) {
					var err error
					if value, err = strconv.Unquote(value); err != nil {
						t.Errorf("diagnostic %q: %v", lines[n], err)
					}
				}
				members[name] = value
			}
			points[len(points)-1].diagnostics = members
		default:
			t.Errorf("no line of TAP: %q", line)
		}
	}
	if plan != len(points) {
		t.Errorf("plan = %d, points = %d", plan, len(points))
	}
	return points, comments
}

func TestReportTAP(t *testing.T) {
	t.Parallel()
	verdicts := testVerdicts()
	got, _ := reported(t, "tap", "http://x\n1..9", verdicts, "quedó algo\nok 9 - z")
	if !strings.Contains(got, "</failure>") {
		t.Errorf("TAP hides what a person would read:\n%s", got)
	}
	points, comments := readTAP(t, got)
	want := []tapPoint{
		{true, "replay", "", "", map[string]string{"frase": "una frase", "fuente": "draft-07, sección 2.6", "duration_ms": "12"}},
		{false, "changed-body", "", "", map[string]string{"frase": "otra frase", "fuente": "draft-07, sección 2.7", "estado": "FAIL", "detalle": harmlessDetail, "duration_ms": "1500"}},
		{false, "two-keys", "TODO", "no se exige", map[string]string{"frase": "la de más", "fuente": "política", "estado": "FAIL", "detalle": "llegó 201; se esperaba 409 (no se exige)", "duration_ms": "0"}},
		{true, "expiry", "SKIP", "el perfil no da #1 vigencia", map[string]string{"frase": "la que falta", "fuente": "política", "estado": "omitida", "detalle": "el perfil no da #1 vigencia", "duration_ms": "0"}},
		{false, "other-credential", "", "", map[string]string{"frase": "la que se exige", "fuente": "política", "estado": "omitida", "detalle": "falta la otra credencial (se exige)", "duration_ms": "0"}},
	}
	for i, w := range want {
		if i >= len(points) || fmt.Sprintf("%+v", points[i]) != fmt.Sprintf("%+v", w) {
			t.Errorf("point %d of\n%s\nwant %+v", i+1, got, w)
		}
	}
	if len(comments) != 5 || comments[0] != `objetivo: http://x\n1..9` || comments[1] != `aviso: quedó algo\nok 9 - z` || comments[3] != "exigidas: 1 of 3" || comments[4] != "1 of 4" {
		t.Errorf("comments = %q", comments)
	}
}

// TestReportPassed: who passes, and that the machines that read JUnit and TAP come to the
// same.
func TestReportPassed(t *testing.T) {
	t.Parallel()
	ok := checkVerdict{id: "a", required: true, state: checkOK}
	tests := []struct {
		name     string
		verdicts []checkVerdict
		want     bool
	}{
		{"all ok", []checkVerdict{ok, ok}, true},
		{"one failed", []checkVerdict{ok, {id: "b", required: true, state: checkFailed}}, false},
		{"one failed that is not required", []checkVerdict{ok, {id: "b", state: checkFailed}}, true},
		{"one omitted", []checkVerdict{ok, {id: "b", required: true, state: checkOmitted}}, false},
		{"one omitted that is not required", []checkVerdict{{id: "b", state: checkOmitted}, ok}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			junit, rep := reported(t, "junit", "http://x", tt.verdicts)
			if got := rep.passed(); got != tt.want {
				t.Errorf("passed() = %v, want %v", got, tt.want)
			}
			if got := !strings.Contains(junit, "<failure") && !strings.Contains(junit, "<error"); got != tt.want {
				t.Errorf("JUnit passes: %v, want %v:\n%s", got, tt.want, junit)
			}
			tap, _ := reported(t, "tap", "http://x", tt.verdicts)
			points, _ := readTAP(t, tap)
			bad := func(p tapPoint) bool { return !p.ok && p.directive != "TODO" }
			if got := !slices.ContainsFunc(points, bad); got != tt.want {
				t.Errorf("TAP passes: %v, want %v:\n%s", got, tt.want, tap)
			}
		})
	}
	for _, verdicts := range [][]checkVerdict{nil, {{id: "a", state: checkOK}}} {
		if (report{verdicts: verdicts}).passed() {
			t.Errorf("passed() = true with %v, want a required check", verdicts)
		}
	}
}

// TestReportTellsAtOnce: who reads a run sees each line when its check ends.
func TestReportTellsAtOnce(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "tap"} {
		var out strings.Builder
		r := newReporter(&out, io.Discard, format, "http://x", 2)
		r.end(testVerdicts()[0])
		if !strings.Contains(out.String(), "replay") || strings.Contains(out.String(), "verify no puede ver") {
			t.Errorf("%s after the first check = %q", format, out.String())
		}
	}
}

// TestReportProgress: in a file, or a pipe, there is no bar.
func TestReportProgress(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := newReporter(io.Discard, file, "json", "http://x", 1)
	r.begin("replay", "una frase")
	r.end(testVerdicts()[0])
	r.finish(0)
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("progress wrote %v bytes into a file, %v", info.Size(), err)
	}
}

// brokenPipe is nobody's any more.
type brokenPipe struct{}

var errBrokenPipe = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errBrokenPipe }

// TestReportNotWritten: a report that could not be written is not passed over.
func TestReportNotWritten(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json", "junit", "tap"} {
		r := newReporter(brokenPipe{}, io.Discard, format, "http://x", 1)
		r.end(testVerdicts()[0])
		if rep, err := r.finish(0); !errors.Is(err, errBrokenPipe) || !rep.passed() {
			t.Errorf("%s: finish() = %+v, %v, want the whole report and %v", format, rep, err, errBrokenPipe)
		}
	}
}
