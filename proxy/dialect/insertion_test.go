package dialect_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// errorFrames are errors as the backends of each dialect send them.
var errorFrames = map[string][]string{
	"openai-chat":         {`{"error":{"message":"planted","code":500}}`, `{"id":"c","error":{"message":"planted"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, `error|{"error":{"message":"planted"}}`, `{"object":"error","message":"planted","code":400}`},
	"openai-completions":  {`{"error":{"message":"planted"}}`},
	"openai-responses":    {`error|{"type":"error","message":"planted"}`, `response.failed|{"type":"response.failed","response":{"status":"failed","error":{"message":"planted"}}}`},
	"openai-assistants":   {`error|{"error":{"message":"planted"}}`, `thread.run.failed|{"id":"r","status":"failed","last_error":{"message":"planted"}}`},
	"anthropic-messages":  {`error|{"type":"error","error":{"type":"overloaded_error","message":"planted"}}`},
	"gemini":              {`{"error":{"code":503,"message":"planted","status":"UNAVAILABLE"}}`},
	"gemini-interactions": {`{"event_type":"error","error":{"message":"planted"}}`},
	"cohere":              {`message-end|{"type":"message-end","delta":{"finish_reason":"ERROR","error":"planted"}}`},
	"ollama":              {`{"error":"planted"}`},
	"ai-ui-v1":            {`{"type":"error","errorText":"planted"}`},
	"ai-data-v1":          {`3:"planted"`},
	"ag-ui":               {`{"type":"RUN_ERROR","message":"planted"}`},
	"assistant-transport": {`{"type":"error","path":[],"error":"planted"}`},
	"mastra":              {`{"type":"error","runId":"r","from":"AGENT","payload":{"error":"planted"}}`},
	"langgraph":           {`error|{"error":"E","message":"planted"}`},
	"langserve":           {`error|{"status_code":500,"message":"planted"}`},
	"letta":               {`{"message_type":"error_message","message":"planted"}`, `error|{"error":{"message":"planted"}}`},
	"dify":                {`{"event":"error","status":500,"message":"planted"}`},
	"fastgpt":             {`error|{"message":"planted"}`, `{"error":{"message":"planted"}}`},
	"flowise":             {`{"event":"error","data":"planted"}`},
	"n8n":                 {`{"type":"error","content":"planted"}`},
	"replicate":           {`error|{"detail":"planted"}`},
	"mcp":                 {`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"planted"}}`},
	"a2a":                 {`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"planted"}}`},
}

// places are where something is done to n frames or bytes that takes long:
// everywhere, but for most of the middle of long ones.
func places(n int) (all []int) {
	for at := range n + 1 {
		if at < 6 || at > n-6 || at%(1+n/12) == 0 {
			all = append(all, at)
		}
	}
	return all
}

// blockOf is one frame of a dialect as it came.
func blockOf(t *testing.T, d *dialect.Dialect, block string) frame.Frame {
	t.Helper()
	body := sse(block)
	if d.Kind == frame.Lines {
		body = []byte(block + "\n")
	}
	return parsed(d.Kind, cut(t, d.Kind, body, 0))[0]
}

func readParsed(d *dialect.Dialect, frames []frame.Frame) (s story) {
	r := d.NewReader()
	for i := range frames {
		s.add(r.Read(&frames[i]))
	}
	return s
}

// TestAnErrorAnywhereFailsTheRun: in every stream, after every frame, whatever
// ends follow it (promise 3).
func TestAnErrorAnywhereFailsTheRun(t *testing.T) {
	t.Parallel()
	for _, name := range dialect.Names() {
		if !slices.Contains([]string{"generic", "bedrock"}, name) && errorFrames[name] == nil {
			t.Errorf("%s: no error frame is known", name)
		}
	}
	for name, s := range everyStream(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, block := range errorFrames[s.d.Name] {
				plantError(t, s, block)
			}
		})
	}
}

func plantError(t *testing.T, s stored, block string) {
	t.Helper()
	frames, planted := parsed(s.d.Kind, s.clean), blockOf(t, s.d, block)
	few, whole := places(len(frames)), foldParsed(s.d, frames)
	r := s.d.NewReader()
	for at := range len(frames) + 1 {
		failed := dialect.Clone(r)
		if got := failed.Read(&planted); got.Outcome != dialect.OutcomeFailed || got.Reason != "upstream_error" {
			t.Fatalf("%s at %d: got %+v, want a failure", block, at, got)
		}
		if slices.Contains(few, at) {
			for i := at; i < len(frames); i++ {
				if got := failed.Read(&frames[i]); got.Outcome != dialect.OutcomeNone && got.Outcome != dialect.OutcomeFailed {
					t.Fatalf("%s at %d: got %+v in frame %d after it", block, at, got, i+1)
				}
			}
			snap := foldParsed(s.d, slices.Insert(slices.Clone(frames), at, planted))
			if snap.Error == nil || whole.Error == nil && snap.Error.Message != "planted" {
				t.Fatalf("%s at %d: got error %+v, want the one that was planted", block, at, snap.Error)
			}
		}
		if at < len(frames) {
			r.Read(&frames[at])
		}
	}
}

// TestWhatCannotBeParsedTellsNothing: in every stream, after every frame
// (promise 1).
func TestWhatCannotBeParsedTellsNothing(t *testing.T) {
	t.Parallel()
	for name, s := range everyStream(t) {
		if s.d.Name == "generic" || s.d.Name == "bedrock" {
			continue // everything is text, or nothing
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, block := range garbage {
				plantGarbage(t, s, block)
			}
		})
	}
}

// garbage is what no parser takes.
var garbage = []string{`{"type":"te`, `{"`, "\xff\xfe{}", `[[[[[[`}

func plantGarbage(t *testing.T, s stored, block string) {
	t.Helper()
	frames, broken := parsed(s.d.Kind, s.clean), blockOf(t, s.d, block)
	few, whole := places(len(frames)), foldParsed(s.d, frames)
	if block != garbage[0] {
		few = nil
	}
	r := s.d.NewReader()
	for at := range len(frames) + 1 {
		after := dialect.Clone(r)
		if got := after.Read(&broken); got != (dialect.Facts{}) || !reflect.DeepEqual(after, r) {
			t.Fatalf("%q at %d: got %+v, want nothing", block, at, got)
		}
		if slices.Contains(few, at) {
			snap := foldParsed(s.d, slices.Insert(slices.Clone(frames), at, broken))
			if snap.Text != whole.Text || !reflect.DeepEqual(snap.Error, whole.Error) {
				t.Fatalf("%q at %d: got text %v, want %v", block, at, digestOf(snap.Text), digestOf(whole.Text))
			}
		}
		if at < len(frames) {
			r.Read(&frames[at])
		}
	}
}

// TestACutOffFrameIsNoSuccess: of every stream the last frames, cut off inside,
// say nothing good (promise 3).
func TestACutOffFrameIsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, s := range everyStream(t) {
		if s.d.CleanEnd {
			continue // its clean end is what counts
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frames := parsed(s.d.Kind, s.clean)
			for at := max(0, len(frames)-4); at < len(frames); at++ {
				before := frames[max(0, at-16):at]
				if ended := readParsed(s.d, before); ended.state(s.d) == "completed" {
					break
				}
				data := frames[at].Data
				for _, n := range places(len(data) - 1) {
					piece := frames[at]
					piece.Data = data[:max(0, n)]
					if got := readParsed(s.d, append(slices.Clone(before), piece)); got.state(s.d) == "completed" {
						t.Fatalf("frame %d cut off after %q: got completed", at+1, piece.Data)
					}
				}
			}
		})
	}
}
