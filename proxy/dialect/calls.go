package dialect

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Calls are the requests that a backend takes about one of its runs, for
// starts of one form. A dialect has a table of them; the first entry that fits
// the start counts.
type Calls struct {
	// start is the end of the start's path; {name} captures a segment, * is any.
	start string
	// when, if set, is a member of the start's body and the value that it has.
	when condition
	// Cancel stops the run, Status tells how it stands, and Join is answered by
	// the rest of its stream. Nil where the backend has no such call.
	Cancel, Status, Join *ControlCall
	// Pause tells of a run that Status calls completed whether it waits for
	// somebody's input; nil where Status tells that, too.
	Pause *ControlCall
	// bulk is another call by which clients stop such runs, many at once.
	bulk *ControlCall
}

// condition is a member of a body and the value that it has; anyValue is any
// text that is not empty.
type condition struct{ path, value string }

const anyValue = "*"

func (c condition) holds(v gjson.Result) bool {
	if c.value == anyValue {
		return v.Type == gjson.String && v.Str != ""
	}
	return v.String() == c.value
}

// ControlCall is one request of a table. Variables stand in braces: {prefix} is the
// path of the start up to what the table's pattern matched, {start_path} all of
// it, {upstream_id} and {upstream_conversation_id} are upstream's own ids, a name that
// the pattern captured is that segment, {request.x} is the member x of the
// start's body, and {position}, of a Join alone, is upstream's own name of the
// last frame that arrived.
type ControlCall struct {
	Method string
	// Path is a template; each variable but the first two is one segment or one
	// query value.
	Path string
	// Body is a template of JSON in which variables are whole values; empty means
	// no body.
	Body string
	// Accept is the field of that name; empty means application/json.
	Accept string
	// ByEventID tells that the position goes in the field Last-Event-ID.
	ByEventID bool
	// Silent tells that the backend may keep the stream open for ever after it
	// took the call.
	Silent bool

	// state is where the answer says how the run stands, and words are what it
	// says there. Without words an answer tells nothing but its status.
	state paths
	words map[string]Standing
	// refusal is where an answer says that the call failed whose status does not.
	refusal string
	// taken is the backend's answer to a cancel call, and form what the bodies of
	// such calls look like: the template with its variables as texts.
	taken taken
	form  gjson.Result
	// last makes the last data of a stream of the answer to a Status call; nil
	// where that does not hold all that the run has made.
	last func(answer []byte) []byte
	// needs, if set, is a member of the start's body without which the backend
	// does not take the call.
	needs condition
}

// Standing is what a backend says about a run when it is asked.
type Standing uint8

// The standings. StandingPaused means that the turn is over and waits for
// somebody's input.
const (
	StandingUnknown Standing = iota
	StandingRunning
	StandingCompleted
	StandingFailed
	StandingCancelled
	StandingPaused
)

// Standing reads how the run stands from the body of an answer.
func (c *ControlCall) Standing(body []byte) Standing {
	if len(c.words) == 0 || !gjson.ValidBytes(body) {
		return StandingUnknown
	}
	return c.words[strings.ToLower(c.state.text(gjson.ParseBytes(body)))]
}

// TellsAll reports whether the answer holds all that the run has made: see
// [ControlCall.Last].
func (c *ControlCall) TellsAll() bool { return c.last != nil }

// Last makes the last frame of a stream of an answer that tells how the run
// ended and what it made. It is nil if the answer does not tell that.
func (c *ControlCall) Last(answer []byte) []byte {
	if c.last == nil || !gjson.ValidBytes(answer) {
		return nil
	}
	var line bytes.Buffer
	if json.Compact(&line, c.last(answer)) != nil {
		return nil
	}
	return dataFrame(line.Bytes())
}

// Refused reports whether the body of an answer says that the call failed,
// whatever its status.
func (c *ControlCall) Refused(body []byte) bool {
	return c.refusal != "" && gjson.GetBytes(body, c.refusal).Exists()
}

