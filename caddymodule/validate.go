package caddymodule

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// Validate implements caddy.Validator. It tells every mistake at once.
func (h *Handler) Validate() error {
	_, record := h.app.retention()
	return errors.Join(h.check(), h.checkApp(record, h.app.Store.memory()))
}

// check looks at every option by itself and at those that have to go together.
// The Caddyfile parser uses it too.
func (h *Handler) check() error {
	return errors.Join(
		h.checkStart(), h.checkAPI(), h.checkResumePath(), h.checkConversation(), h.checkDialect(), h.checkWords(),
		h.identity().check(), h.checkACL(), h.checkHeaders(), h.checkDurations(), h.checkRelations(),
		cancelOption.check(h.Cancel), steerOption.check(h.Steer), statusOption.check(h.Status), reattachOption.check(h.Reattach), h.Tools.check(),
		h.Idempotency.check(), h.OnDisconnect.check(), h.Limits.check(), h.Guard.check(), h.checkCORS(),
	)
}

// startMethods may start a run. A HEAD or OPTIONS request never does.
var startMethods = []string{"GET", "POST", "PUT", "PATCH"}

const startAllowed = "[<methods>] <paths>, where a method is GET, POST, PUT or PATCH and a path begins with / and may end in *"

func (h *Handler) checkStart() error {
	var errs []error
	for _, s := range h.Start {
		if len(s.Paths) == 0 {
			errs = append(errs, wrong("start", strings.Join(s.Methods, " "), startAllowed))
		}
		for _, m := range s.Methods {
			if !slices.Contains(startMethods, m) {
				errs = append(errs, wrong("start", m, startAllowed))
			}
		}
		for _, p := range s.Paths {
			if plain := strings.TrimSuffix(p, "*"); !strings.HasPrefix(p, "/") || strings.ContainsAny(plain, "*?#{} ") {
				errs = append(errs, wrong("start", p, startAllowed))
			}
		}
	}
	return errors.Join(errs...)
}

func (h *Handler) checkAPI() error {
	if a := h.API; a != "" && (a == "/" || !strings.HasPrefix(a, "/") || path.Clean(a) != a || strings.ContainsAny(a, "*?#{}% ")) {
		return wrong("api", a, "a path such as /_runs, without a slash at its end")
	}
	return nil
}

const resumeAllowed = "auto, off, or a path in which whole segments are {conversation_id} or {upstream_run_id}"

func (h *Handler) checkResumePath() error {
	var errs []error
	for _, p := range h.ResumePath {
		switch {
		case p == "off" && len(h.ResumePath) > 1:
			errs = append(errs, clash("resume_path", "off does not go with other paths"))
		case p == "auto" || p == "off":
		case !isTemplate(p, "conversation_id", "upstream_run_id"):
			errs = append(errs, wrong("resume_path", p, resumeAllowed))
		}
	}
	return errors.Join(errs...)
}

// isTemplate reports whether p is a path in which whole segments may be one of
// the named placeholders and at least one is.
func isTemplate(p string, names ...string) bool {
	found := false
	for i, segment := range strings.Split(p, "/") {
		name, open := strings.CutPrefix(segment, "{")
		name, closed := strings.CutSuffix(name, "}")
		switch {
		case i == 0 && segment != "":
			return false
		case open && closed && slices.Contains(names, name):
			found = true
		case i > 0 && segment == "", strings.ContainsAny(segment, "{}*?# "):
			return false
		}
	}
	return found
}

const conversationAllowed = "header <name>, query <name>, body <JSON path>, path <template with {conversation_id}>"

func (h *Handler) checkConversation() error {
	var errs []error
	for _, c := range h.Conversation {
		ok := false
		switch c.In {
		case "header":
			ok = isFieldName(c.Name)
		case "query", "body":
			ok = c.Name != "" && !strings.ContainsAny(c.Name, " {}")
		case "path":
			ok = isTemplate(c.Name, "conversation_id")
		}
		if !ok {
			errs = append(errs, wrong("conversation", strings.TrimSpace(c.In+" "+c.Name), conversationAllowed))
		}
	}
	return errors.Join(errs...)
}

// checkWords looks at the options that are one of a few words.
func (h *Handler) checkWords() error {
	var errs []error
	one := func(option, found string, allowed ...string) {
		if found != "" && !slices.Contains(allowed, found) {
			errs = append(errs, wrong(option, found, strings.Join(allowed, ", ")))
		}
	}
	one("conversation_busy", h.ConversationBusy, "auto", "reject", "replace", "queue", "allow")
	one("expiry", h.Expiry, "lenient", "strict")
	one("side_effects", h.SideEffects, "possible", "none")
	return errors.Join(errs...)
}

// neverReplayed are response headers that belong to the first delivery alone:
// replaying them would hand one client's cookies and challenges to another.
var neverReplayed = []string{"set-cookie", "set-cookie2", "www-authenticate", "proxy-authenticate", "date", "content-length", "transfer-encoding", "connection"}

func (h *Handler) checkHeaders() error {
	var errs []error
	for _, name := range h.ReplayHeaders {
		lower := strings.ToLower(name)
		switch {
		case !isFieldName(name):
			errs = append(errs, wrong("replay_headers", name, "names of response headers"))
		case slices.Contains(neverReplayed, lower) || strings.HasPrefix(lower, "access-control-"):
			errs = append(errs, clash("replay_headers", "found %q, which belongs to the first delivery and is never stored", name))
		}
	}
	return errors.Join(errs...)
}

