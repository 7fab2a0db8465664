package dialect

import "github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"

// genericName is the dialect of streams without a known meaning.
const genericName = "generic"

// generic: a body that ends properly is a whole answer, and nothing in it says
// otherwise. It has no frame for a failure.
var generic = &Dialect{
	Name: genericName, Kind: frame.SSE, CleanEnd: true, Wire: sseWire,
	NewReader: func() Reader { return silent{} },
	NewFolder: func() Folder { return &linesFolder{} },
	Type:      func(*frame.Frame) string { return "other" },
	Failure:   func(Failure) [][]byte { return nil },
	certain:   func(*frame.Frame) bool { return false },
	plausible: func(*frame.Frame) bool { return false },
}

// silent is the [Reader] of frames that tell nothing.
type silent struct{}

// Read implements [Reader].
func (silent) Read(*frame.Frame) Facts { return Facts{} }

// linesFolder joins the data of frames with line feeds.
type linesFolder struct {
	text clip
	some bool
}

// Fold implements [Folder].
func (l *linesFolder) Fold(_ uint64, f *frame.Frame) {
	if !f.HasData {
		return
	}
	if l.some {
		l.text.add("\n")
	}
	l.some = true
	l.text.add(string(f.Data))
}

// Snapshot implements [Folder].
func (l *linesFolder) Snapshot() Snapshot {
	a := answer{text: l.text}
	return a.snapshot()
}
