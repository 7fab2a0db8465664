// Package frame cuts the body of a streamed answer into frames without
// changing a byte, and puts our own event id into a frame when it is sent on.
//
// It promises:
//
//  1. Whatever the chunking of the input, the same frames come out. (Opaque
//     bodies have no frames of their own: there the chunks are the frames.)
//  2. Frames and what is dropped (comments, retry fields, a byte order mark,
//     blank lines, an unfinished rest), joined in order, are the body.
//  3. Memory is bounded: a frame longer than the limit ends the cut with
//     [ErrTooLong].
//  4. Nothing upstream sends can forge the id of a rendered frame.
//
// Cutting, parsing and rendering take time linear in the bytes, and allocate
// nothing per frame once their buffers have grown to the size of the frames.
//
// The package imports the standard library only.
package frame

import "errors"

// ErrTooLong means that a frame is longer than the limit of the cutter.
var ErrTooLong = errors.New("frame is too long")

// Kind is a framing: how a body falls into frames.
type Kind uint8

// The framings.
const (
	// SSE is text/event-stream: blocks of fields ended by a blank line (HTML
	// Standard, section 9.2.6).
	SSE Kind = iota
	// Lines is one frame per non-empty line: NDJSON, JSON Lines, AI SDK data
	// streams.
	Lines
	// Opaque is one frame per piece as it arrived.
	Opaque
)

// Frame is one piece of a body. Its slices are valid until the sink returns,
// those of a frame filled by [Parse] until it is filled again.
type Frame struct {
	// Raw is the frame as received, with its line ends.
	Raw []byte
	// Clean is what is stored and sent on: Raw without id and retry fields and
	// without comments. It shares memory with Raw when Raw has none of them.
	Clean []byte
	// Event, Data and ID are the fields of an SSE block as a client would read
	// them; of a line, Data is the line without its end. An SSE event type that
	// is absent or empty is empty here. Data may be a part of Raw.
	Event []byte
	Data  []byte
	ID    []byte
	// HasID tells an empty id from an absent one.
	HasID bool
	// HasData tells an empty data field from an absent one.
	HasData bool

	hasEvent bool   // an event field, even an empty one, makes a block a frame
	values   int    // data fields
	joined   []byte // memory for Data that stands on several lines
	cleaned  []byte // memory for a Clean that is not Raw
}

// reset makes f a frame of raw without fields. Field by field is what the
// compiler does fastest, and this runs for every frame.
func (f *Frame) reset(raw []byte) {
	f.Raw, f.Clean = raw, raw
	f.Event, f.Data, f.ID = nil, nil, nil
	f.HasID, f.HasData, f.hasEvent, f.values = false, false, false, 0
	f.joined, f.cleaned = shrink(f.joined), shrink(f.cleaned)
}

// Sink receives the pieces of a body in order.
type Sink struct {
	// Frame receives each frame. An error ends the cut and is returned from it.
	Frame func(*Frame) error
	// Dropped receives bytes that are in no frame; it may be nil. One dropped
	// piece may come in several calls. The slice is valid until it returns.
	Dropped func([]byte)
}

func (s *Sink) drop(p []byte) {
	if s.Dropped != nil && len(p) > 0 {
		s.Dropped(p)
	}
}
