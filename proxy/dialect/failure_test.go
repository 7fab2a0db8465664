package dialect_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

var codes = []string{"failed", "cancelled", "uncertain", "stream_expired"}

// evil is a message that tries to be more than one frame.
const evil = "a\n\ndata: [DONE]\r\n\r\nevent: x\rid: 1\u2028\x00\"}<script>\xff"

func failures(d *dialect.Dialect, code, message string) [][]byte {
	return d.Failure(dialect.Failure{Code: code, Message: message, Members: map[string]any{
		"conversation_id": "conv-1", "snapshot": "/_runs/r", "message": "not this", "x\n\ny": "z",
	}})
}

func TestFailureFramesAreReadAsMeant(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dialect, code string
		event         string
		path          []any // of the message
		text          string
		more          map[string]any // members of the object around the message
		done          bool
	}{
		{"openai-chat", "failed", "", []any{"error"}, "message", map[string]any{"type": "failed", "code": "failed", "conversation_id": "conv-1"}, false},
		{"openai-chat", "stream_expired", "", []any{"error"}, "message", map[string]any{"code": "stream_expired", "snapshot": "/_runs/r"}, false},
		{"openai-responses", "failed", "error", nil, "message", map[string]any{"type": "error", "code": "failed", "sequence_number": 0.0, "param": nil}, false},
		{"openai-responses", "stream_expired", "error", []any{"error"}, "message", map[string]any{"code": "stream_expired", "conversation_id": "conv-1"}, false},
		{"anthropic-messages", "uncertain", "error", []any{"error"}, "message", map[string]any{"type": "api_error", "code": "uncertain", "conversation_id": "conv-1"}, false},
		{"ollama", "failed", "", nil, "error", map[string]any{"code": "failed"}, false},
		{"ai-ui-v1", "failed", "", nil, "errorText", map[string]any{"type": "error", "conversation_id": nil}, true},
		{"ag-ui", "failed", "", nil, "message", map[string]any{"type": "RUN_ERROR", "code": "failed"}, false},
		{"langgraph", "cancelled", "error", nil, "message", map[string]any{"error": "cancelled", "conversation_id": "conv-1"}, false},
		{"gemini", "stream_expired", "", []any{"error"}, "message", map[string]any{"code": 410.0, "status": "STREAM_EXPIRED", "conversation_id": "conv-1"}, false},
		{"gemini", "cancelled", "", []any{"error"}, "message", map[string]any{"code": 499.0, "status": "CANCELLED"}, false},
		{"openai-completions", "failed", "", []any{"error"}, "message", map[string]any{"type": "failed", "conversation_id": "conv-1"}, false},
		{"openai-assistants", "failed", "error", []any{"error"}, "message", map[string]any{"code": "failed", "conversation_id": "conv-1"}, false},
		{"gemini-interactions", "failed", "error", []any{"error"}, "message", map[string]any{"code": "failed", "conversation_id": "conv-1"}, false},
		{"cohere", "uncertain", "message-end", []any{"delta"}, "error", map[string]any{"finish_reason": "ERROR", "code": "uncertain"}, false},
		{"assistant-transport", "failed", "", nil, "error", map[string]any{"type": "error", "conversation_id": nil}, true},
		{"mastra", "failed", "", []any{"payload"}, "error", map[string]any{"code": "failed", "conversation_id": "conv-1"}, true},
		{"mastra", "cancelled", "", []any{"payload"}, "error", map[string]any{"code": "cancelled"}, true},
		{"langserve", "failed", "error", nil, "message", map[string]any{"status_code": 500.0, "code": "failed"}, false},
		{"letta", "stream_expired", "", nil, "message", map[string]any{"message_type": "error_message", "error_type": "stream_expired"}, true},
		{"dify", "failed", "", nil, "message", map[string]any{"event": "error", "code": "failed", "conversation_id": "conv-1"}, false},
		{"fastgpt", "failed", "error", []any{"error"}, "message", map[string]any{"type": "failed"}, false},
		{"fastgpt", "failed", "error", nil, "message", map[string]any{"statusText": "failed"}, false},
		{"flowise", "failed", "", nil, "data", map[string]any{"event": "error", "code": "failed"}, false},
		{"n8n", "failed", "", nil, "content", map[string]any{"type": "error", "code": "failed"}, false},
		{"a2a", "failed", "error", []any{"error"}, "message", map[string]any{"code": -32603.0, "reason": "failed", "conversation_id": "conv-1"}, false},
		{"gemini", "anything else", "", []any{"error"}, "message", map[string]any{"code": 500.0, "status": "INTERNAL"}, false},
	} {
		d := lookup(t, tt.dialect)
		frames := failures(d, tt.code, "It broke.")
		if done := len(frames) == 2 && string(frames[1]) == "data: [DONE]\n\n"; done != tt.done || !done && len(frames) != 1 {
			t.Errorf("%s: got %q, want one frame, [DONE] after it %v", tt.dialect, frames, tt.done)
		}
		f := only(t, d, frames[0])
		if string(f.Event) != tt.event || f.HasID {
			t.Errorf("%s: got event %q, id %v, want %q without id", tt.dialect, f.Event, f.HasID, tt.event)
		}
		var whole any
		if err := json.Unmarshal(f.Data, &whole); err != nil {
			t.Errorf("%s: %s: %v", tt.dialect, f.Data, err)
		}
		around := dig(whole, tt.path...)
		if got := dig(around, tt.text); got != "It broke." {
			t.Errorf("%s %s: got message %v in %s", tt.dialect, tt.code, got, f.Data)
		}
		for member, want := range tt.more {
			if got := dig(around, member); got != want {
				t.Errorf("%s %s: got %s %v, want %v", tt.dialect, tt.code, member, got, want)
			}
		}
	}
}

