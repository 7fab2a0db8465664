package proxy

import (
	"context"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// announce tells a reader with control events that its run is being stopped,
// waits for input or goes on, or went over to another gateway. The end has an
// event of its own.
func (t *tail) announce(ctx context.Context, page *runregistry.Page) (end tailEnd, over bool) {
	if !t.control || page.State == t.state && page.Epoch == t.epoch {
		return 0, false
	}
	news := t.isNews(page)
	t.state, t.epoch = page.State, page.Epoch
	if !news {
		return 0, false
	}
	rec, end, over := t.load(ctx)
	if over {
		return end, true
	}
	if rec.State.Terminal() {
		return 0, false
	}
	if err := t.send(t.stateEvent(rec)); err != nil {
		return tailGone, true
	}
	return 0, false
}

// isNews reports whether what a page says about its run changed something that
// the reader has seen and wants to know.
func (t *tail) isNews(page *runregistry.Page) bool {
	switch {
	case t.state == runregistry.StateNone || page.State.Terminal():
		return false
	case page.Epoch != t.epoch || page.State == runregistry.Cancelling || page.State == runregistry.Waiting:
		return true
	default:
		return t.state == runregistry.Waiting && page.State == runregistry.Running
	}
}

// stateEvent renders a run.state event. It has no number: where the reader
// stands is not changed by it.
func (t *tail) stateEvent(rec *runregistry.Record) []byte {
	data := mustJSON(map[string]any{"state": rec.State, "reason": optional(rec.Reason)})
	if t.form == formEnvelope {
		return appendJSONLine(nil, gatewayEnvelope(rec, t.after, time.Now(), eventState, data))
	}
	return frame.AppendEvent(nil, eventState, data)
}
