package chain

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Survey is what an agent_runs has to know about its neighbours.
type Survey struct {
	// Retries tells that a reverse_proxy that retries can follow an agent_runs.
	Retries bool
	// Resends tells that one of them may send a request again that an upstream
	// has already seen.
	Resends bool
	// Placeholders are named in the configuration and may be set by handlers
	// before an agent_runs, in order.
	Placeholders []string
}

// Look reads the routes of a server; a nil server has none. It must be called
// while the first agent_runs of the server is provisioned: Caddy drops the raw
// form of a route after all its handlers are provisioned, in order, so that
// everything that follows is still there. It returns [ErrTwice] for a chain
// that a request would pass twice.
func Look(server *caddyhttp.Server) (*Survey, error) {
	v := &visitor{survey: new(Survey), named: make(map[string]route)}
	if server == nil {
		v.survey.Placeholders = []string{authUser}
		return v.survey, nil
	}
	names := map[string]bool{authUser: true}
	for name, r := range server.NamedRoutes {
		v.named[name] = readRoute(*r)
		scanPlaceholders(r.HandlersRaw, names)
	}
	routes := make([]route, 0, len(server.Routes))
	for _, r := range server.Routes {
		routes = append(routes, readRoute(r))
		scanPlaceholders(r.HandlersRaw, names)
	}
	v.survey.Placeholders = slices.Sorted(maps.Keys(names))
	v.visit(routes, nil)
	for _, name := range slices.Sorted(maps.Keys(v.named)) {
		v.visit([]route{v.named[name]}, nil)
	}
	return v.survey, v.err
}

// route is a route as far as the order of handlers goes.
type route struct {
	group    string
	matched  bool // it has matchers
	terminal bool
	handlers []handler
}

type handler struct {
	kind   string
	routes []route // of a subroute
	name   string  // of an invoke
	retry  bool    // of a reverse_proxy
	resend bool
}

func readRoute(r caddyhttp.Route) route {
	return route{
		group: r.Group, terminal: r.Terminal, handlers: readHandlers(r.HandlersRaw),
		// Caddy has loaded the matchers of top-level routes by now.
		matched: len(r.MatcherSetsRaw)+len(r.MatcherSets) > 0,
	}
}

// readHandlers never fails: what it cannot read Caddy itself will complain
// about.
func readHandlers(raw []json.RawMessage) []handler {
	handlers := make([]handler, 0, len(raw))
	for _, text := range raw {
		var kind struct {
			Handler string `json:"handler"`
		}
		if json.Unmarshal(text, &kind) == nil {
			h := handler{kind: kind.Handler}
			h.readDetails(text)
			handlers = append(handlers, h)
		}
	}
	return handlers
}

func (h *handler) readDetails(text json.RawMessage) {
	switch h.kind {
	case "subroute":
		var subroute caddyhttp.Subroute
		if json.Unmarshal(text, &subroute) == nil {
			for _, r := range subroute.Routes {
				h.routes = append(h.routes, readRoute(r))
			}
		}
	case "invoke":
		var invoke caddyhttp.Invoke
		if json.Unmarshal(text, &invoke) == nil {
			h.name = invoke.Name
		}
	case "reverse_proxy":
		var proxy struct {
			LoadBalancing struct {
				Retries     int               `json:"retries"`
				TryDuration caddy.Duration    `json:"try_duration"`
				RetryMatch  []json.RawMessage `json:"retry_match"`
			} `json:"load_balancing"`
		}
		if json.Unmarshal(text, &proxy) == nil {
			lb := proxy.LoadBalancing
			h.retry = lb.Retries > 0 || lb.TryDuration > 0
			h.resend = h.retry && len(lb.RetryMatch) > 0
		}
	}
}
