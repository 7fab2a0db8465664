package dialect

import (
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// headerAIData marks the streams of [aiData]; their content type is text/plain.
const headerAIData = "X-Vercel-Ai-Data-Stream"

// aiData is the data stream of the AI SDK up to version 4: lines of a code, a
// colon and JSON. Its clients skip an empty line and nothing else.
var aiData = spec{
	Dialect: Dialect{
		Name: "ai-data-v1", Kind: frame.Lines, Wire: Wire{Keepalive: "\n"},
		Framing: func(h http.Header) (frame.Kind, bool) { return frame.Lines, h.Get(headerAIData) != "" },
		Resume:  []string{"{start_path}/{conversation_id}/stream"},
		certain: func(*frame.Frame) bool { return false }, // its header field says so
		Failure: aiDataFailure,
	},
	find: findCode,
	rules: rules{
		"f": {id: "messageId"},
		"0": {text: paths{""}},
		"g": {reasoning: paths{""}},
		"b": {tool: &tool{key: "toolCallId", name: "toolName"}},
		"c": {tool: &tool{key: "toolCallId", piece: "argsTextDelta"}},
		"9": {tool: &tool{key: "toolCallId", name: "toolName", whole: "args"}},
		"a": {tool: &tool{key: "toolCallId", result: paths{"result"}}},
		"3": {fail: paths{""}},
		"d": {
			end: true, finish: paths{"finishReason"}, is: "message.completed",
			usage: &usage{input: []string{"usage.promptTokens"}, output: []string{"usage.completionTokens"}, whole: true},
		},
	},
	words: aiWords,
}.dialect()

func findCode(rs rules, f *frame.Frame) (*rule, []byte) {
	if len(f.Data) < 2 || f.Data[1] != ':' {
		return nil, nil
	}
	return rs[string(f.Data[:1])], f.Data[2:]
}

func aiDataFailure(f Failure) [][]byte {
	return [][]byte{append(append([]byte("3:"), oneLine(f.Message)...), '\n')}
}
