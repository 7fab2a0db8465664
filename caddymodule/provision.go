package caddymodule

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/caddymodule/chain"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Provision implements caddy.Provisioner. It opens nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.log = ctx.Slogger()
	app, err := ctx.App("agent_runs")
	if err != nil {
		return fmt.Errorf("loading agent_runs app: %w", err)
	}
	var ok bool
	if h.app, ok = app.(*App); !ok {
		return fmt.Errorf("loading agent_runs app: got a %T", app)
	}
	h.engine = h.app.shared
	h.app.handlers = append(h.app.handlers, h)
	if err := h.loadMatchers(ctx); err != nil {
		return err
	}
	if err := h.loadSecret(ctx); err != nil {
		return err
	}
	if err := h.loadTokens(); err != nil {
		return err
	}
	return h.survey(ctx)
}

// loadMatchers loads the matchers that decide what starts a run.
func (h *Handler) loadMatchers(ctx caddy.Context) error {
	var err error
	if h.match, err = h.loadMatcher(ctx, "MatcherSetsRaw"); err != nil {
		return fmt.Errorf("loading matcher: %w", err)
	}
	if h.startMatch, err = h.loadMatcher(ctx, "StartMatcherSetsRaw"); err != nil {
		return fmt.Errorf("loading start matcher: %w", err)
	}
	return nil
}

// loadMatcher returns nil if the field has no matchers.
func (h *Handler) loadMatcher(ctx caddy.Context, field string) (func(*http.Request) bool, error) {
	loaded, err := ctx.LoadModule(h, field)
	if err != nil {
		return nil, err
	}
	var sets caddyhttp.MatcherSets
	if err := sets.FromInterface(loaded); err != nil || len(sets) == 0 {
		return nil, err
	}
	return func(r *http.Request) bool {
		matches, err := sets.AnyMatchWithError(r)
		if err != nil {
			// What cannot be decided must not cost money: it passes untouched.
			h.log.Warn("matching a request failed", slog.Any("error", err))
		}
		return matches && err == nil
	}, nil
}

// loadSecret finds the key that signs sessions, and requests for a gateway
// behind this one. Redis or Caddy's storage is asked when the key is first
// needed, since it may be far away.
func (h *Handler) loadSecret(ctx caddy.Context) error {
	i := h.identity()
	if i.Kind == identitySession && i.Secret != "" {
		secret, err := i.expandSecret()
		if err != nil {
			return err
		}
		h.secret = func() ([]byte, error) { return secret, nil }
		return nil
	}
	storage := ctx.Storage()
	h.secret = func() ([]byte, error) { return h.engine.secret(storage) }
	return nil
}

// survey looks at the server around this handler: at what it may have to
// carry over to detached requests, and at what does not go with runs.
func (h *Handler) survey(ctx caddy.Context) error {
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	around, known := h.app.surveys[server]
	if !known {
		var err error
		if around, err = chain.Look(server); err != nil {
			return fmt.Errorf("looking at the chain: %w", err)
		}
		h.app.surveys[server] = around
		h.warnServer(server, around)
	}
	h.host = &host{server: server, placeholders: around.Placeholders, resends: around.Resends}
	h.warn()
	return nil
}

// warnServer tells what around agent_runs works but is likely a mistake.
func (h *Handler) warnServer(srv *caddyhttp.Server, around *chain.Survey) {
	if around.Retries {
		h.log.Warn("a reverse_proxy after agent_runs retries requests: every retry may be a second paid generation; take lb_retries, lb_try_duration and lb_retry_match off the paths that start runs")
	}
	if srv != nil && srv.WriteTimeout > 0 {
		h.log.Warn("write_timeout cuts the readers of long runs, who then resume; write_idle_timeout is the better limit",
			slog.Duration("write_timeout", time.Duration(srv.WriteTimeout)))
	}
}

// warn tells which of its options work but are likely a mistake.
func (h *Handler) warn() {
	i := h.identity()
	if len(h.CORS) > 0 && i.Kind == identitySession && i.SameSite != "none" {
		h.log.Warn("pages of other sites have no session here, although cors lets them in, unless identity session says same_site none")
	}
	if h.Ticket > 0 {
		h.log.Warn("tickets stand in URLs, which Caddy's access log writes down: filter the query parameter ticket there")
	}
	if i.inURLs() && h.host.server != nil && h.host.server.Logs != nil {
		h.log.Warn("the access log of this server shows tokens in URLs, unless its format filters request>uri: identity jwt has a query parameter")
	}
	if h.Guard != nil && len(h.Start) == 0 && len(h.StartMatcherSetsRaw) == 0 {
		h.log.Warn("guard looks at starts, and without start only at what is recognisably one: a backend that takes more for a generation, such as JSON that is declared as text, is not guarded")
	}
	if i.Kind == identityAnonymous {
		h.log.Warn("identity anonymous lets everybody read, stop and delete the runs of everybody: use it for development only")
	}
}

