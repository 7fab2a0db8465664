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

// resumption is a request to read a run from a position.
type resumption struct {
	// choose decides how the reader sees the run, and decides anew when more is
	// known of it: format and dialect are upstream's to say.
	choose   viewOf
	view     view
	standing *standing
	after    runregistry.Seq
	links    links
	// dialectShaped tells that the answer has the shape of the run's own: stored
	// header fields, no events of ours.
	dialectShaped bool
	replayed      bool
	// always: an ended run is a stream to the last position, too. SDKs that ask
	// for one cannot read 204.
	always bool
}

// resume is the decision table: what a reader at a position gets. Everything
// is decided before the first byte.
func (h *Handler) resume(w http.ResponseWriter, r *http.Request, rec *runregistry.Record, q resumption) error {
	ctx := r.Context()
	engine := h.deps.Engine
	var err error
	if q.view, err = q.choose(rec); err != nil {
		return err
	}
	engine.readerCame(rec.ID)
	defer engine.readerLeft(rec.ID) // after the watch is closed: it asks who is left
	watch, err := engine.store.Watch(ctx, rec.ID, true)
	if err != nil {
		return h.resumeUnavailable(w, err, q)
	}
	defer watch.Close()
	seat := engine.seats.take(rec, h.cfg.Limits.ReadersPerRun)
	defer seat.leave()

	if rec, err = h.awaitPosition(ctx, watch, rec.ID, q); err != nil {
		return h.resumeUnavailable(w, err, q)
	}
	if q.view, err = q.choose(rec); err != nil {
		return err
	}
	if nothingAfter(rec, q.after, q.view.control) {
		h.deps.Metrics.resumed("nothing_left")
		return h.nothingLeft(w, rec, q)
	}
	if q.after > rec.LastGiven() && q.view.form != formSSE {
		return refuse(codeFutureCursor, "Continue from last_seq.").with("last_seq", rec.LastGiven())
	}
	if r.Method == http.MethodHead {
		h.resumeHeader(w, rec, q)
		return nil
	}
	span := h.startReaderSpan(r, rec, q.after)
	t := h.newTail(w, q.view, q.choose, rec, q.links, watch, seat, q.standing)
	t.after = q.after
	end := h.follow(ctx, w, t, q)
	span.endReader(t, end)
	h.deps.Metrics.resumed(endNames[end])
	if end == tailAborted || end == tailInterrupted && !q.view.control {
		panic(http.ErrAbortHandler) // an unfinished answer must not look whole
	}
	return nil
}

// nothingAfter reports whether a reader at a position of an ended run has
// everything that it can get. A position beyond the end is none of ours.
func nothingAfter(rec *runregistry.Record, s runregistry.Seq, control bool) bool {
	return rec.State.Terminal() && s > 0 && s >= rec.DeliveredEnd(control) && s <= rec.FinalSeq
}

