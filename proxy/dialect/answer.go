package dialect

import (
	"slices"

	"github.com/tidwall/gjson"
)

// answer is a snapshot in the making.
type answer struct {
	seq       uint64 // of the frame being folded
	text      clip
	reasoning clip
	finish    string
	calls     []call
	byKey     map[string]int // places in calls, by what joins their frames and by id
	receipts  []Receipt
	err       *Error
	cut       bool // an error or a result was cut
	// stated is all of the text as upstream said it in one piece after the others.
	stated *clip

	// message and settled serve dialects that repeat a message while it grows:
	// whose text is growing, and how much text stood before it.
	message      string
	settled      int
	thought      int  // likewise, how much reasoning
	settledCalls int  // and how many calls
	over         bool // the run that was folded last has ended
	// parts serves dialects whose pieces name a part by its place: what each is.
	parts []part
}

// part is what a part of an answer holds.
type part uint8

const (
	partOther part = iota
	partText
	partReasoning
	partCall
)

// call is a tool call as far as it is known.
type call struct {
	seq       uint64
	id, name  string
	arguments clip
	growing   *growing // where arguments stand that come leaf by leaf
	resolved  bool
}

// open returns the call whose frames are joined on key, and completes what is
// known of it. Another id under the same key is another call: some backends
// number every parallel call 0.
func (a *answer) open(key, id, name string) *call {
	i := a.place(key)
	if i < 0 || id != "" && a.calls[i].id != "" && a.calls[i].id != id {
		i = a.begin(key)
	}
	c := &a.calls[i]
	if id = kept(id); c.id == "" && id != "" {
		c.id = id
		a.byKey[id] = i
	}
	if c.name == "" {
		c.name = kept(name)
	}
	return c
}

func (a *answer) begin(key string) int {
	a.calls = append(a.calls, call{seq: a.seq})
	a.mark(key, len(a.calls)-1)
	return len(a.calls) - 1
}

func (a *answer) mark(key string, i int) {
	if a.byKey == nil {
		a.byKey = map[string]int{}
	}
	a.byKey[kept(key)] = i
}

// first reports whether something is told for the first time.
func (a *answer) first(what string) bool {
	_, known := a.byKey[what]
	if !known {
		a.mark(what, 0)
	}
	return !known
}

// place finds a call by what joins its frames or by its id; without either it
// is the one that began last. It is -1 if there is none.
func (a *answer) place(key string) int {
	if key == "" {
		return len(a.calls) - 1
	}
	if i, ok := a.byKey[key]; ok {
		return i
	}
	return -1
}

// resolve notes the result of a call, found by what joins its frames or by its
// id. The name is that of the call unless the frame gives one.
func (a *answer) resolve(key, name string, failed bool, result gjson.Result) {
	r := Receipt{Seq: a.seq, CallID: kept(key), Name: kept(name), Status: statusSucceeded}
	if failed {
		r.Status = statusFailed
	}
	if i := a.place(key); i >= 0 && key != "" {
		c := &a.calls[i]
		c.resolved, r.CallID = true, c.id
		if r.Name == "" {
			r.Name = c.name
		}
	}
	if result.Exists() && result.Type != gjson.Null {
		text, cut := clipped(valueText(result))
		r.Result = &text
		a.cut = a.cut || cut
	}
	a.receipts = append(a.receipts, r)
}

// settleReceipt completes the receipt that was noted last with a result that
// came after it.
func (a *answer) settleReceipt(failed bool, result gjson.Result) {
	n := len(a.receipts)
	if n == 0 || !result.Exists() {
		return
	}
	last := a.receipts[n-1] // snapshots share the old one
	text, cut := clipped(valueText(result))
	last.Result, a.cut = &text, a.cut || cut
	if failed {
		last.Status = statusFailed
	}
	a.receipts = append(slices.Clone(a.receipts[:n-1]), last)
}

// state notes all of the text; see [Snapshot.Restate].
func (a *answer) state(text string) {
	a.stated = new(clip)
	a.stated.add(text)
}

// fail notes what went wrong. The first error is the cause; those after it are
// its consequence.
func (a *answer) fail(e Error) {
	if a.err != nil {
		return
	}
	message, cut := clipped(e.Message)
	a.err = &Error{Message: message, Code: kept(e.Code), Type: kept(e.Type)}
	a.cut = a.cut || cut
}

func (a *answer) snapshot() Snapshot {
	s := Snapshot{stated: a.stated, Truncated: a.cut, Error: a.err, ToolReceipts: []Receipt{}, Unresolved: []Call{}}
	s.Text = s.take(&a.text)
	if len(a.reasoning.bytes) > 0 {
		s.Reasoning = new(s.take(&a.reasoning))
	}
	if a.finish != "" {
		s.FinishReason = new(a.finish)
	}
	if n := len(a.receipts); n > 0 {
		s.ToolReceipts = a.receipts[:n:n] // the capacity keeps a caller's own out
	}
	for i := range a.calls {
		if c := &a.calls[i]; !c.resolved {
			s.Unresolved = append(s.Unresolved, Call{Seq: c.seq, CallID: c.id, Name: c.name, Arguments: s.take(&c.arguments)})
		}
	}
	return s
}

// take returns what was collected, and notes whether that is not all.
func (s *Snapshot) take(c *clip) string {
	text, cut := c.text()
	s.Truncated = s.Truncated || cut
	return text
}

// tells names what was folded in neutral words. Of several things in one frame
// the one a reader waits for comes first.
func (a *answer) tells() string {
	switch {
	case a.err != nil:
		return "error"
	case len(a.text.bytes) > 0:
		return "text.delta"
	case len(a.reasoning.bytes) > 0:
		return "reasoning.delta"
	case len(a.receipts) > 0 && a.receipts[0].Status == statusFailed:
		return "tool.failed"
	case len(a.receipts) > 0:
		return "tool.completed"
	case len(a.calls) > 0 && a.calls[0].name != "":
		return "tool.requested"
	case a.finish != "":
		return "message.completed"
	default:
		return "other"
	}
}

// valueText is the text of a value: a string's content, nothing for null, the
// JSON of anything else.
func valueText(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	if v.Type == gjson.Null {
		return ""
	}
	return v.Raw
}
