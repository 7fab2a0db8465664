package dialect

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// mcp is the Streamable HTTP transport of the Model Context Protocol. Its
// clients resume by upstream's own ids, and the server may close the stream
// before it has answered: nothing is added, and a clean end is no error. The
// answer to the request is the end of the stream.
var mcp = spec{
	Dialect: Dialect{
		Name: "mcp", Kind: frame.SSE, CleanEnd: true,
		certain: isMCP,
		calls:   mcpCalls,
		Failure: mcpFailure,
	},
	find: findRPC,
	rules: rules{
		"notice": {resumes: true},
		"ask":    {read: readServerAsks, is: "run.waiting"},
		"result": {end: true, resumes: true, read: readRPC, fold: foldRPC, is: "message.completed"},
		"error":  {end: true, fail: paths{"error"}},
	},
}.dialect()

// mcpCalls: a cancelled request is never answered, and its stream may stay
// open.
var mcpCalls = []Calls{{
	when: condition{"method", "tools/call"},
	Cancel: &ControlCall{
		Method: "POST", Path: "{start_path}", Accept: "application/json, text/event-stream", Silent: true,
		Body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{request.id}}}`,
	},
	Join: &ControlCall{Method: "GET", Path: "{start_path}", Accept: "text/event-stream", ByEventID: true},
}}

// mcpFailure answers the request, without which its client would wait until it
// lost its patience. Of a run whose end is not known here the server may know
// more: its client asks there when the transport is aborted.
func mcpFailure(f Failure) [][]byte {
	if !valid(f.Request) || f.Code == codeUncertain {
		return nil
	}
	e := map[string]any{"code": rpcInternal, "message": f.Message, "data": json.RawMessage(f.object(map[string]any{"reason": f.Code}))}
	return [][]byte{dataFrame(oneLine(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(f.Request), "error": e}))}
}

// DetectByRequest returns the dialect of an answer as far as the request tells
// for certain, or nil. Clients of MCP resume by upstream's ids, so that its
// first frame is too late to find out.
func DetectByRequest(h http.Header, body []byte) *Dialect {
	if isA2ARequest(h, body) {
		return a2a
	}
	if isOfMCP(h) {
		return mcp
	}
	accept := strings.Join(h.Values("Accept"), ",")
	both := strings.Contains(accept, "application/json") && strings.Contains(accept, "text/event-stream")
	if both && gjson.GetBytes(body, "jsonrpc").Str == "2.0" && gjson.GetBytes(body, "method").Exists() {
		return mcp
	}
	return nil
}

// isOfMCP reports whether a client of MCP says so itself.
func isOfMCP(h http.Header) bool {
	return h.Get("Mcp-Protocol-Version") != "" || h.Get("Mcp-Session-Id") != ""
}

// What is looked for in a message.
const (
	rpcVersion signs = 1 << iota
	rpcResult
	rpcError
	rpcMethod
)

func findRPC(rs rules, f *frame.Frame) (*rule, []byte) {
	data := f.Data
	switch found := seen(data, "jsonrpc", "result", "error", "method"); {
	case found&rpcVersion == 0:
		return nil, nil
	case found&rpcResult != 0 && gjson.GetBytes(data, "result").Exists():
		if isA2A(f) { // which answers a request many times
			return nil, nil
		}
		return rs["result"], data
	case found&rpcError != 0 && gjson.GetBytes(data, "error").Exists():
		return rs["error"], data
	case found&rpcMethod != 0 && asksUser(data):
		return rs["ask"], data
	default:
		return rs["notice"], data
	}
}

// asksUser: the server wants something of the person, and answers nothing
// before it has that. (What it asks of the client alone is answered at once.)
func asksUser(data []byte) bool {
	method := unquoted(member(data, "method"))
	return string(method) == "elicitation/create" && member(data, "id") != nil
}

// readServerAsks: its question is answered in a request of its own.
func readServerAsks(r *reader, _ gjson.Result, out *Facts) { r.wait(out) }

// isMCP tells MCP from A2A, which speaks JSON-RPC too but answers one request
// with many results.
func isMCP(f *frame.Frame) bool {
	doc := gjson.ParseBytes(f.Data)
	if doc.Get("jsonrpc").Str != "2.0" || isA2A(f) {
		return false
	}
	return doc.Get("method").Exists() || doc.Get("result").Exists() || doc.Get("error").Exists()
}

// readRPC: a result with content is that of a tool. The request named it.
func readRPC(_ *reader, doc gjson.Result, out *Facts) {
	out.Observed = doc.Get("result.content").IsArray()
}

func foldRPC(a *answer, doc gjson.Result) {
	each(doc.Get("result.content.#.text"), func(text gjson.Result) { a.text.add(text.Str) })
}
