package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// searchedRuns and searchedPages bound the search for the run of a position
// that alone says which one is meant.
const (
	searchedRuns  = 20
	searchedPages = 32
)

// locateTimeout bounds what a stream that is none of ours may wait for a store
// that is away.
const locateTimeout = 2 * time.Second

// serveOwnJoin serves a client's own call to the backend for the rest of a
// stream. If it names a frame of a retained run of the caller it is answered
// from the log, whether or not the backend could; any other passes untouched.
func (h *Handler) serveOwnJoin(w http.ResponseWriter, r *http.Request, next Next, call dialect.Rejoin) error {
	caller, err := h.identify(r)
	if err != nil {
		caller = authz.Caller{}
	}
	rec, after, err := h.named(r, caller, call)
	if err != nil {
		h.withdrawCORS(w.Header())
		return pass(h.passThrough(w, r, next))
	}
	return h.resume(w, r, rec, resumption{
		choose: h.viewOwn, standing: h.standing(r, caller, h.identifier(r)), after: after,
		links: h.linksFor(r), dialectShaped: true, always: true,
	})
}

// holds reports whether a call for the rest of a stream names a run of the
// caller that is held here.
func (h *Handler) holds(r *http.Request, call dialect.Rejoin) bool {
	caller, err := h.identify(r)
	if err != nil || !caller.Known {
		return false
	}
	rec, err := h.deps.Engine.store.ByUpstream(r.Context(), h.scopeOf(h.subjectOf(r, caller)), call.UpstreamID)
	return err == nil && rec.Dialect == call.Dialect.Name
}

// servePostedJoin is serveOwnJoin for a call whose body has the position.
func (h *Handler) servePostedJoin(w http.ResponseWriter, r *http.Request, next Next, call dialect.Rejoin) error {
	body, whole, err := readBody(r, h.cfg.Limits.RequestBody)
	if err != nil {
		return &Problem{Code: codeMalformedRequest, Detail: "The request body ended early.", Err: err}
	}
	if !whole {
		h.withdrawCORS(w.Header())
		return pass(h.passThrough(w, r, next))
	}
	untouched(r, body)
	return h.serveOwnJoin(w, r, next, call.Read(body))
}

// serveLocated serves a client that goes on at an address which the backend gave
// it in Location, as clients of LangGraph do before they have seen a frame. If
// it is that of a retained run of the caller, the run is replayed from its
// beginning; any other request is not ours.
func (h *Handler) serveLocated(w http.ResponseWriter, r *http.Request) (served bool, err error) {
	if !h.cfg.ResumeAuto || r.Method != http.MethodGet || !dialect.WantsStream(r.Header) {
		return false, nil
	}
	caller, err := h.identify(r)
	if err != nil || !caller.Known {
		return false, nil //nolint:nilerr // the backend's to answer
	}
	ctx, cancel := context.WithTimeout(r.Context(), locateTimeout)
	list, err := h.deps.Engine.store.List(ctx, runregistry.ListQuery{Subject: h.subjectOf(r, caller), Limit: searchedRuns})
	cancel()
	if err != nil {
		return false, nil //nolint:nilerr // likewise
	}
	for _, rec := range list.Records {
		if rec.Response == nil || !dialect.Joins(rec.Dialect) || http.Header(rec.Response.Header).Get("Location") != r.URL.RequestURI() {
			continue
		}
		rec, err := h.grant(r, caller, authz.Read, rec.ID, rec, nil)
		if err != nil || rec.FirstSeq > 1 {
			return false, nil //nolint:nilerr // likewise
		}
		h.crossOrigin(w, r)
		return true, h.resume(w, r, rec, resumption{
			choose: h.viewOwn, standing: h.standing(r, caller, h.identifier(r)), links: h.linksFor(r), dialectShaped: true, always: true,
		})
	}
	return false, nil
}

// errNotNamed means that a call names no frame that is held here.
var errNotNamed = errors.New("call names no stored frame")

// named is the run that a call names, and its number for the frame.
func (h *Handler) named(r *http.Request, caller authz.Caller, call dialect.Rejoin) (*runregistry.Record, runregistry.Seq, error) {
	if !caller.Known {
		return nil, 0, errNotNamed
	}
	var found []*runregistry.Record
	budget := searchedPages
	if call.UpstreamID == "" {
		list, err := h.deps.Engine.store.List(r.Context(), runregistry.ListQuery{Subject: h.subjectOf(r, caller), Limit: searchedRuns})
		if err != nil {
			return nil, 0, err
		}
		found = list.Records
	} else {
		rec, err := h.deps.Engine.store.ByUpstream(r.Context(), h.scopeOf(h.subjectOf(r, caller)), call.UpstreamID)
		if err != nil {
			return nil, 0, err
		}
		found, budget = append(found, rec), int(rec.LastSeq)+1 // as much as a replay reads
	}
	for _, rec := range found {
		if rec.Dialect != call.Dialect.Name || rec.Format != runregistry.FormatSSE {
			continue
		}
		if seq, ok := h.place(r, rec, call, &budget); ok {
			if rec.State.Terminal() && !rec.Ending && seq == rec.LastSeq {
				break // the stream ended early: only the backend may know the rest
			}
			rec, err := h.grant(r, caller, authz.Read, rec.ID, rec, nil)
			return rec, seq, err
		}
	}
	return nil, 0, errNotNamed
}

// place finds the number of the frame that upstream's position names, while
// the frames after it are stored.
func (h *Handler) place(r *http.Request, rec *runregistry.Record, call dialect.Rejoin, pages *int) (runregistry.Seq, bool) {
	if call.Position == "" {
		return 0, rec.FirstSeq == 1 || rec.LastSeq == 0 && rec.State.Active()
	}
	var page runregistry.Page
	var parsed frame.Frame
	after := max(rec.FirstSeq, 1) - 1
	for ; *pages > 0; *pages-- {
		var err error
		page, err = h.deps.Engine.store.Read(r.Context(), runregistry.PageQuery{Run: rec.ID, After: after, Into: page.Frames[:0]})
		if err != nil || len(page.Frames) == 0 {
			return 0, false
		}
		for i := range page.Frames {
			after = page.Frames[i].Seq
			frame.Parse(frame.SSE, page.Frames[i].Data, &parsed)
			if call.Dialect.PositionOf(&parsed) == call.Position {
				return after, true
			}
		}
	}
	return 0, false
}
