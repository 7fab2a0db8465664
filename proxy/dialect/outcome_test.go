package dialect_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// stop is a chunk of Chat Completions that ends choice 0.
func stop(word string) string {
	return `{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"` + word + `"}]}`
}

const (
	chatDelta = `{"id":"c","choices":[{"index":0,"delta":{"content":"tok"},"finish_reason":null}]}`
	chatError = `{"error":{"message":"no","code":500}}`
)

// cleanEnds are streams whose body ends properly after the last block.
var cleanEnds = []struct {
	name, dialect string
	blocks        []string
	state, reason string
}{
	{"chat with everything", "openai-chat", []string{chatDelta, stop("stop"), "[DONE]"}, "completed", ""},
	{"chat without its end marker", "openai-chat", []string{chatDelta, stop("stop")}, "completed", ""},
	{"chat without a reason", "openai-chat", []string{chatDelta, "[DONE]"}, "completed", ""},
	{"chat without either", "openai-chat", []string{chatDelta, chatDelta}, "truncated", ""},
	{"chat whose other choice ended", "openai-chat", []string{`{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`}, "truncated", ""},
	{"chat cut by length", "openai-chat", []string{stop("length"), "[DONE]"}, "completed", "length"},
	{"chat cut by the window", "openai-chat", []string{stop("model_length"), "[DONE]"}, "completed", "length"},
	{"chat filtered", "openai-chat", []string{stop("content_filter"), "[DONE]"}, "completed", "content_filter"},
	{"chat that failed in a word", "openai-chat", []string{stop("error"), "[DONE]"}, "failed", "upstream_error"},
	{"chat that was aborted", "openai-chat", []string{stop("abort"), "[DONE]"}, "cancelled", ""},
	{"chat with tools", "openai-chat", []string{stop("tool_calls"), "[DONE]"}, "completed", ""},
	{"chat with an unknown word", "openai-chat", []string{stop("because"), "[DONE]"}, "completed", ""},
	{"chat with an error", "openai-chat", []string{chatDelta, chatError}, "failed", "upstream_error"},
	{"chat with an error before the marker", "openai-chat", []string{chatError, "[DONE]"}, "failed", "upstream_error"},
	{"chat with an error between successes", "openai-chat", []string{stop("stop"), chatError, stop("stop"), "[DONE]"}, "failed", "upstream_error"},
	{"chat with a named error", "openai-chat", []string{"error|not even JSON"}, "failed", "upstream_error"},
	{"chat with the older error of vLLM", "openai-chat", []string{`{"object":"error","message":"no","code":400}`, "[DONE]"}, "failed", "upstream_error"},
	{"chat with an empty error", "openai-chat", []string{`{"error":null,"choices":[{"index":0,"delta":{"content":"a"}}]}`, "[DONE]"}, "completed", ""},
	{"chat that speaks of errors", "openai-chat", []string{`{"choices":[{"index":0,"delta":{"content":"{\"error\":{}}"}}]}`, "[DONE]"}, "completed", ""},

	{"responses", "openai-responses", []string{`response.completed|{"type":"response.completed","response":{}}`}, "completed", ""},
	{"responses without a last frame", "openai-responses", []string{`response.output_text.delta|{"delta":"a"}`}, "truncated", ""},
	{"responses cut by length", "openai-responses", []string{`response.incomplete|{"response":{"incomplete_details":{"reason":"max_output_tokens"}}}`}, "completed", "length"},
	{"responses filtered", "openai-responses", []string{`response.incomplete|{"response":{"incomplete_details":{"reason":"content_filter"}}}`}, "completed", "content_filter"},
	{"responses incomplete without a reason", "openai-responses", []string{`response.incomplete|{"response":{"status":"incomplete"}}`}, "completed", ""},
	{"responses that failed", "openai-responses", []string{`response.failed|{"response":{"error":{"code":"x","message":"y"}}}`}, "failed", "upstream_error"},
	{"responses cancelled", "openai-responses", []string{`response.cancelled|{"response":{}}`}, "cancelled", ""},
	{"responses that are called completed but were cut", "openai-responses", []string{`response.completed|{"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`}, "completed", "length"},
	{"responses that are called completed but failed", "openai-responses", []string{`response.completed|{"response":{"status":"failed","error":{"code":"x","message":"y"}}}`}, "failed", "upstream_error"},
	{"responses that are called completed but were cancelled", "openai-responses", []string{`response.completed|{"response":{"status":"cancelled"}}`}, "cancelled", ""},
	{"responses refused in the last frame alone", "openai-responses", []string{`response.completed|{"response":{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}}`}, "completed", "refusal"},
	{"responses refused", "openai-responses", []string{`response.refusal.delta|{"delta":"no"}`, `response.completed|{"response":{}}`}, "completed", "refusal"},
	{"responses with a flat error", "openai-responses", []string{`error|{"type":"error","code":"x","message":"y"}`, `response.completed|{"response":{}}`}, "failed", "upstream_error"},
	{"responses without event fields", "openai-responses", []string{`{"type":"response.completed","response":{}}`}, "completed", ""},

	{"messages", "anthropic-messages", []string{`message_delta|{"delta":{"stop_reason":"end_turn"}}`, `message_stop|{"type":"message_stop"}`}, "completed", ""},
	{"messages without a stop", "anthropic-messages", []string{`content_block_delta|{"delta":{"text":"a"}}`}, "truncated", ""},
	{"messages cut by length", "anthropic-messages", []string{`message_delta|{"delta":{"stop_reason":"max_tokens"}}`, `message_stop|{}`}, "completed", "length"},
	{"messages cut by the window", "anthropic-messages", []string{`message_delta|{"delta":{"stop_reason":"model_context_window_exceeded"}}`}, "completed", "length"},
	{"messages refused", "anthropic-messages", []string{`message_delta|{"delta":{"stop_reason":"refusal"}}`, `message_stop|{}`}, "completed", "refusal"},
	{"messages paused", "anthropic-messages", []string{`message_delta|{"delta":{"stop_reason":"pause_turn"}}`, `message_stop|{}`}, "completed", "input_required"},
	{"messages with an error", "anthropic-messages", []string{`error|{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, `message_stop|{}`}, "failed", "upstream_error"},

	{"ollama", "ollama", []string{`{"model":"m","message":{"content":"a"},"done":false}`, `{"done":true,"done_reason":"stop"}`}, "completed", ""},
	{"ollama without done", "ollama", []string{`{"model":"m","message":{"content":"a"},"done":false}`}, "truncated", ""},
	{"ollama that speaks of done", "ollama", []string{`{"message":{"content":"x","done":true},"done":false}`}, "truncated", ""},
	{"ollama cut by length", "ollama", []string{`{"done":true,"done_reason":"length"}`}, "completed", "length"},
	{"ollama with an error", "ollama", []string{`{"done":false}`, `{"error":"x"}`, `{"done":true}`}, "failed", "upstream_error"},

	{"UI messages", "ai-ui-v1", []string{`{"type":"finish","finishReason":"stop"}`, "[DONE]"}, "completed", ""},
	{"UI messages without finish", "ai-ui-v1", []string{`{"type":"text-delta","delta":"a"}`}, "truncated", ""},
	{"UI messages that finish without a reason", "ai-ui-v1", []string{`{"type":"finish"}`}, "completed", ""},
	{"UI messages with only the marker", "ai-ui-v1", []string{"[DONE]"}, "completed", ""},
	{"UI messages filtered", "ai-ui-v1", []string{`{"type":"finish","finishReason":"content-filter"}`, "[DONE]"}, "completed", "content_filter"},
	{"UI messages aborted", "ai-ui-v1", []string{`{"type":"abort"}`, `{"type":"finish"}`, "[DONE]"}, "cancelled", ""},
	{"UI messages with an error", "ai-ui-v1", []string{`{"type":"error","errorText":"x"}`, `{"type":"finish","finishReason":"stop"}`, "[DONE]"}, "failed", "upstream_error"},
	{"UI messages that ask", "ai-ui-v1", []string{`{"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}`, `{"type":"finish","finishReason":"tool-calls"}`, "[DONE]"}, "completed", "input_required"},
	{"UI messages that ask and answer", "ai-ui-v1", []string{`{"type":"tool-approval-request"}`, `{"type":"tool-approval-response"}`, `{"type":"finish"}`}, "completed", ""},

	{"data stream", "ai-data-v1", []string{`0:"a"`, `d:{"finishReason":"stop"}`}, "completed", ""},
	{"data stream without its end", "ai-data-v1", []string{`f:{"messageId":"m"}`, `0:"a"`, `e:{"finishReason":"stop"}`}, "truncated", ""},
	{"data stream without steps", "ai-data-v1", []string{`0:"a"`}, "completed", ""},
	{"data stream without steps and with an error", "ai-data-v1", []string{`g:"a"`, `3:"x"`, `0:"a"`}, "failed", "upstream_error"},
	{"data stream with an error", "ai-data-v1", []string{`3:"x"`, `d:{"finishReason":"stop"}`}, "failed", "upstream_error"},

	{"AG-UI", "ag-ui", []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"RUN_FINISHED"}`}, "completed", ""},
	{"AG-UI without an end", "ag-ui", []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`}, "truncated", ""},
	{"AG-UI interrupted", "ag-ui", []string{`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[]}}`}, "completed", "input_required"},
	{"AG-UI cancelled", "ag-ui", []string{`{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`}, "cancelled", ""},
	{"AG-UI with a late error", "ag-ui", []string{`{"type":"RUN_FINISHED","outcome":{"type":"success"}}`, `{"type":"RUN_ERROR","message":"x"}`}, "failed", "upstream_error"},

	{"LangGraph", "langgraph", []string{`metadata|{"run_id":"r"}`, `values|{}`}, "completed", ""},
	{"LangGraph with an error", "langgraph", []string{`error|{"error":"E","message":"x"}`}, "failed", "upstream_error"},
	{"LangGraph of old", "langgraph", []string{"end|"}, "completed", ""},

	{"Gemini", "gemini", []string{`{"candidates":[{"finishReason":"STOP"}]}`}, "completed", ""},
	{"Gemini without a reason", "gemini", []string{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`}, "truncated", ""},
	{"Gemini cut by length", "gemini", []string{`{"candidates":[{"finishReason":"MAX_TOKENS"}]}`}, "completed", "length"},
	{"Gemini filtered", "gemini", []string{`{"candidates":[{"finishReason":"SAFETY"}]}`}, "completed", "content_filter"},
	{"Gemini without an image", "gemini", []string{`{"candidates":[{"finishReason":"IMAGE_SAFETY"}]}`}, "completed", "content_filter"},
	{"Gemini blocked", "gemini", []string{`{"promptFeedback":{"blockReason":"SAFETY"}}`}, "completed", "content_filter"},
	{"Gemini with a broken call", "gemini", []string{`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`}, "failed", "upstream_error"},
	{"Gemini with an error", "gemini", []string{`{"candidates":[{"finishReason":"STOP"}]}`, `{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`}, "failed", "upstream_error"},

	{"MCP", "mcp", []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, "completed", ""},
	{"MCP that the server closed to be polled", "mcp", []string{`{"jsonrpc":"2.0","method":"notifications/progress"}`}, "completed", ""},
	{"MCP with an error", "mcp", []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x"}}`}, "failed", "upstream_error"},

	{"generic", "generic", []string{"a", "error|b", `{"error":{}}`}, "completed", ""},
}

func TestStreamsThatEndCleanlyReachTheirState(t *testing.T) {
	t.Parallel()
	for _, tt := range cleanEnds {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := tell(t, tt.dialect, tt.blocks...)
			if got := s.state(lookup(t, tt.dialect)); got != tt.state || s.Reason != tt.reason {
				t.Errorf("got %s %q, want %s %q", got, s.Reason, tt.state, tt.reason)
			}
		})
	}
}

