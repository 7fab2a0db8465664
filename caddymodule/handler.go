package caddymodule

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz/jwt"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// Handler turns generations of the handlers that follow it (LLM answers, agent
// turns) into runs: they go on when the client's connection breaks, can be
// resumed with `Last-Event-ID`, stopped, looked up and replayed, and are paid
// for once however often a client retries. Every other request passes
// untouched. Every field may be left out: the defaults are safe.
//
// This module defines the following placeholders, for the handlers that follow
// and for the access log. They are empty for requests that belong to no run.
//
// Placeholder | Description
// ------------|-------------
// `{http.agent_runs.run_id}` | The id of the run
// `{http.agent_runs.conversation_id}` | The conversation that the run belongs to
// `{http.agent_runs.attempt}` | 1, 2, ...: the number of the generation under one idempotency key
// `{http.agent_runs.state}` | The state of the run when the request reached it
// `{http.agent_runs.subject}` | A keyed hash of who owns the run
type Handler struct {
	// Separates runs, idempotency keys and conversations of sites that share a
	// store. Default: the request's host without port.
	Realm string `json:"realm,omitempty"`

	// The name of the route in records and idempotency keys. Default: the start
	// pattern that matched, else "default".
	Name string `json:"name,omitempty"`

	// Narrows which requests may start a run. Run resources and resume paths are
	// served whatever it says. Default: all.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// The requests that start a run. Default: what is recognisably a generation,
	// by its path, its Accept header or the members of its JSON body.
	Start []Start `json:"start,omitempty"`

	// The same as request matchers; a request that matches either starts a run.
	StartMatcherSetsRaw caddyhttp.RawMatcherSets `json:"start_match,omitempty" caddy:"namespace=http.matchers"`

	// The path under which run resources live. Default: /_runs.
	API string `json:"api,omitempty"`

	// Paths on which clients resume by conversation: `auto` for those that known
	// SDKs use, `off` for none, or templates such as
	// `/api/chat/{conversation_id}/stream`. Default: auto.
	ResumePath []string `json:"resume_path,omitempty"`

	// How the backend speaks: `auto`, the name of a dialect, or `custom` for the
	// table in custom_dialect. Default: auto.
	Dialect string `json:"dialect,omitempty"`

	// The table of a dialect that is not built in.
	CustomDialect *dialect.Custom `json:"custom_dialect,omitempty"`

	// Where a request names its conversation; the first found wins. Default: the
	// header X-Conversation-Id, then the dialect's own field.
	Conversation []Conversation `json:"conversation,omitempty"`

	// What to do with a start in a conversation that has an active run: `auto`
	// replaces a run that nobody reads any more and rejects otherwise; `reject`,
	// `replace`, `allow`; `queue` lets it wait in line. Default: auto.
	ConversationBusy string `json:"conversation_busy,omitempty"`

	// How long a start waits in the line of its conversation: that of `queue`,
	// and of clients whose protocol lets them ask for it. Default: 5m.
	QueueTimeout caddy.Duration `json:"queue_timeout,omitempty"`

	// Who owns a run. Default: session.
	Identity *Identity `json:"identity,omitempty"`

	// Who may read, stop and delete a run. Default: the subject that started it.
	ACL *ACL `json:"acl,omitempty"`

	// How often it is decided again whether a reader that stays attached may
	// read, with the credentials of its request. Default: 60s.
	Recheck caddy.Duration `json:"recheck,omitempty"`

	// What the expiry of a token means for the answer to the request that started
	// the run: `lenient`, it goes on; `strict`, it ends like any other reader.
	// Default: lenient.
	Expiry string `json:"expiry,omitempty"`

	// How long a ticket is good at most, 15m or less: `POST /_runs/{run}/ticket`
	// gives out an address at which the run can be read without credentials, for
	// an EventSource that cannot send any. Default: off.
	Ticket caddy.Duration `json:"ticket,omitempty"`

	// Response headers that are stored and replayed beside the built-in list.
	ReplayHeaders []string `json:"replay_headers,omitempty"`

	// How long an equal request without an idempotency key is taken for the
	// retry of one whose answer never arrived; 0 turns it off. Default: 60s.
	ImplicitRetry *caddy.Duration `json:"implicit_retry,omitempty"`

	// How idempotency keys are treated.
	Idempotency *Idempotency `json:"idempotency,omitempty"`

	// What happens to a run that nobody reads.
	OnDisconnect *OnDisconnect `json:"on_disconnect,omitempty"`

	// How a Stop reaches the backend: `auto` by the dialect's cancel call if
	// there is one, else by closing the connection; `close` always closes; or a
	// call of your own. Default: auto.
	Cancel *Call `json:"cancel,omitempty"`

	// The call that brings further input to an active run. Default: none.
	Steer *Call `json:"steer,omitempty"`

	// The call that asks how a run stands whose stream does not tell how it
	// ended: `auto` by the dialect's own if there is one, `off`, or a call of
	// your own. Default: auto.
	Status *Call `json:"status,omitempty"`

	// The call that is answered by the rest of a run's stream, for when its
	// connection broke or the gateway that read it is gone: `auto` by the
	// dialect's own if there is one, `off`, or a call of your own. Default: auto.
	Reattach *Call `json:"reattach,omitempty"`

	// How long a Stop waits for the backend. Default: 30s.
	CancelDeadline caddy.Duration `json:"cancel_deadline,omitempty"`

	// How long a whole run may take. Default: 4h.
	Deadline caddy.Duration `json:"deadline,omitempty"`

	// How long the backend may take to answer with headers. Default: 15m.
	ResponseHeaderTimeout caddy.Duration `json:"response_header_timeout,omitempty"`

	// How long the backend may send nothing at all; comments and pings count as
	// something. Default: 15m.
	StreamIdleTimeout caddy.Duration `json:"stream_idle_timeout,omitempty"`

	// How long the backend may send no frame; comments and pings do not count.
	// Default: 30m.
	FrameIdleTimeout caddy.Duration `json:"frame_idle_timeout,omitempty"`

	// The silence after which a reader gets a sign of life, so that nothing on
	// the way closes its connection; 0 turns it off. Default: 15s.
	Keepalive *caddy.Duration `json:"keepalive,omitempty"`

	// After this time without an answer from the backend, status 200 is sent and
	// the connection kept alive; errors then arrive inside the stream.
	// Default: off.
	EarlyHeaders caddy.Duration `json:"early_headers,omitempty"`

	// `possible`, or `none` when the operator declares that generations on this
	// route have no effect outside, so that every failure may be retried freely.
	// Default: possible.
	SideEffects string `json:"side_effects,omitempty"`

	// What is known of the tools that the backend runs.
	Tools *Tools `json:"tools,omitempty"`

	// The release of the agent that answered, for the record. Placeholders of
	// the request and of the response (`{http.response.header.*}`) are resolved.
	AgentRelease string `json:"agent_release,omitempty"`

	// What the run may touch, for the record. Placeholders are resolved.
	ResourceScope string `json:"resource_scope,omitempty"`

	// Limits of this route.
	Limits *Limits `json:"limits,omitempty"`

	// What clients may not send. Default: nothing is looked at.
	Guard *Guard `json:"guard,omitempty"`

	// Origins whose pages may use the runs of this site: preflights are answered
	// and the response headers exposed. Default: none.
	CORS []string `json:"cors,omitempty"`

	app        *App
	engine     *sharedEngine
	host       *host
	match      func(*http.Request) bool // nil: all
	startMatch func(*http.Request) bool // nil: none
	secret     func() ([]byte, error)   // signing key of sessions and of requests that belong to a run
	tokens     *jwt.Identity            // of identity jwt
	remotes    []string                 // URLs of key sets that Cleanup gives back
	log        *slog.Logger

	mu     sync.Mutex // held while served is built
	served atomic.Pointer[proxy.Handler]
}

