package proxy

import (
	"errors"
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// TestEachDialectsCancelCall: as its documentation has it, wherever the API is
// mounted.
func TestEachDialectsCancelCall(t *testing.T) {
	for _, c := range []struct{ dialect, path, body, want, sent string }{
		{"openai-responses", "/v1/responses", `{"background":true}`, "POST /v1/responses/u%201/cancel", ""},
		{"openai-responses", "/openai/responses/", `{"background":true}`, "POST /openai/responses/u%201/cancel", ""},
		{"openai-responses", "/v1/responses", `{"background":false}`, "", ""},
		{"openai-responses", "/v1/responses", `{"input":"\"background\":true"}`, "", ""},
		{"openai-assistants", "/v1/threads/th%2E1/runs", `{}`, "POST /v1/threads/th.1/runs/u%201/cancel", ""},
		{"openai-assistants", "/v1/threads/runs", `{}`, "POST /v1/threads/thread-1/runs/u%201/cancel", ""},
		{"gemini-interactions", "/v1beta/interactions", `{"background":true}`, "POST /v1beta/interactions/u%201/cancel", ""},
		{"gemini-interactions", "/v1beta/interactions", `{}`, "", ""},
		{"langgraph", "/threads/t1/runs/stream", `{}`, "POST /threads/t1/runs/u%201/cancel?wait=0&action=interrupt", ""},
		{"langgraph", "/x/runs/stream", `{}`, "POST /x/threads/thread-1/runs/u%201/cancel?wait=0&action=interrupt", ""},
		{"dify", "/v1/chat-messages", `{"user":"a \"b\""}`, "POST /v1/chat-messages/u%201/stop", `{"user":"a \"b\""}`},
		{"dify", "/v1/completion-messages", `{"user":"a"}`, "POST /v1/completion-messages/u%201/stop", `{"user":"a"}`},
		{"dify", "/v1/workflows/run", `{"user":"a"}`, "POST /v1/workflows/tasks/u%201/stop", `{"user":"a"}`},
		{"dify", "/v1/chat-messages", `{}`, "", ""},
		{"flowise", "/api/v1/prediction/f1", `{"chatId":"c 1"}`, "PUT /api/v1/chatmessage/abort/f1/c%201", ""},
		{"flowise", "/api/v1/prediction/f1", `{}`, "", ""},
		{"letta", "/v1/agents/a1/messages/stream", `{}`, "POST /v1/agents/a1/messages/cancel", `{"run_ids":["u 1"]}`},
		{"mastra", "/api/workflows/w1/stream", `{}`, "POST /api/workflows/w1/runs/u%201/cancel", ""},
		{"mastra", "/api/agents/a1/stream", `{}`, "", ""},
		{"ag-ui", "/api/copilotkit/agent/a1/run", `{}`, "POST /api/copilotkit/agent/a1/stop/thread-1", ""},
		{"ag-ui", "/agent", `{}`, "", ""},
		{"a2a", "/a2a", `{"jsonrpc":"2.0","id":7,"method":"message/stream"}`, "POST /a2a", `{"jsonrpc":"2.0","id":"run_1","method":"tasks/cancel","params":{"id":"u 1"}}`},
		{"a2a", "/a2a", `{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage"}`, "POST /a2a", `{"jsonrpc":"2.0","id":"run_1","method":"CancelTask","params":{"id":"u 1"}}`},
		{"a2a", "/v1/message:stream", `{}`, "POST /v1/tasks/u%201:cancel", ""},
		{"mcp", "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, "POST /mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`},
		{"mcp", "/mcp", `{"jsonrpc":"2.0","id":"x","method":"tools/call"}`, "POST /mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`},
		{"openai-chat", "/v1/chat/completions", `{}`, "", ""},
		{"generic", "/chat", `{}`, "", ""},
	} {
		origin, _ := dialect.Remember(c.path, []byte(c.body))
		b := bearings{run: "run_1", conversation: "conv_1", upstream: "u 1", thread: "thread-1", origin: origin}
		b.dialect, _ = dialect.Lookup(c.dialect)
		e, err := b.cancel(&Way{})
		if c.want == "" {
			if !errors.Is(err, errNoWay) {
				t.Errorf("%s %s %s: got %+v, %v, want no way", c.dialect, c.path, c.body, e, err)
			}
			continue
		}
		if err != nil || e.method+" "+e.target != c.want || string(e.body) != c.sent {
			t.Errorf("%s %s: got %+v, %v, want %s %s", c.dialect, c.path, e, err, c.want, c.sent)
			continue
		}
		b.thread = ""
		if _, err := b.cancel(&Way{}); err != nil && !errors.Is(err, errNoWay) {
			t.Errorf("%s %s without a thread: got %v, want that it does not wait for one", c.dialect, c.path, err)
		}
		b.upstream = ""
		if _, err := b.cancel(&Way{}); err != nil && !errors.Is(err, errUnknownVariable) {
			t.Errorf("%s %s without ids: got %v, want that it waits", c.dialect, c.path, err)
		}
	}
}

// TestWhatAnAnswerToACancelCallMeans.
func TestWhatAnAnswerToACancelCallMeans(t *testing.T) {
	responses := &errand{own: callOf(t, "openai-responses", "/responses", `{"background":true}`)}
	tasks := &errand{own: callOf(t, "a2a", "/", `{"method":"message/stream"}`)}
	for _, c := range []struct {
		e      *errand
		status int
		body   string
		err    error
		want   string
	}{
		{responses, 200, `{"status":"cancelled"}`, nil, "confirmed"},
		{responses, 200, `{"status":"in_progress"}`, nil, "unconfirmed"},
		{responses, 200, `{"status":"cancelled"`, nil, "unconfirmed"},
		{responses, 202, ``, nil, "unconfirmed"},
		{responses, 302, `{"status":"cancelled"}`, nil, "failed"},
		{responses, 404, `{"status":"cancelled"}`, nil, "failed"},
		{responses, 501, ``, nil, "unsupported"},
		{responses, 0, ``, errNoAnswer, "unconfirmed"},
		{tasks, 200, `{"result":{"id":"t","status":{"state":"canceled"}}}`, nil, "confirmed"},
		{tasks, 200, `{"result":{"id":"t","status":{"state":"working"}}}`, nil, "unconfirmed"},
		{tasks, 200, `{"error":{"code":-32002}}`, nil, "failed"},
		{&errand{}, 200, `{"status":"cancelled"}`, nil, "unconfirmed"},
	} {
		var answer *reply
		if c.err == nil {
			answer = &reply{status: c.status, body: []byte(c.body)}
		}
		if got := confirmationOf(c.e, answer, c.err); string(got) != c.want {
			t.Errorf("%d %s: got %s, want %s", c.status, c.body, got, c.want)
		}
	}
}

func callOf(t *testing.T, name, path, body string) *dialect.ControlCall {
	t.Helper()
	d, _ := dialect.Lookup(name)
	origin, _ := dialect.Remember(path, []byte(body))
	calls, _ := d.CallsOf(&origin)
	if calls == nil {
		t.Fatalf("%s: got no calls", name)
	}
	return calls.Cancel
}

// TestAnAnswerThatBreaksOffIsNoPanic: reverse_proxy tells it by one.
func TestAnAnswerThatBreaksOffIsNoPanic(t *testing.T) {
	for thrown, want := range map[any]error{http.ErrAbortHandler: errBrokeOff, "bug": nil} {
		err := contained(func(http.ResponseWriter, *http.Request) error { panic(thrown) }, nil, nil)
		if err == nil || want != nil && !errors.Is(err, want) || want == nil && errors.Is(err, errBrokeOff) {
			t.Errorf("%v: got error %v", thrown, err)
		}
	}
}