// only cuts one frame and nothing else out of bytes.
func only(t *testing.T, d *dialect.Dialect, b []byte) (one frame.Frame) {
	t.Helper()
	frames := cut(t, d.Kind, b, 0)
	if len(frames) != 1 || !bytes.Equal(frames[0], b) {
		t.Fatalf("%s: got frames %q of %q, want all of it in one", d.Name, frames, b)
	}
	frame.Parse(d.Kind, frames[0], &one)
	return one
}

// TestNoMessageForgesAFrame: whatever stands in it, each failure is one frame
// that ends by itself (promise 6).
func TestNoMessageForgesAFrame(t *testing.T) {
	t.Parallel()
	for _, name := range dialect.Names() {
		d := lookup(t, name)
		for _, code := range codes {
			for _, b := range failures(d, code, evil) {
				f := only(t, d, b)
				if bytes.ContainsAny(bytes.TrimRight(f.Data, "\r\n"), "\r\n") || f.HasID {
					t.Errorf("%s %s: got data %q of several lines", name, code, f.Data)
				}
			}
		}
	}
}

// TestAFailureAnswersTheRequest, where that is known and the server cannot know
// more.
func TestAFailureAnswersTheRequest(t *testing.T) {
	t.Parallel()
	d := lookup(t, "mcp")
	for _, tt := range []struct{ code, request, want string }{
		{"failed", `7`, `"id":7,`},
		{"cancelled", `"x"`, `"id":"x",`},
		{"stream_expired", `7`, `"reason":"stream_expired"`},
		{"failed", ``, ""},
		{"failed", `{`, ""},
		{"uncertain", `7`, ""},
	} {
		frames := d.Failure(dialect.Failure{Code: tt.code, Message: "m", Request: []byte(tt.request)})
		if tt.want == "" {
			if frames != nil {
				t.Errorf("%s of %s: got %q, want nothing", tt.code, tt.request, frames)
			}
			continue
		}
		if f := only(t, d, frames[0]); !strings.Contains(strings.ReplaceAll(string(f.Data), "}", ","), tt.want) {
			t.Errorf("%s of %s: got %s, want %s", tt.code, tt.request, f.Data, tt.want)
		}
		if s := read(d, d.Kind, frames); s.Outcome != dialect.OutcomeFailed {
			t.Errorf("%s: read as %v, want failed", tt.code, s.Outcome)
		}
	}
}

