// malformed.go owns the checks of keys that are none: they are sent as they are, and must
// do nothing. It must not know how a server reads a key.

package main

import (
	"context"
	"fmt"
	"strings"
)

// malformedKind is a way to spell no key.
type malformedKind struct {
	id, sentence string
	source       string
	lacks        string
	lines        func(key string, longest int) [][]string // each is a request's lines
}

// malformedKinds are the ways. They are made of a good key, so that nothing else is wrong.
func malformedKinds(p *profile) []malformedKind {
	tooLong := ""
	if p.longest == 0 {
		tooLong = "el perfil no dice cuán larga puede ser (key.longest)"
	}
	return []malformedKind{
		{"key-empty", "una llave vacía se rechaza y no hace nada", draftValidate, "",
			func(string, int) [][]string { return [][]string{{""}, {`""`}} }},
		{"key-two-lines", "dos llaves en una petición se rechazan y no hacen nada", draftSyntax, "",
			func(key string, _ int) [][]string { return [][]string{{key, key + "-2"}} }},
		{"key-too-long", "una llave demasiado larga se rechaza y no hace nada", draftValidate, tooLong,
			func(key string, longest int) [][]string {
				return [][]string{{key + strings.Repeat("x", max(0, longest+1-len(key)))}}
			}},
		{"key-control", "una llave con caracteres de control se rechaza y no hace nada", draftSyntax, "",
			func(key string, _ int) [][]string { return [][]string{{key + "\x01x"}, {key + "\x7fx"}} }},
		{"key-non-ascii", "una llave con bytes que no son ASCII se rechaza y no hace nada", draftSyntax, "",
			func(key string, _ int) [][]string { return [][]string{{key + "ñ"}, {key + "\xff"}} }},
	}
}

// check sends each spelling.
func (kind malformedKind) check(ctx context.Context, v *verification) error {
	for n := range kind.lines("", 0) {
		i := v.intend()
		lines := kind.lines(i.key, v.profile.longest)[n]
		if v.profile.spelling == spelledQuoted {
			for l, line := range lines {
				lines[l] = quoteKey(strings.Trim(line, `"`))
			}
		}
		c := i.call(v.profile.create)
		got, err := attemptRaw(ctx, v.timeout, verifyAnswer, c, lines...)
		if err != nil {
			return fmt.Errorf("con la llave %q no hubo respuesta: %s", lines, whyNoAnswer(err))
		}
		i.learn(got)
		if err := v.profile.malformed.demand(got); err != nil {
			return fmt.Errorf("con la llave %.80q %w", lines, err)
		}
		if err := i.expectEffects(ctx, 0); err != nil {
			return fmt.Errorf("con la llave %.80q: %w", lines, err)
		}
	}
	return nil
}
