// junit.go owns a run of verify as JUnit XML, which continuous integration reads. It must
// not know how a run goes on, only what came of it.

package main

import (
	"encoding/xml"
	"strconv"
	"strings"
	"time"
)

// junitReport is the XML that continuous integration reads, when all is known: one suite,
// a case for each check, times in seconds.
type junitReport struct {
	atEnd
	out *reportOutput
}

type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	junitCounts
	Suite junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	junitCounts
	Cases []junitCase `xml:"testcase"`
	Out   string      `xml:"system-out"`
}

type junitCounts struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Time     string `xml:"time,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Skipped *junitOutcome `xml:"skipped"`
	Error   *junitOutcome `xml:"error"`
	Failure *junitOutcome `xml:"failure"`
	Out     string        `xml:"system-out"`
}

type junitOutcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
}

func (j junitReport) finish(rep report) {
	counts := junitCounts{Name: "revisor verify", Tests: len(rep.verdicts), Time: seconds(rep.took)}
	suite := junitSuite{}
	for _, v := range rep.verdicts {
		c := junitCase{Class: "revisor.verify", Name: v.id, Time: seconds(v.took), Out: sourced(v)}
		switch {
		case v.missed():
			counts.Errors++
			c.Error = &junitOutcome{v.story(), string(v.state)}
		case v.state == checkOmitted || v.excused():
			counts.Skipped++
			c.Skipped = &junitOutcome{Message: v.story()}
		case v.state == checkFailed:
			counts.Failures++
			c.Failure = &junitOutcome{v.story(), string(v.state)}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.junitCounts = counts
	suite.Name = rep.target
	suite.Out = strings.Join(append(append([]string{}, rep.warnings...), unseenLine()), "\n")
	text, err := xml.MarshalIndent(junitSuites{junitCounts: counts, Suite: suite}, "", "  ")
	if err != nil { // texts and numbers can always be encoded
		panic(err)
	}
	j.out.printf("%s%s\n", xml.Header, text)
}

// seconds is the unit of JUnit.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// sourced is a check's sentence and where it stands.
func sourced(v checkVerdict) string {
	if v.source == "" {
		return v.sentence
	}
	return v.sentence + " (" + v.source + ")"
}
