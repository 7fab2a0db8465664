package dialect_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// graphTales are what graphs with tools and thoughts tell.
var graphTales = []tale{
	{
		name: "a tool, told in two modes", dialect: "langgraph",
		blocks: []string{
			`metadata|{"run_id":"r","attempt":1}`,
			`messages|[{"type":"AIMessageChunk","id":"m","content":"","tool_call_chunks":[{"name":"f","args":"{\"a\"","id":"c","index":0}]},{}]`,
			`messages|[{"type":"AIMessageChunk","id":"m","content":"","tool_call_chunks":[{"name":null,"args":":1}","id":null,"index":0}]},{}]`,
			`updates|{"agent":{"messages":[{"type":"ai","id":"m","content":"","tool_calls":[{"name":"f","args":{"a":1},"id":"c"}]}]}}`,
			`messages|[{"type":"tool","content":"3 hits","name":"f","tool_call_id":"c","status":"success"},{}]`,
			`updates|{"tools":{"messages":[{"type":"tool","content":"3 hits","name":"f","tool_call_id":"c"}]}}`,
			`values|{"messages":[{"type":"tool","content":"of an earlier run","name":"g","tool_call_id":"z"}]}`,
			`messages|[{"type":"AIMessageChunk","id":"n","content":"done"},{}]`,
		},
		end: "completed", ids: "r  ", text: "done", tools: "f", receipts: []dialect.Receipt{receipt(5, "c", "f", "succeeded", "3 hits")},
	},
	{
		name: "a tool of a subgraph that failed", dialect: "langgraph",
		blocks: []string{
			`messages\|x|[{"type":"AIMessageChunk","id":"m","content":"not the answer"},{}]`,
			`updates\|x|{"tools":{"messages":[{"type":"tool","content":"no","name":"f","tool_call_id":"c","status":"error"}]}}`,
		},
		end: "completed", ids: "  ", tools: "f", receipts: []dialect.Receipt{receipt(2, "c", "f", "failed", "no")},
	},
	{
		name: "a call that nobody answered", dialect: "langgraph",
		blocks: []string{
			`messages/partial|[{"type":"ai","id":"m","content":"","tool_call_chunks":[{"name":"f","args":"{","id":"c","index":0}]}]`,
			`messages/partial|[{"type":"ai","id":"m","content":"","tool_call_chunks":[{"name":"f","args":"{}","id":"c","index":0}],"tool_calls":[{"name":"f","args":{},"id":"c"}]}]`,
			`messages/complete|[{"type":"ai","id":"m","content":"","tool_calls":[{"name":"f","args":{},"id":"c"}]}]`,
			`updates|{"__interrupt__":[{"value":"may I?"}]}`,
		},
		end: "completed input_required", ids: "  ", open: []dialect.Call{{Seq: 1, CallID: "c", Name: "f", Arguments: "{}"}},
	},
	{
		name: "calls that come whole", dialect: "langgraph",
		blocks: []string{`messages|[{"type":"ai","id":"m","content":"","tool_calls":[{"name":"f","args":{"a":1},"id":"c"}]},{}]`},
		end:    "completed", ids: "  ", open: []dialect.Call{{Seq: 1, CallID: "c", Name: "f", Arguments: `{"a":1}`}},
	},
	{
		name: "thoughts in pieces", dialect: "langgraph",
		blocks: []string{
			`messages|[{"type":"AIMessageChunk","content":[{"type":"thinking","thinking":"a"}]},{}]`,
			`messages|[{"type":"AIMessageChunk","content":[{"type":"reasoning","reasoning":"b"}]},{}]`,
			`messages|[{"type":"AIMessageChunk","content":"","additional_kwargs":{"reasoning_content":"c"}},{}]`,
			`messages|[{"type":"AIMessageChunk","content":[{"type":"text","text":"d"}]},{}]`,
		},
		end: "completed", ids: "  ", text: "d", thought: "abc",
	},
	{
		name: "thoughts that grow", dialect: "langgraph",
		blocks: []string{
			`messages/partial|[{"type":"ai","id":"m","content":[{"type":"thinking","thinking":"a"}]}]`,
			`messages/partial|[{"type":"ai","id":"m","content":[{"type":"thinking","thinking":"ab"},{"type":"text","text":"c"}]}]`,
			`messages/partial|[{"type":"ai","id":"n","content":[{"type":"thinking","thinking":"d"}]}]`,
		},
		end: "completed", ids: "  ", text: "c", thought: "abd",
	},
}

// TestAGraphsTextIsNotParsed: frames without an answer of a
// tool are not looked into while the run is live (promise 2).
func TestAGraphsTextIsNotParsed(t *testing.T) {
	d := lookup(t, "langgraph")
	r := d.NewReader()
	piece := cut(t, d.Kind, sse(`messages|[{"type":"AIMessageChunk","content":"a","tool_calls":[]},{}]`), 0)[0]
	readOne(d, r, cut(t, d.Kind, sse(`metadata|{"run_id":"r"}`), 0)[0])
	frames := parsed(d.Kind, [][]byte{piece})
	if allocs := testing.AllocsPerRun(100, func() { r.Read(&frames[0]) }); allocs != 0 {
		t.Errorf("got %v allocations, want none", allocs)
	}
}
