package dialect_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

const jsonType = "application/json"

func request(method, path, contentType, body string, pairs ...string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return r
}

// starts decides as the gateway does.
func starts(r *http.Request, body string) bool {
	switch dialect.Recognize(r, r.URL.Path, nil) {
	case dialect.Yes:
		return !dialect.IsControl(r.Method, r.URL.Path, []byte(body))
	case dialect.Undecided:
		return dialect.RecognizeBody(r.URL.Path, []byte(body))
	default:
		return false
	}
}

func TestWhatStartsARun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, contentType, body string
		pairs                         []string
	}{
		{"path of Chat Completions", "/v1/chat/completions", jsonType, `{"model":"m"}`, nil},
		{"path of Azure", "/openai/deployments/d/chat/completions", jsonType, "{}", nil},
		{"path of Completions", "/v1/completions/", jsonType, "{}", nil},
		{"path of Responses", "/api/v1/responses", jsonType, "{}", nil},
		{"path of Messages", "/v1/messages", jsonType, "{}", nil},
		{"path of Gemini", "/v1beta/models/g:streamGenerateContent", jsonType, "{}", nil},
		{"path of Vertex", "/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", jsonType, "{}", nil},
		{"path of Ollama", "/api/generate", jsonType, "{}", nil},
		{"path of the AI SDK", "/api/chat", jsonType, "{}", nil},
		{"path of LangGraph", "/threads/t/runs/stream", jsonType, "{}", nil},
		{"path of LangGraph without a thread", "/runs/stream", jsonType, "{}", nil},
		{"path of CopilotKit", "/copilotkit/agent/a/run", jsonType, "{}", nil},
		{"path of Dify", "/v1/chat-messages", jsonType, "{}", nil},
		{"path of Flowise", "/api/v1/prediction/f", jsonType, "{}", nil},
		{"path of A2A", "/v1/message:stream", jsonType, "{}", nil},
		{"type with a parameter", "/v1/messages", "Application/JSON; charset=utf-8", "{}", nil},
		{"type with a suffix", "/v1/messages", "application/vnd.x+json", "{}", nil},
		{"type with a broken parameter", "/v1/messages", "application/json; charset", "{}", nil},
		{"Accept", "/ask", jsonType, `{"q":1}`, []string{"Accept", "text/event-stream"}},
		{"Accept among others", "/ask", jsonType, `{"q":1}`, []string{"Accept", "application/json;q=0.5", "Accept", "*/*, Text/Event-Stream;q=0.1"}},
		{"Accept of lines", "/ask", jsonType, `{"q":1}`, []string{"Accept", "application/x-ndjson"}},
		{"stream", "/ask", jsonType, ` {"q":{"stream":false},"stream":true}`, nil},
		{"response mode", "/ask", jsonType, `{"response_mode":"streaming"}`, nil},
		{"messages", "/ask", jsonType, `{"messages":[]}`, nil},
		{"AG-UI", "/ask", jsonType, `{"threadId":"t","runId":"r"}`, nil},
		{"a tool of MCP", "/mcp", jsonType, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, []string{"Accept", "application/json, text/event-stream"}},
		{"a message of A2A", "/a2a", jsonType, `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage"}`, []string{"Accept", "text/event-stream"}},
		{"a batch with a tool", "/mcp", jsonType, `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":1,"method":"tools/call"}]`, []string{"Accept", "text/event-stream"}},
		{"identity", "/v1/messages", jsonType, "{}", []string{"Content-Encoding", "identity"}},
	} {
		if r := request(http.MethodPost, tt.path, tt.contentType, tt.body, tt.pairs...); !starts(r, tt.body) {
			t.Errorf("%s: got no start", tt.name)
		}
	}
}

