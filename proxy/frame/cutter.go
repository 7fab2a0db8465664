package frame

import (
	"errors"
	"math"
	"slices"
)

// Cutter cuts one body into frames. It is not safe for concurrent use.
type Cutter interface {
	// Cut takes the next bytes of the body and hands every frame that they
	// complete to the sink before it returns. It does not keep p. After an error
	// - [ErrTooLong], or one of the sink - the body cannot be cut any further:
	// every later call returns that error again. Frames before the one that is
	// too long have been handed on; the bytes of that frame are given to nobody.
	Cut(p []byte, s Sink) error
	// End is the end of the body, the last call. What no frame can be made of is
	// dropped: of event streams and of bodies that did not end cleanly the
	// unfinished rest (HTML Standard, section 9.2.6). The last line of a body
	// that ended cleanly is a frame even without a line end.
	End(s Sink, clean bool) error
	// Pending is the number of bytes held back because their frame is not
	// complete.
	Pending() int
	// LastID is the id that a client which has read everything handed on so far
	// would send as Last-Event-ID: unlike [Frame].ID it persists over frames
	// without an id, and blocks that are no frames move it too. It is empty for
	// framings without ids, and valid until the next call.
	LastID() []byte
}

// errEnded answers a call after End.
var errEnded = errors.New("body has ended")

// New returns a cutter for one body. limit is the length of the longest frame
// in bytes, as received; 0 is no limit. Opaque pieces longer than the limit
// are split instead, since their length has no meaning.
func New(kind Kind, limit int) Cutter {
	if limit <= 0 {
		limit = math.MaxInt
	}
	switch kind {
	case Lines:
		return &lineCutter{held: held{limit: limit}}
	case Opaque:
		return &opaqueCutter{limit: limit}
	case SSE:
	}
	return &sseCutter{held: held{limit: limit}}
}

// held is the part of a frame that earlier calls brought.
type held struct {
	bytes []byte
	limit int
}

// add holds p back.
func (h *held) add(p []byte) error {
	if len(p) > h.limit-len(h.bytes) {
		h.bytes = nil
		return ErrTooLong
	}
	if len(p) > cap(h.bytes)-len(h.bytes) {
		// Doubling copies a long frame twice; append's own quarter, five times.
		h.bytes = slices.Grow(h.bytes, max(len(p), len(h.bytes)))
	}
	h.bytes = append(h.bytes, p...)
	return nil
}

// join returns the frame that ends with p. Without earlier bytes that is p
// itself, so that a frame which arrives in one piece is never copied.
func (h *held) join(p []byte) ([]byte, error) {
	if len(h.bytes) == 0 && len(p) <= h.limit {
		return p, nil
	}
	err := h.add(p)
	return h.bytes, err
}

func (h *held) release() { h.bytes = shrink(h.bytes) }

// retained is the most memory that a buffer keeps from one frame to the next.
// There is a cutter for each live run, so one huge frame must not cost memory
// until the run ends.
const retained = 8 << 10

// shrink returns b emptied for reuse, or nil if it has grown huge.
func shrink(b []byte) []byte {
	if cap(b) > retained {
		return nil
	}
	return b[:0]
}
