package dialect

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// difyJoin is the call for the stream of a workflow that goes on, which chatflows
// are, too. It is answered to the user of the start alone. The state at its
// beginning has the nodes that ran, without what came out of them; a run that is
// paused ends there, as its own stream does, and one that has ended is told by
// workflow_finished alone, with its outputs.
//
// What follows the state depends on how Dify hands its events on: those from then
// on, or, with Redis Streams before 1.13.3, all of them from the beginning of the
// run, byte for byte.
var difyJoin = &ControlCall{
	Method: "GET", Accept: "text/event-stream",
	Path: "{prefix}/workflow/{position}/events?user={request.user}&include_state_snapshot=true",
}

var difyRetold = &Retold{Anchor: difyAnchor, Event: difyEvent}

// difyAnchor is the id of the workflow's run, which is not that of the task. All
// that is said of the workflow and its nodes has it: the first of it may be lost.
func difyAnchor(f *frame.Frame) string {
	if kind, ok := leading(f.Data, "event"); ok && !ofWorkflow(string(kind)) {
		return ""
	}
	doc := gjson.ParseBytes(f.Data)
	if !ofWorkflow(doc.Get("event").Str) {
		return ""
	}
	return kept(doc.Get("workflow_run_id").Str)
}

func ofWorkflow(event string) bool {
	return strings.HasPrefix(event, "workflow_") || strings.HasPrefix(event, "node_")
}

// difyEvent: nodes are told by their executions, since a loop runs one again.
// The state has the answer as it was saved, and before a workflow has paused or
// ended that is nothing.
func difyEvent(f *frame.Frame) string {
	doc := gjson.ParseBytes(f.Data)
	kind, id := doc.Get("event").Str, ""
	switch kind {
	case "workflow_started":
		id = doc.Get("workflow_run_id").Str
	case "node_started", "node_finished":
		id = doc.Get("data.id").Str
	case "human_input_required":
		id = doc.Get("data.form_id").Str
	case "message_replace":
		if doc.Get("answer").Str == "" && doc.Get("reason").Str == "" {
			return Void
		}
	}
	if id = kept(id); id == "" {
		return ""
	}
	return kind + " " + id
}
