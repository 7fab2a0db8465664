package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// agUI is the Agent User Interaction protocol. A run that asks for something
// ends, and says so in its outcome. A stream may begin with earlier runs of its
// thread: their ends are not its end, and their text is not its answer.
var agUI = spec{
	Dialect: Dialect{
		Name: "ag-ui", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/agent/*/run"},
		certain:     isRunStart,
		Failure:     agUIFailure,
		calls:       agUICalls,
	},
	find: byMember("type"),
	rules: rules{
		"RUN_STARTED":                   {read: readRunStart, fold: foldRunStart},
		"TEXT_MESSAGE_CONTENT":          {text: paths{"delta"}},
		"TEXT_MESSAGE_CHUNK":            {text: paths{"delta"}},
		"REASONING_MESSAGE_CONTENT":     {reasoning: paths{"delta"}},
		"REASONING_MESSAGE_CHUNK":       {reasoning: paths{"delta"}},
		"THINKING_TEXT_MESSAGE_CONTENT": {reasoning: paths{"delta"}},
		"TOOL_CALL_START":               {tool: &tool{key: "toolCallId", name: "toolCallName"}},
		"TOOL_CALL_ARGS":                {tool: &tool{key: "toolCallId", piece: "delta"}},
		"TOOL_CALL_CHUNK":               {tool: &tool{key: "toolCallId", name: "toolCallName", piece: "delta"}},
		"TOOL_CALL_RESULT":              {tool: &tool{key: "toolCallId", result: paths{"content"}}},
		"RUN_FINISHED":                  {end: true, finish: paths{"outcome.type", "outcome"}, usage: aguiUsage, read: readRunFinish, fold: foldRunFinish, is: "message.completed"},
		"RUN_ERROR":                     {end: true, fail: paths{""}},
	},
	words: map[string]meaning{"interrupt": meansAsking, "cancelled": meansStopped},
}.dialect()

// agUICalls: the protocol has no call that stops; the CopilotKit runtime stops
// what a thread runs, at a path of its own or, with a single endpoint, by a
// message.
var agUICalls = []Calls{{
	start: "/agent/{agent}/run",
	Cancel: &ControlCall{
		Method: "POST", Path: "{prefix}/agent/{agent}/stop/{upstream_conversation_id}",
		taken: taken{status: 200, body: `{"stopped":true}`},
	},
}, {
	when: condition{"method", "agent/run"},
	Cancel: &ControlCall{
		Method: "POST", Path: "{start_path}",
		Body:  `{"method":"agent/stop","params":{"agentId":{request.params.agentId},"threadId":{upstream_conversation_id}}}`,
		taken: taken{status: 200, body: `{"stopped":true}`},
	},
}}

// aguiUsage is one entry per model that was asked.
var aguiUsage = &usage{input: []string{"usage.#.inputTokens"}, output: []string{"usage.#.outputTokens"}, whole: true}

// readRunStart names the run: by the first id, and by the one that its client
// chose for it when that comes later.
func readRunStart(r *reader, doc gjson.Result, out *Facts) {
	out.ConversationID = learn(&r.conversation, "threadId", doc)
	if run := doc.Get("runId").Str; run != "" && run == r.own && !r.owned {
		r.owned, r.id = true, false
	}
	out.UpstreamID = learn(&r.id, "runId", doc)
}

// readRunFinish: the end of an earlier run says how the stream ended, in case
// that no other follows, but does not end it.
func readRunFinish(r *reader, doc gjson.Result, out *Facts) {
	if run := doc.Get("runId").Str; run != "" && r.own != "" && run != r.own {
		out.End = false
		if out.Outcome == OutcomeNone {
			r.conclude(r.ordinaryEnd(), out)
		}
	}
}

// foldRunStart drops what an earlier run answered, but for an error.
func foldRunStart(a *answer, doc gjson.Result) {
	run := "run " + kept(doc.Get("runId").Str)
	if a.over && run != a.message {
		*a = answer{seq: a.seq, err: a.err}
	}
	a.message, a.over = run, false
}

func foldRunFinish(a *answer, _ gjson.Result) { a.over = true }

func isRunStart(f *frame.Frame) bool {
	switch doc := gjson.ParseBytes(f.Data); doc.Get("type").Str {
	case "RUN_STARTED":
		return doc.Get("threadId").Exists() || doc.Get("runId").Exists()
	case "RUN_ERROR":
		return true
	default:
		return false
	}
}

func agUIFailure(f Failure) [][]byte {
	return [][]byte{dataFrame(oneLine(map[string]any{"type": "RUN_ERROR", "message": f.Message, "code": f.Code}))}
}
