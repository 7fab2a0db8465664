package dialect

import "github.com/tidwall/gjson"

// foldMessageTuple takes a piece of a message: [piece, metadata].
func foldMessageTuple(a *answer, doc gjson.Result) {
	if !doc.IsArray() {
		return
	}
	message := doc.Get("0")
	if isAnswer(message) {
		foldContent(a, message.Get("content"))
		a.reasoning.add(message.Get(graphThought).Str)
		foldGraphCalls(a, message, false)
	}
	foldGraphTool(a, message)
}

// graphThought is where models put their reasoning that have no parts for it.
const graphThought = "additional_kwargs.reasoning_content"

// foldPartial takes a message that is repeated while it grows.
func foldPartial(a *answer, doc gjson.Result) {
	message := doc.Get("0")
	if id := kept(message.Get("id").Str); id != a.message {
		a.message, a.settled, a.thought = id, len(a.text.bytes), len(a.reasoning.bytes)
	}
	if !isAnswer(message) {
		return
	}
	var whole answer
	foldContent(&whole, message.Get("content"))
	whole.reasoning.add(message.Get(graphThought).Str)
	if text := whole.text.bytes; len(text) > 0 {
		a.text.replace(a.settled, string(text))
	}
	if thought := whole.reasoning.bytes; len(thought) > 0 {
		a.reasoning.replace(a.thought, string(thought))
	}
	foldGraphCalls(a, message, true)
}

// isAnswer: the message is the model's.
func isAnswer(message gjson.Result) bool {
	kind := message.Get("type").Str
	return kind == "ai" || kind == "AIMessageChunk"
}

// foldGraphCalls takes the calls of a message: in pieces, or whole ones again
// and again.
func foldGraphCalls(a *answer, message gjson.Result, grows bool) {
	chunks := message.Get("tool_call_chunks")
	each(chunks, func(t gjson.Result) {
		c := a.open(kept(message.Get("id").Str)+keyOf(t.Get("index")), t.Get("id").Str, t.Get("name").Str)
		if grows {
			c.arguments.replace(0, "")
		}
		c.arguments.add(t.Get("args").Str)
	})
	if chunks.Get("0").Exists() {
		return
	}
	each(message.Get("tool_calls"), func(t gjson.Result) {
		id := t.Get("id").Str
		a.open(id, id, t.Get("name").Str).arguments.replace(0, valueText(t.Get("args")))
	})
}

// eachGraphTool visits what tools answered in a list of messages, or in what
// nodes of the graph changed.
func eachGraphTool(doc gjson.Result, visit func(gjson.Result)) {
	one := func(message gjson.Result) {
		if message.Get("type").Str == "tool" {
			visit(message)
		}
	}
	if doc.IsArray() {
		each(doc, one)
		return
	}
	doc.ForEach(func(_, node gjson.Result) bool {
		each(node.Get("messages"), one)
		return true
	})
}

// readGraphTools: a message of a tool may come in several modes.
func readGraphTools(r *reader, doc gjson.Result, out *Facts) {
	eachGraphTool(doc, func(message gjson.Result) {
		answered := "answer to " + message.Get("tool_call_id").Str
		if r.names[answered] != "" {
			return
		}
		out.Observed, out.ToolName = true, kept(message.Get("name").Str)
		r.remember(answered, "came")
	})
}

func foldGraphTools(a *answer, doc gjson.Result) {
	eachGraphTool(doc, func(message gjson.Result) { foldGraphTool(a, message) })
}

func foldGraphTool(a *answer, message gjson.Result) {
	id := message.Get("tool_call_id").Str
	if message.Get("type").Str != "tool" || !a.first("answer to "+id) {
		return
	}
	a.resolve(id, message.Get("name").Str, message.Get("status").Str == "error", message.Get("content"))
}
