package dialect_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

func chatTool(fields string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + fields + `]}}]}`
}

func TestPiecesOfToolCallsAreJoined(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
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
	} {
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

func TestResultsAreReceipts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, dialect string
		blocks        []string
		call          string // id:name:status
		result        string // "-" is none
		observed      []string
	}{
		{
			"server tool", "anthropic-messages",
			[]string{
				`content_block_start|{"index":0,"content_block":{"type":"server_tool_use","id":"a","name":"web_search"}}`,
				`content_block_start|{"index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"a","content":[{"title":"t"}]}}`,
			},
			"a:web_search:succeeded", `[{"title":"t"}]`, []string{"web_search"},
		},
		{
			"server tool that failed", "anthropic-messages",
			[]string{
				`content_block_start|{"index":0,"content_block":{"type":"server_tool_use","id":"a","name":"web_search"}}`,
				`content_block_start|{"index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"a","content":{"type":"web_search_tool_result_error","error_code":"max"}}}`,
			},
			"a:web_search:failed", `{"type":"web_search_tool_result_error","error_code":"max"}`, []string{"web_search"},
		},
		{
			"remote tool that failed", "anthropic-messages",
			[]string{
				`content_block_start|{"index":0,"content_block":{"type":"mcp_tool_use","id":"a","name":"f"}}`,
				`content_block_start|{"index":1,"content_block":{"type":"mcp_tool_result","tool_use_id":"a","is_error":true,"content":"no"}}`,
			},
			"a:f:failed", "no", []string{"f"},
		},
		{
			"result of an earlier turn's call", "anthropic-messages",
			[]string{`content_block_start|{"index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"z","content":[]}}`},
			"z::succeeded", "[]", []string{""},
		},
		{
			"remote tool", "openai-responses",
			[]string{`response.output_item.done|{"output_index":0,"item":{"id":"m","type":"mcp_call","name":"send","arguments":"{}","output":"sent","error":null}}`},
			"m:send:succeeded", "sent", []string{"send"},
		},
		{
			"remote tool that failed", "openai-responses",
			[]string{`response.output_item.done|{"output_index":0,"item":{"id":"m","type":"mcp_call","name":"send","output":null,"error":"refused"}}`},
			"m:send:failed", "refused", []string{"send"},
		},
		{
			"search", "openai-responses",
			[]string{
				`response.output_item.added|{"type":"response.output_item.added","output_index":0,"item":{"id":"w","type":"web_search_call","status":"in_progress"}}`,
				`response.output_item.done|{"type":"response.output_item.done","output_index":0,"item":{"id":"w","type":"web_search_call","status":"completed"}}`,
			},
			"w:web_search:succeeded", "-", []string{"web_search"},
		},
		{
			"image, which is left out", "openai-responses",
			[]string{`response.output_item.done|{"item":{"id":"i","type":"image_generation_call","status":"completed","result":"aGVsbG8="}}`},
			"i:image_generation:succeeded", "-", []string{"image_generation"},
		},
		{
			"output in an item of its own", "openai-responses",
			[]string{
				`response.output_item.done|{"output_index":0,"item":{"id":"i","type":"shell_call","call_id":"c","name":"sh"}}`,
				`response.output_item.done|{"output_index":1,"item":{"id":"o","type":"shell_call_output","call_id":"c","output":"ok"}}`,
			},
			"c:sh:succeeded", "ok", []string{"sh"},
		},
		{
			"output", "ai-ui-v1",
			[]string{
				`{"type":"tool-input-available","toolCallId":"a","toolName":"f","input":{}}`,
				`{"type":"tool-output-available","toolCallId":"a","output":{"n":1},"preliminary":true}`,
				`{"type":"tool-output-available","toolCallId":"a","output":{"n":2}}`,
			},
			"a:f:succeeded", `{"n":2}`, []string{"f"},
		},
		{
			"output that failed", "ai-ui-v1",
			[]string{`{"type":"tool-input-start","toolCallId":"a","toolName":"f"}`, `{"type":"tool-output-error","toolCallId":"a","errorText":"no"}`},
			"a:f:failed", "no", []string{"f"},
		},
		{
			"call that was denied", "ai-ui-v1",
			[]string{`{"type":"tool-input-start","toolCallId":"a","toolName":"f"}`, `{"type":"tool-output-denied","toolCallId":"a"}`},
			"a:f:failed", "-", nil,
		},
		{
			"input that was wrong", "ai-ui-v1",
			[]string{`{"type":"tool-input-start","toolCallId":"a","toolName":"f"}`, `{"type":"tool-input-error","toolCallId":"a","toolName":"f","input":1,"errorText":"bad"}`},
			"a:f:failed", "bad", nil,
		},
		{
			"result", "ai-data-v1",
			[]string{`9:{"toolCallId":"a","toolName":"f","args":{}}`, `a:{"toolCallId":"a","result":""}`},
			"a:f:succeeded", "", []string{"f"},
		},
		{
			"result", "ag-ui",
			[]string{`{"type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f"}`, `{"type":"TOOL_CALL_RESULT","toolCallId":"a","content":"3 hits"}`},
			"a:f:succeeded", "3 hits", []string{"f"},
		},
		{
			"code that ran", "gemini",
			[]string{`{"candidates":[{"content":{"parts":[{"executableCode":{"code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}}]}}]}`},
			":code_execution:succeeded", "1\n", []string{"code_execution"},
		},
	} {
		t.Run(tt.dialect+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			s, snap := tell(t, tt.dialect, tt.blocks...)
			if len(snap.ToolReceipts) != 1 || len(snap.Unresolved) != 0 {
				t.Fatalf("got receipts %+v and open calls %+v, want one receipt", snap.ToolReceipts, snap.Unresolved)
			}
			r := snap.ToolReceipts[0]
			result := "-"
			if r.Result != nil {
				result = *r.Result
			}
			if got := strings.Join([]string{r.CallID, r.Name, r.Status}, ":"); got != tt.call || result != tt.result {
				t.Errorf("got %s %q, want %s %q", got, result, tt.call, tt.result)
			}
			if r.Seq != uint64(len(tt.blocks)) {
				t.Errorf("got seq %d, want that of the result, %d", r.Seq, len(tt.blocks))
			}
			if !slices.Equal(s.Tools, tt.observed) {
				t.Errorf("got observed %q, want %q", s.Tools, tt.observed)
			}
		})
	}
}

