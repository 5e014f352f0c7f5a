// backoff.go owns the tool backoff: it shows what full jitter does, with the very
// functions that register and the checker wait by. It must not know who retries, nor
// speak to anybody.

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	// crowdSize clients fail in the same instant; they are counted in windows of
	// crowdWindow as they come back.
	crowdSize   = 1000
	crowdWindow = 100 * time.Millisecond
	// sampleDraws is how many draws of each wait are shown: enough to see that no
	// two are alike, and one line.
	sampleDraws = 6
	// barUnit is how many clients one block of a bar stands for: the whole crowd is
	// 40 blocks, half a terminal's line.
	barUnit = 25
	// barColumn is the width of the longest number with its bar.
	barColumn = len("1000 ") + crowdSize/barUnit
)

// printBackoff shows the waits between attempts, and how a crowd comes back with and
// without jitter. random returns numbers in [0, 1).
//
// The model of the crowd: all fail at 0 ms and wait once, as after their first
// attempt. Without jitter each waits the whole ceiling, so that all come back in one
// window; with it, five windows share them, 200 each on average, and the fullest of
// the five holds about 215 to 220. Later waits are left out: by then the crowd no
// longer fails together.
func printBackoff(out io.Writer, random func() float64) {
	fmt.Fprintf(out, "Espera entre intentos: al azar de cero al tope, y el tope se dobla hasta %s.\n", spell(backoffCap))
	for n := 1; n < registerAttempts; n++ {
		draws := make([]string, sampleDraws)
		for i := range draws {
			draws[i] = fmt.Sprintf("%4d", fullJitter(backoffCeiling(n), random).Milliseconds())
		}
		fmt.Fprintf(out, "  después del intento %d: tope de %4d ms; por ejemplo %s ms\n",
			n, backoffCeiling(n).Milliseconds(), strings.Join(draws, ", "))
	}

	ceiling := backoffCeiling(1)
	together := comeBack(func() time.Duration { return ceiling })
	apart := comeBack(func() time.Duration { return fullJitter(ceiling, random) })
	fmt.Fprintf(out, "\n%d clientes fallan a la vez y vuelven tras la primera espera, con tope de %d ms.\n", crowdSize, ceiling.Milliseconds())
	fmt.Fprintf(out, "Cuántos vuelven en cada ventana de %d ms (cada bloque son %d):\n\n", crowdWindow.Milliseconds(), barUnit)
	fmt.Fprintf(out, "  %-11s  %-*s  %s\n", "ventana, ms", barColumn, "sin jitter", "con jitter")
	for i := range together {
		from := int64(i) * crowdWindow.Milliseconds()
		fmt.Fprintf(out, "  %4d a %4d  %-*s  %s\n", from, from+crowdWindow.Milliseconds(), barColumn, bar(together[i]), bar(apart[i]))
	}
	fmt.Fprintf(out, "\nLa ventana más llena: %d sin jitter, %d con jitter.\n", slices.Max(together), slices.Max(apart))
}

// comeBack counts the crowd in windows, each client after one wait, none of which is
// above the first ceiling.
func comeBack(wait func() time.Duration) []int {
	windows := make([]int, backoffCeiling(1)/crowdWindow+1)
	for range crowdSize {
		windows[wait()/crowdWindow]++
	}
	return windows
}

// bar is a number and its blocks, rounded up.
func bar(clients int) string {
	blocks := strings.Repeat("█", (clients+barUnit-1)/barUnit)
	return strings.TrimRight(fmt.Sprintf("%4d %s", clients, blocks), " ")
}