// Origin is what is remembered of a start for the calls about its run. It holds
// no credential.
type Origin struct {
	// Path is the escaped path of the start as it went upstream.
	Path string `json:"p"`
	// Fields are the members of the start's body that some call repeats, as raw
	// JSON.
	Fields map[string]json.RawMessage `json:"f,omitempty"`
	// Session is that of [SessionOf].
	Session string `json:"s,omitempty"`
}

// maxField bounds a remembered member, in bytes.
const maxField = 256

// Remember returns what calls about a run will need of its start. ok tells
// whether any dialect has a call for such a start at all.
func Remember(path string, body []byte) (o Origin, ok bool) {
	o.Path = path
	for _, d := range all {
		for i := range d.calls {
			if d.calls[i].fits(path, body) {
				ok = true
				o.keep(&d.calls[i], body)
			}
		}
	}
	return o, ok
}

// keep remembers the members of the body that an entry names.
func (o *Origin) keep(c *Calls, body []byte) {
	names := requested(c.Cancel, c.Status, c.Pause, c.Join)
	if c.when.path != "" {
		names = append(names, c.when.path)
	}
	if c.Join != nil && c.Join.needs.path != "" {
		names = append(names, c.Join.needs.path)
	}
	for _, name := range names {
		v := gjson.GetBytes(body, name)
		if !v.Exists() || len(v.Raw) > maxField || v.IsObject() || v.IsArray() {
			continue
		}
		if o.Fields == nil {
			o.Fields = make(map[string]json.RawMessage)
		}
		o.Fields[name] = json.RawMessage(v.Raw)
	}
}

// requested are the members of the body that the templates of calls name.
func requested(calls ...*ControlCall) (names []string) {
	for _, c := range calls {
		if c == nil {
			continue
		}
		for _, part := range strings.Split(c.Path+c.Body, "{request.")[1:] {
			name, _, _ := strings.Cut(part, "}")
			names = append(names, name)
		}
	}
	return names
}

func (c *Calls) fits(path string, body []byte) bool {
	if _, ok := capture(c.start, path, nil); !ok {
		return false
	}
	if c.when.path == "" {
		return true
	}
	sought := c.when.value
	if sought == anyValue {
		sought = c.when.path
	}
	return bytes.Contains(body, []byte(sought)) && c.when.holds(gjson.GetBytes(body, c.when.path)) // the former is cheap
}

// Allows reports whether the start said what the backend needs to take the
// call.
func (o *Origin) Allows(c *ControlCall) bool {
	return c.needs.path == "" || c.needs.holds(gjson.ParseBytes(o.Fields[c.needs.path]))
}

// CallsOf returns the calls that the dialect has for a start, and the
// variables that its path tells.
func (d *Dialect) CallsOf(o *Origin) (calls *Calls, vars map[string]string) {
	for i := range d.calls {
		c := &d.calls[i]
		if c.when.path != "" && !c.when.holds(gjson.ParseBytes(o.Fields[c.when.path])) {
			continue
		}
		vars = map[string]string{"start_path": o.Path}
		prefix, ok := capture(c.start, o.Path, vars)
		if !ok {
			continue
		}
		vars["prefix"] = prefix
		return c, vars
	}
	return nil, nil
}

// capture matches the end of an escaped path with a pattern and returns what
// stands before it. What stands in its named segments goes into vars, which may
// be nil.
func capture(pattern, path string, vars map[string]string) (prefix string, ok bool) {
	rest := strings.TrimSuffix(path, "/")
	for pattern != "" {
		var want, got string
		pattern, want = cutLast(pattern)
		rest, got = cutLast(rest)
		name, open := strings.CutPrefix(want, "{")
		if !open {
			if !matchSegment(want, got) {
				return "", false
			}
			continue
		}
		name, suffix, _ := strings.Cut(name, "}")
		got, ends := strings.CutSuffix(got, suffix)
		value, err := url.PathUnescape(got)
		if err != nil || value == "" || !ends {
			return "", false
		}
		if vars != nil {
			vars[name] = value
		}
	}
	return rest, true
}
