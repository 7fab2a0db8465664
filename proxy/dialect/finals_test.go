package dialect_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// final is what a stream says of itself, in its last frames or all together.
type final struct {
	text, reasoning, finish string
	in, out                 int64
	calls, receipts         []string // ids or names, in order
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// finals read the finals of recordings. They are written for the recordings,
// and know nothing of how dialects work.
var finals = map[string]func(events []event) final{
	"openai-assistants": func(events []event) (f final) {
		for _, e := range events {
			switch e.name {
			case "thread.message.completed":
				for _, part := range list(dig(e.data, "content")) {
					f.text += str(dig(part, "text", "value"))
				}
			case "thread.run.step.completed":
				for _, call := range list(dig(e.data, "step_details", "tool_calls")) {
					f.receipts = append(f.receipts, str(dig(call, "id")))
				}
			case "thread.run.completed":
				f.finish = str(dig(e.data, "status"))
				f.in, f.out = tokens(dig(e.data, "usage", "prompt_tokens")), tokens(dig(e.data, "usage", "completion_tokens"))
			}
		}
		return f
	},
	"gemini": func(events []event) (f final) {
		for _, e := range events {
			for _, part := range list(dig(e.data, "candidates", 0, "content", "parts")) {
				if dig(part, "thought") == true {
					f.reasoning += str(dig(part, "text"))
				} else {
					f.text += str(dig(part, "text"))
				}
				if name := str(dig(part, "functionCall", "name")); name != "" {
					f.calls = append(f.calls, name)
				}
			}
			f.finish = max(f.finish, str(dig(e.data, "candidates", 0, "finishReason")))
			if u := dig(e.data, "usageMetadata"); dig(u, "promptTokenCount") != nil {
				f.in = tokens(dig(u, "promptTokenCount")) + tokens(dig(u, "toolUsePromptTokenCount"))
				f.out = tokens(dig(u, "totalTokenCount")) - f.in
			}
		}
		return f
	},
	"gemini-interactions": func(events []event) (f final) {
		for _, e := range events {
			f.text += str(dig(e.data, "delta", "text"))
			if kind := str(dig(e.data, "step", "type")); kind == "function_call" {
				f.calls = append(f.calls, str(dig(e.data, "step", "name")))
			}
			if whole := dig(e.data, "interaction"); dig(whole, "usage") != nil {
				f.finish = str(dig(whole, "status"))
				f.in = tokens(dig(whole, "usage", "total_input_tokens"))
				f.out = tokens(dig(whole, "usage", "total_tokens")) - f.in
			}
		}
		return f
	},
	"ollama": func(events []event) (f final) {
		for _, e := range events {
			f.text += str(dig(e.data, "message", "content")) + str(dig(e.data, "response"))
			if dig(e.data, "done") == true {
				f.finish = str(dig(e.data, "done_reason"))
				f.in, f.out = tokens(dig(e.data, "prompt_eval_count")), tokens(dig(e.data, "eval_count"))
			}
		}
		return f
	},
	"a2a": func(events []event) (f final) {
		for _, e := range events {
			result := dig(e.data, "result")
			for _, artifact := range append(list(dig(result, "task", "artifacts")), dig(result, "artifactUpdate", "artifact")) {
				for _, part := range list(dig(artifact, "parts")) {
					f.text += str(dig(part, "text"))
				}
			}
			for _, kind := range []string{"task", "statusUpdate"} {
				state := strings.ToLower(strings.TrimPrefix(str(dig(result, kind, "status", "state")), "TASK_STATE_"))
				if state == "completed" || state == "canceled" || state == "failed" {
					f.finish = state
				}
			}
		}
		return f
	},
	"ai-ui-v1": func(events []event) (f final) {
		for _, e := range events {
			switch str(dig(e.data, "type")) {
			case "text-delta":
				f.text += str(dig(e.data, "delta"))
			case "reasoning-delta":
				f.reasoning += str(dig(e.data, "delta"))
			case "tool-output-available":
				f.receipts = append(f.receipts, str(dig(e.data, "toolCallId")))
			case "finish":
				f.finish = str(dig(e.data, "finishReason"))
			}
		}
		return f
	},
	"ag-ui": func(events []event) (f final) {
		for _, e := range events {
			switch str(dig(e.data, "type")) {
			case "TEXT_MESSAGE_CONTENT":
				f.text += str(dig(e.data, "delta"))
			case "TOOL_CALL_RESULT":
				f.receipts = append(f.receipts, str(dig(e.data, "toolCallId")))
			}
		}
		return f
	},
	"assistant-transport": func(events []event) (f final) {
		var kinds []string
		for _, e := range events {
			switch place := dig(e.data, "path", 0); str(dig(e.data, "type")) {
			case "part-start":
				kinds = append(kinds, str(dig(e.data, "part", "type")))
			case "text-delta":
				switch piece := str(dig(e.data, "textDelta")); kinds[int(tokens(place))] {
				case "text":
					f.text += piece
				case "reasoning":
					f.reasoning += piece
				}
			}
		}
		return f
	},
	"anthropic-messages": func(events []event) (f final) {
		for _, e := range events {
			f.reasoning += str(dig(e.data, "content_block", "thinking")) + str(dig(e.data, "delta", "thinking"))
			f.text += str(dig(e.data, "content_block", "text")) + str(dig(e.data, "delta", "text"))
			if id := str(dig(e.data, "content_block", "tool_use_id")); id != "" {
				f.receipts = append(f.receipts, id)
			}
			if word := str(dig(e.data, "delta", "stop_reason")); word != "" {
				f.finish = word
			}
		}
		return f
	},
	"openai-chat": func(events []event) (f final) {
		for _, e := range events {
			for _, c := range list(dig(e.data, "choices")) {
				if tokens(dig(c, "index")) != 0 {
					continue
				}
				f.text += str(dig(c, "delta", "content")) + str(dig(c, "delta", "refusal"))
				once := str(dig(c, "delta", "reasoning_content"))
				if once == "" {
					once = str(dig(c, "delta", "reasoning"))
				}
				for _, detail := range list(dig(c, "delta", "reasoning_details")) {
					if dig(c, "delta", "reasoning") == nil {
						once += str(dig(detail, "text")) + str(dig(detail, "summary"))
					}
				}
				f.reasoning += once
				for _, call := range list(dig(c, "delta", "tool_calls")) {
					if id := str(dig(call, "id")); id != "" && !slices.Contains(f.calls, id) {
						f.calls = append(f.calls, id)
					}
				}
				f.finish = max(f.finish, str(dig(c, "finish_reason")))
			}
		}
		return f
	},
	"replicate": func(events []event) (f final) {
		for _, e := range events {
			if e.name == "output" {
				f.text += e.text
			}
		}
		return f
	},
}

// event is a frame with its JSON decoded.
type event struct {
	name, text string
	data       any
}

func eventsOf(t *testing.T, d *dialect.Dialect, name string) (all []event) {
	t.Helper()
	for _, f := range parsed(d.Kind, cut(t, d.Kind, testkit.Recording(t, name), 0)) {
		e := event{name: string(f.Event), text: string(f.Data)}
		for _, o := range objects(t, d.Kind, [][]byte{f.Clean}) {
			e.data = o
		}
		all = append(all, e)
	}
	return all
}

// TestStreamsAgreeWithThemselves: what was read and folded from the pieces is
// what the stream says in its last frames, or all its pieces joined by hand.
func TestStreamsAgreeWithThemselves(t *testing.T) {
	t.Parallel()
	for name, d := range streams(t) {
		finalOf, ok := finals[d.Name]
		if !ok || d.Kind == frame.Opaque {
			continue
		}
		want := finalOf(eventsOf(t, d, name))
		frames := cut(t, d.Kind, testkit.Recording(t, name), 0)
		s, snap := read(d, d.Kind, frames), fold(d, d.Kind, frames)
		if snap.Text != want.text || optional(snap.Reasoning) != want.reasoning {
			t.Errorf("%s: got text %v and reasoning %v, want %v and %v", name,
				digestOf(snap.Text), digestOf(optional(snap.Reasoning)), digestOf(want.text), digestOf(want.reasoning))
		}
		if want.finish != "" && optional(snap.FinishReason) != want.finish {
			t.Errorf("%s: got finish reason %q, want %q", name, optional(snap.FinishReason), want.finish)
		}
		if want.in+want.out > 0 && (s.Usage == nil || s.Usage.InputTokens != want.in || s.Usage.OutputTokens != want.out) {
			t.Errorf("%s: got usage %+v, want %d and %d", name, s.Usage, want.in, want.out)
		}
		var receipts, calls []string
		for _, r := range snap.ToolReceipts {
			receipts = append(receipts, r.CallID)
		}
		for _, c := range snap.Unresolved {
			calls = append(calls, c.CallID, c.Name)
		}
		if want.receipts != nil && !slices.Equal(receipts, want.receipts) {
			t.Errorf("%s: got receipts %q, want %q", name, receipts, want.receipts)
		}
		for _, call := range want.calls {
			if !slices.Contains(calls, call) {
				t.Errorf("%s: got calls %q, want %q among them", name, calls, call)
			}
		}
	}
}
