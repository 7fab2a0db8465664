package dialect

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// langServe is the stream of a chain served by LangServe: its output in pieces
// (stream), in patches of a log (stream_log) or as events (stream_events).
var langServe = spec{
	Dialect: Dialect{
		Name: "langserve", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/stream_log", "/stream_events"},
		certain:     isChainMetadata,
		plausible:   func(f *frame.Frame) bool { l, _ := findChainEvent(langServeRules, f); return l != nil },
		Failure:     langServeFailure,
	},
	find:  findChainEvent,
	rules: langServeRules,
}.dialect()

var langServeRules = rules{
	"metadata": {id: "run_id"},
	"data":     {fold: foldChainData},
	"tool":     {read: readChainTool, fold: foldChainData},
	"error":    {fail: paths{""}, end: true},
	"end":      {end: true, bare: true},
}

// isChainMetadata: LangGraph has the same first event, with an attempt.
func isChainMetadata(f *frame.Frame) bool {
	return string(f.Event) == "metadata" && gjson.GetBytes(f.Data, "run_id").Exists() && !gjson.GetBytes(f.Data, "attempt").Exists()
}

// toolEnd is what only the event of a tool that has run holds, or data that
// speaks of it.
var toolEnd = []byte(`"on_tool_end"`)

// findChainEvent: only events tell of tools.
func findChainEvent(rs rules, f *frame.Frame) (*rule, []byte) {
	if string(f.Event) == "data" && bytes.Contains(f.Data, toolEnd) {
		return rs["tool"], f.Data
	}
	return byName(rs, f)
}

func readChainTool(_ *reader, doc gjson.Result, out *Facts) {
	if doc.Get("event").Str == "on_tool_end" {
		out.Observed, out.ToolName = true, kept(doc.Get("name").Str)
	}
}

func foldChainData(a *answer, doc gjson.Result) {
	switch doc.Get("event").Str {
	case "":
	case "on_chat_model_stream", "on_llm_stream":
		foldChainPiece(a, doc.Get("data.chunk"))
		return
	case "on_tool_start":
		c := a.open(doc.Get("run_id").Str, doc.Get("run_id").Str, doc.Get("name").Str)
		c.arguments.replace(0, valueText(doc.Get("data.input")))
		return
	case "on_tool_end":
		a.resolve(doc.Get("run_id").Str, doc.Get("name").Str, false, paths{"data.output.content", "data.output"}.value(doc))
		return
	default:
		return
	}
	if ops := doc.Get("ops"); ops.IsArray() {
		each(ops, func(op gjson.Result) {
			if op.Get("path").Str == "/streamed_output/-" {
				foldChainPiece(a, op.Get("value"))
			}
		})
		return
	}
	foldChainPiece(a, doc)
}

// foldChainPiece takes a text, or a piece of a message.
func foldChainPiece(a *answer, piece gjson.Result) {
	if piece.Type == gjson.String {
		a.text.add(piece.Str)
		return
	}
	foldContent(a, piece.Get("content"))
}

func langServeFailure(f Failure) [][]byte {
	return [][]byte{eventFrame("error", f.object(map[string]any{"status_code": 500, "message": f.Message, "code": f.Code}))}
}
