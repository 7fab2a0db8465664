package dialect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// a2a is the Agent2Agent protocol, versions 0.3 and 1.0, over JSON-RPC or plain
// HTTP. A frame is what stands in it: a task, the status of one, an artifact or
// a message. A question ends the stream; in version 0.3 a status that is not
// the final one may leave it open, or be the last all the same.
var a2a = spec{
	Dialect: Dialect{
		Name: "a2a", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/message:stream"},
		certain:     isA2A,
		Failure:     a2aFailure,
		PausedEnd:   true,
		Numbered:    true,
		Position:    a2aPosition,
		whole:       isWholeTask,
		calls: []Calls{
			{start: "/message:stream", Join: &ControlCall{Method: "POST", Path: "{prefix}/tasks/{upstream_id}:subscribe", Accept: "text/event-stream"}, Status: &ControlCall{
				Method: "GET", Path: "{prefix}/tasks/{upstream_id}", state: a2aState, words: a2aStandings,
				last: func(task []byte) []byte { return fmt.Appendf(nil, `{"task":%s}`, task) },
			}, Cancel: &ControlCall{
				Method: "POST", Path: "{prefix}/tasks/{upstream_id}:cancel", state: a2aState, words: a2aStandings,
				taken: taken{status: 200, body: `{"id":{upstream_id},"status":{"state":{state}}}`, stopped: "TASK_STATE_CANCELED", stopping: "TASK_STATE_WORKING"},
			}},
			{when: condition{"method", "message/stream"}, Join: a2aJoin("tasks/resubscribe"), Status: a2aStatus("tasks/get", lastTask03), Cancel: a2aCancel("tasks/cancel", `"kind":"task",`, "canceled", "working")},
			{when: condition{"method", "SendStreamingMessage"}, Join: a2aJoin("SubscribeToTask"), Status: a2aStatus("GetTask", lastTask), Cancel: a2aCancel("CancelTask", "", "TASK_STATE_CANCELED", "TASK_STATE_WORKING")},
		},
	},
	find:  findA2A,
	rules: a2aRules,
	words: map[string]meaning{
		"completed": {outcome: OutcomeCompleted}, "failed": meansFailed, "canceled": meansStopped, "rejected": meansRefused,
		"input-required": meansAsking, "auth-required": meansAsking,
	},
}.dialect()

// a2aCancel is the call over JSON-RPC, which tells failures by an error in a
// success. The kind of what it answers is a member of version 0.3.
func a2aCancel(method, kind, stopped, stopping string) *ControlCall {
	return &ControlCall{
		Method: "POST", Path: "{start_path}", state: a2aState, words: a2aStandings, refusal: "error",
		Body: `{"jsonrpc":"2.0","id":{run_id},"method":"` + method + `","params":{"id":{upstream_id}}}`,
		taken: taken{
			status: 200, stopped: stopped, stopping: stopping,
			body: `{"jsonrpc":"2.0","id":{message_id},"result":{` + kind + `"id":{upstream_id},"contextId":{upstream_conversation_id},"status":{"state":{state}}}}`,
		},
	}
}

// a2aJoin is the call by which a stream is joined: it begins with the whole task
// as it is then, and bears the number of the message, which is that of the
// start.
func a2aJoin(method string) *ControlCall {
	return &ControlCall{
		Method: "POST", Path: "{start_path}", Accept: "text/event-stream",
		Body: `{"jsonrpc":"2.0","id":{request.id},"method":"` + method + `","params":{"id":{upstream_id}}}`,
	}
}

// a2aStatus asks for the whole task: one that has ended is not joined any more.
func a2aStatus(method string, last func([]byte) []byte) *ControlCall {
	return &ControlCall{
		Method: "POST", Path: "{start_path}", state: a2aState, words: a2aStandings, last: last,
		Body: `{"jsonrpc":"2.0","id":{request.id},"method":"` + method + `","params":{"id":{upstream_id}}}`,
	}
}

// lastTask03: version 0.3 tells a task in a stream as it does outside.
func lastTask03(answer []byte) []byte { return answer }

