package dialect_test

import (
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// TestBodiesThatNameWhatIsToBeStopped, at paths of any kind.
func TestBodiesThatNameWhatIsToBeStopped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body         string
		ids          []string
		conversation string
		dialect      string // empty: none
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"t"}}`, []string{"t"}, "", "a2a"},
		{`{ "params" : {"id":"t","x":[]}, "method":"tasks\/cancel", "id":"a", "jsonrpc":"2.0"}`, []string{"t"}, "", "a2a"},
		{`{"jsonrpc":"2.0","method":"CancelTask","params":{"id":"t"}}`, nil, "", ""}, // asks for no answer
		{`{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":{}}}`, nil, "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":""}}`, nil, "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskId":"t"}}`, nil, "", ""}, // of MCP, whose tasks are no runs
		{`{"jsonrpc":"1.0","id":1,"method":"CancelTask","params":{"id":"t"}}`, nil, "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"t"}`, nil, "", ""},
		{`[{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"t"}}]`, nil, "", ""},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`, nil, "", "mcp"},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, nil, "", ""},
		{`{"method":"agent/stop","params":{"agentId":"a","threadId":"t"}}`, nil, "t", "ag-ui"},
		{`{"method":"agent/stop","params":{"agentId":"a"}}`, nil, "", ""},
		{`"CancelTask"`, nil, "", ""},
		{"", nil, "", ""},
	} {
		s, ok := dialect.StopIn("/any", []byte(tt.body))
		name := ""
		if ok {
			name = s.Dialect.Name
		}
		if name != tt.dialect || !slices.Equal(s.UpstreamIDs, tt.ids) || s.Conversation != tt.conversation {
			t.Errorf("%s: got %q, %v, %q", tt.body, name, s.UpstreamIDs, s.Conversation)
		}
	}
}

// TestAddressesThatNameWhatIsToBeStopped, or where the body does.
func TestAddressesThatNameWhatIsToBeStopped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, path string
		ids          []string
		conversation string
		inBody, ok   bool
	}{
		{"POST", "/v1/tasks/t%20x:cancel", []string{"t x"}, "", false, true},
		{"POST", "/api/lg/threads/t/runs/r/cancel", []string{"r"}, "", false, true},
		{"POST", "/api/lg/runs/cancel", nil, "", true, true},
		{"POST", "/v1/agents/a/messages/cancel", nil, "", true, true},
		{"POST", "/api/v2/chat/stop", nil, "", true, true},
		{"PUT", "/api/v1/chatmessage/abort/f/c", nil, "c", false, true},
		{"POST", "/api/v1/chatmessage/abort/f/c", nil, "", false, false},
		{"GET", "/api/lg/runs/cancel", nil, "", false, false},
		{"POST", "/", nil, "", false, false},
	} {
		s, ok := dialect.StopAt(tt.method, tt.path)
		if ok != tt.ok || s.InBody != tt.inBody || !slices.Equal(s.UpstreamIDs, tt.ids) || s.Conversation != tt.conversation {
			t.Errorf("%s %s: got %v, %v, %q, in the body %v", tt.method, tt.path, ok, s.UpstreamIDs, s.Conversation, s.InBody)
		}
	}
}
