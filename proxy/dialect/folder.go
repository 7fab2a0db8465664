package dialect

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// folder is the [Folder] of a spec.
type folder struct {
	spec   *spec
	answer answer
}

// Fold implements [Folder].
func (o *folder) Fold(seq uint64, f *frame.Frame) {
	if o.spec.plain != nil {
		if text, ok := o.spec.plain(f); ok {
			o.answer.text.addBytes(text)
			return
		}
	}
	l, data := o.spec.find(o.spec.rules, f)
	if l == nil || !l.folds() {
		return
	}
	o.answer.seq = seq
	l.foldInto(&o.answer, data, gjson.ParseBytes(data))
}

// Snapshot implements [Folder].
func (o *folder) Snapshot() Snapshot { return o.answer.snapshot() }

func (l *rule) folds() bool {
	return l.text != nil || l.reasoning != nil || l.tool != nil || l.finish != nil || l.fail != nil || l.fold != nil
}

func (l *rule) foldInto(a *answer, data []byte, doc gjson.Result) {
	if l.text != nil {
		a.text.add(l.text.text(doc))
	}
	if l.reasoning != nil {
		a.reasoning.add(l.reasoning.text(doc))
	}
	if l.tool != nil {
		l.tool.foldInto(a, doc)
	}
	if word := l.finish.text(doc); word != "" {
		a.finish = kept(word)
	}
	if l.fail != nil {
		l.foldError(a, data, doc)
	}
	if l.fold != nil {
		l.fold(a, doc)
	}
}

// foldError: an error need not be JSON to be one.
func (l *rule) foldError(a *answer, data []byte, doc gjson.Result) {
	if !valid(data) {
		a.fail(Error{Message: string(data)})
		return
	}
	v := l.fail.value(doc)
	a.fail(errorOf(v, len(v.Raw) == len(doc.Raw)))
}

func (t *tool) foldInto(a *answer, doc gjson.Result) {
	key := keyOf(doc.Get(t.key))
	if t.result != nil {
		if t.unless == "" || !doc.Get(t.unless).Bool() {
			a.resolve(key, t.nameIn(doc), t.failed, t.result.value(doc))
		}
		return
	}
	c := t.callOf(a, key, doc)
	if c == nil {
		return
	}
	if t.whole != "" {
		if whole := doc.Get(t.whole); whole.Exists() {
			c.arguments.replace(0, valueText(whole))
		}
	}
	if t.piece != "" {
		c.arguments.add(doc.Get(t.piece).Str)
	}
}

func (t *tool) nameIn(doc gjson.Result) string {
	if t.name == "" {
		return ""
	}
	return doc.Get(t.name).Str
}

// callOf returns the call that the frame is about. A piece of a call that was
// never opened is about none.
func (t *tool) callOf(a *answer, key string, doc gjson.Result) *call {
	switch i := a.place(key); {
	case t.name == "" && i < 0:
		return nil
	case t.name == "":
		return &a.calls[i]
	case t.id == "":
		return a.open(key, key, doc.Get(t.name).Str)
	default:
		return a.open(key, doc.Get(t.id).Str, doc.Get(t.name).Str)
	}
}
