package dialect

import "github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"

// CertainOf are the dialects that claim the first frame of a stream.
func CertainOf(f *frame.Frame) (names []string) {
	for _, d := range all {
		if d.certain(f) {
			names = append(names, d.Name)
		}
	}
	return names
}
