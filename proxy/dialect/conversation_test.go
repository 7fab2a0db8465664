package dialect_test

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

func TestConversationStandsInTheDialectsOwnField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dialect, path, body, want string }{
		{"auto", "/api/chat", `{"id":"c","messages":[],"trigger":"submit-message"}`, "c"},
		{"", "/api/chat", `{"id":"c","message":{"role":"user"}}`, "c"},
		{"auto", "/api/chat", `{"id":"c"}`, ""},
		{"auto", "/api/chat", `{"id":7,"messages":[]}`, ""},
		{"auto", "/api/chat", `{"messages":[{"id":"m"}]}`, ""},
		{"auto", "/agent", `{"threadId":"t","runId":"r","id":"x","messages":[]}`, "t"},
		{"auto", "/threads/t/runs/stream", `{"assistant_id":"a"}`, "t"},
		{"auto", "/base/threads/t/runs", `{}`, "t"},
		{"auto", "/threads/t/state", `{}`, ""},
		{"auto", "/v1/responses", `{"conversation":"c","input":"x"}`, "c"},
		{"auto", "/v1/responses", `{"conversation":{"id":"c"}}`, "c"},
		{"auto", "/v1/responses", `{"conversation":null,"id":"x","messages":[]}`, ""},
		{"auto", "/other", `{"conversation":"c"}`, ""},
		{"auto", "/v1/chat-messages", `{"conversation_id":"c","query":"x"}`, "c"},
		{"auto", "/ask", `{"response_mode":"streaming","conversation_id":"c"}`, "c"},
		{"auto", "/ask", `{"response_mode":"streaming","conversation_id":""}`, ""},
		{"auto", "/ask", `{"conversation_id":"c"}`, ""},
		{"auto", "/ask", `not JSON`, ""},

		// A configured dialect needs no sign but its own field.
		{"ag-ui", "/ask", `{"threadId":"t"}`, "t"},
		{"ai-ui-v1", "/ask", `{"id":"c"}`, "c"},
		{"ai-data-v1", "/ask", `{"id":"c","threadId":"t","runId":"r"}`, "c"},
		{"openai-responses", "/ask", `{"conversation":"c"}`, "c"},
		{"langgraph", "/threads/t/runs/stream", `{"id":"x","messages":[]}`, "t"},
		{"openai-chat", "/api/chat", `{"id":"c","messages":[]}`, ""},
		{"generic", "/api/chat", `{"id":"c","messages":[]}`, ""},
	} {
		got, ok := dialect.Conversation(tt.dialect, tt.path, []byte(tt.body))
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q %s %s: got %q, %v, want %q", tt.dialect, tt.path, tt.body, got, ok, tt.want)
		}
	}
}

func TestRunKeyIsAGUIsOwn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{`{"threadId":"t","runId":"r"}`, "r"},
		{`{"runId":"r"}`, ""},
		{`{"threadId":"t","runId":""}`, ""},
		{`{"threadId":"t","runId":7}`, ""},
		{`{"input":{"threadId":"t","runId":"r"}}`, ""},
		{``, ""},
	} {
		if got, ok := dialect.RunKey([]byte(tt.body)); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %v, want %q", tt.body, got, ok, tt.want)
		}
	}
}

func TestModelIsTheOneAskedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{`{"model":"m"}`, "m"},
		{`{"model":{"id":"m"}}`, ""},
		{`{"messages":[{"model":"m"}]}`, ""},
		{`{"model":"` + strings.Repeat("m", 600) + `"}`, ""},
		{``, ""},
	} {
		if got := dialect.Model([]byte(tt.body)); got != tt.want {
			t.Errorf("%.40s: got %q, want %q", tt.body, got, tt.want)
		}
	}
}
