package dialect_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// results are the ways in which tools that upstream runs report.
var results = []struct {
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
		"a:web_search:succeeded", `[{"title":"t"}]`,
		[]string{"web_search"},
	},
	{
		"server tool that failed", "anthropic-messages",
		[]string{
			`content_block_start|{"index":0,"content_block":{"type":"server_tool_use","id":"a","name":"web_search"}}`,
			`content_block_start|{"index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"a","content":{"type":"web_search_tool_result_error","error_code":"max"}}}`,
		},
		"a:web_search:failed", `{"type":"web_search_tool_result_error","error_code":"max"}`,
		[]string{"web_search"},
	},
	{
		"remote tool that failed", "anthropic-messages",
		[]string{
			`content_block_start|{"index":0,"content_block":{"type":"mcp_tool_use","id":"a","name":"f"}}`,
			`content_block_start|{"index":1,"content_block":{"type":"mcp_tool_result","tool_use_id":"a","is_error":true,"content":"no"}}`,
		},
		"a:f:failed", "no",
		[]string{"f"},
	},
	{
		"result of an earlier turn's call", "anthropic-messages",
		[]string{`content_block_start|{"index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"z","content":[]}}`},
		"z::succeeded", "[]",
		[]string{""},
	},
	{
		"remote tool", "openai-responses",
		[]string{`response.output_item.done|{"output_index":0,"item":{"id":"m","type":"mcp_call","name":"send","arguments":"{}","output":"sent","error":null}}`},
		"m:send:succeeded", "sent",
		[]string{"send"},
	},
	{
		"remote tool that failed", "openai-responses",
		[]string{`response.output_item.done|{"output_index":0,"item":{"id":"m","type":"mcp_call","name":"send","output":null,"error":"refused"}}`},
		"m:send:failed", "refused",
		[]string{"send"},
	},
	{
		"search", "openai-responses",
		[]string{
			`response.output_item.added|{"type":"response.output_item.added","output_index":0,"item":{"id":"w","type":"web_search_call","status":"in_progress"}}`,
			`response.output_item.done|{"type":"response.output_item.done","output_index":0,"item":{"id":"w","type":"web_search_call","status":"completed"}}`,
		},
		"w:web_search:succeeded", "-",
		[]string{"web_search"},
	},
	{
		"image, which is left out", "openai-responses",
		[]string{`response.output_item.done|{"item":{"id":"i","type":"image_generation_call","status":"completed","result":"aGVsbG8="}}`},
		"i:image_generation:succeeded", "-",
		[]string{"image_generation"},
	},
	{
		"output in an item of its own", "openai-responses",
		[]string{
			`response.output_item.done|{"output_index":0,"item":{"id":"i","type":"shell_call","call_id":"c","name":"sh"}}`,
			`response.output_item.done|{"output_index":1,"item":{"id":"o","type":"shell_call_output","call_id":"c","output":"ok"}}`,
		},
		"c:sh:succeeded", "ok",
		[]string{"sh"},
	},
	{
		"output", "ai-ui-v1",
		[]string{
			`{"type":"tool-input-available","toolCallId":"a","toolName":"f","input":{}}`,
			`{"type":"tool-output-available","toolCallId":"a","output":{"n":1},"preliminary":true}`,
			`{"type":"tool-output-available","toolCallId":"a","output":{"n":2}}`,
		},
		"a:f:succeeded", `{"n":2}`,
		[]string{"f"},
	},
	{
		"output that failed", "ai-ui-v1",
		[]string{`{"type":"tool-input-start","toolCallId":"a","toolName":"f"}`, `{"type":"tool-output-error","toolCallId":"a","errorText":"no"}`},
		"a:f:failed", "no",
		[]string{"f"},
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
		"a:f:succeeded", "",
		[]string{"f"},
	},
	{
		"result", "ag-ui",
		[]string{`{"type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f"}`, `{"type":"TOOL_CALL_RESULT","toolCallId":"a","content":"3 hits"}`},
		"a:f:succeeded", "3 hits",
		[]string{"f"},
	},
	{
		"code that ran", "gemini",
		[]string{`{"candidates":[{"content":{"parts":[{"executableCode":{"code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}}]}}]}`},
		":code_execution:succeeded", "1\n",
		[]string{"code_execution"},
	},
}

func TestResultsAreReceipts(t *testing.T) {
	t.Parallel()
	for _, tt := range results {
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

// TestReaderForgetsNamesRatherThanHoardThem: a run may go on for hours
// (promise 5).
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
