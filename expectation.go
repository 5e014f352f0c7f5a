// expectation.go owns what a profile lets an answer be: statuses, the type of a problem,
// waiting; how that is read, and whether an answer is so. It must not know which question
// was asked.

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// expectation is a choice of answers; the zero one lets nothing be.
type expectation struct {
	answers []expectedAnswer
	wait    bool // or the request waits, and gets the original's answer
}

// expectedAnswer is a status, and the type of its problem (RFC 9457) unless that is "".
type expectedAnswer struct {
	status  int
	problem string
}

// statuses reads an expectation in which nobody waits.
func (r *profileReader) statuses(n profileNode) expectation {
	e := r.expectation(n)
	if e.wait {
		r.fail(n.wrong(`"wait" means nothing here`))
	}
	return e
}

// expectation reads a status, "wait", an object of status and type, or an array of these.
func (r *profileReader) expectation(n profileNode) (e expectation) {
	if !n.given() {
		return e
	}
	choices := []profileNode{n}
	if n.value.Kind() == jsontext.KindBeginArray {
		choices = r.elements(n)
	}
	for _, choice := range choices {
		switch choice.value.Kind() {
		case jsontext.KindString:
			if word := r.text(choice); word != "" && strings.Trim(word, "0123456789") == "" {
				r.fail(choice.wrong("want a number, without quotes: %s", word))
				continue
			}
			r.choice(choice, "wait")
			e.wait = true
		case jsontext.KindBeginObject:
			m := r.object(choice, "!status", "!type")
			e.answers = append(e.answers, expectedAnswer{r.number(m["status"], 200, 599), r.text(m["type"])})
		default:
			e.answers = append(e.answers, expectedAnswer{status: r.number(choice, 200, 599)})
		}
	}
	if r.mistake == nil && !e.given() {
		r.fail(n.wrong("want a status"))
	}
	return e
}

// met tells whether got is one of the answers.
func (e expectation) met(got answer) bool {
	return slices.ContainsFunc(e.answers, func(want expectedAnswer) bool {
		return got.status == want.status && (want.problem == "" || got.problemType() == want.problem)
	})
}

// demand is the error of an answer that is none of them.
func (e expectation) demand(got answer) error {
	if !e.met(got) {
		return unexpected(got, e.String())
	}
	return nil
}

// given tells whether the profile says anything here.
func (e expectation) given() bool { return len(e.answers) > 0 || e.wait }

// String says what is expected.
func (e expectation) String() string {
	var all []string
	for _, want := range e.answers {
		all = append(all, strings.TrimSpace(strconv.Itoa(want.status)+" "+want.problem))
	}
	if e.wait {
		all = append(all, "la respuesta del original")
	}
	return strings.Join(all, " o ")
}

// unexpected says what came in the place of what was wanted.
func unexpected(got answer, want string) error {
	return fmt.Errorf("llegó %s; se esperaba %s", got.gist(), want)
}

// gist is an answer in a few words: its status, and its problem or its body.
func (a answer) gist() string {
	if problem := a.problemType(); problem != "" {
		return fmt.Sprintf("%d %s", a.status, printable([]byte(problem), shownBody))
	}
	return a.line()
}
