// printable_test.go owns that text from strangers is made harmless.

package main

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"plain text stays", `{"nombre":"año ✓"}`, `{"nombre":"año ✓"}`},
		{"a colour", "\x1b[31mrojo", `\x1b[31mrojo`},
		{"line ends", "a\r\nb", `a\r\nb`},
		{"a bell and a null", "\a\x00", `\a\x00`},
		{"C1 controls", "\u009b2J", `\u009b2J`},
		{"text direction", "a\u202eb", `a\u202eb`},
		{"not UTF-8", "a\xffb", `a\xffb`},
		{"quotes and backslashes as they are", `'"\`, `'"\`},
		{"too long", strings.Repeat("é", 21), strings.Repeat("é", 20) + "…"},
		{"just not too long", strings.Repeat("é", 20), strings.Repeat("é", 20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := printable([]byte(tt.text), 20); got != tt.want {
				t.Errorf("printable(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}
