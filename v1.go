// v1.go owns version 1 of the API: its representations, and its announced end. It must
// not know SQL text.

package main

import (
	"net/http"

	"github.com/julienschmidt/httprouter"
)

// What a 200 of version 1 announces: it is deprecated since 1 July 2026 (RFC 9745) and
// ends on 31 January 2027 (RFC 8594).
const (
	v1Deprecation = "@1782864000"
	v1Sunset      = "Sun, 31 Jan 2027 00:00:00 GMT"
	v1Link        = `<https://revisor.example/docs/migrar-de-v1>; rel="deprecation"; type="text/html"`
)

// serviceV1JSON is a service in version 1: its limit is in seconds.
type serviceV1JSON struct {
	ID      int64   `json:"id"`
	Name    string  `json:"nombre"`
	Address string  `json:"direccion"`
	Limit   float64 `json:"limite"`
}

func wireServiceV1(svc service) serviceV1JSON {
	return serviceV1JSON{svc.id, svc.name, svc.url, float64(svc.limitMS) / 1000}
}

// getServicesV1 lists the living services of the caller's team in the old form.
func (s *server) getServicesV1(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	list, err := listServices(s, r, wireServiceV1)
	if err != nil {
		return err
	}
	return sendV1(w, r, list)
}

// getServiceV1 answers one service in the old form.
func (s *server) getServiceV1(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	svc, err := s.serviceOf(r, ps)
	if err != nil {
		return err
	}
	return sendV1(w, r, wireServiceV1(svc))
}

// sendV1 answers 200 with v, and announces the end of version 1.
func sendV1(w http.ResponseWriter, r *http.Request, v any) error {
	rep, err := jsonReply(http.StatusOK, v)
	if err != nil {
		return err
	}
	rep.with("Deprecation", v1Deprecation).with("Sunset", v1Sunset).with("Link", v1Link).send(w, r)
	return nil
}
