package dialect

import (
	"bytes"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// replicate is the stream of a prediction of Replicate: its output is bare
// text, not JSON.
var replicate = spec{
	Dialect: Dialect{
		Name: "replicate", Kind: frame.SSE, Wire: sseWire,
		certain: isPrediction,
		Failure: replicateFailure,
	},
	find: byName,
	plain: func(f *frame.Frame) ([]byte, bool) {
		return f.Data, string(f.Event) == "output"
	},
	rules: rules{
		"output": {bare: true, is: "text.delta"},
		"error":  {fail: paths{""}, bare: true},
		"done":   {end: true, finish: paths{"reason"}, is: "message.completed"},
	},
	words: map[string]meaning{"canceled": meansStopped, "error": meansFailed},
}.dialect()

// isPrediction: ids are a time and a number.
func isPrediction(f *frame.Frame) bool {
	time, number, ok := bytes.Cut(f.ID, []byte{':'})
	return ok && isDigits(time) && isDigits(number) && (string(f.Event) == "output" || string(f.Event) == "error")
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// replicateFailure: a prediction that was stopped ends without an error, which
// its clients would take for the end of a whole one.
func replicateFailure(f Failure) [][]byte {
	reason := "error"
	if f.Code == codeCancelled {
		reason = "canceled"
	}
	return [][]byte{
		eventFrame("error", f.object(map[string]any{"detail": f.Message, "message": f.Message, "code": f.Code})),
		eventFrame("done", oneLine(map[string]any{"reason": reason})),
	}
}
