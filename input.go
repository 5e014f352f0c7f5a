// input.go owns what a command is given to read: a file, or standard input, up to a limit,
// until the process is told to stop. It must not know what is read, nor what for.

package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

// readFile reads a file, or standard input for "-", of at most limit bytes. It ends early
// when the process is told to stop: who waits for a person to type, or for a pipe, can be
// interrupted.
func (p *process) readFile(name string, limit int64) ([]byte, error) {
	type content struct {
		text []byte
		err  error
	}
	read := make(chan content, 1)
	go func() {
		text, err := p.readAll(name, limit)
		read <- content{text, err}
	}()
	select {
	case c := <-read:
		return c.text, c.err
	case <-p.ctx.Done():
		return nil, context.Canceled
	}
}

func (p *process) readAll(name string, limit int64) ([]byte, error) {
	in := p.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, fmt.Errorf("%s has more than %d MiB", name, limit>>20)
	}
	return text, err
}
