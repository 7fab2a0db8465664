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
	// its own context, replacer and variables. ctx carries cancellation only.
	// The values in about are placeholders of the run.
	Detach(ctx context.Context, r *http.Request, about About) *http.Request
	// Annotate makes the same placeholders visible to the handlers and the
	// access log of r itself.
	Annotate(r *http.Request, about About)
	// Expand resolves placeholders in a configured value for this request; with
	// header, also those of the response.
	Expand(r *http.Request, template string, header http.Header) string
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
	Host     Host
	Log      *slog.Logger
	Metrics  *Metrics
	// Tracer is where spans go; nil means the provider of the request's own
	// span.
	Tracer trace.Tracer
}
