// Package dialect knows how existing backends speak: which requests are
// generations, where text, tools, usage and ids live in their streams, how a
// stream ends, and what may be added to it. It never changes a byte of what it
// reads, and what it cannot parse never stops delivery.
//
// Each dialect is one small file with one table entry.
package dialect

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// Dialect is how one kind of backend speaks.
type Dialect struct {
	// Name as it stands in configuration and records.
	Name string
	// CleanEnd tells that a body that ends properly is a whole answer even
	// without an end marker.
	CleanEnd bool
	// Wire is what may be added to its stream.
	Wire Wire
	// NewReader returns what looks at each frame of one run as it arrives.
	NewReader func() Reader
	// NewFolder returns what folds the stored frames of one run into its
	// snapshot.
	NewFolder func() Folder
	// Type names a frame in neutral words: text.delta, reasoning.delta,
	// tool.requested, tool.completed, tool.failed, usage, message.completed,
	// run.waiting, error, other.
	Type func(f *frame.Frame) string
	// Failure returns the frames by which a client of this dialect learns that
	// its stream did not complete, without ids and each with its own end. Nil
	// when the dialect has no such frame: the transport is aborted then.
	Failure func(f Failure) [][]byte
}

// Wire says what a stream of a dialect tolerates.
type Wire struct {
	// IDs tells that each frame gets our id line.
	IDs bool
	// Keepalive is sent between frames after silence; empty sends nothing.
	Keepalive string
	// KeepaliveGap is the shortest time between two keepalives.
	KeepaliveGap time.Duration
}

// Reader looks at the frames of a live run, in order.
type Reader interface {
	// Read returns what the frame tells. It is called once per frame on the hot
	// path and must not parse where a scan for bytes decides.
	Read(f *frame.Frame) Facts
}

// Facts are what one frame tells about its run. The zero value tells nothing.
type Facts struct {
	// End tells that this is the dialect's end marker. The state that the run
	// then reaches is Outcome of the last frame that had one, else Completed.
	End bool
	// Outcome is set when the frame decides how the run ends. An error is never
	// overwritten by a later success.
	Outcome Outcome
	// Reason details the outcome, in the words of the contract: upstream_error,
	// refusal, content_filter, length, input_required.
	Reason string
	// UpstreamID is upstream's id of the generation, when first seen.
	UpstreamID string
	// ConversationID is upstream's id of the conversation, when first seen.
	ConversationID string
	// Model is the model that answers, when first seen.
	Model string
	// Usage is the usage so far, when the frame reports it.
	Usage *Usage
	// Observed tells that the result of a tool with effects was seen. ToolName
	// names the tool.
	Observed bool
	ToolName string
	// Waiting is +1 when the agent began to wait for input while the stream
	// stays open and -1 when it went on.
	Waiting int
}

// Outcome is how a stream says that it ended.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone Outcome = iota
	OutcomeCompleted
	OutcomeFailed
	OutcomeCancelled
)

// Usage is what upstream reported.
type Usage struct {
	InputTokens, OutputTokens int64
	// Complete tells that upstream will report nothing more.
	Complete bool
}

// Folder folds the stored frames of one run, in order, into a snapshot.
type Folder interface {
	// Fold adds one frame. seq is its number in the run.
	Fold(seq uint64, f *frame.Frame)
	// Snapshot returns what was folded so far.
	Snapshot() Snapshot
}

// Snapshot is the answer as a client would have put it together. Its JSON form
// is the snapshot of the public record.
type Snapshot struct {
	// Complete tells that the run completed and every frame was folded. The
	// caller sets it.
	Complete bool `json:"complete"`
	// Truncated tells that text or results were cut at [MaxText].
	Truncated    bool      `json:"truncated"`
	Text         string    `json:"text"`
	Reasoning    *string   `json:"reasoning"`
	FinishReason *string   `json:"finish_reason"`
	ToolReceipts []Receipt `json:"tool_receipts"`
	// Unresolved are tool calls without a result.
	Unresolved []Call `json:"unresolved"`
	// Error is what upstream said went wrong.
	Error *Error `json:"error"`
}

// Receipt is the result of a tool that upstream ran.
type Receipt struct {
	Seq       uint64  `json:"seq"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Status    string  `json:"status"` // succeeded | failed
	ReceiptID *string `json:"receipt_id"`
	Result    *string `json:"result"`
}

// Call is a tool call that was asked for.
type Call struct {
	Seq       uint64 `json:"seq"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Error is an error as upstream described it.
type Error struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Type    string `json:"type,omitempty"`
}

// MaxText bounds text, reasoning and each result of a snapshot, in bytes.
const MaxText = 1 << 20

// Failure is what a client has to learn about a run that did not complete.
type Failure struct {
	// Code is failed, cancelled, uncertain or stream_expired.
	Code string
	// Message is safe to show.
	Message string
	// Members are added to the error object where the dialect has room.
	Members map[string]any
}
