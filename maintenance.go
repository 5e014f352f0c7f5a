// maintenance.go owns the switch that closes the API: who meets it, and who moves it. It
// must not know SQL, nor what is closed.

package main

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/julienschmidt/httprouter"
)

const (
	// maintenancePath stays open, or nobody could open the rest again.
	maintenancePath = "/mantenimiento"
	// maintenanceRetryAfter is in seconds.
	maintenanceRetryAfter = 120
)

// demandOpen lets a request through unless the API is closed for maintenance.
func (s *server) demandOpen(path string) error {
	closed, err := s.maintenance.get()
	if err != nil {
		return err
	}
	if closed && path != maintenancePath {
		return newProblem("en-mantenimiento", "la API está cerrada por mantenimiento; vuelve a intentarlo dentro de dos minutos").
			withHeader("Retry-After", strconv.Itoa(maintenanceRetryAfter))
	}
	return nil
}

// putMaintenance closes or opens the API.
func (s *server) putMaintenance(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	doc, err := readJSONBody(w, r)
	if err != nil {
		return err
	}
	value, _ := doc.member("activo")
	on, ok := value.boolean()
	if !ok {
		return invalidData([]flaw{{"tiene que ser true o false", "#/activo"}})
	}
	if err := s.write(r, func(t *tx) error { return t.setMaintenance(on) }); err != nil {
		return fmt.Errorf("set maintenance: %w", err)
	}
	s.maintenance.forget()
	s.log.Info("maintenance", "on", on)
	reply{status: http.StatusNoContent}.send(w, r)
	return nil
}
