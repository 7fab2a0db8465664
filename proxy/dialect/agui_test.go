package dialect_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// history is a stream that begins with an earlier run of its thread.
var history = []string{
	`{"type":"RUN_STARTED","threadId":"t","runId":"old"}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"before"}`,
	`{"type":"RUN_FINISHED","threadId":"t","runId":"old"}`,
	`{"type":"RUN_STARTED","threadId":"t","runId":"mine"}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"n","delta":"now"}`,
	`{"type":"RUN_FINISHED","threadId":"t","runId":"mine"}`,
}

func TestEarlierRunsDoNotEndAStream(t *testing.T) {
	t.Parallel()
	d := lookup(t, "ag-ui")
	frames := cut(t, d.Kind, sse(history...), 0)
	for _, tt := range []struct {
		own       string
		end, last int    // the first frame that ends the stream, or -1; the frame of the id that is told last
		id        string // which id that is
	}{
		{"mine", 5, 3, "mine"},
		{"", 2, 0, "old"},         // nobody knows better
		{"another", -1, 0, "old"}, // a server that names runs itself: its clean end decides
		{"old", 2, 0, "old"},
	} {
		r := d.ReaderOf(tt.own)
		end, last, id := -1, -1, ""
		outcome := dialect.OutcomeNone
		for i, clean := range frames {
			f := readOne(d, r, clean)
			if f.End && end < 0 {
				end = i
			}
			if f.UpstreamID != "" {
				last, id = i, f.UpstreamID
			}
			outcome = max(outcome, f.Outcome)
		}
		if end != tt.end || last != tt.last || id != tt.id || end < 0 && outcome != dialect.OutcomeCompleted {
			t.Errorf("own run %q: got end at %d, id %q at %d, outcome %d, want %d, %q at %d, completed", tt.own, end, id, last, outcome, tt.end, tt.id, tt.last)
		}
	}
	if got := fold(d, d.Kind, frames).Text; got != "now" {
		t.Errorf("got text %q, want that of the last run", got)
	}
	if got := fold(d, d.Kind, frames[:3]).Text; got != "before" {
		t.Errorf("got text %q, want that of the only run", got)
	}
}
