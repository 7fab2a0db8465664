package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// dify is the stream of Dify's applications. What ends it depends on the kind
// of application: an answer of its own (message_end), or the workflow around
// the answer (workflow_finished). Calls that stop a run name its task.
var dify = spec{
	Dialect: Dialect{
		Name: "dify", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/chat-messages", "/completion-messages", "/workflows/run"},
		certain: func(f *frame.Frame) bool {
			doc := gjson.ParseBytes(f.Data)
			return doc.Get("event").Str != "" && doc.Get("task_id").Str != ""
		},
		Failure: difyFailure,
		Retold:  difyRetold,
		calls: []Calls{
			{start: "/chat-messages", Cancel: difyStop("{prefix}/chat-messages/{upstream_id}/stop"), Join: difyJoin},
			{start: "/completion-messages", Cancel: difyStop("{prefix}/completion-messages/{upstream_id}/stop")},
			{start: "/workflows/run", Cancel: difyStop("{prefix}/workflows/tasks/{upstream_id}/stop"), Join: difyJoin},
		},
	},
	find: byMember("event"),
	rules: rules{
		"message":          difyNamed(rule{fold: foldDifyMessage}),
		"agent_message":    difyNamed(rule{text: paths{"answer"}, fold: func(a *answer, _ gjson.Result) { a.message = difyPieces }}),
		"text_chunk":       difyNamed(rule{text: paths{"data.text"}, fold: func(a *answer, _ gjson.Result) { a.stated = nil }}),
		"message_replace":  difyNamed(rule{fold: func(a *answer, doc gjson.Result) { replaceDify(a, doc.Get("answer").Str) }}),
		"text_replace":     difyNamed(rule{fold: func(a *answer, doc gjson.Result) { replaceDify(a, doc.Get("data.text").Str) }}),
		"reasoning_chunk":  difyNamed(rule{reasoning: paths{"data.reasoning"}}),
		"agent_thought":    difyNamed(rule{read: readThought, fold: foldThought}),
		"workflow_started": difyNamed(rule{read: readFlow}),
		"node_started":     difyNamed(rule{read: readFlow}), // the start of the workflow may be lost
		"node_finished":    difyNamed(rule{read: readNode, fold: foldNode}),
		"message_end": difyNamed(rule{
			read: readDifyEnd, fold: foldDifyEnd, is: "message.completed",
			usage: &usage{input: []string{"metadata.usage.prompt_tokens"}, output: []string{"metadata.usage.completion_tokens"}, whole: true},
		}),
		"workflow_paused":   difyNamed(rule{settles: meansAsking, end: true, is: "run.waiting"}),
		"workflow_finished": difyNamed(rule{finish: paths{"data.status"}, end: true, fold: foldWorkflow, is: "message.completed"}),
		"error":             difyNamed(rule{fail: paths{""}, end: true}),
	},
	words: map[string]meaning{"failed": meansFailed, "stopped": meansStopped},
}.dialect()

// difyStop is a stop in the name of the user that the start named: with another
// one it does nothing and answers the same.
func difyStop(path string) *ControlCall {
	return &ControlCall{Method: "POST", Path: path, Body: `{"user":{request.user}}`, taken: taken{status: 200, body: `{"result":"success"}`}}
}

// difyNamed completes a rule: every frame names the task and the conversation.
func difyNamed(l rule) *rule {
	l.id, l.conversation = "task_id", "conversation_id"
	return &l
}

// difyPieces says that the answer has come in pieces.
const difyPieces = "pieces"

// foldDifyMessage: newer agents repeat the whole answer after its pieces.
func foldDifyMessage(a *answer, doc gjson.Result) {
	a.stated = nil
	if text := doc.Get("answer").Str; a.message == difyPieces {
		a.text.replace(0, text)
	} else {
		a.text.add(text)
	}
}

// replaceDify: what stood before is not to be shown any more.
func replaceDify(a *answer, text string) {
	a.text.replace(0, text)
	a.state(text)
}

// readThought: a thought is told again when its tool has run.
func readThought(r *reader, doc gjson.Result, out *Facts) {
	tool, id := doc.Get("tool").Str, doc.Get("id").Str
	if tool == "" || doc.Get("observation").Str == "" || r.names[id] != "" {
		return
	}
	r.remember(id, tool)
	out.Observed, out.ToolName = true, kept(tool)
}

func foldThought(a *answer, doc gjson.Result) {
	tool, id := doc.Get("tool").Str, doc.Get("id").Str
	if tool == "" {
		return
	}
	c := a.open(id, id, tool)
	c.arguments.replace(0, valueText(doc.Get("tool_input")))
	if observation := doc.Get("observation"); observation.Str != "" && !c.resolved {
		a.resolve(id, "", false, observation)
	}
}

// hasEffects are the kinds of nodes that act on something outside.
func hasEffects(node gjson.Result) bool {
	kind := node.Get("node_type").Str
	return kind == "tool" || kind == "http-request"
}

// readFlow: a workflow is around the answer.
func readFlow(r *reader, _ gjson.Result, _ *Facts) { r.outer = true }

func readNode(_ *reader, doc gjson.Result, out *Facts) {
	if node := doc.Get("data"); hasEffects(node) {
		out.Observed, out.ToolName = true, kept(node.Get("title").Str)
	}
}

func foldNode(a *answer, doc gjson.Result) {
	node := doc.Get("data")
	if !hasEffects(node) {
		return
	}
	failed := node.Get("status").Str == "failed"
	a.resolve(node.Get("id").Str, node.Get("title").Str, failed, paths{"outputs", "error"}.value(node))
}

// readDifyEnd: the answer has ended; a workflow around it has not.
func readDifyEnd(r *reader, _ gjson.Result, out *Facts) {
	r.conclude(r.ordinaryEnd(), out)
	out.End = !r.outer
}

func foldDifyEnd(a *answer, _ gjson.Result) {
	if a.finish == "" {
		a.finish = "stop"
	}
}

// foldWorkflow: the error of a workflow may be all that is said about it.
func foldWorkflow(a *answer, doc gjson.Result) {
	data := doc.Get("data")
	if data.Get("status").Str == "failed" {
		a.fail(Error{Message: data.Get("error").Str, Code: "failed"})
	}
	outputs := data.Get("outputs")
	if len(a.text.bytes) == 0 && outputs.IsObject() {
		a.text.add(paths{"answer", "text", "result", "output"}.text(outputs))
	}
	if text, ok := wholeOutput(outputs); ok && a.stated == nil { // a moderated answer is not shown as it was
		a.state(text)
	}
}

// wholeOutput is the text of a workflow that has one output, and perhaps files.
// How the pieces of several outputs follow each other is not said.
func wholeOutput(outputs gjson.Result) (text string, ok bool) {
	n := 0
	outputs.ForEach(func(name, v gjson.Result) bool {
		if name.Str == "files" && v.IsArray() {
			return true
		}
		n++
		text, ok = v.Str, v.Type == gjson.String
		return true
	})
	return text, ok && n == 1
}

func difyFailure(f Failure) [][]byte {
	return [][]byte{dataFrame(f.object(map[string]any{"event": "error", "status": 500, "code": f.Code, "message": f.Message}))}
}
