// problem.go owns the problem catalogue (RFC 9457): slug, status, title, whether the
// same request may succeed later; and the one place that turns any error into one
// answer. It must not know what a request means.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// problemBase is what every slug is appended to. The address is a name; nothing is
// served there.
const problemBase = "https://revisor.example/problemas/"

// storeRetryAfter, in seconds, is what a client is told when the store cannot write:
// long enough for a lock or a clean-up, short enough to be worth a retry.
const storeRetryAfter = 5

// blankType is the type of problems that say no more than their status.
const blankType = "about:blank"

// kind is one row of the catalogue.
type kind struct {
	status    int
	title     string
	retryable bool
}

// kinds is the catalogue, by slug.
var kinds = map[string]kind{
	"cuerpo-ilegible":       {400, "Cuerpo ilegible", false},
	"llave-invalida":        {400, "Llave de idempotencia mal escrita", false},
	"credencial-invalida":   {401, "Hace falta una credencial válida", false},
	"permiso-insuficiente":  {403, "Permiso insuficiente", false},
	"servicio-inexistente":  {404, "El servicio no existe", false},
	"revision-inexistente":  {404, "La revisión no existe", false},
	"operacion-inexistente": {404, "No consta ninguna operación con esa llave", false},
	"nombre-repetido":       {409, "El nombre ya está en uso", false},
	"llave-en-curso":        {409, "La petición original sigue en curso", true},
	"servicio-retirado":     {410, "El servicio fue retirado", false},
	"version-retirada":      {410, "La versión fue retirada", false},
	"etiqueta-vencida":      {412, "La etiqueta ya no corresponde", false},
	"destino-prohibido":     {422, "Destino prohibido", false},
	"datos-invalidos":       {422, "Datos inválidos", false},
	"llave-reutilizada":     {422, "Llave usada antes con otra petición", false},
	"falta-condicion":       {428, "Falta una condición", false},
	"demasiadas-revisiones": {429, "Demasiadas revisiones", true},
	"demasiadas-consultas":  {429, "Demasiadas consultas en vivo", true},
	"error-interno":         {500, "Error interno", false},
	"respuesta-invalida":    {502, "El servicio no dio una respuesta válida", true},
	"en-mantenimiento":      {503, "En mantenimiento", true},
	"almacen-no-disponible": {503, "El almacén no está disponible", true},
	"servicio-lento":        {504, "El servicio no respondió a tiempo", true},
}

// extension is one member of a problem beyond those of RFC 9457.
type extension struct {
	name  string
	value any
}

// problem is an error that knows its answer.
type problem struct {
	slug       string // "" for about:blank
	status     int
	detail     string
	extensions []extension
	header     []headerField
	close      bool // the connection ends after this answer, in stages
}

func (p *problem) Error() string {
	if p.slug == "" {
		return fmt.Sprintf("problem %d: %s", p.status, p.detail)
	}
	return fmt.Sprintf("problem %s: %s", p.slug, p.detail)
}

// newProblem returns a problem of the catalogue. An unknown slug is a programming
// error and panics.
func newProblem(slug, format string, args ...any) *problem {
	k, ok := kinds[slug]
	if !ok {
		panic("unknown problem " + slug)
	}
	return &problem{slug: slug, status: k.status, detail: fmt.Sprintf(format, args...)}
}

