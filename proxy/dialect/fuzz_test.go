package dialect_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// seeds are one frame of everything that is read with code of its own.
var seeds = []string{
	"data: [DONE]\n\n", "event: error\ndata: x\n\n", "event: message_stop\ndata: {}\n\n", "data\n\n", "event: ping\n\n",
	"data: " + chatDelta + "\n\n", "data: " + stop("stop") + "\n\n",
	"data: " + chatTool(`{"index":-9223372036854775808,"id":"a","function":{"name":"f","arguments":null}}`) + "\n\n",
	"data: " + chatTool(`null`) + "\n\n", `data: {"choices":{"index":0}}` + "\n\n", `data: {"choices":null,"usage":{}}` + "\n\n",
	`data: {"type":"response.output_item.done","output_index":1e400,"item":{"type":"mcp_call","id":null}}` + "\n\n",
	`data: {"type":"response.completed","response":{"output":[[]]}}` + "\n\n",
	"event: content_block_start\n" + `data: {"index":0,"content_block":{"type":"tool_use","input":{"a":1}}}` + "\n\n",
	"event: messages/partial\n" + `data: [{"type":"ai","content":[{"text":"a"}]}]` + "\n\n",
	`data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":{}}},{"codeExecutionResult":{}}]}}]}` + "\n\n",
	`data: {"jsonrpc":"2.0","result":{"content":[null]}}` + "\n\n",
	"0:\"a\"\n", "3:\n", "d:{\n", `{"done":true` + "\n", `{"error":"x"}` + "\n", "data: {\"type\":\"\\u0000\"}\n\n",
}

// FuzzFrames: no bytes make a reader or folder panic or are changed by them
// (promise 1), a snapshot is never longer than what was folded or than its bound
// (promise 4), and no success follows an error (promise 3).
func FuzzFrames(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s + s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range dialect.Names() {
			d := lookup(t, name)
			frames := cut(t, d.Kind, body, 0)
			reader, folder := d.NewReader(), d.NewFolder()
			var one frame.Frame
			over := false
			for i := range frames {
				frame.Parse(d.Kind, bytes.Clone(frames[i]), &one)
				facts := reader.Read(&one)
				if over && facts.Outcome == dialect.OutcomeCompleted {
					t.Fatalf("%s: success after an error in %q", name, body)
				}
				over = over || facts.Outcome == dialect.OutcomeFailed || facts.Outcome == dialect.OutcomeCancelled
				folder.Fold(uint64(i+1), &one)
				d.Type(&one)
				dialect.DetectByFrame(d, &one)
				if !bytes.Equal(one.Clean, frames[i]) {
					t.Fatalf("%s: got frame %q changed to %q", name, frames[i], one.Clean)
				}
			}
			checkSize(t, name, folder.Snapshot(), len(body))
		}
	})
}

// checkSize: an escaped character is never shorter than what it stands for,
// and a broken byte becomes three.
func checkSize(t *testing.T, name string, s dialect.Snapshot, n int) {
	t.Helper()
	size := len(s.Text)
	if s.Reasoning != nil {
		size += len(*s.Reasoning)
	}
	for _, c := range s.Unresolved {
		size += len(c.Arguments)
	}
	for _, r := range s.ToolReceipts {
		if r.Result != nil {
			size += len(*r.Result)
		}
	}
	if size > 3*n {
		t.Errorf("%s: got %d bytes of snapshot from %d of stream", name, size, n)
	}
	if len(s.Text) > dialect.MaxText {
		t.Errorf("%s: got a text of %d bytes, want at most %d", name, len(s.Text), dialect.MaxText)
	}
}

// FuzzRequests: no request makes recognition panic, and what is a control call
// is never a start.
func FuzzRequests(f *testing.F) {
	for _, path := range []string{"", "/", "//", "/api/chat/", "/threads//runs/", "/x:cancel", "*", "/threads/t/runs/stream"} {
		f.Add(path, `{"stream":true}`, "application/json", "text/event-stream")
	}
	f.Add("/mcp", `{"jsonrpc":"2.0","method":"initialize","stream":true}`, "application/json;;", ",;q=,q")
	f.Add("/mcp", `[[[{"jsonrpc":"2.0"`, "+json", "")
	f.Add("/a", `{"messages":[{"messages":`, "application/grpc+json", "")
	f.Fuzz(func(t *testing.T, path, body, contentType, accept string) {
		r := &http.Request{Method: http.MethodPost, ContentLength: int64(len(body)), Header: http.Header{
			"Content-Type": {contentType}, "Accept": {accept},
		}}
		control := dialect.IsControl(r.Method, path, []byte(body))
		if control && dialect.RecognizeBody(path, []byte(body)) {
			t.Errorf("%q %q: got a control call that starts a run", path, body)
		}
		if dialect.IsControl(r.Method, path, nil) && dialect.Recognize(r, path, nil) != dialect.No {
			t.Errorf("%q: got a control path that is read", path)
		}
		for _, name := range append(dialect.Names(), "auto", "dify") {
			if id, ok := dialect.Conversation(name, path, []byte(body)); ok != (id != "") {
				t.Errorf("%s: got %q, %v", name, id, ok)
			}
		}
		dialect.RunKey([]byte(body))
		dialect.Model([]byte(body))
		dialect.DetectByResponse(path, http.Header{"Content-Type": {contentType}, "Content-Location": {path}})
	})
}
