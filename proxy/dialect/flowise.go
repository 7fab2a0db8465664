package dialect

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// flowise is the stream of Flowise. Each block begins with a field "message",
// which no client knows. The ids come near the end.
var flowise = spec{
	Dialect: Dialect{
		Name: "flowise", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/prediction/*"},
		certain:     isFlowise,
		Failure:     flowiseFailure,
		// A start that names no chat learns its id too late to be stopped by it.
		calls: []Calls{{start: "/prediction/{flow}", Cancel: &ControlCall{
			Method: "PUT", Path: "{prefix}/chatmessage/abort/{flow}/{request.chatId}",
			taken: taken{status: 200, body: `{"status":200,"message":"Chat message aborted"}`},
		}}},
	},
	find: byMember("event"),
	rules: rules{
		"start":         {},
		"token":         {text: paths{"data"}},
		"thinking":      {reasoning: paths{"data", "data.content"}},
		"metadata":      {id: "data.chatMessageId", conversation: "data.chatId"},
		"usedTools":     {read: readUsedTools, fold: foldUsedTools},
		"action":        {read: func(r *reader, _ gjson.Result, _ *Facts) { r.asking = 1 }, is: "run.waiting"},
		"usageMetadata": {usage: &usage{input: []string{"data.input_tokens"}, output: []string{"data.output_tokens"}, whole: true}},
		"error":         {fail: paths{"data", ""}, end: true},
		"abort":         {settles: meansStopped, end: true},
		"end":           {read: readFlowiseEnd, end: true, is: "message.completed"},
	},
}.dialect()

func isFlowise(f *frame.Frame) bool {
	return bytes.HasPrefix(f.Clean, []byte("message:")) && gjson.GetBytes(f.Data, "event").Str != ""
}

func readUsedTools(_ *reader, doc gjson.Result, out *Facts) {
	each(doc.Get("data"), func(t gjson.Result) {
		out.Observed, out.ToolName = true, kept(t.Get("tool").Str)
	})
}

// foldUsedTools: calls have no ids.
func foldUsedTools(a *answer, doc gjson.Result) {
	each(doc.Get("data"), func(t gjson.Result) {
		a.resolve("", t.Get("tool").Str, present(t.Get("error")), paths{"toolOutput", "error"}.value(t))
	})
}

func readFlowiseEnd(r *reader, _ gjson.Result, out *Facts) { r.conclude(r.ordinaryEnd(), out) }

func flowiseFailure(f Failure) [][]byte {
	own := map[string]any{"event": "error", "data": f.Message, "code": f.Code}
	if f.Code == codeCancelled {
		own = map[string]any{"event": "abort", "data": "[DONE]"}
	}
	return [][]byte{append(append([]byte("message:\ndata:"), f.object(own)...), "\n\n"...)}
}
