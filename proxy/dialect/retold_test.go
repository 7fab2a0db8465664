package dialect_test

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// TestEventsOfDifyHaveNames, however a state words them; pieces have none.
func TestEventsOfDifyHaveNames(t *testing.T) {
	t.Parallel()
	d := lookup(t, "dify")
	for _, tt := range []struct{ frame, anchor, event string }{
		{difyEvent("workflow_started", `"workflow_run_id":"w","data":{"id":"w"}`), "w", "workflow_started w"},
		{`{"data":{},"workflow_run_id":"w", "event" : "workflow_started"}`, "w", "workflow_started w"},
		{difyEvent("workflow_started", ""), "", ""},
		{difyEvent("workflow_started", `"workflow_run_id":"`+strings.Repeat("w", 600)+`"`), "", ""},
		{difyEvent("node_started", `"workflow_run_id":"w","data":{"id":"e","node_id":"n"}`), "w", "node_started e"},
		{difyEvent("node_finished", `"data":{"node_id":"n","id":"e","outputs":null}`), "", "node_finished e"},
		{difyEvent("node_finished", `"data":{"node_id":"n"}`), "", ""},
		{difyEvent("human_input_required", `"data":{"form_id":"f"}`), "", "human_input_required f"},
		{difyEvent("message_replace", `"answer":"","reason":""`), "", dialect.Void},
		{difyEvent("message_replace", `"answer":"","reason":"output_moderation"`), "", ""},
		{difyEvent("message_replace", `"answer":"a","reason":""`), "", ""},
		{difyEvent("message", `"answer":"workflow_started","workflow_run_id":"w"`), "", ""},
		{`{"answer":"workflow_started","event":"message","workflow_run_id":"w"}`, "", ""},
		{difyEvent("text_chunk", `"data":{"text":"a"}`), "", ""},
		{difyEvent("iteration_next", `"data":{"id":"e"}`), "", ""},
		{difyEvent("node_retry", `"data":{"id":"e","retry_index":1}`), "", ""},
		{difyEvent("workflow_paused", `"data":{"id":"e"}`), "", ""},
		{difyEvent("workflow_finished", `"data":{"id":"e"}`), "", ""},
		{`{"event":"error","message":"no"}`, "", ""},
		{`{"event":"workflow_st`, "", ""},
		{`no JSON`, "", ""},
	} {
		var f frame.Frame
		frame.Parse(frame.SSE, sse(tt.frame), &f)
		if got := d.Retold.Anchor(&f); got != tt.anchor {
			t.Errorf("%s: got the anchor %q, want %q", tt.frame, got, tt.anchor)
		}
		if got := d.Retold.Event(&f); got != tt.event {
			t.Errorf("%s: got the event %q, want %q", tt.frame, got, tt.event)
		}
	}
}

// TestTheTextOfATornStreamIsWhatUpstreamStated in one piece, and nothing that
// only looks like all of it.
func TestTheTextOfATornStreamIsWhatUpstreamStated(t *testing.T) {
	t.Parallel()
	finished := func(outputs string) string {
		return difyEvent("workflow_finished", `"data":{"status":"succeeded","outputs":`+outputs+`}`)
	}
	message, replaced := difyEvent("message", `"answer":"a"`), difyEvent("message_replace", `"answer":"no"`)
	long := strings.Repeat("x", dialect.MaxText+1)
	for name, tt := range map[string]struct {
		blocks []string
		text   string
		whole  bool
	}{
		"a chatflow":                 {[]string{message, finished(`{"answer":"abc","files":[]}`)}, "abc", true},
		"an empty answer":            {[]string{message, finished(`{"answer":""}`)}, "", true},
		"a workflow":                 {[]string{difyEvent("text_chunk", `"data":{"text":"b"}`), finished(`{"result":"abc"}`)}, "abc", true},
		"two outputs":                {[]string{message, finished(`{"answer":"abc","more":"d"}`)}, "a", false},
		"an output that is no text":  {[]string{message, finished(`{"answer":{"a":"b"}}`)}, "a", false},
		"files that are no list":     {[]string{message, finished(`{"answer":"abc","files":"d"}`)}, "a", false},
		"no outputs":                 {[]string{message, finished(`null`)}, "a", false},
		"not yet":                    {[]string{message}, "a", false},
		"a moderated answer":         {[]string{message, replaced, finished(`{"answer":"abc"}`)}, "no", true},
		"text after a replacement":   {[]string{message, replaced, message, finished(`{"answer":"abc"}`)}, "abc", true},
		"pieces after a replacement": {[]string{difyEvent("text_replace", `"data":{"text":"no"}`), difyEvent("text_chunk", `"data":{"text":"a"}`)}, "noa", false},
		"reasoning":                  {[]string{difyEvent("reasoning_chunk", `"data":{"reasoning":"hm"}`), finished(`{"answer":"abc"}`)}, "abc", false},
		"as much as there may be":    {[]string{message, finished(`{"answer":"` + long[1:] + `"}`)}, long[1:], true},
		"too much":                   {[]string{message, finished(`{"answer":"` + long + `"}`)}, long[1:], true},
		"another dialect's":          {nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := lookup(t, "dify")
			o := d.NewFolder()
			for i, clean := range cut(t, d.Kind, sse(tt.blocks...), 0) {
				var f frame.Frame
				frame.Parse(d.Kind, clean, &f)
				o.Fold(uint64(i+1), &f)
			}
			s := o.Snapshot()
			whole := s.Restate()
			if whole != tt.whole || s.Text != tt.text || s.Truncated != (name == "too much") {
				t.Errorf("got %d bytes %.10q, whole %v, truncated %v", len(s.Text), s.Text, whole, s.Truncated)
			}
			if before := o.Snapshot(); before.Text == "abc" && tt.blocks[0] == message {
				t.Error("the pieces are forgotten where nothing is missing")
			}
		})
	}
}
