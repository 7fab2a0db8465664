package dialect_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

func TestControlCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v1/responses/resp_1/cancel", ""},
		{"POST", "/v1/threads/t/runs/r/cancel", "{}"},
		{"POST", "/runs/cancel", `{"run_ids":[]}`},
		{"POST", "/api/chat/stop", `{"messages":[]}`},
		{"POST", "/v1/chat-messages/t/stop", `{"user":"u"}`},
		{"POST", "/v1/workflows/tasks/t/stop/", `{"user":"u"}`},
		{"POST", "/api/tasks/stop/t", ""},
		{"POST", "/copilotkit/agent/a/stop/t", ""},
		{"POST", "/copilotkit/agent/a/connect", `{"threadId":"t","runId":"r","messages":[]}`},
		{"PUT", "/api/v1/chatmessage/abort/f/c", ""},
		{"POST", "/v1/tasks/t:cancel", ""},
		{"POST", "/v1/tasks/t:subscribe", ""},
		{"GET", "/threads/t/runs/r/stream", ""},
		{"GET", "/threads/t/runs/r/join", ""},
		{"POST", "/threads/t/state", `{"values":{"messages":[]}}`},
		{"POST", "/threads/t/history", "{}"},
		{"POST", "/threads/search", "{}"},
		{"POST", "/v1/messages/count_tokens", `{"messages":[]}`},
		{"POST", "/v1beta/models/m:countTokens", "{}"},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize"}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
		{"POST", "/mcp", `{ "jsonrpc" : "2.0", "id":1, "method":"tools/list"}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`}, // an answer to the server
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/read"}`},
		{"POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe"}`},
		{"POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"CancelTask"}`},
		{"POST", "/mcp", `[{"jsonrpc":"2.0","method":"notifications/a"},{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{"POST", "/copilotkit", `{"method":"agent/stop","params":{"agentId":"a","threadId":"t"}}`},
		{"POST", "/copilotkit", `{"method":"agent/connect","params":{"agentId":"a"},"body":{"threadId":"t","runId":"r"}}`},
		{"POST", "/copilotkit", `{"method":"info"}`},
	} {
		if !dialect.IsControl(tt.method, tt.path, []byte(tt.body)) {
			t.Errorf("%s %s %s: got no control call", tt.method, tt.path, tt.body)
		}
		if tt.method == "POST" && dialect.RecognizeBody(tt.path, []byte(tt.body)) {
			t.Errorf("%s %s %s: got a start", tt.method, tt.path, tt.body)
		}
	}
}

func TestWhatIsNoControlCall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v1/chat/completions", `{"messages":[{"content":"cancel"}]}`},
		{"POST", "/v1/threads/t/runs", "{}"},
		{"POST", "/threads/t/runs/stream", "{}"},
		{"POST", "/jobs/runs/r/stream", "{}"}, // some start a run that was made before
		{"POST", "/cancellations", "{}"},
		{"POST", "/stop/words", "{}"},
		{"POST", "/rpc", `{"jsonrpc":"2.0","id":1,"method":"chat.generate"}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"initialize"}}`},
		{"POST", "/mcp", `[{"jsonrpc":"2.0","method":"notifications/a"},{"jsonrpc":"2.0","id":1,"method":"tools/call"}]`},
		{"POST", "/chat", `{"messages":[{"content":"\"jsonrpc\":\"2.0\""}]}`},
		{"POST", "/chat", `{"messages":[{"jsonrpc":"2.0"}]}`},
		{"POST", "/chat", "[]"},
		{"POST", "/chat", `{"method":"info","messages":[]}`},
		{"POST", "/copilotkit", `{"method":"agent/run","params":{"agentId":"a"},"body":{"threadId":"t","runId":"r"}}`},
		{"GET", "/", ""},
	} {
		if dialect.IsControl(tt.method, tt.path, []byte(tt.body)) {
			t.Errorf("%s %s %s: got a control call", tt.method, tt.path, tt.body)
		}
	}
}
