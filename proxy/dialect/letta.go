package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// letta is the stream of an agent of Letta. Messages come whole or in pieces;
// a stop reason and the usage follow them.
var letta = spec{
	Dialect: Dialect{
		Name: "letta", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/agents/*/messages/stream"},
		certain: func(f *frame.Frame) bool {
			l, _ := findLetta(lettaRules, f)
			return l != nil && gjson.GetBytes(f.Data, "message_type").Exists()
		},
		Failure:  lettaFailure,
		Position: byMemberPosition("seq_id"),
		calls:    lettaCalls,
	},
	find:  findLetta,
	rules: lettaRules,
	words: lettaWords,
}.dialect()

// lettaCalls: only a run in the background keeps its frames.
var lettaCalls = []Calls{{
	start: "/agents/{agent}/messages/stream",
	Cancel: &ControlCall{
		Method: "POST", Path: "{prefix}/agents/{agent}/messages/cancel", Body: `{"run_ids":[{upstream_id}]}`,
		taken: taken{status: 200, body: `{{each}}`, each: `{upstream_id}:{state}`, stopped: "cancelled", stopping: "cancelled"},
	},
	Join: &ControlCall{
		Method: "POST", Path: "{prefix}/runs/{upstream_id}/stream", Body: `{"starting_after":{position}}`, Accept: "text/event-stream",
		needs: condition{"background", "true"},
	},
}}

var lettaRules = rules{
	"assistant_message":        {id: "run_id", fold: foldLettaText},
	"reasoning_message":        {id: "run_id", reasoning: paths{"reasoning"}},
	"hidden_reasoning_message": {id: "run_id"},
	"system_message":           {id: "run_id"},
	"user_message":             {id: "run_id"},
	"tool_call_message":        {id: "run_id", read: readLettaCall, fold: foldLettaCall},
	"approval_request_message": {id: "run_id", read: readLettaQuestion, fold: foldLettaCall},
	"tool_return_message":      {id: "run_id", read: readLettaReturn, fold: foldLettaReturn},
	"ping":                     {id: "run_id"},
	"stop_reason":              {id: "run_id", finish: paths{"stop_reason"}, fold: foldLettaStop, is: "message.completed"},
	"usage_statistics": {
		id: "run_id", usage: &usage{input: []string{"prompt_tokens"}, output: []string{"completion_tokens"}, whole: true},
	},
	"error_message": {id: "run_id", fail: paths{""}},
	"error":         {fail: paths{"error", ""}},
	"[DONE]":        {end: true, bare: true},
}

var lettaWords = map[string]meaning{
	"max_steps": meansCut, "max_tokens_exceeded": meansCut,
	"cancelled": meansStopped, "requires_approval": meansAsking,
	"error": meansFailed, "llm_api_error": meansFailed, "insufficient_credits": meansFailed,
	"invalid_llm_response": meansFailed, "invalid_tool_call": meansFailed, "no_tool_call": meansFailed,
}

var lettaByType, lettaByName = byMember("message_type"), byEvent("message_type")

// findLetta: only errors are named.
func findLetta(rs rules, f *frame.Frame) (*rule, []byte) {
	if string(f.Event) == "error" {
		return lettaByName(rs, f)
	}
	return lettaByType(rs, f)
}

func foldLettaText(a *answer, doc gjson.Result) { foldContent(a, doc.Get("content")) }

// eachLettaCall visits the calls of a message: one, or in newer versions a list.
func eachLettaCall(doc gjson.Result, visit func(gjson.Result)) {
	if calls := doc.Get("tool_calls"); calls.IsArray() {
		each(calls, visit)
		return
	}
	if call := doc.Get("tool_call"); call.IsObject() {
		visit(call)
	}
}

func readLettaCall(r *reader, doc gjson.Result, _ *Facts) {
	eachLettaCall(doc, func(t gjson.Result) { r.remember(t.Get("tool_call_id").Str, t.Get("name").Str) })
}

// readLettaQuestion: the stream ends with the question.
func readLettaQuestion(r *reader, doc gjson.Result, out *Facts) {
	readLettaCall(r, doc, out)
	r.asking = 1
}

func readLettaReturn(r *reader, doc gjson.Result, out *Facts) {
	out.Observed, out.ToolName = true, r.names[doc.Get("tool_call_id").Str]
	if name := doc.Get("name").Str; name != "" {
		out.ToolName = kept(name)
	}
}

func foldLettaCall(a *answer, doc gjson.Result) {
	eachLettaCall(doc, func(t gjson.Result) {
		id := t.Get("tool_call_id").Str
		a.open(id, id, t.Get("name").Str).arguments.add(t.Get("arguments").Str)
	})
}

func foldLettaReturn(a *answer, doc gjson.Result) {
	a.resolve(doc.Get("tool_call_id").Str, doc.Get("name").Str, doc.Get("status").Str == "error", doc.Get("tool_return"))
}

// foldLettaStop: a reason that is a failure may be all that is said about it.
func foldLettaStop(a *answer, doc gjson.Result) {
	if word := doc.Get("stop_reason").Str; lettaWords[word] == meansFailed {
		a.fail(Error{Message: word, Code: word})
	}
}

func lettaFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"message_type": "error_message", "error_type": f.Code, "message": f.Message})
	return [][]byte{dataFrame(e), doneFrame()}
}
