package dialect_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// texts are the places where dialects put pieces of the answer.
var texts = []struct {
	name, dialect   string
	blocks          []string
	text, reasoning string
}{
	{"frames", "generic", []string{"a", "named|b\n data", "c"}, "a\nb\n data\nc", ""},
	{"the first of several choices", "openai-chat", []string{
		`{"choices":[{"index":1,"delta":{"content":"B1"}},{"index":0,"delta":{"content":"A1"}}]}`,
		`{"choices":[{"index":1,"delta":{"content":"B2"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":" A2"}}]}`,
	}, "A1 A2", ""},
	{"a choice without an index", "openai-chat", []string{`{"choices":[{"delta":{"content":"a"}}]}`}, "a", ""},
	{"parts of content", "openai-chat", []string{
		`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`,
		`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"b"}]}}]}`,
	}, "ab", "hm"},
	{"a refusal", "openai-chat", []string{`{"choices":[{"index":0,"delta":{"content":null,"refusal":"I "}}]}`, `{"choices":[{"index":0,"delta":{"refusal":"won't"}}]}`}, "I won't", ""},
	{"reasoning of DeepSeek", "openai-chat", []string{`{"choices":[{"index":0,"delta":{"reasoning_content":"a","content":null}}]}`}, "", "a"},
	{"reasoning that is sent twice", "openai-chat", []string{`{"choices":[{"index":0,"delta":{"reasoning":"a","reasoning_details":[{"text":"a"}]}}]}`}, "", "a"},
	{"reasoning in details only", "openai-chat", []string{`{"choices":[{"index":0,"delta":{"content":"","reasoning_details":[{"text":"a"},{"summary":"b"}]}}]}`}, "", "ab"},
	{"completions", "openai-chat", []string{`{"object":"text_completion","choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":0,"text":"b"}]}`}, "ab", ""},
	{"escapes", "openai-chat", []string{`{"choices":[{"index":0,"delta":{"content":"\"\\\n\u00e9\ud83d\udc4b"}}]}`}, "\"\\\n\u00e9\U0001F44B", ""},

	{"pieces", "openai-responses", []string{`response.output_text.delta|{"delta":"a"}`, `response.reasoning_summary_text.delta|{"delta":"r"}`, `response.reasoning_text.delta|{"delta":"s"}`, `response.output_text.delta|{"delta":"b"}`}, "ab", "rs"},
	{"the whole at the end", "openai-responses", []string{`response.output_text.delta|{"delta":"tail"}`, `response.completed|{"response":{"output":[{"type":"message","content":[{"type":"output_text","text":"head"},{"type":"output_text","text":"tail"}]}]}}`}, "headtail", ""},
	{"an end without a whole", "openai-responses", []string{`response.output_text.delta|{"delta":"a"}`, `response.completed|{"response":{"output":[]}}`}, "a", ""},
	{"a refusal", "openai-responses", []string{`response.refusal.delta|{"delta":"no"}`}, "no", ""},

	{"blocks", "anthropic-messages", []string{`content_block_start|{"content_block":{"type":"text","text":"a"}}`, `content_block_delta|{"delta":{"type":"text_delta","text":"b"}}`, `content_block_delta|{"delta":{"type":"thinking_delta","thinking":"r"}}`, `content_block_delta|{"delta":{"type":"signature_delta","signature":"s"}}`}, "ab", "r"},
	{"messages", "ollama", []string{`{"message":{"content":"a","thinking":"r"},"done":false}`, `{"message":{"content":"b"},"done":true}`}, "ab", "r"},
	{"generate", "ollama", []string{`{"response":"a","done":false}`, `{"response":"","thinking":"r","done":true}`}, "a", "r"},
	{"parts", "ai-ui-v1", []string{`{"type":"text-delta","id":"1","delta":"a"}`, `{"type":"reasoning-delta","id":"2","delta":"r"}`, `{"id":"1","delta":"b","type":"text-delta"}`, `{"type":"data-x","data":{"delta":"no"}}`}, "ab", "r"},
	{"lines", "ai-data-v1", []string{`0:"a"`, `g:"r"`, `0:"\"b\""`, `2:["no"]`, "x", "no colon"}, `a"b"`, "r"},
	{"events", "ag-ui", []string{`{"type":"TEXT_MESSAGE_CONTENT","delta":"a"}`, `{"type":"REASONING_MESSAGE_CONTENT","delta":"r"}`, `{"type": "TEXT_MESSAGE_CHUNK", "delta": "b"}`, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"s"}`}, "ab", "rs"},
	{"parts", "gemini", []string{`{"candidates":[{"content":{"parts":[{"text":"r","thought":true},{"text":"a"}]}},{"content":{"parts":[{"text":"other"}]}}]}`}, "a", "r"},
	{"content", "mcp", []string{`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"},{"type":"text","text":"b"}]}}`}, "ab", ""},

	{"pieces of messages", "langgraph", []string{
		`messages|[{"type":"human","content":"question"},{}]`, `messages|[{"type":"AIMessageChunk","content":"a"},{}]`,
		`messages|[{"type":"ai","content":[{"type":"text","text":"b"}]},{}]`, `messages\|sub:1|[{"type":"ai","content":"no"},{}]`,
	}, "ab", ""},
	{"messages that grow", "langgraph", []string{
		`messages/partial|[{"id":"1","type":"ai","content":"Hel"}]`, `messages/partial|[{"id":"1","type":"ai","content":"Hello"}]`,
		`messages/partial|[{"id":"2","type":"ai","content":""}]`, `messages/partial|[{"id":"2","type":"ai","content":" you"}]`,
	}, "Hello you", ""},
	{"the newer protocol, which is not read", "langgraph", []string{`messages|{"type":"event","params":{"data":{"delta":"a"}}}`}, "", ""},
}

func TestTextAndReasoningAreJoined(t *testing.T) {
	t.Parallel()
	for _, tt := range texts {
		t.Run(tt.dialect+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			_, snap := tell(t, tt.dialect, splitData(tt.blocks)...)
			reasoning := ""
			if snap.Reasoning != nil {
				reasoning = *snap.Reasoning
			}
			if snap.Text != tt.text || reasoning != tt.reasoning {
				t.Errorf("got %q and %q, want %q and %q", snap.Text, reasoning, tt.text, tt.reasoning)
			}
			if snap.Truncated || snap.Complete {
				t.Errorf("got truncated %v, complete %v, want neither", snap.Truncated, snap.Complete)
			}
		})
	}
}

