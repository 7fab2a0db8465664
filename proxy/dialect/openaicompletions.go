package dialect

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// openAICompletions is the older Completions API, in the forms of OpenAI, Azure
// and vLLM: chunks like those of Chat Completions, with a text in each choice.
var openAICompletions = spec{
	Dialect: Dialect{
		Name: "openai-completions", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/v1/completions", "/deployments/*/completions"},
		certain:     isCompletion,
		Failure:     openAIFailure,
	},
	find: findChunk, plain: plainCompletion, rules: chunkRules, words: chunkWords,
}.dialect()

func isCompletion(f *frame.Frame) bool {
	return gjson.GetBytes(f.Data, "object").Str == "text_completion" && gjson.GetBytes(f.Data, "choices").IsArray()
}

// plainTexts are how choices of ordinary chunks begin: OpenAI has the index
// behind the text, vLLM before it.
var plainTexts = [2][]byte{[]byte(`"choices":[{"text":"`), []byte(`"choices":[{"index":0,"text":"`)}

var plainIndex = []byte(`,"index":0,`)

// plainCompletion is [plainChunk] for chunks with a text.
func plainCompletion(f *frame.Frame) (text []byte, ok bool) {
	for form, begin := range plainTexts {
		i := bytes.Index(f.Data, begin)
		if i < 1 || bytes.IndexByte(f.Data[1:i], '{') >= 0 || bytes.Contains(f.Data[:i], []byte(`"error"`)) {
			continue
		}
		text, tail, found := bytes.Cut(f.Data[i+len(begin):], []byte{'"'})
		if !found || len(f.Event) > 0 || bytes.IndexByte(text, '\\') >= 0 || form == 0 && !bytes.HasPrefix(tail, plainIndex) {
			return nil, false
		}
		return text, bytes.IndexByte(tail, '}') >= 0 && !saysMore(tail) && seen(tail, "delta") == 0
	}
	return nil, false
}
