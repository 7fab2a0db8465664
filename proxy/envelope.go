package proxy

import (
	"encoding/json"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// envelope is a frame in the gateway's own words, for NDJSON and JSON readers.
type envelope struct {
	RunID      runregistry.RunID `json:"run_id"`
	Seq        runregistry.Seq   `json:"seq"`
	EventID    string            `json:"event_id"`
	Attempt    int               `json:"attempt"`
	Source     string            `json:"source"`
	Type       string            `json:"type"`
	Event      string            `json:"event"`
	Data       string            `json:"data"`
	OccurredAt timestamp         `json:"occurred_at"`
	ReleaseID  *string           `json:"release_id"`
	Resource   *string           `json:"resource_scope"`
}

// The values of envelope.Source.
const (
	sourceUpstream = "upstream"
	sourceGateway  = "gateway"
)

func newEnvelope(rec *runregistry.Record, seq runregistry.Seq, at time.Time) envelope {
	return envelope{
		RunID: rec.ID, Seq: seq, EventID: runregistry.Cursor{Run: rec.ID, Seq: seq}.String(), Attempt: rec.Attempt,
		OccurredAt: timestamp(at), ReleaseID: optional(rec.Release), Resource: optional(rec.Resource),
	}
}

// upstreamEnvelope wraps one stored frame; its data is the exact text of the
// frame's data.
func upstreamEnvelope(rec *runregistry.Record, f *runregistry.Frame, d *dialect.Dialect) envelope {
	var parsed frame.Frame
	frame.Parse(kindOf(rec.Format), f.Data, &parsed)
	e := newEnvelope(rec, f.Seq, f.At)
	e.Source, e.Type = sourceUpstream, d.Type(&parsed)
	e.Event, e.Data = string(parsed.Event), string(parsed.Data)
	return e
}

// gatewayEnvelope wraps an event of ours.
func gatewayEnvelope(rec *runregistry.Record, seq runregistry.Seq, at time.Time, name string, data []byte) envelope {
	e := newEnvelope(rec, seq, at)
	e.Source, e.Type, e.Event, e.Data = sourceGateway, name, name, string(data)
	return e
}

func appendEnvelope(dst []byte, rec *runregistry.Record, f *runregistry.Frame, d *dialect.Dialect) []byte {
	return appendJSONLine(dst, upstreamEnvelope(rec, f, d))
}

// appendJSONLine appends v as one line of JSON; v always marshals.
func appendJSONLine(dst []byte, v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		return dst
	}
	return append(append(dst, line...), '\n')
}

// timestamp is RFC 3339 in UTC with milliseconds; null when zero.
type timestamp time.Time

// MarshalJSON implements [json.Marshaler].
func (t timestamp) MarshalJSON() ([]byte, error) {
	at := time.Time(t)
	if at.IsZero() {
		return []byte("null"), nil
	}
	return at.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

// optional is null for an empty word.
func optional[T ~string](v T) *string {
	if v == "" {
		return nil
	}
	text := string(v)
	return &text
}
