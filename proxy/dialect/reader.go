package dialect

import (
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// reader is the [Reader] of a spec: the state of one run.
type reader struct {
	spec *spec

	own   string // the run id that the client chose, if it did
	owned bool   // and the stream has it

	id, conversation, model bool // known
	tries                   int  // frames looked at for ids
	over                    bool // failed or cancelled: no success may follow
	finished                bool // the answer has ended
	refused                 bool // a refusal was seen
	asking                  int  // questions without an answer
	waiting                 bool // told to wait for an answer in the open stream
	outer                   bool // a workflow is around the answer, and ends after it
	parts                   int  // of the answer, so far
	usage                   Usage
	names                   map[string]string // of tools, by call
}

// maxTries is how many frames are searched for ids. A backend that gives none
// must not cost a parse per frame.
const maxTries = 16

// maxTools bounds the tool calls whose names are remembered.
const maxTools = 1024

// Read implements [Reader].
func (r *reader) Read(f *frame.Frame) Facts {
	if r.spec.plain != nil && (r.id && r.model || r.tries >= maxTries) {
		if _, ok := r.spec.plain(f); ok {
			return Facts{}
		}
	}
	l, data := r.spec.find(r.spec.rules, f)
	if l == nil || !l.tells() && !r.wants(l) && (!r.waiting || !l.resumes) {
		return Facts{}
	}
	return r.look(l, data)
}

// wants reports whether frames of l may still tell an id.
func (r *reader) wants(l *rule) bool {
	return l.names() && r.tries < maxTries && (l.id != "" && !r.id || l.conversation != "" && !r.conversation || l.model != "" && !r.model)
}

func (r *reader) look(l *rule, data []byte) Facts {
	if l.succeeds() && !valid(data) {
		return Facts{}
	}
	var out Facts
	doc := gjson.ParseBytes(data)
	if r.wants(l) {
		r.tries++
		out.UpstreamID = learn(&r.id, l.id, doc)
		out.ConversationID = learn(&r.conversation, l.conversation, doc)
		out.Model = learn(&r.model, l.model, doc)
	}
	if l.usage != nil {
		r.count(l.usage, doc, &out)
	}
	if l.tool != nil {
		r.useTool(l.tool, doc, &out)
	}
	r.settle(l, doc, &out)
	if l.read != nil {
		l.read(r, doc, &out)
	}
	if l.resumes {
		r.goOn(&out)
	}
	return r.sobered(out)
}

// learn returns an id when it is first seen. An empty one is none: Azure's
// first chunk has one.
func learn(known *bool, path string, doc gjson.Result) string {
	if *known || path == "" {
		return ""
	}
	id := kept(paths{path}.text(doc))
	*known = id != ""
	return id
}

// count keeps earlier counts where the frame has none, and tells only what
// changed. A message that begins after the last one was complete has more to
// report.
func (r *reader) count(u *usage, doc gjson.Result, out *Facts) {
	next := r.usage
	in, someIn := sum(u.input, doc)
	o, someOut := sum(u.output, doc)
	if !someIn && !someOut {
		return
	}
	if someIn {
		next.InputTokens = in
	}
	if someOut {
		next.OutputTokens = o
	}
	next.Complete = u.whole
	if next != r.usage {
		r.usage = next
		out.Usage = &next
	}
}

// sum adds the numbers at several places up; a place may hold a list of them.
func sum(where []string, doc gjson.Result) (n int64, some bool) {
	for _, path := range where {
		doc.Get(path).ForEach(func(_, v gjson.Result) bool {
			if v.Type == gjson.Number && v.Num >= 0 {
				n, some = n+v.Int(), true
			}
			return true
		})
	}
	return n, some
}

func (r *reader) useTool(t *tool, doc gjson.Result, out *Facts) {
	key := keyOf(doc.Get(t.key))
	if t.name != "" {
		r.remember(key, doc.Get(t.name).Str)
	}
	if t.result == nil || t.idle || t.unless != "" && doc.Get(t.unless).Bool() {
		return
	}
	out.Observed, out.ToolName = true, r.names[key]
}

func (r *reader) remember(key, name string) {
	if key == "" || name == "" || len(r.names) >= maxTools {
		return
	}
	if r.names == nil {
		r.names = map[string]string{}
	}
	if key, name = kept(key), kept(name); key != "" {
		r.names[key] = name
	}
}

// settle reads how the answer ended.
func (r *reader) settle(l *rule, doc gjson.Result, out *Facts) {
	out.End = l.end
	switch {
	case l.fail != nil:
		r.conclude(meansFailed, out)
	case l.settles.outcome != OutcomeNone:
		r.conclude(l.settles, out)
	case l.finish != nil:
		if word := l.finish.text(doc); word != "" {
			r.finish(word, out)
		}
	}
}

// finish says what a word for the end of the answer means. An ordinary word
// after a refusal, or with a question open, is not the whole truth.
func (r *reader) finish(word string, out *Facts) {
	m, ok := r.spec.words[word]
	if !ok {
		m = r.ordinaryEnd()
	}
	r.conclude(m, out)
}

func (r *reader) ordinaryEnd() meaning {
	switch {
	case r.refused:
		return meansRefused
	case r.asking > 0:
		return meansAsking
	default:
		return meaning{outcome: OutcomeCompleted}
	}
}

func (r *reader) conclude(m meaning, out *Facts) {
	r.finished = true
	out.Outcome, out.Reason = m.outcome, m.reason
}

// wait tells that the agent waits for input while the stream stays open.
func (r *reader) wait(out *Facts) {
	if !r.waiting {
		r.waiting, out.Waiting = true, 1
	}
}

// goOn tells that it waits no more.
func (r *reader) goOn(out *Facts) {
	if r.waiting {
		r.waiting, out.Waiting = false, -1
	}
}

// sobered drops a success that follows an error.
func (r *reader) sobered(out Facts) Facts {
	if r.over && out.Outcome != OutcomeFailed {
		out.Outcome, out.Reason = OutcomeNone, ""
	}
	if out.Outcome == OutcomeFailed || out.Outcome == OutcomeCancelled {
		r.over = true
	}
	return out
}

// keyOf is what joins the frames of a call: an id, or a place in a list, which
// must not look like an id.
func keyOf(v gjson.Result) string {
	if v.Type == gjson.Number {
		return "#" + strconv.FormatInt(v.Int(), 10)
	}
	return v.Str
}
