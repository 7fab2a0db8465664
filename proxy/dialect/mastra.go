package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// mastra is the native stream of Mastra's agents and workflows. Its client
// splits at blank lines and reads what begins with "data: ", so that a frame
// with anything before it is lost: nothing is added.
var mastra = spec{
	Dialect: Dialect{
		Name: "mastra", Kind: frame.SSE,
		generations: []string{"/api/agents/*/stream", "/api/workflows/*/stream"},
		certain:     isMastraChunk,
		Failure:     mastraFailure,
		// An agent ends with its connection.
		calls: []Calls{{start: "/workflows/{workflow}/stream", Cancel: &ControlCall{
			Method: "POST", Path: "{prefix}/workflows/{workflow}/runs/{upstream_id}/cancel",
			taken: taken{status: 200, body: `{"message":"Workflow run cancelled"}`},
		}}},
	},
	find: byMember("type"),
	rules: rules{
		"start":               {id: "runId"},
		"workflow-start":      {id: "runId", read: func(r *reader, _ gjson.Result, _ *Facts) { r.outer = true }},
		"text-delta":          {id: "runId", text: paths{"payload.text"}},
		"reasoning-delta":     {id: "runId", reasoning: paths{"payload.text"}},
		"tool-call":           {tool: &tool{key: "payload.toolCallId", name: "payload.toolName", whole: "payload.args"}},
		"tool-result":         {tool: &tool{key: "payload.toolCallId", name: "payload.toolName", result: paths{"payload.result"}}},
		"tool-error":          {tool: &tool{key: "payload.toolCallId", name: "payload.toolName", result: paths{"payload.error"}, failed: true}},
		"tool-call-approval":  {tool: &tool{key: "payload.toolCallId", name: "payload.toolName", whole: "payload.args"}, read: readMastraQuestion, is: "run.waiting"},
		"tool-call-suspended": {tool: &tool{key: "payload.toolCallId", name: "payload.toolName"}, read: readMastraQuestion, is: "run.waiting"},
		"tripwire":            {settles: meansFiltered, is: "message.completed"},
		"error":               {fail: paths{"payload.error", "payload", ""}},
		"abort":               {settles: meansStopped},
		"finish": {
			finish: paths{"payload.stepResult.reason", "payload.finishReason"}, read: readMastraFinish, is: "message.completed",
			usage: &usage{input: []string{"payload.output.usage.inputTokens"}, output: []string{"payload.output.usage.outputTokens"}, whole: true},
		},
		"workflow-finish":   {finish: mastraStatus, fold: foldMastraWorkflow, is: "message.completed"},
		"workflow-canceled": {settles: meansStopped},
		"[DONE]":            {end: true, bare: true},
	},
	words: map[string]meaning{
		"length": meansCut, "content-filter": meansFiltered, "error": meansFailed,
		"failed": meansFailed, "canceled": meansStopped, "suspended": meansAsking, "tripwire": meansFiltered,
	},
}.dialect()

var mastraStatus = paths{"payload.workflowStatus", "payload.status"}

// foldMastraWorkflow: a status may be all that is said about a failure.
func foldMastraWorkflow(a *answer, doc gjson.Result) {
	if word := mastraStatus.text(doc); word == "failed" {
		a.fail(Error{Message: word, Code: word})
	}
}

func isMastraChunk(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	return doc.Get("type").Str != "" && doc.Get("runId").Str != "" && doc.Get("from").Str != ""
}

// readMastraQuestion: the stream ends, and goes on in another request.
func readMastraQuestion(r *reader, _ gjson.Result, _ *Facts) { r.asking = 1 }

// readMastraFinish: the reason is optional, and an agent that ends inside a
// workflow ends nothing.
func readMastraFinish(r *reader, _ gjson.Result, out *Facts) {
	switch {
	case r.outer:
		out.Outcome, out.Reason = OutcomeNone, ""
	case out.Outcome == OutcomeNone:
		r.conclude(r.ordinaryEnd(), out)
	}
}

func mastraFailure(f Failure) [][]byte {
	payload := f.object(map[string]any{"error": f.Message, "code": f.Code})
	kind := "error"
	if f.Code == codeCancelled {
		kind = "abort"
	}
	return [][]byte{dataFrame(append(append([]byte(`{"type":"`+kind+`","payload":`), payload...), '}')), doneFrame()}
}
