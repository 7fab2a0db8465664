package proxy

import (
	"context"
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// serveOwnStop serves a client's own cancel call to the backend. If it names an
// active run of ours it is a Stop, answered in the backend's form; any other
// passes untouched.
func (h *Handler) serveOwnStop(w http.ResponseWriter, r *http.Request, next Next, stop dialect.Stop) error {
	caller, rec := h.stoppable(r, stop)
	if rec == nil {
		h.withdrawCORS(w.Header())
		return pass(h.passThrough(w, r, next))
	}
	if err := h.guardWrite(r, caller); err != nil {
		return err
	}
	engine := h.deps.Engine
	p := engine.local(rec.ID)
	span := h.startStopSpan(r, rec.ID)
	rec, err := engine.stop(r.Context(), rec.ID, h.lendWhole(r))
	if err == nil {
		rec, err = h.awaitStop(r, p, rec)
	}
	span.endStop(rec, err)
	if err != nil {
		return err
	}
	h.deps.Metrics.stopped(rec)
	noStore(w.Header())
	w.Header().Set(headerRunID, string(rec.ID))
	p.reply().writeOr(w, r, rec)
	return nil
}

// stoppable is the active run that a cancel call names, if the caller may stop
// it.
func (h *Handler) stoppable(r *http.Request, stop dialect.Stop) (authz.Caller, *runregistry.Record) {
	caller, err := h.identify(r)
	if err != nil {
		return caller, nil
	}
	scope := h.scopeOf(h.subjectOf(r, caller))
	var rec *runregistry.Record
	if stop.UpstreamID != "" {
		rec, err = h.deps.Engine.store.ByUpstream(r.Context(), scope, stop.UpstreamID)
	} else if c, malformed := runregistry.ParseConversationID(stop.Conversation); malformed == nil {
		rec, err = h.deps.Engine.store.Current(r.Context(), scope, c)
	}
	if err != nil || rec == nil || !rec.State.Active() {
		return caller, nil
	}
	rec, err = h.grant(r, caller, authz.Write, rec.ID, rec, nil)
	if err != nil {
		return caller, nil
	}
	return caller, rec
}

// awaitStop waits for the backend's answer to the call, or for the end of the
// run, as long as a Stop waits; for a caller that asks the backend to wait, for
// the end and longer.
func (h *Handler) awaitStop(r *http.Request, p *pump, rec *runregistry.Record) (*runregistry.Record, error) {
	wait, whole := waitOf(r), false
	if text := r.URL.Query().Get("wait"); text == "1" || text == "true" {
		wait, whole = maxWait, true
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if answered := p.answered(); answered != nil && !whole {
		select {
		case <-answered:
		case <-ctx.Done():
		}
		return h.deps.Engine.store.Load(context.WithoutCancel(ctx), rec.ID)
	}
	return h.deps.Engine.settled(ctx, rec.ID)
}

// answered is closed when the cancel call of the run is answered, or will not
// be; nil when there is none.
func (p *pump) answered() <-chan struct{} {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halt.answered
}

// reply is the backend's answer to a cancel call, or nil.
func (p *pump) reply() *reply {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halt.reply
}

// writeOr writes the backend's own answer, a refusal too: it is the backend's
// resource that was called. Where it was not asked it is what a backend says
// that takes the call.
func (r *reply) writeOr(w http.ResponseWriter, asked *http.Request, rec *runregistry.Record) {
	if r != nil {
		if kind := r.header.Get("Content-Type"); kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(r.status)
		w.Write(r.body)
		return
	}
	status, body := http.StatusAccepted, []byte(nil)
	if d, known := dialect.Lookup(rec.Dialect); known {
		status, body = d.Taken(asked.URL.EscapedPath(), rec.UpstreamID, rec.State.Terminal())
	}
	if len(body) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	w.Write(body) //nolint:gosec // JSON, and said to be
}
