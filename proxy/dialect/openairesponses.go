package dialect

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// openAIResponses is the Responses API of OpenAI and of those who speak like
// it. Its last frame repeats the whole answer, which is taken for the truth.
// Frames of one call are joined on the place of the item: some backends change
// an item's id from frame to frame.
var openAIResponses = spec{
	Dialect: Dialect{
		Name: "openai-responses", Kind: frame.SSE, Wire: sseWire,
		generations: []string{"/v1/responses", "/openai/responses", "^/responses"},
		certain:     func(f *frame.Frame) bool { return isResponse(f) && !isBareError(f) },
		plausible:   isResponse,
		Failure:     responsesFailure,
		Position:    byMemberPosition("sequence_number"),
		calls:       responsesCalls,
		Numbered:    true,
	},
	find: byEvent("type"),
	rules: rules{
		"response.created":     responseOpened,
		"response.queued":      responseOpened,
		"response.in_progress": responseOpened,

		"response.output_text.delta":             {text: paths{"delta"}},
		"response.refusal.delta":                 {text: paths{"delta"}, read: func(r *reader, _ gjson.Result, _ *Facts) { r.refused = true }},
		"response.reasoning_summary_text.delta":  {reasoning: paths{"delta"}},
		"response.reasoning_text.delta":          {reasoning: paths{"delta"}},
		"response.function_call_arguments.delta": {tool: &tool{key: "output_index", piece: "delta"}},
		"response.custom_tool_call_input.delta":  {tool: &tool{key: "output_index", piece: "delta"}},
		"response.output_item.added":             {fold: foldItem, read: readItem},
		"response.output_item.done":              {fold: foldItemDone, read: readItemDone},

		"response.completed":  responseEnded(rule{read: readWhole, fold: foldWhole}),
		"response.incomplete": responseEnded(rule{finish: responseWord, fold: foldWhole}),
		"response.failed":     responseEnded(rule{fail: paths{"response.error"}, fold: foldWhole}),
		"response.cancelled":  responseEnded(rule{settles: meansStopped, fold: foldWhole}),
		"error":               {fail: paths{"error", ""}, end: true},
	},
	words: map[string]meaning{
		"max_output_tokens": meansCut, "max_tokens": meansCut, "content_filter": meansFiltered,
		"cancelled": meansStopped, "failed": meansFailed,
	},
}.dialect()

// responsesCalls: only a response that runs in the background can be cancelled
// by a call; any other ends with its connection.
var responsesCalls = []Calls{{
	start: "/responses", when: condition{"background", "true"},
	Cancel: &ControlCall{
		Method: "POST", Path: "{prefix}/responses/{upstream_id}/cancel", state: paths{"status"}, words: responseStandings,
		taken: taken{status: 200, body: `{"id":{upstream_id},"object":"response","background":true,"status":{state},"output":[]}`, stopped: "cancelled", stopping: "in_progress"},
	},
	Join: &ControlCall{
		Method: "GET", Path: "{prefix}/responses/{upstream_id}?stream=true&starting_after={position}", Accept: "text/event-stream",
	},
	Status: &ControlCall{Method: "GET", Path: "{prefix}/responses/{upstream_id}", state: paths{"status"}, words: responseStandings},
}}

var responseStandings = map[string]Standing{
	"queued": StandingRunning, "in_progress": StandingRunning, "completed": StandingCompleted,
	"incomplete": StandingCompleted, "failed": StandingFailed, "cancelled": StandingCancelled,
}

var responseOpened = &rule{id: "response.id", conversation: "response.conversation.id", model: "response.model"}

// responseEnded completes a rule for a last frame: all of them carry the whole
// response.
func responseEnded(l rule) *rule {
	l.end = true
	l.id, l.conversation, l.model = responseOpened.id, responseOpened.conversation, responseOpened.model
	l.usage = &usage{input: []string{"response.usage.input_tokens"}, output: []string{"response.usage.output_tokens"}, whole: true}
	l.is = "message.completed"
	if l.fail != nil {
		l.is = "error"
	}
	return &l
}

func isResponse(f *frame.Frame) bool {
	kind := f.Event
	if len(kind) == 0 || string(kind) == "message" {
		kind = []byte(gjson.GetBytes(f.Data, "type").Str)
	}
	return bytes.HasPrefix(kind, []byte("response.")) || string(kind) == "error"
}

func isBareError(f *frame.Frame) bool {
	return string(f.Event) == "error" || gjson.GetBytes(f.Data, "type").Str == "error"
}

// readWhole reads from the last frame what pieces may not have told, and its
// status: some backends name every last frame completed.
func readWhole(r *reader, doc gjson.Result, out *Facts) {
	if doc.Get(`response.output.#(type=="mcp_approval_request")`).Exists() {
		r.asking = max(r.asking, 1)
	}
	if doc.Get(`response.output.#.content.#(type=="refusal").type|0`).Exists() {
		r.refused = true
	}
	if word := responseWord.text(doc); word != "completed" {
		r.finish(word, out)
	} else {
		r.conclude(r.ordinaryEnd(), out)
	}
}

