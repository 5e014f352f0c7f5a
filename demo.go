// demo.go owns what --demo adds: the practice services, and what it tells the person
// who started it. It must not know routes or SQL.

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// demoSaveDelay makes "in flight" visible, demoQueueDelay "pending".
	demoSaveDelay  = 500 * time.Millisecond
	demoQueueDelay = 1 * time.Second
)

// practiceService is one of the services that an empty demo starts with.
type practiceService struct {
	team, name, path string
	limitMS          int64
}

// practiceServices are registered in this order, and so have the ids from 1 on.
var practiceServices = []practiceService{
	{"a", "catalogo", "/codigo/200", defaultLimitMS},
	{"a", "pagos", "/codigo/503", defaultLimitMS},
	{"b", "nomina", "/codigo/200", defaultLimitMS},
	{"a", "inventario", "/lento/1500", defaultLimitMS},
	{"a", "reportes", "/lento/3000", 1000},
	{"a", "facturacion", "/basura", defaultLimitMS},
}

// seedDemo registers the practice services, at the lab's address, in a database that
// never had any. All of them or none.
func seedDemo(ctx context.Context, s *store, lab string, now time.Time) error {
	err := s.write(ctx, func(t *tx) error {
		used, err := t.hasServices()
		if used || err != nil {
			return err
		}
		for _, p := range practiceServices {
			if _, _, err := t.insertService(p.team, p.name, "http://"+lab+p.path, p.limitMS, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("servicios de práctica: %w", err)
	}
	return nil
}

// tellDemo says what runs where, and three commands to paste.
func tellDemo(out io.Writer, listeners map[string]net.Listener) {
	revisor, lab, gateway := addressOf(listeners, "revisor"), addressOf(listeners, "lab"), addressOf(listeners, "gateway")
	fmt.Fprintf(out, `Demostración en marcha (Ctrl-C la detiene):

  revisor   http://%s   la API: credenciales lectura-a, escritura-a, escritura-b, admin
  lab       http://%s   el banco de pruebas: curl http://%[2]s/ayuda
  pasarela  http://%s   pierde respuestas si se lo piden con X-Simular: perder-primera

Para probar, en otra terminal:

  curl -i -H 'Authorization: Bearer lectura-a' http://%[1]s/servicios
  curl -i -X POST http://%[3]s/servicios -H 'Authorization: Bearer escritura-a' -H 'Content-Type: application/json' -H 'Idempotency-Key: intento-1' -H 'X-Simular: perder-primera' -d '{"nombre":"avisos","url":"http://%[2]s/codigo/200"}'
  curl -i -H 'Authorization: Bearer escritura-a' http://%[1]s/operaciones/intento-1

`, revisor, lab, gateway)
}
