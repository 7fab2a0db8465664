package dialect

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// openAIChat is Chat Completions of OpenAI and of everybody who speaks like it
// (Azure, vLLM, llama.cpp, SGLang, Groq, OpenRouter, DeepSeek, Mistral, ...).
//
// The end marker alone proves nothing: OpenRouter sends it after an error, too.
// Writer never sends it; there the finish_reason of choice 0 is how the answer
// ended.
var openAIChat = spec{
	Dialect: Dialect{
		Name: "openai-chat", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/chat/completions"},
		certain:     isChatChunk,
		plausible:   isUnnamedChunk,
		Failure:     openAIFailure,
	},
	find: findChunk, plain: plainChunk, rules: chunkRules, words: chunkWords,
}.dialect()

var chunkRules = rules{
	"delta":   {id: "id", model: "model", fold: foldChunk},
	"telling": {id: "id", model: "model", read: readChunk, fold: foldChunk},
	"failure": {id: "id", model: "model", fail: chunkError, end: true, read: readChunk, fold: foldChunk},
	"done":    {end: true, bare: true},
}

// chunkError are the places of an error: Groq's own, everybody's, and the whole
// chunk in the older form of vLLM.
var chunkError = paths{"x_groq.error", "error", ""}

var chunkWords = map[string]meaning{
	"length": meansCut, "max_tokens": meansCut, "model_length": meansCut,
	"content_filter": meansFiltered,
	"refusal":        meansRefused,
	"error":          meansFailed, "insufficient_system_resource": meansFailed,
	"abort": meansStopped,
}

// What is looked for in a chunk.
const (
	chatChoices signs = 1 << iota
	chatUsage
	chatFinish
	chatRefusal
	chatFailure
)

// findChunk: an ordinary chunk is known by what is not in it.
func findChunk(rs rules, f *frame.Frame) (*rule, []byte) {
	data := f.Data
	if string(data) == "[DONE]" {
		return rs["done"], data
	}
	found := seen(data, "choices", "usage", "finish_reason", "refusal", "error")
	chunk := found&(chatChoices|chatUsage) != 0
	switch {
	case string(f.Event) == "error", (found&chatFailure != 0 || !chunk) && isFailure(data):
		return rs["failure"], data
	case !chunk:
		return nil, nil
	case found&(chatUsage|chatFinish|chatRefusal) != 0:
		return rs["telling"], data
	default:
		return rs["delta"], data
	}
}

// isFailure: an error object at the top, Groq's own, or the older form of vLLM.
func isFailure(data []byte) bool {
	doc := gjson.ParseBytes(data)
	return present(doc.Get("error")) || present(doc.Get("x_groq.error")) || doc.Get("object").Str == "error"
}

// isUnnamedChunk: FastGPT names its frames, and their names matter.
func isUnnamedChunk(f *frame.Frame) bool {
	l, _ := findChunk(chunkRules, f)
	return l != nil && (len(f.Event) == 0 || string(f.Event) == "error" || string(f.Event) == "message") && !isCompletion(f)
}

// choice0 returns the choice that is the answer.
func choice0(doc gjson.Result) gjson.Result { return numbered0(doc.Get("choices")) }

// numbered0 returns the first of several alternatives, which need not be there.
func numbered0(alternatives gjson.Result) (first gjson.Result) {
	each(alternatives, func(c gjson.Result) {
		if !first.Exists() && c.Get("index").Int() == 0 {
			first = c
		}
	})
	return first
}

// chunkUsage are the places of usage: of its own, inside the choice (Moonshot),
// beside it (Groq).
var chunkUsage = paths{"usage", "choices.0.usage", "x_groq.usage"}

var chunkTokens = usage{input: []string{"prompt_tokens"}, output: []string{"completion_tokens"}}

func readChunk(r *reader, doc gjson.Result, out *Facts) {
	c := choice0(doc)
	if c.Get("delta.refusal").Str != "" {
		r.refused = true
	}
	if word := c.Get("finish_reason").Str; word != "" && out.Outcome == OutcomeNone {
		r.finish(word, out)
	}
	if u := chunkUsage.value(doc); u.IsObject() {
		tokens := chunkTokens
		// Some report after every chunk, and once more at the end.
		tokens.whole = r.finished || doc.Get("choices.#").Int() == 0
		r.count(&tokens, u, out)
	}
}