// responseWord is how a response ended.
var responseWord = paths{"response.incomplete_details.reason", "response.status"}

func readItem(r *reader, doc gjson.Result, _ *Facts) {
	item := doc.Get("item")
	r.remember(item.Get("call_id").Str, item.Get("name").Str)
}

// readItemDone: the item of a tool that ran upstream is its receipt.
func readItemDone(r *reader, doc gjson.Result, out *Facts) {
	item := doc.Get("item")
	switch {
	case item.Get("type").Str == "mcp_approval_request":
		r.asking++
	case isReceipt(item):
		out.Observed, out.ToolName = true, hostedTool(item)
	case isOutput(item):
		out.Observed, out.ToolName = true, r.names[item.Get("call_id").Str]
	default:
		readItem(r, doc, out)
	}
}

// isReceipt tells tools that upstream runs from those that the client has to
// run: only the latter have a call_id, under which they want the output.
func isReceipt(item gjson.Result) bool {
	return strings.HasSuffix(item.Get("type").Str, "_call") && item.Get("call_id").Str == ""
}

// isOutput: the output of a call is an item of its own.
func isOutput(item gjson.Result) bool { return strings.HasSuffix(item.Get("type").Str, "_output") }

// hostedTool is the name of a tool that upstream runs.
func hostedTool(item gjson.Result) string {
	if name := item.Get("name").Str; name != "" {
		return kept(name)
	}
	return kept(strings.TrimSuffix(item.Get("type").Str, "_call"))
}

// foldItem takes a call that the client has to run, or has to allow.
func foldItem(a *answer, doc gjson.Result) {
	item := doc.Get("item")
	id := item.Get("call_id").Str
	if item.Get("type").Str == "mcp_approval_request" {
		id = item.Get("id").Str
	}
	if id != "" && !isOutput(item) {
		foldCall(a, item, keyOf(doc.Get("output_index")), id)
	}
}

func foldItemDone(a *answer, doc gjson.Result) {
	switch item := doc.Get("item"); {
	case isOutput(item):
		foldReceipt(a, item, item.Get("call_id").Str, "")
	case isReceipt(item):
		foldReceipt(a, item, item.Get("id").Str, hostedTool(item))
	default:
		foldItem(a, doc)
	}
}

func foldCall(a *answer, item gjson.Result, key, id string) {
	c := a.open(key, id, item.Get("name").Str)
	if c.name == "" {
		c.name = kept(strings.TrimSuffix(item.Get("type").Str, "_call"))
	}
	if args := (paths{"arguments", "input", "action"}).value(item); valueText(args) != "" {
		c.arguments.replace(0, valueText(args))
	}
}

// foldReceipt leaves images out: they would fill the record.
func foldReceipt(a *answer, item gjson.Result, id, name string) {
	problem := item.Get("error")
	status := item.Get("status").Str
	failed := problem.Exists() && problem.Type != gjson.Null || status == "failed" || status == "incomplete"
	a.resolve(id, name, failed, paths{"output", "outputs", "results", "error"}.value(item))
}

// foldWhole takes the answer from the last frame.
func foldWhole(a *answer, doc gjson.Result) {
	var whole clip
	each(doc.Get("response.output"), func(item gjson.Result) {
		each(item.Get("content"), func(part gjson.Result) {
			if kind := part.Get("type").Str; kind == "output_text" || kind == "refusal" {
				whole.add(paths{"text", "refusal"}.text(part))
			}
		})
	})
	if len(whole.bytes) > 0 {
		a.text = whole
	}
	switch word := responseWord.text(doc); {
	case word == "failed":
		a.fail(errorOf(doc.Get("response.error"), false))
	case a.finish != "":
	case word == "completed":
		a.finish = a.ordinaryWord()
	default:
		a.finish = kept(word)
	}
}

// ordinaryWord is why an answer ended whose dialect has no word for it.
func (a *answer) ordinaryWord() string {
	for i := range a.calls {
		if !a.calls[i].resolved {
			return "tool_calls"
		}
	}
	return "stop"
}

// responsesFailure has the error twice, as the specification has it and as
// OpenAI sends it; the clients look for one or the other. Its number follows
// that of the last frame, where that is known.
func responsesFailure(f Failure) [][]byte {
	e := f.object(map[string]any{"message": f.Message, "type": f.Code, "code": f.Code, "param": nil})
	next := int64(0)
	if last := gjson.GetBytes(f.Last, "sequence_number"); last.Type == gjson.Number {
		next = last.Int() + 1
	}
	data := oneLine(map[string]any{
		"type": "error", "code": f.Code, "message": f.Message, "param": nil, "sequence_number": next,
		"error": json.RawMessage(e),
	})
	return [][]byte{eventFrame("error", data)}
}