// nothingLeft answers a reader that has everything: an EventSource stops.
func (h *Handler) nothingLeft(w http.ResponseWriter, rec *runregistry.Record, q resumption) error {
	h.resumeHeader(w, rec, q)
	if q.always {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	w.Header().Del("Content-Type")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// follow writes the head and lets the tail run.
func (h *Handler) follow(ctx context.Context, w http.ResponseWriter, t *tail, q resumption) tailEnd {
	rec := t.rec
	if t.control && t.form == formSSE {
		t.hint = retryHint(retryDefault)
	}
	h.resumeHeader(w, rec, q)
	w.WriteHeader(http.StatusOK)
	if err := t.ctrl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return tailGone
	}
	if q.after > rec.LastGiven() {
		t.expiredFrame(q.after, expiryLost)
		if err := t.send(t.out); err != nil {
			return tailGone
		}
		return t.told()
	}
	return t.run(ctx)
}

// awaitPosition returns the record once it is known what to do at the
// position: at once, except for a reader that is ahead of an active run's log,
// or one of a run whose upstream has not answered yet and whose own format is
// asked for.
func (h *Handler) awaitPosition(ctx context.Context, watch *runregistry.Watch, id runregistry.RunID, q resumption) (*runregistry.Record, error) {
	// One lease: so long the owner may need to put lost frames back.
	patience := time.NewTimer(h.deps.Engine.sharing.Lease)
	defer patience.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		rec, err := h.deps.Engine.store.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		waiting := q.dialectShaped && rec.Response == nil && q.view.follow
		if rec.State.Terminal() || q.after <= rec.LastSeq && !waiting {
			return rec, nil
		}
		select {
		case <-watch.C:
		case <-poll.C:
		case <-patience.C:
			if q.after > rec.LastSeq {
				return rec, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// resumeHeader puts the run's fields on the answer; for a dialect-shaped one
// also the stored fields of upstream's.
func (h *Handler) resumeHeader(w http.ResponseWriter, rec *runregistry.Record, q resumption) {
	head := w.Header()
	if q.dialectShaped && rec.Response != nil {
		mergeHeader(head, rec.Response.Header)
	}
	head.Set("Content-Type", q.view.contentType(rec))
	streamHeader(head)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Add("Vary", "Accept")
	head.Set(headerRunID, string(rec.ID))
	head.Set(headerAttempt, strconv.Itoa(rec.Attempt))
	head.Set(headerConversation, string(rec.Conversation))
	head.Set("Link", q.links.header(rec.ID))
	if q.replayed {
		head.Set(headerReplayed, "true")
	}
}

// contentType is the media type of a view.
func (v view) contentType(rec *runregistry.Record) string {
	own := ""
	if rec.Response != nil {
		own = http.Header(rec.Response.Header).Get("Content-Type")
	}
	switch {
	case v.form == formEnvelope:
		return "application/x-ndjson"
	case v.form == formSSE && (v.control || own == "" || rec.Format != runregistry.FormatSSE):
		return "text/event-stream"
	case own == "":
		return "application/octet-stream"
	default:
		return own
	}
}

// resumeUnavailable answers when the store does not, or when it cannot be told
// who may. Any status but 200 stops a native EventSource for ever, so an event
// stream with control events gets a hint to come back and ends.
func (h *Handler) resumeUnavailable(w http.ResponseWriter, err error, q resumption) error {
	away := errors.Is(err, runregistry.ErrUnavailable) || errors.Is(err, authz.ErrUnavailable)
	if !away || !q.view.control || q.view.form != formSSE {
		return err
	}
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	streamHeader(head)
	w.WriteHeader(http.StatusOK)
	w.Write([]byte(retryHint(retryStore) + ": the run store is unavailable\n\n"))
	return nil
}

// serveEvents serves GET {api}/{run}/events.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request, id string) error {
	caller, err := h.identifyReader(r, id)
	if err != nil {
		return h.eventsUnavailable(w, r, err)
	}
	rec, err := h.visible(r, caller, id)
	if err != nil {
		return h.eventsUnavailable(w, r, err)
	}
	cursor, err := eventsCursor(r)
	if err != nil {
		return err
	}
	if cursor.Run != "" && cursor.Run != rec.ID {
		return refuse(codeWrongCursor, "Resume with a cursor of this run.")
	}
	return h.serveEventsOf(w, r, rec, cursor, h.standing(r, caller, h.readerOf(r, id)))
}

// eventsUnavailable keeps an EventSource alive over an outage of the store.
func (h *Handler) eventsUnavailable(w http.ResponseWriter, r *http.Request, err error) error {
	control := r.URL.Query().Get("control") != "off" && !strings.Contains(r.Header.Get("Accept"), "json")
	return h.resumeUnavailable(w, err, resumption{view: view{form: formSSE, control: control}})
}

// serveEventsOf serves a run's log in the format that the request asks for.
func (h *Handler) serveEventsOf(w http.ResponseWriter, r *http.Request, rec *runregistry.Record, cursor runregistry.Cursor, stands *standing) error {
	format, err := h.chooseFormat(r, rec)
	if err != nil {
		return err
	}
	if format.page {
		return h.serveEventPage(w, r, rec, cursor.Seq)
	}
	choose := func(rec *runregistry.Record) (view, error) {
		f, err := h.chooseFormat(r, rec)
		f.view.follow = r.URL.Query().Get("follow") != "off"
		f.view.runEnd = cursor.Seq > 0
		return f.view, err
	}
	return h.resume(w, r, rec, resumption{choose: choose, standing: stands, after: cursor.Seq, links: h.linksFor(r), dialectShaped: !format.view.control})
}

// eventsCursor reads where to begin: Last-Event-ID wins over the query, and
// what a polyfill puts there instead of it over after, which stood in the
// address from the first: they are newer.
func eventsCursor(r *http.Request) (runregistry.Cursor, error) {
	values := r.Header.Values(headerLastEventID)
	if len(values) > 1 {
		return runregistry.Cursor{}, problemOf(runregistry.ErrMalformedCursor)
	}
	candidates := append([]string(nil), values...)
	q := r.URL.Query()
	for _, name := range []string{"lastEventId", "last_event_id", "after"} {
		if len(q[name]) > 1 {
			return runregistry.Cursor{}, problemOf(runregistry.ErrMalformedCursor)
		}
		candidates = append(candidates, q.Get(name))
	}
	for _, text := range candidates {
		switch text {
		case "":
			continue
		case "0", "-1":
			return runregistry.Cursor{}, nil
		}
		c, err := runregistry.ParseCursor(text)
		if err != nil {
			return c, problemOf(err)
		}
		return c, nil
	}
	return runregistry.Cursor{}, nil
}

// reattachView is how a reader that comes back with our cursor on the
// application's own path sees the run.
func (h *Handler) reattachView(rec *runregistry.Record) (view, error) {
	v := h.ownView(rec)
	v.runEnd = true
	return v, nil
}

// serveReattach serves any path with our cursor in Last-Event-ID.
func (h *Handler) serveReattach(w http.ResponseWriter, r *http.Request) error {
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	cursor, _, err := cursorOf(r)
	if err != nil {
		return problemOf(err)
	}
	rec, err := h.visible(r, caller, string(cursor.Run))
	if err != nil {
		return err
	}
	stands := h.standing(r, caller, h.identifier(r))
	return h.resume(w, r, rec, resumption{choose: h.reattachView, standing: stands, after: cursor.Seq, links: h.linksFor(r), dialectShaped: true})
}
