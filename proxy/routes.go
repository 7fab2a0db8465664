package proxy

import (
	"net/http"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// routes are the ways to the backends that requests of this process went: they
// carry calls about runs that began in another process.
type routes struct {
	mu    sync.Mutex
	known map[*Handler]map[string]*ground // by realm; nil as long as no request came
}

// register makes a handler known; forget ends that.
func (t *routes) register(h *Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = make(map[*Handler]map[string]*ground)
	}
	t.known[h] = make(map[string]*ground)
}

func (t *routes) forget(h *Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, h)
}

// note keeps the way that a request goes, unless one of its realm is known.
func (t *routes) note(h *Handler, r *http.Request, next Next) {
	realm := h.realmOf(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if grounds, ok := t.known[h]; ok && grounds[realm] == nil && len(grounds) < maxRealms {
		grounds[realm] = h.groundOf(r, next)
	}
}

// noteWay keeps the way of a request for runs that other instances began.
func (h *Handler) noteWay(r *http.Request, next Next) {
	if e := h.deps.Engine; e.keeper != nil {
		e.routes.note(h, r, next)
	}
}

// maxRealms bounds the ways that are kept of a handler whose realm is the host
// that a client names.
const maxRealms = 64

// of returns the handler and the way for a run. There may be no way but to an
// absolute URL; ok is false when no handler is surely the run's: a call must not
// take the credentials of one backend to another.
func (t *routes) of(rec *runregistry.Record) (h *Handler, g *ground, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	realm := rec.Subject.Realm
	var likely, possible []*Handler
	for h, grounds := range t.known {
		switch {
		case !h.has(rec.Route), h.cfg.Realm != "" && h.cfg.Realm != realm:
		case h.cfg.Realm == realm, grounds[realm] != nil:
			likely = append(likely, h)
		default:
			possible = append(possible, h)
		}
	}
	if len(likely) == 0 {
		likely = possible
	}
	if len(likely) != 1 {
		return nil, nil, false
	}
	h = likely[0]
	if g = t.known[h][realm]; g == nil {
		g = &ground{host: h.deps.Host, header: http.Header{}}
	}
	return h, g, true
}

// has reports whether runs of the handler may carry the name of a route.
func (h *Handler) has(route string) bool {
	if h.cfg.Name != "" {
		return route == h.cfg.Name
	}
	for _, p := range h.cfg.Starts {
		if route == p.route() {
			return true
		}
	}
	return route == defaultRoute
}

// groundOf makes the way of a request one for calls about runs of others.
func (h *Handler) groundOf(r *http.Request, next Next) *ground {
	return &ground{next: next, request: h.deps.Host.Impersonal(r), header: http.Header{}, host: h.deps.Host}
}

// reaches reports whether a call can go this way.
func (g *ground) reaches(e *errand) bool { return g.next != nil || e.direct() }