// plainDelta is how nearly every chunk of nearly every backend goes on behind
// its ids.
var plainDelta = []byte(`"choices":[{"index":0,"delta":{"content":"`)

// plainChunk: one choice, whose delta is one content without escapes, and
// nothing that says anything behind it. An unescaped quote cannot stand inside
// a string, so what looks like members here are.
func plainChunk(f *frame.Frame) (text []byte, ok bool) {
	i := bytes.Index(f.Data, plainDelta)
	if i < 1 || len(f.Event) > 0 || bytes.IndexByte(f.Data[1:i], '{') >= 0 || bytes.Contains(f.Data[:i], []byte(`"error"`)) {
		return nil, false // not there, or deeper
	}
	text, tail, found := bytes.Cut(f.Data[i+len(plainDelta):], []byte{'"'})
	if !found || len(tail) == 0 || tail[0] != '}' || bytes.IndexByte(text, '\\') >= 0 {
		return nil, false
	}
	return text, !saysMore(tail)
}

// saysMore: whatever follows the delta of a plain chunk is null or padding.
func saysMore(tail []byte) bool {
	return bytes.IndexByte(tail, '{') >= 0 || seen(tail, "text", "error", "finish_reason", "refusal", "usage") != 0
}

func foldChunk(a *answer, doc gjson.Result) {
	choice0(doc).ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "delta":
			foldDelta(a, v)
		case "text": // Completions
			a.text.add(v.Str)
		case "finish_reason":
			if v.Str != "" {
				a.finish = kept(v.Str)
			}
		}
		return true
	})
}

// foldDelta goes through a delta once. Whoever sends reasoning under two names
// sends the same twice.
func foldDelta(a *answer, delta gjson.Result) {
	var reasoning, again string
	delta.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "content":
			foldContent(a, v)
		case "refusal":
			a.text.add(v.Str)
		case "reasoning_content":
			reasoning = v.Str
		case "reasoning":
			again = v.Str
		case "reasoning_details":
			if again == "" {
				again = detailsText(v)
			}
		case "tool_calls":
			foldToolCalls(a, v)
		case "function_call":
			if v.IsObject() {
				foldFunction(a, "function_call", "", v)
			}
		}
		return true
	})
	a.reasoning.add(cmp.Or(reasoning, again))
}

func detailsText(details gjson.Result) string {
	var all strings.Builder
	each(details, func(d gjson.Result) { all.WriteString(paths{"text", "summary"}.text(d)) })
	return all.String()
}

func foldToolCalls(a *answer, calls gjson.Result) {
	n := 0
	each(calls, func(t gjson.Result) {
		key := "#" + strconv.Itoa(n)
		if index := t.Get("index"); index.Type == gjson.Number {
			key = keyOf(index)
		}
		foldFunction(a, key, t.Get("id").Str, t.Get("function"))
		n++
	})
}

// foldContent: a text, or a list of parts (Mistral, LangChain).
func foldContent(a *answer, content gjson.Result) {
	a.text.add(content.Str)
	each(content, func(part gjson.Result) {
		a.text.add(part.Get("text").Str)
		a.reasoning.add(paths{"thinking", "reasoning"}.text(part))
		each(part.Get("thinking.#.text"), func(thought gjson.Result) { a.reasoning.add(thought.Str) })
	})
}

func foldFunction(a *answer, key, id string, f gjson.Result) {
	c := a.open(key, id, f.Get("name").Str)
	c.arguments.add(valueText(f.Get("arguments")))
}

// isChatChunk: Azure's first chunk has no object.
func isChatChunk(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	object := doc.Get("object").Str
	return doc.Get("choices").IsArray() &&
		(object == "chat.completion.chunk" || doc.Get("prompt_filter_results").Exists()) && len(f.Event) == 0
}

// openAIFailure is what OpenAI's clients raise as an error; they keep every
// member of it.
func openAIFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"message": f.Message, "type": f.Code, "code": f.Code})
	return [][]byte{dataFrame(append(append([]byte(`{"error":`), e...), '}'))}
}
