package proxy

import (
	"context"
	"crypto/rand"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// tracerName is the instrumentation scope of all spans.
const tracerName = "github.com/caddy-agent-runs/caddy-agent-runs/proxy"

// The names of all spans and attributes, in one place since the conventions
// for generative AI are still moving. No span carries content.
const (
	spanRun    = "agent_run"
	spanReader = "agent_run.read"
	spanStop   = "agent_run.stop"

	attrRunID         = attribute.Key("agent_run.id")
	attrState         = attribute.Key("agent_run.state")
	attrReason        = attribute.Key("agent_run.state_reason")
	attrEffect        = attribute.Key("agent_run.effect")
	attrRoute         = attribute.Key("agent_run.route")
	attrDialect       = attribute.Key("agent_run.dialect")
	attrFrames        = attribute.Key("agent_run.frames")
	attrConnection    = attribute.Key("agent_run.connection_id")
	attrRequested     = attribute.Key("agent_run.cursor.requested")
	attrAccepted      = attribute.Key("agent_run.cursor.accepted")
	attrReplayed      = attribute.Key("agent_run.replayed_frames")
	attrFirstLive     = attribute.Key("agent_run.first_live_seq")
	attrDuplicates    = attribute.Key("agent_run.suppressed_duplicates")
	attrPolicy        = attribute.Key("agent_run.policy_decision")
	attrRevision      = attribute.Key("agent_run.snapshot_revision")
	attrOutcome       = attribute.Key("agent_run.cancel.outcome")
	attrUpstream      = attribute.Key("agent_run.cancel.upstream")
	attrConversation  = attribute.Key("gen_ai.conversation.id")
	attrModel         = attribute.Key("gen_ai.response.model")
	attrResponseID    = attribute.Key("gen_ai.response.id")
	attrInputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	attrOutputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	attrDeliveryEnded = attribute.Key("agent_run.delivery")
)

// tracerFor returns the tracer of the request's own span, so that spans go
// where the operator's tracing directive sends them; without it they are
// no-ops.
func (h *Handler) tracerFor(ctx context.Context) trace.Tracer {
	if h.deps.Tracer != nil {
		return h.deps.Tracer
	}
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(tracerName)
}

// runSpan is the span of a run. A run outlives its request, so it is a trace of
// its own, linked from the requests that concern it.
type runSpan struct{ trace.Span }

// startRunSpan begins the span of a run for the request whose context is from.
func (h *Handler) startRunSpan(ctx, from context.Context, rec *runregistry.Record) (context.Context, runSpan) {
	requester := trace.SpanContextFromContext(from)
	ctx, span := h.tracerFor(from).Start(ctx, spanRun,
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(trace.Link{SpanContext: requester}),
		trace.WithAttributes(attrRunID.String(string(rec.ID)), attrRoute.String(rec.Route),
			attrConversation.String(string(rec.Conversation))))
	return ctx, runSpan{span}
}

// inject makes the upstream call a child of the run, not of the request.
func (s runSpan) inject(head http.Header) {
	if s.SpanContext().IsValid() {
		ctx := trace.ContextWithSpanContext(context.Background(), s.SpanContext())
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(head))
	}
}

func (s runSpan) end(rec *runregistry.Record) {
	s.SetAttributes(attrState.String(rec.State.String()), attrReason.String(string(rec.Reason)),
		attrEffect.String(rec.Effect.String()), attrDialect.String(rec.Dialect), attrFrames.Int64(int64(rec.LastSeq)),
		attrModel.String(rec.Model), attrResponseID.String(rec.UpstreamID))
	if rec.Usage.Reported {
		s.SetAttributes(attrInputTokens.Int64(rec.Usage.InputTokens), attrOutputTokens.Int64(rec.Usage.OutputTokens))
	}
	if rec.State == runregistry.Failed || rec.State == runregistry.Uncertain {
		s.SetStatus(codes.Error, string(rec.Reason))
	}
	s.End()
}

// readerSpan is the span of one delivery to one client.
type readerSpan struct{ trace.Span }

func (h *Handler) startReaderSpan(r *http.Request, rec *runregistry.Record, requested runregistry.Seq) readerSpan {
	_, span := h.tracerFor(r.Context()).Start(r.Context(), spanReader, trace.WithLinks(h.linkTo(rec.ID)...))
	if span.IsRecording() {
		span.SetAttributes(attrRunID.String(string(rec.ID)), attrConnection.String(rand.Text()),
			attrRequested.Int64(int64(requested)), attrPolicy.String("allow:"+h.policy().String()),
			attrRevision.Int64(int64(rec.Revision)), attrDuplicates.Int(0))
	}
	return readerSpan{span}
}

var endNames = map[tailEnd]string{
	tailWhole: "whole", tailAborted: "aborted", tailInterrupted: "interrupted", tailGone: "gone",
}

func (s readerSpan) endReader(t *tail, end tailEnd) {
	if s.IsRecording() {
		s.SetAttributes(attrAccepted.Int64(int64(t.after)), attrReplayed.Int(t.stats.replayed),
			attrFirstLive.Int64(int64(t.stats.firstLive)), attrDeliveryEnded.String(endNames[end]))
	}
	s.End()
}

// stopSpan is the span of one Stop.
type stopSpan struct{ trace.Span }

func (h *Handler) startStopSpan(r *http.Request, id runregistry.RunID) stopSpan {
	_, span := h.tracerFor(r.Context()).Start(r.Context(), spanStop, trace.WithLinks(h.linkTo(id)...),
		trace.WithAttributes(attrRunID.String(string(id))))
	return stopSpan{span}
}

func (s stopSpan) endStop(rec *runregistry.Record, err error) {
	switch {
	case err != nil:
		s.SetStatus(codes.Error, "stop was not carried out")
	default:
		s.SetAttributes(attrState.String(rec.State.String()), attrEffect.String(rec.Effect.String()),
			attrOutcome.String(string(rec.Cancel.Outcome)), attrUpstream.String(string(rec.Cancel.Upstream)))
	}
	s.End()
}

// linkTo links to the span of a run that this process owns.
func (h *Handler) linkTo(id runregistry.RunID) []trace.Link {
	p := h.deps.Engine.local(id)
	if p == nil || !p.span.SpanContext().IsValid() {
		return nil
	}
	return []trace.Link{{SpanContext: p.span.SpanContext()}}
}
