// answer_test.go holds every answer that the suite receives to what the contract
// promises of all of them: media type, exact length, one newline at the end, the form
// of a problem and its row of the catalogue.

package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// problemForm is every problem, member by member: type, title, status, detail,
// instance, extensions, reintentable.
var problemForm = regexp.MustCompile(`^\{"type":"([^"]+)","title":"([^"]+)","status":([0-9]+),"detail":"((?:[^"\\]|\\.)+)",` +
	`"instance":"([^"]*)"((?:,.*)?),"reintentable":(true|false)\}\n$`)

// checkAnswer holds an answer to what is promised of all of them. It runs on every
// answer of the suite.
func checkAnswer(t *testing.T, method, path string, got response) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	wrong := func(what string, has, want any) {
		t.Helper()
		t.Errorf("%s %s = %d with %s %v, want %v\n%s", method, path, got.status, what, has, want, got.body)
	}
	contentType, length := got.header.Get("Content-Type"), got.header.Get("Content-Length")
	switch got.status {
	case http.StatusNoContent, http.StatusNotModified:
		if got.body != "" || contentType != "" || length != "" {
			wrong("content", contentType+length, "none")
		}
		return
	case http.StatusMovedPermanently, http.StatusPermanentRedirect:
		if got.body != "" || length != "0" {
			wrong("Content-Length", length, 0)
		}
		return
	}
	want := "application/json"
	switch {
	case got.status >= 400:
		want = "application/problem+json"
	case path == "/idempotencia" && contentType != want:
		want = "text/html; charset=utf-8"
	}
	if contentType != want {
		wrong("Content-Type", contentType, want)
	}
	if want == "application/problem+json" && got.header.Get("Content-Language") != "es" {
		wrong("Content-Language", got.header.Get("Content-Language"), "es")
	}
	if method == http.MethodHead {
		if got.body != "" || length == "" || length == "0" {
			wrong("Content-Length", length, "that of GET, without the body")
		}
		return
	}
	if length != strconv.Itoa(len(got.body)) {
		wrong("Content-Length", length, len(got.body))
	}
	if strings.Count(got.body, "\n") != 1 && want != "text/html; charset=utf-8" || !strings.HasSuffix(got.body, "\n") {
		wrong("newlines", strings.Count(got.body, "\n"), "one, at the end")
	}
	if got.status >= 400 {
		checkProblem(t, method, path, got)
	} else if want == "application/json" && !json.Valid([]byte(got.body)) {
		wrong("body", "that is no JSON", "JSON")
	}
}

// checkProblem holds a problem to its form and to its row of the catalogue.
func checkProblem(t *testing.T, method, path string, got response) {
	t.Helper()
	parts := problemForm.FindStringSubmatch(got.body)
	if parts == nil || !json.Valid([]byte(got.body)) {
		t.Errorf("%s %s = %d %s, want a problem with its members in order", method, path, got.status, got.body)
		return
	}
	want := []string{blankType, statusPhrase(got.status), strconv.Itoa(got.status), path, "false"}
	if parts[1] != blankType {
		row := kinds[strings.TrimPrefix(parts[1], problemBase)]
		want = []string{parts[1], row.title, strconv.Itoa(row.status), path, strconv.FormatBool(row.retryable)}
	}
	instance, _ := got.member("instance").(string)
	if got.status == http.StatusInternalServerError && strings.HasPrefix(instance, "urn:uuid:") {
		instance = path
	}
	has := []string{parts[1], parts[2], parts[3], instance, parts[7]}
	if !slices.Equal(has, want) || strconv.Itoa(got.status) != parts[3] {
		t.Errorf("%s %s = %d %s, want type, title, status, instance, reintentable %q", method, path, got.status, got.body, want)
	}
}
