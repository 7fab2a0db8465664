package dialect_test

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

func TestIDsAreToldOnceWhenFirstSeen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, dialect           string
		blocks                  []string
		id, conversation, model string
	}{
		{"in every chunk", "openai-chat", []string{`{"id":"a","model":"m","choices":[]}`, `{"id":"a","model":"m","choices":[]}`}, "a", "", "m"},
		{"empty at first", "openai-chat", []string{`{"id":"","model":"","choices":[],"prompt_filter_results":[]}`, `{"id":"a","model":"m","choices":[{"index":0,"delta":{}}]}`}, "a", "", "m"},
		{"a model that changes", "openai-chat", []string{`{"id":"a","model":"m","choices":[]}`, `{"id":"b","model":"n","choices":[]}`}, "a", "", "m"},
		{"beside an error", "openai-chat", []string{`{"id":"a","model":"m","error":{"message":"x"},"choices":[]}`}, "a", "", "m"},
		{"no text", "openai-chat", []string{`{"id":7,"model":null,"choices":[]}`}, "", "", ""},
		{"too long to be one", "openai-chat", []string{`{"id":"` + strings.Repeat("x", 513) + `","choices":[]}`}, "", "", ""},
		{"after too many frames", "openai-chat", append(repeat(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, 16), `{"id":"late","choices":[]}`), "", "", ""},
		{"in the first frame", "openai-responses", []string{`response.created|{"response":{"id":"r","model":"m","conversation":{"id":"c"}}}`, `response.completed|{"response":{"id":"r2"}}`}, "r", "c", "m"},
		{"in the last frame of a tail", "openai-responses", []string{`response.completed|{"response":{"id":"r","model":"m"}}`}, "r", "", "m"},
		{"of the first of two messages", "anthropic-messages", []string{`message_start|{"message":{"id":"a","model":"m"}}`, `message_start|{"message":{"id":"b","model":"n"}}`}, "a", "", "m"},
		{"of a message", "ai-ui-v1", []string{`{"type":"start","messageId":"a"}`}, "a", "", ""},
		{"of a message", "ai-data-v1", []string{`f:{"messageId":"a"}`}, "a", "", ""},
		{"of a run and its thread", "ag-ui", []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`}, "r", "t", ""},
		{"of a run", "langgraph", []string{`metadata|{"run_id":"r"}`}, "r", "", ""},
		{"in every chunk", "gemini", []string{`{"candidates":[],"responseId":"r","modelVersion":"m"}`, `{"candidates":[],"responseId":"r"}`}, "r", "", "m"},
		{"none", "ollama", []string{`{"model":"m","done":false}`, `{"model":"m","done":true}`}, "", "", "m"},
	} {
		s, _ := tell(t, tt.dialect, tt.blocks...)
		if s.UpstreamID != tt.id || s.ConversationID != tt.conversation || s.Model != tt.model {
			t.Errorf("%s, %s: got %q, %q, %q, want %q, %q, %q", tt.dialect, tt.name,
				s.UpstreamID, s.ConversationID, s.Model, tt.id, tt.conversation, tt.model)
		}
	}
}

func repeat(block string, n int) []string {
	return strings.Split(strings.Repeat(block+"\x00", n-1)+block, "\x00")
}

func TestUsageIsTheLastThatWasTold(t *testing.T) {
	t.Parallel()
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":4}`
	for _, tt := range []struct {
		name, dialect string
		blocks        []string
		want          *dialect.Usage
	}{
		{"in a chunk of its own", "openai-chat", []string{stop("stop"), `{"choices":[],` + usage + `}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 4, Complete: true}},
		{"in every chunk", "openai-chat", []string{`{"choices":[{"index":0,"delta":{}}],` + usage + `}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 4}},
		{"with the reason", "openai-chat", []string{`{"choices":[{"index":0,"finish_reason":"stop"}],` + usage + `}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 4, Complete: true}},
		{"in the choice", "openai-chat", []string{`{"choices":[{"index":0,"finish_reason":"stop",` + usage + `}]}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 4, Complete: true}},
		{"of Groq", "openai-chat", []string{`{"choices":[{"index":0,"finish_reason":"stop"}],"x_groq":{` + usage + `}}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 4, Complete: true}},
		{"beside an error", "openai-chat", []string{`{"error":{"message":"x"},"choices":[{"index":0}],` + usage + `}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 4, Complete: true}},
		{"null", "openai-chat", []string{`{"choices":[{"index":0,"delta":{}}],"usage":null}`}, nil},
		{"no numbers", "openai-chat", []string{`{"choices":[],"usage":{"prompt_tokens":"3","completion_tokens":-1}}`}, nil},
		{"whole at the end", "openai-responses", []string{`response.completed|{"response":{"usage":{"input_tokens":1,"output_tokens":2}}}`}, &dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true}},
		{"of a failure", "openai-responses", []string{`response.failed|{"response":{"error":{},"usage":{"input_tokens":1,"output_tokens":0}}}`}, &dialect.Usage{InputTokens: 1, Complete: true}},
		{"at the start", "anthropic-messages", []string{`message_start|{"message":{"usage":{"input_tokens":5,"output_tokens":1}}}`}, &dialect.Usage{InputTokens: 5, OutputTokens: 1}},
		{"merged", "anthropic-messages", []string{`message_start|{"message":{"usage":{"input_tokens":5,"output_tokens":1}}}`, `message_delta|{"delta":{},"usage":{"output_tokens":9}}`}, &dialect.Usage{InputTokens: 5, OutputTokens: 9, Complete: true}},
		{"of a second message", "anthropic-messages", []string{`message_delta|{"delta":{},"usage":{"output_tokens":9}}`, `message_start|{"message":{"usage":{"input_tokens":5,"output_tokens":1}}}`}, &dialect.Usage{InputTokens: 5, OutputTokens: 1}},
		{"in the last line", "ollama", []string{`{"done":true,"prompt_eval_count":5,"eval_count":6}`}, &dialect.Usage{InputTokens: 5, OutputTokens: 6, Complete: true}},
		{"in the last line", "ai-data-v1", []string{`d:{"usage":{"promptTokens":5,"completionTokens":null}}`}, &dialect.Usage{InputTokens: 5, Complete: true}},
		{"in the metadata of the message", "ai-ui-v1", []string{`{"type":"message-metadata","messageMetadata":{"totalUsage":{"inputTokens":1,"outputTokens":1}}}`, `{"type":"finish","messageMetadata":{"totalUsage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 4, Complete: true}},
		{"of several models", "ag-ui", []string{`{"type":"RUN_FINISHED","usage":[{"inputTokens":1,"outputTokens":2},{"inputTokens":10}]}`}, &dialect.Usage{InputTokens: 11, OutputTokens: 2, Complete: true}},
		{"with thoughts and tools", "gemini", []string{`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"toolUsePromptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":4}}`}, &dialect.Usage{InputTokens: 3, OutputTokens: 7, Complete: true}},
		{"growing", "gemini", []string{`{"candidates":[],"usageMetadata":{"promptTokenCount":1}}`, `{"candidates":[],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":3}}`}, &dialect.Usage{InputTokens: 1, OutputTokens: 3}},
	} {
		s, _ := tell(t, tt.dialect, tt.blocks...)
		if got, want := encode(t, s.Usage), encode(t, tt.want); got != want {
			t.Errorf("%s, %s: got %s, want %s", tt.dialect, tt.name, got, want)
		}
	}
}

// TestUsageIsToldWhenItChanges: what is told is stored.
func TestUsageIsToldWhenItChanges(t *testing.T) {
	t.Parallel()
	d := lookup(t, "gemini")
	r := d.NewReader()
	chunk := sse(`{"candidates":[],"usageMetadata":{"promptTokenCount":1}}`)
	if f := readOne(d, r, chunk); f.Usage == nil {
		t.Error("got no usage, want it")
	}
	if f := readOne(d, r, chunk); f.Usage != nil {
		t.Errorf("got %+v again, want nothing new", f.Usage)
	}
}

func TestUpstreamsErrorIsKept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dialect, frame string
		want           dialect.Error
	}{
		{"openai-chat", `{"error":{"message":"m","type":"t","code":"c"}}`, dialect.Error{Message: "m", Type: "t", Code: "c"}},
		{"openai-chat", `{"error":{"message":"m","code":400}}`, dialect.Error{Message: "m", Code: "400"}},
		{"openai-chat", `{"error":"m"}`, dialect.Error{Message: "m"}},
		{"openai-chat", `{"object":"error","message":"m","code":400}`, dialect.Error{Message: "m", Code: "400"}},
		{"openai-chat", `error|out of luck`, dialect.Error{Message: "out of luck"}},
		{"openai-chat", `{"error":{"odd":1}}`, dialect.Error{Message: `{"odd":1}`}},
		{"openai-responses", `error|{"type":"error","code":"c","message":"m","param":null}`, dialect.Error{Message: "m", Code: "c"}},
		{"openai-responses", `error|{"type":"error","error":{"type":"t","code":"c","message":"m"}}`, dialect.Error{Message: "m", Type: "t", Code: "c"}},
		{"openai-responses", `response.failed|{"response":{"error":{"code":"c","message":"m"}}}`, dialect.Error{Message: "m", Code: "c"}},
		{"openai-responses", `response.failed|{"response":{"error":null}}`, dialect.Error{}},
		{"anthropic-messages", `error|{"type":"error","error":{"type":"t","message":"m"}}`, dialect.Error{Message: "m", Type: "t"}},
		{"ollama", `{"error":"m"}`, dialect.Error{Message: "m"}},
		{"ai-ui-v1", `{"type":"error","errorText":"m"}`, dialect.Error{Message: "m"}},
		{"ai-data-v1", `3:"m"`, dialect.Error{Message: "m"}},
		{"ag-ui", `{"type":"RUN_ERROR","message":"m","code":"c"}`, dialect.Error{Message: "m", Code: "c"}},
		{"langgraph", `error|{"error":"ValueError","message":"m"}`, dialect.Error{Message: "m", Type: "ValueError"}},
		{"langgraph", `error|{"error":"m"}`, dialect.Error{Message: "m"}},
		{"gemini", `{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`, dialect.Error{Message: "m", Type: "UNAVAILABLE", Code: "503"}},
		{"mcp", `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m"}}`, dialect.Error{Message: "m", Code: "-32000"}},
	} {
		_, snap := tell(t, tt.dialect, tt.frame)
		if snap.Error == nil || *snap.Error != tt.want {
			t.Errorf("%s: %s: got %+v, want %+v", tt.dialect, tt.frame, snap.Error, tt.want)
		}
	}
}

