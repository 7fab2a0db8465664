// Package dialect knows how existing backends speak: which requests are
// generations, where text, tools, usage and ids live in their streams, how a
// stream ends, and what may be added to it.
//
// It promises:
//
//  1. It never changes a byte of what it reads, and what it cannot parse never
//     stops delivery: such a frame tells nothing.
//  2. Reading an ordinary frame of a live run parses nothing and allocates
//     nothing: a scan for bytes decides whether a frame is worth a parse.
//  3. An error is never overwritten by a later success, and a success marker
//     counts only if its JSON is whole.
//  4. Folding takes time linear in the frames, and a snapshot depends on the
//     frames alone, not on when it was asked for. Text, reasoning, arguments
//     and each result are cut at [MaxText] bytes.
//  5. Memory of a reader is bounded, whatever the frames say.
//  6. A frame that tells of a failure is one line of JSON: nothing in a message
//     can forge another frame.
//
// Each dialect is one small file with one table entry: a spec, which is
// compiled into a [Dialect]. Go code stands in it only where a path into the
// JSON cannot say what is meant.
package dialect

import (
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// Dialect is how one kind of backend speaks. It is not changed once made; any
// number of runs use it at the same time.
type Dialect struct {
	// Name as it stands in configuration and records.
	Name string
	// Kind is the framing of its streams.
	Kind frame.Kind
	// Framing tells how a body falls into frames where the content type does not
	// say so. Nil when the content type is enough.
	Framing func(h http.Header) (frame.Kind, bool)
	// CleanEnd tells that a body that ends properly is a whole answer even
	// without an end marker and without an outcome.
	CleanEnd bool
	// PausedEnd tells that a body which ends properly while the agent waits for
	// input has ended with that question.
	PausedEnd bool
	// Wire is what may be added to its stream; see also [Dialect.WireFor].
	Wire Wire
	// Resume are templates of the paths at which its clients look for a running
	// answer. {start_path} is the path of the start, {conversation_id} and
	// {upstream_run_id} are one segment each.
	Resume []string
	// NewReader returns what looks at each frame of one run as it arrives.
	NewReader func() Reader
	// NewFolder returns what folds the stored frames of one run into its
	// snapshot.
	NewFolder func() Folder
	// Type names a frame in neutral words: text.delta, reasoning.delta,
	// tool.requested, tool.completed, tool.failed, usage, message.completed,
	// run.waiting, error, other.
	Type func(f *frame.Frame) string
	// Position returns upstream's own name for a frame, after which its stream
	// can be joined; empty for a frame without one. Nil: the id of the frame.
	Position func(f *frame.Frame) string
	// Retold, if set, tells how streams without positions are laid over a log.
	Retold *Retold
	// Failure returns the frames by which a client of this dialect learns that
	// its stream did not complete, without ids and each with its own end. Nil
	// when the dialect has no such frame: the transport is aborted then.
	Failure func(f Failure) [][]byte
	// Overlooked tells that its clients hand a failure on like any frame and
	// raise nothing: the transport is aborted behind it.
	Overlooked bool
	// Numbered tells that a failure has to go on from the last frame of the
	// stream: its number or its request; see [Failure].Last.
	Numbered bool

	// calls are what its backends take about one of their runs.
	calls []Calls
	// cancels are those of them that stop a run, and stops all by which clients
	// do.
	cancels, stops []*ControlCall
	// whole tells that a frame holds all that its run has made so far.
	whole func(f *frame.Frame) bool
	// generations are patterns of the paths that generate; see matchTail.
	generations []string
	// certain tells that the first frame of a stream can only be of this
	// dialect; plausible, that it can be.
	certain, plausible func(f *frame.Frame) bool
}

// ReaderOf returns a reader for the run that its client has named, as [RunKey]
// tells; a stream may hold other runs, too. The name may be empty.
func (d *Dialect) ReaderOf(run string) Reader {
	made := d.NewReader()
	if r, ok := made.(*reader); ok {
		r.own = run
	}
	return made
}

// Wire says what a stream of a dialect tolerates. The zero value adds nothing.
type Wire struct {
	// IDs tells that each frame gets our id line.
	IDs bool
	// Keepalive is sent between frames after silence; empty sends nothing.
	Keepalive string
	// KeepaliveGap is the shortest time between two keepalives.
	KeepaliveGap time.Duration
}

// WireFor is what may be added when the stream came in the framing k, which is
// not always the dialect's own: a backend may answer with NDJSON where its
// dialect speaks SSE.
func (d *Dialect) WireFor(k frame.Kind) Wire {
	switch {
	case k == d.Kind:
		return d.Wire
	case k == frame.SSE:
		return sseWire
	case k == frame.Lines:
		return linesWire
	default:
		return Wire{}
	}
}

// sseWire is what every SSE client tested skips: an id line inside each frame,
// and a comment without a blank line of its own. (A blank line after the
// comment makes several of them deliver an empty event.)
var sseWire = Wire{IDs: true, Keepalive: ": keepalive\n"}

// linesWire fills silence with a space: white space before a JSON text belongs
// to it (RFC 8259, section 2), an empty line does not.
var linesWire = Wire{Keepalive: " "}

// Reader looks at the frames of a live run, in order.
type Reader interface {
	// Read returns what the frame tells. It is called once per frame on the hot
	// path and must not parse where a scan for bytes decides. It keeps nothing
	// of the frame's memory.
	Read(f *frame.Frame) Facts
}

// Facts are what one frame tells about its run. The zero value tells nothing.
type Facts struct {
	// End tells that this is the dialect's end marker. The state that the run
	// then reaches is Outcome of the last frame that had one, else Completed.
	End bool
	// Outcome is set when the frame decides how the run ends. An error is never
	// overwritten by a later success. A stream that ends properly after an
	// outcome has ended with it, end marker or not.
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
	// Observed tells that the result of a tool was seen. ToolName names the
	// tool; it is empty when the stream does not say which one it was. Whether
	// that tool has effects is not the dialect's to know.
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

// The reasons that a stream can give for its outcome.
const (
	reasonUpstreamError = "upstream_error"
	reasonInputRequired = "input_required"
	reasonRefusal       = "refusal"
	reasonContentFilter = "content_filter"
	reasonLength        = "length"
)

// Usage is what upstream reported.
type Usage struct {
	InputTokens, OutputTokens int64
	// Complete tells that upstream will report nothing more.
	Complete bool
}

// Folder folds the stored frames of one run, in order, into a snapshot.
type Folder interface {
	// Fold adds one frame. seq is its number in the run. It keeps nothing of the
	// frame's memory.
	Fold(seq uint64, f *frame.Frame)
	// Snapshot returns what was folded so far. More may be folded after it; a
	// snapshot once returned does not change.
	Snapshot() Snapshot
}

// MaxText bounds text, reasoning, arguments and each result of a snapshot, in
// bytes.
const MaxText = 1 << 20
