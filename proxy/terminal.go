package proxy

import (
	"context"
	"encoding/json"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// The gateway's events.
const (
	eventEnd     = "run.end"
	eventState   = "run.state"
	eventExpired = "stream_expired"
)

// finish tells a reader how the run ended, as its view allows.
func (t *tail) finish(ctx context.Context) tailEnd {
	rec, end, over := t.load(ctx)
	if over {
		return end
	}
	t.rec, t.dialect = rec, t.h.deps.Engine.dialectOf(rec)
	t.out = t.out[:0]
	switch {
	case t.after > rec.FinalSeq: // the end was numbered after frames were lost that this reader has
		return t.expire(t.after, expiryLost)
	case t.after >= rec.DeliveredEnd(t.control):
		return tailWhole
	case t.control, t.runEnd && t.form == formSSE && !t.canFail():
		t.control = true
		t.gatewayEvent(rec.FinalSeq, rec.EndedAt, eventEnd, endData(rec, t.links))
	case !t.canFail():
		return tailAborted
	default:
		f := failureOf(rec, t.links)
		f.Last = t.lastData(ctx)
		t.failure(rec.FinalSeq, f)
	}
	if err := t.send(t.out); err != nil {
		return tailGone
	}
	t.after = rec.FinalSeq
	return t.told()
}

// told is the end behind a failure: a proper one, or an abort where the clients
// of the dialect would take it for the answer's.
func (t *tail) told() tailEnd {
	if t.dialect.Overlooked && !t.control && t.form != formEnvelope {
		return tailAborted
	}
	return tailWhole
}

// lastData returns the data of the last stored frame if the dialect's failure
// goes on from it, and nothing if it cannot be read.
func (t *tail) lastData(ctx context.Context) []byte {
	if !t.dialect.Numbered || t.rec.LastSeq == 0 {
		return nil
	}
	page, err := t.h.deps.Engine.store.Read(ctx, runregistry.PageQuery{Run: t.rec.ID, After: t.rec.LastSeq - 1})
	if err != nil || len(page.Frames) == 0 {
		return nil
	}
	var parsed frame.Frame
	frame.Parse(kindOf(t.rec.Format), page.Frames[0].Data, &parsed)
	return parsed.Data
}

// canFail reports whether the view's dialect has a frame that says so.
func (r *renderer) canFail() bool {
	opaque := r.form == formOwn && r.rec.Format == runregistry.FormatOpaque
	return !opaque && r.dialect.Failure != nil && r.dialect.Failure(dialect.Failure{Code: failureCode(r.rec), Request: requestOf(r.rec)}) != nil
}

// failure renders the dialect's own words for a stream that did not complete;
// the terminal cursor stands in the last of its frames.
func (r *renderer) failure(seq runregistry.Seq, f dialect.Failure) {
	frames := r.dialect.Failure(f)
	if r.form == formEnvelope {
		frames = frames[:1] // what follows only ends a stream
	}
	for i, raw := range frames {
		r.failureFrame(seq, raw, i == len(frames)-1)
	}
}

// failureFrame puts one frame of a failure into the framing of the view, which
// is not always the dialect's.
func (r *renderer) failureFrame(seq runregistry.Seq, raw []byte, last bool) {
	var parsed frame.Frame
	frame.Parse(r.dialect.Kind, raw, &parsed)
	switch {
	case r.form == formEnvelope:
		e := newEnvelope(r.rec, seq, r.rec.EndedAt)
		e.Source, e.Type, e.Event, e.Data = sourceGateway, "error", string(parsed.Event), string(parsed.Data)
		r.out = appendJSONLine(r.out, e)
	case r.form == formSSE && r.dialect.Kind != frame.SSE:
		r.event(seq, "", parsed.Data)
	case r.form == formOwn && r.dialect.Kind != kindOf(r.rec.Format):
		r.out = append(append(r.out, parsed.Data...), '\n')
	case r.form == formSSE && r.ids && last:
		r.out = frame.AppendID(r.out, raw, r.cursor(seq))
	default:
		r.out = append(r.out, raw...)
	}
}

// gatewayEvent renders one of our events with a number.
func (r *renderer) gatewayEvent(seq runregistry.Seq, at time.Time, name string, data []byte) {
	if r.form != formSSE { // a line run in its own format has no other words for it
		r.out = appendJSONLine(r.out, gatewayEnvelope(r.rec, seq, at, name, data))
		return
	}
	r.event(seq, name, data)
}

// expired ends a stream whose next frame is gone.
func (t *tail) expired(ctx context.Context) tailEnd {
	rec, end, over := t.load(ctx)
	if over {
		return end
	}
	t.rec = rec
	return t.expire(t.after+1, expiryReason(rec))
}

// expire says that what a reader asks for is gone, and why.
func (t *tail) expire(requested runregistry.Seq, reason string) tailEnd {
	rec := t.rec
	if rec.Format == runregistry.FormatOpaque || t.stranger && !t.canFail() {
		return tailAborted // there is no frame to say it with that the reader knows
	}
	t.out = t.out[:0]
	id := t.expiredFrame(requested, reason)
	if err := t.send(t.out); err != nil {
		return tailGone
	}
	t.after = id
	return t.told()
}

// expiredFrame renders stream_expired, or the dialect's error of that name, and
// returns the cursor position it moves the reader to: the terminal frame, or
// for an active run the place where the stored frames begin.
func (t *tail) expiredFrame(requested runregistry.Seq, reason string) runregistry.Seq {
	rec := t.rec
	id := expiredCursor(rec, reason)
	data := expiredData(rec, t.links, requested, reason)
	if t.control || !t.canFail() {
		t.gatewayEvent(id, time.Now(), eventExpired, data)
		return id
	}
	t.failure(id, dialect.Failure{
		Code: eventExpired, Message: "The frames of this run are no longer stored; its snapshot is.",
		Members: expiredMembers(rec, t.links, requested, reason), Request: requestOf(rec),
	})
	return id
}

// Why frames are gone.
const (
	expiryRetention = "retention"
	expiryTrimmed   = "trimmed"
	expiryLost      = "lost"
)

func expiryReason(rec *runregistry.Record) string {
	if rec.State.Terminal() && rec.FirstSeq == 0 {
		return expiryRetention
	}
	return expiryTrimmed
}

func expiredCursor(rec *runregistry.Record, reason string) runregistry.Seq {
	switch {
	case rec.State.Terminal():
		return rec.FinalSeq
	case reason == expiryLost:
		return rec.LastSeq
	default:
		return max(rec.FirstSeq, 1) - 1
	}
}

func expiredMembers(rec *runregistry.Record, l links, requested runregistry.Seq, reason string) map[string]any {
	return map[string]any{
		"run_id": rec.ID, "conversation_id": rec.Conversation, "reason": reason,
		"requested_seq": requested, "first_seq": nullable(rec.FirstSeq), "final_seq": nullable(rec.FinalSeq),
		"state": rec.State, "effect": rec.Effect, "snapshot": l.self(rec.ID), "client_actions": expiredActions(rec),
	}
}

func expiredData(rec *runregistry.Record, l links, requested runregistry.Seq, reason string) []byte {
	return mustJSON(expiredMembers(rec, l, requested, reason))
}

// expiredActions: what is gone can only be read as a snapshot.
func expiredActions(rec *runregistry.Record) []runregistry.Action {
	if rec.State.Terminal() {
		return rec.ClientActions()
	}
	return []runregistry.Action{runregistry.ActionShowSnapshot, runregistry.ActionReattach}
}

// nullable is null for a sequence number that does not exist.
func nullable(s runregistry.Seq) *runregistry.Seq {
	if s == 0 {
		return nil
	}
	return &s
}

// endData is the data of run.end.
func endData(rec *runregistry.Record, l links) []byte {
	return mustJSON(map[string]any{
		"run_id": rec.ID, "conversation_id": rec.Conversation, "state": rec.State, "state_reason": optional(rec.Reason),
		"effect": rec.Effect, "cancel": cancelOf(rec), "usage": usageOf(rec), "final_seq": rec.FinalSeq,
		"snapshot": l.self(rec.ID), "client_actions": rec.ClientActions(),
	})
}

// failureOf puts the end of a run into words that are safe to show.
func failureOf(rec *runregistry.Record, l links) dialect.Failure {
	message := failureMessages[rec.State]
	if rec.Reason != "" {
		message += " (" + string(rec.Reason) + ")"
	}
	return dialect.Failure{
		Code: failureCode(rec), Message: message, Request: requestOf(rec),
		Members: map[string]any{
			"run_id": rec.ID, "state": rec.State, "state_reason": optional(rec.Reason), "effect": rec.Effect,
			"snapshot": l.self(rec.ID), "client_actions": rec.ClientActions(),
		},
	}
}

func failureCode(rec *runregistry.Record) string {
	if rec.State == runregistry.Completed {
		return runregistry.Failed.String() // whole, but not what the client was promised
	}
	return rec.State.String()
}

// requestOf is the id of the message that began the run, as it is remembered
// for calls about it; nil if it is not.
func requestOf(rec *runregistry.Record) []byte {
	var o dialect.Origin
	if json.Unmarshal(rec.Origin, &o) != nil {
		return nil
	}
	return o.Fields["id"]
}

var failureMessages = map[runregistry.State]string{
	runregistry.Completed: "The backend's answer is not a stream.",
	runregistry.Failed:    "The run failed before its answer was complete.",
	runregistry.Cancelled: "The run was stopped.",
	runregistry.Uncertain: "The outcome of the run is unknown.",
}

// mustJSON marshals what the gateway itself composed of marshalable parts.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("proxy: composing JSON: " + err.Error())
	}
	return data
}
