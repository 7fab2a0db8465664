package runregistry

import (
	"encoding/json"
	"slices"
	"time"
)

// Record is everything the gateway knows about one run except its frames.
// A Record that a store returns is the caller's own copy; the slices and maps
// in it are shared and must not be changed.
type Record struct {
	ID           RunID
	Subject      Subject
	Scope        Scope
	Conversation ConversationID
	// Aliases are further names of the conversation: what the request called it
	// before upstream gave it another id.
	Aliases []ConversationID
	// Named tells whether the request named the conversation; false means that
	// the gateway generated it.
	Named    bool
	Route    string
	Attempt  int
	Previous RunID // the attempt before this one, or empty

	State  State
	Reason Reason
	Effect Effect
	// Lined is set while a queued run waits in the line of its conversation.
	Lined bool
	Epoch Epoch

	Release  string // agent release that answered, as the operator defines it
	Resource string // resource scope, as the operator defines it
	Model    string
	Dialect  string
	Format   Format

	CreatedAt    time.Time
	DispatchedAt time.Time
	FirstFrameAt time.Time
	ActivityAt   time.Time
	EndedAt      time.Time
	// FramesExpireAt and ExpiresAt are zero while the run is active: retention
	// counts from the end.
	FramesExpireAt time.Time
	ExpiresAt      time.Time

	// Response is what upstream answered, once it did.
	Response *Response
	// UpstreamID is upstream's own id of this generation, or empty.
	UpstreamID string
	// Origin is what calls about the run need to know of its start, opaque to
	// the registry; it holds no credential.
	Origin json.RawMessage
	// Position is upstream's own name for the place after the last frame; empty
	// when it gives none.
	Position string
	// Reattached counts how often the run's upstream was found again.
	Reattached int
	// Ending is set by the stored end marker: the conversation is no longer
	// busy although upstream may still send a few frames.
	Ending bool

	FirstSeq Seq // oldest stored frame; 0 when none is stored
	LastSeq  Seq // newest upstream frame that was ever stored
	FinalSeq Seq // the terminal frame's number; 0 while active
	// Bytes is the size of all upstream frames that were ever stored.
	Bytes int64

	Cancel   Cancel
	Usage    Usage
	Delivery Delivery
	// Snapshot is the folded answer as JSON, opaque to the registry; nil until
	// the first checkpoint.
	Snapshot json.RawMessage
	// SnapshotSeq is the last frame that Snapshot covers.
	SnapshotSeq Seq

	Fingerprint Digest
	Retention   Retention
	// Revision grows with every change of what a reader may see; it makes the
	// ETag. Delivery is not among that.
	Revision uint64
	// Claims is what a store that may lose a run needs to restore it after its
	// end: opaque, and only in the record that Settle returns.
	Claims any
}

// Format is the framing of a run's log.
type Format string

// The formats. They are also the words of the public record.
const (
	FormatSSE    Format = "sse"
	FormatNDJSON Format = "ndjson"
	FormatLines  Format = "lines"
	FormatOpaque Format = "opaque"
)

// Response is the part of upstream's answer that every reader may get: status
// and the headers on the allow-list.
type Response struct {
	Status int
	Header map[string][]string
	// Stream tells a stream of frames from a plain body.
	Stream bool
	// Sized is set for a plain body that came with a Content-Length.
	Sized bool
	// Kept is false for a plain body too large to be replayed.
	Kept bool
}

// Cancel is the public history of Stop.
type Cancel struct {
	Version     int
	RequestedAt time.Time
	Outcome     Outcome
	Upstream    Confirmation
}

// Outcome is what a Stop achieved.
type Outcome string

// The outcomes. CancelledAfterEffect means stopped, where an effect happened
// or cannot be excluded; the record's effect says which.
const (
	CancelledBeforeEffect Outcome = "cancelled_before_effect"
	CancelledAfterEffect  Outcome = "cancelled_after_effect"
	CancellationPending   Outcome = "cancellation_pending"
	AlreadyTerminal       Outcome = "already_terminal"
)

