package caddymodule

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// Call says how a call about a run reaches the backend.
type Call struct {
	// `auto` leaves it to the dialect; `close` (for cancel) closes the connection
	// instead, `off` (for status and reattach) makes no call. Default: auto, or the call below
	// if there is one.
	Kind string `json:"kind,omitempty"`

	// The method of the call.
	Method string `json:"method,omitempty"`

	// The path of the call, which goes through the handlers that follow, or an
	// absolute URL. `{upstream_id}`, `{upstream_run_id}`, `{conversation_id}` and
	// `{run_id}` are one escaped segment each, `{start_path}` is the path of the
	// request that started the run. For reattach, `{position}` is upstream's own
	// name of the last frame that arrived; without it that goes in the field
	// Last-Event-ID. The scheme and the host of a URL have no
	// placeholders.
	Target string `json:"target,omitempty"`

	// Header fields of a call to an absolute URL. Placeholders such as
	// `{env.KEY}` are resolved when the configuration is loaded.
	Headers map[string]string `json:"headers,omitempty"`
}

// callOption is what the options that are calls have not in common.
type callOption struct {
	name, none string // the word for no call, if there is one
	word       string // before method and target, if any
	methods    []string
	variables  []string // beside those of all calls
	allowed    string
}

var (
	cancelOption = callOption{
		name: "cancel", none: "close", word: "call", methods: []string{"POST", "PUT", "PATCH", "DELETE"},
		allowed: "auto, close, call <method> <path or URL>",
	}
	steerOption = callOption{
		name: "steer", methods: []string{"POST", "PUT", "PATCH"}, allowed: "<method> <path or URL>",
	}
	statusOption = callOption{
		name: "status", none: "off", methods: []string{"GET", "POST"}, allowed: "auto, off, <method> <path or URL>",
	}
	reattachOption = callOption{
		name: "reattach", none: "off", methods: []string{"GET", "POST"}, variables: []string{"position"},
		allowed: "auto, off, <method> <path or URL>",
	}
)

// parse parses the option and the block of its header fields.
func (o callOption) parse(field func(*Handler) **Call) func(*Handler, *block) error {
	return func(h *Handler, b *block) error {
		args := b.RemainingArgs()
		bad := b.WrapErr(wrong(o.name, strings.Join(args, " "), o.allowed))
		c := new(Call)
		*field(h) = c
		if len(args) == 1 && o.word == "" && o.none == "" || len(args) == 0 {
			return bad
		}
		if len(args) == 1 {
			c.Kind = args[0] // which words there are is checked later
			return nil
		}
		if o.word != "" {
			if args[0] != o.word {
				return bad
			}
			args = args[1:]
		}
		if len(args) != 2 {
			return bad
		}
		c.Method, c.Target = args[0], args[1]
		inner := b.inner(o.name)
		return inner.each(func(name string) error {
			if name != "header" {
				return inner.unrecognized("option", name, []string{"header"})
			}
			pair := inner.RemainingArgs()
			if len(pair) != 2 {
				return inner.WrapErr(wrong(o.name+".header", strings.Join(pair, " "), "<name> <value>"))
			}
			if c.Headers == nil {
				c.Headers = make(map[string]string)
			}
			c.Headers[pair[0]] = pair[1]
			return nil
		})
	}
}

// callVariables are the placeholders of a target.
var callVariables = []string{"upstream_id", "upstream_run_id", "conversation_id", "run_id", "start_path"}

func (o callOption) targetAllowed() string {
	var names strings.Builder
	for _, name := range slices.Concat(callVariables, o.variables) {
		names.WriteString(" {" + name + "}")
	}
	return "a path such as /runs/{upstream_id}/" + o.name + ", or an http or https URL; the placeholders are" +
		names.String() + ", and none stands in scheme and host"
}

// check looks at one option; a nil call is not set.
func (o callOption) check(c *Call) error {
	switch {
	case c == nil:
		return nil
	case c.Target == "" && c.Method == "" && len(c.Headers) == 0:
		if c.Kind == "" || c.Kind == "auto" && o.none != "" || c.Kind == o.none {
			return nil
		}
		return wrong(o.name, c.Kind, o.allowed)
	case c.Kind != "":
		return clash(o.name, "%s does not go with a call", c.Kind)
	}
	var errs []error
	if !slices.Contains(o.methods, c.Method) {
		errs = append(errs, wrong(o.name, c.Method, "the methods "+strings.Join(o.methods, ", ")))
	}
	if !o.isTarget(c.Target) || !isLiteralOrigin(c.Target) {
		errs = append(errs, wrong(o.name, c.Target, o.targetAllowed()))
	}
	return errors.Join(append(errs, o.checkHeaders(c))...)
}

func (o callOption) checkHeaders(c *Call) error {
	if len(c.Headers) > 0 && !strings.Contains(c.Target, "://") {
		return clash(o.name, "headers go with an absolute URL; those of a path are added by header_up of what follows")
	}
	var errs []error
	for name, value := range c.Headers {
		switch {
		case !isFieldName(name):
			errs = append(errs, wrong(o.name+".header", name, "names of request headers"))
		case slices.Contains([]string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection"}, textproto.CanonicalMIMEHeaderKey(name)):
			errs = append(errs, clash(o.name+".header", "found %q, which the call sets itself", name))
		case strings.ContainsAny(value, "\r\n\x00"):
			errs = append(errs, clash(o.name+".header", "the value of %s has a line break", name))
		}
	}
	return errors.Join(errs...)
}

// isTarget reports whether a template is a path or an absolute URL with
// placeholders that are known and stand where they may.
func (o callOption) isTarget(target string) bool {
	for _, name := range proxy.Variables(target) {
		if !slices.Contains(callVariables, name) && !slices.Contains(o.variables, name) {
			return false
		}
		value := "x"
		if name == "start_path" {
			value = "/x"
		}
		target = strings.ReplaceAll(target, "{"+name+"}", value)
	}
	if strings.ContainsAny(target, "{}# \\") {
		return false
	}
	u, err := url.Parse(target)
	if err != nil || slices.Contains(strings.Split(u.Path, "/"), "..") {
		return false
	}
	if strings.HasPrefix(target, "/") {
		return u.Host == ""
	}
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// isLiteralOrigin reports whether no placeholder stands before the path of a
// URL.
func isLiteralOrigin(target string) bool {
	_, rest, absolute := strings.Cut(target, "://")
	if !absolute {
		return true
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	authority, _, _ = strings.Cut(authority, "{start_path}")
	return !strings.Contains(authority, "{")
}

// way translates the option.
func (c *Call) way() proxy.Way {
	if c == nil {
		return proxy.Way{}
	}
	w := proxy.Way{Off: c.Kind == "close" || c.Kind == "off", Method: c.Method, Target: c.Target}
	if len(c.Headers) > 0 {
		repl := caddy.NewReplacer()
		w.Header = make(http.Header, len(c.Headers))
		for name, value := range c.Headers {
			w.Header.Set(name, repl.ReplaceAll(value, ""))
		}
	}
	return w
}