// splitData writes data of several lines as several fields.
func splitData(blocks []string) []string {
	var out []string
	for _, b := range blocks {
		out = append(out, strings.ReplaceAll(b, "\n", "\ndata: "))
	}
	return out
}

func TestTextIsCutOnACharacter(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("é", 5000) // 10,000 bytes; MaxText is even, the x makes it odd
	d := lookup(t, "ag-ui")
	folder := d.NewFolder()
	var f frame.Frame
	add := func(seq uint64, text string) {
		frame.Parse(d.Kind, sse(`{"type":"TEXT_MESSAGE_CONTENT","delta":"`+text+`"}`), &f)
		folder.Fold(seq, &f)
	}
	add(1, "x")
	for seq := range uint64(120) {
		add(seq+2, piece)
	}
	add(200, "z")
	snap := folder.Snapshot()
	if !snap.Truncated || !utf8.ValidString(snap.Text) || len(snap.Text) != dialect.MaxText-1 || strings.HasSuffix(snap.Text, "z") {
		t.Errorf("got truncated %v, valid %v, %d bytes, want a whole prefix of %d bytes",
			snap.Truncated, utf8.ValidString(snap.Text), len(snap.Text), dialect.MaxText-1)
	}
}

func TestEveryPartOfASnapshotIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", dialect.MaxText+1)
	_, snap := tell(t, "ag-ui",
		`{"type":"REASONING_MESSAGE_CONTENT","delta":"`+long+`"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"`+long+`"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"a","delta":"`+long+`"}`,
		`{"type":"TOOL_CALL_RESULT","toolCallId":"b","content":"`+long+`"}`,
		`{"type":"RUN_ERROR","message":"`+long+`","code":"`+long+`"}`,
	)
	for what, got := range map[string]int{
		"reasoning": len(*snap.Reasoning), "arguments": len(snap.Unresolved[0].Arguments),
		"result": len(*snap.ToolReceipts[0].Result), "error": len(snap.Error.Message),
	} {
		if got != dialect.MaxText {
			t.Errorf("%s: got %d bytes, want %d", what, got, dialect.MaxText)
		}
	}
	if snap.Unresolved[0].Name != "" || snap.Error.Code != "" {
		t.Error("got a name or a code of a megabyte, want none")
	}
	if !snap.Truncated {
		t.Error("got truncated false, want true")
	}
}

