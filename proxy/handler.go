package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// Handler serves one agent_runs directive.
type Handler struct {
	cfg       Config
	deps      Deps
	own       *dialect.Dialect // the configuration's own, or nil
	crossSite *authz.CrossSite
	origins   authz.Origins

	// hinted are paths whose missing start line was logged.
	hinted paths
}

// New returns a handler. Configuration mistakes that only the handler can see
// are errors.
func New(cfg Config, deps Deps) (*Handler, error) {
	var own *dialect.Dialect
	if cfg.Custom != nil {
		own = deps.Engine.dialects.Add(cfg.Custom)
		cfg.Dialect = own.Name
	}
	if _, ok := deps.Engine.dialects.Lookup(cfg.Dialect); !ok && cfg.Dialect != autoDialect {
		return nil, fmt.Errorf("dialect %q is unknown; allowed are auto, %s", cfg.Dialect, strings.Join(dialect.Names(), ", "))
	}
	origins, err := authz.ParseOrigins(cfg.CORS)
	if err != nil {
		return nil, fmt.Errorf("reading cors: %w", err)
	}
	crossSite, err := authz.NewCrossSite(cfg.CORS)
	if err != nil {
		return nil, fmt.Errorf("reading cors: %w", err)
	}
	h := &Handler{cfg: cfg, deps: deps, own: own, crossSite: crossSite, origins: origins}
	deps.Engine.routes.register(h)
	return h, nil
}

// Retire tells that the configuration of the handler has ended: calls about
// runs no longer go its way.
func (h *Handler) Retire() { h.deps.Engine.routes.forget(h) }

// ServeHTTP serves a run resource, starts or re-attaches to a run, or hands
// the request to next untouched.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next Next) error {
	if h.belongs(r) {
		return next(w, r.WithContext(context.WithValue(r.Context(), insideKey{}, true)))
	}
	if h.servesPreflight(r) && h.crossOrigin(w, r) {
		return nil
	}
	ours, serve := h.route(r)
	if ours {
		h.noteWay(r, next)
		if h.crossOrigin(w, r) {
			return nil
		}
		return h.answer(w, r, serve(w, r, next))
	}
	if call, ok := dialect.RejoinIn(r); ok && h.cfg.ResumeAuto && h.holds(r, call) {
		h.crossOrigin(w, r)
		return h.answer(w, r, h.servePostedJoin(w, r, next, call))
	}
	return h.maybeStart(w, r, next)
}

// served is what a route does with a request.
type served func(w http.ResponseWriter, r *http.Request, next Next) error

// route finds the resource that a request addresses, if it is one of ours by
// its address alone.
func (h *Handler) route(r *http.Request) (bool, served) {
	if rest, ok := strings.CutPrefix(r.URL.Path, h.cfg.API); ok && (rest == "" || rest[0] == '/') {
		return true, func(w http.ResponseWriter, r *http.Request, next Next) error {
			return h.serveResource(w, withNext(r, next), strings.TrimPrefix(rest, "/"))
		}
	}
	if _, ok := ourCursorText(r); ok && r.Method != http.MethodPost {
		return true, func(w http.ResponseWriter, r *http.Request, _ Next) error { return h.serveReattach(w, r) }
	}
	if stop, ok := dialect.StopAt(r.Method, r.URL.EscapedPath()); ok {
		return true, func(w http.ResponseWriter, r *http.Request, next Next) error {
			return h.serveStopAt(w, withNext(r, next), next, stop)
		}
	}
	if target, ok := h.resumeTarget(r); ok {
		return true, func(w http.ResponseWriter, r *http.Request, next Next) error {
			return h.serveResumePath(w, withNext(r, next), next, target)
		}
	}
	if call, ok := dialect.RejoinOf(r); ok && h.cfg.ResumeAuto {
		return true, func(w http.ResponseWriter, r *http.Request, next Next) error {
			return h.serveOwnJoin(w, withNext(r, next), next, call)
		}
	}
	return false, nil
}

// answer turns an error into its problem document. Errors that went through
// the next handler are returned to the server as they are.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*passed](err); ok {
		return p.err
	}
	if r.Context().Err() != nil {
		return nil //nolint:nilerr // the client left: there is nobody to answer
	}
	p := problemOf(err)
	h.deps.Metrics.refused(p)
	if p.Status() >= http.StatusInternalServerError {
		h.deps.Log.Warn("request was not served", logCode(p.Code), logError(err))
	}
	p.write(w)
	return nil
}

// passed marks an error of the next handler: the server's error routes decide
// about it.
type passed struct{ err error }

func (p *passed) Error() string { return p.err.Error() }
func (p *passed) Unwrap() error { return p.err }

func pass(err error) error {
	if err == nil {
		return nil
	}
	return &passed{err}
}

// serveResource routes below the API prefix.
func (h *Handler) serveResource(w http.ResponseWriter, r *http.Request, rest string) error {
	id, sub, _ := strings.Cut(rest, "/")
	name := resourceName(id, sub)
	methods, ok := resources[name]
	if !ok || name == ticketResource && h.deps.Tickets == nil {
		return h.unknownResource(r)
	}
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", allowOf(methods))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	serve, ok := methods[methodOf(r)]
	if !ok {
		return &Problem{Code: codeMethod, Detail: "Use one of the methods in Allow.", Header: http.Header{"Allow": {allowOf(methods)}}}
	}
	if err := h.checkTicket(w, r, name); err != nil {
		return err
	}
	return serve(h, w, r, id)
}

// unknownResource answers paths below the prefix that do not exist like runs
// that do not exist.
func (h *Handler) unknownResource(r *http.Request) error {
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	_, err = h.visible(r, caller, "")
	return err
}

type resourceFunc func(h *Handler, w http.ResponseWriter, r *http.Request, id string) error

// resources is the table of section "Run resources" of the protocol.
var resources = map[string]map[string]resourceFunc{
	"":              {http.MethodGet: (*Handler).serveList},
	"active":        {http.MethodGet: (*Handler).serveActive},
	"active/events": {http.MethodGet: (*Handler).serveActiveEvents},
	"active/cancel": {http.MethodPost: (*Handler).serveActiveCancel},
	"{run}":         {http.MethodGet: (*Handler).serveRecord, http.MethodDelete: (*Handler).serveDelete},
	"{run}/events":  {http.MethodGet: (*Handler).serveEvents},
	"{run}/cancel":  {http.MethodPost: (*Handler).serveCancel},
	"{run}/steer":   {http.MethodPost: (*Handler).serveSteer},
	ticketResource:  {http.MethodPost: (*Handler).serveTicket},
}

func resourceName(id, sub string) string {
	name := id
	if id != "" && id != "active" {
		name = "{run}"
	}
	if sub != "" {
		name += "/" + sub
	}
	return name
}

// methodOf treats HEAD like GET: the server drops the body.
func methodOf(r *http.Request) string {
	if r.Method == http.MethodHead {
		return http.MethodGet
	}
	return r.Method
}

func allowOf(methods map[string]resourceFunc) string {
	allow := slices.Sorted(maps.Keys(methods))
	if _, ok := methods[http.MethodGet]; ok {
		allow = append(allow, http.MethodHead)
	}
	return strings.Join(append(allow, http.MethodOptions), ", ")
}

// noStore marks an answer that carries run data.
func noStore(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
