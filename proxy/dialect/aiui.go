package dialect

import (
	"maps"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// aiUI is the UI message stream of the AI SDK (versions 5 and later). A stream
// that was merged from several may have several finish parts, and what an
// application does when it has finished comes after them: only [DONE] is the
// end. An error part does not end it either. It has no place for usage but the
// metadata of the message, which the application fills: totalUsage is the name
// that the SDK's documentation gives it there.
var aiUI = spec{
	Dialect: Dialect{
		Name: "ai-ui-v1", Kind: frame.SSE, Wire: sseWire,
		Resume:  []string{"{start_path}/{conversation_id}/stream"},
		certain: func(*frame.Frame) bool { return false }, // its header field says so
		Failure: aiUIFailure,
	},
	find: byMember("type"),
	rules: rules{
		"start":                 {id: "messageId"},
		"start-step":            {fold: foldStepBegin},
		"reset-step":            {fold: foldStepReset},
		"text-delta":            {text: paths{"delta"}},
		"reasoning-delta":       {reasoning: paths{"delta"}},
		"tool-input-start":      {tool: &tool{key: "toolCallId", name: "toolName"}},
		"tool-input-delta":      {tool: &tool{key: "toolCallId", piece: "inputTextDelta"}},
		"tool-input-available":  {tool: &tool{key: "toolCallId", name: "toolName", whole: "input"}},
		"tool-input-error":      {tool: &tool{key: "toolCallId", result: paths{"errorText"}, failed: true, idle: true}},
		"tool-output-available": {tool: &tool{key: "toolCallId", result: paths{"output"}, unless: "preliminary"}},
		"tool-output-error":     {tool: &tool{key: "toolCallId", result: paths{"errorText"}, failed: true}},
		"tool-output-denied":    {tool: &tool{key: "toolCallId", result: paths{"reason"}, failed: true, idle: true}},
		"tool-approval-request": {read: readQuestion},
		// Only the server itself can answer inside its own stream.
		"tool-approval-response": {read: readAnswer},
		"error":                  {fail: paths{"errorText"}},
		"message-metadata":       {usage: aiUsage},
		"abort":                  {settles: meansStopped},
		"finish":                 {finish: paths{"finishReason"}, usage: aiUsage, read: readFinish, is: "message.completed"},
		"[DONE]":                 {end: true, bare: true},
	},
	words: aiWords,
}.dialect()

var aiUsage = &usage{
	input: []string{"messageMetadata.totalUsage.inputTokens"}, output: []string{"messageMetadata.totalUsage.outputTokens"}, whole: true,
}

// aiWords are the finish reasons of the AI SDK.
var aiWords = map[string]meaning{
	"length": meansCut, "content-filter": meansFiltered, "error": meansFailed,
}

// readQuestion: the stream may end with the question, or stay open for the
// answer.
func readQuestion(r *reader, _ gjson.Result, out *Facts) {
	r.asking++
	r.wait(out)
}

func readAnswer(r *reader, _ gjson.Result, out *Facts) {
	if r.asking = max(0, r.asking-1); r.asking == 0 {
		r.goOn(out)
	}
}

// foldStepBegin notes what stood before a step, in case that it is tried again.
func foldStepBegin(a *answer, _ gjson.Result) {
	a.settled, a.thought, a.settledCalls = len(a.text.bytes), len(a.reasoning.bytes), len(a.calls)
}

// foldStepReset forgets a step that is tried again, as its client does, but for
// what its tools have done.
func foldStepReset(a *answer, _ gjson.Result) {
	a.text.forget(a.settled)
	a.reasoning.forget(a.thought)
	a.calls = a.calls[:min(len(a.calls), a.settledCalls)]
	maps.DeleteFunc(a.byKey, func(_ string, i int) bool { return i >= len(a.calls) })
}

// readFinish: the reason is optional.
func readFinish(r *reader, _ gjson.Result, out *Facts) {
	if out.Outcome == OutcomeNone {
		r.conclude(r.ordinaryEnd(), out)
	}
}

// aiUIFailure: the parts are validated strictly, so there is no room for
// anything but the text.
func aiUIFailure(f Failure) [][]byte {
	part := map[string]any{"type": "error", "errorText": f.Message}
	if f.Code == codeCancelled {
		part = map[string]any{"type": "abort"}
	}
	return [][]byte{dataFrame(oneLine(part)), doneFrame()}
}
