// pointer_test.go follows pointers into a JSON text: the examples of RFC 6901 section 5,
// and what stands nowhere.

package main

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestTextAt(t *testing.T) {
	t.Parallel()
	const text = `{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8,
		"id": 12345678901234567890, "long": 1.50, "yes": true, "none": null, "0": "member"}`
	var whole any
	if err := decodeJSON([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		pointer jsontext.Pointer
		want    string
		ok      bool
	}{
		{"/foo/0", "bar", true},
		{"/", "0", true},
		{"/a~1b", "1", true},
		{"/c%d", "2", true},
		{"/i\\j", "5", true},
		{"/k\"l", "6", true},
		{"/ ", "7", true},
		{"/m~0n", "8", true},
		{"/0", "member", true},
		{"/id", "12345678901234567890", true}, // to the digit
		{"/long", "1.50", true},               // as it is written
		{"/foo/2", "", false},
		{"/foo/-", "", false},
		{"/foo/00", "", false}, // no index: section 4
		{"/foo/+1", "", false},
		{"/foo/-1", "", false},
		{"/foo/0/x", "", false},
		{"/nothing", "", false},
		{"/foo", "", false}, // no text
		{"/yes", "", false},
		{"/none", "", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if got, ok := textAt(whole, tt.pointer); got != tt.want || ok != tt.ok {
			t.Errorf("textAt(%q) = %q, %v, want %q, %v", tt.pointer, got, ok, tt.want, tt.ok)
		}
	}
}
