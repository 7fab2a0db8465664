package caddymodule

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// Guard says what clients may not send in the bodies of starts and steers: what
// belongs to the operator. Such a request is answered 403 `privileged_field`
// and reaches neither the store nor the backend. The members are those of all
// dialects, whichever the route has, and a name in other case is the same name.
// In a Caddyfile a bare `guard` is `roles user assistant`, `tools none` and
// `urls none`.
type Guard struct {
	// The roles that messages may have, such as `user` and `assistant`. A field
	// that stands for a message counts as one: `instructions` is of the role
	// system, the result of a tool of the role tool. Default: all.
	Roles []string `json:"roles,omitempty"`

	// `none` refuses definitions of tools, wherever a dialect has them: `tools`,
	// `functions`, `mcp_servers` and the like. An empty list of them passes.
	// Default: allowed.
	Tools string `json:"tools,omitempty"`

	// The models that may be named. A body that names none passes. Default: all.
	Models []string `json:"models,omitempty"`

	// Paths of members that may not be there, such as `tools` or
	// `messages.*.name`; `*` is any element of an array.
	Deny []string `json:"deny,omitempty"`

	// Members that get a value, whatever the client sends: paths, such as
	// `options.temperature`, and values. The rest of the body stays as it is.
	Set map[string]json.RawMessage `json:"set,omitempty"`

	// `none` refuses strings that are URLs outside of messages and of the
	// arguments of tools: addresses of backends, webhooks and the like.
	// Default: allowed.
	URLs string `json:"urls,omitempty"`
}

const (
	guardAllowed = "roles, tools, models, deny, set or urls"
	rolesAllowed = "names of roles, such as user, assistant, tool, system, developer"
	denyAllowed  = "paths of members, such as tools or messages.*.name"
	fixAllowed   = "<path> <value>, where a path such as options.temperature leads through objects, and a value is JSON or a word"
)

var guardOptions = map[string]option[*Guard]{
	"roles":  {parse: list(func(g *Guard) *[]string { return &g.Roles }), repeatable: true},
	"tools":  {parse: text(func(g *Guard) *string { return &g.Tools })},
	"models": {parse: list(func(g *Guard) *[]string { return &g.Models }), repeatable: true},
	"deny":   {parse: list(func(g *Guard) *[]string { return &g.Deny }), repeatable: true},
	"set":    {parse: parseFixed, repeatable: true},
	"urls":   {parse: text(func(g *Guard) *string { return &g.URLs })},
}

func parseGuard(h *Handler, b *block) error {
	h.Guard = new(Guard)
	if err := parseOptions(h.Guard, b, "guard", guardOptions); err != nil {
		return err
	}
	if h.Guard.isEmpty() {
		*h.Guard = Guard{Roles: []string{"user", "assistant"}, Tools: "none", URLs: "none"}
	}
	return nil
}

func (g *Guard) isEmpty() bool {
	return len(g.Roles)+len(g.Models)+len(g.Deny)+len(g.Set) == 0 && g.Tools == "" && g.URLs == ""
}

// parseFixed parses a path and its value; what is no JSON is a string.
func parseFixed(g *Guard, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 2 {
		return b.WrapErr(wrong("guard.set", strings.Join(args, " "), fixAllowed))
	}
	path, value := args[0], json.RawMessage(args[1])
	if _, twice := g.Set[path]; twice {
		return b.WrapErr(clash("guard.set", "%q stands twice", path))
	}
	if !json.Valid(value) {
		quoted, err := json.Marshal(args[1])
		if err != nil {
			return b.WrapErr(err)
		}
		value = quoted
	}
	if g.Set == nil {
		g.Set = make(map[string]json.RawMessage)
	}
	g.Set[path] = value
	return nil
}

func (g *Guard) check() error {
	if g == nil {
		return nil
	}
	var errs []error
	if g.isEmpty() {
		errs = append(errs, wrong("guard", "", guardAllowed))
	}
	for _, role := range g.Roles {
		if role == "" || strings.ContainsAny(role, " ,") {
			errs = append(errs, wrong("guard.roles", role, rolesAllowed))
		}
	}
	if slices.Contains(g.Models, "") {
		errs = append(errs, wrong("guard.models", "", "names of models"))
	}
	for _, path := range g.Deny {
		if !isMemberPath(path) || strings.HasPrefix(path, "*") {
			errs = append(errs, wrong("guard.deny", path, denyAllowed))
		}
	}
	for _, o := range []struct{ name, word string }{{"guard.tools", g.Tools}, {"guard.urls", g.URLs}} {
		if o.word != "" && o.word != "none" {
			errs = append(errs, wrong(o.name, o.word, "none"))
		}
	}
	return errors.Join(append(errs, g.checkFixed())...)
}

// checkFixed also refuses values that would stand inside each other: which one
// wins would be a matter of order.
func (g *Guard) checkFixed() error {
	var errs []error
	paths := slices.Sorted(maps.Keys(g.Set))
	for _, path := range paths {
		if !isMemberPath(path) || strings.Contains(path, "*") {
			errs = append(errs, wrong("guard.set", path, fixAllowed))
		}
		for _, other := range paths {
			if strings.HasPrefix(other, path+".") {
				errs = append(errs, clash("guard.set", "%q is inside of %q, which is set too", other, path))
			}
		}
	}
	return errors.Join(errs...)
}

// isMemberPath reports whether no name of a path is empty or blank; `*` is a
// name by itself.
func isMemberPath(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || strings.ContainsAny(name, " \t") || name != "*" && strings.Contains(name, "*") {
			return false
		}
	}
	return true
}

// rules translates the option.
func (g *Guard) rules() proxy.Guard {
	if g == nil {
		return proxy.Guard{}
	}
	rules := proxy.Guard{Roles: g.Roles, Models: g.Models, Deny: g.Deny, NoTools: g.Tools == "none", NoURLs: g.URLs == "none"}
	for _, path := range slices.Sorted(maps.Keys(g.Set)) {
		rules.Set = append(rules.Set, proxy.Fixed{Path: path, Value: string(g.Set[path])})
	}
	return rules
}
