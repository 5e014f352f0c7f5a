// policy.go owns what is published about keys: the policy, as JSON and as a page, and
// the look-up of one's own operations. It must not know how a key is decided, nor SQL.

package main

import (
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"
)

// policy is what this server promises about keys, for programs and for people.
type policy struct {
	Header      string   `json:"cabecera"`
	Draft       string   `json:"borrador"`
	Standard    bool     `json:"estandar"`
	Required    bool     `json:"obligatoria"`
	Routes      []string `json:"rutas"`
	Scope       string   `json:"alcance"`
	LifetimeS   float64  `json:"vigencia_s"`
	MaxLength   int      `json:"longitud_maxima"`
	Syntax      []string `json:"sintaxis"`
	Fingerprint string   `json:"huella"`
	InFlight    string   `json:"en_curso"`
	LongestWait int      `json:"espera_maxima_s"`
	Recorded    string   `json:"se_graba"`
	Replayed    string   `json:"repetida"`
	NotCovered  []string `json:"sin_cubrir"`
}

// policy describes the engine as it is configured, for the routes that use it.
func (e *engine) policy(routes []string) policy {
	inFlight := "reject"
	if e.wait {
		inFlight = "wait"
	}
	return policy{
		Header: keyHeader, Draft: draft,
		Routes:      routes,
		Scope:       "credencial",
		LifetimeS:   e.ttl.Seconds(),
		MaxLength:   maxKeyLength,
		Syntax:      []string{"simple", "cadena RFC 9651"},
		Fingerprint: schemeName(e.scheme),
		InFlight:    inFlight,
		LongestWait: int(longestWait / time.Second),
		Recorded:    "2xx",
		Replayed:    replayedHeader,
		NotCovered: []string{
			"efectos fuera de la base de datos",
			"otras rutas y otros métodos",
			"lo que le pase al recurso después de la respuesta",
			"peticiones que lleguen cuando la llave ya venció",
		},
	}
}

// Lifetime is the lifetime in seconds as the page shows it: never as 2.592e+06.
func (p policy) Lifetime() string { return strconv.FormatFloat(p.LifetimeS, 'f', -1, 64) }

// schemeName is a scheme of fingerprints as it is published, and set by --fingerprint.
func schemeName(scheme byte) string {
	if scheme == schemeCanonical {
		return "canonical"
	}
	return "ordered"
}

//go:embed policy.html
var policyHTML string

// policyPage shows a policy to a person.
var policyPage = template.Must(template.New("policy").Parse(policyHTML))

// getPolicy answers the policy: JSON, or a page for who prefers text/html.
func (s *server) getPolicy(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	published := s.engine.policy(s.keyed)
	rep, err := jsonReply(http.StatusOK, published)
	if err != nil {
		return err
	}
	if prefersHTML(r.Header.Values("Accept")) {
		var page strings.Builder
		if err := policyPage.Execute(&page, published); err != nil {
			return err
		}
		rep.body = []byte(page.String())
		rep = rep.with("Content-Type", "text/html; charset=utf-8").with("Content-Language", "es")
	}
	rep.with("Vary", "Accept").send(w, r)
	return nil
}

// prefersHTML reads Accept (RFC 9110 section 12.5.1): text/html named with a weight
// above that of JSON. A wildcard is content with JSON.
func prefersHTML(lines []string) bool {
	html, jsonWeight := 0.0, 0.0
	for _, element := range strings.Split(strings.Join(lines, ","), ",") {
		mediaRange, params, _ := strings.Cut(element, ";")
		switch strings.ToLower(strings.TrimSpace(mediaRange)) {
		case "text/html":
			html = acceptWeight(params)
		case "application/json":
			jsonWeight = acceptWeight(params)
		}
	}
	return html > jsonWeight
}

// acceptWeight is the q parameter, 1 when there is none, 0 when it is no number.
func acceptWeight(params string) float64 {
	for _, param := range strings.Split(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			weight, err := strconv.ParseFloat(value, 64)
			if err != nil || weight < 0 || weight > 1 {
				return 0
			}
			return weight
		}
	}
	return 1
}

// operationState is the wire form of one of the caller's own keys.
type operationState struct {
	Key      string  `json:"llave"`
	State    string  `json:"estado"`
	Method   string  `json:"metodo"`
	Path     string  `json:"ruta"`
	Code     *int    `json:"codigo"`
	Resource *string `json:"recurso"`
	Since    string  `json:"desde"`
	Expires  string  `json:"vence"`
}

// getOperation tells what is known of a key, so that a client can ask instead of
// repeating. All of the escaped path behind the prefix is the key.
func (e *engine) getOperation(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	text, err := url.PathUnescape(strings.TrimPrefix(ps.ByName("key"), "/"))
	if err != nil {
		return keyProblem("llave-invalida", "la llave de la ruta no está bien codificada")
	}
	key, err := parseIdempotencyKey([]string{text})
	if err != nil {
		return keyProblem("llave-invalida", "%v", err)
	}
	state, err := e.operation(scopedKey{caller(r).id, key})
	if err != nil {
		return err
	}
	rep, err := jsonReply(http.StatusOK, state)
	if err != nil {
		return err
	}
	if state.Code == nil {
		rep = rep.with("Retry-After", "1")
	}
	rep.send(w, r)
	return nil
}

// operation looks in flight first and on file next: an operation that lands between
// the two looks is found by the second.
func (e *engine) operation(scope scopedKey) (operationState, error) {
	f, flying := e.flights.find(scope)
	if flying {
		<-f.looked
		if f.recorded == nil {
			return operationState{
				Key: scope.key, State: "en-curso", Method: f.method, Path: f.path,
				Since: wireTime(f.since), Expires: wireTime(f.since.Add(e.ttl)),
			}, nil
		}
	}
	rec, err := e.recorded(scope)
	if errors.Is(err, errNotFound) {
		return operationState{}, newProblem("operacion-inexistente",
			"ahora mismo no consta ninguna operación tuya con esa llave; eso no prueba que una petición anterior no pueda llegar todavía")
	}
	if err != nil {
		return operationState{}, err
	}
	return operationState{
		Key: scope.key, State: "terminada", Method: rec.method, Path: rec.path,
		Code: &rec.answer.status, Resource: &rec.answer.location,
		Since: wireTime(rec.firstUsed), Expires: wireTime(rec.expires),
	}, nil
}

// wireTime is a time as it goes over the wire: RFC 3339, UTC, whole seconds.
func wireTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
