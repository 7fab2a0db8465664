package dialect

import (
	"bytes"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// langGraph is the stream of a LangGraph server. A run that succeeded and one
// that was cancelled both just end: a clean end is completed. Its JavaScript
// client measures the gaps between comments and hangs up after three of them,
// so two comments must never come close together.
//
// The text is that of the graph itself; frames of subgraphs, whose event names
// have a suffix, do not belong to it. Tools that ran anywhere are receipts.
var langGraph = spec{
	Dialect: Dialect{
		Name: "langgraph", Kind: frame.SSE, CleanEnd: true,
		Wire:        Wire{IDs: sseWire.IDs, Keepalive: sseWire.Keepalive, KeepaliveGap: 10 * time.Second},
		Resume:      []string{"/threads/{conversation_id}/runs/{upstream_run_id}/stream"},
		generations: []string{"/runs/stream", "/runs/wait"},
		certain:     isRunMetadata,
		plausible:   func(f *frame.Frame) bool { return len(f.Event) > 0 },
		Failure:     langGraphFailure,
		calls:       langGraphCalls,
	},
	find: findLangGraph,
	rules: rules{
		"updates":          {read: readInterrupt},
		"values":           {read: readInterrupt},
		"metadata":         {id: "run_id"},
		"messages":         {fold: foldMessageTuple},
		"messages/partial": {fold: foldPartial},
		"answer and tool":  {read: readGraphTools, fold: foldMessageTuple},
		"tool":             {read: readGraphTools, fold: foldGraphTools},
		"error":            {fail: paths{""}, end: true},
		"end":              {end: true, bare: true},
	},
}.dialect()

// langGraphCalls: a run without a thread of its own is addressed by the thread
// that the server made for it, which the answer's header names.
var langGraphCalls = []Calls{
	{start: "/threads/{thread}/runs/stream", bulk: langGraphBulk, Cancel: langGraphCancel("{thread}"), Status: langGraphStatus("{thread}"), Pause: langGraphPause("{thread}"), Join: langGraphJoin("{thread}")},
	{start: "/runs/stream", Cancel: langGraphCancel("{upstream_conversation_id}"), Status: langGraphStatus("{upstream_conversation_id}"), Pause: langGraphPause("{upstream_conversation_id}"), Join: langGraphJoin("{upstream_conversation_id}")},
}

// langGraphBulk is the call for several runs by their names. One that names a
// status or a thread alone is the server's to carry out.
var langGraphBulk = &ControlCall{
	Method: "POST", Path: "{prefix}/runs/cancel", Body: `{"run_ids":[{upstream_id}]}`, taken: taken{status: 204},
}

func langGraphCancel(thread string) *ControlCall {
	return &ControlCall{
		Method: "POST", Path: "{prefix}/threads/" + thread + "/runs/{upstream_id}/cancel?wait=0&action=interrupt",
		taken: taken{status: 202},
	}
}

// langGraphJoin: the server keeps the frames of a run only if it was asked to.
func langGraphJoin(thread string) *ControlCall {
	return &ControlCall{
		Method: "GET", Path: "{prefix}/threads/" + thread + "/runs/{upstream_id}/stream", Accept: "text/event-stream",
		ByEventID: true, needs: condition{"stream_resumable", "true"},
	}
}

func langGraphStatus(thread string) *ControlCall {
	return &ControlCall{
		Method: "GET", Path: "{prefix}/threads/" + thread + "/runs/{upstream_id}", state: paths{"status"},
		words: map[string]Standing{
			"pending": StandingRunning, "running": StandingRunning, "success": StandingCompleted,
			"error": StandingFailed, "timeout": StandingFailed, "interrupted": StandingCancelled,
		},
	}
}

// langGraphPause: a run whose graph asks for something is a success, and its
// thread is interrupted. Its stream tells only in some modes.
func langGraphPause(thread string) *ControlCall {
	return &ControlCall{
		Method: "GET", Path: "{prefix}/threads/" + thread, state: paths{"status"},
		words: map[string]Standing{
			"interrupted": StandingPaused, "idle": StandingCompleted, "busy": StandingRunning, "error": StandingFailed,
		},
	}
}

// findLangGraph: states may be large, and are of interest only if they ask for
// something. What a tool answered names the call.
func findLangGraph(rs rules, f *frame.Frame) (*rule, []byte) {
	event, _, inside := bytes.Cut(f.Event, []byte{'|'})
	switch name := string(event); {
	case name != "updates" && name != "values" && !bytes.HasPrefix(event, []byte("messages")):
		return byName(rs, f)
	case !inside && event[0] != 'm' && bytes.Contains(f.Data, []byte(`"__interrupt__"`)):
		return rs[name], f.Data
	case name == "values": // what earlier runs did is in it, too
		return nil, nil
	case !bytes.Contains(f.Data, []byte(`"tool_call_id"`)):
		if name == "updates" {
			return nil, nil
		}
		return byName(rs, f)
	case name == "messages" && !inside:
		return rs["answer and tool"], f.Data
	default:
		return rs["tool"], f.Data
	}
}

// readInterrupt: a graph that asks for something ends its run.
func readInterrupt(r *reader, doc gjson.Result, out *Facts) {
	if doc.Get("__interrupt__.0").Exists() {
		r.conclude(meansAsking, out)
	}
}

// isRunMetadata: LangServe has the same first event, without an attempt.
func isRunMetadata(f *frame.Frame) bool {
	return string(f.Event) == "metadata" && gjson.GetBytes(f.Data, "run_id").Exists() && gjson.GetBytes(f.Data, "attempt").Exists()
}

func langGraphFailure(f Failure) [][]byte {
	return [][]byte{eventFrame("error", f.object(map[string]any{"error": f.Code, "message": f.Message}))}
}

// RunIDFromHeader returns the id that upstream's header fields give to the
// run, or nothing.
func RunIDFromHeader(h http.Header) string {
	_, run := langGraphLocation(h)
	return run
}

// ConversationFromHeader returns the id that upstream's header fields give to
// the conversation, or nothing.
func ConversationFromHeader(h http.Header) string {
	thread, _ := langGraphLocation(h)
	return thread
}
