// revisions.go owns the revisions of a service, its live check and its report: their
// representations and handlers. It must not know SQL text, nor the protocol of keys.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/julienschmidt/httprouter"
)

// pendingRetryAfter is when to ask again for a revision that is pending, in seconds.
const pendingRetryAfter = "1"

// revisionJSON is a revision on the wire.
type revisionJSON struct {
	ID      int64       `json:"id"`
	Service int64       `json:"servicio"`
	State   string      `json:"estado"`
	Result  *resultJSON `json:"resultado"`
}

// resultJSON is what a finished revision found out.
type resultJSON struct {
	State  string `json:"estado"`
	Code   *int64 `json:"codigo"`
	MS     *int64 `json:"ms"`
	Detail string `json:"detalle"`
}

// healthJSON is a live check.
type healthJSON struct {
	Service int64 `json:"servicio"`
	Code    int   `json:"codigo"`
	MS      int64 `json:"ms"`
}

// reportJSON is a report; LastState is null when no revision has finished.
type reportJSON struct {
	Service   int64   `json:"servicio"`
	Revisions int64   `json:"revisiones"`
	LastState *string `json:"ultimo_estado"`
}

func wireRevision(rev revision) revisionJSON {
	if !rev.finished {
		return revisionJSON{rev.id, rev.service, "pendiente", nil}
	}
	return revisionJSON{rev.id, rev.service, "terminada",
		&resultJSON{rev.result.state, rev.result.code, rev.result.ms, rev.result.detail}}
}

func revisionPath(id int64) string { return fmt.Sprintf("/revisiones/%d", id) }

// postRevision accepts a check. Its body is not interpreted.
func (s *server) postRevision(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	var body []byte
	var accepted int64
	return s.engine.do(w, r, operation{
		read: func() (err error) {
			body, err = readBody(w, r)
			return err
		},
		fingerprint: func(byte) fingerprint {
			return fingerprintBytes(r.Method, r.URL.EscapedPath(), body)
		},
		admit: func() error {
			if err := limited(s.revisionLimit, r, "demasiadas-revisiones"); err != nil {
				return err
			}
			_, err := s.serviceOf(r, ps)
			return err
		},
		prepare: func(context.Context) error { return nil },
		apply: func(t *tx) (a success, err error) {
			accepted, a, err = s.insertRevision(t, idOf(ps), caller(r))
			return a, err
		},
		committed: func() { s.queue.accept(accepted) },
	})
}

// insertRevision is the effect of asking for a check, and its answer.
func (s *server) insertRevision(t *tx, serviceID int64, c credential) (id int64, a success, err error) {
	svc, err := t.serviceByID(serviceID)
	if svc, err = visible(svc, err, c); err != nil {
		return 0, success{}, err
	}
	if id, err = t.insertRevision(svc.id, s.now()); err != nil {
		return 0, success{}, err
	}
	body, err := encodeJSON(wireRevision(revision{id: id, service: svc.id}))
	return id, success{status: http.StatusAccepted, location: revisionPath(id), body: body}, err
}

// getRevision answers a revision, also after its service was retired.
func (s *server) getRevision(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	missing := newProblem("revision-inexistente", "no hay ninguna revisión con ese número")
	rev, err := s.store.revisionByID(idOf(ps))
	if err != nil {
		return found(err, missing)
	}
	if !caller(r).sees(rev.team) {
		return missing
	}
	rep, err := jsonReply(http.StatusOK, wireRevision(rev))
	if err != nil {
		return err
	}
	if !rev.finished {
		rep = rep.with("Retry-After", pendingRetryAfter)
	}
	rep.send(w, r)
	return nil
}

// getHealth checks a service now, once.
func (s *server) getHealth(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	if err := limited(s.healthLimit, r, "demasiadas-consultas"); err != nil {
		return err
	}
	svc, err := s.serviceOf(r, ps)
	if err != nil {
		return err
	}
	code, ms, err := s.checker.liveCheck(r.Context(), svc.url, time.Duration(svc.limitMS)*time.Millisecond)
	var forbidden *forbiddenDestination
	switch {
	case errors.As(err, &forbidden):
		return newProblem("destino-prohibido", "%v", forbidden)
	case errors.Is(err, errSlow):
		return newProblem("servicio-lento", "el servicio no respondió en %d ms", svc.limitMS)
	case errors.Is(err, errBadAnswer):
		return newProblem("respuesta-invalida", "no hubo conexión, se cortó, o lo que llegó no era HTTP")
	case err != nil:
		return err
	}
	return sendJSON(w, r, healthJSON{svc.id, code, ms})
}

// getReport sums up the revisions of a service.
func (s *server) getReport(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	svc, err := s.serviceOf(r, ps)
	if err != nil {
		return err
	}
	rep, err := s.store.reportOf(svc.id)
	if err != nil {
		return err
	}
	if s.broken[report500] && !rep.lastState.Valid {
		panic("no finished revision to report")
	}
	report := reportJSON{Service: svc.id, Revisions: rep.revisions}
	if rep.lastState.Valid {
		report.LastState = &rep.lastState.String
	}
	return sendJSON(w, r, report)
}
