package chain

import "errors"

// visitor walks chains of handlers and notes what follows each agent_runs.
type visitor struct {
	survey *Survey
	named  map[string]route
	depth  int
	err    error
}

// maxDepth ends the walk through named routes that invoke each other.
const maxDepth = 10

// visit looks at a list of routes; outer are the lists of what follows it, the
// nearest first.
func (v *visitor) visit(routes []route, outer [][]route) {
	if v.depth >= maxDepth {
		return
	}
	v.depth++
	defer func() { v.depth-- }()
	for i, r := range routes {
		for j, h := range r.handlers {
			after := append([]route{{handlers: r.handlers[j+1:]}}, later(routes, i)...)
			follow := append([][]route{after}, outer...)
			if h.kind == "agent_runs" {
				v.found(r, after, follow)
				continue
			}
			v.visit(v.inner(h), follow)
		}
	}
}

// inner are the routes inside a handler.
func (v *visitor) inner(h handler) []route {
	if named, ok := v.named[h.name]; ok && h.kind == "invoke" {
		return []route{named}
	}
	return h.routes
}

// later are the routes of a list that can be reached from route i. Of a group
// only the first that matches is.
func later(routes []route, i int) []route {
	if routes[i].terminal {
		return nil
	}
	var rest []route
	for _, r := range routes[i+1:] {
		if r.group == "" || r.group != routes[i].group {
			rest = append(rest, r)
		}
	}
	return rest
}

// ErrTwice is a chain that a request could pass twice. Where two routes depend
// on matchers nobody can tell, and the inner handler lets requests pass that
// belong to a run.
var ErrTwice = errors.New("two agent_runs in one chain: a matcher narrows what may start a run and does not keep the two apart; put each into a handle block of its own")

func (v *visitor) found(r route, after []route, follow [][]route) {
	if always, sometimes := v.again(after); always || sometimes && !r.matched {
		v.err = ErrTwice
	}
	for _, list := range follow {
		if proxies := v.proxies(list); len(proxies) > 0 {
			for _, p := range proxies {
				v.survey.Retries = v.survey.Retries || p.retry
				v.survey.Resends = v.survey.Resends || p.resend
			}
			return // nothing comes after the nearest reverse_proxy
		}
	}
}

// again reports whether another agent_runs is among routes: for every request,
// or for those that matchers let through.
func (v *visitor) again(routes []route) (always, sometimes bool) {
	v.each(routes, false, func(h handler, matched bool) {
		if h.kind == "agent_runs" {
			always, sometimes = always || !matched, true
		}
	})
	return always, sometimes
}

// proxies returns every reverse_proxy in routes.
func (v *visitor) proxies(routes []route) []handler {
	var found []handler
	v.each(routes, false, func(h handler, _ bool) {
		if h.kind == "reverse_proxy" {
			found = append(found, h)
		}
	})
	return found
}

// each calls f for every handler at any depth.
func (v *visitor) each(routes []route, matched bool, f func(h handler, matched bool)) {
	if v.depth >= maxDepth {
		return
	}
	v.depth++
	defer func() { v.depth-- }()
	for _, r := range routes {
		chosen := matched || r.matched || r.group != "" // of a group another may be taken
		for _, h := range r.handlers {
			f(h, chosen)
			v.each(v.inner(h), chosen, f)
		}
	}
}
