package caddymodule

import (
	"encoding/json"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Readers outlive the configuration that let them in. What decides about them
// is the newest one: when it has other rules for their place, they are told to
// come back. A place is an agent_runs with all that leads to it: listeners and
// matchers. Two configurations have the same rules for a place if both say the
// same there, word for word.

// rulebook knows which rules are in force.
type rulebook struct {
	mu    sync.Mutex // guards valid
	valid map[string]chan struct{}
}

// watch returns what is closed when a rule is no longer in force.
func (b *rulebook) watch(rule string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.valid == nil {
		b.valid = make(map[string]chan struct{})
	}
	if b.valid[rule] == nil {
		b.valid[rule] = make(chan struct{})
	}
	return b.valid[rule]
}

// replace puts the rules of a new configuration in force.
func (b *rulebook) replace(rules map[*Handler]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	stay := make(map[string]chan struct{}, len(rules))
	for _, rule := range rules {
		if c := b.valid[rule]; c != nil {
			stay[rule] = c
		}
	}
	for rule, c := range b.valid {
		if stay[rule] == nil {
			close(c)
		}
	}
	b.valid = stay
}

// rules returns what the handlers of a configuration say about who may. It must
// not be called before all of them are provisioned.
func (a *App) rules() map[*Handler]string {
	a.lookOnce.Do(func() {
		a.ruled = make(map[*Handler]string, len(a.handlers))
		seen := make(map[*caddyhttp.Server]bool)
		for _, h := range a.handlers {
			a.ruled[h] = h.rule("") // for places that cannot be seen
			if server := h.host.server; server != nil && !seen[server] {
				seen[server] = true
				for name, route := range server.NamedRoutes {
					a.walk(caddyhttp.RouteList{*route}, "named "+name)
				}
				a.walk(server.Routes, inWords(server.Listen))
			}
		}
	})
	return a.ruled
}

// walk follows routes to the handlers in them.
func (a *App) walk(routes caddyhttp.RouteList, place string) {
	for _, route := range routes {
		place := place + " " + inWords(route.MatcherSets)
		for _, handler := range route.Handlers {
			switch handler := handler.(type) {
			case *caddyhttp.Subroute:
				a.walk(handler.Routes, place)
			case *Handler:
				a.ruled[handler] = handler.rule(place)
			}
		}
	}
}

// rule is what decides who may, at a place.
func (h *Handler) rule(place string) string {
	return place + " " + inWords([]any{h.Realm, h.identity(), h.acl(), h.Expiry})
}

// inWords returns a value as JSON; what has none is not compared.
func inWords(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
