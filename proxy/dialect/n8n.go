package dialect

import (
	"bytes"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// n8n is the streaming answer of an n8n workflow: an object per line, though
// some proxies put several on one. Each node that streams begins and ends, so
// that an end is not the end: the answer is whole when the body has ended and
// no node is open.
var n8n = spec{
	Dialect: Dialect{
		Name: "n8n", Kind: frame.Lines, Wire: linesWire,
		Framing: n8nFraming,
		certain: isNodeBegin,
		Failure: n8nFailure,
	},
	find: findNode,
	rules: rules{
		"begin":   {read: readFlowNode},
		"item":    {fold: foldFlowNode},
		"end":     {read: readFlowNode, fold: foldFlowNode, is: "message.completed"},
		"error":   {fail: paths{"content", ""}},
		"several": {bare: true, read: readSeveral, fold: foldSeveral},
	},
}.dialect()

// n8nFraming: n8n declares its lines as JSON. An answer whose length is known
// is one.
func n8nFraming(h http.Header) (frame.Kind, bool) {
	kind, _ := mediaType(h.Get("Content-Type"))
	return frame.Lines, kind == "application/json" && h.Get("Content-Length") == ""
}

var findNodeByType = byMember("type")

// findNode: an item cannot look like several, since a quote inside a string is
// escaped.
func findNode(rs rules, f *frame.Frame) (*rule, []byte) {
	if bytes.Contains(f.Data, []byte(`}{"`)) {
		return rs["several"], f.Data
	}
	return findNodeByType(rs, f)
}

func isNodeBegin(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	return doc.Get("type").Str == "begin" && doc.Get("metadata.nodeId").Exists()
}

// readFlowNode counts the nodes that are open.
func readFlowNode(r *reader, doc gjson.Result, out *Facts) {
	switch doc.Get("type").Str {
	case "begin":
		r.parts++
	case "end":
		if r.parts--; r.parts <= 0 {
			r.parts = 0
			r.conclude(r.ordinaryEnd(), out)
		}
	}
}

func foldFlowNode(a *answer, doc gjson.Result) {
	switch doc.Get("type").Str {
	case "item":
		a.text.add(doc.Get("content").Str)
	case "end":
		a.finish = "stop"
	}
}

// readSeveral: whichever of them is an error, it stands.
func readSeveral(r *reader, doc gjson.Result, out *Facts) {
	gjson.ForEachLine(doc.Raw, func(one gjson.Result) bool {
		switch {
		case !valid([]byte(one.Raw)):
			return false
		case one.Get("type").Str == "error":
			r.conclude(meansFailed, out)
			return false
		default:
			readFlowNode(r, one, out)
			return true
		}
	})
}

func foldSeveral(a *answer, doc gjson.Result) {
	gjson.ForEachLine(doc.Raw, func(one gjson.Result) bool {
		if one.Get("type").Str == "error" && valid([]byte(one.Raw)) {
			a.fail(errorOf(one.Get("content"), false))
			return false
		}
		foldFlowNode(a, one)
		return true
	})
}

func n8nFailure(f Failure) [][]byte {
	return [][]byte{append(f.object(map[string]any{"type": "error", "content": f.Message, "code": f.Code}), '\n')}
}
