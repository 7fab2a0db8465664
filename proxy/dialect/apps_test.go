package dialect_test

import "github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"

const difyIDs = `"task_id":"t","conversation_id":"c"`

func difyEvent(event, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"event":"` + event + `",` + difyIDs + more + `}`
}

// difyTales are the kinds of applications of Dify.
var difyTales = []tale{
	{
		name: "a chatbot", dialect: "dify",
		blocks: []string{
			difyEvent("message", `"answer":"a"`), difyEvent("message", `"answer":"b"`),
			difyEvent("message_end", `"metadata":{"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
		},
		end: "completed", ids: "t c ", text: "ab", finish: "stop", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
	},
	{
		name: "an agent that thinks twice", dialect: "dify",
		blocks: []string{
			difyEvent("agent_thought", `"id":"th","tool":"","thought":"hm"`),
			difyEvent("agent_thought", `"id":"th","tool":"f","tool_input":"{}","observation":""`),
			difyEvent("agent_thought", `"id":"th","tool":"f","tool_input":"{\"a\":1}","observation":"r"`),
			difyEvent("agent_thought", `"id":"th","tool":"f","tool_input":"{\"a\":1}","observation":"r"`),
			difyEvent("agent_message", `"answer":"a"`), difyEvent("agent_message", `"answer":"b"`),
			difyEvent("message_end", ""),
		},
		end: "completed", ids: "t c ", text: "ab", finish: "stop", tools: "f", receipts: []dialect.Receipt{receipt(3, "th", "f", "succeeded", "r")},
	},
	{
		name: "a newer agent that repeats its answer", dialect: "dify",
		blocks: []string{difyEvent("agent_message", `"answer":"a"`), difyEvent("agent_message", `"answer":"b"`), difyEvent("message", `"answer":"ab"`), difyEvent("message_end", "")},
		end:    "completed", ids: "t c ", text: "ab", finish: "stop",
	},
	{
		name: "an answer that is replaced", dialect: "dify",
		blocks: []string{difyEvent("message", `"answer":"bad"`), difyEvent("message_replace", `"answer":"no"`), difyEvent("message_end", "")},
		end:    "completed", ids: "t c ", text: "no", finish: "stop",
	},
	{
		name: "a chatflow", dialect: "dify",
		blocks: []string{
			difyEvent("workflow_started", `"workflow_run_id":"w"`), difyEvent("reasoning_chunk", `"data":{"reasoning":"hm"}`),
			difyEvent("node_finished", `"data":{"id":"n","node_type":"tool","title":"Mail","status":"succeeded","outputs":{"x":1}}`),
			difyEvent("node_finished", `"data":{"id":"l","node_type":"llm","title":"LLM","status":"succeeded"}`),
			difyEvent("message", `"answer":"a"`), difyEvent("message_end", ""), difyEvent("workflow_finished", `"data":{"status":"succeeded","total_tokens":9}`),
		},
		end: "completed", ids: "t c ", text: "a", thought: "hm", finish: "succeeded", tools: "Mail", receipts: []dialect.Receipt{receipt(3, "n", "Mail", "succeeded", `{"x":1}`)},
	},
	{
		name: "a chatflow whose start is lost", dialect: "dify",
		blocks: []string{difyEvent("node_started", ""), difyEvent("message", `"answer":"a"`), difyEvent("message_end", ""), difyEvent("workflow_finished", `"data":{"status":"failed","error":"no"}`)},
		end:    "failed upstream_error", ids: "t c ", text: "a", finish: "failed",
	},
	{
		name: "a chatflow that fails after its answer", dialect: "dify",
		blocks: []string{difyEvent("workflow_started", ""), difyEvent("message_end", ""), difyEvent("workflow_finished", `"data":{"status":"failed","error":"no"}`)},
		end:    "failed upstream_error", ids: "t c ", finish: "failed",
	},
	{
		name: "a workflow", dialect: "dify",
		blocks: []string{difyEvent("workflow_started", ""), difyEvent("text_chunk", `"data":{"text":"a"}`), difyEvent("workflow_finished", `"data":{"status":"succeeded","outputs":{"text":"a"}}`)},
		end:    "completed", ids: "t c ", text: "a", finish: "succeeded",
	},
	{
		name: "a workflow without pieces", dialect: "dify",
		blocks: []string{difyEvent("workflow_started", ""), difyEvent("workflow_finished", `"data":{"status":"succeeded","outputs":{"text":"a"}}`)},
		end:    "completed", ids: "t c ", text: "a", finish: "succeeded",
	},
	{name: "a workflow that was stopped", dialect: "dify", blocks: []string{difyEvent("workflow_finished", `"data":{"status":"stopped"}`)}, end: "cancelled", ids: "t c ", finish: "stopped"},
	{name: "a workflow that is paused", dialect: "dify", blocks: []string{difyEvent("workflow_paused", "")}, end: "completed input_required", ids: "t c "},
	{name: "an error", dialect: "dify", blocks: []string{`{"event":"error","status":400,"code":"x","message":"no"}`}, end: "failed upstream_error", ids: "  "},
	{name: "an answer that is cut", dialect: "dify", blocks: []string{difyEvent("message", `"answer":"a"`)}, end: "truncated", ids: "t c ", text: "a"},
}

