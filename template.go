// template.go owns texts with places that are filled in later: {{unique}}, {{id}}. Pure:
// it must not know what a place stands for, nor where the text goes.

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// templatePlace is one place, or what looks like one.
var templatePlace = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// checkPlaces tells whether a text has no other places than these.
func checkPlaces(text string, known ...string) error {
	for _, place := range templatePlace.FindAllString(text, -1) {
		if name := place[2 : len(place)-2]; !slices.Contains(known, name) {
			if len(known) == 0 {
				return fmt.Errorf("%s: nothing can be filled in here", place)
			}
			return fmt.Errorf("%s is none of {{%s}}", place, strings.Join(known, "}}, {{"))
		}
	}
	return nil
}

// hasPlace tells whether a text has this place.
func hasPlace(text, name string) bool { return strings.Contains(text, "{{"+name+"}}") }

// fillPlaces puts each value, escaped for where it stands, into the places of its name.
// What values do not name stays as it is.
func fillPlaces(text string, values map[string]string, escape func(string) string) string {
	return templatePlace.ReplaceAllStringFunc(text, func(place string) string {
		value, ok := values[place[2:len(place)-2]]
		if !ok {
			return place
		}
		return escape(value)
	})
}
