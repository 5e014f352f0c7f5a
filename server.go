// server.go owns the role revisor: its one route table and the order of the questions
// that every request is asked (moved, maintenance, v0, route, method, who, may). What
// comes after those belongs to the handlers. It must not know SQL, nor how a key is
// decided.

package main

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"
)

const (
	// checksPerWindow is how many revisions and, apart, how many live checks one
	// credential may ask for in a rateWindow.
	checksPerWindow = 3
	rateWindow      = 60 * time.Second
	// sharedAge is how old that may be which another process may change, the credentials
	// and the maintenance switch: a running server obeys within a second.
	sharedAge = 500 * time.Millisecond
)

// serverConfig is what the role revisor depends on.
type serverConfig struct {
	store        *store
	engine       *engine
	checker      *checker
	queue        *revisionQueue
	destinations *destinations
	now          func() time.Time
	log          *slog.Logger
	practice     []credential  // the demo's; none elsewhere
	saveDelay    time.Duration // pretended work of a registration
	broken       defects       // deliberate; none as a rule
}

// server is the role revisor.
type server struct {
	serverConfig
	router        *httprouter.Router
	credentials   *fresh[map[[32]byte]credential]
	maintenance   *fresh[bool]
	revisionLimit *limiter
	healthLimit   *limiter
	keyed         []string // the routes that honour Idempotency-Key, as they are published
}

// route is one method of one resource.
type route struct {
	method, path string
	role         role
	handle       handler
	keyed        bool // honours Idempotency-Key
}

// routes is the whole API. HEAD follows GET, and OPTIONS is answered for all.
func (s *server) routes() []route {
	return []route{
		{"GET", "/servicios", roleReader, s.getServices, false},
		{"POST", "/servicios", roleWriter, s.postService, true},
		{"GET", "/servicios/:id", roleReader, s.getService, false},
		{"PUT", "/servicios/:id", roleWriter, s.putService, false},
		{"DELETE", "/servicios/:id", roleWriter, s.deleteService, false},
		{"POST", "/servicios/:id/revisiones", roleWriter, s.postRevision, true},
		{"GET", "/servicios/:id/salud", roleReader, s.getHealth, false},
		{"GET", "/servicios/:id/informe", roleReader, s.getReport, false},
		{"GET", "/revisiones/:id", roleReader, s.getRevision, false},
		{"PUT", maintenancePath, roleAdmin, s.putMaintenance, false},
		{"GET", "/v1/servicios", roleReader, s.getServicesV1, false},
		{"GET", "/v1/servicios/:id", roleReader, s.getServiceV1, false},
		{"GET", "/operaciones/*key", roleReader, s.engine.getOperation, false},
		{"GET", "/idempotencia", roleAnyone, s.getPolicy, false},
	}
}

// newServer returns the handler of the role revisor.
func newServer(cfg serverConfig) http.Handler {
	s := &server{
		serverConfig:  cfg,
		router:        newRouter(),
		revisionLimit: newLimiter(checksPerWindow, rateWindow, cfg.now),
		healthLimit:   newLimiter(checksPerWindow, rateWindow, cfg.now),
	}
	s.credentials = newFresh(sharedAge, cfg.now, func() (map[[32]byte]credential, error) {
		stored, err := s.store.credentials()
		return byTokenHash(slices.Concat(stored, s.practice)), err
	})
	s.maintenance = newFresh(sharedAge, cfg.now, s.store.maintenance)
	s.register(s.routes())
	return &edge{role: "revisor", log: cfg.log, handle: s.ask, render: renderProblem(cfg.log, cfg.broken)}
}

// resource is what one path pattern answers, by method.
type resource struct {
	methods map[string]route
	allow   string
}

// matched carries the resource that a path belongs to out of the router.
type matched struct {
	http.ResponseWriter
	resource *resource
}

// register fills the router. It only matches paths: each pattern is entered once.
func (s *server) register(routes []route) {
	resources := map[string]*resource{}
	for _, rt := range routes {
		res, ok := resources[rt.path]
		if !ok {
			res = &resource{methods: map[string]route{}}
			resources[rt.path] = res
			s.router.GET(rt.path, func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) {
				w.(*matched).resource = res
			})
		}
		allowed := []string{rt.method}
		res.methods[rt.method] = rt
		if rt.keyed {
			s.keyed = append(s.keyed, rt.method+" "+strings.ReplaceAll(rt.path, ":id", "{id}"))
		}
		if rt.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
			res.methods[http.MethodHead] = rt
		}
		res.allow = strings.TrimPrefix(res.allow+", "+strings.Join(allowed, ", "), ", ")
	}
	for _, res := range resources {
		res.allow += ", " + http.MethodOptions
	}
}

