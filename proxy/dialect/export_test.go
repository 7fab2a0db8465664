package dialect

import (
	"maps"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// CertainOf are the dialects that claim the first frame of a stream.
func CertainOf(f *frame.Frame) (names []string) {
	for _, d := range all {
		if d.certain(f) {
			names = append(names, d.Name)
		}
	}
	return names
}

// Clone returns a reader that knows what r knows.
func Clone(r Reader) Reader {
	switch made := r.(type) {
	case *reader:
		c := *made
		c.names = maps.Clone(made.names)
		return &c
	case *stepless:
		return &stepless{Reader: Clone(made.Reader), begun: made.begun}
	default:
		return r
	}
}
