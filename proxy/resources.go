package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// serveRecord serves GET {api}/{run}.
func (h *Handler) serveRecord(w http.ResponseWriter, r *http.Request, id string) error {
	caller, err := h.identifyReader(r, id)
	if err != nil {
		return err
	}
	rec, err := h.visible(r, caller, id)
	if err != nil {
		return err
	}
	head := w.Header()
	noStore(head)
	tag := entityTag(rec)
	head.Set("Etag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	doc := publicRecord(rec, h.linksFor(r))
	doc.Snapshot = h.deps.Engine.publicSnapshot(r.Context(), rec)
	h.cfg.Tools.mark(doc.Snapshot)
	return writeJSON(w, http.StatusOK, doc)
}

func matches(ifNoneMatch, tag string) bool {
	for candidate := range strings.SplitSeq(ifNoneMatch, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == tag || candidate == "*" {
			return true
		}
	}
	return false
}

// listLimits bound a page of the list.
const (
	listDefault = 20
	listMax     = 100
)

// serveList serves GET {api}: the caller's own runs, newest first.
func (h *Handler) serveList(w http.ResponseWriter, r *http.Request, _ string) error {
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	q, err := h.listQuery(r, caller)
	if err != nil {
		return err
	}
	var list runregistry.List
	if caller.Known {
		if list, err = h.deps.Engine.store.List(r.Context(), q); err != nil {
			return err
		}
	}
	readable, err := h.readable(r, caller, list.Records)
	if err != nil {
		return err
	}
	l := h.linksFor(r)
	runs := make([]*recordDoc, 0, len(readable))
	for _, rec := range readable {
		runs = append(runs, publicRecord(rec, l))
	}
	noStore(w.Header())
	return writeJSON(w, http.StatusOK, map[string]any{"runs": runs, "next": optional(list.Next)})
}

func (h *Handler) listQuery(r *http.Request, caller authz.Caller) (runregistry.ListQuery, error) {
	values := r.URL.Query()
	q := runregistry.ListQuery{Subject: h.subjectOf(r, caller), Limit: listDefault, Page: values.Get("page")}
	if text := values.Get("conversation_id"); text != "" {
		c, err := runregistry.ParseConversationID(text)
		if err != nil {
			return q, err
		}
		q.Conversation = c
	}
	if text := values.Get("state"); text != "" {
		s, ok := runregistry.ParseState(text)
		if !ok {
			return q, refuse(codeMalformedRequest, "state is one of queued, running, waiting, cancelling, completed, failed, cancelled, uncertain.")
		}
		q.State = s
	}
	n, err := limitOf(values.Get("limit"), listDefault, listMax)
	q.Limit = n
	return q, err
}

// limitOf reads a page size.
func limitOf(text string, otherwise, highest int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, refuse(codeMalformedRequest, "limit is a whole number from 1.")
	}
	return min(n, highest), nil
}

// pageDefault and pageMax bound a JSON page of events.
const (
	pageDefault = 500
	pageMax     = 5000
	// pageBytes bounds the frames of a page, whatever their number: the page is
	// composed in memory.
	pageBytes = 1 << 20
)

// serveEventPage serves a finite page of envelopes.
func (h *Handler) serveEventPage(w http.ResponseWriter, r *http.Request, rec *runregistry.Record, after runregistry.Seq) error {
	n, err := limitOf(r.URL.Query().Get("limit"), pageDefault, pageMax)
	if err != nil {
		return err
	}
	if rec, err = h.awaitLog(r.Context(), rec, after); err != nil {
		return err
	}
	if after > rec.LastGiven() {
		return refuse(codeFutureCursor, "Continue from last_seq.").with("last_seq", rec.LastGiven())
	}
	control := r.URL.Query().Get("control") != "off"
	if nothingAfter(rec, after, control) {
		return h.nothingLeft(w, rec, resumption{links: h.linksFor(r)})
	}
	l := h.linksFor(r)
	events, last, state, err := h.eventPage(r.Context(), rec, after, n, control, l)
	if err != nil {
		return err
	}
	var next *string
	if last < rec.DeliveredEnd(control) || !state.Terminal() {
		text := runregistry.Cursor{Run: rec.ID, Seq: last}.String()
		next = &text
	}
	noStore(w.Header())
	w.Header().Set(headerRunID, string(rec.ID))
	return writeJSON(w, http.StatusOK, map[string]any{"events": events, "next": next, "state": state})
}

// awaitLog is awaitPosition for a page.
func (h *Handler) awaitLog(ctx context.Context, rec *runregistry.Record, after runregistry.Seq) (*runregistry.Record, error) {
	if rec.State.Terminal() || after <= rec.LastSeq {
		return rec, nil
	}
	watch, err := h.deps.Engine.store.Watch(ctx, rec.ID, false)
	if err != nil {
		return nil, err
	}
	defer watch.Close()
	return h.awaitPosition(ctx, watch, rec.ID, resumption{after: after})
}

