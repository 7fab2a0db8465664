package dialect

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// interactions is the Interactions API of Gemini. Its clients resume by
// upstream's own event ids, and they are those of Gemini: nothing is added.
var interactions = spec{
	Dialect: Dialect{
		Name: "gemini-interactions", Kind: frame.SSE,
		generations: []string{"/v1/interactions", "/v1alpha/interactions", "/v1beta/interactions", "/v1beta1/interactions", "/locations/*/interactions"},
		certain:     isInteraction,
		Failure:     interactionsFailure,
		Overlooked:  true,
		Position:    byMemberPosition("event_id"),
		calls:       interactionsCalls,
	},
	find: byMember("event_type"),
	rules: rules{
		"interaction.created":       {id: "interaction.id", model: "interaction.model"},
		"interaction.status_update": {id: "interaction_id", read: readInteractionStatus},
		"step.start":                {read: readStepStart, fold: foldStepStart},
		"step.delta":                {tool: &tool{key: "index", piece: "delta.arguments"}, fold: foldInteractionDelta},
		"step.stop":                 {},
		"interaction.completed": {
			id: "interaction.id", model: "interaction.model", end: true, finish: paths{"interaction.status"}, is: "message.completed",
			usage: &usage{
				input:  []string{"interaction.usage.total_input_tokens", "interaction.usage.total_tool_use_tokens"},
				output: []string{"interaction.usage.total_output_tokens", "interaction.usage.total_thought_tokens"},
				whole:  true,
			},
		},
		"error": {fail: paths{"error", ""}, end: true},
	},
	words: map[string]meaning{
		"requires_action": meansAsking, "incomplete": meansCut, "budget_exceeded": meansCut,
		"failed": meansFailed, "cancelled": meansStopped,
	},
}.dialect()

func isInteraction(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	return doc.Get("event_type").Str == "interaction.created" && doc.Get("interaction.id").Exists()
}

// readInteractionStatus: only these are told in no other frame for certain.
func readInteractionStatus(r *reader, doc gjson.Result, out *Facts) {
	switch word := doc.Get("status").Str; word {
	case "failed", "cancelled", "incomplete", "budget_exceeded":
		r.finish(word, out)
	}
}

// isStepCall and isStepResult: there is a pair for each tool (function_call,
// code_execution_call and code_execution_result, ...).
func isStepCall(step gjson.Result) bool { return strings.HasSuffix(step.Get("type").Str, "_call") }

func isStepResult(step gjson.Result) bool { return strings.HasSuffix(step.Get("type").Str, "_result") }

// stepTool is the name of the tool of a step: a function's own, or the kind of
// a tool that upstream runs.
func stepTool(step gjson.Result) string {
	if name := step.Get("name").Str; name != "" {
		return kept(name)
	}
	return kept(strings.TrimSuffix(step.Get("type").Str, "_call"))
}

// readStepStart: the result of a tool that upstream ran is a step of its own.
func readStepStart(r *reader, doc gjson.Result, out *Facts) {
	switch step := doc.Get("step"); {
	case isStepCall(step):
		r.remember(step.Get("id").Str, stepTool(step))
	case isStepResult(step):
		out.Observed, out.ToolName = true, r.names[step.Get("call_id").Str]
	}
}

func foldStepStart(a *answer, doc gjson.Result) {
	switch step := doc.Get("step"); {
	case isStepCall(step):
		c := a.open(keyOf(doc.Get("index")), step.Get("id").Str, stepTool(step))
		if args := step.Get("arguments"); len(args.Map()) > 0 {
			c.arguments.replace(0, args.Raw)
		}
	case isStepResult(step):
		a.resolve(step.Get("call_id").Str, "", step.Get("is_error").Bool(), step.Get("result"))
	}
}

// foldInteractionDelta: the result of a tool may come after its step began.
func foldInteractionDelta(a *answer, doc gjson.Result) {
	delta := doc.Get("delta")
	switch kind := delta.Get("type").Str; {
	case kind == "text":
		a.text.add(delta.Get("text").Str)
	case kind == "thought_summary":
		a.reasoning.add(paths{"content.text", "text"}.text(delta))
	case isStepResult(delta):
		a.settleReceipt(delta.Get("is_error").Bool(), delta.Get("result"))
	}
}

func interactionsFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"code": f.Code, "message": f.Message})
	return [][]byte{eventFrame("error", append(append([]byte(`{"event_type":"error","error":`), e...), '}'))}
}

// interactionsCalls: as with responses, only what runs in the background can be
// cancelled by a call, and outlives its connection.
var interactionsCalls = []Calls{{
	start: "/interactions", when: condition{"background", "true"},
	Cancel: &ControlCall{
		Method: "POST", Path: "{prefix}/interactions/{upstream_id}/cancel", state: paths{"status"}, words: interactionStandings,
		taken: taken{status: 200, body: `{"id":{upstream_id},"object":"interaction","status":{state}}`, stopped: "cancelled", stopping: "in_progress"},
	},
	Join: &ControlCall{
		Method: "GET", Path: "{prefix}/interactions/{upstream_id}?stream=true&last_event_id={position}", Accept: "text/event-stream",
	},
	Status: &ControlCall{Method: "GET", Path: "{prefix}/interactions/{upstream_id}", state: paths{"status"}, words: interactionStandings},
}}

var interactionStandings = map[string]Standing{
	"in_progress": StandingRunning, "requires_action": StandingPaused, "completed": StandingCompleted,
	"incomplete": StandingCompleted, "failed": StandingFailed, "cancelled": StandingCancelled,
}
