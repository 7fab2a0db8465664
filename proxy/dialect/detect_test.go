package dialect_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func fields(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestAnswersAreRecognised(t *testing.T) {
	t.Parallel()
	const sseType, ndjson = "text/event-stream; charset=utf-8", "application/x-ndjson"
	for _, tt := range []struct {
		path    string
		header  http.Header
		want    string
		certain bool
	}{
		{"/api/chat", fields("Content-Type", sseType, "x-vercel-ai-ui-message-stream", "v1"), "ai-ui-v1", true},
		{"/api/chat", fields("Content-Type", "text/plain; charset=utf-8", "x-vercel-ai-data-stream", "v1"), "ai-data-v1", true},
		{"/mcp", fields("Content-Type", sseType, "mcp-session-id", "s"), "mcp", true},
		{"/agent", fields("Content-Type", sseType, "Content-Location", "/threads/t/runs/r"), "langgraph", true},
		{"/agent", fields("Content-Type", sseType, "Content-Location", "http://up/base/runs/r/"), "langgraph", true},
		{"/agent", fields("Content-Type", sseType, "Content-Location", "/runs"), "generic", false},
		{"/agent", fields("Content-Type", sseType, "Content-Location", "://"), "generic", false},

		{"/v1/chat/completions", fields("Content-Type", sseType), "openai-chat", false},
		{"/openai/deployments/d/chat/completions", fields("Content-Type", sseType), "openai-chat", false},
		{"/v1/completions", fields("Content-Type", sseType), "openai-completions", false},
		{"/openai/deployments/d/completions", fields("Content-Type", sseType), "openai-completions", false},
		{"/v1/responses", fields("Content-Type", sseType), "openai-responses", false},
		{"/responses", fields("Content-Type", sseType), "openai-responses", false},
		{"/surveys/1/responses", fields("Content-Type", sseType), "generic", false},
		{"/v1/messages", fields("Content-Type", sseType), "anthropic-messages", false},
		{"/v1beta/models/g:streamGenerateContent", fields("Content-Type", sseType), "gemini", false},
		{"/api/chat", fields("Content-Type", ndjson), "ollama", false},
		{"/api/generate", fields("Content-Type", ndjson), "ollama", false},
		{"/api/chat", fields("Content-Type", sseType), "generic", false}, // not Ollama's framing
		{"/threads/t/runs/stream", fields("Content-Type", sseType), "langgraph", false},
		{"/copilot/agent/a/run", fields("Content-Type", sseType), "ag-ui", false},
		{"/v1/chat/completions", fields("Content-Type", "application/json"), "openai-chat", false},
		{"/v1/chat/completions", fields("Content-Type", ndjson), "generic", false},
		{"/chat", fields("Content-Type", sseType), "generic", false},
		{"/model/m/converse-stream", fields("Content-Type", "application/vnd.amazon.eventstream"), "bedrock", true},
		{"", http.Header{}, "generic", false},
	} {
		d, certain := dialect.DetectByResponse(tt.path, tt.header)
		if d.Name != tt.want || certain != tt.certain {
			t.Errorf("%s %v: got %s, certain %v, want %s, %v", tt.path, tt.header, d.Name, certain, tt.want, tt.certain)
		}
	}
}

// firstFrames are frames, what their stream was taken for, and what it is.
var firstFrames = []struct{ hint, frame, want string }{
	{"generic", `{"id":"a","object":"chat.completion.chunk","choices":[]}`, "openai-chat"},
	{"generic", `{"id":"a", "object": "chat.completion.chunk", "choices": [{"delta":{}}]}`, "openai-chat"},
	{"generic", `{"choices":[],"id":"","object":"","prompt_filter_results":[]}`, "openai-chat"},
	{"generic", `{"object":"text_completion","choices":[{"text":"a"}]}`, "openai-completions"},
	{"generic", `{"choices":["rock","paper"]}`, "generic"},
	{"generic", `response.created|{"type":"response.created","response":{"id":"r"}}`, "openai-responses"},
	{"generic", `{"type":"response.created","response":{"id":"r"}}`, "openai-responses"},
	{"generic", `error|{"message":"x"}`, "generic"},
	{"generic", `message_start|{"type":"message_start","message":{"id":"m"}}`, "anthropic-messages"},
	{"generic", `{"type":"message_start"}`, "generic"},
	{"generic", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, "ag-ui"},
	{"generic", `{"type":"RUN_ERROR","message":"x"}`, "ag-ui"},
	{"generic", `metadata|{"run_id":"r","attempt":1}`, "langgraph"},
	{"generic", `metadata|{"run_id":"r"}`, "langserve"},
	{"langgraph", `metadata|{"run_id":"r"}`, "langgraph"}, // its path says so
	{"langserve", `metadata|{"run_id":"r"}`, "langserve"},
	{"generic", `{"candidates": [{"content": {}}],"usageMetadata": {}}`, "gemini"},
	{"generic", `{"promptFeedback":{"blockReason":"SAFETY"},"modelVersion":"m"}`, "gemini"},
	{"generic", `{"candidates":["a","b"]}`, "generic"},
	{"generic", `{"jsonrpc":"2.0","method":"notifications/message"}`, "mcp"},
	{"generic", `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, "mcp"},
	{"generic", `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","status":{"state":"submitted"}}}`, "a2a"},
	{"generic", `{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}}`, "a2a"},
	{"generic", `{"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"artifact":{"parts":[]}}}}`, "a2a"},
	{"generic", `{"jsonrpc":"2.0","id":1,"result":{"kind":"message","messageId":"m","parts":[]}}`, "a2a"},
	{"generic", `{"task":{"id":"t","status":{"state":"TASK_STATE_SUBMITTED"}}}`, "a2a"},                // without JSON-RPC
	{"generic", `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working"}}}`, "mcp"}, // its own tasks
	{"generic", `{"task":"mow the lawn"}`, "generic"},
	{"generic", `thread.run.created|{"id":"run_1","object":"thread.run"}`, "openai-assistants"},
	{"generic", `thread.created|{"id":"t"}`, "generic"},
	{"generic", `{"interaction":{"id":"i"},"event_type":"interaction.created"}`, "gemini-interactions"},
	{"generic", `message-start|{"type":"message-start","id":"m"}`, "cohere"},
	{"generic", `{"event":"message","task_id":"t","answer":"a"}`, "dify"},
	{"generic", `{"event":"message","answer":"a"}`, "generic"},
	{"generic", `answer|{"id":"","object":"","choices":[{"delta":{"content":"a"},"index":0}]}`, "fastgpt"},
	{"generic", `flowNodeStatus|{"status":"running","name":"AI"}`, "fastgpt"},
	{"openai-chat", `flowNodeStatus|{"status":"running","name":"AI"}`, "fastgpt"},
	{"openai-chat", `answer|{"id":"","object":"","choices":[{"delta":{"content":"a"},"index":0}]}`, "fastgpt"},
	{"openai-chat", `{"id":"","object":"","choices":[{"delta":{"content":"a"},"index":0}]}`, "openai-chat"}, // FastGPT without detail
	{"generic", `{"type":"begin","metadata":{"nodeId":"n"}}`, "n8n"},
	{"generic", `{"type":"begin"}`, "generic"},
	{"generic", `{"id":"message-1","message_type":"reasoning_message","reasoning":"a","run_id":"r"}`, "letta"},
	{"generic", `{"message_type":"mail"}`, "generic"},
	{"generic", `{"type":"start","runId":"r","from":"AGENT","payload":{}}`, "mastra"},
	{"generic", `{"type":"step-start","messageId":"m"}`, "assistant-transport"},
	{"generic", `{"type":"step-start","runId":"r","from":"AGENT","payload":{"messageId":"m"}}`, "mastra"},
	{"generic", `{"type":"part-start","part":{"type":"text"},"path":[]}`, "assistant-transport"},
	{"generic", `{"type":"update-state","operations":[]}`, "assistant-transport"},
	{"dify", `{"event":"workflow_started","task_id":"t"}`, "dify"},
	{"cohere", `{"type":"message-start"}`, "cohere"},
	{"cohere", "hello", "generic"},
	{"openai-completions", `{"choices":[{"text":"a","index":0}]}`, "openai-completions"},
	{"openai-chat", `{"object":"text_completion","choices":[{"text":"a"}]}`, "openai-completions"},
	{"generic", `{"jsonrpc":"1.0","id":1,"result":{}}`, "generic"},
	{"generic", `{"model":"m","created_at":"2024","message":{},"done":false}`, "ollama"},
	{"generic", `{"type":"start","messageId":"m"}`, "generic"}, // the header field says AI SDK, or nothing does
	{"generic", "hello", "generic"},
	{"generic", "", "generic"},
	{"generic", "[DONE]", "generic"},

	{"openai-chat", `{"id":"a","choices":[{"delta":{}}]}`, "openai-chat"},
	{"openai-chat", `{"error":{"message":"x"}}`, "openai-chat"},
	{"openai-chat", "[DONE]", "openai-chat"},
	{"openai-chat", `{"text":"mine"}`, "generic"},
	{"openai-chat", `response.created|{"response":{"id":"r"}}`, "openai-responses"},
	{"openai-responses", `error|{"message":"x"}`, "openai-responses"},
	{"openai-responses", `{"type":"response.created"}`, "openai-responses"},
	{"openai-responses", "hello", "generic"},
	{"anthropic-messages", `ping|{"type":"ping"}`, "anthropic-messages"},
	{"anthropic-messages", `{"type":"error","error":{}}`, "anthropic-messages"},
	{"anthropic-messages", `{"type":"mail"}`, "generic"},
	{"anthropic-messages", `{"id":"a","object":"chat.completion.chunk","choices":[]}`, "openai-chat"},
	{"gemini", `{"error":{"code":500}}`, "gemini"},
	{"gemini", "hello", "generic"},
	{"ollama", `{"error":"x"}`, "ollama"},
	{"ollama", `{"done":false}`, "ollama"},
	{"ollama", `{"type":"begin"}`, "generic"}, // n8n
	{"ag-ui", `{"type":"RUN_STARTED"}`, "ag-ui"},
	{"ag-ui", `{"type":"mine"}`, "generic"},
	{"langgraph", `values|{}`, "langgraph"},
	{"langgraph", `{"a":1}`, "generic"},
	{"openai-chat", "", "openai-chat"}, // nothing to decide by
}

// TestFirstFrameDecides: a hint stands if the frame can be of that dialect; an
// application that only shares a path must not be held to an end marker that
// it does not know.
func TestFirstFrameDecides(t *testing.T) {
	t.Parallel()
	for _, tt := range firstFrames {
		var f frame.Frame
		frame.Parse(frame.SSE, sse(tt.frame), &f)
		if got := dialect.DetectByFrame(lookup(t, tt.hint), &f); got.Name != tt.want {
			t.Errorf("%s, first %s: got %s, want %s", tt.hint, tt.frame, got.Name, tt.want)
		}
	}
}

// TestPathHintsStandForTheirRecordings: whatever a real stream of a dialect
// begins with, the hint of its path survives it.
func TestPathHintsStandForTheirRecordings(t *testing.T) {
	t.Parallel()
	for name, d := range streams(t) {
		switch d.Name {
		case "generic", "ai-ui-v1", "ai-data-v1", "mcp", "replicate": // never hinted at by a path
			continue
		}
		if strings.Contains(name, "#") {
			continue // written to try parsers out
		}
		for _, clean := range cut(t, d.Kind, testkit.Recording(t, name), 0) {
			var f frame.Frame
			if frame.Parse(d.Kind, clean, &f); len(f.Data) == 0 {
				continue
			}
			if got := dialect.DetectByFrame(d, &f); got != d {
				t.Errorf("%s: got %s, want %s", name, got.Name, d.Name)
			}
			break
		}
	}
}

// TestRequestsThatResumeByUpstreamsIDsAreRecognised: before the answer is
// there, and whether or not the answer says so.
func TestRequestsThatResumeByUpstreamsIDsAreRecognised(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`
	for _, tt := range []struct {
		header http.Header
		body   string
		want   string
	}{
		{fields("Mcp-Protocol-Version", "2025-11-25"), call, "mcp"},
		{fields("Mcp-Session-Id", "s"), call, "mcp"},
		{fields("Accept", "application/json", "Accept", "text/event-stream"), call, "mcp"},
		{fields("Accept", "text/event-stream"), call, ""},
		{fields("A2A-Version", "1.0"), "", "a2a"},
		{fields("Accept", "application/json, text/event-stream"), `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage"}`, "a2a"},
		{fields("Accept", "text/event-stream"), `{"jsonrpc":"2.0","id":1,"method":"message/stream"}`, "a2a"},
		{fields("Accept", "application/json, text/event-stream"), `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{http.Header{}, `{"messages":[{"content":"tools/call"}]}`, ""},
		{http.Header{}, "", ""},
	} {
		got := ""
		if d := dialect.DetectByRequest(tt.header, []byte(tt.body)); d != nil {
			got = d.Name
		}
		if got != tt.want {
			t.Errorf("%v %s: got %q, want %q", tt.header, tt.body, got, tt.want)
		}
	}
}

func TestIDsInContentLocation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ location, conversation, run string }{
		{"/threads/t/runs/r", "t", "r"},
		{"https://host/base/threads/t%20x/runs/r", "t x", "r"},
		{"/runs/r", "", "r"},
		{"/threads/t/runs/r/stream", "", ""},
		{"/threads/t/runs", "", ""},
		{"r", "", ""},
		{"", "", ""},
		{"%zz", "", ""},
	} {
		h := fields("Content-Location", tt.location)
		if c, r := dialect.ConversationFromHeader(h), dialect.RunIDFromHeader(h); c != tt.conversation || r != tt.run {
			t.Errorf("%q: got %q, %q, want %q, %q", tt.location, c, r, tt.conversation, tt.run)
		}
	}
}
