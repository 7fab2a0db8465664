package proxy

import (
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Config is how one agent_runs directive behaves. The zero value of a field is
// not its default: [DefaultConfig] is.
type Config struct {
	// Realm separates runs, keys and conversations of sites that share a store.
	// Empty: the request's host without port.
	Realm string
	// Name is the route in records and keys. Empty: the matched start pattern,
	// else "default".
	Name string
	// Starts are the patterns of the start option. Empty: recognisable
	// generations.
	Starts []StartPattern
	// StartMatch, if set, is one more way to say which requests start a run.
	StartMatch func(*http.Request) bool
	// Match, if set, narrows what may start a run (the directive's matcher).
	Match func(*http.Request) bool
	// API is the prefix of the run resources, without a slash at its end.
	API string
	// ResumeAuto serves the resume paths of known dialects; ResumePaths are
	// further templates with {conversation_id}.
	ResumeAuto  bool
	ResumePaths []string
	// Dialect is "auto" or the name of a dialect.
	Dialect string
	// Custom, if set, is the table of a dialect of the configuration's own, in
	// place of Dialect. It must have passed its check.
	Custom *dialect.Custom
	// Conversation are the places where a request may name its conversation;
	// the first found wins.
	Conversation []Source
	Busy         runregistry.Busy
	// QueueTimeout is how long a start waits in the line of a busy conversation.
	QueueTimeout time.Duration
	// ReplayHeaders are response headers stored beside the built-in list.
	ReplayHeaders []string
	// ImplicitRetry is how long a broken delivery may be claimed by an equal
	// request without a key; 0 is off.
	ImplicitRetry time.Duration
	Idempotency   Idempotency
	// DisconnectCancel stops a run that nobody has read for DisconnectAfter.
	DisconnectCancel bool
	DisconnectAfter  time.Duration
	// Cancel is the call by which a Stop reaches the backend; off closes the
	// connection. Status asks how a run stands whose stream does not tell, and
	// Steer brings it further input.
	Cancel, Status, Steer Way
	// Join is the call that is answered by the rest of a run's stream; see
	// [dialect.Calls].
	Join           Way
	CancelDeadline time.Duration
	Deadline       time.Duration
	HeaderTimeout  time.Duration
	StreamIdle     time.Duration
	FrameIdle      time.Duration
	// Keepalive is the silence towards a reader after which it gets a sign of
	// life; 0 is off.
	Keepalive time.Duration
	// Recheck is how often a reader that stays attached is decided again.
	Recheck time.Duration
	// ExpiryStrict ends the stream of a start too when its token expires.
	ExpiryStrict bool
	// EarlyHeaders commits 200 and keeps alive when upstream has not answered
	// after this time; 0 is off.
	EarlyHeaders time.Duration
	// NoSideEffects is the operator's word that this route has no effects.
	NoSideEffects bool
	Tools         Tools
	Limits        Limits
	Guard         Guard
	// CORS are the origins that may use the route from a browser.
	CORS []string

	// Release and Resource are templates for agent_release and resource_scope.
	Release  string
	Resource string

	FrameRetention  time.Duration
	RecordRetention time.Duration
}

// StartPattern is a method and a path of the start option. The path may end
// in "*".
type StartPattern struct {
	Method string
	Path   string
}

// route is the name of runs that the pattern starts.
func (p StartPattern) route() string { return p.Method + " " + p.Path }

// Source is one place of a request where an id may stand.
type Source struct {
	// In is header, query, body or path.
	In string
	// Name is a header or query name, a JSON path, or for path a template with
	// {conversation_id}.
	Name string
}

// Idempotency is how idempotency keys are treated.
type Idempotency struct {
	// Window is how long a key is kept after the end of its run; 0 means as long
	// as the record.
	Window time.Duration
	// Forward sends the key upstream too.
	Forward bool
	// Required refuses a start without a key.
	Required bool
	// Conflict answers an active run of the same key with 409 instead of
	// attaching.
	Conflict bool
}

// Limits are the size limits of one route. Sizes are in bytes.
type Limits struct {
	ActiveRunsPerSubject int // 0 is no limit
	ReadersPerRun        int // per instance
	RequestBody          int64
	Frame                int
	RunBytes             int64
	RunFrames            int
}

// DefaultConfig returns the configuration of a bare agent_runs directive.
func DefaultConfig() Config {
	return Config{
		API:             "/_runs",
		ResumeAuto:      true,
		Dialect:         "auto",
		Conversation:    []Source{{In: "header", Name: "X-Conversation-Id"}},
		QueueTimeout:    5 * time.Minute,
		ImplicitRetry:   time.Minute,
		DisconnectAfter: 10 * time.Second,
		CancelDeadline:  30 * time.Second,
		Deadline:        4 * time.Hour,
		HeaderTimeout:   15 * time.Minute,
		StreamIdle:      15 * time.Minute,
		FrameIdle:       30 * time.Minute,
		Keepalive:       15 * time.Second,
		Recheck:         time.Minute,
		Limits: Limits{
			ReadersPerRun: 2000,
			RequestBody:   8 << 20,
			Frame:         8 << 20,
			RunBytes:      64 << 20,
			RunFrames:     1_000_000,
		},
		FrameRetention:  10 * time.Minute,
		RecordRetention: 24 * time.Hour,
	}
}
