// credentials.go owns who may ask: Bearer parsing (RFC 6750), roles and teams, drawing
// and checking tokens, and the practice credentials. It must not know SQL.

package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

const (
	// tokenBytes is the entropy of a token: 256 bits, so that a plain SHA-256 is
	// enough to keep it by.
	tokenBytes = 32
	// tokenPrefix tells what a token is for, and keeps it from beginning with a dash, which
	// a command line would take for a flag.
	tokenPrefix = "rvsr_"
	// allTeams is the team of an administrator, who sees every team's services.
	allTeams = "*"
	// practiceWriter and practiceOtherWriter are the demo's writers, of two teams.
	practiceWriter      = "escritura-a"
	practiceOtherWriter = "escritura-b"
	// challenge is what a 401 asks for (RFC 6750 section 3).
	challenge = `Bearer realm="revisor"`
)

// credentialName and teamName are what a person may choose: short and safe in a
// terminal, a log line and a shell.
var (
	credentialName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	teamName       = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
)

// inSpanish is the role as a person reads it in a problem.
func (r role) inSpanish() string {
	return [...]string{roleAnyone: "nadie", roleReader: "lectura", roleWriter: "escritura", roleAdmin: "administración"}[r]
}

// newCredential checks what a person asks for and draws a token for it.
func newCredential(name, team, roleName string, now time.Time) (c credential, token string, err error) {
	r, err := parseRole(roleName)
	if err != nil {
		return credential{}, "", err
	}
	switch {
	case !credentialName.MatchString(name):
		return credential{}, "", fmt.Errorf("name %q: 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit", name)
	case (team == allTeams) != (r == roleAdmin):
		return credential{}, "", errors.New("team '*' goes with role admin, and with no other")
	case team != allTeams && !teamName.MatchString(team):
		return credential{}, "", fmt.Errorf("team %q: 1 to 32 lower-case letters, digits or '-'", team)
	}
	random := make([]byte, tokenBytes)
	rand.Read(random) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	return credential{name: name, team: team, role: r, hash: hashToken(token), created: now}, token, nil
}

// hashToken is all that is kept of a token.
func hashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// practiceCredentials are the demo's: their token is their name. They are never
// stored; their fixed negative ids keep the scopes of their keys apart from those of
// every stored credential, restarts included.
func practiceCredentials() []credential {
	practice := []credential{
		{id: -1, name: "lectura-a", team: "a", role: roleReader},
		{id: -2, name: practiceWriter, team: "a", role: roleWriter},
		{id: -3, name: practiceOtherWriter, team: "b", role: roleWriter},
		{id: -4, name: "admin", team: allTeams, role: roleAdmin},
	}
	for i := range practice {
		practice[i].hash = hashToken(practice[i].name)
	}
	return practice
}

// sees tells whether the credential may know of a team's services.
func (c credential) sees(team string) bool {
	return c.team == allTeams || c.team == team
}

// byTokenHash indexes the credentials that are good.
func byTokenHash(all []credential) map[[sha256.Size]byte]credential {
	good := make(map[[sha256.Size]byte]credential, len(all))
	for _, c := range all {
		if !c.revoked {
			good[c.hash] = c
		}
	}
	return good
}

// bearerToken reads the Authorization header lines: the scheme in any case, one or
// more spaces, then one token without spaces (RFC 6750 section 2.1). tried is true
// when a Bearer credential came at all; token is "" when it is no good.
func bearerToken(lines []string) (token string, tried bool) {
	for _, line := range lines {
		scheme, rest, _ := strings.Cut(line, " ")
		if strings.EqualFold(scheme, "Bearer") {
			tried = true
			token = strings.TrimLeft(rest, " ")
		}
	}
	if len(lines) != 1 || strings.ContainsAny(token, " \t") {
		return "", tried
	}
	return token, tried
}

// unauthorized is the 401. Only a Bearer credential that came and is no good is told
// so; another scheme, or none, is just asked for one (RFC 6750 section 3.1).
func unauthorized(tried bool) *problem {
	if tried {
		return newProblem("credencial-invalida", "la credencial Bearer no sirve: está mal escrita, no existe o fue revocada").
			withHeader("WWW-Authenticate", challenge+`, error="invalid_token"`)
	}
	return newProblem("credencial-invalida", "hace falta una cabecera Authorization: Bearer con una credencial").
		withHeader("WWW-Authenticate", challenge)
}

// callerKey is where a request's context holds its credential.
type callerKey struct{}

func withCaller(r *http.Request, c credential) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// caller is the credential that the request was admitted with.
func caller(r *http.Request) credential {
	c, _ := r.Context().Value(callerKey{}).(credential)
	return c
}
