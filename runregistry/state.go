package runregistry

import (
	"fmt"
	"slices"
)

// State is a place in the life of a run:
//
//	          admission
//	              │
//	          ┌───▼────┐  stop, timeout     ┌───────────┐
//	          │ queued ├───────────────────▶│ cancelled │
//	          └───┬────┘  (effect none)     │ failed    │
//	  intent      │                         └───────────┘
//	          ┌───▼────┐   agent asks   ┌─────────┐
//	          │running │◀──────────────▶│ waiting │
//	          └─┬────┬─┘                └──┬────┬─┘
//	            │    └────────┬────────────┘    │ end, error, limit
//	            │             │ Stop            │
//	            │       ┌─────▼──────┐          │
//	            │       │ cancelling │          │
//	            │       └─────┬──────┘          │
//	            └─────────────┼─────────────────┘
//	     ┌──────────┬─────────┴┬───────────┐
//	┌────▼────┐ ┌───▼──┐ ┌─────▼─────┐ ┌───▼─────┐
//	│completed│ │failed│ │ cancelled │ │uncertain│
//	└─────────┘ └──────┘ └───────────┘ └─────────┘
//
// The zero value is no state.
type State uint8

// The states. The last four are terminal: a run never leaves them.
const (
	StateNone State = iota
	Queued
	Running
	Waiting
	Cancelling
	Completed
	Failed
	Cancelled
	Uncertain
)

var stateNames = [...]string{"", "queued", "running", "waiting", "cancelling", "completed", "failed", "cancelled", "uncertain"}

// moves is the whole table; what is not in it is forbidden.
var moves = map[State][]State{
	StateNone:  {Queued},
	Queued:     {Running, Cancelled, Failed},
	Running:    {Waiting, Cancelling, Completed, Failed, Cancelled, Uncertain},
	Waiting:    {Running, Cancelling, Completed, Failed, Cancelled, Uncertain},
	Cancelling: {Completed, Failed, Cancelled, Uncertain},
}

// String returns the word that records and events use.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// ParseState is the inverse of [State.String].
func ParseState(text string) (State, bool) {
	i := slices.Index(stateNames[:], text)
	return State(max(i, 0)), i > 0
}

// Terminal reports whether a run in this state has ended for good.
func (s State) Terminal() bool { return s >= Completed }

// Active reports whether a run in this state still holds its conversation.
func (s State) Active() bool { return s >= Queued && s <= Cancelling }

// CanBecome reports whether the table allows the move. An illegal move is
// reported, never repaired.
func (s State) CanBecome(to State) bool { return slices.Contains(moves[s], to) }

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reason says why a run is in its state; empty when the state says it all.
type Reason string

// The reasons that a record may carry.
const (
	ReasonInputRequired       Reason = "input_required"
	ReasonSuperseded          Reason = "superseded"
	ReasonUpstreamError       Reason = "upstream_error"
	ReasonUpstreamStatus      Reason = "upstream_status"
	ReasonUpstreamTruncated   Reason = "upstream_truncated"
	ReasonUpstreamUnreachable Reason = "upstream_unreachable"
	ReasonDeadlineExceeded    Reason = "deadline_exceeded"
	ReasonIdleTimeout         Reason = "idle_timeout"
	ReasonHeaderTimeout       Reason = "header_timeout"
	ReasonFrameTooLarge       Reason = "frame_too_large"
	ReasonStoreUnavailable    Reason = "store_unavailable"
	ReasonLogLost             Reason = "log_lost"
	ReasonOwnerLost           Reason = "owner_lost"
	ReasonGatewayStopped      Reason = "gateway_stopped"
	ReasonQueueTimeout        Reason = "queue_timeout"
	ReasonRefusal             Reason = "refusal"
	ReasonContentFilter       Reason = "content_filter"
	ReasonLength              Reason = "length"
)

// Effect says what may have happened outside the gateway.
type Effect uint8

// The effects, in the order in which they grow.
const (
	EffectNone     Effect = iota // provably nothing happened
	EffectPossible               // dispatched; the gateway cannot see inside
	EffectObserved               // the result of a tool with effects was seen
)

var effectNames = [...]string{"none", "possible", "observed"}

// String returns the word that records and events use.
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return fmt.Sprintf("Effect(%d)", uint8(e))
}

// MarshalText implements [encoding.TextMarshaler].
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