func TestWhatMustNotStartARun(t *testing.T) {
	t.Parallel()
	accept := []string{"Accept", "text/event-stream"}
	for _, tt := range []struct {
		name, method, path, contentType, body string
		pairs                                 []string
	}{
		{"GET", "GET", "/v1/chat/completions", "", "", accept},
		{"HEAD", "HEAD", "/v1/chat/completions", "", "", nil},
		{"OPTIONS", "OPTIONS", "/v1/chat/completions", jsonType, "{}", accept},
		{"PUT", "PUT", "/v1/chat/completions", jsonType, `{"messages":[]}`, nil},
		{"login", "POST", "/login", jsonType, `{"user":"u","password":"p"}`, nil},
		{"no body", "POST", "/v1/chat/completions", jsonType, "", accept},
		{"form", "POST", "/v1/chat/completions", "application/x-www-form-urlencoded", "stream=true", accept},
		{"upload", "POST", "/v1/chat/completions", "multipart/form-data; boundary=b", "--b--", accept},
		{"text", "POST", "/v1/chat/completions", "text/plain", `{"messages":[]}`, nil},
		{"no type", "POST", "/v1/chat/completions", "", `{"messages":[]}`, accept},
		{"gRPC", "POST", "/svc/M", "application/grpc", "xxxxx", accept},
		{"gRPC with JSON", "POST", "/v1/messages", "application/grpc+json", "{}", accept},
		{"gRPC-Web with JSON", "POST", "/v1/messages", "application/grpc-web+json", "{}", nil},
		{"upgrade", "POST", "/v1/messages", jsonType, "{}", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
		{"compressed", "POST", "/v1/messages", jsonType, "\x1f\x8b", []string{"Content-Encoding", "gzip"}},
		{"wildcard", "POST", "/ask", jsonType, `{"q":1}`, []string{"Accept", "*/*, text/*"}},
		{"a stream that is refused", "POST", "/ask", jsonType, `{"q":1}`, []string{"Accept", "text/event-stream;Q=0.0"}},
		{"stream false", "POST", "/ask", jsonType, `{"stream":false}`, nil},
		{"stream in words", "POST", "/ask", jsonType, `{"stream":"true"}`, nil},
		{"stream below", "POST", "/ask", jsonType, `{"a":{"stream":true,"messages":[]}}`, nil},
		{"blocking", "POST", "/ask", jsonType, `{"response_mode":"blocking"}`, nil},
		{"messages that are none", "POST", "/ask", jsonType, `{"messages":{"a":1},"x":"messages"}`, nil},
		{"a thread alone", "POST", "/ask", jsonType, `{"threadId":"t"}`, nil},
		{"an array", "POST", "/ask", jsonType, `[{"stream":true}]`, nil},
		{"no JSON", "POST", "/ask", jsonType, `stream: true`, nil},
		{"webhook", "POST", "/hook", "application/cloudevents+json", `{"specversion":"1.0","data":{}}`, nil},
	} {
		if r := request(tt.method, tt.path, tt.contentType, tt.body, tt.pairs...); starts(r, tt.body) {
			t.Errorf("%s: got a start", tt.name)
		}
	}
}

// TestOnlyUndecidedRequestsAreRead: everything else passes unread.
func TestOnlyUndecidedRequestsAreRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		r    *http.Request
		want dialect.Recognition
	}{
		{"JSON", request("POST", "/login", jsonType, "{}"), dialect.Undecided},
		{"JSON of unknown length", chunked(request("POST", "/login", jsonType, "{}")), dialect.Undecided},
		{"known path", request("POST", "/api/chat", jsonType, "{}"), dialect.Yes},
		{"known path, rewritten", request("POST", "/index.php", jsonType, "{}"), dialect.Undecided},
		{"upload", request("POST", "/upload", "multipart/form-data", "x"), dialect.No},
		{"page", request("GET", "/", "", ""), dialect.No},
		{"control call", request("POST", "/v1/responses/r/cancel", jsonType, "{}"), dialect.No},
	} {
		if got := dialect.Recognize(tt.r, tt.r.URL.Path, nil); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := dialect.Recognize(request("POST", "/index.php", jsonType, "{}"), "/v1/messages", nil); got != dialect.Yes {
		t.Errorf("path given apart: got %v, want Yes", got)
	}
}

func chunked(r *http.Request) *http.Request {
	r.ContentLength = -1
	return r
}
