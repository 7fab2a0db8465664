package proxy

import (
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// insideKey marks the context of a request that already belongs to a run.
type insideKey struct{}

// belongs reports whether a request already belongs to a run: one of an
// agent_runs before this one, in this process or in a gateway that shares the
// signing key. What says so ends here, and so does what only claims to.
func (h *Handler) belongs(r *http.Request) bool {
	if r.Context().Value(insideKey{}) != nil {
		r.Header.Del(headerRunID)
		return true
	}
	if _, claims := r.Header[headerRunID]; !claims {
		return false
	}
	if h.deps.Seal == nil {
		r.Header.Del(headerRunID)
		return false
	}
	return h.deps.Seal.Take(r, headerRunID)
}

// mark tells a gateway behind this one that a request belongs to a run.
// Without it that gateway would keep a run of its own for it.
func (h *Handler) mark(r *http.Request, id runregistry.RunID) {
	if h.deps.Seal == nil {
		return
	}
	if err := h.deps.Seal.Set(r, headerRunID, string(id)); err != nil {
		h.deps.Log.Warn("request is not marked for a gateway behind this one", logRun(id), logError(err))
	}
}
