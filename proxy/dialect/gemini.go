package dialect

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// gemini is streamGenerateContent of Gemini and Vertex with alt=sse. Its
// clients read it line by line: whatever stands between two frames, a comment,
// an id or an empty line, loses frames or fails. There is no end marker:
// finishReason is the only sign, and older models give it in every chunk.
var gemini = spec{
	Dialect: Dialect{
		Name: "gemini", Kind: frame.SSE,
		generations: []string{"/*:streamGenerateContent", "/*:generateContent"},
		certain:     isCandidates,
		Failure:     geminiFailure,
	},
	find: findCandidates,
	rules: rules{
		"chunk":   {id: "responseId", model: "modelVersion", usage: geminiUsage, read: readCandidate, fold: foldCandidate},
		"failure": {fail: paths{"error"}, end: true},
	},
	words: map[string]meaning{
		"MAX_TOKENS": meansCut,
		"SAFETY":     meansFiltered, "RECITATION": meansFiltered, "LANGUAGE": meansFiltered, "BLOCKLIST": meansFiltered,
		"PROHIBITED_CONTENT": meansFiltered, "SPII": meansFiltered,
		"MALFORMED_FUNCTION_CALL": meansFailed, "UNEXPECTED_TOOL_CALL": meansFailed, "TOO_MANY_TOOL_CALLS": meansFailed,
		"MALFORMED_RESPONSE": meansFailed, "MISSING_THOUGHT_SIGNATURE": meansFailed, "OTHER": meansFailed,
	},
}.dialect()

var geminiUsage = &usage{
	input:  []string{"usageMetadata.promptTokenCount", "usageMetadata.toolUsePromptTokenCount"},
	output: []string{"usageMetadata.candidatesTokenCount", "usageMetadata.thoughtsTokenCount"},
}

// geminiFailed follows the members that only a chunk has.
const geminiFailed signs = 1 << 3

func findCandidates(rs rules, f *frame.Frame) (*rule, []byte) {
	switch found := seen(f.Data, "candidates", "usageMetadata", "promptFeedback", "error"); {
	case found&geminiFailed != 0 && says(member(f.Data, "error")):
		return rs["failure"], f.Data
	case found&^geminiFailed != 0:
		return rs["chunk"], f.Data
	default:
		return nil, nil
	}
}

func isCandidates(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	return (doc.Get("candidates.0").IsObject() || doc.Get("promptFeedback").IsObject()) &&
		(doc.Get("usageMetadata").Exists() || doc.Get("modelVersion").Exists())
}

const geminiBlock = "promptFeedback.blockReason"

func candidate0(doc gjson.Result) gjson.Result { return numbered0(doc.Get("candidates")) }

func readCandidate(r *reader, doc gjson.Result, out *Facts) {
	candidate := candidate0(doc)
	switch word := candidate.Get("finishReason").Str; {
	case doc.Get(geminiBlock).Str != "":
		r.conclude(meansFiltered, out)
	case strings.HasPrefix(word, "IMAGE_"):
		r.conclude(meansFiltered, out)
	case word != "" && word != "FINISH_REASON_UNSPECIFIED":
		r.finish(word, out)
	}
	if last := *geminiUsage; out.Outcome != OutcomeNone {
		last.whole = true
		r.count(&last, doc, out)
	}
	each(candidate.Get("content.parts"), func(part gjson.Result) { readPart(r, part, out) })
	if isSearch(candidate) && r.names[geminiHosted] == "" {
		r.remember(geminiHosted, geminiSearch)
		out.Observed, out.ToolName = true, geminiSearch
	}
}

func readPart(r *reader, part gjson.Result, out *Facts) {
	if part.Get("codeExecutionResult.outcome").Exists() {
		out.Observed, out.ToolName = true, geminiCode
	}
	if ran := part.Get("toolResponse"); ran.IsObject() {
		r.remember(geminiHosted, geminiSearch)
		out.Observed, out.ToolName = true, kept(ran.Get("toolType").Str)
	}
}

