package proxy

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

func logRun(id runregistry.RunID) slog.Attr { return slog.String("run_id", string(id)) }
func logError(err error) slog.Attr          { return slog.Any("error", err) }
func logCode(c code) slog.Attr              { return slog.String("code", string(c)) }

// runAttrs are the attributes of the one line that is logged for each run: no
// content, no credentials, no keys.
func runAttrs(r *runregistry.Record, subject string) []slog.Attr {
	attrs := []slog.Attr{
		logRun(r.ID),
		slog.String("conversation_id", string(r.Conversation)),
		slog.String("route", r.Route),
		slog.Int("attempt", r.Attempt),
		slog.String("state", r.State.String()),
		slog.String("state_reason", string(r.Reason)),
		slog.String("effect", r.Effect.String()),
		slog.String("cancel_outcome", string(r.Cancel.Outcome)),
		slog.String("cancel_upstream", string(r.Cancel.Upstream)),
		slog.String("dialect", r.Dialect),
		slog.String("model", r.Model),
		slog.String("subject", subject),
		slog.Uint64("frames", uint64(r.LastSeq)),
		slog.Int64("bytes", r.Bytes),
		slog.Duration("duration", r.EndedAt.Sub(r.CreatedAt)),
		slog.Duration("time_to_first_frame", since(r.DispatchedAt, r.FirstFrameAt)),
	}
	if r.Response != nil {
		attrs = append(attrs, slog.Int("upstream_status", r.Response.Status))
	}
	if r.Usage.Reported {
		attrs = append(attrs, slog.Int64("input_tokens", r.Usage.InputTokens), slog.Int64("output_tokens", r.Usage.OutputTokens))
	}
	return attrs
}

func since(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return to.Sub(from)
}

// pseudonym stands for a subject in logs and placeholders.
func (h *Handler) pseudonym(c authz.Caller) string {
	return authz.Pseudonym(h.deps.Engine.logKey, c.Subject)
}

// callerOf is the caller that a run belongs to.
func callerOf(s runregistry.Subject) authz.Caller {
	return authz.Caller{Subject: authz.Subject{Tenant: s.Tenant, Issuer: s.Issuer, Sub: s.Sub}, Known: true}
}

// aboutRun names a run for placeholders.
func aboutRun(r *runregistry.Record, s runregistry.State, subject string) About {
	return About{
		RunID: string(r.ID), ConversationID: string(r.Conversation), Attempt: r.Attempt, State: s.String(), Subject: subject,
	}
}

// setBody gives a request a whole body. GetBody stays nil, so that net/http
// cannot send the request twice (net/http, Request.isReplayable).
func setBody(r *http.Request, body []byte) {
	r.TransferEncoding = nil
	r.GetBody = nil
	r.ContentLength = int64(len(body))
	r.Header.Del("Content-Length")
	if len(body) == 0 {
		r.Body = http.NoBody
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
}
