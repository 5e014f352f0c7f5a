// progress.go owns the progress bar of a long run, and whether anybody would see one: it
// is drawn on a terminal alone, never into a file or a pipe. It must not know what runs.

package main

import (
	"io"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
)

// progressWidth is the bar's, in columns: with its words it fits a terminal of 80.
const progressWidth = 30

// progress tells how far a run of a known number of steps has come. Safe for concurrent
// use; a nil one tells nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress draws a bar on a terminal; it is nil when to is none. doing says in a few
// words what is being done.
func newProgress(to io.Writer, steps int, doing string) *progress {
	if !isTerminal(to) {
		return nil
	}
	return &progress{progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(to), progressbar.OptionSetDescription(doing), progressbar.OptionSetWidth(progressWidth),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())}
}

// isTerminal tells whether what is written there is seen by a person at once.
func isTerminal(to io.Writer) bool {
	file, ok := to.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(file.Fd())
}

// tell says what is being done now.
func (p *progress) tell(doing string) {
	if p != nil {
		p.bar.Describe(doing)
	}
}

// step says that one more step is done.
func (p *progress) step() {
	if p != nil {
		p.bar.Add(1) // a terminal that is gone cannot be told anything
	}
}

// clear takes the bar away, so that what is told next begins on a clean line.
func (p *progress) clear() {
	if p != nil {
		p.bar.Clear()
	}
}
