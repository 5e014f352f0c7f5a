// panic.go owns what becomes of a panic: an error with the stack that it came from,
// wherever one request, one write or one revision must not take the process down, and
// how such an error is told to the log. It must not know what was being done.

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// panicError is a recovered panic with the stack it came from.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guard runs do and turns a panic in it into a *panicError.
func guard(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return do()
}

// logFailure logs an error that nobody foresaw, with the stack of its panic, or of where
// it came to light.
func logFailure(log *slog.Logger, message string, err error, attrs ...any) {
	attrs = append(attrs, "error", err)
	stack := debug.Stack() // of where it was noticed, when nothing better is known
	var crash *panicError
	if errors.As(err, &crash) {
		stack = crash.stack
	}
	attrs = append(attrs, "stack", string(stack))
	log.Error(message, attrs...)
}
