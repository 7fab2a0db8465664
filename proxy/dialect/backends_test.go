package dialect_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// tale is what a whole stream of a backend has to tell.
type tale struct {
	name, dialect string
	blocks        []string
	end           string // state, and the reason if there is one
	ids           string // upstream's id, conversation, model
	usage         dialect.Usage
	text, thought string
	finish        string
	tools         string // names of the tools whose results were seen
	receipts      []dialect.Receipt
	open          []dialect.Call
}

func (tt *tale) check(t *testing.T) {
	t.Helper()
	d := lookup(t, tt.dialect)
	s, snap := tell(t, tt.dialect, tt.blocks...)
	if got := strings.TrimSpace(s.state(d) + " " + s.Reason); got != tt.end {
		t.Errorf("got end %q, want %q", got, tt.end)
	}
	if got := strings.Join([]string{s.UpstreamID, s.ConversationID, s.Model}, " "); got != tt.ids {
		t.Errorf("got ids %q, want %q", got, tt.ids)
	}
	if got := s.Usage; got == nil && tt.usage != (dialect.Usage{}) || got != nil && *got != tt.usage {
		t.Errorf("got usage %+v, want %+v", got, tt.usage)
	}
	if snap.Text != tt.text {
		t.Errorf("got text %q, want %q", snap.Text, tt.text)
	}
	if got := optional(snap.Reasoning); got != tt.thought {
		t.Errorf("got reasoning %q, want %q", got, tt.thought)
	}
	if got := optional(snap.FinishReason); got != tt.finish {
		t.Errorf("got finish reason %q, want %q", got, tt.finish)
	}
	if got := strings.Join(s.Tools, " "); got != tt.tools {
		t.Errorf("got observed tools %q, want %q", got, tt.tools)
	}
	if !slices.EqualFunc(snap.ToolReceipts, tt.receipts, equalReceipts) {
		t.Errorf("got receipts %s, want %s", encode(t, snap.ToolReceipts), encode(t, tt.receipts))
	}
	if !slices.Equal(snap.Unresolved, tt.open) {
		t.Errorf("got open calls %+v, want %+v", snap.Unresolved, tt.open)
	}
	if failed := strings.HasPrefix(tt.end, "failed"); failed != (snap.Error != nil) {
		t.Errorf("got error %+v in a run that ended %s", snap.Error, tt.end)
	}
}

