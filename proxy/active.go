package proxy

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// The answers of an active look-up.
const (
	activeIdle    = "idle"
	activeRunning = "running"
	activeLost    = "lost"
)

// activeDoc is the answer of an active look-up.
type activeDoc struct {
	Status        string             `json:"status"`
	RunID         *runregistry.RunID `json:"run_id"`
	Authoritative bool               `json:"authoritative"`
	Run           *recordDoc         `json:"run"`
}

// serveActive serves GET {api}/active. It is never an oracle: an unknown and a
// foreign conversation are both idle.
func (h *Handler) serveActive(w http.ResponseWriter, r *http.Request, _ string) error {
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	rec, err := h.currentOf(r, caller, authz.Read, r.URL.Query().Get("conversation_id"))
	if err != nil {
		return err
	}
	doc := activeDoc{Status: activeIdle}
	if rec != nil {
		doc.Status = activeStatus(rec)
		doc.Run = publicRecord(rec, h.linksFor(r))
	}
	if doc.Status != activeIdle {
		doc.RunID = &rec.ID
		doc.Authoritative = true // a store of one process can vouch for what it has, not for what it lacks
	}
	noStore(w.Header())
	return writeJSON(w, http.StatusOK, doc)
}

func activeStatus(rec *runregistry.Record) string {
	gone := rec.Reason == runregistry.ReasonOwnerLost || rec.Reason == runregistry.ReasonGatewayStopped
	switch {
	case rec.State.Active():
		return activeRunning
	case rec.State == runregistry.Uncertain && gone:
		return activeLost
	default:
		return activeIdle
	}
}

// currentOf returns the run that an active look-up is about, or nil for a caller
// who has no right over it.
func (h *Handler) currentOf(r *http.Request, caller authz.Caller, verb authz.Verb, text string) (*runregistry.Record, error) {
	c, err := runregistry.ParseConversationID(text)
	if err != nil {
		return nil, err
	}
	rec, err := h.deps.Engine.store.Current(r.Context(), h.scopeOf(h.subjectOf(r, caller)), c)
	rec, err = h.grant(r, caller, verb, runregistry.NewRunID(0), rec, err)
	if errors.Is(err, runregistry.ErrNoRun) {
		return nil, nil //nolint:nilnil // nobody is home, which is an answer
	}
	return rec, err
}

