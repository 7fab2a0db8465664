package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// sites are the servers of one configuration that were looked at. Caddy
// provisions in one goroutine.
type sites map[*caddyhttp.Server]*site

// site is what the handlers of one server have to know about their
// neighbours.
type site struct {
	// retries tells that a reverse_proxy that retries can follow an agent_runs.
	retries bool
	// resends tells that one of them may send a request again that an upstream
	// has already seen.
	resends bool
	// placeholders are named in the configuration and may come from handlers
	// before an agent_runs.
	placeholders []string
}

// of looks at a server once. At the first agent_runs everything that follows it
// is still there in raw form: Caddy drops the raw form of a route after all its
// handlers are provisioned, in order.
func (s *sites) of(server *caddyhttp.Server) (site *site, first bool, err error) {
	if known, ok := (*s)[server]; ok {
		return known, false, nil
	}
	if *s == nil {
		*s = make(sites)
	}
	site, err = survey(server)
	(*s)[server] = site
	return site, true, err
}

// survey reads the routes of a server. A nil server has none.
func survey(server *caddyhttp.Server) (*site, error) {
	v := &visitor{site: new(site), named: make(map[string]chainRoute)}
	if server == nil {
		v.site.placeholders = []string{authUser}
		return v.site, nil
	}
	names := map[string]bool{authUser: true}
	for name, route := range server.NamedRoutes {
		v.named[name] = readRoute(*route)
		scanPlaceholders(route.HandlersRaw, names)
	}
	routes := make([]chainRoute, 0, len(server.Routes))
	for _, route := range server.Routes {
		routes = append(routes, readRoute(route))
		scanPlaceholders(route.HandlersRaw, names)
	}
	v.site.placeholders = slices.Sorted(maps.Keys(names))
	v.visit(routes, nil)
	for _, name := range slices.Sorted(maps.Keys(v.named)) {
		v.visit([]chainRoute{v.named[name]}, nil)
	}
	return v.site, v.err
}

// chainRoute is a route as far as the order of handlers goes.
type chainRoute struct {
	group    string
	matched  bool // it has matchers
	terminal bool
	handlers []chainHandler
}

type chainHandler struct {
	kind   string
	routes []chainRoute // of a subroute
	name   string       // of an invoke
	retry  bool         // of a reverse_proxy
	resend bool
}

func readRoute(r caddyhttp.Route) chainRoute {
	return chainRoute{
		group: r.Group, terminal: r.Terminal, handlers: readHandlers(r.HandlersRaw),
		// Caddy has loaded the matchers of top-level routes by now.
		matched: len(r.MatcherSetsRaw)+len(r.MatcherSets) > 0,
	}
}

// readHandlers never fails: what it cannot read Caddy itself will complain
// about.
func readHandlers(raw []json.RawMessage) []chainHandler {
	handlers := make([]chainHandler, 0, len(raw))
	for _, text := range raw {
		var kind struct {
			Handler string `json:"handler"`
		}
		if json.Unmarshal(text, &kind) == nil {
			h := chainHandler{kind: kind.Handler}
			h.readDetails(text)
			handlers = append(handlers, h)
		}
	}
	return handlers
}

