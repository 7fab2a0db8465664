package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// routes are the ways to the backends that runs of this process have taken, by
// realm and route: for calls about runs that another process has left behind.
// They hold nothing of the callers.
type routes struct {
	mu  sync.Mutex // guards all
	all map[string]route
}

type route struct {
	ground *ground
	cfg    *Config
}

// maxRoutes bounds the ways that are remembered: a realm may be a host name that
// a stranger chose.
const maxRoutes = 1000

func routeName(realm, name string) string { return realm + "\x00" + name }

// took remembers the way of a run.
func (s *routes) took(rec *runregistry.Record, g *ground, cfg *Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := routeName(rec.Subject.Realm, rec.Route)
	if _, known := s.all[name]; !known && len(s.all) >= maxRoutes {
		return
	}
	if s.all == nil {
		s.all = make(map[string]route)
	}
	s.all[name] = route{g.bare(), cfg}
}

// of returns the way that earlier runs on the route of a run took.
func (s *routes) of(rec *runregistry.Record) (route, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.all[routeName(rec.Subject.Realm, rec.Route)]
	return r, ok
}

// burial is how a run that was being stopped ends whose owner died: the call is
// sent again where there is a way to, and what came of the first one is not
// known. Nil where there is none. The deadline counts from the Stop.
func (e *Engine) burial(ctx context.Context, rec *runregistry.Record, limit time.Duration) *runregistry.Settlement {
	way, ok := e.routes.of(rec)
	if !ok {
		return nil
	}
	at := bearingsOf(rec)
	call, err := at.cancel(&way.cfg.Cancel)
	if err != nil {
		return nil
	}
	left := max(time.Until(rec.Cancel.RequestedAt.Add(way.cfg.CancelDeadline)), callTimeout)
	ctx, cancel := context.WithTimeout(ctx, min(limit, left))
	defer cancel()
	answer, err := way.ground.persist(ctx, call)
	return &runregistry.Settlement{State: runregistry.Cancelled, Upstream: confirmationOf(call, answer, err)}
}

// lastCall sends the cancel call for a run whose outcome is not known, once. It
// changes nothing about the run, which has ended here, and nobody waits for it.
func (h *Handler) lastCall(r *http.Request, rec *runregistry.Record) {
	if rec.State != runregistry.Uncertain {
		return
	}
	engine := h.deps.Engine
	at, base := h.whereabouts(r, rec)
	call, err := at.cancel(&h.cfg.Cancel)
	if err != nil || !engine.lastCalls.add(string(rec.ID)) {
		return
	}
	g := h.lend(r)(base)
	engine.later(h.cfg.CancelDeadline, func(ctx context.Context) {
		answer, err := g.persist(ctx, call)
		engine.log.Info("cancel call sent for a run of unknown outcome", logRun(rec.ID), slog.Int("status", answer.code()), logError(err))
	})
}
