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

const (
	geminiFinish = "candidates.0.finishReason"
	geminiBlock  = "promptFeedback.blockReason"
)

func readCandidate(r *reader, doc gjson.Result, out *Facts) {
	switch word := doc.Get(geminiFinish).Str; {
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
	if doc.Get("candidates.0.content.parts.#.codeExecutionResult.outcome").Get("0").Exists() {
		out.Observed, out.ToolName = true, geminiCode
	}
}

// geminiCode is the name of the tool that runs code.
const geminiCode = "code_execution"

func foldCandidate(a *answer, doc gjson.Result) {
	each(doc.Get("candidates.0.content.parts"), func(part gjson.Result) { foldPart(a, part) })
	if word := (paths{geminiFinish, geminiBlock}).text(doc); word != "" {
		a.finish = kept(word)
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
}

// foldGeminiCall: a call comes whole, or (Vertex) its first piece names it and
// further ones add to it.
func foldGeminiCall(a *answer, f gjson.Result) {
	if f.Get("name").Str != "" {
		c := &a.calls[a.begin("")]
		c.id, c.name = kept(f.Get("id").Str), kept(f.Get("name").Str)
	}
	if len(a.calls) == 0 {
		return
	}
	c := &a.calls[len(a.calls)-1]
	c.arguments.add(valueText(f.Get("args")))
	c.arguments.add(valueText(f.Get("partialArgs")))
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