// blankProblem returns an about:blank problem: its status says it all.
func blankProblem(status int, format string, args ...any) *problem {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

// with adds an extension member.
func (p *problem) with(name string, value any) *problem {
	p.extensions = append(p.extensions, extension{name, value})
	return p
}

// withHeader adds a header field to the answer.
func (p *problem) withHeader(name, value string) *problem {
	p.header = append(p.header, headerField{name, value})
	return p
}

// flaw is one thing wrong with the data, with a JSON Pointer to it (RFC 6901).
type flaw struct {
	Detail  string `json:"detail"`
	Pointer string `json:"pointer"`
}

// invalidData reports all flaws at once.
func invalidData(flaws []flaw) *problem {
	return newProblem("datos-invalidos", "los datos no se pueden aceptar; «errors» dice por qué").with("errors", flaws)
}

// reply renders the problem. instance is the path asked for, without the query.
func (p *problem) reply(instance string) (reply, error) {
	typ, title, retryable := blankType, statusPhrase(p.status), false
	if p.slug != "" {
		k := kinds[p.slug]
		typ, title, retryable = problemBase+p.slug, k.title, k.retryable
	}
	members := []extension{
		{"type", typ}, {"title", title}, {"status", p.status}, {"detail", p.detail}, {"instance", instance},
	}
	members = append(members, p.extensions...)
	members = append(members, extension{"reintentable", retryable})
	body, err := encodeMembers(members)
	if err != nil {
		return reply{}, err
	}
	rep := reply{status: p.status, header: slices.Clone(p.header), body: body}
	return rep.with("Content-Type", "application/problem+json").with("Content-Language", "es"), nil
}

// bareProblem is an about:blank problem with the four members alone, and no language:
// what stands in front of a server says it, and must not be taken for that server.
func bareProblem(status int, detail string) (reply, error) {
	body, err := encodeMembers([]extension{
		{"type", blankType}, {"title", statusPhrase(status)}, {"status", status}, {"detail", detail},
	})
	if err != nil {
		return reply{}, err
	}
	return reply{status: status, body: body}.with("Content-Type", "application/problem+json"), nil
}

// encodeMembers writes a JSON object with its members in the given order.
func encodeMembers(members []extension) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			buf.WriteByte(',')
		}
		value, err := encodeJSON(m.value)
		if err != nil {
			return nil, err
		}
		buf.WriteString(strconv.Quote(m.name))
		buf.WriteByte(':')
		buf.Write(bytes.TrimSuffix(value, []byte("\n")))
	}
	buf.WriteString("}\n")
	return buf.Bytes(), nil
}

// asProblem finds the problem in any error. What nobody foresaw becomes
// error-interno: its cause goes to the log under a reference, and nothing of it to
// the client.
func asProblem(err error, log *slog.Logger) (p *problem, instance string) {
	if errors.As(err, &p) {
		return p, ""
	}
	var commit *commitError
	switch {
	case errors.As(err, &commit) && commit.open:
		// Not known, and said so: no 503 that would claim that nothing was written.
	case errors.Is(err, errBodyTooLarge):
		p = blankProblem(http.StatusRequestEntityTooLarge, "el cuerpo pasa del máximo de %d bytes", maxBody)
		p.close = true
		return p, ""
	case errors.Is(err, errBodyCut):
		p = newProblem("cuerpo-ilegible", "el cuerpo no llegó entero")
		p.close = true
		return p, ""
	case errors.Is(err, errStoreUnavailable):
		log.Warn("store unavailable", "error", err)
		return newProblem("almacen-no-disponible", "el almacén no puede escribir ahora; no se guardó nada").
			withHeader("Retry-After", strconv.Itoa(storeRetryAfter)), ""
	}
	reference := "urn:uuid:" + uuid.NewString()
	logFailure(log, "internal error", err, "reference", reference)
	return newProblem("error-interno", "algo falló aquí dentro; la referencia permite encontrarlo en el registro"), reference
}

// renderProblem answers an error. With the defect abrupt-413 the last answer of a
// connection does not wait for the client.
func renderProblem(log *slog.Logger, broken defects) func(w http.ResponseWriter, r *http.Request, err error) {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		p, instance := asProblem(err, log)
		if instance == "" {
			instance = r.URL.EscapedPath()
		}
		rep, err := p.reply(instance)
		if err != nil { // only values of ours are encoded
			panic(err)
		}
		switch {
		case p.close && broken[abrupt413]:
			rep.sendAbruptly(w, r)
		case p.close:
			rep.sendLast(w, r)
		default:
			rep.send(w, r)
		}
	}
}
