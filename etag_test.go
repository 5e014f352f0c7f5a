// etag_test.go owns how lists of entity tags are read and compared (RFC 9110 section
// 8.8.3).

package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestBuildETag(t *testing.T) {
	t.Parallel()
	const want = `"7-3-0badcafe"`
	got := buildETag(7, 3, "0badcafe")
	if got != want {
		t.Errorf("buildETag(7, 3, 0badcafe) = %s, want %s", got, want)
	}
	if list := parseETagList([]string{got}); !list.matchesStrong(want) {
		t.Errorf("parseETagList(%s) does not match it strongly, want a match", got)
	}
}

func TestParseETagList(t *testing.T) {
	t.Parallel()
	const tag = `"7-3-0badcafe"`
	type matches struct{ any, weak, strong bool }
	var (
		none   = matches{}
		all    = matches{any: true, weak: true, strong: true}
		weak   = matches{weak: true}
		strong = matches{weak: true, strong: true}
	)
	tests := []struct {
		name  string
		lines []string
		want  matches
	}{
		{"absent", nil, none},
		{"empty", []string{""}, none},
		{"white space", []string{" \t "}, none},
		{"only empty elements", []string{", ,,\t,"}, none},
		{"star", []string{"*"}, all},
		{"star in white space", []string{" *\t"}, all},
		{"star twice", []string{"*, *"}, none},
		{"star on two lines", []string{"*", "*"}, none},
		{"star and an empty element", []string{"*,"}, none},
		{"star among tags", []string{tag + ", *"}, none},
		{"star before tags", []string{"*, " + tag}, none},
		{"star on a line of its own", []string{tag, "*"}, none},
		{"star in quotes is a tag", []string{`"*"`}, none},

		{"the tag", []string{tag}, strong},
		{"the tag, weak", []string{"W/" + tag}, weak},
		{"both", []string{"W/" + tag + "," + tag}, strong},
		{"in white space", []string{"\t " + tag + " \t"}, strong},
		{"another tag", []string{`"7-2-0badcafe"`}, none},
		{"another database's tag", []string{`"7-3-deadbeef"`}, none},
		{"the beginning of the tag", []string{`"7-3-0badcaf"`}, none},
		{"other letter case", []string{`"7-3-0BADCAFE"`}, none},
		{"first of a list", []string{tag + `, "x"`}, strong},
		{"last of a list", []string{`"x","",W/"y" , ` + tag}, strong},
		{"second line", []string{`"x"`, tag}, strong},
		{"empty elements are skipped", []string{`,, ,"x",	,` + tag + `,`}, strong},
		{"an empty line is skipped", []string{"", tag}, strong},
		{"the empty tag is a tag", []string{`"",` + tag}, strong},
		{"commas in quotes belong to the tag", []string{`"a,b",` + tag}, strong},
		{"a list in quotes is one tag", []string{`"x,7-3-0badcafe"`}, none},
		{"backslash is no escape", []string{`"a\",` + tag}, strong},
		{"obs-text", []string{"\"\x80\xff\xc3\xb1\"," + tag}, strong},
		{"every visible byte", []string{`"!#$%&'()*+,-./:;<=>?@[\]^_{|}~` + "`" + `",` + tag}, strong},

		{"bare word", []string{"7-3-0badcafe"}, none},
		{"bare word after the tag", []string{tag + ", x"}, none},
		{"bare word on another line", []string{tag, "x"}, none},
		{"lower-case w/", []string{"w/" + tag}, none},
		{"lower-case w/ after the tag", []string{tag + ", w/" + tag}, none},
		{"W without slash", []string{"W" + tag}, none},
		{"W/ alone", []string{"W/"}, none},
		{"space after W/", []string{"W/ " + tag}, none},
		{"W/ twice", []string{"W/W/" + tag}, none},
		{"two tags without a comma", []string{tag + ` "x"`}, none},
		{"two tags stuck together", []string{tag + tag}, none},
		{"semicolon between tags", []string{tag + `;"x"`}, none},
		{"no closing quote", []string{`"7-3-0badcafe`}, none},
		{"no opening quote", []string{`7-3-0badcafe"`}, none},
		{"no closing quote at the end", []string{tag + `, "x`}, none},
		{"a lone quote", []string{`"`}, none},
		{"a quote closed on the next line", []string{tag + `, "a`, `b"`}, none},
		{"space in a tag", []string{tag + `, "a b"`}, none},
		{"tab in a tag", []string{tag + ", \"a\tb\""}, none},
		{"control byte in a tag", []string{tag + ", \"a\x1fb\""}, none},
		{"DEL in a tag", []string{tag + ", \"a\x7fb\""}, none},
		{"NUL in a tag", []string{tag + ", \"\x00\""}, none},
		{"single quotes", []string{"'7-3-0badcafe'"}, none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			list := parseETagList(test.lines)
			got := matches{list.star, list.matchesWeak(tag), list.matchesStrong(tag)}
			if got != test.want {
				t.Errorf("parseETagList(%q) matches %+v, want %+v", test.lines, got, test.want)
			}
		})
	}
}