// serveActiveEvents serves GET {api}/active/events.
func (h *Handler) serveActiveEvents(w http.ResponseWriter, r *http.Request, _ string) error {
	caller, err := h.identify(r)
	if err != nil {
		return h.eventsUnavailable(w, r, err)
	}
	cursor, err := eventsCursor(r)
	if err != nil {
		return err
	}
	rec, seq, err := h.conversationRun(r, caller, r.URL.Query().Get("conversation_id"), cursor)
	if err != nil {
		return h.eventsUnavailable(w, r, err)
	}
	if rec == nil {
		noStore(w.Header())
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return h.serveEventsOf(w, r, rec, runregistry.Cursor{Run: rec.ID, Seq: seq}, h.standing(r, caller, h.identifier(r)))
}

// conversationRun finds the run that a conversation URL addresses: the run of
// a cursor that belongs to the conversation, ended or not, else the active run
// from its beginning.
func (h *Handler) conversationRun(r *http.Request, caller authz.Caller, text string, cursor runregistry.Cursor) (*runregistry.Record, runregistry.Seq, error) {
	rec, err := h.currentOf(r, caller, authz.Read, text)
	if err != nil {
		return nil, 0, err
	}
	if cursor.Run != "" {
		named, err := h.visible(r, caller, string(cursor.Run))
		switch {
		case err == nil && named.InConversation(runregistry.ConversationID(text)):
			return named, cursor.Seq, nil
		case err != nil && !errors.Is(err, runregistry.ErrNoRun):
			return nil, 0, err
		}
	}
	if rec == nil || !rec.State.Active() {
		return nil, 0, nil
	}
	return rec, 0, nil
}

// serveActiveCancel serves POST {api}/active/cancel.
func (h *Handler) serveActiveCancel(w http.ResponseWriter, r *http.Request, _ string) error {
	return h.cancelActive(w, r, r.URL.Query().Get("conversation_id"))
}

func (h *Handler) cancelActive(w http.ResponseWriter, r *http.Request, conversation string) error {
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	if err := h.guardWrite(r, caller); err != nil {
		return err
	}
	rec, err := h.currentOf(r, caller, authz.Write, conversation)
	if err != nil {
		return err
	}
	if rec == nil || !rec.State.Active() {
		noStore(w.Header())
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return h.cancelRun(w, r, rec.ID)
}

// target is what a resume path addresses.
type target struct {
	conversation string
	upstreamRun  string // set for paths that name upstream's run
}

// resumeTarget matches the request against the resume paths.
func (h *Handler) resumeTarget(r *http.Request) (target, bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodDelete {
		return target{}, false
	}
	for _, template := range h.cfg.ResumePaths {
		if values, ok := matchTemplate(template, r.URL.Path); ok {
			return target{conversation: values["conversation_id"], upstreamRun: upstreamOfPath(values)}, true
		}
	}
	if !h.cfg.ResumeAuto {
		return target{}, false
	}
	var below []string
	for _, template := range dialect.ResumePaths() {
		if rest, ok := strings.CutPrefix(template, "{start_path}"); ok {
			below = append(below, rest) // they say less: almost any path is below some start
			continue
		}
		if values, ok := matchTemplate(template, tailOf(r.URL.Path, template)); ok {
			return target{conversation: values["conversation_id"], upstreamRun: upstreamOfPath(values)}, true
		}
	}
	for _, rest := range below {
		if c, ok := h.belowStart(r.URL.Path, rest); ok {
			return target{conversation: c}, true
		}
	}
	return target{}, false
}

// tailOf is the end of a path, with as many segments as a template has: APIs are
// mounted below all kinds of prefixes.
func tailOf(path, template string) string {
	at := len(path)
	for range strings.Count(template, "/") {
		if at = strings.LastIndexByte(path[:at], '/'); at < 0 {
			return path
		}
	}
	return path[at:]
}

func upstreamOfPath(values map[string]string) string {
	if id := values["upstream_run_id"]; id != "" {
		return id
	}
	return values["upstream_id"]
}

// belowStart matches {start path}{rest}, where rest is a template with
// {conversation_id}: below the configured start paths, or without them below
// /api/chat and every path that has started a run in this process.
func (h *Handler) belowStart(path, rest string) (string, bool) {
	before, after, _ := strings.Cut(rest, "{conversation_id}")
	inner, ok := strings.CutSuffix(path, after)
	if !ok {
		return "", false
	}
	at := strings.LastIndex(inner, before)
	if at < 0 || at+len(before) == len(inner) {
		return "", false
	}
	base, id := inner[:at], inner[at+len(before):]
	return id, h.isStartPath(base)
}

func (h *Handler) isStartPath(path string) bool {
	if h.deps.Engine.started.has(path) {
		return true
	}
	for _, p := range h.cfg.Starts {
		if p.Path == path || strings.HasSuffix(p.Path, "*") && strings.HasPrefix(path, strings.TrimSuffix(p.Path, "*")) {
			return true
		}
	}
	return len(h.cfg.Starts) == 0 && path == "/api/chat"
}

// serveResumePath serves the path on which a client library comes back by
// itself. When the caller has nothing there, the backend is asked, and its
// "not found" becomes "nothing to resume" for a conversation.
func (h *Handler) serveResumePath(w http.ResponseWriter, r *http.Request, next Next, to target) error {
	if r.Method == http.MethodDelete {
		return h.cancelActive(w, r, to.conversation)
	}
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	cursor, err := eventsCursor(r)
	if err != nil {
		cursor = runregistry.Cursor{} // somebody else's id: from the beginning
	}
	rec, seq, err := h.resumeRun(r, caller, to, cursor)
	if err != nil && !errors.Is(err, runregistry.ErrMalformedConversation) && !errors.Is(err, runregistry.ErrNoRun) {
		return err
	}
	if rec == nil {
		if to.upstreamRun != "" {
			h.withdrawCORS(w.Header())
			return pass(h.passThrough(w, r, next))
		}
		h.withoutOurs(r)
		return pass(next(&nothingWriter{ResponseWriter: w, h: h, r: r}, r))
	}
	stands := h.standing(r, caller, h.identifier(r))
	return h.resume(w, r, rec, resumption{choose: h.viewOwn, standing: stands, after: seq, links: h.linksFor(r), dialectShaped: true})
}

func (h *Handler) resumeRun(r *http.Request, caller authz.Caller, to target, cursor runregistry.Cursor) (*runregistry.Record, runregistry.Seq, error) {
	if to.upstreamRun == "" {
		return h.conversationRun(r, caller, to.conversation, cursor)
	}
	rec, err := h.deps.Engine.store.ByUpstream(r.Context(), h.scopeOf(h.subjectOf(r, caller)), to.upstreamRun)
	if rec, err = h.grant(r, caller, authz.Read, runregistry.NewRunID(0), rec, err); err != nil {
		return nil, 0, err
	}
	if cursor.Run == rec.ID {
		return rec, cursor.Seq, nil
	}
	return rec, 0, nil
}

// nothingWriter turns the backend's 404 or 405 into 204, which clients of a
// resume path take for "nothing to resume".
type nothingWriter struct {
	http.ResponseWriter
	h       *Handler
	r       *http.Request
	begun   bool
	nothing bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *nothingWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.begun = true
		w.h.withdrawCORS(w.Header()) // ours in place of the backend's
		w.h.crossOrigin(w.ResponseWriter, w.r)
	}
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		w.nothing = true
		head := w.Header()
		for name := range head {
			if strings.HasPrefix(name, "Content-") || name == "Allow" || name == "Etag" {
				head.Del(name)
			}
		}
		noStore(head)
		status = http.StatusNoContent
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter]; the body of what became 204 goes
// nowhere.
func (w *nothingWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.nothing {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the server's writer.
func (w *nothingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