// TestReadersUnderstandOurFailures: a gateway behind a gateway.
func TestReadersUnderstandOurFailures(t *testing.T) {
	t.Parallel()
	none := []string{"generic", "mcp", "bedrock"}
	saysStopped := []string{"ai-ui-v1", "mastra", "flowise"}
	for _, name := range dialect.Names() {
		d := lookup(t, name)
		for _, code := range codes {
			frames := failures(d, code, evil)
			if slices.Contains(none, name) {
				if frames != nil {
					t.Errorf("%s: got %q, want nothing", name, frames)
				}
				continue
			}
			want := "failed"
			if slices.Contains(saysStopped, name) && code == "cancelled" {
				want = "cancelled"
			}
			s := read(d, d.Kind, frames)
			if got := s.state(d); got != want {
				t.Errorf("%s %s: got %s, want %s", name, code, got, want)
			}
			if snap := fold(d, d.Kind, frames); want == "failed" && (snap.Error == nil || !strings.HasPrefix(snap.Error.Message, "a\n\n")) {
				t.Errorf("%s %s: got error %+v", name, code, snap.Error)
			}
		}
	}
}

func TestFailureFramesHaveTheDialectsLineEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"openai-chat": "}\n\n", "ag-ui": "}\n\n", "gemini": "}\r\n\r\n", "ollama": "}\n", "ai-data-v1": "\"\n",
	} {
		frames := failures(lookup(t, name), "failed", "x")
		if got := frames[len(frames)-1]; !bytes.HasSuffix(got, []byte(end)) || bytes.Count(got, []byte("\n")) != strings.Count(end, "\n") {
			t.Errorf("%s: got %q, want the end %q", name, got, end)
		}
	}
}

// TestMembersThatAreNoJSONAreLeftOut: the client has to learn of the end all
// the same.
func TestMembersThatAreNoJSONAreLeftOut(t *testing.T) {
	t.Parallel()
	d := lookup(t, "openai-chat")
	frames := d.Failure(dialect.Failure{Code: "failed", Message: "m", Members: map[string]any{"f": func() {}}})
	if got, want := string(frames[0]), `data: {"error":{"code":"failed","message":"m","type":"failed"}}`+"\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if frames := d.Failure(dialect.Failure{Code: "failed"}); len(frames) != 1 {
		t.Errorf("without members: got %q", frames)
	}
	members := map[string]any{"a": 1}
	if d.Failure(dialect.Failure{Code: "failed", Members: members}); len(members) != 1 {
		t.Errorf("got the caller's members changed to %v", members)
	}
}

// TestFailuresGoOnFromTheLastFrame: with its number, or the request it answers.
func TestFailuresGoOnFromTheLastFrame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dialect, last, want string }{
		{"openai-responses", `{"type":"response.output_text.delta","sequence_number":41}`, `"sequence_number":42`},
		{"openai-responses", `{"type":"response.output_text.delta"}`, `"sequence_number":0`},
		{"openai-responses", `not JSON`, `"sequence_number":0`},
		{"openai-responses", ``, `"sequence_number":0`},
		{"a2a", `{"jsonrpc":"2.0","id":"req-2","result":{}}`, `"id":"req-2"`},
		{"a2a", `{"jsonrpc":"2.0","id":7,"result":{}}`, `"id":7`},
		{"a2a", `{"task":{"id":"t"}}`, "event: error\ndata: {\"error\":{"},
		{"a2a", `{"jsonrpc":"2.0","id":7`, `"id":7`},
		{"a2a", `{"jsonrpc":"2.0","id":}{`, `"id":null`},
		{"a2a", ``, `"id":null`},
	} {
		d := lookup(t, tt.dialect)
		frames := d.Failure(dialect.Failure{Code: "failed", Message: "m", Last: []byte(tt.last)})
		if !d.Numbered || !strings.Contains(string(frames[0]), tt.want) {
			t.Errorf("%s after %s: got %s, want %s", tt.dialect, tt.last, frames[0], tt.want)
		}
		only(t, d, frames[0])
	}
}
