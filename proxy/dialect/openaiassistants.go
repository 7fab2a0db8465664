package dialect

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// openAIAssistants is the stream of a run of the Assistants API. The event field
// alone says what a frame is. A run that wants the output of a tool ends its
// stream and goes on in another one.
var openAIAssistants = spec{
	Dialect: Dialect{
		Name: "openai-assistants", Kind: frame.SSE, Wire: sseWire,
		certain: isThreadEvent,
		Failure: assistantsFailure,
		calls: []Calls{
			{start: "/threads/{thread}/runs", Cancel: threadCancel("{thread}"), Status: threadStatus("{thread}")},
			{start: "/threads/runs", Cancel: threadCancel("{upstream_conversation_id}"), Status: threadStatus("{upstream_conversation_id}")},
		},
	},
	find: byName,
	rules: rules{
		"thread.run.created":     runOfThread(rule{}),
		"thread.run.queued":      runOfThread(rule{}),
		"thread.run.in_progress": runOfThread(rule{}),

		"thread.message.delta":       {fold: foldThreadText},
		"thread.run.step.delta":      {fold: foldStepDelta},
		"thread.run.step.completed":  {read: readStep, fold: foldStep},
		"thread.run.step.failed":     {read: readStep, fold: foldStep},
		"thread.run.requires_action": runOfThread(rule{settles: meansAsking, fold: foldRequired, is: "run.waiting"}),

		"thread.run.completed":  runOfThread(rule{settles: meaning{outcome: OutcomeCompleted}, finish: paths{"status"}, usage: threadUsage, is: "message.completed"}),
		"thread.run.incomplete": runOfThread(rule{finish: paths{"incomplete_details.reason", "status"}, usage: threadUsage, is: "message.completed"}),
		"thread.run.cancelled":  runOfThread(rule{settles: meansStopped, finish: paths{"status"}, usage: threadUsage}),
		"thread.run.failed":     runOfThread(rule{fail: paths{"last_error", ""}, finish: paths{"status"}, usage: threadUsage}),
		"thread.run.expired":    runOfThread(rule{fail: paths{"last_error", ""}, finish: paths{"status"}, usage: threadUsage}),
		"error":                 {fail: paths{"error", ""}, end: true},
		"done":                  {end: true, bare: true},
	},
	words: map[string]meaning{
		"max_completion_tokens": meansCut, "max_prompt_tokens": meansCut, "content_filter": meansFiltered,
	},
}.dialect()

func threadCancel(thread string) *ControlCall {
	return &ControlCall{
		Method: "POST", Path: "{prefix}/threads/" + thread + "/runs/{upstream_id}/cancel", state: paths{"status"}, words: threadStandings,
		taken: taken{status: 200, body: `{"id":{upstream_id},"object":"thread.run","status":{state}}`, stopped: "cancelled", stopping: "cancelling"},
	}
}

func threadStatus(thread string) *ControlCall {
	return &ControlCall{Method: "GET", Path: "{prefix}/threads/" + thread + "/runs/{upstream_id}", state: paths{"status"}, words: threadStandings}
}

var threadStandings = map[string]Standing{
	"queued": StandingRunning, "in_progress": StandingRunning, "cancelling": StandingRunning, "requires_action": StandingPaused,
	"completed": StandingCompleted, "incomplete": StandingCompleted, "cancelled": StandingCancelled,
	"failed": StandingFailed, "expired": StandingFailed,
}

var threadUsage = &usage{input: []string{"usage.prompt_tokens"}, output: []string{"usage.completion_tokens"}, whole: true}

// runOfThread completes a rule for a frame that carries the run.
func runOfThread(l rule) *rule {
	l.id, l.conversation, l.model = "id", "thread_id", "model"
	return &l
}

func isThreadEvent(f *frame.Frame) bool {
	return bytes.HasPrefix(f.Event, []byte("thread.")) && bytes.HasPrefix([]byte(gjson.GetBytes(f.Data, "object").Str), []byte("thread"))
}

func foldThreadText(a *answer, doc gjson.Result) {
	each(doc.Get("delta.content"), func(part gjson.Result) {
		a.text.add(paths{"text.value", "refusal"}.text(part))
	})
}

// foldStepDelta: pieces of calls are joined on the step and their place in it.
func foldStepDelta(a *answer, doc gjson.Result) {
	step := doc.Get("id").Str
	each(doc.Get("delta.step_details.tool_calls"), func(t gjson.Result) {
		c := openThreadCall(a, step+keyOf(t.Get("index")), t)
		c.arguments.add(paths{"function.arguments", "code_interpreter.input"}.text(t))
	})
}

// openThreadCall opens a call, which is a function's or a hosted tool's.
func openThreadCall(a *answer, key string, t gjson.Result) *call {
	return a.open(key, t.Get("id").Str, threadTool(t))
}

func threadTool(t gjson.Result) string {
	if name := t.Get("function.name").Str; name != "" {
		return name
	}
	if kind := t.Get("type").Str; kind != "function" {
		return kind
	}
	return ""
}

// ranInThread: a function has run when its output is there, a hosted tool when
// its step has ended.
func ranInThread(t gjson.Result) bool {
	return t.Get("type").Str != "function" || present(t.Get("function.output"))
}

func readStep(_ *reader, doc gjson.Result, out *Facts) {
	each(doc.Get("step_details.tool_calls"), func(t gjson.Result) {
		if ranInThread(t) {
			out.Observed, out.ToolName = true, kept(threadTool(t))
		}
	})
}

func foldStep(a *answer, doc gjson.Result) {
	failed := doc.Get("status").Str == "failed"
	each(doc.Get("step_details.tool_calls"), func(t gjson.Result) {
		id := t.Get("id").Str
		if ranInThread(t) {
			openThreadCall(a, id, t)
			a.resolve(id, threadTool(t), failed, paths{"function.output", "code_interpreter.outputs", "file_search.results"}.value(t))
		}
	})
}

// foldRequired: the calls whose output is wanted come whole.
func foldRequired(a *answer, doc gjson.Result) {
	each(doc.Get("required_action.submit_tool_outputs.tool_calls"), func(t gjson.Result) {
		c := openThreadCall(a, t.Get("id").Str, t)
		c.arguments.replace(0, t.Get("function.arguments").Str)
	})
	a.finish = "requires_action"
}

// assistantsFailure is named, as the errors of the service are.
func assistantsFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"message": f.Message, "type": f.Code, "code": f.Code})
	return [][]byte{eventFrame("error", append(append([]byte(`{"error":`), e...), '}'))}
}
