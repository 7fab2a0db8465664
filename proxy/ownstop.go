package proxy

import (
	"context"
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// maxStops is how many runs one call may name. A call for more passes untouched.
const maxStops = 100

// serveOwnStop serves a client's own cancel call to the backend. It is a Stop of
// each active run of ours that it names, answered in the backend's form. If it
// names others, too, the backend gets it as it is once ours are stopped; if it
// names none of ours, at once.
func (h *Handler) serveOwnStop(w http.ResponseWriter, r *http.Request, next Next, stop dialect.Stop, body []byte) error {
	caller, err := h.identify(r)
	var runs []*runregistry.Record
	all := false
	if err == nil {
		runs, all = h.stoppable(r, caller, &stop)
	}
	if len(runs) > 0 {
		if err := h.guardWrite(r, caller); err != nil {
			return err
		}
	}
	replies, err := h.stopAll(r, runs, h.lendWhole(r, &stop, body))
	if err != nil {
		return err
	}
	if !all {
		h.withdrawCORS(w.Header())
		return pass(h.passThrough(w, r, next))
	}
	noStore(w.Header())
	w.Header().Set(headerRunID, string(runs[0].ID))
	writeStopped(w, &stop, runs, replies)
	return nil
}

// serveStopAt is serveOwnStop for a call that is known by its address. What it
// names may stand in its body.
func (h *Handler) serveStopAt(w http.ResponseWriter, r *http.Request, next Next, stop dialect.Stop) error {
	if !stop.InBody {
		return h.serveOwnStop(w, r, next, stop, nil)
	}
	body, whole, err := readBody(r, h.cfg.Limits.RequestBody)
	if err != nil {
		return &Problem{Code: codeMalformedRequest, Detail: "The request body ended early.", Err: err}
	}
	if whole {
		untouched(r, body)
		if read, ok := stop.Read(body); ok {
			return h.serveOwnStop(w, r, next, read, body)
		}
	}
	h.withdrawCORS(w.Header())
	return pass(h.passThrough(w, r, next))
}

// serveControl serves a request whose body is that of a control call: one that
// stops a run of ours is carried out, and everything else passes untouched.
func (h *Handler) serveControl(w http.ResponseWriter, r *http.Request, next Next, body []byte) error {
	untouched(r, body)
	if stop, ok := dialect.StopIn(r.URL.EscapedPath(), body); ok && r.Method == http.MethodPost {
		return h.serveOwnStop(w, withNext(r, next), next, stop, body)
	}
	h.withdrawCORS(w.Header())
	return pass(h.passThrough(w, r, next))
}

// stoppable are the active runs that a cancel call names, as far as the caller
// may stop them. all tells that it names no others.
func (h *Handler) stoppable(r *http.Request, caller authz.Caller, stop *dialect.Stop) (runs []*runregistry.Record, all bool) {
	if len(stop.UpstreamIDs) > maxStops {
		return nil, false
	}
	scope, store := h.scopeOf(h.subjectOf(r, caller)), h.deps.Engine.store
	all = true
	take := func(rec *runregistry.Record, err error) {
		if err == nil && rec.State.Active() && (!stop.InBody || rec.Dialect == "" || rec.Dialect == stop.Dialect.Name) {
			if rec, err = h.grant(r, caller, authz.Write, rec.ID, rec, nil); err == nil {
				runs = append(runs, rec)
				return
			}
		}
		all = false
	}
	switch c, malformed := runregistry.ParseConversationID(stop.Conversation); {
	case len(stop.UpstreamIDs) > 0:
		for _, id := range stop.UpstreamIDs {
			take(store.ByUpstream(r.Context(), scope, id))
		}
	case stop.Conversation == "":
		take(h.meant(r, caller, stop))
	case malformed == nil:
		take(store.Current(r.Context(), scope, c))
	default:
		all = false
	}
	return runs, all && len(runs) > 0
}

// meant is the caller's one active run whose start a cancel call names. Where
// several callers are one, their requests may have one number: then it is not
// known which is meant, and none is stopped.
func (h *Handler) meant(r *http.Request, caller authz.Caller, stop *dialect.Stop) (found *runregistry.Record, err error) {
	q := runregistry.ListQuery{Subject: h.subjectOf(r, caller), Limit: maxStops}
	session := dialect.SessionOf(r.Header)
	for _, q.State = range []runregistry.State{runregistry.Running, runregistry.Waiting, runregistry.Cancelling} {
		list, err := h.deps.Engine.store.List(r.Context(), q)
		if err != nil {
			return nil, err
		}
		for _, rec := range list.Records {
			if b := bearingsOf(rec); !stop.Means(&b.origin, session) {
				continue
			}
			if found != nil {
				return nil, runregistry.ErrNoRun
			}
			found = rec
		}
	}
	if found == nil {
		return nil, runregistry.ErrNoRun
	}
	return found, nil
}

// stopAll stops runs and waits for what comes of it. In the places of runs are
// then their records, and the replies are what the backend said to each call.
func (h *Handler) stopAll(r *http.Request, runs []*runregistry.Record, by lender) (replies []*reply, err error) {
	engine := h.deps.Engine
	pumps := make([]*pump, len(runs))
	for i, rec := range runs {
		pumps[i] = engine.local(rec.ID)
		span := h.startStopSpan(r, rec.ID)
		runs[i], err = engine.stop(r.Context(), rec.ID, by)
		span.endStop(runs[i], err)
		if err != nil {
			return nil, err
		}
	}
	for i, p := range pumps {
		if runs[i], err = h.awaitStop(r, p, runs[i]); err != nil {
			return nil, err
		}
		h.deps.Metrics.stopped(runs[i])
		replies = append(replies, p.reply())
	}
	return replies, nil
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

// writeStopped writes the backend's own answer to a call that the gateway made
// as the client did, and any refusal: it is the backend's resource that was
// called. Where it was not asked so it is what a backend says that takes the
// call.
func writeStopped(w http.ResponseWriter, stop *dialect.Stop, runs []*runregistry.Record, replies []*reply) {
	stopped := make([]dialect.Stopped, len(runs))
	for i, rec := range runs {
		stopped[i] = dialect.Stopped{
			Dialect: rec.Dialect, UpstreamID: rec.UpstreamID, Conversation: string(rec.Conversation), Over: rec.State.Terminal(),
		}
		answer := replies[i]
		if answer != nil && (len(runs) == 1 && stop.Own(rec.Dialect) || !answer.accepted()) {
			if kind := answer.header.Get("Content-Type"); kind != "" {
				w.Header().Set("Content-Type", kind)
			}
			w.WriteHeader(answer.status)
			w.Write(stop.Answer(answer.body)) //nolint:gosec // the backend's own answer to such a call
			return
		}
	}
	status, body := stop.Taken(stopped)
	if len(body) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	w.Write(body) //nolint:gosec // JSON, and said to be
}
