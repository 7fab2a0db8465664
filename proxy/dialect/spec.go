package dialect

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// spec is a dialect as a table: which rule a frame belongs to, and what the
// rules say.
type spec struct {
	Dialect
	// find returns the rule of a frame and the JSON in it. It returns nil for a
	// frame that tells nothing, and allocates nothing for an ordinary one.
	find  finder
	rules rules
	// plain returns the text of a frame of the usual form, which holds nothing
	// else but ids, without a parse. Nil where no form is usual.
	plain func(f *frame.Frame) (text []byte, ok bool)
	// words are what the words for how an answer ended mean. A word that is not
	// here is an ordinary end.
	words map[string]meaning
}

type (
	finder func(rules, *frame.Frame) (*rule, []byte)
	rules  map[string]*rule
)

// meaning is what a word for how an answer ended means.
type meaning struct {
	outcome Outcome
	reason  string
}

var (
	meansCut      = meaning{OutcomeCompleted, reasonLength}
	meansFiltered = meaning{OutcomeCompleted, reasonContentFilter}
	meansRefused  = meaning{OutcomeCompleted, reasonRefusal}
	meansAsking   = meaning{OutcomeCompleted, reasonInputRequired}
	meansFailed   = meaning{OutcomeFailed, reasonUpstreamError}
	meansStopped  = meaning{OutcomeCancelled, ""}
)

// rule says what the frames of one type tell. Places are paths into the JSON.
type rule struct {
	// id, conversation and model are looked up until they are known.
	id, conversation, model string
	// text and reasoning are pieces of the answer.
	text, reasoning paths
	// usage is where tokens are counted.
	usage *usage
	// tool is where a tool call or its result stands.
	tool *tool
	// finish is the word for how the answer ended; see spec.words.
	finish paths
	// fail is where the error stands; the run has failed.
	fail paths
	// end marks the end of the stream, settles says how it ended.
	end     bool
	settles meaning
	// bare tells that the frame is no JSON.
	bare bool
	// resumes tells that an agent which waited for input has it.
	resumes bool
	// is names the frame in neutral words where what it tells does not.
	is string

	// read and fold do what no path can say.
	read func(r *reader, data gjson.Result, out *Facts)
	fold func(a *answer, data gjson.Result)
}

// usage says where tokens are counted; the counts of several paths are added
// up.
type usage struct {
	input, output []string
	// whole tells that nothing more will be reported.
	whole bool
}

// tool says where a tool call stands.
type tool struct {
	key    string // what joins the frames of a call
	id     string // the call's id, if that is not the key
	name   string // the tool
	whole  string // the arguments
	piece  string // a further piece of the arguments
	result paths  // what came out
	// unless is true in a frame whose result will be replaced by a later one.
	unless string
	// failed: the result is an error. idle: the tool did not run.
	failed, idle bool
}

// paths are places where something may stand; the first that holds it counts.
// The empty path is the frame itself.
type paths []string

func (p paths) value(data gjson.Result) gjson.Result {
	for _, path := range p {
		if path == "" {
			return data
		}
		if v := data.Get(path); v.Exists() && v.Type != gjson.Null {
			return v
		}
	}
	return gjson.Result{}
}

// text returns the first string that is not empty.
func (p paths) text(data gjson.Result) string {
	for _, path := range p {
		if v := (paths{path}).value(data); v.Type == gjson.String && v.Str != "" {
			return v.Str
		}
	}
	return ""
}

// tells: the rule says something to a reader in every frame, not only ids.
func (l *rule) tells() bool {
	return l.usage != nil || l.end || l.settles.outcome != OutcomeNone || l.finish != nil || l.fail != nil ||
		l.tool != nil && (l.tool.name != "" || l.tool.result != nil) || l.read != nil
}

func (l *rule) names() bool { return l.id != "" || l.conversation != "" || l.model != "" }

// succeeds: frames of this rule can say that all went well. That is believed
// only if the frame is whole.
func (l *rule) succeeds() bool {
	return (l.end || l.finish != nil || l.read != nil || l.settles.outcome == OutcomeCompleted) && l.fail == nil && !l.bare
}

// dialect compiles the table.
func (s spec) dialect() *Dialect {
	d := s.Dialect
	d.cancels, d.stops = stopsOf(d.calls)
	d.NewReader = func() Reader { return &reader{spec: &s} }
	d.NewFolder = func() Folder { return &folder{spec: &s} }
	d.Type = s.typeOf
	if d.plausible == nil {
		d.plausible = func(f *frame.Frame) bool {
			l, _ := s.find(s.rules, f)
			return l != nil
		}
	}
	return &d
}

// typeOf reads and folds the frame alone and looks at what it told.
func (s *spec) typeOf(f *frame.Frame) string {
	l, data := s.find(s.rules, f)
	if l == nil {
		return "other"
	}
	alone := reader{spec: s}
	facts := alone.look(l, data)
	if alone.asking > 0 || alone.waiting || facts.Reason == reasonInputRequired {
		return "run.waiting"
	}
	if l.is != "" {
		return l.is
	}
	var a answer
	l.foldInto(&a, data, gjson.ParseBytes(data))
	if told := a.tells(); told != "other" || facts.Usage == nil {
		return told
	}
	return "usage"
}

// byEvent finds the rule by the event field, or by a member of the data where
// there is no such field.
func byEvent(name string) finder {
	inData := byMember(name)
	return func(rs rules, f *frame.Frame) (*rule, []byte) {
		if len(f.Event) == 0 || string(f.Event) == "message" {
			return inData(rs, f)
		}
		return rs[string(f.Event)], f.Data
	}
}

// byMember finds the rule by a member of the data, given as names joined by
// dots.
func byMember(name string) finder {
	return func(rs rules, f *frame.Frame) (*rule, []byte) {
		if kind, ok := leading(f.Data, name); ok {
			return rs[string(kind)], f.Data
		}
		if string(f.Data) == "[DONE]" {
			return rs["[DONE]"], f.Data
		}
		kind := unquoted(at(f.Data, name))
		return rs[string(kind)], f.Data
	}
}

// byName finds the rule by the event field alone: the data does not tell.
func byName(rs rules, f *frame.Frame) (*rule, []byte) { return rs[string(f.Event)], f.Data }

// errorOf reads an error object; whole tells that it is a frame of its own,
// whose type is not the error's.
func errorOf(v gjson.Result, whole bool) Error {
	if v.Type == gjson.String {
		return Error{Message: v.Str}
	}
	e := Error{
		Message: paths{"message", "errorText", "error", "detail"}.text(v),
		Code:    valueText(paths{"code", "status_code"}.value(v)),
		Type:    paths{"type", "status"}.text(v),
	}
	if whole {
		e.Type = ""
		if name := v.Get("error").Str; name != e.Message {
			e.Type = name
		}
	}
	if e.Message == "" {
		e.Message = v.Raw
	}
	return e
}

// each visits the elements of an array, and nothing else: of a null gjson makes
// an element.
func each(list gjson.Result, visit func(gjson.Result)) {
	if !list.IsArray() {
		return
	}
	list.ForEach(func(_, v gjson.Result) bool {
		visit(v)
		return true
	})
}

// present reports whether a member says something.
func present(v gjson.Result) bool {
	return v.Exists() && v.Type != gjson.Null && v.Type != gjson.False && (v.Type != gjson.String || v.Str != "")
}

// valid reports whether data is whole JSON. (It does not recurse: what is
// nested too deep is not valid.)
func valid(data []byte) bool { return json.Valid(data) }
