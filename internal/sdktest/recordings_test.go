package sdktest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

const (
	eventStream = "text/event-stream; charset=utf-8"
	jsonLines   = "application/x-ndjson"
)

// calls are the calls of an SDK that read recordings: for each the folders of
// recordings, and how the names of its own begin there.
type calls map[string][][2]string

var recordedCalls = []struct {
	sdk         *npm.Folder
	contentType string
	calls       calls
}{
	{openAI, eventStream, calls{
		"chat.stream": {
			{"openai-chat", ""},
			{"openai-chat-compatible", ""},
			{"azure-openai", "chat-"},
			{"azure-openai", "payloads-"},
			{"llamacpp", ""},
			{"vllm", "chat."},
		},
		"completions.create": {{"openai-completions-legacy", ""}, {"vllm", "completions."}},
		"responses.stream":   {{"openai-responses", ""}, {"openai-responses-compatible", ""}, {"azure-openai", "responses-"}},
		"threads.stream":     {{"openai-assistants", ""}},
	}},
	{anthropic, eventStream, calls{"messages.stream": {{"anthropic-messages", ""}}}},
	{gemini, eventStream, calls{"models.stream": {{"gemini", ""}}, "interactions.stream": {{"gemini-interactions", ""}}}},
	{ollama, jsonLines, calls{"chat.stream": {{"ollama", "chat."}}, "generate.stream": {{"ollama", "generate."}}}},
}

// unread is a recording that no call of its SDK reads from the beginning: the
// rest of another one.
const unread = "openai-responses/background-resume-starting-after.sse"

// putTogetherOtherwise are recordings of which the SDK makes something else
// than is in them, and why.
var putTogetherOtherwise = map[string]string{
	"openai-chat-compatible/writer-multiple-choices-no-done.sse": "the message beside each delta takes the place of the text",
	"gemini/payloads-google-stream-tool-call-arguments.jsonl":    "pieces of arguments stay pieces",
}

// TestSDKsReadRecordingsAsFromTheBackend replays every recording to the SDK of
// its dialect, from the backend itself and through the gateway: the SDK hands
// on and accumulates the same, or raises the same, and the run's snapshot is
// what it accumulated.
func TestSDKsReadRecordingsAsFromTheBackend(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Site(u.Addr())}})
	for _, r := range recordedCalls {
		t.Run(r.sdk.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, r.sdk)
			for _, call := range slices.Sorted(maps.Keys(r.calls)) {
				for _, name := range namesOf(t, r.calls[call]) {
					stage := u.Stage(inPieces(r.contentType, testkit.Recording(t, name), 700))
					direct := s.do(t, job{Call: call, Base: u.URL(), Header: onStage(stage)})
					through := s.do(t, job{Call: call, Base: g.URL(""), Header: onStage(stage)})
					sameOutcome(t, name, through, direct)
					rec := ended(t, g.Client("").As(subject), through.run(t))
					if _, other := putTogetherOtherwise[name]; !other && through.Error == nil {
						isTheSnapshot(t, name, rec, through.answer(t))
					}
				}
			}
		})
	}
}

func namesOf(t *testing.T, from [][2]string) (all []string) {
	t.Helper()
	for _, f := range from {
		all = append(all, testkit.Recordings(t, f[0], f[1])...)
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == unread })
}

// inPieces sends a body in pieces of a size, or in 200 if that is less.
func inPieces(contentType string, body []byte, size int) testkit.Script {
	var pieces []string
	for piece := range slices.Chunk(body, max(size, len(body)/200+1)) {
		pieces = append(pieces, string(piece))
	}
	return testkit.Stream(contentType, pieces...)
}

// sameOutcome fails the test unless the SDK handed on, accumulated and raised
// the same.
func sameOutcome(t *testing.T, name string, got, want outcome) {
	t.Helper()
	if len(want.Chunks) == 0 && want.Error == nil {
		t.Errorf("%s: the SDK reads nothing of it", name)
	}
	if !slices.Equal(got.Chunks, want.Chunks) {
		t.Errorf("%s: got %d chunks, want %d: %.600q", name, len(got.Chunks), len(want.Chunks), got.Chunks)
	}
	if !reflect.DeepEqual(got.Error, want.Error) {
		t.Errorf("%s: the SDK raised %+v, want %+v", name, got.Error, want.Error)
	}
	if string(got.Answer) != string(want.Answer) {
		t.Errorf("%s: the SDK accumulated %.600s, want %.600s", name, got.Answer, want.Answer)
	}
}

// ended waits for the end of a run.
func ended(t *testing.T, c testkit.Client, run string) (rec testkit.Record) {
	t.Helper()
	testkit.Eventually(t, "the end of the run", func() bool {
		rec = c.Snapshot(t, run)
		return rec.EndedAt != nil
	})
	return rec
}

// isTheSnapshot compares a snapshot with what the SDK accumulated.
func isTheSnapshot(t *testing.T, name string, rec testkit.Record, want accumulated) {
	t.Helper()
	if rec.Snapshot.Text != want.Text {
		t.Errorf("%s: snapshot has text %.200q, want %.200q", name, rec.Snapshot.Text, want.Text)
	}
	if f := rec.Snapshot.FinishReason; want.Finish != "" && (f == nil || *f != want.Finish) {
		t.Errorf("%s: snapshot has finish_reason %v, want %s", name, f, want.Finish)
	}
	if usage := testkit.Decode[tokens](t, rec.Usage); want.Usage != nil && !reflect.DeepEqual(usage, *want.Usage) {
		t.Errorf("%s: record has usage %s, want %s", name, rec.Usage, encoded(t, want.Usage))
	}
	if len(rec.Snapshot.Unresolved) != len(want.Tools) {
		t.Errorf("%s: snapshot has calls %+v, want %+v", name, rec.Snapshot.Unresolved, want.Tools)
		return
	}
	for i, got := range rec.Snapshot.Unresolved {
		w := want.Tools[i]
		if got.CallID != w.CallID || got.Name != w.Name || !sameJSON(got.Arguments, w.Arguments) {
			t.Errorf("%s: snapshot has call %+v, want %+v", name, got, w)
		}
	}
}

// sameJSON compares the arguments of a call, which some SDKs parse.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return reflect.DeepEqual(x, y)
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