// build puts the handler together and opens the store.
func (h *Handler) build() (*proxy.Handler, error) {
	engine, err := h.engine.open()
	if err != nil {
		return nil, fmt.Errorf("opening store: %w", err)
	}
	identity, err := h.identity().establish(h.secret, h.tokens)
	if err != nil {
		return nil, err
	}
	policy, err := h.acl().policy()
	if err != nil {
		return nil, err
	}
	if tokens, ok := identity.(authz.TokenBearer); ok {
		h.host.stripQuery = tokens.StripQuery
	}
	p, err := proxy.New(h.config(), proxy.Deps{
		Engine: engine, Seal: authz.NewSeal(h.secret), Identity: identity, Host: h.host, Log: h.engine.log.Logger, Metrics: metrics,
		Policy: policy, Tickets: h.tickets(), Superseded: h.superseded,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up agent_runs: %w", err)
	}
	return p, nil
}

// superseded returns what is closed when the rules of this handler are no
// longer those of the newest configuration.
func (h *Handler) superseded() <-chan struct{} { return h.engine.rules.watch(h.app.rules()[h]) }

// config translates the options. What is not set keeps its default.
func (h *Handler) config() proxy.Config {
	c := proxy.DefaultConfig()
	c.Realm, c.Name = h.Realm, h.Name
	c.Match, c.StartMatch = h.match, h.startMatch
	c.Release, c.Resource = h.AgentRelease, h.ResourceScope
	c.ReplayHeaders, c.CORS = h.ReplayHeaders, h.CORS
	c.Cancel, c.Steer, c.Status, c.Join = h.Cancel.way(), h.Steer.way(), h.Status.way(), h.Reattach.way()
	if h.Tools != nil {
		c.Tools = proxy.Tools{ReadOnly: h.Tools.ReadOnly, Idempotent: h.Tools.Idempotent}
	}
	c.NoSideEffects = h.SideEffects == "none"
	c.ExpiryStrict = h.Expiry == "strict"
	setIf(&c.API, h.API)
	setIf(&c.Dialect, h.Dialect)
	c.Custom = h.CustomDialect
	c.Starts = h.starts()
	if len(h.ResumePath) > 0 {
		c.ResumeAuto = slices.Contains(h.ResumePath, "auto")
		c.ResumePaths = slices.DeleteFunc(slices.Clone(h.ResumePath), func(p string) bool { return p == "auto" || p == "off" })
	}
	if len(h.Conversation) > 0 {
		c.Conversation = nil
		for _, source := range h.Conversation {
			c.Conversation = append(c.Conversation, proxy.Source{In: source.In, Name: source.Name})
		}
	}
	c.Busy = busyPolicies[h.ConversationBusy]
	c.QueueTimeout = durationOr(h.QueueTimeout, c.QueueTimeout)
	h.setDurations(&c)
	h.Idempotency.set(&c.Idempotency)
	h.Limits.set(&c.Limits)
	c.Guard = h.Guard.rules()
	if h.app != nil {
		c.FrameRetention, c.RecordRetention = h.app.retention()
	}
	return c
}

var busyPolicies = map[string]runregistry.Busy{
	"": runregistry.BusyAuto, "auto": runregistry.BusyAuto, "reject": runregistry.BusyReject,
	"replace": runregistry.BusyReplace, "queue": runregistry.BusyQueue, "allow": runregistry.BusyAllow,
}

// starts are all pairs of a method and a path.
func (h *Handler) starts() []proxy.StartPattern {
	var starts []proxy.StartPattern
	for _, s := range h.Start {
		methods := s.Methods
		if len(methods) == 0 {
			methods = []string{http.MethodPost}
		}
		for _, method := range methods {
			for _, path := range s.Paths {
				starts = append(starts, proxy.StartPattern{Method: method, Path: path})
			}
		}
	}
	return starts
}

func (h *Handler) setDurations(c *proxy.Config) {
	c.CancelDeadline = durationOr(h.CancelDeadline, c.CancelDeadline)
	c.Deadline = durationOr(h.Deadline, c.Deadline)
	c.HeaderTimeout = durationOr(h.ResponseHeaderTimeout, c.HeaderTimeout)
	c.StreamIdle = durationOr(h.StreamIdleTimeout, c.StreamIdle)
	c.FrameIdle = durationOr(h.FrameIdleTimeout, c.FrameIdle)
	c.EarlyHeaders = time.Duration(h.EarlyHeaders)
	c.Recheck = durationOr(h.Recheck, c.Recheck)
	if h.ImplicitRetry != nil {
		c.ImplicitRetry = time.Duration(*h.ImplicitRetry)
	}
	if h.Keepalive != nil {
		c.Keepalive = time.Duration(*h.Keepalive)
	}
	if o := h.OnDisconnect; o != nil {
		c.DisconnectCancel = o.Action == "cancel"
		c.DisconnectAfter = durationOr(o.After, c.DisconnectAfter)
	}
}

func (i *Idempotency) set(c *proxy.Idempotency) {
	if i == nil {
		return
	}
	*c = proxy.Idempotency{
		Window: time.Duration(i.Window), Forward: i.Forward, Required: i.Required, Conflict: i.OnRunning == "conflict",
	}
}

// runBytes returns the bound of a stored run.
func (l *Limits) runBytes() Size {
	if l == nil || l.RunBytes == 0 {
		return Size(proxy.DefaultConfig().Limits.RunBytes)
	}
	return l.RunBytes
}

func (l *Limits) set(c *proxy.Limits) {
	if l == nil {
		return
	}
	c.ActiveRunsPerSubject = l.ActiveRunsPerSubject
	setIf(&c.ReadersPerRun, l.ReadersPerRun)
	setIf(&c.RequestBody, int64(l.RequestBody))
	setIf(&c.Frame, int(l.Frame))
	setIf(&c.RunBytes, int64(l.RunBytes))
	setIf(&c.RunFrames, l.RunFrames)
	// A frame has to fit into its run, also when only the run was made smaller.
	c.Frame = int(min(int64(c.Frame), c.RunBytes))
}

func setIf[T comparable](dst *T, v T) {
	var unset T
	if v != unset {
		*dst = v
	}
}