// TestBrokenBytesAreReplaced: as a client would that decodes the stream.
func TestBrokenBytesAreReplaced(t *testing.T) {
	t.Parallel()
	_, snap := tell(t, "generic", "a\xff", "b")
	if snap.Text != "a\uFFFD\nb" {
		t.Errorf("got %q, want the broken byte replaced", snap.Text)
	}
	// The replacement is longer than what it stands for.
	_, snap = tell(t, "generic", strings.Repeat("\xffa", dialect.MaxText/2))
	if len(snap.Text) > dialect.MaxText || len(snap.Text) < dialect.MaxText-utf8.UTFMax || !utf8.ValidString(snap.Text) || !snap.Truncated {
		t.Errorf("got %d bytes, valid %v, truncated %v, want up to %d", len(snap.Text), utf8.ValidString(snap.Text), snap.Truncated, dialect.MaxText)
	}
}

// TestSnapshotsDoNotChange: one that was returned is not touched by what is
// folded after it.
func TestSnapshotsDoNotChange(t *testing.T) {
	t.Parallel()
	d := lookup(t, "ai-ui-v1")
	folder := d.NewFolder()
	var f frame.Frame
	blocks := []string{
		`{"type":"text-delta","delta":"one"}`, `{"type":"tool-output-available","toolCallId":"a","output":1}`,
		`{"type":"tool-input-start","toolCallId":"b","toolName":"f"}`, `{"type":"text-delta","delta":"two"}`,
		`{"type":"tool-output-available","toolCallId":"c","output":2}`, `{"type":"tool-output-available","toolCallId":"b","output":3}`,
		`{"type":"tool-output-available","toolCallId":"d","output":4}`,
	}
	var taken []dialect.Snapshot
	var then []string
	for i, b := range blocks {
		frame.Parse(d.Kind, sse(b), &f)
		folder.Fold(uint64(i+1), &f)
		taken = append(taken, folder.Snapshot())
		then = append(then, encode(t, taken[i]))
	}
	for i, snap := range taken {
		_ = append(snap.ToolReceipts, dialect.Receipt{Name: "a caller's own"})
		if now := encode(t, snap); now != then[i] {
			t.Errorf("snapshot %d: got %s, want as it was, %s", i, now, then[i])
		}
	}
	if now := encode(t, folder.Snapshot()); now != then[len(then)-1] {
		t.Errorf("got %s after callers used theirs, want %s", now, then[len(then)-1])
	}
}

// TestSnapshotHasNoNullLists: the record promises lists.
func TestSnapshotHasNoNullLists(t *testing.T) {
	t.Parallel()
	const want = `{"complete":false,"truncated":false,"text":"","reasoning":null,"finish_reason":null,"tool_receipts":[],"unresolved":[],"error":null}`
	for _, name := range dialect.Names() {
		if got := encode(t, lookup(t, name).NewFolder().Snapshot()); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
