package caddymodule

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

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
