// services.go owns the services: their representation and their handlers. It must not
// know SQL text, nor the protocol of keys.

package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/julienschmidt/httprouter"
)

// serviceJSON is a service on the wire.
type serviceJSON struct {
	ID      int64  `json:"id"`
	Name    string `json:"nombre"`
	URL     string `json:"url"`
	LimitMS int64  `json:"limite_ms"`
}

// listJSON is the list, in whatever form its services have.
type listJSON[T any] struct {
	Services []T `json:"servicios"`
}

func wireService(svc service) serviceJSON {
	return serviceJSON{svc.id, svc.name, svc.url, svc.limitMS}
}

func (s *server) etagOf(svc service) string { return buildETag(svc.id, svc.version, s.store.tag) }

func servicePath(id int64) string { return fmt.Sprintf("/servicios/%d", id) }

// nameTaken is the 409 of the name rule; it tells who holds the name.
func nameTaken(t *tx, team, name string) error {
	id, err := t.livingName(team, name)
	if err != nil {
		return err
	}
	return newProblem("nombre-repetido", "tu equipo ya tiene un servicio con ese nombre").with("existente", servicePath(id))
}

// postService registers a service.
func (s *server) postService(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	var doc document
	var data serviceData
	return s.engine.do(w, r, operation{
		read: func() (err error) {
			doc, err = readJSONBody(w, r)
			return err
		},
		fingerprint: func(scheme byte) fingerprint {
			return fingerprintDocument(scheme, r.Method, r.URL.EscapedPath(), doc)
		},
		prepare: func(ctx context.Context) (err error) {
			if data, err = readServiceData(doc); err != nil {
				return err
			}
			if err := s.judge(ctx, data.target); err != nil {
				return err
			}
			return pause(ctx, s.saveDelay)
		},
		apply: func(t *tx) (success, error) { return s.insertService(t, caller(r).team, data) },
	})
}

// insertService is the effect of a registration, and its answer.
func (s *server) insertService(t *tx, team string, data serviceData) (success, error) {
	svc, taken, err := t.insertService(team, data.name, data.url, data.limitMS, s.now())
	if err != nil {
		return success{}, err
	}
	if taken {
		return success{}, nameTaken(t, team, data.name)
	}
	body, err := encodeJSON(wireService(svc))
	return success{status: http.StatusCreated, location: servicePath(svc.id), etag: s.etagOf(svc), body: body}, err
}

// visible hides other teams: their services do not exist, retired or not.
func visible(svc service, err error, c credential) (service, error) {
	missing := newProblem("servicio-inexistente", "no hay ningún servicio con ese número")
	switch {
	case err != nil:
		return service{}, found(err, missing)
	case !c.sees(svc.team):
		return service{}, missing
	case svc.retired:
		return service{}, newProblem("servicio-retirado", "ese servicio fue retirado")
	}
	return svc, nil
}

// serviceOf finds the living service that a path names, as far as the caller may know.
func (s *server) serviceOf(r *http.Request, ps httprouter.Params) (service, error) {
	svc, err := s.store.serviceByID(idOf(ps))
	return visible(svc, err, caller(r))
}

// getServices lists the living services of the caller's team.
func (s *server) getServices(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	list, err := listServices(s, r, wireService)
	if err != nil {
		return err
	}
	return sendJSON(w, r, list)
}

// listServices finds the living services of the caller's team, in a form.
func listServices[T any](s *server, r *http.Request, wire func(service) T) (listJSON[T], error) {
	services, err := s.store.livingServices(caller(r).team)
	if err != nil {
		return listJSON[T]{}, err
	}
	list := listJSON[T]{Services: make([]T, len(services))}
	for i, svc := range services {
		list.Services[i] = wire(svc)
	}
	return list, nil
}

// sendService answers 200 with a service and its entity tag.
func (s *server) sendService(w http.ResponseWriter, r *http.Request, svc service) error {
	rep, err := jsonReply(http.StatusOK, wireService(svc))
	if err != nil {
		return err
	}
	rep.with("ETag", s.etagOf(svc)).send(w, r)
	return nil
}

// getService answers one service, or 304 when the client has it already.
func (s *server) getService(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	svc, err := s.serviceOf(r, ps)
	if err != nil {
		return err
	}
	etag := s.etagOf(svc)
	if parseETagList(r.Header.Values("If-None-Match")).matchesWeak(etag) {
		reply{status: http.StatusNotModified}.with("ETag", etag).send(w, r)
		return nil
	}
	return s.sendService(w, r, svc)
}

// putService replaces a service whole, if the client knows its present version.
func (s *server) putService(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	svc, err := s.serviceOf(r, ps)
	if err != nil {
		return err
	}
	if err := demandJSON(r); err != nil {
		return err
	}
	condition := r.Header.Values("If-Match")
	if len(condition) == 0 {
		return newProblem("falta-condicion", "para reemplazar un servicio hace falta If-Match con su etiqueta")
	}
	if err := s.demandMatch(condition, svc); err != nil {
		return err
	}
	doc, err := readDocument(w, r)
	if err != nil {
		return err
	}
	data, err := readServiceData(doc)
	if err != nil {
		return err
	}
	if err := s.judge(r.Context(), data.target); err != nil {
		return err
	}
	err = s.write(r, func(t *tx) error {
		svc, err = s.replaceService(t, svc.id, condition, data, caller(r))
		return err
	})
	if err != nil {
		return err
	}
	return s.sendService(w, r, svc)
}

// replaceService asks again, inside the transaction, what may have changed since the
// request was looked at.
func (s *server) replaceService(t *tx, id int64, condition []string, data serviceData, c credential) (service, error) {
	current, err := t.serviceByID(id)
	if current, err = visible(current, err, c); err != nil {
		return service{}, err
	}
	if err := s.demandMatch(condition, current); err != nil {
		return service{}, err
	}
	svc, taken, err := t.updateService(id, data.name, data.url, data.limitMS)
	if taken {
		return service{}, nameTaken(t, current.team, data.name)
	}
	return svc, err
}

// demandMatch compares If-Match strongly (RFC 9110 section 13.1.1); with "*" it is
// enough that the service exists.
func (s *server) demandMatch(condition []string, svc service) error {
	tags, etag := parseETagList(condition), s.etagOf(svc)
	switch {
	case tags.matchesStrong(etag):
		return nil
	case tags.matchesWeak(etag):
		return newProblem("etiqueta-vencida", "una etiqueta débil (W/) no sirve para escribir")
	}
	return newProblem("etiqueta-vencida", "el servicio cambió desde que leíste esa etiqueta; léelo otra vez")
}

// deleteService retires a service and frees its name.
func (s *server) deleteService(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	if _, err := s.serviceOf(r, ps); err != nil {
		return err
	}
	err := s.write(r, func(t *tx) error {
		svc, err := t.serviceByID(idOf(ps))
		if _, err = visible(svc, err, caller(r)); err != nil {
			return err
		}
		return t.retireService(svc.id, s.now())
	})
	if err != nil {
		return err
	}
	reply{status: http.StatusNoContent}.send(w, r)
	return nil
}