func optional(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func equalReceipts(a, b dialect.Receipt) bool {
	same := optional(a.Result) == optional(b.Result)
	a.Result, b.Result = nil, nil
	return same && a == b
}

func receipt(seq uint64, id, name, status, result string) dialect.Receipt {
	return dialect.Receipt{Seq: seq, CallID: id, Name: name, Status: status, Result: &result}
}

var tales = []tale{
	{
		name: "two steps and a tool", dialect: "assistant-transport",
		blocks: []string{
			`{"type":"step-start","messageId":"m"}`,
			`{"type":"part-start","part":{"type":"reasoning"},"path":[]}`,
			`{"type":"text-delta","textDelta":"hm","path":[0]}`,
			`{"type":"part-start","part":{"type":"tool-call","toolCallId":"c","toolName":"f"},"path":[]}`,
			`{"type":"text-delta","textDelta":"{}","path":[1]}`,
			`{"type":"result","result":"r","isError":true,"path":[1]}`,
			`{"type":"step-finish","finishReason":"tool-calls","usage":{"inputTokens":1,"outputTokens":2},"isContinued":true}`,
			`{"type":"part-start","part":{"type":"text"},"path":[]}`,
			`{"type":"text-delta","textDelta":"yes","path":[2]}`,
			`{"type":"text-delta","textDelta":"nobody's","path":[9]}`,
			`{"type":"step-finish","finishReason":"length","usage":{"inputTokens":10,"outputTokens":20},"isContinued":false}`,
			"[DONE]",
		},
		end: "completed length", ids: "m  ", usage: dialect.Usage{InputTokens: 11, OutputTokens: 22, Complete: true},
		text: "yes", thought: "hm", finish: "length", tools: "f", receipts: []dialect.Receipt{receipt(6, "c", "f", "failed", "r")},
	},
	{
		name: "a function whose output is wanted", dialect: "openai-assistants",
		blocks: []string{
			`thread.run.created|{"id":"run_1","object":"thread.run","thread_id":"t","model":"m"}`,
			`thread.run.step.delta|{"id":"s","delta":{"step_details":{"type":"tool_calls","tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}}`,
			`thread.run.step.delta|{"id":"s","delta":{"step_details":{"type":"tool_calls","tool_calls":[{"index":0,"type":"function","function":{"arguments":"{}"}}]}}}`,
			`thread.run.requires_action|{"id":"run_1","thread_id":"t","status":"requires_action","required_action":{"submit_tool_outputs":{"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}}`,
			`done|[DONE]`,
		},
		end: "completed input_required", ids: "run_1 t m", finish: "requires_action", open: []dialect.Call{{Seq: 2, CallID: "c", Name: "f", Arguments: "{}"}},
	},
	{
		name: "a run that is cut", dialect: "openai-assistants",
		blocks: []string{
			`thread.message.delta|{"delta":{"content":[{"index":0,"type":"text","text":{"value":"a"}}]}}`,
			`thread.run.incomplete|{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_completion_tokens"},"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
			`done|[DONE]`,
		},
		end: "completed length", ids: "r  ", text: "a", finish: "max_completion_tokens", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
	},
	{
		name: "a run that failed", dialect: "openai-assistants",
		blocks: []string{`thread.run.failed|{"id":"r","status":"failed","last_error":{"code":"server_error","message":"no"},"usage":null}`, `done|[DONE]`},
		end:    "failed upstream_error", ids: "r  ", finish: "failed",
	},
	{
		name: "a run that was cancelled", dialect: "openai-assistants",
		blocks: []string{`thread.run.cancelled|{"id":"r","status":"cancelled"}`, `done|[DONE]`}, end: "cancelled", ids: "r  ", finish: "cancelled",
	},
	{
		name: "code that upstream runs", dialect: "gemini-interactions",
		blocks: []string{
			`interaction.created|{"interaction":{"id":"i","status":"in_progress","model":"m"},"event_type":"interaction.created"}`,
			`step.start|{"index":0,"step":{"type":"thought"},"event_type":"step.start"}`,
			`step.delta|{"index":0,"delta":{"type":"thought_summary","content":{"type":"text","text":"hm"}},"event_type":"step.delta"}`,
			`step.start|{"index":1,"step":{"type":"code_execution_call","id":"c","arguments":{"code":"1"}},"event_type":"step.start"}`,
			`step.start|{"index":2,"step":{"type":"code_execution_result","call_id":"c"},"event_type":"step.start"}`,
			`step.delta|{"index":2,"delta":{"type":"code_execution_result","result":"1","is_error":false},"event_type":"step.delta"}`,
			`step.delta|{"index":3,"delta":{"type":"text","text":"one"},"event_type":"step.delta"}`,
			`interaction.completed|{"interaction":{"id":"i","status":"incomplete","usage":{"total_input_tokens":1,"total_output_tokens":2,"total_thought_tokens":3}},"event_type":"interaction.completed"}`,
		},
		end: "completed length", ids: "i  m", text: "one", thought: "hm", finish: "incomplete", tools: "code_execution",
		usage: dialect.Usage{InputTokens: 1, OutputTokens: 5, Complete: true}, receipts: []dialect.Receipt{receipt(5, "c", "code_execution", "succeeded", "1")},
	},
	{
		name: "an interaction that was cancelled", dialect: "gemini-interactions",
		blocks: []string{`{"interaction_id":"i","status":"cancelled","event_type":"interaction.status_update"}`}, end: "cancelled", ids: "i  ",
	},
	{
		name: "a plan, a tool and an answer", dialect: "cohere",
		blocks: []string{
			`message-start|{"id":"m","type":"message-start","delta":{"message":{"role":"assistant"}}}`,
			`tool-plan-delta|{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will"}}}`,
			`tool-call-start|{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"c","type":"function","function":{"name":"f","arguments":""}}}}}`,
			`tool-call-delta|{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{}"}}}}}`,
			`content-delta|{"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":"hm"}}}}`,
			`content-delta|{"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"a"}}}}`,
			`message-end|{"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"billed_units":{"input_tokens":9},"tokens":{"input_tokens":1,"output_tokens":2}}}}`,
			"[DONE]",
		},
		end: "completed", ids: "m  ", text: "a", thought: "I willhm", finish: "TOOL_CALL", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
		open: []dialect.Call{{Seq: 3, CallID: "c", Name: "f", Arguments: "{}"}},
	},
	{name: "an answer that is cut", dialect: "cohere", blocks: []string{`{"type":"message-end","delta":{"finish_reason":"MAX_TOKENS"}}`}, end: "completed length", ids: "  ", finish: "MAX_TOKENS"},
	{name: "an answer that failed", dialect: "cohere", blocks: []string{`{"type":"message-end","delta":{"finish_reason":"ERROR","error":"no"}}`, "[DONE]"}, end: "failed upstream_error", ids: "  ", finish: "ERROR"},
	{name: "an answer that failed without a word", dialect: "cohere", blocks: []string{`{"type":"message-end","delta":{"finish_reason":"TIMEOUT"}}`}, end: "failed upstream_error", ids: "  ", finish: "TIMEOUT"},
	{
		name: "pieces of calls and messages", dialect: "letta",
		blocks: []string{
			`{"id":"message-1","message_type":"reasoning_message","reasoning":"hm","run_id":"r"}`,
			`{"id":"message-2","message_type":"tool_call_message","tool_call":{"name":"f","arguments":"{","tool_call_id":"c"},"run_id":"r"}`,
			`{"id":"message-2","message_type":"tool_call_message","tool_call":{"name":null,"arguments":"}","tool_call_id":"c"},"run_id":"r"}`,
			`{"id":"message-3","message_type":"tool_return_message","tool_return":"no","status":"error","tool_call_id":"c","run_id":"r"}`,
			`{"message_type":"ping"}`,
			`{"id":"message-4","message_type":"assistant_message","content":"a","run_id":"r"}`,
			`{"id":"message-4","message_type":"assistant_message","content":[{"type":"text","text":"b"}],"run_id":"r"}`,
			`{"message_type":"stop_reason","stop_reason":"end_turn"}`,
			`{"message_type":"usage_statistics","prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`,
			"[DONE]",
		},
		end: "completed", ids: "r  ", text: "ab", thought: "hm", finish: "end_turn", tools: "f", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
		receipts: []dialect.Receipt{receipt(4, "c", "f", "failed", "no")},
	},
	{
		name: "a tool that needs approval", dialect: "letta",
		blocks: []string{`{"message_type":"approval_request_message","tool_call":{"name":"f","arguments":"{}","tool_call_id":"c"},"run_id":"r"}`, `{"message_type":"stop_reason","stop_reason":"requires_approval"}`, "[DONE]"},
		end:    "completed input_required", ids: "r  ", finish: "requires_approval", open: []dialect.Call{{Seq: 1, CallID: "c", Name: "f", Arguments: "{}"}},
	},
	{name: "an agent out of steps", dialect: "letta", blocks: []string{`{"message_type":"stop_reason","stop_reason":"max_steps"}`, "[DONE]"}, end: "completed length", ids: "  ", finish: "max_steps"},
	{name: "an agent that was cancelled", dialect: "letta", blocks: []string{`{"message_type":"stop_reason","stop_reason":"cancelled"}`, "[DONE]"}, end: "cancelled", ids: "  ", finish: "cancelled"},
	{name: "an agent that failed in a word", dialect: "letta", blocks: []string{`{"message_type":"stop_reason","stop_reason":"llm_api_error"}`, "[DONE]"}, end: "failed upstream_error", ids: "  ", finish: "llm_api_error"},
	{name: "an agent that failed", dialect: "letta", blocks: []string{`error|{"error":{"message":"no"}}`, "[DONE]"}, end: "failed upstream_error", ids: "  "},
	{
		name: "an agent with a tool", dialect: "mastra",
		blocks: []string{
			`{"type":"start","runId":"r","from":"AGENT","payload":{}}`,
			`{"type":"reasoning-delta","runId":"r","from":"AGENT","payload":{"id":"1","text":"hm"}}`,
			`{"type":"tool-call","runId":"r","from":"AGENT","payload":{"toolCallId":"c","toolName":"f","args":{"a":1}}}`,
			`{"type":"tool-result","runId":"r","from":"AGENT","payload":{"toolCallId":"c","toolName":"f","result":{"b":2}}}`,
			`{"type":"tool-error","runId":"r","from":"AGENT","payload":{"toolCallId":"d","toolName":"g","error":"no"}}`,
			`{"type":"text-delta","runId":"r","from":"AGENT","payload":{"id":"2","text":"a"}}`,
			`{"type":"finish","runId":"r","from":"AGENT","payload":{"stepResult":{"reason":"stop"},"output":{"usage":{"inputTokens":1,"outputTokens":2}}}}`,
			"[DONE]",
		},
		end: "completed", ids: "r  ", text: "a", thought: "hm", finish: "stop", tools: "f g", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
		receipts: []dialect.Receipt{receipt(4, "c", "f", "succeeded", `{"b":2}`), receipt(5, "d", "g", "failed", "no")},
	},
	{
		name: "a tool that waits for approval", dialect: "mastra",
		blocks: []string{`{"type":"tool-call-approval","runId":"r","from":"AGENT","payload":{"toolCallId":"c","toolName":"f","args":{}}}`, `{"type":"finish","runId":"r","from":"AGENT","payload":{}}`, "[DONE]"},
		end:    "completed input_required", ids: "  ", open: []dialect.Call{{Seq: 1, CallID: "c", Name: "f", Arguments: "{}"}},
	},
	{
		name: "a workflow that fails after its agent", dialect: "mastra",
		blocks: []string{`{"type":"workflow-start","runId":"r","from":"WORKFLOW","payload":{}}`, `{"type":"finish","runId":"r","from":"AGENT","payload":{"stepResult":{"reason":"stop"}}}`, `{"type":"workflow-finish","runId":"r","from":"WORKFLOW","payload":{"workflowStatus":"failed"}}`},
		end:    "failed upstream_error", ids: "r  ", finish: "failed",
	},
	{name: "a tripwire", dialect: "mastra", blocks: []string{`{"type":"tripwire","runId":"r","from":"AGENT","payload":{"reason":"no"}}`, "[DONE]"}, end: "completed content_filter", ids: "  "},
	{name: "an abort", dialect: "mastra", blocks: []string{`{"type":"abort","runId":"r","from":"AGENT","payload":{}}`, `{"type":"finish","payload":{}}`, "[DONE]"}, end: "cancelled", ids: "  "},
	{
		name: "messages", dialect: "langserve",
		blocks: []string{`metadata|{"run_id":"r"}`, `data|{"content":"a","type":"AIMessageChunk"}`, `data|"b"`, `data|{"content":[{"type":"text","text":"c"}]}`, "end|"},
		end:    "completed", ids: "r  ", text: "abc",
	},
	{
		name: "patches of a log", dialect: "langserve",
		blocks: []string{`metadata|{"run_id":"r"}`, `data|{"ops":[{"op":"add","path":"/streamed_output/-","value":{"content":"a"}},{"op":"add","path":"/logs/x","value":{"content":"no"}}]}`, "end|"},
		end:    "completed", ids: "r  ", text: "a",
	},
	{
		name: "events", dialect: "langserve",
		blocks: []string{
			`data|{"event":"on_tool_start","name":"f","run_id":"x","data":{"input":{"a":1}}}`,
			`data|{"event":"on_tool_end","name":"f","run_id":"x","data":{"output":{"content":"r"}}}`,
			`data|{"event":"on_chat_model_stream","data":{"chunk":{"content":"a"}}}`,
			`data|{"event":"on_chain_end","data":{"output":{"content":"a"}}}`, "end|",
		},
		end: "completed", ids: "  ", text: "a", tools: "f", receipts: []dialect.Receipt{receipt(2, "x", "f", "succeeded", "r")},
	},
	{name: "a chain that failed", dialect: "langserve", blocks: []string{`error|{"status_code":500,"message":"no"}`}, end: "failed upstream_error", ids: "  "},
	{name: "a chain that was cut", dialect: "langserve", blocks: []string{`data|"a"`}, end: "truncated", ids: "  ", text: "a"},
}

func allTales() []tale { return slices.Concat(tales, difyTales, appTales, graphTales, variantTales) }

func TestBackendsTellTheirTales(t *testing.T) {
	t.Parallel()
	for _, tt := range allTales() {
		t.Run(tt.dialect+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			tt.check(t)
		})
	}
}