// The names of tools that Gemini runs: code, and a search of which older models
// only tell what it found.
const (
	geminiCode   = "code_execution"
	geminiSearch = "google_search"
	// geminiHosted notes that a search is known of.
	geminiHosted = "hosted"
)

func isSearch(candidate gjson.Result) bool {
	return candidate.Get("groundingMetadata.webSearchQueries.0").Exists()
}

func foldCandidate(a *answer, doc gjson.Result) {
	candidate := candidate0(doc)
	each(candidate.Get("content.parts"), func(part gjson.Result) { foldPart(a, part) })
	if word := candidate.Get("finishReason").Str; word != "" {
		a.finish = kept(word)
	} else if word := doc.Get(geminiBlock).Str; word != "" {
		a.finish = kept(word)
	}
	if isSearch(candidate) && a.message != geminiHosted {
		a.message = geminiHosted
		a.resolve("", geminiSearch, false, candidate.Get("groundingMetadata.groundingChunks"))
	}
}

func foldPart(a *answer, part gjson.Result) {
	if text := part.Get("text").Str; part.Get("thought").Bool() {
		a.reasoning.add(text)
	} else {
		a.text.add(text)
	}
	if call := part.Get("functionCall"); call.IsObject() {
		foldGeminiCall(a, call)
	}
	if run := part.Get("executableCode"); run.IsObject() {
		c := &a.calls[a.begin(geminiCode)]
		c.id, c.name = kept(run.Get("id").Str), geminiCode
		c.arguments.add(run.Raw)
	}
	if ran := part.Get("codeExecutionResult"); ran.IsObject() {
		a.resolve(geminiCode, geminiCode, ran.Get("outcome").Str != "OUTCOME_OK", ran.Get("output"))
	}
	if call := part.Get("toolCall"); call.IsObject() {
		id := call.Get("id").Str
		a.open(id, id, call.Get("toolType").Str).arguments.add(valueText(call.Get("args")))
	}
	if ran := part.Get("toolResponse"); ran.IsObject() {
		a.message = geminiHosted
		a.resolve(ran.Get("id").Str, ran.Get("toolType").Str, false, ran.Get("response"))
	}
}

// foldGeminiCall: a call comes whole, or (Vertex) its first piece names it,
// further ones add to it, and one that does not go on ends it.
func foldGeminiCall(a *answer, f gjson.Result) {
	continues := f.Get("willContinue").Bool()
	if f.Get("name").Str != "" {
		c := &a.calls[a.begin("")]
		c.id, c.name = kept(f.Get("id").Str), kept(f.Get("name").Str)
		if continues {
			c.growing = new(growing)
		}
	}
	if len(a.calls) == 0 {
		return
	}
	c := &a.calls[len(a.calls)-1]
	c.arguments.add(valueText(f.Get("args")))
	if c.growing == nil {
		return
	}
	each(f.Get("partialArgs"), func(leaf gjson.Result) { c.growing.add(&c.arguments, leaf) })
	if !continues {
		c.growing.end(&c.arguments)
		c.growing = nil
	}
}

// geminiStatus is the status of each failure: code and name.
var geminiStatus = map[string]struct {
	code int
	name string
}{
	"failed": {500, "INTERNAL"}, codeCancelled: {499, "CANCELLED"},
	"uncertain": {500, "UNKNOWN"}, "stream_expired": {410, "STREAM_EXPIRED"},
}

// geminiFailure has the line ends of the dialect.
func geminiFailure(f Failure) [][]byte {
	status, ok := geminiStatus[f.Code]
	if !ok {
		status = geminiStatus["failed"]
	}
	e := f.object(map[string]any{"code": status.code, "message": f.Message, "status": status.name})
	return [][]byte{[]byte(`data: {"error": ` + string(e) + "}\r\n\r\n")}
}
