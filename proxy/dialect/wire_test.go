package dialect_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func TestWhatMayBeAdded(t *testing.T) {
	t.Parallel()
	const comment = ": keepalive\n"
	for _, tt := range []struct {
		dialect string
		kind    frame.Kind
		want    dialect.Wire
	}{
		{"generic", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"generic", frame.Lines, dialect.Wire{Keepalive: " "}},
		{"generic", frame.Opaque, dialect.Wire{}},
		{"openai-chat", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"openai-chat", frame.Lines, dialect.Wire{Keepalive: " "}},
		{"openai-responses", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"anthropic-messages", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"ai-ui-v1", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"ag-ui", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"langgraph", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment, KeepaliveGap: 10 * time.Second}},
		{"gemini", frame.SSE, dialect.Wire{}},
		{"mcp", frame.SSE, dialect.Wire{}},
		{"gemini-interactions", frame.SSE, dialect.Wire{}},
		{"mastra", frame.SSE, dialect.Wire{}},
		{"dify", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"n8n", frame.Lines, dialect.Wire{Keepalive: " "}},
		{"ollama", frame.Lines, dialect.Wire{Keepalive: " "}},
		{"ollama", frame.SSE, dialect.Wire{IDs: true, Keepalive: comment}},
		{"ai-data-v1", frame.Lines, dialect.Wire{Keepalive: "\n"}},
	} {
		if got := lookup(t, tt.dialect).WireFor(tt.kind); got != tt.want {
			t.Errorf("%s as %d: got %+v, want %+v", tt.dialect, tt.kind, got, tt.want)
		}
	}
}

// TestKeepalivesAreNoFrames: after one, the stream goes on as if nothing had
// been sent.
func TestKeepalivesAreNoFrames(t *testing.T) {
	t.Parallel()
	for _, name := range dialect.Names() {
		d := lookup(t, name)
		if d.Kind == frame.Opaque {
			continue // nothing is sent between pieces
		}
		one := "data: {\"a\":1}\n\n"
		if d.Kind == frame.Lines {
			one = "0:\"a\"\n"
		}
		frames := cut(t, d.Kind, []byte(d.Wire.Keepalive+one+d.Wire.Keepalive+one), 0)
		if len(frames) != 2 || string(frames[1]) != strings.TrimLeft(string(frames[1]), "\n:") {
			t.Errorf("%s: got %q, want two frames", name, frames)
		}
	}
}

func TestDialectsAreFoundByName(t *testing.T) {
	t.Parallel()
	want := []string{
		"openai-chat", "openai-completions", "openai-responses", "openai-assistants", "anthropic-messages",
		"gemini", "gemini-interactions", "cohere", "ollama", "ai-ui-v1", "ai-data-v1", "ag-ui", "assistant-transport", "mastra",
		"langgraph", "langserve", "letta", "dify", "fastgpt", "flowise", "n8n", "replicate", "mcp", "a2a", "bedrock", "generic",
	}
	if got := dialect.Names(); !slices.Equal(got, want) {
		t.Errorf("got names %q, want %q", got, want)
	}
	for _, name := range want {
		d := lookup(t, name)
		if d.Name != name || d.NewReader() == nil || d.NewFolder() == nil || d.Type == nil || d.Failure == nil {
			t.Errorf("%s: got an incomplete dialect %+v", name, d)
		}
	}
	for _, name := range []string{"", "auto", "OpenAI-Chat", "custom"} {
		if d, ok := dialect.Lookup(name); ok {
			t.Errorf("%q: got %s, want none", name, d.Name)
		}
	}
}

func TestResumePathsOfKnownClients(t *testing.T) {
	t.Parallel()
	want := []string{"{start_path}/{conversation_id}/stream", "/threads/{conversation_id}/runs/{upstream_run_id}/stream"}
	if got := dialect.ResumePaths(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOnlyMarkedStreamsAreFramedByTheirDialect: the AI SDK's older stream is
// text/plain.
func TestOnlyMarkedStreamsAreFramedByTheirDialect(t *testing.T) {
	t.Parallel()
	d := lookup(t, "ai-data-v1")
	if kind, ok := d.Framing(fields("X-Vercel-AI-Data-Stream", "v1")); kind != frame.Lines || !ok {
		t.Errorf("got %v, %v, want lines", kind, ok)
	}
	if _, ok := d.Framing(fields("Content-Type", "text/plain")); ok {
		t.Error("got a framing for plain text")
	}
}

// TestRunsOfOneDialectShareNothing: a reader or folder is the state of one run.
func TestRunsOfOneDialectShareNothing(t *testing.T) {
	t.Parallel()
	for _, name := range dialect.Names() {
		d := lookup(t, name)
		first, second := d.NewReader(), d.NewReader()
		readOne(d, first, sse(`{"id":"a","type":"RUN_STARTED","runId":"a","choices":[],"error":{"message":"x"}}`))
		a := readOne(d, second, sse(`{"id":"a","type":"RUN_STARTED","runId":"a","choices":[],"error":{"message":"x"}}`))
		b := readOne(d, d.NewReader(), sse(`{"id":"a","type":"RUN_STARTED","runId":"a","choices":[],"error":{"message":"x"}}`))
		if a != b {
			t.Errorf("%s: got %+v after another run, want %+v", name, a, b)
		}
	}
}
