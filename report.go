// report.go owns what a run of verify tells: a verdict for each check, what could not be
// tested and why, as text and as JSON; junit.go and tap.go have the other forms. It must
// not know what a check asks of a server, nor that there is an exit status.
//
// All forms agree on whether the run passed: what is not required makes none of them
// fail, and a required check that could not be made makes each of them.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// shownDetail bounds the detail of a verdict, in characters: two quoted bodies and words.
const shownDetail = 4 * shownBody

// shownDoing bounds what is said beside the progress bar, so that both fit a line of 80.
const shownDoing = 30

// unseen is what no run of verify can tell, whatever its profile.
var unseen = []string{
	"los efectos que el perfil no cuenta (correos, cobros, avisos a otros sistemas)",
	"lo que queda después de que el servidor se cae o se reinicia",
}

// unseenLine says so in one line.
func unseenLine() string { return "verify no puede ver " + strings.Join(unseen, ", ni ") }

// checkState is what came of a check, as a person reads it and as it goes over the wire.
type checkState string

const (
	checkOK      checkState = "ok"
	checkFailed  checkState = "FAIL"
	checkOmitted checkState = "omitida" // it could not be made; the detail says why
)

// checkVerdict is what came of one check. source names where its sentence stands: a section
// of the draft, or the policy.
type checkVerdict struct {
	id, sentence, source string
	required             bool
	state                checkState
	detail               string // what came and what was expected, or why it was omitted
	took                 time.Duration
}

// report is what came of a run.
type report struct {
	target   string
	verdicts []checkVerdict
	warnings []string
	took     time.Duration
}

// passed tells that each required check is ok, and that there was one.
func (rep report) passed() bool {
	any := false
	for _, v := range rep.verdicts {
		if v.required && v.state != checkOK {
			return false
		}
		any = any || v.required
	}
	return any
}

// count is how many checks came to this.
func (rep report) count(state checkState) int {
	n := 0
	for _, v := range rep.verdicts {
		if v.state == state {
			n++
		}
	}
	return n
}

// score says how many are ok of the checks that were made, or had to be.
func (rep report) score() string {
	made := rep.count(checkOK) + rep.count(checkFailed)
	for _, v := range rep.verdicts {
		if v.missed() {
			made++
		}
	}
	return fmt.Sprintf("%d of %d", rep.count(checkOK), made)
}

// requiredScore says how many are ok of the checks that are required, when those are not
// all that count in the score.
func (rep report) requiredScore() (score string, differs bool) {
	ok, required := 0, 0
	for _, v := range rep.verdicts {
		if !v.required {
			differs = differs || v.state != checkOmitted
			continue
		}
		if required++; v.state == checkOK {
			ok++
		}
	}
	return fmt.Sprintf("exigidas: %d of %d", ok, required), differs
}

// untested lists what was not tested, each reason once.
func (rep report) untested() []string {
	var reasons []string
	ids := map[string][]string{}
	for _, v := range rep.verdicts {
		if v.state != checkOmitted {
			continue
		}
		why := v.story()
		if ids[why] == nil {
			reasons = append(reasons, why)
		}
		ids[why] = append(ids[why], v.id)
	}
	for n, why := range reasons {
		reasons[n] = strings.Join(ids[why], ", ") + ": " + why
	}
	return reasons
}

// excused is a failure of what is not required: no form may count it as one.
func (v checkVerdict) excused() bool { return v.state == checkFailed && !v.required }

// missed is a required check that was not made: no form may count it as passed.
func (v checkVerdict) missed() bool { return v.state == checkOmitted && v.required }

// story is the detail, with what the run makes of it where that is not plain.
func (v checkVerdict) story() string {
	switch {
	case v.excused():
		return v.detail + " (no se exige)"
	case v.missed():
		return v.detail + " (se exige)"
	}
	return v.detail
}

// reportForm is one way to write a report. What it is given holds no control characters.
type reportForm interface {
	start(target string, checks int)
	ended(n int, v checkVerdict) // n counts from 1
	warned(warning string)
	finish(rep report)
}

// atEnd is what a form has that writes nothing before all is known.
type atEnd struct{}

func (atEnd) start(string, int)       {}
func (atEnd) ended(int, checkVerdict) {}
func (atEnd) warned(string)           {}

// reporter tells a run while it goes on, and as a whole. Not for concurrent use.
type reporter struct {
	report
	form     reportForm
	out      *reportOutput
	progress *progress
}

