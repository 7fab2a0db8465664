package dialect

import "github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"

// Retold is how a stream is joined whose frames have no positions and which does
// not begin with all that was made so far: it begins with the state of the run,
// and may repeat all of its frames after that.
type Retold struct {
	// Anchor returns the name by which the stream is joined, which takes the place
	// of a position, if the frame tells it.
	Anchor func(f *frame.Frame) string
	// Event names what a frame tells, so that it is known when the state tells it
	// in other words. It is empty for a frame that no state tells, such as a piece
	// of text.
	Event func(f *frame.Frame) string
}

// Void is the event of a frame that is part of a state and tells nothing.
const Void = "void"