func TestFirstErrorIsTheCause(t *testing.T) {
	t.Parallel()
	_, snap := tell(t, "openai-responses", `error|{"message":"first"}`, `response.failed|{"response":{"error":{"message":"second"}}}`)
	if snap.Error == nil || snap.Error.Message != "first" {
		t.Errorf("got %+v, want the first", snap.Error)
	}
}

func TestFramesHaveNeutralNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dialect, frame, want string }{
		{"openai-chat", chatDelta, "text.delta"},
		{"openai-chat", `{"choices":[{"index":0,"delta":{"content":"last"},"finish_reason":"stop"}]}`, "text.delta"},
		{"openai-chat", `{"choices":[{"index":0,"delta":{"reasoning":"r"}}]}`, "reasoning.delta"},
		{"openai-chat", chatTool(`{"index":0,"id":"a","function":{"name":"f"}}`), "tool.requested"},
		{"openai-chat", chatTool(`{"index":0,"function":{"arguments":"{"}}`), "other"},
		{"openai-chat", stop("stop"), "message.completed"},
		{"openai-chat", `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, "usage"},
		{"openai-chat", chatError, "error"},
		{"openai-chat", "[DONE]", "other"},
		{"openai-responses", `response.output_text.delta|{"delta":"a"}`, "text.delta"},
		{"openai-responses", `response.completed|{"response":{"output":[{"content":[{"type":"output_text","text":"a"}]}]}}`, "message.completed"},
		{"openai-responses", `response.failed|{"response":{}}`, "error"},
		{"openai-responses", `response.output_item.done|{"item":{"id":"m","type":"mcp_call","name":"f","error":"x"}}`, "tool.failed"},
		{"openai-responses", `response.output_item.done|{"item":{"id":"m","type":"mcp_call","name":"f","output":"x"}}`, "tool.completed"},
		{"openai-responses", `response.output_item.done|{"item":{"id":"q","type":"mcp_approval_request","name":"f"}}`, "run.waiting"},
		{"anthropic-messages", `message_start|{"message":{"usage":{"input_tokens":1}}}`, "usage"},
		{"anthropic-messages", `message_delta|{"delta":{"stop_reason":"end_turn"}}`, "message.completed"},
		{"anthropic-messages", `ping|{"type":"ping"}`, "other"},
		{"ollama", `{"message":{"content":"a"},"done":false}`, "text.delta"},
		{"ollama", `{"message":{"content":""},"done":true}`, "message.completed"},
		{"ai-ui-v1", `{"type":"tool-output-error","toolCallId":"a","errorText":"x"}`, "tool.failed"},
		{"ai-ui-v1", `{"type":"tool-approval-request","toolCallId":"a"}`, "run.waiting"},
		{"ai-ui-v1", `{"type":"finish"}`, "message.completed"},
		{"ai-ui-v1", `{"type":"data-x"}`, "other"},
		{"ai-data-v1", `a:{"toolCallId":"a","result":1}`, "tool.completed"},
		{"ai-data-v1", `3:"x"`, "error"},
		{"ag-ui", `{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}`, "run.waiting"},
		{"ag-ui", `{"type":"RUN_FINISHED"}`, "message.completed"},
		{"langgraph", `messages|[{"type":"ai","content":"a"},{}]`, "text.delta"},
		{"gemini", `{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":1}}`, "text.delta"},
		{"mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`, "message.completed"},
		{"generic", "a", "other"},
	} {
		d := lookup(t, tt.dialect)
		body := sse(tt.frame)
		if d.Kind != 0 {
			body = []byte(tt.frame + "\n")
		}
		if got := typeOf(d, cut(t, d.Kind, body, 0)[0]); got != tt.want {
			t.Errorf("%s: %s: got %s, want %s", tt.dialect, tt.frame, got, tt.want)
		}
	}
}