// newReporter writes to out in a format: text, json, junit or tap. How far the run of so
// many checks has come is drawn on terminal, when that is one.
func newReporter(out, terminal io.Writer, format, target string, checks int) *reporter {
	r := &reporter{out: &reportOutput{to: out}, progress: newProgress(terminal, checks, "verify")}
	r.target = printable([]byte(target), shownDetail)
	switch format {
	case "json":
		r.form = jsonReport{out: r.out}
	case "junit":
		r.form = junitReport{out: r.out}
	case "tap":
		r.form = tapReport{r.out}
	default:
		r.form = textReport{r.out}
	}
	r.form.start(r.target, checks)
	return r
}

// begin says which check is being made.
func (r *reporter) begin(id, sentence string) {
	r.progress.tell(printable([]byte(id+": "+sentence), shownDoing))
}

// end takes a check's verdict. Its detail may hold what a server sent.
func (r *reporter) end(v checkVerdict) {
	v.detail = printable([]byte(v.detail), shownDetail)
	r.verdicts = append(r.verdicts, v)
	r.progress.clear()
	r.form.ended(len(r.verdicts), v)
	r.progress.step()
}

// warn tells what is no check's: it changes nothing about who passed.
func (r *reporter) warn(warning string) {
	warning = printable([]byte(warning), shownDetail)
	r.warnings = append(r.warnings, warning)
	r.progress.clear()
	r.form.warned(warning)
}

// broken tells that nobody reads the report any more.
func (r *reporter) broken() bool { return r.out.err != nil }

// finish writes what is left to tell. The error is of writing, the report is whole.
func (r *reporter) finish(took time.Duration) (report, error) {
	r.took = took
	r.progress.clear()
	r.form.finish(r.report)
	return r.report, r.out.err
}

// reportOutput remembers the first error of writing; after it nothing more is written.
type reportOutput struct {
	to  io.Writer
	err error
}

func (o *reportOutput) printf(format string, args ...any) {
	if o.err == nil {
		if _, err := fmt.Fprintf(o.to, format, args...); err != nil {
			o.err = fmt.Errorf("write report: %w", err)
		}
	}
}

// textReport is a line for each check as it ends, what was not tested, and the score last.
type textReport struct{ out *reportOutput }

func (t textReport) start(string, int) {}

func (t textReport) ended(_ int, v checkVerdict) {
	if v.state == checkOK {
		t.out.printf("ok   %-16s  %s\n", v.id, v.sentence)
		return
	}
	t.out.printf("%-4s %-16s  %s. %s\n", v.state, v.id, v.sentence, v.story())
}

func (t textReport) warned(warning string) { t.out.printf("aviso: %s\n", warning) }

func (t textReport) finish(rep report) {
	for _, untested := range rep.untested() {
		t.out.printf("no se probó %s\n", untested)
	}
	t.out.printf("%s\n", unseenLine())
	if score, differs := rep.requiredScore(); differs {
		t.out.printf("%s\n", score)
	}
	t.out.printf("%s\n", rep.score())
}

// jsonReport is one object, when all is known.
type jsonReport struct {
	atEnd
	out *reportOutput
}

// jsonRun is the object. Its members are stable: programs read them.
type jsonRun struct {
	Target   string      `json:"objetivo"`
	Passed   bool        `json:"aprobado"` // each required check is ok
	OK       int         `json:"aprobadas"`
	Failed   int         `json:"fallidas"`
	Omitted  int         `json:"omitidas"`
	MS       int64       `json:"ms"`
	Checks   []jsonCheck `json:"comprobaciones"`
	Unseen   []string    `json:"no_se_puede_probar"`
	Warnings []string    `json:"avisos"`
}

type jsonCheck struct {
	ID       string     `json:"id"`
	Sentence string     `json:"frase"`
	Source   string     `json:"fuente"`
	Required bool       `json:"exigida"`
	State    checkState `json:"estado"`
	Detail   string     `json:"detalle,omitempty"` // absent of one that is ok
	MS       int64      `json:"ms"`
}

func (j jsonReport) finish(rep report) {
	whole := jsonRun{
		Target: rep.target, Passed: rep.passed(), MS: rep.took.Milliseconds(),
		OK: rep.count(checkOK), Failed: rep.count(checkFailed), Omitted: rep.count(checkOmitted),
		Checks: []jsonCheck{}, Unseen: unseen, Warnings: append([]string{}, rep.warnings...),
	}
	for _, v := range rep.verdicts {
		whole.Checks = append(whole.Checks, jsonCheck{v.id, v.sentence, v.source, v.required, v.state, v.detail, v.took.Milliseconds()})
	}
	j.out.printf("%s\n", plainJSON(whole, "  "))
}

// plainJSON encodes texts and numbers, which is always possible, and leaves <, > and & as
// a person reads them.
func plainJSON(v any, indent string) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
