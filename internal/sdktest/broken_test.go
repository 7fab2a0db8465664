package sdktest

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// broken is a call of an SDK whose answer does not come to its end.
type broken struct {
	sdk  *npm.Folder
	call string
	// begin is how the answer begins.
	begin string
	// raises is the class of error for an answer that breaks off, and wordless
	// that it does not tell why: the SDK would overlook a frame that does.
	raises   string
	wordless bool
	// fault is what the backend says when something goes wrong there, and
	// faultRaises what the SDK makes of it; "" is a chunk like any other.
	fault, faultRaises string
}

// The beginnings of answers, and the errors of backends.
const (
	cohereBegin = `event: message-start
data: {"id":"c1","type":"message-start","delta":{"message":{"role":"assistant","content":[]}}}

event: content-start
data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}

event: content-delta
data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hel"}}}}

`
	openAIFault       = `data: {"error":{"message":"overloaded","type":"server_error","code":"server_error"}}` + "\n\n"
	responsesFault    = "event: error\n" + `data: {"type":"error","sequence_number":9,"error":{"type":"server_error","code":"server_error","message":"overloaded","param":null}}` + "\n\n"
	anthropicFault    = "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"overloaded"}}` + "\n\n"
	geminiFault       = `data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}` + "\r\n\r\n"
	interactionsFault = "event: error\n" + `data: {"event_type":"error","error":{"code":"unavailable","message":"overloaded"}}` + "\n\n"
	cohereFault       = "event: message-end\n" + `data: {"type":"message-end","delta":{"finish_reason":"ERROR","error":"overloaded"}}` + "\n\n"
	ollamaFault       = `{"error":"overloaded"}` + "\n"
	replicateFault    = "event: error\n" + `data: {"detail":"overloaded"}` + "\n\n"
)

// brokenCalls are the calls of all SDKs.
func brokenCalls(t *testing.T) []broken {
	t.Helper()
	chat := first(t, "openai-chat/text-basic.sse", 4)
	response := first(t, "openai-responses/background-queued.sse", 8)
	message := first(t, "anthropic-messages/text-basic.sse", 5)
	return []broken{
		{openAI, "chat.create", chat, "APIError", false, openAIFault, "APIError"},
		{openAI, "chat.stream", chat, "APIError", false, openAIFault, "APIError"},
		{openAI, "completions.create", first(t, "openai-completions-legacy/envoy-completion-streaming.sse", 3), "APIError", false, openAIFault, "APIError"},
		{openAI, "responses.create", response, "APIError", false, responsesFault, "APIError"},
		{openAI, "responses.stream", response, "APIError", false, responsesFault, "APIError"},
		{openAI, "threads.stream", first(t, "openai-assistants/thread-run-stream.sse", 12), "APIError", false, "event: error\n" + openAIFault, "APIError"},
		{anthropic, "messages.create", message, "APIError", false, anthropicFault, "APIError"},
		{anthropic, "messages.stream", message, "APIError", false, anthropicFault, "APIError"},
		{gemini, "models.stream", first(t, "gemini/web-search-grounding.sse", 2), "ApiError", false, geminiFault, "ApiError"},
		{gemini, "interactions.stream", first(t, "gemini-interactions/payloads-basic.jsonl", 5), "APIConnectionError", true, interactionsFault, ""},
		{cohere, "chat.stream", cohereBegin, "TypeError", true, cohereFault, ""},
		{ollama, "chat.stream", first(t, "ollama/chat.ndjson", 3), "Error", false, ollamaFault, "Error"},
		{ollama, "generate.stream", first(t, "ollama/generate.ndjson", 3), "Error", false, ollamaFault, "Error"},
		{replicate, "stream", first(t, "replicate/stream-multiline-data.sse", 3), "Error", false, replicateFault, "Error"},
	}
}

// first returns the first n frames of a recording.
func first(t *testing.T, name string, n int) string {
	t.Helper()
	body, end := string(testkit.Recording(t, name)), "\n\n"
	switch {
	case strings.HasSuffix(name, ".ndjson"):
		end = "\n"
	case strings.Contains(body, "\r\n\r\n"):
		end = "\r\n\r\n"
	}
	return strings.Join(strings.SplitAfter(body, end)[:n], "")
}

// scripts are what the backend does: it begins to answer, and then the steps.
// Replicate first says where the answer is.
func (b broken) scripts(base string, then ...testkit.Op) []testkit.Script {
	kind := eventStream
	if b.sdk == ollama {
		kind = jsonLines
	}
	answer := append(testkit.Script{testkit.Header("Content-Type", kind), testkit.FlushHeaders(), testkit.Send(b.begin)}, then...)
	if b.sdk != replicate {
		return []testkit.Script{answer}
	}
	prediction := `{"id":"p1","status":"starting","urls":{"stream":"` + base + `/v1/streams/p1"}}`
	return []testkit.Script{testkit.Stream("application/json", prediction), answer}
}

// name tells the calls of all SDKs apart.
func (b broken) name() string { return b.sdk.String() + " " + b.call }

// breaksOff fails the test unless the SDK raised what it should, with these
// words in it.
func (b broken) breaksOff(t *testing.T, how string, o outcome, words string) {
	t.Helper()
	switch {
	case o.Error == nil:
		t.Errorf("%s %s: the SDK takes half an answer for a whole one: %.400q, %.200s", b.call, how, o.Chunks, o.Answer)
	case o.Error.Kinds[0] != b.raises:
		t.Errorf("%s %s: the SDK raised %+v, want %s", b.call, how, *o.Error, b.raises)
	case !b.wordless && !strings.Contains(o.Error.Message, words):
		t.Errorf("%s %s: the SDK raised %.300s, want %q in it", b.call, how, o.Error.Message, words)
	}
}

// site is the one that an SDK calls.
func (b broken) site() string {
	if b.sdk == replicate {
		return siteReplicate
	}
	return siteAuto
}

// The sites of a gateway in these tests.
const (
	siteAuto      = ""
	siteReplicate = "replicate" // whose answers are got, not posted
)

func brokenSites(u *testkit.Upstream, options ...string) map[string]string {
	got := append([]string{"start GET /v1/streams/*"}, options...)
	return map[string]string{siteAuto: testkit.Site(u.Addr(), options...), siteReplicate: testkit.Site(u.Addr(), got...)}
}

// eachSDK runs a test with the calls of each SDK, and one process for it.
func eachSDK(t *testing.T, f func(t *testing.T, s sdk, calls []broken)) {
	t.Helper()
	bySDK := map[*npm.Folder][]broken{}
	for _, b := range brokenCalls(t) {
		bySDK[b.sdk] = append(bySDK[b.sdk], b)
	}
	for folder, calls := range bySDK {
		t.Run(folder.String(), func(t *testing.T) {
			t.Parallel()
			f(t, start(t, folder), calls)
		})
	}
}