func lastTask(answer []byte) []byte {
	doc := gjson.ParseBytes(answer)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"task":%s}}`, doc.Get("id").Raw, doc.Get("result").Raw)
}

// a2aPosition: frames have no numbers; a server may give them SSE ids.
func a2aPosition(f *frame.Frame) string {
	if id := kept(string(f.ID)); id != "" {
		return id
	}
	if l, _ := findA2A(a2aRules, f); l == nil || l.id == "" {
		return ""
	}
	return Whole
}

func isWholeTask(f *frame.Frame) bool {
	l, _ := findA2A(a2aRules, f)
	return l == a2aRules["task"]
}

var (
	a2aState     = paths{"result.status.state", "result.task.status.state", "status.state", "task.status.state"}
	a2aStandings = map[string]Standing{
		"canceled": StandingCancelled, "task_state_canceled": StandingCancelled,
		"working": StandingRunning, "task_state_working": StandingRunning,
		"submitted": StandingRunning, "task_state_submitted": StandingRunning,
		"completed": StandingCompleted, "task_state_completed": StandingCompleted,
		"failed": StandingFailed, "task_state_failed": StandingFailed,
		"rejected": StandingCompleted, "task_state_rejected": StandingCompleted,
		"input-required": StandingPaused, "task_state_input_required": StandingPaused,
		"auth-required": StandingPaused, "task_state_auth_required": StandingPaused,
	}
)

var a2aRules = rules{
	"task":           {id: "id", conversation: "contextId", read: readTask, fold: foldTask},
	"statusUpdate":   {id: "taskId", conversation: "contextId", read: readTask, fold: foldTaskStatus},
	"artifactUpdate": {id: "taskId", conversation: "contextId", fold: foldArtifactUpdate},
	"message":        {id: "taskId", conversation: "contextId", settles: meaning{outcome: OutcomeCompleted}, end: true, fold: foldA2AMessage},
	"error":          {end: true, fail: paths{"error"}},
}

// a2aKinds are the members of version 1.0, and how version 0.3 names them over
// JSON-RPC. Over plain HTTP it has the members, too, but a message is a msg.
var a2aKinds = [...][2]string{
	{"artifactUpdate", "artifact-update"},
	{"statusUpdate", "status-update"},
	{"task", "task"},
	{"message", "message"},
	{"msg", ""},
}

// findA2A: what stands in a frame that is cut off may look whole. Pieces of an
// artifact say nothing of the end.
func findA2A(rs rules, f *frame.Frame) (*rule, []byte) {
	l, data := a2aRule(rs, f)
	if l != nil && l != rs["artifactUpdate"] && !valid(f.Data) {
		return nil, nil
	}
	return l, data
}

func a2aRule(rs rules, f *frame.Frame) (*rule, []byte) {
	result := member(f.Data, "result")
	if result == nil {
		result = f.Data
	}
	for _, kind := range a2aKinds {
		inner := member(result, kind[0])
		if len(inner) == 0 || inner[0] != '{' || member(result, "kind") != nil {
			continue
		}
		if kind[0] == "message" && member(inner, "parts") == nil {
			continue // others have messages, too
		}
		if kind[0] == "msg" {
			return rs["message"], inner
		}
		return rs[kind[0]], inner
	}
	word := unquoted(member(result, "kind"))
	for _, kind := range a2aKinds {
		if len(word) > 0 && string(word) == kind[1] {
			return rs[kind[0]], result
		}
	}
	if e := member(f.Data, "error"); len(e) > 0 && e[0] == '{' {
		return rs["error"], f.Data
	}
	return nil, nil
}

// isA2A tells A2A from MCP, whose tasks have no state of this form.
func isA2A(f *frame.Frame) bool {
	l, data := findA2A(a2aRules, f)
	doc := gjson.ParseBytes(data)
	switch l {
	case nil, a2aRules["error"]:
		return false
	case a2aRules["artifactUpdate"]:
		return doc.Get("artifact.parts").IsArray()
	case a2aRules["message"]:
		return messageParts(doc).IsArray() && doc.Get("messageId").Exists()
	default:
		return doc.Get("status.state").Exists()
	}
}

// taskState is the word for a state in both versions.
func taskState(doc gjson.Result) string {
	word, _ := strings.CutPrefix(doc.Get("status.state").Str, "TASK_STATE_")
	return strings.ReplaceAll(strings.ToLower(word), "_", "-")
}

func readTask(r *reader, doc gjson.Result, out *Facts) {
	word := taskState(doc)
	m, over := r.spec.words[word]
	switch {
	case !over:
		r.goOn(out)
	case m == meansAsking && doc.Get("final").Type == gjson.False:
		r.wait(out)
	default:
		out.End = true
		r.conclude(m, out)
	}
}

// foldTask: a task that is joined again comes with what it has made so far.
func foldTask(a *answer, doc gjson.Result) {
	if doc.Get("artifacts.0").Exists() {
		a.text, a.message, a.settled = clip{}, "", 0
	}
	each(doc.Get("artifacts"), func(artifact gjson.Result) { foldArtifact(a, artifact, false) })
	foldTaskStatus(a, doc)
}

func foldTaskStatus(a *answer, doc gjson.Result) {
	word, said := taskState(doc), clip{}
	addParts(&said, messageParts(doc.Get("status.message")))
	switch word {
	case "failed":
		a.fail(Error{Message: string(said.bytes), Code: word})
	case "submitted", "working", "":
	default:
		a.finish = word
	}
	if word != "failed" {
		a.text.addBytes(said.bytes)
		a.message = ""
	}
}

func foldArtifactUpdate(a *answer, doc gjson.Result) {
	foldArtifact(a, doc.Get("artifact"), doc.Get("append").Bool())
}

// foldArtifact: an artifact that is not continued begins, or begins anew.
func foldArtifact(a *answer, artifact gjson.Result, more bool) {
	id := "artifact " + kept(artifact.Get("artifactId").Str)
	var text clip
	addParts(&text, artifact.Get("parts"))
	switch {
	case more:
		a.text.addBytes(text.bytes)
	case a.message == id:
		a.text.replace(a.settled, string(text.bytes))
	default:
		a.message, a.settled = id, len(a.text.bytes)
		a.text.addBytes(text.bytes)
	}
}

func foldA2AMessage(a *answer, doc gjson.Result) {
	addParts(&a.text, messageParts(doc))
	a.finish = "message"
}

// messageParts: version 0.3 calls them content over plain HTTP.
func messageParts(message gjson.Result) gjson.Result {
	if parts := message.Get("parts"); parts.Exists() {
		return parts
	}
	return message.Get("content")
}

func addParts(text *clip, parts gjson.Result) {
	each(parts, func(part gjson.Result) { text.add(part.Get("text").Str) })
}

// a2aMethods begin a generation that is streamed.
var a2aMethods = []string{"SendStreamingMessage", "message/stream"}

// isA2ARequest: the header field is of version 1.0.
func isA2ARequest(h http.Header, body []byte) bool {
	return h.Get("A2a-Version") != "" || slices.Contains(a2aMethods, gjson.GetBytes(body, "method").Str)
}

// a2aFailure repeats the id of the request, which every answer to it bears. In
// plain HTTP there is none: what is no event of that name is taken for a part
// of the answer there, an empty one. Where no frame told which it is, clients of
// both see that something is wrong.
func a2aFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"code": rpcInternal, "message": f.Message, "reason": f.Code})
	if len(f.Last) > 0 && member(f.Last, "jsonrpc") == nil {
		return [][]byte{eventFrame("error", append(append([]byte(`{"error":`), e...), '}'))}
	}
	id := member(f.Last, "id")
	if !valid(id) {
		id = []byte("null")
	}
	data := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"error":`...)
	return [][]byte{eventFrame("error", append(append(data, e...), '}'))}
}

// rpcInternal is the code of an internal error (JSON-RPC 2.0, section 5.1).
const rpcInternal = -32603