// TestEndMarkersAreSeenInTheirFrame: the state may be known before the end
// marker; the marker is what begins the grace for late frames.
func TestEndMarkersAreSeenInTheirFrame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dialect, frame string
		end            bool
	}{
		{"openai-chat", "[DONE]", true},
		{"openai-chat", stop("stop"), false},
		{"openai-chat", chatError, true},
		{"openai-responses", `response.completed|{"response":{}}`, true},
		{"openai-responses", `response.incomplete|{"response":{}}`, true},
		{"openai-responses", `response.failed|{"response":{}}`, true},
		{"openai-responses", `error|{"message":"x"}`, true},
		{"openai-responses", "[DONE]", false}, // of OpenRouter, after the end
		{"anthropic-messages", `message_stop|{}`, true},
		{"anthropic-messages", `message_delta|{"delta":{"stop_reason":"end_turn"}}`, false},
		{"anthropic-messages", `error|{"error":{}}`, true},
		{"ollama", `{"done":true}`, true},
		{"ollama", `{"error":"x"}`, true},
		{"ai-ui-v1", "[DONE]", true},
		{"ai-ui-v1", `{"type":"finish"}`, false}, // merged streams have several
		{"ai-ui-v1", `{"type":"error","errorText":"x"}`, false},
		{"ai-ui-v1", `{"type":"abort"}`, false},
		{"ai-data-v1", `d:{}`, true},
		{"ai-data-v1", `e:{}`, false},
		{"ai-data-v1", `3:"x"`, false},
		{"ag-ui", `{"type":"RUN_FINISHED"}`, true},
		{"ag-ui", `{"type":"RUN_ERROR"}`, true},
		{"langgraph", `error|{}`, true},
		{"langgraph", `error|sub:1`, true},
		{"gemini", `{"candidates":[{"finishReason":"STOP"}]}`, false}, // older models say so in every chunk
		{"mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`, true},
		{"mcp", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`, false},
		{"generic", "[DONE]", false},
	} {
		s, _ := tell(t, tt.dialect, tt.frame)
		if s.Marker != tt.end {
			t.Errorf("%s: %s: got end %v, want %v", tt.dialect, tt.frame, s.Marker, tt.end)
		}
	}
}

// TestBrokenSuccessIsNoSuccess: a marker whose JSON is cut off would make a
// client fail; it must not make a run complete (promise 3).
func TestBrokenSuccessIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dialect, frame string }{
		{"openai-chat", `{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"`},
		{"openai-responses", `response.completed|{"type":"response.completed","response":{"status":"comp`},
		{"anthropic-messages", `message_stop|{"type":"message_stop"`},
		{"anthropic-messages", `message_delta|{"delta":{"stop_reason":"end_turn"}`},
		{"ollama", `{"model":"m","done":true`},
		{"ai-ui-v1", `{"type":"finish","finishReason":"stop"`},
		{"ai-data-v1", `d:{"finishReason":"stop"`},
		{"ag-ui", `{"type":"RUN_FINISHED"`},
		{"gemini", `{"candidates":[{"finishReason":"STOP"}`},
		{"mcp", `{"jsonrpc":"2.0","id":1,"result":{"content":[]}`},
	} {
		s, _ := tell(t, tt.dialect, tt.frame)
		if s.Marker || s.Outcome != dialect.OutcomeNone || s.Tools != nil {
			t.Errorf("%s: %s: got %+v, want nothing", tt.dialect, tt.frame, s)
		}
	}
}

// TestLiveReaderDropsSuccessAfterError: not only the sum of a run, each frame
// keeps to promise 3.
func TestLiveReaderDropsSuccessAfterError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dialect, first, then string }{
		{"openai-chat", chatError, stop("stop")},
		{"openai-chat", stop("abort"), stop("stop")},
		{"ai-ui-v1", `{"type":"error","errorText":"x"}`, `{"type":"finish","finishReason":"stop"}`},
		{"ai-ui-v1", `{"type":"error","errorText":"x"}`, `{"type":"abort"}`},
	} {
		d := lookup(t, tt.dialect)
		r := d.NewReader()
		frames := cut(t, d.Kind, sse(tt.first, tt.then), 0)
		var s story
		s.add(readOne(d, r, frames[0]))
		if s.Outcome == dialect.OutcomeNone {
			t.Errorf("%s: %s: got no outcome", tt.dialect, tt.first)
		}
		if got := readOne(d, r, frames[1]); got.Outcome != dialect.OutcomeNone || got.Reason != "" {
			t.Errorf("%s: %s after %s: got outcome %v %q, want none", tt.dialect, tt.then, tt.first, got.Outcome, got.Reason)
		}
	}
}
