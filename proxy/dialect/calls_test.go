package dialect_test

import (
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

func chatTool(fields string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + fields + `]}}]}`
}

// joinedCalls are the ways in which calls come in pieces.
var joinedCalls = []struct {
	name, dialect string
	blocks        []string
	want          []dialect.Call
}{
	{
		"interleaved by index", "openai-chat",
		[]string{
			chatTool(`{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}`),
			chatTool(`{"index":1,"function":{"arguments":"}"}}`),
			chatTool(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`),
		},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f", Arguments: `{"x":1}`}, {Seq: 1, CallID: "b", Name: "g", Arguments: "{}"}},
	},
	{
		"every parallel call numbered 0", "openai-chat",
		[]string{
			chatTool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`),
			chatTool(`{"index":0,"id":"b","function":{"name":"g","arguments":"{"}}`),
			chatTool(`{"index":0,"function":{"arguments":"}"}}`),
		},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f", Arguments: "{}"}, {Seq: 2, CallID: "b", Name: "g", Arguments: "{}"}},
	},
	{
		"without an index", "openai-chat",
		[]string{chatTool(`{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":{"y":2}}}`)},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f", Arguments: "{}"}, {Seq: 1, CallID: "b", Name: "g", Arguments: `{"y":2}`}},
	},
	{
		"the id repeated in every piece", "openai-chat",
		[]string{
			chatTool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`),
			chatTool(`{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}`),
		},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f", Arguments: "{}"}},
	},
	{
		"null instead of calls", "openai-chat",
		[]string{`{"choices":[{"index":0,"delta":{"content":"x","tool_calls":null}}]}`},
		[]dialect.Call{},
	},
	{
		"another choice's call", "openai-chat",
		[]string{`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}`},
		[]dialect.Call{},
	},
	{
		"the older function call", "openai-chat",
		[]string{
			`{"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":"{"}}}]}`,
			`{"choices":[{"index":0,"delta":{"function_call":{"arguments":"}"}}}]}`,
		},
		[]dialect.Call{{Seq: 1, Name: "f", Arguments: "{}"}},
	},
	{
		"items whose ids change", "openai-responses",
		[]string{
			`response.output_item.added|{"type":"response.output_item.added","output_index":3,"item":{"id":"1","type":"function_call","call_id":"c","name":"f","arguments":""}}`,
			`response.function_call_arguments.delta|{"output_index":3,"item_id":"2","delta":"{\"a\""}`,
			`response.function_call_arguments.delta|{"output_index":3,"item_id":"3","delta":":1}"}`,
			`response.output_item.done|{"type":"response.output_item.done","output_index":3,"item":{"id":"4","type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}}`,
		},
		[]dialect.Call{{Seq: 1, CallID: "c", Name: "f", Arguments: `{"a":1}`}},
	},
	{
		"a question for permission", "openai-responses",
		[]string{`response.output_item.done|{"output_index":0,"item":{"id":"q","type":"mcp_approval_request","name":"f","arguments":"{}"}}`},
		[]dialect.Call{{Seq: 1, CallID: "q", Name: "f", Arguments: "{}"}},
	},
	{
		"a computer to be used", "openai-responses",
		[]string{`response.output_item.done|{"output_index":0,"item":{"id":"i","type":"computer_call","call_id":"c","action":{"type":"click"}}}`},
		[]dialect.Call{{Seq: 1, CallID: "c", Name: "computer", Arguments: `{"type":"click"}`}},
	},
	{
		"blocks", "anthropic-messages",
		[]string{
			`content_block_start|{"index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
			`content_block_delta|{"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}`,
			`content_block_start|{"index":1,"content_block":{"type":"tool_use","id":"b","name":"g","input":{}}}`,
			`content_block_delta|{"index":0,"delta":{"partial_json":"1}"}}`,
			`content_block_delta|{"index":9,"delta":{"partial_json":"nobody's"}}`,
		},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f", Arguments: `{"x":1}`}, {Seq: 3, CallID: "b", Name: "g"}},
	},
	{
		"a second message with the same places", "anthropic-messages",
		[]string{
			`content_block_start|{"index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
			`content_block_start|{"index":0,"content_block":{"type":"tool_use","id":"b","name":"g","input":{"whole":true}}}`,
		},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f"}, {Seq: 2, CallID: "b", Name: "g", Arguments: `{"whole":true}`}},
	},
	{
		"whole calls", "ollama",
		[]string{`{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"id":"x","function":{"name":"f","arguments":{}}}]},"done":false}`},
		[]dialect.Call{{Seq: 1, Name: "f", Arguments: `{"a":1}`}, {Seq: 1, CallID: "x", Name: "f", Arguments: "{}"}},
	},
	{
		"input that becomes available", "ai-ui-v1",
		[]string{
			`{"type":"tool-input-start","toolCallId":"a","toolName":"f"}`,
			`{"type":"tool-input-delta","toolCallId":"a","inputTextDelta":"{\"x\""}`,
			`{"type":"tool-input-available","toolCallId":"a","toolName":"f","input":{"x":1}}`,
		},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f", Arguments: `{"x":1}`}},
	},
	{
		"chunks that continue the open call", "ag-ui",
		[]string{
			`{"type":"TOOL_CALL_CHUNK","toolCallId":"a","toolCallName":"f","delta":"{"}`,
			`{"type":"TOOL_CALL_CHUNK","delta":"}"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"unknown","delta":"x"}`,
		},
		[]dialect.Call{{Seq: 1, CallID: "a", Name: "f", Arguments: "{}"}},
	},
	{
		"parts", "gemini",
		[]string{`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"i","name":"f","args":{"a":1}}},{"functionCall":{"name":"f","args":{}}}]}}]}`},
		[]dialect.Call{{Seq: 1, CallID: "i", Name: "f", Arguments: `{"a":1}`}, {Seq: 1, Name: "f", Arguments: "{}"}},
	},
}

func TestPiecesOfToolCallsAreJoined(t *testing.T) {
	t.Parallel()
	for _, tt := range joinedCalls {
		t.Run(tt.dialect+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			_, snap := tell(t, tt.dialect, tt.blocks...)
			if !slices.Equal(snap.Unresolved, tt.want) || snap.Unresolved == nil {
				t.Errorf("got %+v, want %+v", snap.Unresolved, tt.want)
			}
			if len(snap.ToolReceipts) != 0 {
				t.Errorf("got receipts %+v, want none", snap.ToolReceipts)
			}
		})
	}
}
