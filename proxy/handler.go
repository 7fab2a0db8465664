package proxy

import "net/http"

// Handler serves one agent_runs directive.
type Handler struct {
	cfg  Config
	deps Deps
}

// New returns a handler. The configuration must have passed [Config.Validate].
func New(cfg Config, deps Deps) (*Handler, error) {
	return &Handler{cfg: cfg, deps: deps}, nil
}

// ServeHTTP serves a run resource, starts or re-attaches to a run, or hands
// the request to next untouched.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next Next) error {
	return next(w, r)
}