func (h *Handler) checkDurations() error {
	var errs []error
	positive := func(option string, d caddy.Duration) {
		if d < 0 {
			errs = append(errs, wrong(option, words(time.Duration(d)), "a duration above 0"))
		}
	}
	positive("cancel_deadline", h.CancelDeadline)
	positive("queue_timeout", h.QueueTimeout)
	positive("deadline", h.Deadline)
	positive("response_header_timeout", h.ResponseHeaderTimeout)
	positive("stream_idle_timeout", h.StreamIdleTimeout)
	positive("frame_idle_timeout", h.FrameIdleTimeout)
	positive("early_headers", h.EarlyHeaders)
	positive("recheck", h.Recheck)
	if h.ImplicitRetry != nil {
		positive("implicit_retry", *h.ImplicitRetry)
	}
	if h.Keepalive != nil {
		positive("keepalive", *h.Keepalive)
	}
	return errors.Join(errs...)
}

// checkRelations looks at options that have to go together. An option is only
// to blame if somebody wrote it: defaults give way.
func (h *Handler) checkRelations() error {
	c := h.config()
	var errs []error
	if h.Keepalive != nil && c.Keepalive > 0 {
		for _, limit := range []struct {
			option string
			after  time.Duration
		}{
			{"response_header_timeout", c.HeaderTimeout},
			{"stream_idle_timeout", c.StreamIdle},
			{"frame_idle_timeout", c.FrameIdle},
		} {
			if c.Keepalive >= limit.after {
				errs = append(errs, clash("keepalive", "%s is not shorter than %s %s: no reader would ever get one", words(c.Keepalive), limit.option, words(limit.after)))
			}
		}
	}
	if c.EarlyHeaders >= c.HeaderTimeout {
		errs = append(errs, clash("early_headers", "%s is not shorter than response_header_timeout %s", words(c.EarlyHeaders), words(c.HeaderTimeout)))
	}
	return errors.Join(errs...)
}

func (i *Idempotency) check() error {
	if i == nil {
		return nil
	}
	var errs []error
	if i.Window < 0 {
		errs = append(errs, wrong("idempotency.window", words(time.Duration(i.Window)), "a duration above 0"))
	}
	if i.OnRunning != "" && i.OnRunning != "attach" && i.OnRunning != "conflict" {
		errs = append(errs, wrong("idempotency.on_running", i.OnRunning, "attach, conflict"))
	}
	return errors.Join(errs...)
}

func (t *Tools) check() error {
	if t == nil {
		return nil
	}
	var errs []error
	for option, patterns := range map[string][]string{"tools.read_only": t.ReadOnly, "tools.idempotent": t.Idempotent} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				errs = append(errs, wrong(option, p, "names of tools, in which * stands for any characters"))
			}
		}
	}
	return errors.Join(errs...)
}

func (o *OnDisconnect) check() error {
	switch {
	case o == nil:
		return nil
	case o.Action != "" && o.Action != "continue" && o.Action != "cancel":
		return wrong("on_disconnect", o.Action, onDisconnectAllowed)
	case o.After < 0:
		return wrong("on_disconnect", words(time.Duration(o.After)), "cancel after a duration above 0")
	case o.After > 0 && o.Action != "cancel":
		return clash("on_disconnect", "only cancel takes a duration")
	}
	return nil
}

// maxFrame keeps a frame within an int on every platform.
const maxFrame = 1<<31 - 1

func (l *Limits) check() error {
	if l == nil {
		return nil
	}
	var errs []error
	for _, n := range []struct {
		option, allowed string
		count           int
	}{
		{"active_runs_per_subject", "a number, 0 for no limit", l.ActiveRunsPerSubject},
		{"readers_per_run", "a number above 0", l.ReadersPerRun},
		{"run_frames", "a number above 0", l.RunFrames},
	} {
		if n.count < 0 {
			errs = append(errs, wrong("limits."+n.option, strconv.Itoa(n.count), n.allowed))
		}
	}
	for _, s := range []struct {
		option string
		size   Size
	}{{"request_body", l.RequestBody}, {"frame", l.Frame}, {"run_bytes", l.RunBytes}} {
		if s.size < 0 || s.option == "frame" && s.size > maxFrame {
			errs = append(errs, wrong("limits."+s.option, s.size.String(), "a size above 0 and below 2GiB"))
		}
	}
	if runBytes := l.runBytes(); l.Frame > runBytes {
		errs = append(errs, clash("limits.frame", "%v is more than run_bytes %v: such a frame could not be stored", l.Frame, runBytes))
	}
	return errors.Join(errs...)
}

// checkCORS looks at the origins.
func (h *Handler) checkCORS() error {
	if _, err := authz.ParseOrigins(h.CORS); err != nil {
		return clash("cors", "%v", err)
	}
	return nil
}

// checkApp looks at options that have to go with those of the app.
func (h *Handler) checkApp(record time.Duration, memory Size) error {
	var errs []error
	if i := h.Idempotency; i != nil && time.Duration(i.Window) > record {
		errs = append(errs, clash("idempotency.window", "%s is longer than record_retention %s: a key goes with its record", words(time.Duration(i.Window)), words(record)))
	}
	if l := h.Limits; l != nil && l.RunBytes > memory {
		errs = append(errs, clash("limits.run_bytes", "%v is more than the memory of the store, %v", l.RunBytes, memory))
	}
	return errors.Join(errs...)
}

// isFieldName reports whether s is the name of a header field (RFC 9110,
// section 5.1).
func isFieldName(s string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && !strings.ContainsRune(marks, c)
	})
}