// Tools says what is known of the tools that a backend runs, by their names, in
// which `*` stands for any characters but a slash. A tool in neither list has
// effects.
type Tools struct {
	// Tools without effects: their results do not make the effect of a run
	// `observed`.
	ReadOnly []string `json:"read_only,omitempty"`

	// Tools that may run again without further effects: their receipts in a
	// snapshot say so.
	Idempotent []string `json:"idempotent,omitempty"`
}

// Start is a set of requests that start a run.
type Start struct {
	// Methods. Default: POST.
	Methods []string `json:"methods,omitempty"`

	// Paths; each may end in `*`.
	Paths []string `json:"paths,omitempty"`
}

// Conversation is a place where a request names its conversation.
type Conversation struct {
	// `header`, `query`, `body` or `path`.
	In string `json:"in,omitempty"`

	// The name of the header or query parameter, the path of a JSON member
	// (`thread.id`), or a path template with `{conversation_id}`.
	Name string `json:"name,omitempty"`
}

// Idempotency says how idempotency keys are treated.
type Idempotency struct {
	// How long a key is kept after the end of its run; at most
	// `record_retention`, which is the default.
	Window caddy.Duration `json:"window,omitempty"`

	// Sends the key to the backend too.
	Forward bool `json:"forward,omitempty"`

	// Refuses a start without a key.
	Required bool `json:"required,omitempty"`

	// What a repeated request gets while its run is active: it attaches, or
	// with `conflict` it gets 409. Default: attach.
	OnRunning string `json:"on_running,omitempty"`
}

