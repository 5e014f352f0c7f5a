// tap.go owns a run of verify as TAP, the Test Anything Protocol, version 13, which
// every harness reads. It must not
// know what was tested.

package main

import "strings"

// tapReport is TAP version 13: a test point for each check as it ends.
type tapReport struct{ out *reportOutput }

func (t tapReport) start(target string, checks int) {
	t.out.printf("TAP version 13\n1..%d\n# objetivo: %s\n", checks, target)
}

func (t tapReport) ended(n int, v checkVerdict) {
	result, directive := "ok", ""
	switch {
	case v.excused(): // a consumer does not count what is still to be done
		result, directive = "not ok", " # TODO no se exige"
	case v.state == checkFailed || v.missed():
		result = "not ok"
	case v.state == checkOmitted:
		directive = " # SKIP " + tapEscaper.Replace(v.detail)
	}
	t.out.printf("%s %d - %s%s\n  ---\n", result, n, tapEscaper.Replace(v.id), directive)
	t.out.printf("  frase: %s\n  fuente: %s\n", yamlString(v.sentence), yamlString(v.source))
	if v.detail != "" {
		t.out.printf("  estado: %s\n  detalle: %s\n", v.state, yamlString(v.story()))
	}
	t.out.printf("  duration_ms: %d\n  ...\n", v.took.Milliseconds())
}

func (t tapReport) warned(warning string) { t.out.printf("# aviso: %s\n", warning) }

func (t tapReport) finish(rep report) {
	t.out.printf("# %s\n", unseenLine())
	if score, differs := rep.requiredScore(); differs {
		t.out.printf("# %s\n", score)
	}
	t.out.printf("# %s\n", rep.score())
}

// tapEscaper keeps text from being read as a directive (TAP 14, "Escaping", says what those of 13 read too).
var tapEscaper = strings.NewReplacer(`\`, `\\`, "#", `\#`)

// yamlString is a text in double quotes: YAML 1.2 reads what JSON writes.
func yamlString(text string) string { return plainJSON(text, "") }