// TestListingToolsIsNoEffect: the tools that a remote server offers are not
// results of a tool.
func TestListingToolsIsNoEffect(t *testing.T) {
	t.Parallel()
	s, snap := tell(t, "openai-responses", `response.output_item.done|{"item":{"id":"l","type":"mcp_list_tools","tools":[{"name":"f"}]}}`)
	if s.Tools != nil || len(snap.ToolReceipts) != 0 || len(snap.Unresolved) != 0 {
		t.Errorf("got observed %q, receipts %+v, calls %+v, want none", s.Tools, snap.ToolReceipts, snap.Unresolved)
	}
}

// TestReaderForgetsNamesRatherThanHoardThem: a run may go on for hours.
func TestReaderForgetsNamesRatherThanHoardThem(t *testing.T) {
	t.Parallel()
	d := lookup(t, "ag-ui")
	r := d.NewReader()
	start := func(id, name string) {
		readOne(d, r, sse(`{"type":"TOOL_CALL_START","toolCallId":"`+id+`","toolCallName":"`+name+`"}`))
	}
	nameOf := func(id string) string {
		f := readOne(d, r, sse(`{"type":"TOOL_CALL_RESULT","toolCallId":"`+id+`","content":"x"}`))
		if !f.Observed {
			t.Errorf("result of %s: got not observed", id)
		}
		return f.ToolName
	}
	start("long", strings.Repeat("n", 600))
	for i := range 2000 {
		start("call"+strconv.Itoa(i), "f")
	}
	for id, want := range map[string]string{"long": "", "call0": "f", "call1999": ""} {
		if got := nameOf(id); got != want {
			t.Errorf("%s: got name %q, want %q", id, got, want)
		}
	}
}
