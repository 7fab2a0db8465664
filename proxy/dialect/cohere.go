package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// cohere is the Chat API of Cohere, version 2.
var cohere = spec{
	Dialect: Dialect{
		Name: "cohere", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/v2/chat"},
		certain: func(f *frame.Frame) bool {
			kind := gjson.GetBytes(f.Data, "type").Str
			return kind == "message-start" && (len(f.Event) == 0 || string(f.Event) == kind)
		},
		Failure: cohereFailure, Overlooked: true,
	},
	find: byEvent("type"),
	rules: rules{
		"message-start":   {id: "id"},
		"content-start":   {text: paths{"delta.message.content.text"}, reasoning: paths{"delta.message.content.thinking"}},
		"content-delta":   {text: paths{"delta.message.content.text"}, reasoning: paths{"delta.message.content.thinking"}},
		"content-end":     {},
		"tool-plan-delta": {reasoning: paths{"delta.message.tool_plan"}},
		"tool-call-start": {tool: &tool{
			key: "index", id: "delta.message.tool_calls.id", name: "delta.message.tool_calls.function.name",
			piece: "delta.message.tool_calls.function.arguments",
		}},
		"tool-call-delta": {tool: &tool{key: "index", piece: "delta.message.tool_calls.function.arguments"}},
		"tool-call-end":   {},
		"citation-start":  {},
		"citation-end":    {},
		"message-end": {
			end: true, finish: paths{"delta.finish_reason"}, fold: foldCohereError, is: "message.completed",
			usage: &usage{input: []string{"delta.usage.tokens.input_tokens"}, output: []string{"delta.usage.tokens.output_tokens"}, whole: true},
		},
		"[DONE]": {end: true, bare: true},
	},
	words: map[string]meaning{
		"MAX_TOKENS": meansCut, "ERROR_LIMIT": meansCut, "ERROR_TOXIC": meansFiltered, "USER_CANCEL": meansStopped,
		"ERROR": meansFailed, "TIMEOUT": meansFailed,
	},
}.dialect()

func foldCohereError(a *answer, doc gjson.Result) {
	switch word := doc.Get("delta.finish_reason").Str; {
	case present(doc.Get("delta.error")):
		a.fail(errorOf(doc.Get("delta.error"), false))
	case cohereFails(word):
		a.fail(Error{Message: word, Code: word})
	}
}

func cohereFails(word string) bool { return word == "ERROR" || word == "TIMEOUT" }

// cohereFailure has no form of its own in the middle of a stream: an answer
// that ended with an error. Clients have to look for it.
func cohereFailure(f Failure) [][]byte {
	delta := f.object(map[string]any{"error": f.Message, "code": f.Code, "finish_reason": "ERROR"})
	return [][]byte{eventFrame("message-end", append(append([]byte(`{"type":"message-end","delta":`), delta...), '}'))}
}
