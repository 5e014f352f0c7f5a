// servicedata.go owns what a client may say of a service: its members, read from a JSON
// object and judged, with every flaw told at once. It must not know handlers, nor SQL.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxNameLength  = 40 // Unicode code points
	defaultLimitMS = 2000
	minLimitMS     = 100
	maxLimitMS     = 10000
)

// serviceData is what a client may say of a service.
type serviceData struct {
	name    string
	url     string
	target  serviceURL
	limitMS int64
}

// readServiceData reads and judges the members of a service, except its destination.
// Unknown members are ignored.
func readServiceData(doc document) (serviceData, error) {
	var data serviceData
	var flaws []flaw
	note := func(member, detail string) {
		if detail != "" {
			flaws = append(flaws, flaw{detail, "#/" + member})
		}
	}
	var detail string
	data.name, detail = readName(doc)
	note("nombre", detail)
	data.url, data.target, detail = readURL(doc)
	note("url", detail)
	data.limitMS, detail = readLimit(doc)
	note("limite_ms", detail)
	if flaws != nil {
		return serviceData{}, invalidData(flaws)
	}
	return data, nil
}

func readName(doc document) (name, flaw string) {
	value, ok := doc.member("nombre")
	if !ok {
		return "", "falta"
	}
	name, ok = value.text()
	switch length := utf8.RuneCountInString(name); {
	case !ok:
		return "", "tiene que ser un texto"
	case strings.IndexFunc(name, notSpace) < 0:
		return "", "no puede estar vacío ni tener solo espacios"
	case length > maxNameLength:
		return "", fmt.Sprintf("tiene %d caracteres y caben %d", length, maxNameLength)
	}
	return name, ""
}

func notSpace(r rune) bool { return !unicode.IsSpace(r) }

func readURL(doc document) (raw string, target serviceURL, flaw string) {
	value, ok := doc.member("url")
	if !ok {
		return "", serviceURL{}, "falta"
	}
	if raw, ok = value.text(); !ok {
		return "", serviceURL{}, "tiene que ser un texto"
	}
	target, err := parseServiceURL(raw)
	if err != nil {
		return "", serviceURL{}, err.Error()
	}
	return raw, target, ""
}

func readLimit(doc document) (limitMS int64, flaw string) {
	value, ok := doc.member("limite_ms")
	if !ok {
		return defaultLimitMS, ""
	}
	limitMS, ok = value.integer()
	if !ok || limitMS < minLimitMS || limitMS > maxLimitMS {
		return 0, fmt.Sprintf("tiene que ser un número entero de %d a %d", minLimitMS, maxLimitMS)
	}
	return limitMS, ""
}

// judge asks whether the destination is allowed.
func (s *server) judge(ctx context.Context, target serviceURL) error {
	_, err := s.destinations.judge(ctx, target)
	var forbidden *forbiddenDestination
	switch {
	case errors.As(err, &forbidden):
		return newProblem("destino-prohibido", "%v", forbidden)
	case errors.Is(err, errUnresolved):
		return newProblem("destino-prohibido", "el nombre del destino no se puede resolver")
	}
	return err
}
