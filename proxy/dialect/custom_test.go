package dialect_test

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func path(p ...string) []string { return p }

// chatTable is Chat Completions as an operator would write it down.
var chatTable = dialect.Custom{
	CustomRule: dialect.CustomRule{
		Text: path("choices.0.delta.content"), ID: "id", Model: "model",
		InputTokens: "usage.prompt_tokens", OutputTokens: "usage.completion_tokens",
		Error: path("error"), Finish: path("choices.0.finish_reason"),
	},
	Done: path("[DONE]"), Words: map[string]string{"length": "length", "content_filter": "content_filter"},
	Generate: path("/ask/*"), Failure: `{"error":{"message":{message},"code":{code}}}`,
}

// eventTable has types, in the field of the block.
var eventTable = dialect.Custom{
	CustomRule: dialect.CustomRule{Text: path("text"), Conversation: "thread"},
	On: []dialect.CustomType{
		{Types: path("thought"), CustomRule: dialect.CustomRule{Reasoning: path("text")}},
		{Types: path("call"), CustomRule: dialect.CustomRule{CallID: "id", CallName: "name", CallArguments: "input"}},
		{Types: path("result"), CustomRule: dialect.CustomRule{CallID: "id", Result: "output"}},
		{Types: path("ask"), Waiting: true},
		{Types: path("heard"), Resumes: true},
		{Types: path("oops"), CustomRule: dialect.CustomRule{Error: path("problem")}},
		{Types: path("halt"), Means: "cancelled", End: true},
		{Types: path("bye"), End: true},
	},
	FailureEvent: "oops", Failure: `{"problem":{message}}`, IDs: "off", Filler: "off",
}

func compiled(t *testing.T, c *dialect.Custom) *dialect.Dialect {
	t.Helper()
	if found := c.Check(); found != nil {
		t.Fatalf("got mistakes %+v in a table, want none", found)
	}
	return new(dialect.Registry).Add(c)
}

