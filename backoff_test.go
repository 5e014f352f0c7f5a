// backoff_test.go owns what a reader of the tool backoff sees.

package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBackoffShowsCeilingsAndDraws(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printBackoff(&out, func() float64 { return 0.5 })
	for _, want := range []string{
		"después del intento 1: tope de  500 ms; por ejemplo  250,  250,  250,  250,  250,  250 ms",
		"después del intento 2: tope de 1000 ms; por ejemplo  500,  500,  500,  500,  500,  500 ms",
		"después del intento 3: tope de 2000 ms; por ejemplo 1000, 1000, 1000, 1000, 1000, 1000 ms",
		"  500 a  600  1000 ████████████████████████████████████████     0\n",
		"La ventana más llena: 1000 sin jitter, 1000 con jitter.\n", // all draw the same: that is no jitter
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "intento 4") {
		t.Error("a wait after the last attempt is shown")
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasSuffix(line, " \n") || utf8.RuneCountInString(line) > 120 {
			t.Errorf("line too long or with white space at its end: %q", line)
		}
	}
}

// The figures of the model: everybody comes back once, and the fullest window with
// jitter is near 1000/5, whatever the seed.
func TestBackoffSpreadsTheCrowd(t *testing.T) {
	t.Parallel()
	window := regexp.MustCompile(`(?m)^ +\d+ a +\d+ +(\d+) *█* +(\d+) *█*$`)
	last := regexp.MustCompile(`La ventana más llena: 1000 sin jitter, (\d+) con jitter\.`)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			printBackoff(&out, rand.New(rand.NewPCG(seed, seed)).Float64)
			together, apart, fullest := 0, 0, 0
			for _, row := range window.FindAllStringSubmatch(out.String(), -1) {
				a, _ := strconv.Atoi(row[1])
				b, _ := strconv.Atoi(row[2])
				together, apart, fullest = together+a, apart+b, max(fullest, b)
			}
			if together != crowdSize || apart != crowdSize {
				t.Errorf("clients that came back = %d and %d, want %d twice:\n%s", together, apart, crowdSize, out.String())
			}
			said := last.FindStringSubmatch(out.String())
			if said == nil || said[1] != strconv.Itoa(fullest) || fullest < 200 || fullest > 260 {
				t.Errorf("fullest window = %d, said %v, want about 220", fullest, said)
			}
		})
	}
}