// eventPage collects up to n envelopes and tells the position after them.
func (h *Handler) eventPage(ctx context.Context, rec *runregistry.Record, after runregistry.Seq, n int, control bool, l links) ([]envelope, runregistry.Seq, runregistry.State, error) {
	events := make([]envelope, 0, min(n, pageDefault))
	d := h.deps.Engine.dialectOf(rec)
	size := 0
	for {
		page, err := h.deps.Engine.store.Read(ctx, runregistry.PageQuery{Run: rec.ID, After: after})
		if errors.Is(err, runregistry.ErrExpired) {
			reason := expiryReason(rec)
			id := expiredCursor(rec, reason)
			e := gatewayEnvelope(rec, id, time.Now(), eventExpired, expiredData(rec, l, after+1, reason))
			return append(events, e), id, rec.State, nil
		}
		if err != nil {
			return nil, 0, 0, err
		}
		for i := range page.Frames {
			if len(events) == n || size > pageBytes {
				return events, after, page.State, nil
			}
			size += len(page.Frames[i].Data)
			events = append(events, upstreamEnvelope(rec, &page.Frames[i], d))
			after = page.Frames[i].Seq
		}
		if page.More(after) {
			continue
		}
		if page.State.Terminal() && control && after == page.Last && len(events) < n {
			ended, err := h.deps.Engine.store.Load(ctx, rec.ID)
			if err != nil {
				return nil, 0, 0, err
			}
			*rec = *ended
			events = append(events, gatewayEnvelope(rec, rec.FinalSeq, rec.EndedAt, eventEnd, endData(rec, l)))
			after = rec.FinalSeq
		}
		return events, after, page.State, nil
	}
}

// closeWait is how long a Stop that only has to close a socket waits for the
// settlement, so that the usual answer is final.
const (
	closeWait = time.Second
	maxWait   = 10 * time.Second
)

// serveCancel serves POST {api}/{run}/cancel.
func (h *Handler) serveCancel(w http.ResponseWriter, r *http.Request, id string) error {
	rec, err := h.changeable(r, id)
	if err != nil {
		return err
	}
	return h.cancelRun(w, r, rec.ID)
}

// cancelRun carries a Stop out and tells what it led to so far.
func (h *Handler) cancelRun(w http.ResponseWriter, r *http.Request, id runregistry.RunID) error {
	span := h.startStopSpan(r, id)
	rec, err := h.deps.Engine.stop(r.Context(), id, h.lend(r))
	if err == nil && !rec.State.Terminal() {
		ctx, cancel := context.WithTimeout(r.Context(), waitOf(r))
		if now, waited := h.deps.Engine.settled(ctx, id); !errors.Is(waited, runregistry.ErrUnavailable) {
			rec, err = now, waited // else the Stop is stored, and nothing more is known
		}
		cancel()
	}
	span.endStop(rec, err)
	if err != nil {
		return err
	}
	h.lastCall(r, rec)
	h.deps.Metrics.stopped(rec)
	status := http.StatusOK
	if !rec.State.Terminal() {
		status = http.StatusAccepted
	}
	noStore(w.Header())
	w.Header().Set(headerRunID, string(rec.ID))
	return writeJSON(w, status, stopDoc(rec, h.linksFor(r)))
}

// waitOf reads Prefer: wait=N (RFC 7240).
func waitOf(r *http.Request) time.Duration {
	for item := range strings.SplitSeq(strings.Join(r.Header.Values("Prefer"), ","), ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(item), "wait="); ok {
			if n, err := strconv.Atoi(text); err == nil && n >= 0 {
				return min(time.Duration(n)*time.Second, maxWait)
			}
		}
	}
	return closeWait
}

// serveDelete serves DELETE {api}/{run}.
func (h *Handler) serveDelete(w http.ResponseWriter, r *http.Request, id string) error {
	rec, err := h.changeable(r, id)
	if err != nil {
		return err
	}
	return h.deleteRun(w, r, rec)
}

// deleteRun deletes an ended run at once and, by force, an active one when it
// has settled.
func (h *Handler) deleteRun(w http.ResponseWriter, r *http.Request, rec *runregistry.Record) error {
	engine := h.deps.Engine
	noStore(w.Header())
	if !rec.State.Terminal() {
		force, err := strconv.ParseBool(r.URL.Query().Get("force"))
		if (err != nil || !force) && rec.State != runregistry.Queued {
			return runregistry.ErrRunActive
		}
		stopped, err := engine.stop(r.Context(), rec.ID, h.lend(r))
		if err != nil {
			return err
		}
		if !stopped.State.Terminal() {
			engine.deleteWhenSettled(rec.ID)
			w.WriteHeader(http.StatusAccepted)
			return nil
		}
	}
	if err := engine.delete(r.Context(), rec.ID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// deleteWhenSettled deletes a run that is being stopped once its pump is done.
func (e *Engine) deleteWhenSettled(id runregistry.RunID) {
	if p := e.local(id); p != nil {
		p.deleteAfter.Store(true)
		if e.local(id) != nil {
			return // the pump sees it when it is done
		}
	}
	e.remove(context.Background(), id)
}

// delete deletes a settled run: nothing of it may come back from this process.
func (e *Engine) delete(ctx context.Context, id runregistry.RunID) error {
	e.keeper.forgetRelic(id)
	return e.store.Delete(ctx, id)
}

// remove deletes a settled run and logs what went wrong.
func (e *Engine) remove(ctx context.Context, id runregistry.RunID) {
	if err := e.delete(ctx, id); err != nil && !errors.Is(err, runregistry.ErrNoRun) {
		e.log.Warn("run was not deleted", logRun(id), logError(err))
	}
}
