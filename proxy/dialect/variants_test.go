package dialect_test

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// variantTales are what backends tell in their own way.
var variantTales = []tale{
	{
		name: "a step that is tried again", dialect: "ai-ui-v1",
		blocks: []string{
			`{"type":"start-step"}`, `{"type":"text-delta","id":"1","delta":"kept "}`, `{"type":"finish-step"}`,
			`{"type":"start-step"}`, `{"type":"reasoning-delta","id":"2","delta":"dropped"}`, `{"type":"text-delta","id":"2","delta":"dropped"}`,
			`{"type":"tool-input-start","toolCallId":"c","toolName":"f"}`, `{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{\"dropped\""}`,
			`{"type":"tool-input-available","toolCallId":"d","toolName":"g","input":{}}`, `{"type":"tool-output-available","toolCallId":"d","output":"done"}`,
			`{"type":"reset-step"}`, `{"type":"text-delta","id":"2","delta":"again"}`,
			`{"type":"tool-input-available","toolCallId":"c","toolName":"f","input":{"a":1}}`, `{"type":"finish","finishReason":"tool-calls"}`, "[DONE]",
		},
		end: "completed", ids: "  ", text: "kept again", finish: "tool-calls", tools: "g",
		receipts: []dialect.Receipt{receipt(10, "d", "g", "succeeded", "done")}, open: []dialect.Call{{Seq: 13, CallID: "c", Name: "f", Arguments: `{"a":1}`}},
	},
	{
		name: "llama.cpp with timings", dialect: "openai-chat",
		blocks: []string{
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"hm"}}],"id":"c","model":"m","object":"chat.completion.chunk"}`,
			`{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"id":"c","model":"m","object":"chat.completion.chunk"}`,
			`{"choices":[],"id":"c","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":1,"total_tokens":3},"timings":{"prompt_n":1,"predicted_n":2}}`,
			"[DONE]",
		},
		end: "completed", ids: "c  m", thought: "hm", finish: "stop", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
	},
	{
		name: "vLLM that fails in a 200", dialect: "openai-chat",
		blocks: []string{chatDelta, `{"error":{"object":"error","message":"no room","type":"BadRequestError","param":null,"code":400}}`, "[DONE]"},
		end:    "failed upstream_error", ids: "c  ", text: "tok",
	},
	{
		name: "SGLang that aborts", dialect: "openai-chat",
		blocks: []string{chatDelta, stop("abort"), "[DONE]"}, end: "cancelled", ids: "c  ", text: "tok", finish: "abort",
	},
	{
		name: "OpenRouter with an error beside a choice", dialect: "openai-chat",
		blocks: []string{chatDelta, `{"id":"c","error":{"code":502,"message":"no"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, "[DONE]"},
		end:    "failed upstream_error", ids: "c  ", text: "tok", finish: "error", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
	},
	{
		name: "Groq with its own usage", dialect: "openai-chat",
		blocks: []string{chatDelta, `{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req","usage":{"prompt_tokens":1,"completion_tokens":2}}}`, "[DONE]"},
		end:    "completed", ids: "c  ", text: "tok", finish: "stop", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
	},
	{
		name: "Azure with filters", dialect: "openai-chat",
		blocks: []string{
			`{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false}}}]}`,
			`{"choices":[{"content_filter_results":{"hate":{"filtered":false}},"delta":{"content":"a"},"finish_reason":null,"index":0}],"id":"c","model":"m","object":"chat.completion.chunk"}`,
			`{"choices":[{"content_filter_results":{"hate":{"filtered":true}},"delta":{},"finish_reason":"content_filter","index":0}],"id":"c","model":"m","object":"chat.completion.chunk"}`,
			"[DONE]",
		},
		end: "completed content_filter", ids: "c  m", text: "a", finish: "content_filter",
	},
}

// TestWhatIsNoFrameChangesNothing: comments while a backend waits (OpenRouter,
// DeepSeek), and the error of older versions of llama.cpp, which is a field that
// no client knows: there the missing end tells.
func TestWhatIsNoFrameChangesNothing(t *testing.T) {
	t.Parallel()
	d := lookup(t, "openai-chat")
	whole := string(sse(chatDelta, chatDelta, stop("stop"), "[DONE]"))
	for _, between := range []string{": OPENROUTER PROCESSING\n\n", ": keep-alive\n\n", "retry: 10\n\n"} {
		frames := cut(t, d.Kind, []byte(between+strings.ReplaceAll(whole, "\n\n", "\n\n"+between)), 0)
		if s, snap := read(d, d.Kind, frames), fold(d, d.Kind, frames); s.state(d) != "completed" || snap.Text != "toktok" || len(frames) != 4 {
			t.Errorf("%q: got %s, text %q and %d frames", between, s.state(d), snap.Text, len(frames))
		}
	}
	frames := cut(t, d.Kind, append(sse(chatDelta), `error: {"code":500,"message":"no"}`+"\n\n"...), 0)
	if s := read(d, d.Kind, frames); s.state(d) != "truncated" {
		t.Errorf("got %s, want a stream without its end", s.state(d))
	}
}