// Confirmation says what upstream made of a Stop.
type Confirmation string

// The confirmations. Unconfirmed means that the socket was closed and nothing
// more is known.
const (
	Confirmed         Confirmation = "confirmed"
	Unconfirmed       Confirmation = "unconfirmed"
	ConfirmFailed     Confirmation = "failed"
	CancelUnsupported Confirmation = "unsupported"
)

// Usage is what upstream reported, never an estimate.
type Usage struct {
	InputTokens  int64
	OutputTokens int64
	Reported     bool // upstream reported something
	Complete     bool // the report that closes a run was seen
}

// Retention is how long a run is kept, counted from its end. It is fixed when
// the run starts; its settlement may shorten it.
type Retention struct {
	Frames time.Duration // the frames; never longer than Record
	Record time.Duration // record, snapshot
	Key    time.Duration // idempotency key; 0 or more than Record: as long as Record
}

// atMost shortens everything to d.
func (t Retention) atMost(d time.Duration) Retention {
	return Retention{Frames: min(t.Frames, d), Record: min(t.Record, d), Key: min(t.Key, d)}
}

// frames is how long frames are kept: a record may go without them, but they
// do not outlive it.
func (t Retention) frames() time.Duration { return min(t.Frames, t.Record) }

// KeyExpiresAt returns when the run's idempotency key is forgotten; zero while
// the run is active.
func (r *Record) KeyExpiresAt() time.Time {
	if r.EndedAt.IsZero() || r.Retention.Key <= 0 || r.Retention.Key > r.Retention.Record {
		return r.ExpiresAt
	}
	return r.EndedAt.Add(r.Retention.Key)
}

// Action is a thing a frontend should offer to its user.
type Action string

// The actions, computed here so that every frontend agrees.
const (
	ActionReattach     Action = "reattach"
	ActionShowSnapshot Action = "show_snapshot"
	ActionOfferRetry   Action = "offer_retry"
	ActionWarnExternal Action = "warn_external_action"
)

// ClientActions returns what a frontend should offer. A retry is offered
// freely only when provably nothing happened.
func (r *Record) ClientActions() []Action {
	switch {
	case !r.State.Terminal():
		return []Action{ActionReattach}
	case r.State == Completed:
		return []Action{ActionShowSnapshot}
	case r.Effect == EffectNone:
		return []Action{ActionShowSnapshot, ActionOfferRetry}
	default:
		return []Action{ActionShowSnapshot, ActionWarnExternal}
	}
}

// LastGiven is the highest sequence number that was ever given out: a cursor
// beyond it is from a future that was lost.
func (r *Record) LastGiven() Seq {
	if r.State.Terminal() {
		return r.FinalSeq
	}
	return r.LastSeq
}

// ToldByUpstream reports whether upstream's own frames, or its status, say how
// the run ended: it completed, reported an error, or said that it was
// cancelled. Nothing needs to be added for a reader who has them all.
func (r *Record) ToldByUpstream() bool {
	switch r.State {
	case Completed:
		return true
	case Failed:
		return r.Reason == ReasonUpstreamError || r.Reason == ReasonUpstreamStatus
	case Cancelled:
		return r.Cancel.Version == 0
	case StateNone, Queued, Running, Waiting, Cancelling, Uncertain:
	}
	return false
}

// DeliveredEnd is the cursor position after which a reader has nothing left to
// get. Without control events the terminal frame is shown only if upstream did
// not tell the end itself; otherwise the last upstream frame is the end.
func (r *Record) DeliveredEnd(control bool) Seq {
	if !control && r.ToldByUpstream() {
		return r.LastSeq
	}
	return r.FinalSeq
}

// InConversation reports whether c is a name of the run's conversation.
func (r *Record) InConversation(c ConversationID) bool {
	return r.Conversation == c || slices.Contains(r.Aliases, c)
}