// ask puts the questions in their order; each stops at its first no.
func (s *server) ask(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.EscapedPath()
	if rep, ok := moved(path, r.URL.RawQuery); ok {
		rep.send(w, r)
		return nil
	}
	if err := s.demandOpen(path); err != nil {
		return err
	}
	if path == "/v0" || strings.HasPrefix(path, "/v0/") {
		return newProblem("version-retirada", "la versión 0 ya no existe; usa /servicios")
	}
	res, ps, err := s.find(path)
	if err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		reply{status: http.StatusNoContent}.with("Allow", res.allow).send(w, r)
		return nil
	}
	rt, ok := res.methods[r.Method]
	if !ok {
		return blankProblem(http.StatusMethodNotAllowed, "esta ruta no admite ese método; admite %s", res.allow).
			withHeader("Allow", res.allow)
	}
	if rt.role != roleAnyone {
		if r, err = s.admit(r, rt.role); err != nil {
			return err
		}
	}
	return rt.handle(w, r, ps)
}

// moved answers the old addresses: 301 for the first move, 308 for the second.
func moved(path, query string) (reply, bool) {
	for _, move := range []struct {
		prefix string
		status int
	}{{"/viejo", http.StatusMovedPermanently}, {"/api", http.StatusPermanentRedirect}} {
		target, ok := strings.CutPrefix(path, move.prefix)
		if !ok || target != "/servicios" && !strings.HasPrefix(target, "/servicios/") {
			continue
		}
		if query != "" {
			target += "?" + query
		}
		return reply{status: move.status}.with("Location", target), true
	}
	return reply{}, false
}

// find looks the path up. Routes are matched as they were written, so that an
// encoded slash is no separator; an id is decimal digits only.
func (s *server) find(path string) (*resource, httprouter.Params, error) {
	unknown := blankProblem(http.StatusNotFound, "aquí no hay nada con esa ruta")
	if !strings.HasPrefix(path, "/") {
		return nil, nil, unknown
	}
	mark, ps, _ := s.router.Lookup(http.MethodGet, path)
	if mark == nil || ps.ByName("key") == "/" {
		return nil, nil, unknown
	}
	for _, p := range ps {
		// The router lets an empty id through, in "/servicios//salud".
		if p.Key == "id" && !isDigits(p.Value) {
			return nil, nil, unknown
		}
	}
	var m matched
	mark(&m, nil, nil)
	return m.resource, ps, nil
}

// admit asks who the client is and whether it may: 401, then 403.
func (s *server) admit(r *http.Request, needed role) (*http.Request, error) {
	good, err := s.credentials.get()
	if err != nil {
		return nil, err
	}
	token, tried := bearerToken(r.Header.Values("Authorization"))
	c, ok := good[hashToken(token)]
	if !ok {
		return nil, unauthorized(tried)
	}
	if c.role < needed {
		return nil, newProblem("permiso-insuficiente", "esta credencial es de %s y aquí hace falta una de %s", c.role.inSpanish(), needed.inSpanish())
	}
	return withCaller(r, c), nil
}

// idOf is the {id} of the path: digits, read as a number. One too big for a number is
// an id that nothing has.
func idOf(ps httprouter.Params) int64 {
	id, err := strconv.ParseInt(ps.ByName("id"), 10, 64)
	if err != nil {
		return math.MinInt64
	}
	return id
}

// limited counts one request against a limit of the caller's.
func limited(l *limiter, r *http.Request, slug string) error {
	seconds, ok := l.allow(caller(r).id)
	if ok {
		return nil
	}
	return newProblem(slug, "como mucho %d por minuto con cada credencial; la cuenta se reinicia en %d s", checksPerWindow, seconds).
		withHeader("Retry-After", strconv.Itoa(seconds))
}

// found turns errNotFound into the problem that says so.
func found(err error, missing *problem) error {
	if errors.Is(err, errNotFound) {
		return missing
	}
	return err
}

// write runs a write on a context that outlives the client.
func (s *server) write(r *http.Request, do func(*tx) error) error {
	ctx, cancel := workContext(r.Context())
	defer cancel()
	return s.store.write(ctx, do)
}
