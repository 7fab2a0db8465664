package dialect_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// What streams say of themselves is compared with what was read from their
// pieces. The other side is decoded with encoding/json alone.

// objects are the JSON data of a recording's frames that are objects.
func objects(t *testing.T, kind frame.Kind, frames [][]byte) (all []map[string]any) {
	t.Helper()
	var f frame.Frame
	for _, clean := range frames {
		frame.Parse(kind, clean, &f)
		var m map[string]any
		if json.Unmarshal(f.Data, &m) == nil {
			all = append(all, m)
		}
	}
	return all
}

// dig follows keys and indexes; it is nil where there is nothing.
func dig(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func tokens(v any) int64 {
	n, _ := v.(float64)
	return int64(n)
}

// of returns the recordings of one dialect.
func of(t *testing.T, dialectName string) (names []string) {
	t.Helper()
	for name, d := range streams(t) {
		if d.Name == dialectName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		t.Fatalf("no recordings of %s", dialectName)
	}
	return names
}

// TestResponsesAgreeWithTheirLastFrame: text, calls and receipts put together
// without the last frame are what the last frame says.
func TestResponsesAgreeWithTheirLastFrame(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, name := range of(t, "openai-responses") {
		d := lookup(t, "openai-responses")
		frames := cut(t, d.Kind, testkit.Recording(t, name), 0)
		last := slices.IndexFunc(frames, func(b []byte) bool { return strings.Contains(string(b), `"response.completed"`) })
		if last < 0 {
			continue
		}
		all := objects(t, d.Kind, frames[last:last+1])
		if len(all) == 0 {
			continue // the recording's own last frame is broken
		}
		checked++
		whole := dig(all[0], "response")
		text, calls, receipts := outputOf(whole)
		reasoning := ""
		for _, item := range list(dig(whole, "output")) {
			for _, part := range append(list(dig(item, "summary")), list(dig(item, "content"))...) {
				if str(dig(item, "type")) == "reasoning" {
					reasoning += str(dig(part, "text"))
				}
			}
		}
		snap := fold(d, d.Kind, frames[:last])
		if digestOf(snap.Text) != digestOf(text) {
			t.Errorf("%s: got text %v, want %v", name, digestOf(snap.Text), digestOf(text))
		}
		if got := optional(snap.Reasoning); digestOf(got) != digestOf(reasoning) {
			t.Errorf("%s: got reasoning %v, want %v", name, digestOf(got), digestOf(reasoning))
		}
		var gotCalls, gotReceipts []string
		for _, c := range snap.Unresolved {
			gotCalls = append(gotCalls, c.CallID+" "+c.Name+" "+c.Arguments)
		}
		for _, r := range snap.ToolReceipts {
			gotReceipts = append(gotReceipts, r.CallID)
		}
		if !slices.Equal(gotCalls, calls) || !slices.Equal(gotReceipts, receipts) {
			t.Errorf("%s: got calls %q and receipts %q, want %q and %q", name, gotCalls, gotReceipts, calls, receipts)
		}
		s := read(d, d.Kind, frames)
		in, out := tokens(dig(whole, "usage", "input_tokens")), tokens(dig(whole, "usage", "output_tokens"))
		if s.Usage == nil || s.Usage.InputTokens != in || s.Usage.OutputTokens != out || !s.Usage.Complete {
			t.Errorf("%s: got usage %+v, want %d and %d", name, s.Usage, in, out)
		}
	}
	if checked < 12 {
		t.Errorf("got %d recordings with a last frame, want 12 or more", checked)
	}
}

func outputOf(response any) (text string, calls, receipts []string) {
	output, _ := dig(response, "output").([]any)
	for _, item := range output {
		switch kind := str(dig(item, "type")); kind {
		case "message":
			parts, _ := dig(item, "content").([]any)
			for _, part := range parts {
				text += str(dig(part, "text"))
			}
		case "function_call":
			calls = append(calls, str(dig(item, "call_id"))+" "+str(dig(item, "name"))+" "+str(dig(item, "arguments")))
		case "mcp_approval_request":
			calls = append(calls, str(dig(item, "id"))+" "+str(dig(item, "name"))+" "+str(dig(item, "arguments")))
		case "web_search_call", "code_interpreter_call", "mcp_call":
			receipts = append(receipts, str(dig(item, "id")))
		}
	}
	return text, calls, receipts
}

// TestMessagesAgreeWithTheirDeltas: usage is the last that was told, and every
// text delta is in the text.
func TestMessagesAgreeWithTheirDeltas(t *testing.T) {
	t.Parallel()
	for _, name := range of(t, "anthropic-messages") {
		d := lookup(t, "anthropic-messages")
		frames := cut(t, d.Kind, testkit.Recording(t, name), 0)
		var text, stop string
		var in, out int64
		for _, m := range objects(t, d.Kind, frames) {
			text += str(dig(m, "delta", "text"))
			for _, u := range []any{dig(m, "message", "usage"), dig(m, "usage")} {
				if v := dig(u, "input_tokens"); v != nil {
					in = tokens(v)
				}
				if v := dig(u, "output_tokens"); v != nil {
					out = tokens(v)
				}
			}
			if word := str(dig(m, "delta", "stop_reason")); word != "" {
				stop = word
			}
		}
		s, snap := read(d, d.Kind, frames), fold(d, d.Kind, frames)
		if s.Usage == nil || s.Usage.InputTokens != in || s.Usage.OutputTokens != out {
			t.Errorf("%s: got usage %+v, want %d and %d", name, s.Usage, in, out)
		}
		if digestOf(snap.Text) != digestOf(text) || snap.FinishReason == nil || *snap.FinishReason != stop {
			t.Errorf("%s: got text %v and reason %v, want %v and %q", name, digestOf(snap.Text), snap.FinishReason, digestOf(text), stop)
		}
	}
}

// TestChatsAgreeWithTheirChunks: choice 0, and the usage of the last chunk that
// has one.
func TestChatsAgreeWithTheirChunks(t *testing.T) {
	t.Parallel()
	for _, name := range append(of(t, "openai-chat"), of(t, "openai-completions")...) {
		d := streams(t)[name]
		frames := cut(t, d.Kind, testkit.Recording(t, name), 0)
		var text, stop string
		var usage any
		for _, m := range objects(t, d.Kind, frames) {
			choices, _ := dig(m, "choices").([]any)
			for _, c := range choices {
				if tokens(dig(c, "index")) == 0 {
					text += str(dig(c, "delta", "content")) + str(dig(c, "delta", "refusal")) + str(dig(c, "text"))
					stop = max(stop, str(dig(c, "finish_reason")))
				}
			}
			if u, ok := dig(m, "usage").(map[string]any); ok {
				usage = u
			}
		}
		s, snap := read(d, d.Kind, frames), fold(d, d.Kind, frames)
		if usage != nil && (s.Usage == nil || s.Usage.InputTokens != tokens(dig(usage, "prompt_tokens")) ||
			s.Usage.OutputTokens != tokens(dig(usage, "completion_tokens")) || !s.Usage.Complete) {
			t.Errorf("%s: got usage %+v, want %v", name, s.Usage, usage)
		}
		if digestOf(snap.Text) != digestOf(text) || stop != "" && (snap.FinishReason == nil || *snap.FinishReason != stop) {
			t.Errorf("%s: got text %v and reason %v, want %v and %q", name, digestOf(snap.Text), snap.FinishReason, digestOf(text), stop)
		}
	}
}

// TestGraphsAgreeWithTheirValues: text put together from pieces, or from
// messages that grow, is that of the messages in the last state.
func TestGraphsAgreeWithTheirValues(t *testing.T) {
	t.Parallel()
	d := lookup(t, "langgraph")
	name := "langgraph/api-server-messages-values.sse"
	frames := cut(t, d.Kind, testkit.Recording(t, name), 0)
	var want string
	for _, m := range objects(t, d.Kind, frames) {
		messages, _ := dig(m, "messages").([]any)
		if len(messages) == 0 {
			continue
		}
		want = ""
		for _, message := range messages {
			if str(dig(message, "type")) == "ai" {
				want += str(dig(message, "content"))
			}
		}
	}
	if got := fold(d, d.Kind, frames).Text; want == "" || digestOf(got) != digestOf(want) {
		t.Errorf("%s: got text %v, want %v", name, digestOf(got), digestOf(want))
	}
}

// TestReattachedStreamFoldsToTheSameAnswer: a recording, and the tail of it
// that was fetched again.
func TestReattachedStreamFoldsToTheSameAnswer(t *testing.T) {
	t.Parallel()
	d := lookup(t, "openai-responses")
	whole := cut(t, d.Kind, testkit.Recording(t, "openai-responses/background-queued.sse"), 0)
	tail := cut(t, d.Kind, testkit.Recording(t, "openai-responses/background-resume-starting-after.sse"), 0)
	want := fold(d, d.Kind, whole)
	for from := range tail {
		if got := fold(d, d.Kind, tail[from:]); got.Text != want.Text || *got.FinishReason != *want.FinishReason {
			t.Errorf("tail from %d: got text %v, want %v", from, digestOf(got.Text), digestOf(want.Text))
		}
	}
}