// OnDisconnect says what happens to a run that nobody reads.
type OnDisconnect struct {
	// `continue`, or `cancel` to stop it. Default: continue.
	Action string `json:"action,omitempty"`

	// How long nobody has to read before `cancel` stops the run. Default: 10s.
	After caddy.Duration `json:"after,omitempty"`
}

// Limits bound what one route may use. Sizes are a number of bytes, or a
// string such as "8MiB".
type Limits struct {
	// Active runs of one subject; 0 is no limit. Default: 0.
	ActiveRunsPerSubject int `json:"active_runs_per_subject,omitempty"`

	// Readers of one run. Above it the oldest reader of the same subject is
	// ended. Default: 2000.
	ReadersPerRun int `json:"readers_per_run,omitempty"`

	// The body of a start. Default: 8MiB.
	RequestBody Size `json:"request_body,omitempty"`

	// One frame of a stream. Default: 8MiB.
	Frame Size `json:"frame,omitempty"`

	// What is stored of one run; above it the oldest frames are dropped.
	// Default: 64MiB.
	RunBytes Size `json:"run_bytes,omitempty"`

	// Likewise, counted in frames. Default: 1000000.
	RunFrames int `json:"run_frames,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.agent_runs", New: func() caddy.Module { return new(Handler) }}
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	p, err := h.open()
	if err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	return p.ServeHTTP(w, r, next.ServeHTTP)
}

// open builds the handler on the first request. That may be before the app has
// started, and must not be earlier: `caddy validate` provisions too and may
// open no store.
func (h *Handler) open() (*proxy.Handler, error) {
	if p := h.served.Load(); p != nil {
		return p, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.served.Load(); p != nil {
		return p, nil
	}
	p, err := h.build()
	if err == nil {
		h.served.Store(p)
	}
	return p, err
}

// Cleanup implements [caddy.CleanerUpper]. What follows this handler is gone
// with its configuration. Caddy also calls it when Provision failed half-way.
func (h *Handler) Cleanup() error {
	h.giveKeysBack()
	if p := h.served.Load(); p != nil {
		p.Retire()
	}
	return nil
}

// Interface guards.
var (
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