// appTales are those of other applications.
var appTales = []tale{
	{
		name: "nodes, a tool and what follows the marker", dialect: "fastgpt",
		blocks: []string{
			`flowNodeStatus|{"status":"running","name":"AI"}`,
			`toolCall|{"tool":{"id":"c","toolName":"Search","functionName":"f","params":""}}`,
			`toolParams|{"tool":{"id":"c","params":"{}"}}`,
			`toolResponse|{"tool":{"id":"c","response":"r"}}`,
			`answer|{"id":"","object":"","model":"","choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"},"finish_reason":null}]}`,
			`answer|{"id":"","object":"","model":"","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`,
			`fastAnswer|{"id":"","object":"","model":"","choices":[{"delta":{"content":"b"},"index":0,"finish_reason":null}]}`,
			`answer|{"id":"","object":"","model":"","choices":[{"delta":{},"index":0,"finish_reason":"stop"}]}`,
			`answer|[DONE]`,
			`flowResponses|[{"moduleName":"AI","tokens":7}]`,
		},
		end: "completed", ids: "  ", text: "ab", thought: "hm", finish: "stop", tools: "f", receipts: []dialect.Receipt{receipt(4, "c", "f", "succeeded", "r")},
	},
	{name: "a question", dialect: "fastgpt", blocks: []string{`interactive|{"interactive":{"type":"userSelect"}}`, `answer|{"choices":[{"delta":{},"index":0,"finish_reason":"stop"}]}`, `answer|[DONE]`}, end: "completed input_required", ids: "  ", finish: "stop"},
	{name: "without names", dialect: "fastgpt", blocks: []string{`{"id":"","choices":[{"index":0,"delta":{"content":"a"}}]}`, "[DONE]"}, end: "completed", ids: "  ", text: "a"},
	{name: "an error", dialect: "fastgpt", blocks: []string{`error|{"code":500,"message":"no"}`, `answer|[DONE]`}, end: "failed upstream_error", ids: "  "},
	{
		name: "an agent", dialect: "flowise",
		blocks: []string{
			`{"event":"start","data":"a"}`, `{"event":"token","data":"a"}`, `{"event":"token","data":"b"}`,
			`{"event":"usedTools","data":[{"tool":"f","toolInput":{},"toolOutput":"r"}]}`,
			`{"event":"metadata","data":{"chatId":"c","chatMessageId":"m"}}`,
			`{"event":"usageMetadata","data":{"input_tokens":1,"output_tokens":2}}`,
			`{"event":"end","data":"[DONE]"}`,
		},
		end: "completed", ids: "m c ", text: "ab", tools: "f", usage: dialect.Usage{InputTokens: 1, OutputTokens: 2, Complete: true},
		receipts: []dialect.Receipt{receipt(4, "", "f", "succeeded", "r")},
	},
	{name: "a question", dialect: "flowise", blocks: []string{`{"event":"action","data":{"id":"x"}}`, `{"event":"end","data":"[DONE]"}`}, end: "completed input_required", ids: "  "},
	{name: "an abort", dialect: "flowise", blocks: []string{`{"event":"abort","data":"[DONE]"}`}, end: "cancelled", ids: "  "},
	{name: "an error", dialect: "flowise", blocks: []string{`{"event":"error","data":"no"}`}, end: "failed upstream_error", ids: "  "},
	{
		name: "two nodes", dialect: "n8n",
		blocks: []string{
			`{"type":"begin","metadata":{"nodeId":"1"}}`, `{"type":"item","content":"a","metadata":{"nodeId":"1"}}`, `{"type":"end","metadata":{"nodeId":"1"}}`,
			`{"type":"begin","metadata":{"nodeId":"2"}}`, `{"type":"item","content":"b"}`, `{"type":"end"}`,
		},
		end: "completed", ids: "  ", text: "ab", finish: "stop",
	},
	{name: "several on a line", dialect: "n8n", blocks: []string{`{"type":"begin"}{"type":"item","content":"a}{\"b"}{"type":"item","content":"c"}{"type":"end"}`}, end: "completed", ids: "  ", text: `a}{"bc`, finish: "stop"},
	{name: "several with an error", dialect: "n8n", blocks: []string{`{"type":"begin"}{"type":"error","content":"no"}{"type":"end"}`}, end: "failed upstream_error", ids: "  "},
	{name: "a node inside another", dialect: "n8n", blocks: []string{`{"type":"begin"}`, `{"type":"begin"}`, `{"type":"end"}`}, end: "truncated", ids: "  ", finish: "stop"},
	{name: "an error", dialect: "n8n", blocks: []string{`{"type":"begin"}`, `{"type":"error","content":"no"}`, `{"type":"end"}`}, end: "failed upstream_error", ids: "  ", finish: "stop"},
	{name: "a prediction that was stopped", dialect: "replicate", blocks: []string{"output|a", `done|{"reason":"canceled"}`}, end: "cancelled", ids: "  ", text: "a", finish: "canceled"},
	{name: "a prediction that failed", dialect: "replicate", blocks: []string{"output|a", "error|out of memory", `done|{"reason":"error"}`}, end: "failed upstream_error", ids: "  ", text: "a", finish: "error"},
	{name: "a prediction that is cut", dialect: "replicate", blocks: []string{"output|a"}, end: "truncated", ids: "  ", text: "a"},
	{
		name: "version 0.3", dialect: "a2a",
		blocks: []string{
			`{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"submitted"}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"kind":"text","text":"x"}]}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"kind":"artifact-update","taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"a","parts":[{"kind":"text","text":"y"}]}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"kind":"status-update","taskId":"t","contextId":"c","final":true,"status":{"state":"completed"}}}`,
		},
		end: "completed", ids: "t c ", text: "xy", finish: "completed",
	},
	{
		name: "an artifact that begins anew", dialect: "a2a",
		blocks: []string{
			`{"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"draft"}]}}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"final"}]}}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_REJECTED"}}}}`,
		},
		end: "completed refusal", ids: "t  ", text: "final", finish: "rejected",
	},
	{name: "a question", dialect: "a2a", blocks: []string{`{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[{"text":"who?"}]}}}}}`}, end: "completed input_required", ids: "t  ", text: "who?", finish: "input-required"},
	{name: "a message of version 0.3 over HTTP", dialect: "a2a", blocks: []string{`{"msg":{"messageId":"m","contextId":"c","role":"ROLE_AGENT","content":[{"text":"hi"}]}}`}, end: "completed", ids: " c ", text: "hi", finish: "message"},
	{name: "a question of version 0.3 over HTTP", dialect: "a2a", blocks: []string{`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"content":[{"text":"who?"}]}}}}`}, end: "completed input_required", ids: "t  ", text: "who?", finish: "input-required"},
	{name: "a failure", dialect: "a2a", blocks: []string{`{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_FAILED","message":{"parts":[{"text":"no"}]}}}}}`}, end: "failed upstream_error", ids: "t  "},
	{name: "an error", dialect: "a2a", blocks: []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`}, end: "failed upstream_error", ids: "  "},
	{name: "only a message", dialect: "a2a", blocks: []string{`{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","contextId":"c","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}}`}, end: "completed", ids: " c ", text: "hi", finish: "message"},
	{name: "plain HTTP", dialect: "a2a", blocks: []string{`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"x"}]}]}}`}, end: "completed", ids: "t c ", text: "x", finish: "completed"},
}
