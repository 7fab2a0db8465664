package caddymodule

import (
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// option is a subdirective.
type option[T any] struct {
	parse      func(T, *block) error
	repeatable bool
}

// handlerOptions are the subdirectives of agent_runs. A missing function here
// is a compile error; a missing line in the grammar above a test's.
var handlerOptions = map[string]option[*Handler]{
	"realm":                   {parse: text(func(h *Handler) *string { return &h.Realm })},
	"name":                    {parse: text(func(h *Handler) *string { return &h.Name })},
	"start":                   {parse: parseStart, repeatable: true},
	"api":                     {parse: text(func(h *Handler) *string { return &h.API })},
	"resume_path":             {parse: list(func(h *Handler) *[]string { return &h.ResumePath }), repeatable: true},
	"dialect":                 {parse: parseDialect},
	"conversation":            {parse: parseConversation, repeatable: true},
	"conversation_busy":       {parse: parseBusy},
	"identity":                {parse: parseIdentity, repeatable: true},
	"acl":                     {parse: parseACL},
	"recheck":                 {parse: duration(func(h *Handler) *caddy.Duration { return &h.Recheck })},
	"expiry":                  {parse: text(func(h *Handler) *string { return &h.Expiry })},
	"ticket":                  {parse: parseTicket},
	"replay_headers":          {parse: list(func(h *Handler) *[]string { return &h.ReplayHeaders }), repeatable: true},
	"implicit_retry":          {parse: offDuration(func(h *Handler) **caddy.Duration { return &h.ImplicitRetry })},
	"idempotency":             {parse: parseIdempotency},
	"on_disconnect":           {parse: parseOnDisconnect},
	"cancel":                  {parse: cancelOption.parse(func(h *Handler) **Call { return &h.Cancel })},
	"steer":                   {parse: steerOption.parse(func(h *Handler) **Call { return &h.Steer })},
	"reattach":                {parse: reattachOption.parse(func(h *Handler) **Call { return &h.Reattach })},
	"status":                  {parse: statusOption.parse(func(h *Handler) **Call { return &h.Status })},
	"cancel_deadline":         {parse: duration(func(h *Handler) *caddy.Duration { return &h.CancelDeadline })},
	"deadline":                {parse: duration(func(h *Handler) *caddy.Duration { return &h.Deadline })},
	"response_header_timeout": {parse: duration(func(h *Handler) *caddy.Duration { return &h.ResponseHeaderTimeout })},
	"stream_idle_timeout":     {parse: duration(func(h *Handler) *caddy.Duration { return &h.StreamIdleTimeout })},
	"frame_idle_timeout":      {parse: duration(func(h *Handler) *caddy.Duration { return &h.FrameIdleTimeout })},
	"keepalive":               {parse: offDuration(func(h *Handler) **caddy.Duration { return &h.Keepalive })},
	"early_headers":           {parse: parseEarlyHeaders},
	"side_effects":            {parse: text(func(h *Handler) *string { return &h.SideEffects })},
	"tools":                   {parse: parseTools},
	"agent_release":           {parse: text(func(h *Handler) *string { return &h.AgentRelease })},
	"resource_scope":          {parse: text(func(h *Handler) *string { return &h.ResourceScope })},
	"limits":                  {parse: parseLimits},
	"guard":                   {parse: parseGuard},
	"cors":                    {parse: list(func(h *Handler) *[]string { return &h.CORS }), repeatable: true},
}

// parseStart parses methods and paths, or a block of request matchers.
func parseStart(h *Handler, b *block) error {
	args := b.RemainingArgs()
	if len(args) == 0 {
		matchers, err := caddyhttp.ParseCaddyfileNestedMatcherSet(b.Dispenser)
		if err != nil {
			return err
		}
		if len(matchers) == 0 {
			return b.WrapErr(wrong("start", "", startAllowed+", or a block of request matchers"))
		}
		h.StartMatcherSetsRaw = append(h.StartMatcherSetsRaw, matchers)
		return nil
	}
	var s Start
	for _, arg := range args {
		if strings.HasPrefix(arg, "/") {
			s.Paths = append(s.Paths, arg)
		} else {
			s.Methods = append(s.Methods, arg)
		}
	}
	h.Start = append(h.Start, s)
	return nil
}

func parseConversation(h *Handler, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 2 {
		return b.WrapErr(wrong("conversation", strings.Join(args, " "), conversationAllowed))
	}
	h.Conversation = append(h.Conversation, Conversation{In: args[0], Name: args[1]})
	return nil
}

const busyAllowed = "auto, reject, replace, queue <timeout>, allow"

func parseBusy(h *Handler, b *block) error {
	args := b.RemainingArgs()
	switch {
	case len(args) == 2 && args[0] == "queue":
		d, err := caddy.ParseDuration(args[1])
		if err != nil || d <= 0 {
			return b.WrapErr(wrong("conversation_busy", strings.Join(args, " "), busyAllowed))
		}
		h.QueueTimeout = caddy.Duration(d)
	case len(args) != 1 || args[0] == "queue":
		return b.WrapErr(wrong("conversation_busy", strings.Join(args, " "), busyAllowed))
	}
	h.ConversationBusy = args[0]
	return nil
}

const onDisconnectAllowed = "continue, cancel [after <duration>]"

func parseOnDisconnect(h *Handler, b *block) error {
	args := b.RemainingArgs()
	bad := b.WrapErr(wrong("on_disconnect", strings.Join(args, " "), onDisconnectAllowed))
	if len(args) != 1 && len(args) != 3 {
		return bad
	}
	o := &OnDisconnect{Action: args[0]}
	if len(args) == 3 {
		d, err := caddy.ParseDuration(args[2])
		if err != nil || d <= 0 || args[1] != "after" || args[0] != "cancel" {
			return bad
		}
		o.After = caddy.Duration(d)
	}
	h.OnDisconnect = o
	return nil
}

func parseTicket(h *Handler, b *block) (err error) {
	h.Ticket, err = b.durationOrOff()
	return err
}

func parseEarlyHeaders(h *Handler, b *block) (err error) {
	h.EarlyHeaders, err = b.durationOrOff()
	return err
}

var idempotencyOptions = map[string]option[*Idempotency]{
	"window":     {parse: duration(func(i *Idempotency) *caddy.Duration { return &i.Window })},
	"forward":    {parse: bare(func(i *Idempotency) *bool { return &i.Forward })},
	"required":   {parse: bare(func(i *Idempotency) *bool { return &i.Required })},
	"on_running": {parse: text(func(i *Idempotency) *string { return &i.OnRunning })},
}

func parseIdempotency(h *Handler, b *block) error {
	h.Idempotency = new(Idempotency)
	return parseOptions(h.Idempotency, b, "idempotency", idempotencyOptions)
}

var toolOptions = map[string]option[*Tools]{
	"read_only":  {parse: list(func(t *Tools) *[]string { return &t.ReadOnly }), repeatable: true},
	"idempotent": {parse: list(func(t *Tools) *[]string { return &t.Idempotent }), repeatable: true},
}

func parseTools(h *Handler, b *block) error {
	h.Tools = new(Tools)
	return parseOptions(h.Tools, b, "tools", toolOptions)
}

var limitOptions = map[string]option[*Limits]{
	"active_runs_per_subject": {parse: number(0, func(l *Limits) *int { return &l.ActiveRunsPerSubject })},
	"readers_per_run":         {parse: number(1, func(l *Limits) *int { return &l.ReadersPerRun })},
	"request_body":            {parse: size(func(l *Limits) *Size { return &l.RequestBody })},
	"frame":                   {parse: size(func(l *Limits) *Size { return &l.Frame })},
	"run_bytes":               {parse: size(func(l *Limits) *Size { return &l.RunBytes })},
	"run_frames":              {parse: number(1, func(l *Limits) *int { return &l.RunFrames })},
}

func parseLimits(h *Handler, b *block) error {
	h.Limits = new(Limits)
	return parseOptions(h.Limits, b, "limits", limitOptions)
}

// parseOptions parses an option that is a block of options.
func parseOptions[T any](t T, b *block, name string, options map[string]option[T]) error {
	if b.NextArg() {
		return b.Errf("%s takes a block, found %q", name, b.Val())
	}
	return parseBlock(t, b.inner(name), options)
}

// parseBlock parses the options of a block.
func parseBlock[T any](t T, inner *block, options map[string]option[T]) error {
	return inner.each(func(name string) error {
		o, ok := options[name]
		if !ok {
			return inner.unrecognized("option", name, slices.Collect(maps.Keys(options)))
		}
		if err := inner.once(name, o.repeatable); err != nil {
			return err
		}
		return o.parse(t, inner)
	})
}

var sessionOptions = map[string]option[*Identity]{
	"secret":    {parse: text(func(i *Identity) *string { return &i.Secret })},
	"bind":      {parse: parseBind, repeatable: true},
	"same_site": {parse: text(func(i *Identity) *string { return &i.SameSite })},
}

func parseIdentity(h *Handler, b *block) error {
	args := b.RemainingArgs()
	bad := b.WrapErr(wrong("identity", strings.Join(args, " "), identityAllowed))
	if len(args) == 0 {
		return bad
	}
	if h.Identity != nil && (h.Identity.Kind != identityJWT || args[0] != identityJWT) {
		return b.Err("identity stands twice; only identity jwt may, once for each issuer")
	}
	if h.Identity != nil {
		return h.Identity.parseJWT(b)
	}
	i := &Identity{Kind: args[0]}
	h.Identity = i
	rest := args[1:]
	switch i.Kind {
	case identitySession:
		if len(rest) > 0 {
			return bad
		}
		return parseOptions(i, b, "identity", sessionOptions)
	case identityJWT:
		if len(rest) > 0 {
			return bad
		}
		return i.parseJWT(b)
	case identityHeader:
		if len(rest) < 1 || len(rest) > 2 {
			return bad
		}
		i.Subject = rest[0]
		i.Tenant = strings.Join(rest[1:], "")
		return nil
	case identityBackend:
		return parseAskIdentity(i, b, rest)
	case identityCaddy:
		if len(rest) > 0 && rest[0] != "tenant" {
			i.Subject, rest = rest[0], rest[1:]
		}
		if len(rest) == 2 && rest[0] == "tenant" {
			i.Tenant, rest = rest[1], nil
		}
	}
	if len(rest) > 0 {
		return bad
	}
	return nil // what kinds there are is checked later
}

func parseBind(i *Identity, b *block) error {
	args := b.RemainingArgs()
	switch {
	case len(args) >= 2 && args[0] == "cookie":
		i.BindCookies = append(i.BindCookies, args[1:]...)
	case len(args) >= 2 && args[0] == "header":
		i.BindHeaders = append(i.BindHeaders, args[1:]...)
	default:
		return b.WrapErr(wrong("identity.bind", strings.Join(args, " "), "cookie <names...>, header <names...>"))
	}
	return nil
}
