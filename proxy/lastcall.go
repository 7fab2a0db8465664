package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// burial is how a run that was being stopped ends whose owner died: the call is
// sent again where there is a way to, and what came of the first one is not
// known. Nil where there is none. The deadline counts from the Stop.
func (e *Engine) burial(ctx context.Context, rec *runregistry.Record, limit time.Duration) *runregistry.Settlement {
	h, way, ok := e.routes.of(rec)
	if !ok {
		return nil
	}
	at := bearingsOf(rec)
	call, err := at.cancel(&h.cfg.Cancel)
	if err != nil || !way.reaches(call) {
		return nil
	}
	left := max(time.Until(rec.Cancel.RequestedAt.Add(h.cfg.CancelDeadline)), callTimeout)
	ctx, cancel := context.WithTimeout(ctx, min(limit, left))
	defer cancel()
	answer, err := way.persist(ctx, call)
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
