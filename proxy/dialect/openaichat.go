package dialect

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// openAIChat is Chat Completions of OpenAI and of everybody who speaks like it
// (Azure, vLLM, llama.cpp, Groq, OpenRouter, DeepSeek, Mistral, ...), and the
// older Completions.
//
// The end marker alone proves nothing: OpenRouter sends it after an error, too.
// Writer never sends it; there the finish_reason of choice 0 is how the answer
// ended.
var openAIChat = spec{
	Dialect: Dialect{
		Name: "openai-chat", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/chat/completions", "/v1/completions", "/deployments/*/completions"},
		certain:     isChatChunk,
		Failure:     openAIFailure,
	},
	find: findChunk,
	rules: rules{
		"delta":   {id: "id", model: "model", fold: foldChunk},
		"telling": {id: "id", model: "model", read: readChunk, fold: foldChunk},
		"failure": {id: "id", model: "model", fail: paths{"error", ""}, end: true, read: readChunk, fold: foldChunk},
		"done":    {end: true, bare: true},
	},
	words: map[string]meaning{
		"length": meansCut, "max_tokens": meansCut, "model_length": meansCut,
		"content_filter": meansFiltered,
		"refusal":        meansRefused,
		"error":          meansFailed, "insufficient_system_resource": meansFailed,
		"abort": meansStopped,
	},
}.dialect()

var (
	memberChoices      = member(`"choices"`)
	memberError        = member(`"error"`)
	memberFinishReason = member(`"finish_reason"`)
	memberUsage        = member(`"usage"`)
	memberRefusal      = member(`"refusal"`)
	memberObject       = member(`"object"`)
	memberPromptFilter = member(`"prompt_filter_results"`)
)

// findChunk: an ordinary chunk is known by what is not in it.
func findChunk(rs rules, f *frame.Frame) (*rule, []byte) {
	data := f.Data
	switch {
	case string(data) == "[DONE]":
		return rs["done"], data
	case string(f.Event) == "error", memberError.in(data) && isFailure(data):
		return rs["failure"], data
	case !memberChoices.in(data) && !memberUsage.in(data):
		return nil, nil
	case memberFinishReason.begins(data, '"'), memberUsage.begins(data, '{'), memberRefusal.holdsText(data):
		return rs["telling"], data
	default:
		return rs["delta"], data
	}
}

// isFailure: an error object at the top, or the older form of vLLM.
func isFailure(data []byte) bool {
	doc := gjson.ParseBytes(data)
	return present(doc.Get("error")) || doc.Get("object").Str == "error"
}

// choice0 returns the choice that is the answer.
func choice0(doc gjson.Result) (first gjson.Result) {
	each(doc.Get("choices"), func(c gjson.Result) {
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

func foldChunk(a *answer, doc gjson.Result) {
	c := choice0(doc)
	delta := c.Get("delta")
	if !delta.Exists() {
		a.text.add(c.Get("text").Str) // Completions
	}
	foldContent(a, delta.Get("content"))
	a.text.add(delta.Get("refusal").Str)
	a.reasoning.add(chunkReasoning(delta))
	n := 0
	each(delta.Get("tool_calls"), func(t gjson.Result) {
		key := "#" + strconv.Itoa(n)
		if index := t.Get("index"); index.Type == gjson.Number {
			key = keyOf(index)
		}
		foldFunction(a, key, t.Get("id").Str, t.Get("function"))
		n++
	})
	if f := delta.Get("function_call"); f.IsObject() {
		foldFunction(a, "function_call", "", f)
	}
	if word := c.Get("finish_reason").Str; word != "" {
		a.finish = kept(word)
	}
}

// foldContent: a text, or a list of parts (Mistral).
func foldContent(a *answer, content gjson.Result) {
	a.text.add(content.Str)
	each(content, func(part gjson.Result) {
		a.text.add(part.Get("text").Str)
		each(part.Get("thinking.#.text"), func(thought gjson.Result) { a.reasoning.add(thought.Str) })
	})
}

// chunkReasoning returns the reasoning in a delta. Whoever sends it under two
// names sends the same twice.
func chunkReasoning(delta gjson.Result) string {
	if s := (paths{"reasoning_content", "reasoning"}).text(delta); s != "" {
		return s
	}
	var all strings.Builder
	each(delta.Get("reasoning_details"), func(d gjson.Result) { all.WriteString(paths{"text", "summary"}.text(d)) })
	return all.String()
}

func foldFunction(a *answer, key, id string, f gjson.Result) {
	c := a.open(key, id, f.Get("name").Str)
	c.arguments.add(valueText(f.Get("arguments")))
}

func isChatChunk(f *frame.Frame) bool {
	if !memberChoices.begins(f.Data, '[') {
		return false
	}
	if memberPromptFilter.in(f.Data) { // Azure's first chunk, which has no object
		return true
	}
	object := gjson.GetBytes(f.Data, "object").Str
	return memberObject.in(f.Data) && (object == "chat.completion.chunk" || object == "text_completion")
}

// openAIFailure is what OpenAI's clients raise as an error; they keep every
// member of it.
func openAIFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"message": f.Message, "type": f.Code, "code": f.Code})
	return [][]byte{dataFrame(append(append([]byte(`{"error":`), e...), '}'))}
}
