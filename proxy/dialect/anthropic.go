package dialect

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// anthropicMessages is the Messages API of Anthropic. Its stop_reason already
// says how the answer ended: recordings exist whose last block is not closed.
// pause_turn wants another request from the client, like a question does.
var anthropicMessages = spec{
	Dialect: Dialect{
		Name: "anthropic-messages", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/v1/messages", "/*:streamRawPredict"},
		certain:     isMessageStart,
		Failure:     anthropicFailure,
	},
	find: byEvent("type"),
	rules: rules{
		"message_start": {
			id: "message.id", model: "message.model", fold: foldMessage,
			usage: &usage{input: []string{"message.usage.input_tokens"}, output: []string{"message.usage.output_tokens"}},
		},
		"content_block_start": {text: paths{"content_block.text"}, reasoning: paths{"content_block.thinking"}, read: readBlock, fold: foldBlockStart},
		"content_block_delta": {text: paths{"delta.text"}, reasoning: paths{"delta.thinking"}, tool: &tool{key: "index", piece: "delta.partial_json"}},
		"content_block_stop":  {fold: foldBlockStop},
		"message_delta": {
			finish: paths{"delta.stop_reason"}, is: "message.completed",
			usage: &usage{input: []string{"usage.input_tokens"}, output: []string{"usage.output_tokens"}, whole: true},
		},
		"message_stop": {end: true},
		"ping":         {},
		"error":        {fail: paths{"error", ""}, end: true},
	},
	words: map[string]meaning{
		"max_tokens": meansCut, "model_context_window_exceeded": meansCut,
		"refusal": meansRefused, "pause_turn": meansAsking,
	},
}.dialect()

func isMessageStart(f *frame.Frame) bool {
	return gjson.GetBytes(f.Data, "type").Str == "message_start" && gjson.GetBytes(f.Data, "message.id").Exists()
}

// isToolUse and isToolResult: there is a pair for each family of tools
// (tool_use, server_tool_use, mcp_tool_use, web_search_tool_result, ...).
func isToolUse(block gjson.Result) bool { return strings.HasSuffix(block.Get("type").Str, "tool_use") }

func isToolResult(block gjson.Result) bool {
	return strings.HasSuffix(block.Get("type").Str, "tool_result")
}

func readBlock(r *reader, doc gjson.Result, out *Facts) {
	switch block := doc.Get("content_block"); {
	case isToolUse(block):
		r.remember(block.Get("id").Str, block.Get("name").Str)
	case isToolResult(block):
		out.Observed, out.ToolName = true, r.names[block.Get("tool_use_id").Str]
	}
}

// foldMessage: a message that goes on after a tool begins with the call.
func foldMessage(a *answer, doc gjson.Result) {
	each(doc.Get("message.content"), func(block gjson.Result) { foldBlock(a, block.Get("id").Str, block) })
}

func foldBlockStart(a *answer, doc gjson.Result) {
	foldBlock(a, keyOf(doc.Get("index")), doc.Get("content_block"))
}

func foldBlock(a *answer, key string, block gjson.Result) {
	switch {
	case isToolUse(block):
		c := a.open(key, block.Get("id").Str, block.Get("name").Str)
		if input := block.Get("input"); len(input.Map()) > 0 {
			c.arguments.replace(0, input.Raw)
		}
	case isToolResult(block):
		failed := block.Get("is_error").Bool() || strings.HasSuffix(block.Get("content.type").Str, "_error")
		a.resolve(block.Get("tool_use_id").Str, "", failed, block.Get("content"))
	}
}

// foldBlockStop: a call without arguments has no pieces. Its input is the empty
// object that stood in its start.
func foldBlockStop(a *answer, doc gjson.Result) {
	if i := a.place(keyOf(doc.Get("index"))); i >= 0 && len(a.calls[i].arguments.bytes) == 0 {
		a.calls[i].arguments.add("{}")
	}
}

// anthropicFailure has to be named: a bare error object is skipped without a
// word by Anthropic's clients.
func anthropicFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"type": "api_error", "message": f.Message, "code": f.Code})
	return [][]byte{eventFrame("error", append(append([]byte(`{"type":"error","error":`), e...), '}'))}
}
