// verify.go owns the tool verify: it runs the checks against a server, tells each in
// one line, counts, and retires what it registered. It speaks HTTP like any client and
// must not know revisor's insides; what is checked is in checks.go.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// verifyRequestTime bounds one request. A server may let a duplicate wait for
	// its original, by default 10 s.
	verifyRequestTime = 15 * time.Second
	// verifyTime bounds all checks together; a healthy run takes seconds.
	verifyTime = 2 * time.Minute
	// verifyCleanTime bounds the retiring of what was registered.
	verifyCleanTime = 20 * time.Second
	// verifyAnswer bounds an answer that is read. A list of services can be long.
	verifyAnswer = 64 << 20
	// verifyURL is what the probes are registered with. Nobody is there: the address
	// lies in public space (2000::/3) that was never given to anyone. So any revisor
	// accepts it, without an entry of its own and without asking a name server, and
	// nobody is ever contacted, for verify asks for no checks.
	verifyURL = "http://[2000::1]/"
)

// errVerifyFailed says that not every check passed. The person has been told.
var errVerifyFailed = errors.New("verify failed")

// verification is one run of all checks.
type verification struct {
	base       *url.URL
	token      string // a writer's credential
	otherToken string // a writer's credential of another team
	newName    func() string
	newKey     func() string
	timeout    time.Duration // of one request; 0: verifyRequestTime
	out        io.Writer

	transport *http.Transport
	mu        sync.Mutex
	names     []string // every name that may have been registered
}

// validate finds wrong arguments.
func (v *verification) validate() error {
	if err := validateBase(v.base); err != nil {
		return fmt.Errorf("--base: %w", err)
	}
	if err := validateFieldText(v.token); err != nil {
		return fmt.Errorf("--token: %w", err)
	}
	if err := validateFieldText(v.otherToken); err != nil {
		return fmt.Errorf("--other-token: %w", err)
	}
	if v.token == v.otherToken {
		return errors.New("--other-token: must not be --token, and belong to another team")
	}
	return nil
}

// run makes all checks. Nil means that each one passed; otherwise the person has been
// told and it is errVerifyFailed. validate must have passed.
func (v *verification) run(ctx context.Context) error {
	v.transport = newTransport()
	if v.timeout == 0 {
		v.timeout = verifyRequestTime
	}
	checks := promiseChecks()
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	_, unreachable := v.ask(limited, http.MethodGet, v.token, "/servicios")
	if unreachable != nil {
		fmt.Fprintf(v.out, "el servidor %s no contesta: %v\n", v.base.Redacted(), unreachable)
		unreachable = errors.New("el servidor no contesta") // the reason once is enough
	}
	passed := 0
	for _, c := range checks {
		err := unreachable
		if err == nil {
			err = c.run(limited, v)
		}
		if err != nil {
			fmt.Fprintf(v.out, "FAIL %-16s  %s. %s\n", c.id, c.sentence, printable([]byte(err.Error()), 4*shownBody))
			continue
		}
		fmt.Fprintf(v.out, "ok   %-16s  %s\n", c.id, c.sentence)
		passed++
	}
	if unreachable == nil {
		v.clean(ctx)
	}
	fmt.Fprintf(v.out, "%d of %d\n", passed, len(checks))
	if passed != len(checks) {
		return errVerifyFailed
	}
	return nil
}

// freshName draws a name and remembers to retire what will have it.
func (v *verification) freshName() string {
	name := v.newName()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.names = append(v.names, name)
	return name
}

// serviceBody is a registration that any revisor accepts.
func serviceBody(name string) []byte {
	return encodeProbe(probe{Nombre: name, URL: verifyURL})
}

// wrongServiceBody is one that is refused for its data: the limit is too short.
func wrongServiceBody(name string) []byte {
	return encodeProbe(probe{Nombre: name, URL: verifyURL, Limite: 1})
}

// probe is a service that verify registers.
type probe struct {
	Nombre string `json:"nombre"`
	URL    string `json:"url"`
	Limite int    `json:"limite_ms,omitempty"`
}

func encodeProbe(p probe) []byte {
	body, err := encodeJSON(p)
	if err != nil { // texts and a number can always be encoded
		panic(err)
	}
	return body
}

// post sends one keyed registration.
func (v *verification) post(ctx context.Context, token, key string, body []byte) (answer, error) {
	return v.attempt(ctx, call{
		method: http.MethodPost, base: v.base, path: "/servicios", body: body,
		header: http.Header{
			"Authorization": {"Bearer " + token},
			"Content-Type":  {"application/json"},
			keyHeader:       {keyField(key)},
		},
	})
}

// ask sends one request without a body.
func (v *verification) ask(ctx context.Context, method, token, path string) (answer, error) {
	return v.attempt(ctx, call{
		method: method, base: v.base, path: path,
		header: http.Header{"Authorization": {"Bearer " + token}},
	})
}

func (v *verification) attempt(ctx context.Context, c call) (answer, error) {
	got, err := attempt(ctx, v.transport, v.timeout, verifyAnswer, c)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s quedó sin respuesta: %s", c.method, c.path, whyNoAnswer(err))
	}
	return got, nil
}

// listed is what verify reads of a service in the list.
type listed struct {
	ID     int64  `json:"id"`
	Nombre string `json:"nombre"`
}

func (s listed) path() string { return fmt.Sprintf("/servicios/%d", s.ID) }

// list returns the services that a credential sees.
func (v *verification) list(ctx context.Context, token string) ([]listed, error) {
	got, err := v.ask(ctx, http.MethodGet, token, "/servicios")
	if err != nil {
		return nil, err
	}
	var services struct {
		Servicios []listed `json:"servicios"`
	}
	if got.status != http.StatusOK || json.Unmarshal(got.body, &services) != nil {
		return nil, fmt.Errorf("al contar efectos con GET /servicios: %w", unexpected(got, "200 con la lista"))
	}
	return services.Servicios, nil
}

// effects counts the living services with a name.
func (v *verification) effects(ctx context.Context, token, name string) (int, error) {
	services, err := v.list(ctx, token)
	if err != nil {
		return 0, err
	}
	made := 0
	for _, service := range services {
		if service.Nombre == name {
			made++
		}
	}
	return made, nil
}

// clean retires whatever carries one of our names, also what came of a request whose
// answer was never seen, and also when the person has broken off the run.
func (v *verification) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verifyCleanTime)
	defer cancel()
	ours := make(map[string]bool)
	for _, name := range v.names {
		ours[name] = true
	}
	for _, token := range []string{v.token, v.otherToken} {
		services, err := v.list(ctx, token)
		if err != nil {
			fmt.Fprintf(v.out, "aviso: no se pudo comprobar si quedan servicios de prueba: %s\n", printable([]byte(err.Error()), shownBody))
			continue
		}
		for _, service := range services {
			if !ours[service.Nombre] {
				continue
			}
			got, err := v.ask(ctx, http.MethodDelete, token, service.path())
			if err != nil || got.status != http.StatusNoContent {
				fmt.Fprintf(v.out, "aviso: el servicio de prueba %s quedó sin retirar\n", service.path())
			}
		}
	}
}
