package dialect

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// ollama is the API of Ollama: one JSON object per line. It has no ids.
var ollama = spec{
	Dialect: Dialect{
		Name: "ollama", Kind: frame.Lines, Wire: linesWire,
		generations: []string{"/api/chat", "/api/generate"},
		certain:     isOllamaLine,
		Failure:     ollamaFailure,
	},
	find: findOllamaLine,
	rules: rules{
		"delta": {model: "model", text: ollamaText, reasoning: ollamaThinking, fold: foldOllamaTools},
		"done": {
			model: "model", text: ollamaText, reasoning: ollamaThinking, fold: foldOllamaTools,
			end: true, finish: paths{"done_reason"}, is: "message.completed",
			usage: &usage{input: []string{"prompt_eval_count"}, output: []string{"eval_count"}, whole: true},
		},
		"failure": {fail: paths{"error"}, end: true},
	},
	words: map[string]meaning{"length": meansCut},
}.dialect()

var (
	ollamaText     = paths{"message.content", "response"}
	ollamaThinking = paths{"message.thinking", "thinking"}
)

// What is looked for in a line.
const (
	ollamaDone signs = 1 << iota
	ollamaFailed
)

func findOllamaLine(rs rules, f *frame.Frame) (*rule, []byte) {
	data := f.Data
	switch found := seen(data, "done", "error"); {
	case found&ollamaDone != 0 && gjson.GetBytes(data, "done").Bool():
		return rs["done"], data
	case found&ollamaFailed != 0 && gjson.GetBytes(data, "error").Type == gjson.String:
		return rs["failure"], data
	case bytes.Contains(data, []byte(`"done"`)):
		return rs["delta"], data
	default:
		return nil, nil
	}
}

func isOllamaLine(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	return doc.Get("model").Str != "" && doc.Get("created_at").Str != "" && doc.Get("done").Exists()
}

// foldOllamaTools: calls come whole and, in most versions, without an id.
func foldOllamaTools(a *answer, doc gjson.Result) {
	each(doc.Get("message.tool_calls"), func(t gjson.Result) {
		c := &a.calls[a.begin("")]
		c.id, c.name = kept(t.Get("id").Str), kept(t.Get("function.name").Str)
		c.arguments.add(valueText(t.Get("function.arguments")))
	})
}

func ollamaFailure(f Failure) [][]byte {
	return [][]byte{append(f.object(map[string]any{"error": f.Message, "code": f.Code}), '\n')}
}
