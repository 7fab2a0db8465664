package caddymodule

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// host is Caddy as the engine sees it.
type host struct {
	server *caddyhttp.Server // nil outside a server
	// placeholders are carried over to detached requests.
	placeholders []string
	// resends tells that a reverse_proxy may have sent a request before the
	// attempt whose error it returns.
	resends bool
	// stripQuery takes tokens out of the query of URLs that leave for upstream;
	// nil if there are none.
	stripQuery func(raw string) string
}

// Impersonal implements proxy.Host. What handlers before us have noted is left
// out, variables and placeholders too: a user's name may stand anywhere there.
func (h *host) Impersonal(r *http.Request) *http.Request {
	to := url.URL{Scheme: r.URL.Scheme, Path: r.URL.Path, RawPath: r.URL.RawPath}
	d := &http.Request{
		Method: http.MethodGet, URL: &to, RequestURI: to.RequestURI(), Host: r.Host,
		Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Header: http.Header{}, Body: http.NoBody,
	}
	if r.TLS != nil {
		d.TLS = &tls.ConnectionState{Version: r.TLS.Version, ServerName: r.TLS.ServerName, HandshakeComplete: true}
	}
	d = caddyhttp.PrepareRequest(d, caddy.NewReplacer(), nil, h.server)
	if groups, ok := r.Context().Value(routeGroupCtxKey).(map[string]struct{}); ok {
		d = d.WithContext(context.WithValue(d.Context(), routeGroupCtxKey, maps.Clone(groups)))
	}
	return d
}

// routeGroupCtxKey is caddyhttp's own key for the route groups that are
// satisfied. Without them a detached request could enter a second handle block
// of the group it is in.
const routeGroupCtxKey caddy.CtxKey = "route_group"

// Detach implements proxy.Host. What Caddy keeps in a context is read by
// handlers and by the access log, without locks: a detached request needs its
// own of everything.
func (h *host) Detach(ctx context.Context, r *http.Request, about proxy.About) *http.Request {
	d := r.Clone(carry(ctx, r.Context()))
	d.Body, d.GetBody, d.ContentLength = http.NoBody, nil, 0
	d.TransferEncoding, d.Trailer = nil, nil
	if r.TLS != nil {
		state := *r.TLS
		d.TLS = &state
	}
	cleanHeader(d.Header)

	repl := caddy.NewReplacer()
	d = caddyhttp.PrepareRequest(d, repl, nil, h.server)
	// From here on the pointer must stay: the replacer has captured it.
	h.inherit(d, r)
	h.copyPlaceholders(repl, replacerOf(r))
	for name, value := range placeholdersOf(about) {
		repl.Set(name, value)
	}
	return d
}

// carry takes the few values of a request's context that do not change into
// another context. Everything else there leads back to the request.
func carry(ctx, from context.Context) context.Context {
	if addr, ok := from.Value(http.LocalAddrContextKey).(net.Addr); ok {
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, addr)
	}
	if span := trace.SpanContextFromContext(from); span.IsValid() && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, span)
	}
	return ctx
}

// inherit gives a detached request copies of what handlers before us have
// noted about the original.
func (h *host) inherit(d, r *http.Request) {
	ctx := d.Context()
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		to, uri := cloneURL(original.URL), original.RequestURI
		if h.stripQuery != nil && to.RawQuery != "" {
			to.RawQuery = h.stripQuery(to.RawQuery)
			uri = to.RequestURI()
		}
		ctx = context.WithValue(ctx, caddyhttp.OriginalRequestCtxKey, http.Request{
			Method: original.Method, URL: to, RequestURI: uri, RemoteAddr: original.RemoteAddr,
		})
	}
	if groups, ok := r.Context().Value(routeGroupCtxKey).(map[string]struct{}); ok {
		ctx = context.WithValue(ctx, routeGroupCtxKey, maps.Clone(groups))
	}
	*d = *d.WithContext(ctx)

	old, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	vars, _ := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	for name, value := range old {
		if name != varUUID && name != varStart {
			vars[name] = value
		}
	}
	if _, ok := old[varUUID]; ok {
		// Its value is made on first use and not safe to share.
		id, _ := replacerOf(r).Get("http.request.uuid")
		replacerOf(d).Set("http.request.uuid", id)
	}
}

// Variables that caddyhttp keeps for one request.
const (
	varUUID  = "uuid"
	varStart = "start_time"
)

func cloneURL(u *url.URL) *url.URL {
	if u == nil {
		return new(url.URL)
	}
	clone := *u
	return &clone
}

