package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// fastGPT is Chat Completions as FastGPT speaks them: with detail its frames
// are named, and what its nodes answered follows the end marker. Its chunks
// have no id, and what it calls usage is no count of tokens.
var fastGPT = spec{
	Dialect: Dialect{
		Name: "fastgpt", Kind: frame.SSE, Wire: sseWire,
		certain:   isFastGPT,
		plausible: func(f *frame.Frame) bool { l, _ := findFastGPT(fastGPTRules, f); return l != nil },
		Failure:   fastGPTFailure,
		calls: []Calls{
			{start: "/v1/chat/completions", when: condition{"chatId", anyValue}, Cancel: fastGPTStop},
			{start: "/v2/chat/completions", when: condition{"chatId", anyValue}, Cancel: fastGPTStop},
		},
	},
	find: findFastGPT,
	plain: func(f *frame.Frame) ([]byte, bool) {
		if name := string(f.Event); name == "answer" || name == "fastAnswer" {
			unnamed := frame.Frame{Data: f.Data}
			return plainChunk(&unnamed)
		}
		return plainChunk(f)
	},
	rules: fastGPTRules, words: chunkWords,
}.dialect()

// fastGPTStop needs the application's id, which a start with a key of the
// application need not have.
var fastGPTStop = &ControlCall{
	Method: "POST", Path: "{prefix}/v2/chat/stop", Body: `{"appId":{request.appId},"chatId":{request.chatId}}`,
	taken: taken{status: 200, body: `{"code":200,"statusText":"","message":"","data":{"success":true}}`},
}

var fastGPTRules = rules{
	"delta":   {fold: foldChunk},
	"telling": {read: readWord, fold: foldChunk},
	"failure": chunkRules["failure"],
	"done":    {end: true, bare: true},

	"toolCall":        {tool: &tool{key: "tool.id", name: "tool.functionName", piece: "tool.params"}},
	"toolParams":      {tool: &tool{key: "tool.id", piece: "tool.params"}},
	"toolResponse":    {tool: &tool{key: "tool.id", result: paths{"tool.response"}}},
	"interactive":     {read: func(r *reader, _ gjson.Result, _ *Facts) { r.asking = 1 }, is: "run.waiting"},
	"flowNodeStatus":  {},
	"flowResponses":   {},
	"updateVariables": {},
	"error":           {fail: paths{"error", ""}, end: true},
}

// findFastGPT: answers are chunks, and everything else is named.
func findFastGPT(rs rules, f *frame.Frame) (*rule, []byte) {
	switch string(f.Event) {
	case "", "message":
		return findChunk(rs, f)
	case "answer", "fastAnswer":
		unnamed := frame.Frame{Data: f.Data}
		return findChunk(rs, &unnamed)
	default:
		return byName(rs, f)
	}
}

func isFastGPT(f *frame.Frame) bool {
	switch string(f.Event) {
	case "answer", "fastAnswer":
		return gjson.GetBytes(f.Data, "choices").IsArray()
	case "flowNodeStatus":
		return gjson.GetBytes(f.Data, "status").Exists()
	case "toolCall":
		return gjson.GetBytes(f.Data, "tool").IsObject()
	default:
		return false
	}
}

// readWord is [readChunk] without the usage.
func readWord(r *reader, doc gjson.Result, out *Facts) {
	if word := choice0(doc).Get("finish_reason").Str; word != "" {
		r.finish(word, out)
	}
}

// fastGPTFailure is named, and has the error as FastGPT's page and as OpenAI's
// clients look for it.
func fastGPTFailure(f Failure) [][]byte {
	data := f.object(map[string]any{
		"code": 500, "statusText": f.Code, "message": f.Message,
		"error": map[string]any{"message": f.Message, "type": f.Code, "code": f.Code},
	})
	return [][]byte{eventFrame("error", data)}
}
