package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// assistantTransport is the stream of assistant-ui's own transport. Pieces name
// the part they belong to by its place. An answer has several steps, each with
// its own usage; the last one is not continued.
var assistantTransport = spec{
	Dialect: Dialect{
		Name: "assistant-transport", Kind: frame.SSE, Wire: sseWire,
		certain: isAssistantPart,
		Failure: transportFailure,
	},
	find: byMember("type"),
	rules: rules{
		"step-start":     {id: "messageId"},
		"part-start":     {read: readPartStart, fold: foldPartStart},
		"text-delta":     {fold: foldPartPiece},
		"result":         {read: readPartResult, fold: foldPartResult},
		"error":          {fail: paths{"error", ""}},
		"step-finish":    {read: readStepFinish, fold: foldStepFinish},
		"message-finish": {finish: paths{"finishReason"}, is: "message.completed"},
		"[DONE]":         {end: true, bare: true},
	},
	words: aiWords,
}.dialect()

// isAssistantPart tells these frames from those of the AI SDK and of Mastra,
// which have parts of the same names.
func isAssistantPart(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	switch doc.Get("type").Str {
	case "step-start":
		return doc.Get("messageId").Exists() && !doc.Get("payload").Exists()
	case "part-start":
		return doc.Get("part.type").Exists() && doc.Get("path").IsArray()
	case "update-state":
		return doc.Get("operations").IsArray()
	default:
		return false
	}
}

func readPartStart(r *reader, doc gjson.Result, _ *Facts) {
	r.remember(placeKey(r.parts), doc.Get("part.toolName").Str)
	r.parts++
}

// placeKey is what joins the frames of the part at a place.
func placeKey(place int) string { return keyOf(gjson.Result{Type: gjson.Number, Num: float64(place)}) }

func readPartResult(r *reader, doc gjson.Result, out *Facts) {
	out.Observed, out.ToolName = true, r.names[keyOf(doc.Get("path.0"))]
}

// readStepFinish adds the usage of the steps up.
func readStepFinish(r *reader, doc gjson.Result, out *Facts) {
	more := doc.Get("isContinued").Bool()
	in, _ := sum([]string{"usage.inputTokens"}, doc)
	output, told := sum([]string{"usage.outputTokens"}, doc)
	if told {
		r.usage.InputTokens += in
		r.usage.OutputTokens += output
		r.usage.Complete = !more
		out.Usage = new(r.usage)
	}
	if word := doc.Get("finishReason").Str; word != "" && !more {
		r.finish(word, out)
	}
}

func foldStepFinish(a *answer, doc gjson.Result) {
	if word := doc.Get("finishReason").Str; word != "" {
		a.finish = kept(word)
	}
}

func foldPartStart(a *answer, doc gjson.Result) {
	kind, started := partOther, doc.Get("part")
	switch started.Get("type").Str {
	case "text":
		kind = partText
	case "reasoning":
		kind = partReasoning
	case "tool-call":
		kind = partCall
		a.open(placeKey(len(a.parts)), started.Get("toolCallId").Str, started.Get("toolName").Str)
	}
	a.parts = append(a.parts, kind)
}

func foldPartPiece(a *answer, doc gjson.Result) {
	place, piece := doc.Get("path.0"), doc.Get("textDelta").Str
	i := place.Int()
	if !place.Exists() || i < 0 || i >= int64(len(a.parts)) {
		return
	}
	switch a.parts[i] {
	case partText:
		a.text.add(piece)
	case partReasoning:
		a.reasoning.add(piece)
	case partCall:
		a.calls[a.place(keyOf(place))].arguments.add(piece)
	case partOther:
	}
}

func foldPartResult(a *answer, doc gjson.Result) {
	a.resolve(keyOf(doc.Get("path.0")), "", doc.Get("isError").Bool(), doc.Get("result"))
}

func transportFailure(f Failure) [][]byte {
	part := map[string]any{"type": "error", "path": []int{}, "error": f.Message}
	return [][]byte{dataFrame(oneLine(part)), doneFrame()}
}
