// labroutes.go owns what there is to ask the bench for: one table that finds a route, and
// tells it in GET /ayuda. It must not know how any answer is made.

package main

import (
	"fmt"
	"net/http"
	"strings"
)

// labCountersPath is the one route that is asked about the others, and not counted.
const labCountersPath = "/contadores"

// labRoute is one row of the table. A segment of the pattern in capitals stands for an
// argument, and so does what follows a question mark, which only tells.
type labRoute struct {
	methods string // as they are told; "*" for any
	pattern string
	what    string
	handle  labHandler
}

// labHandler answers a route's request. args are the path's arguments, as they were
// written. Its error is a labRefusal, or the bench's own failure.
type labHandler func(w http.ResponseWriter, r *http.Request, args []string) error

// routeTable is everything the bench does, in the order in which it is told.
func (l *lab) routeTable() []labRoute {
	return []labRoute{
		{"GET", "/codigo/NNN", "responde con el código NNN, de 200 a 999 (y HEAD); con ?retry-after=2, o una fecha HTTP, envía además ese Retry-After", labStatus},
		{"*", "/lento/MS", "responde 200 después de MS milisegundos (de 1 a 5 cifras), con cualquier método", l.slow},
		{"*", "/cortar", "cierra la conexión sin enviar un solo byte", cutAtOnce},
		{"*", "/basura", "envía algo que no es HTTP", sendGarbage},

		{"GET", "/espera/FORMA", "responde 503 (o 429, con ?codigo=429) con un Retry-After de esa forma, para N segundos (?segundos=N, de 0 a 86400, si no 2)", l.wait},
		{"*", "/secuencia/LISTA?k=NOMBRE", "una respuesta por petición y nombre, como 503:2,201 (una lista de hasta 1000 bytes, un nombre de hasta 200); la última se repite; mudo no responde; se recuerdan 1024 nombres", l.sequence},
		{"DELETE", "/secuencia/LISTA?k=NOMBRE", "ese nombre vuelve a empezar", l.sequence},
		{"GET", "/bucle/FORMA", "redirige sin llegar a ninguna parte (302, o ?codigo=301, 303, 307, 308)", labLoop},
		{"GET", "/bucle/cadena/N", "redirige N veces (hasta 99999) y después responde 200", labChain},

		{"GET", "/corte/fin/DONDE", "corta la respuesta con FIN", l.raw(cutPlaces, (*rawConnection).finish)},
		{"GET", "/corte/rst/DONDE", "corta la respuesta con RST, que se lleva lo que aún no había llegado", l.raw(cutPlaces, (*rawConnection).reset)},
		{"GET", "/longitud/FORMA", "envía un Content-Length que no es verdad", l.raw(lengthForms, (*rawConnection).finish)},
		{"GET", "/trozos/FORMA", "envía un cuerpo en trozos (chunked) mal hechos", l.raw(chunkForms, (*rawConnection).finish)},
		{"GET", "/sin-fin/FORMA", "envía y envía, hasta el límite de bytes del banco, y entonces corta", l.raw(endlessForms, (*rawConnection).finish)},

		{"GET", "/cuerpo/BYTES", "responde 200 con un cuerpo de ese tamaño", l.large},
		{"GET", "/goteo/BYTES/MS", "responde 200 y envía el cuerpo a gotas: un byte cada MS milisegundos", l.drip},
		{"GET", "/goteo/cabeceras/BYTES/MS", "lo mismo con una cabecera, antes de que la respuesta llegue a ser una", l.dripHeader},

		{"GET", labCountersPath, "dice en JSON cuántas peticiones recibió cada ruta (y HEAD); las suyas no cuentan, y después de 4096 rutas las nuevas se cuentan juntas, como (otras)", nil},
		{"DELETE", labCountersPath, "pone los contadores a cero", nil},
		{"GET", "/ayuda", "esta lista (y HEAD)", l.help},
	}
}

// findLabRoute finds the row of a path, as it was written, and its arguments, as they
// were written. It is nil when there is none.
func findLabRoute(routes []labRoute, path string) (*labRoute, []string) {
	segments := strings.Split(path, "/")
	for i, route := range routes {
		if args, ok := matchPattern(route.pattern, segments); ok && route.handle != nil {
			return &routes[i], args
		}
	}
	return nil, nil
}

// matchPattern compares segment by segment.
func matchPattern(pattern string, segments []string) (args []string, ok bool) {
	pattern, _, _ = strings.Cut(pattern, "?")
	wanted := strings.Split(pattern, "/")
	if len(wanted) != len(segments) {
		return nil, false
	}
	for i, want := range wanted {
		switch {
		case want != "" && strings.ToUpper(want) == want:
			args = append(args, segments[i])
		case want != segments[i]:
			return nil, false
		}
	}
	return args, true
}

// labGuide is what GET /ayuda says: the routes, then the forms that some of them take.
func labGuide(routes []labRoute) string {
	var text strings.Builder
	text.WriteString("El banco de pruebas: se porta mal cuando se le pide.\n\n")
	for _, route := range routes {
		fmt.Fprintf(&text, "%-6s %-26s %s\n", route.methods, route.pattern, route.what)
	}
	text.WriteString("\nDonde pone GET vale HEAD.\n")
	text.WriteString("\nFORMA de /espera, las que valen:\n")
	for _, valid := range []bool{true, false} {
		for _, form := range retryForms {
			if form.valid == valid {
				tellForm(&text, form.name, form.what)
			}
		}
		if valid {
			text.WriteString("y las que no valen, y se leen como si no hubiera Retry-After:\n")
		}
	}
	text.WriteString("\nFORMA de /bucle:\n")
	for _, form := range loopForms {
		tellForm(&text, form.name, form.what)
	}
	for _, family := range []struct {
		title string
		forms []rawForm
	}{
		{"DONDE de /corte (con ?bytes=N, los que llegan del cuerpo, si no 10)", cutPlaces},
		{"FORMA de /longitud", lengthForms},
		{"FORMA de /trozos", chunkForms},
		{"FORMA de /sin-fin", endlessForms},
	} {
		fmt.Fprintf(&text, "\n%s:\n", family.title)
		for _, form := range family.forms {
			tellForm(&text, form.name, form.what)
		}
	}
	return text.String()
}

func tellForm(text *strings.Builder, name, what string) {
	fmt.Fprintf(text, "  %-16s %s\n", name, what)
}

// help answers GET /ayuda.
func (l *lab) help(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := labOnlyReads(r); err != nil {
		return err
	}
	labPlain(http.StatusOK, l.guide).send(w, r)
	return nil
}