func (h *chainHandler) readDetails(text json.RawMessage) {
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

// visitor walks chains of handlers and notes what follows each agent_runs.
type visitor struct {
	site  *site
	named map[string]chainRoute
	depth int
	err   error
}

// maxDepth ends the walk through named routes that invoke each other.
const maxDepth = 20

// visit looks at a list of routes; outer are the lists of what follows it, the
// nearest first.
func (v *visitor) visit(routes []chainRoute, outer [][]chainRoute) {
	if v.depth >= maxDepth {
		return
	}
	v.depth++
	defer func() { v.depth-- }()
	for i, route := range routes {
		for j, handler := range route.handlers {
			after := append([]chainRoute{{handlers: route.handlers[j+1:]}}, later(routes, i)...)
			follow := append([][]chainRoute{after}, outer...)
			if handler.kind == "agent_runs" {
				v.found(route, after, follow)
				continue
			}
			v.visit(v.inner(handler), follow)
		}
	}
}

// inner are the routes inside a handler.
func (v *visitor) inner(h chainHandler) []chainRoute {
	if named, ok := v.named[h.name]; ok && h.kind == "invoke" {
		return []chainRoute{named}
	}
	return h.routes
}

// later are the routes of a list that can be reached from route i. Of a group
// only the first that matches is.
func later(routes []chainRoute, i int) []chainRoute {
	if routes[i].terminal {
		return nil
	}
	var rest []chainRoute
	for _, r := range routes[i+1:] {
		if r.group == "" || r.group != routes[i].group {
			rest = append(rest, r)
		}
	}
	return rest
}

// errTwice is a chain that a request could pass twice. Where two routes depend
// on matchers nobody can tell, and the inner handler lets requests pass that
// belong to a run.
var errTwice = errors.New("two agent_runs in one chain: a matcher narrows what may start a run and does not keep the two apart; put each into a handle block of its own")

func (v *visitor) found(route chainRoute, after []chainRoute, follow [][]chainRoute) {
	if always, sometimes := v.again(after, false); always || sometimes && !route.matched {
		v.err = errTwice
	}
	for _, list := range follow {
		if proxies := v.proxies(list); len(proxies) > 0 {
			for _, p := range proxies {
				v.site.retries = v.site.retries || p.retry
				v.site.resends = v.site.resends || p.resend
			}
			return // nothing comes after the nearest reverse_proxy
		}
	}
}

// again reports whether another agent_runs is among routes: for every request,
// or for those that matchers let through.
func (v *visitor) again(routes []chainRoute, matched bool) (always, sometimes bool) {
	v.each(routes, matched, func(h chainHandler, matched bool) {
		if h.kind == "agent_runs" {
			always, sometimes = always || !matched, true
		}
	})
	return always, sometimes
}

// proxies returns every reverse_proxy in routes.
func (v *visitor) proxies(routes []chainRoute) []chainHandler {
	var found []chainHandler
	v.each(routes, false, func(h chainHandler, _ bool) {
		if h.kind == "reverse_proxy" {
			found = append(found, h)
		}
	})
	return found
}

// each calls f for every handler at any depth.
func (v *visitor) each(routes []chainRoute, matched bool, f func(h chainHandler, matched bool)) {
	if v.depth >= maxDepth {
		return
	}
	v.depth++
	defer func() { v.depth-- }()
	for _, r := range routes {
		for _, h := range r.handlers {
			f(h, matched || r.matched)
			v.each(v.inner(h), matched || r.matched, f)
		}
	}
}

// authUser is what Caddy's authentication sets. Handlers read it although no
// configuration names it: php_fastcgi makes REMOTE_USER of it.
const authUser = "http.auth.user.id"

var placeholder = regexp.MustCompile(`\{([a-zA-Z][\w.:/-]*)\}`)

// ownPlaceholders are known to every request by itself.
var ownPlaceholders = []string{
	"http.request.", "http.vars.", "http.response.", "http.reverse_proxy.", "http.intercept.", "http.error.",
	"http.agent_runs.", "http.shutting_down", "http.time_until_shutdown", "env.", "file.", "system.", "time.",
}

// scanPlaceholders collects the placeholders that a configuration names. Those
// of a request cannot be listed, so what may be needed later has to be known
// by name.
func scanPlaceholders(raw []json.RawMessage, names map[string]bool) {
	for _, text := range raw {
		for _, match := range placeholder.FindAllSubmatch(text, -1) {
			name := string(match[1])
			own := slices.ContainsFunc(ownPlaceholders, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
			if !own {
				names[name] = true
			}
		}
	}
}

// String implements fmt.Stringer.
func (s *site) String() string {
	return fmt.Sprintf("retries %t, resends %t, placeholders %v", s.retries, s.resends, s.placeholders)
}