// copyPlaceholders copies the values that handlers before us have set and that
// the configuration names.
func (h *host) copyPlaceholders(to, from *caddy.Replacer) {
	for _, name := range h.placeholders {
		if value, ok := from.Get(name); ok {
			to.Set(name, value)
		}
	}
}

// dropped are fields that concern the connection of the original request, or
// ask its server for something.
var dropped = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Content-Length",
}

// cleanHeader leaves what may be sent to upstream. An encoded stream could not
// be cut into frames before it is decoded.
func cleanHeader(head http.Header) {
	for _, list := range head["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			head.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range dropped {
		head.Del(name)
	}
	head.Set("Accept-Encoding", "identity")
}

func placeholdersOf(a proxy.About) map[string]any {
	return map[string]any{
		"http.agent_runs.run_id":          a.RunID,
		"http.agent_runs.conversation_id": a.ConversationID,
		"http.agent_runs.attempt":         a.Attempt,
		"http.agent_runs.state":           a.State,
		"http.agent_runs.subject":         a.Subject,
	}
}

// Annotate implements proxy.Host. It must be called by the goroutine that
// serves r: the fields of the access log have no lock.
func (h *host) Annotate(r *http.Request, about proxy.About) {
	repl := replacerOf(r)
	for name, value := range placeholdersOf(about) {
		repl.Set(name, value)
	}
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.String("run_id", about.RunID))
		extra.Set(zap.String("conversation_id", about.ConversationID))
	}
}

// short are the placeholders that may be written without their prefix inside
// the directive.
var short = map[string]string{
	"run_id":          "http.agent_runs.run_id",
	"conversation_id": "http.agent_runs.conversation_id",
}

const responseHeader = "http.response.header."

// Expand implements proxy.Host.
func (h *host) Expand(r *http.Request, template string, header http.Header) string {
	repl := replacerOf(r)
	text, err := repl.ReplaceFunc(template, func(name string, value any) (any, error) {
		if field, ok := strings.CutPrefix(name, responseHeader); ok && header != nil {
			return strings.Join(header.Values(field), ","), nil
		}
		if full, ok := short[name]; ok {
			value, _ = repl.Get(full)
		}
		return value, nil
	})
	if err != nil {
		return ""
	}
	return text
}

// noUpstream is the text of reverseproxy's unexported error for a pool in
// which no upstream is available.
const noUpstream = "no upstreams available"

// Undelivered implements proxy.Host. Behind a reverse_proxy that sends requests
// again, the last attempt proves nothing about the first.
func (h *host) Undelivered(err error) bool {
	if h.resends {
		return false
	}
	if _, ok := errors.AsType[reverseproxy.DialError](err); ok {
		return true
	}
	failed, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && failed.StatusCode == http.StatusServiceUnavailable && failed.Err != nil && failed.Err.Error() == noUpstream
}

// HandlesErrors implements proxy.Host. It asks the routes of handle_errors what
// they would do, since Caddy answers with an empty body when there are such
// routes and none of them matches.
func (h *host) HandlesErrors(r *http.Request, status int) bool {
	if h.server == nil || h.server.Errors == nil {
		return false
	}
	probe := h.Detach(context.Background(), r, proxy.About{})
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		// Error routes see the request before rewrites.
		probe.Method, probe.URL, probe.RequestURI = original.Method, cloneURL(original.URL), original.RequestURI
	}
	cause := caddyhttp.Error(status, errors.New(http.StatusText(status)))
	return anyHandles(h.server.Errors.Routes, h.server.Errors.WithError(probe, cause))
}

// anyHandles reports whether one of the routes matches and has a handler.
func anyHandles(routes caddyhttp.RouteList, r *http.Request) bool {
	for _, route := range routes {
		if matches, err := route.MatcherSets.AnyMatchWithError(r); err != nil || !matches {
			continue
		}
		for _, handler := range route.Handlers {
			if sub, ok := handler.(*caddyhttp.Subroute); !ok || anyHandles(sub.Routes, r) {
				return true
			}
		}
		if route.Terminal {
			return false
		}
	}
	return false
}

// Error implements proxy.Host.
func (h *host) Error(status int, err error) error { return caddyhttp.Error(status, err) }

// OriginalPath implements proxy.Host.
func (h *host) OriginalPath(r *http.Request) string {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || original.URL == nil {
		return r.URL.Path
	}
	return original.URL.Path
}

var _ proxy.Host = (*host)(nil)
