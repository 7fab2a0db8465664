package proxy

import (
	"context"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// Next is the handler that follows in the chain: it reaches the backend. It
// follows the rules of Caddy's handlers: an error before the first byte is
// returned, and http.ErrAbortHandler may be panicked.
type Next func(w http.ResponseWriter, r *http.Request) error

// Host is the server that the handler runs in. It rebuilds requests so that a
// run shares nothing with the request that started it.
type Host interface {
	// Detach returns a copy of r that is safe to use after r's handler returned:
	// its own replacer, variables and context. The context descends from ctx,
	// which is the run's and not the request's; the host adds to it what its
	// handlers need. The values in about are placeholders of the run.
	Detach(ctx context.Context, r *http.Request, about About) *http.Request
	// Impersonal returns a request that goes where r went and tells nothing of
	// who sent it: for calls about runs of others. It is safe to use after r's
	// handler returned.
	Impersonal(r *http.Request) *http.Request
	// Annotate makes the same placeholders visible to the handlers and the
	// access log of r itself.
	Annotate(r *http.Request, about About)
	// Expand resolves placeholders in a configured value for this request; with
	// header, also those of the response.
	Expand(r *http.Request, template string, header http.Header) string
	// Undelivered reports whether err, returned by the next handler, proves that
	// upstream did no work: a failed dial, or no upstream to choose from.
	Undelivered(err error) bool
	// HandlesErrors reports whether the server has error routes for r and a
	// status, which then write the answer to an error that is returned.
	HandlesErrors(r *http.Request, status int) bool
	// Error wraps err so that error routes see the status.
	Error(status int, err error) error
	// OriginalPath is the path of the request as the client sent it, before
	// rewrites.
	OriginalPath(r *http.Request) string
}

// About names a run for placeholders and logs.
type About struct {
	RunID          string
	ConversationID string
	Attempt        int
	State          string
	Subject        string // keyed hash
}

// Deps are what a handler works with.
type Deps struct {
	Engine   *Engine
	Identity authz.Identity
	// Policy says who may; nil is the owner alone.
	Policy authz.Policy
	// Tickets gives out and reads tickets; nil if there are none.
	Tickets *authz.Tickets
	// Superseded returns what is closed when a newer configuration has other
	// rules about who may read: a reader that is attached then comes back and is
	// decided by those. Nil is never.
	Superseded func() <-chan struct{}
	// Seal marks requests that belong to a run for a gateway behind this one,
	// and finds such marks; nil does neither.
	Seal    *authz.Seal
	Host    Host
	Log     *slog.Logger
	Metrics *Metrics
	// Tracer is where spans go; nil means the provider of the request's own
	// span.
	Tracer trace.Tracer
}
