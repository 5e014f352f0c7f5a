// malformed.go owns the checks of how a key is written: those that are none are sent as
// they are, and must do nothing; those that are nearly equal are not. It must not know how
// a server reads a key.

package main

import (
	"context"
	"fmt"
	"strings"
	"unicode"
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
			func(string, int) [][]string { return emptyKeys(p.spelling) }},
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

// emptyKeys spells a key of no characters. Where keys are bare, two quotes are a key of two.
func emptyKeys(spelling keySpelling) [][]string {
	if spelling == spelledBoth {
		return [][]string{{""}, {`""`}}
	}
	return [][]string{{""}} // quoted before it is sent, where keys are
}

// shownKey is how many characters of a key are shown.
const shownKey = 80

// spare is how many bytes the kinds add to a key, so that none is refused for its length.
const spare = 3

// check sends each spelling.
func (kind malformedKind) check(ctx context.Context, v *verification) error {
	for n := range kind.lines("", 0) {
		i := v.intend()
		key := i.key
		if longest := v.profile.longest; longest > 0 {
			key = key[:min(len(key), longest-spare)]
		}
		lines := kind.lines(key, v.profile.longest)[n]
		if v.profile.spelling == spelledQuoted {
			for l, line := range lines {
				lines[l] = quoteKey(strings.Trim(line, `"`))
			}
		}
		begun, err := v.going(ctx)
		if err != nil {
			return err
		}
		got, err := attemptRaw(begun, v.timeout, verifyAnswer, i.call(v.profile.create), lines...)
		if err != nil {
			i.unanswered(err)
			return fmt.Errorf("con la llave %s no hubo respuesta: %s", tellKey(lines), whyNoAnswer(err))
		}
		i.learn(got)
		if err := v.profile.malformed.demand(got); err != nil {
			return fmt.Errorf("con la llave %s %w", tellKey(lines), err)
		}
		if err := i.expectEffects(ctx, 0); err != nil {
			return fmt.Errorf("con la llave %s: %w", tellKey(lines), err)
		}
	}
	return nil
}

// tellKey shows the lines of a key as they were sent.
func tellKey(lines []string) string {
	told := make([]string, len(lines))
	for n, line := range lines {
		told[n] = "«" + printable([]byte(line), shownKey) + "»"
	}
	return strings.Join(told, " y ")
}

func checkQuotedKey(ctx context.Context, v *verification) error {
	i := v.intend()
	first, err := i.create(ctx) // bare
	if err != nil {
		return err
	}
	quoted, err := i.sendSpelled(ctx, v.profile.create, quoteKey(i.key))
	if err != nil {
		return err
	}
	i.learn(quoted)
	if err := demandReplay(quoted, first); err != nil {
		return fmt.Errorf("con comillas: %w", err)
	}
	return i.expectEffects(ctx, 1)
}

// nearKeys are keys that differ from each other in the case of one letter, or in the last
// character alone. Digits of base 16 stay such: a server may want a UUID.
func nearKeys(draw func() string) [3]string {
	for {
		key := draw()
		letter := strings.IndexFunc(key[:len(key)-1], unicode.IsLetter)
		if letter < 0 {
			continue
		}
		last := byte('0')
		if key[len(key)-1] == last {
			last = '1'
		}
		return [3]string{key, key[:letter] + strings.ToUpper(key[letter:letter+1]) + key[letter+1:], key[:len(key)-1] + string(last)}
	}
}

// checkNearKeys creates something else under each of them. A server that cuts keys, or
// does not mind the case, takes them for one.
func checkNearKeys(ctx context.Context, v *verification) error {
	keys := nearKeys(v.key)
	for n, how := range []string{"la primera", "la que se distingue en una mayúscula", "la que se distingue en lo último"} {
		i := v.intend()
		i.key = keys[n]
		if _, err := i.create(ctx); err != nil {
			return fmt.Errorf("con %s: %w", how, err)
		}
		if err := i.expectEffects(ctx, 1); err != nil {
			return fmt.Errorf("con %s: %w", how, err)
		}
	}
	return nil
}