// TestATableReadsLikeTheDialectItDescribes on the recordings that it covers.
func TestATableReadsLikeTheDialectItDescribes(t *testing.T) {
	t.Parallel()
	own, built := compiled(t, &chatTable), lookup(t, "openai-chat")
	for _, name := range []string{
		"openai-chat/text-basic.sse", "openai-chat/sdk-max-tokens-length.sse", "openai-chat/envoy-chat-streaming-detailed-usage.sse",
		"openai-chat-compatible/groq-tool-use-failed-error-midstream.sse", "vllm/chat.sse", "openai-chat/sdk-long-structured.sse",
	} {
		frames := cut(t, frame.SSE, testkit.Recording(t, name), 0)
		got, want := read(own, frame.SSE, frames), read(built, frame.SSE, frames)
		if got.end != want.end || got.UpstreamID != want.UpstreamID || got.Model != want.Model {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if want.Usage != nil && (got.Usage == nil || got.Usage.OutputTokens != want.Usage.OutputTokens) {
			t.Errorf("%s: got usage %+v, want %+v", name, got.Usage, want.Usage)
		}
		if got, want := fold(own, frame.SSE, frames).Text, fold(built, frame.SSE, frames).Text; got != want {
			t.Errorf("%s: got text %v, want %v", name, digestOf(got), digestOf(want))
		}
	}
}

func TestATableTellsTypesApart(t *testing.T) {
	t.Parallel()
	d := compiled(t, &eventTable)
	frames := cut(t, d.Kind, sse(
		`thought|{"text":"hm"}`, `{"text":"a","thread":"t"}`, `call|{"id":"c","name":"f","input":"{"}`, `call|{"id":"c","name":"f","input":"}"}`,
		`result|{"id":"c","output":"r"}`, `ask|{}`, `heard|{}`, `{"text":"b"}`, `bye|{}`,
	), 0)
	s, snap := read(d, d.Kind, frames), fold(d, d.Kind, frames)
	if s.state(d) != "completed" || s.ConversationID != "t" || strings.Join(s.Tools, " ") != "f" {
		t.Errorf("got %+v", s)
	}
	if snap.Text != "ab" || optional(snap.Reasoning) != "hm" || len(snap.ToolReceipts) != 1 || optional(snap.ToolReceipts[0].Result) != "r" {
		t.Errorf("got snapshot %+v", snap)
	}
	r := d.NewReader()
	var waiting []int
	for _, clean := range frames[5:8] {
		waiting = append(waiting, readOne(d, r, clean).Waiting)
	}
	if waiting[0] != 1 || waiting[1] != -1 || waiting[2] != 0 {
		t.Errorf("got waiting %v, want it to begin and end", waiting)
	}
	for block, want := range map[string]string{`halt|{}`: "cancelled", `oops|{"problem":"no"}`: "failed", `{"text":"a"}`: "truncated"} {
		frames := cut(t, d.Kind, sse(block), 0)
		if s := read(d, d.Kind, frames); s.state(d) != want {
			t.Errorf("%s: got %s, want %s", block, s.state(d), want)
		}
	}
}

func TestWhatATableSaysOfTheWire(t *testing.T) {
	t.Parallel()
	chat, events := compiled(t, &chatTable), compiled(t, &eventTable)
	lines := compiled(t, &dialect.Custom{Frames: "lines", Type: "kind", CustomRule: dialect.CustomRule{Text: path("token")}, Failure: `{"kind":"error","text":{message}}`})
	if got := (dialect.Wire{IDs: true, Keepalive: ": keepalive\n"}); chat.Wire != got {
		t.Errorf("got %+v, want ids and a comment", chat.Wire)
	}
	if events.Wire != (dialect.Wire{}) {
		t.Errorf("got %+v, want nothing", events.Wire)
	}
	if got := (dialect.Wire{Keepalive: " "}); lines.Wire != got || lines.Kind != frame.Lines {
		t.Errorf("got %+v, want a space in lines", lines.Wire)
	}
	for d, want := range map[*dialect.Dialect]string{
		chat:   `data: {"error":{"message":"say \"no\"","code":"failed"}}` + "\n\n",
		events: "event: oops\ndata: {\"problem\":\"say \\\"no\\\"\"}\n\n",
		lines:  `{"kind":"error","text":"say \"no\""}` + "\n",
	} {
		frames := d.Failure(dialect.Failure{Code: "failed", Message: `say "no"`})
		if len(frames) != 1 || string(frames[0]) != want {
			t.Errorf("got %q, want %q", frames, want)
		}
		for _, code := range codes {
			only(t, d, d.Failure(dialect.Failure{Code: code, Message: evil})[0])
		}
	}
	if got := compiled(t, &dialect.Custom{CustomRule: dialect.CustomRule{Text: path("a")}}).Failure(dialect.Failure{}); got != nil {
		t.Errorf("got %q of a table without a failure, want nothing", got)
	}
}

// TestReadingATablesTextAllocatesNothing: promise 2 holds for it, too.
func TestReadingATablesTextAllocatesNothing(t *testing.T) {
	for table, pair := range map[*dialect.Custom][2]string{
		&chatTable:  ordinary["openai-chat"],
		&eventTable: {`{"text":"a","thread":"t"}`, `{"text":" token"}`},
	} {
		d := compiled(t, table)
		var first, next frame.Frame
		frame.Parse(d.Kind, sse(pair[0]), &first)
		frame.Parse(d.Kind, sse(pair[1]), &next)
		r := d.NewReader()
		r.Read(&first)
		if allocs := testing.AllocsPerRun(100, func() { r.Read(&next) }); allocs != 0 {
			t.Errorf("got %v allocations for %s, want none", allocs, pair[1])
		}
	}
}

func TestARegistryKnowsEachTableOnce(t *testing.T) {
	t.Parallel()
	var reg dialect.Registry
	one, copied := chatTable, chatTable
	a, b := reg.Add(&one), reg.Add(&copied)
	if a != b {
		t.Errorf("got two dialects for one table")
	}
	other := reg.Add(&eventTable)
	if other.Name == a.Name || !strings.HasPrefix(a.Name, "custom-") {
		t.Errorf("got names %q and %q", a.Name, other.Name)
	}
	if d, ok := reg.Lookup(a.Name); !ok || d != a {
		t.Errorf("got %v for %q", d, a.Name)
	}
	if _, ok := reg.Lookup("dify"); !ok {
		t.Error("got no dialect of the package's own")
	}
	if _, ok := dialect.Lookup(a.Name); ok {
		t.Error("got a table of one registry outside of it")
	}
	if _, ok := new(dialect.Registry).Lookup(a.Name); ok {
		t.Error("got a table of one registry in another")
	}
}

func TestMistakesInATableAreNamed(t *testing.T) {
	t.Parallel()
	text := dialect.CustomRule{Text: path("a")}
	for _, tt := range []struct {
		table  dialect.Custom
		option string
	}{
		{dialect.Custom{}, "text"},
		{dialect.Custom{CustomRule: text, Frames: "xml"}, "frames"},
		{dialect.Custom{CustomRule: text, Type: "a b"}, "type"},
		{dialect.Custom{CustomRule: text, IDs: "yes"}, "ids"},
		{dialect.Custom{CustomRule: text, Frames: "lines", IDs: "on"}, "ids"},
		{dialect.Custom{CustomRule: text, Filler: "space"}, "filler"},
		{dialect.Custom{CustomRule: text, Frames: "lines", Filler: "comment"}, "filler"},
		{dialect.Custom{CustomRule: text, Words: map[string]string{"a": "b"}}, "words"},
		{dialect.Custom{CustomRule: text, Generate: path("ask")}, "generate"},
		{dialect.Custom{CustomRule: text, Done: path("")}, "done"},
		{dialect.Custom{CustomRule: text, Failure: "{message"}, "failure"},
		{dialect.Custom{CustomRule: text, Failure: "{\n}"}, "failure"},
		{dialect.Custom{CustomRule: text, FailureEvent: "x"}, "failure_event"},
		{dialect.Custom{CustomRule: dialect.CustomRule{Text: path("a.#.b")}}, "text"},
		{dialect.Custom{CustomRule: dialect.CustomRule{Text: path("a"), Reasoning: path("@this")}}, "reasoning"},
		{dialect.Custom{CustomRule: dialect.CustomRule{Text: path("a"), ID: "*"}}, "id"},
		{dialect.Custom{CustomRule: dialect.CustomRule{Text: path("a"), Result: "r"}}, "call_id"},
		{dialect.Custom{On: []dialect.CustomType{{CustomRule: text}}}, "on"},
		{dialect.Custom{On: []dialect.CustomType{{Types: path("x"), Means: "enough"}}}, "means"},
		{dialect.Custom{On: []dialect.CustomType{{Types: path("x"), CustomRule: dialect.CustomRule{Finish: path("a|b")}}}}, "finish"},
	} {
		if found := tt.table.Check(); len(found) != 1 || found[0].Option != tt.option || found[0].Allowed == "" {
			t.Errorf("%+v: got mistakes %+v, want one of %s", tt.table, found, tt.option)
		}
	}
}