// The table of RFC 9110 section 8.8.3.2.
func TestETagComparison(t *testing.T) {
	t.Parallel()
	tests := []struct {
		listed, tag          string
		wantWeak, wantStrong bool
	}{
		{`W/"1"`, `W/"1"`, true, false},
		{`W/"1"`, `W/"2"`, false, false},
		{`W/"1"`, `"1"`, true, false},
		{`"1"`, `W/"1"`, true, false},
		{`"1"`, `"1"`, true, true},
	}
	for _, test := range tests {
		list := parseETagList([]string{test.listed})
		if got := list.matchesWeak(test.tag); got != test.wantWeak {
			t.Errorf("%s matchesWeak(%s) = %t, want %t", test.listed, test.tag, got, test.wantWeak)
		}
		if got := list.matchesStrong(test.tag); got != test.wantStrong {
			t.Errorf("%s matchesStrong(%s) = %t, want %t", test.listed, test.tag, got, test.wantStrong)
		}
	}
}

// The grammar decides which lists are read, and a list that is written again
// from its tags is the same list.
func FuzzParseETagList(f *testing.F) {
	for _, seed := range []string{
		"*", "", ",", `"a"`, `W/"a"`, `w/"a"`, `"a", "b"`, `"a" "b"`, `"a,b"`, `"a"`, `"`, `W/`, `"a",*`, "\"\xff\"", "\"\x7f\"",
		` ,	"a" , ,W/"" `, "W/\"a\"\x00",
	} {
		f.Add(seed, "")
		f.Add(seed, `"z"`)
	}
	const (
		ows   = `[\x20\t]*`
		etag  = `(?:W/)?"[\x21\x23-\x7e\x{80}-\x{ff}]*"`
		comma = ows + `,` + ows
	)
	grammar := regexp.MustCompile(`^` + ows + `(?:` + etag + `)?(?:` + comma + `(?:` + etag + `)?)*` + ows + `\z`)
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		list := parseETagList(lines)
		joined := asLatin1(first + ", " + second)
		if !grammar.MatchString(joined) && (list.star || len(list.tags) > 0) {
			t.Fatalf("parseETagList(%q) = %+v, want nothing: it is malformed", lines, list)
		}
		var spelled []string
		for _, tag := range list.tags {
			if !list.matchesWeak(tag.opaque) || !tag.weak && !list.matchesStrong(tag.opaque) {
				t.Errorf("parseETagList(%q) does not match its own %+v", lines, tag)
			}
			if tag.weak {
				tag.opaque = weakPrefix + tag.opaque
			}
			spelled = append(spelled, tag.opaque)
		}
		again := parseETagList([]string{strings.Join(spelled, ",")})
		if len(again.tags) != len(list.tags) {
			t.Errorf("parseETagList(%q) = %+v, want %+v", spelled, again, list)
		}
		if grammar.MatchString(joined) && strings.Contains(joined, `"`) && len(list.tags) == 0 {
			t.Errorf("parseETagList(%q) = %+v, want its tags: it is well-formed", lines, list)
		}
	})
}

// asLatin1 turns each byte into the character of that number, for patterns.
func asLatin1(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
