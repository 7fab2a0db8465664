package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// steerNote is what the gateways of one store tell each other of a steer, so
// that its key holds whichever of them is asked.
type steerNote struct {
	By   runregistry.InstanceID `json:"by"` // who sends it
	Body runregistry.Digest     `json:"body"`
	At   time.Time              `json:"at"` // when it began
	// Done tells that it may have been sent, and the rest what came of it: no code
	// is a success.
	Done    bool           `json:"done,omitempty"`
	Code    code           `json:"code,omitempty"`
	Detail  string         `json:"detail,omitempty"`
	Members map[string]any `json:"members,omitempty"`
}

// steerDoubt is the age at which a steer without a result has none: it is more
// than a call may take.
const steerDoubt = 3 * callTimeout

// steerNoted steers unless another gateway does, or did, under the same key. sent
// tells that the backend may have got the input from here.
func (h *Handler) steerNoted(r *http.Request, rec *runregistry.Record, name, body runregistry.Digest, outgoing []byte) (sent bool, err error) {
	k := h.deps.Engine.keeper
	if k == nil {
		return h.steer(r, rec, outgoing)
	}
	note := steerNote{By: k.me, Body: body, At: time.Now()}
	found, err := k.store.Note(r.Context(), rec.ID, name, encodeNote(&note), h.cfg.Deadline)
	if err != nil {
		return false, err
	}
	if found != nil {
		var other steerNote
		if err := json.Unmarshal(found, &other); err != nil {
			return false, &Problem{Code: codeInternal, Detail: "The note of another gateway cannot be read.", Err: err}
		}
		if other.By != note.By || other.Done { // else it is of a try here that sent nothing
			return false, other.result(body)
		}
	}
	sent, err = h.steer(r, rec, outgoing)
	var told []byte
	if sent {
		told = encodeNote(note.ended(err))
	}
	if lost := k.store.Rewrite(context.WithoutCancel(r.Context()), rec.ID, name, told); lost != nil {
		k.engine.log.Warn("result of a steer was not noted for other gateways", logRun(rec.ID), logError(lost))
	}
	return sent, err
}

// ended is the note of a steer that was sent.
func (n *steerNote) ended(err error) *steerNote {
	done := *n
	done.Done = true
	if err != nil {
		p := problemOf(err)
		done.Code, done.Detail, done.Members = p.Code, p.Detail, p.Members
	}
	return &done
}

// result is what a request with the same key is told; nil for a success.
func (n *steerNote) result(body runregistry.Digest) error {
	switch {
	case n.Body != body:
		return runregistry.ErrKeyReused
	case !n.Done && time.Since(n.At) < steerDoubt:
		return refuse(codeInProgress, "Another gateway is sending this input. Try again.")
	case !n.Done:
		return refuse(codeUpstreamTimeout, "It is not known whether the backend got the input.")
	case n.Code != "":
		return &Problem{Code: n.Code, Detail: n.Detail, Members: n.Members}
	default:
		return nil
	}
}

func encodeNote(n *steerNote) []byte {
	text, err := json.Marshal(n)
	if err != nil {
		return nil // its members are plain
	}
	return text
}
