package e2e

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// recording is one recorded stream and the request that a client of its kind
// would send.
type recording struct {
	file string
	ask  testkit.Ask
	// rules are what the dialect allows to be done to its stream.
	rules wireRules
	// contentType defaults to an event stream's.
	contentType string
	// header are further response headers, name and value in turn.
	header []string
	// state is how the run must end; "" is completed.
	state string
}

func post(path, body string) testkit.Ask { return testkit.Ask{Path: path, Body: body} }

// The requests of the dialects.
var (
	openaiChat    = post("/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}]}`)
	responses     = post("/v1/responses", `{"model":"m","stream":true,"input":"go"}`)
	anthropic     = post("/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"go"}]}`)
	gemini        = post("/v1beta/models/gemini-pro:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"go"}]}]}`)
	ollamaChat    = post("/api/chat", `{"model":"m","messages":[{"role":"user","content":"go"}]}`)
	ollamaText    = post("/api/generate", `{"model":"m","prompt":"go"}`).With("Accept", "application/x-ndjson")
	aiSDK         = post("/api/chat", `{"id":"chat-1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"go"}]}],"trigger":"submit-message"}`)
	agUI          = post("/agent", `{"threadId":"thread-1","runId":"run-1","messages":[],"tools":[],"state":{},"context":[],"forwardedProps":{}}`).With("Accept", "text/event-stream")
	langGraph     = post("/threads/t-1/runs/stream", `{"assistant_id":"a","input":{},"stream_mode":["values"]}`)
	modelContext  = post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`).With("Accept", "application/json, text/event-stream")
	someGenerator = post("/predictions", `{"stream":true,"input":"go"}`).With("Accept", "text/event-stream")
)

var (
	withIDs   = wireRules{ourIDs: true}
	asTheyAre = wireRules{}
	asLines   = wireRules{lines: true}
)

var aiSDKHeader = []string{"x-vercel-ai-ui-message-stream", "v1"}

// recordings are at least one of each dialect, with all the odd traits that
// were found: huge frames, comments, retries, CRLF, ids of upstream.
var recordings = []recording{
	{file: "openai-chat/text-basic.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-chat/parallel-tool-calls.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-chat/moderation-in-stream.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-chat/sdk-long-structured.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-chat/sdk-refusal-logprobs.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-chat/envoy-chat-streaming-web-search.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-chat-compatible/deepseek-reasoning.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-chat-compatible/openrouter-reasoning-comments.sse", ask: openaiChat, rules: withIDs},
	{file: "azure-openai/chat-prompt-filter-first-chunk.sse", ask: openaiChat, rules: withIDs},
	{file: "llamacpp/chat-simple.sse", ask: openaiChat, rules: withIDs},
	{file: "vllm/chat.sse", ask: openaiChat, rules: withIDs},
	{file: "openai-responses/text-and-tool-1.sse", ask: responses, rules: withIDs},
	{file: "openai-responses/background-queued.sse", ask: responses, rules: withIDs},
	{file: "openai-responses/code-interpreter-image-huge-frame.sse", ask: responses, rules: withIDs},
	{file: "openai-responses-compatible/openrouter-reasoning-done-marker.sse", ask: responses, rules: withIDs},
	{file: "anthropic-messages/text-basic.sse", ask: anthropic, rules: withIDs},
	{file: "anthropic-messages/thinking.sse", ask: anthropic, rules: withIDs},
	{file: "anthropic-messages/web-search-large-frames.sse", ask: anthropic, rules: withIDs},
	{file: "gemini/text-crlf.sse", ask: gemini, rules: asTheyAre},
	{file: "gemini/tool-call-thought-signature.sse", ask: gemini, rules: asTheyAre},
	{file: "gemini/builtin-tools-large-frame.sse", ask: gemini, rules: asTheyAre},
	{file: "ollama/chat.ndjson", ask: ollamaChat, rules: asLines, contentType: "application/x-ndjson"},
	{file: "ollama/generate.ndjson", ask: ollamaText, rules: asLines, contentType: "application/x-ndjson"},
	{file: "vercel-ui-message-stream/v7-text.sse", ask: aiSDK, rules: withIDs, header: aiSDKHeader},
	{file: "vercel-ui-message-stream/v7-reasoning-tool-two-steps.sse", ask: aiSDK, rules: withIDs, header: aiSDKHeader},
	{file: "vercel-ui-message-stream/v7-abort.sse", ask: aiSDK, rules: withIDs, header: aiSDKHeader, state: "cancelled"},
	{
		file: "vercel-data-stream-v1/v4-text.txt", ask: aiSDK, rules: asLines, contentType: "text/plain; charset=utf-8",
		header: []string{"x-vercel-ai-data-stream", "v1"},
	},
	{file: "ag-ui/encoder-text-tool-state.sse", ask: agUI, rules: withIDs},
	{file: "mcp-streamable-http/ts-sdk-tool-call-ids.sse", ask: modelContext, rules: asTheyAre},
	{file: "mcp-streamable-http/ts-sdk-initialize-priming-event.sse", ask: modelContext, rules: asTheyAre},
	{file: "mcp-streamable-http/tools-call-ping-comments-crlf.sse", ask: modelContext, rules: asTheyAre},
	{file: "replicate/stream-multiline-data.sse", ask: someGenerator, rules: withIDs},
}

// moreRecordings have no end that their stream itself tells, so that what
// follows them is for other tests to say.
var moreRecordings = []recording{
	{file: "langgraph/api-server-messages-values.sse", ask: langGraph, rules: withIDs},
	{file: "langgraph/api-server-resumable-ids-messages-tuple.sse", ask: langGraph, rules: withIDs},
	{file: "langgraph/api-server-error.sse", ask: langGraph, rules: withIDs},
	{file: "openai-chat-compatible/groq-tool-use-failed-error-midstream.sse", ask: openaiChat, rules: withIDs},
	{file: "anthropic-messages/no-final-blank-line.sse", ask: anthropic, rules: withIDs},
	{file: "gemini/cut-after-first-frame.sse", ask: gemini, rules: asTheyAre},
	{file: "ag-ui/encoder-run-error.sse", ask: agUI, rules: withIDs},
}

// TestRecordingsPassUnchanged replays recorded streams of real providers
// through the gateway: whole, and in pieces of seven bytes.
func TestRecordingsPassUnchanged(t *testing.T) {
	t.Parallel()
	for _, r := range recordings {
		body := testkit.Recording(t, r.file)
		t.Run(r.file, func(t *testing.T) {
			t.Parallel()
			r.replay(t, body, len(body), true)
		})
		t.Run(r.file+" in pieces", func(t *testing.T) {
			t.Parallel()
			r.replay(t, body, 7, true)
		})
	}
}

// TestRecordingsWithoutAnEndPassUnchanged looks at what was recorded only, not
// at what the gateway adds to a stream that breaks off.
func TestRecordingsWithoutAnEndPassUnchanged(t *testing.T) {
	t.Parallel()
	for _, r := range moreRecordings {
		body := testkit.Recording(t, r.file)
		t.Run(r.file, func(t *testing.T) {
			t.Parallel()
			r.replay(t, body, 1000, false)
		})
	}
}

// replay sends a recording in pieces of a size and compares what the client
// and a later one get. Long ones are not cut finer than into 3000 pieces.
func (r *recording) replay(t *testing.T, body []byte, size int, whole bool) {
	t.Helper()
	size = max(size, len(body)/3000)
	script := testkit.Script{}
	for i := 0; i+1 < len(r.header); i += 2 {
		script = append(script, testkit.Header(r.header[i], r.header[i+1]))
	}
	contentType := r.contentType
	if contentType == "" {
		contentType = "text/event-stream"
	}
	script = append(script, testkit.Header("Content-Type", contentType), testkit.FlushHeaders())
	for from := 0; from < len(body); from += size {
		script = append(script, testkit.Send(string(body[from:min(from+size, len(body))])))
	}
	c, stage := on(t, siteAuto, append(script, testkit.End()))
	a := c.Do(t, r.ask).Want(200)
	want, frames := r.rules.deliver(a.Run(), body)
	got, err := a.Bytes()
	if whole && err != nil {
		t.Fatalf("body broke off: %v", err)
	}
	compare(t, "live", got, want, whole)
	if !whole {
		return
	}
	rec := c.Snapshot(t, a.Run())
	if state := orCompleted(r.state); rec.State != state || rec.Frames.LastSeq == nil || *rec.Frames.LastSeq != frames {
		t.Errorf("run is %s (%s) with %+v as %s, want %s with %d frames", rec.State, rec.Reason(), rec.Frames, rec.Upstream.Dialect, state, frames)
	}
	if r.state == "" && c.On(stage).Do(t, r.ask.With("Last-Event-ID", testkit.Cursor(a.Run(), 0))).Want(200).Run() != a.Run() {
		t.Error("our cursor on the start path leads to another run")
	}
	replayed := c.Do(t, testkit.Resume(a.Run(), "").Query("control", "off")).Want(200).Body()
	compare(t, "replayed", replayed, want, true)
}

func orCompleted(state string) string {
	if state == "" {
		return "completed"
	}
	return state
}

// compare fails the test at the first byte that differs.
func compare(t *testing.T, what string, got, want []byte, whole bool) {
	t.Helper()
	if bytes.Equal(got, want) || !whole && bytes.HasPrefix(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%s: got %d bytes, want %d; at byte %d got %s, want %s", what, len(got), len(want), at, around(got, at), around(want, at))
}

func around(b []byte, at int) string { return fmt.Sprintf("%.160q", b[max(0, at-40):]) }
