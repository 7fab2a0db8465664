package proxy

import (
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// identify tells who asks for a run resource. The error is a problem.
func (h *Handler) identify(r *http.Request) (authz.Caller, error) {
	caller, err := h.deps.Identity.Identify(r)
	if err != nil {
		p := problemOf(err)
		if challenge := h.deps.Identity.Challenge(err); challenge != "" {
			p.Header = http.Header{"Www-Authenticate": {challenge}}
		}
		return caller, p
	}
	return caller, nil
}

// guardWrite refuses writes that ride on ambient credentials from another
// site.
func (h *Handler) guardWrite(r *http.Request, c authz.Caller) error {
	if !c.Ambient {
		return nil
	}
	return h.crossSite.Check(r)
}

// stripIdentity removes our own credential from fields that leave for
// upstream.
func (h *Handler) stripIdentity(head http.Header) {
	if s, ok := h.deps.Identity.(authz.Starter); ok {
		s.Strip(head)
	}
}

// may reports whether a caller may see and command a run. Under acl owner the
// subject that started it may, and nobody else.
func (h *Handler) may(r *http.Request, c authz.Caller, rec *runregistry.Record) bool {
	return c.Known && rec.Subject == h.subjectOf(r, c)
}

// visible loads a run for a caller. Whatever the reason not to show it, the
// answer is the same and costs one look-up.
func (h *Handler) visible(r *http.Request, c authz.Caller, id string) (*runregistry.Record, error) {
	run, err := runregistry.ParseRunID(id)
	if err != nil {
		run = runregistry.NewRunID(0)
	}
	rec, err := h.deps.Engine.store.Load(r.Context(), run)
	if err != nil {
		return nil, err
	}
	if !h.may(r, c, rec) {
		return nil, runregistry.ErrNoRun
	}
	return rec, nil
}

// scopeOf is the namespace of a subject's conversations.
func scopeOf(s runregistry.Subject) runregistry.Scope { return runregistry.SubjectScope(s) }
