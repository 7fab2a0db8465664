package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// Stop is a client's own call to the backend that stops runs.
type Stop struct {
	// UpstreamIDs and Conversation are upstream's names of what is to be stopped.
	// Where both are empty, the call names the request that began the run: see
	// [Stop.Means].
	UpstreamIDs  []string
	Conversation string
	// Dialect is whose call it is, as far as that is known: some backends have
	// the same paths.
	Dialect *Dialect
	// InBody tells that what is to be stopped stands in the body. Until the body
	// was read, nothing is named; see [Stop.Read].
	InBody bool

	call *ControlCall
	path string
	vars map[string][]string
	id   string // of the message, as raw JSON, where an answer repeats it
}

// StopAt reads a request as a cancel call of some dialect by its address. The
// path is escaped.
func StopAt(method, path string) (s Stop, ok bool) {
	for _, d := range all {
		for _, call := range d.stops {
			pattern, addressed := call.pattern()
			if call.Method != method || !addressed {
				continue
			}
			captured := map[string]string{}
			if _, fits := capture(pattern, path, captured); !fits {
				continue
			}
			s = Stop{Dialect: d, call: call, path: path, vars: map[string][]string{}}
			for name, v := range captured {
				s.vars[name] = []string{v}
			}
			if s.name(); s.named() {
				return s, true
			}
			if s.InBody = call.form.IsObject(); s.InBody {
				return s, true
			}
		}
	}
	return Stop{}, false
}

// StopIn reads the body of a POST to any path as a cancel call: those that all
// go to one path are told apart by their bodies alone. The path is escaped.
func StopIn(path string, body []byte) (s Stop, ok bool) {
	for _, d := range all {
		for _, call := range d.stops {
			if _, addressed := call.pattern(); addressed || call.Method != http.MethodPost {
				continue
			}
			if s, ok = (Stop{Dialect: d, InBody: true, call: call, path: path}).Read(body); ok {
				return s, true
			}
		}
	}
	return Stop{}, false
}

// Read reads the body of a call that names in it what is to be stopped. It
// reports whether it does.
func (s Stop) Read(body []byte) (Stop, bool) {
	if !gjson.ValidBytes(body) {
		return s, false
	}
	vars := map[string][]string{}
	doc := gjson.ParseBytes(body)
	if !fill(s.call.form, doc, vars) {
		return s, false
	}
	maps.Copy(vars, s.vars)
	if len(vars["run_id"]) > 0 {
		s.id = doc.Get("id").Raw
	}
	s.vars = vars
	s.name()
	return s, s.named() || len(vars) > 0
}

// fill compares a body with the form of those that a template makes, and notes
// what stands in the places of its variables. Members that the form does not
// have are ignored. A list of one variable is any number of values.
func fill(form, doc gjson.Result, vars map[string][]string) (fits bool) {
	switch {
	case form.IsObject():
		fits = doc.IsObject()
		form.ForEach(func(name, want gjson.Result) bool {
			fits = fits && fill(want, doc.Get(gjson.Escape(name.Str)), vars)
			return fits
		})
		return fits
	case form.IsArray():
		fits = doc.IsArray() && doc.Get("0").Exists()
		each(doc, func(element gjson.Result) { fits = fits && fill(form.Get("0"), element, vars) })
		return fits
	case strings.HasPrefix(form.Str, "{"):
		name, text := strings.Trim(form.Str, "{}"), doc.String()
		if doc.Type != gjson.String && doc.Type != gjson.Number || kept(text) != text || text == "" {
			return false
		}
		vars[name] = append(vars[name], text)
		return true
	default:
		return form.Type == doc.Type && form.String() == doc.String()
	}
}

// name sets what the variables name.
func (s *Stop) name() {
	s.UpstreamIDs = s.vars["upstream_id"]
	for _, name := range []string{"upstream_conversation_id", "request.chatId"} {
		if v := s.vars[name]; len(v) > 0 && s.Conversation == "" {
			s.Conversation = v[0]
		}
	}
}

func (s *Stop) named() bool { return len(s.UpstreamIDs) > 0 || s.Conversation != "" }

// Means reports whether a call that names neither a run nor a conversation is
// the one that would stop the run of a start, in the session of the caller.
func (s *Stop) Means(o *Origin, session string) bool {
	calls, _ := s.Dialect.CallsOf(o)
	if calls == nil || calls.Cancel != s.call || o.Path != s.path || o.Session != session {
		return false
	}
	for name, v := range s.vars {
		if member, ok := strings.CutPrefix(name, "request."); ok && gjson.ParseBytes(o.Fields[member]).String() != v[0] {
			return false
		}
	}
	return true
}

// SessionOf stands for the session of a client of MCP, whose requests are
// numbered anew in each. Empty: it has none.
func SessionOf(h http.Header) string {
	id := h.Get("Mcp-Session-Id")
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id)) // it may be a credential
	return hex.EncodeToString(sum[:8])
}

// pattern is the end of the path of the calls that the template makes. Calls
// that all go to one path are told apart by their bodies alone.
func (c *ControlCall) pattern() (string, bool) {
	path, _, _ := strings.Cut(c.Path, "?")
	return strings.CutPrefix(path, "{prefix}")
}

// stopsOf returns the calls of a table that stop a run, and all by which clients
// do so; it prepares the calls of the table to be recognised.
func stopsOf(calls []Calls) (cancels, stops []*ControlCall) {
	for i := range calls {
		for _, call := range []*ControlCall{calls[i].Cancel, calls[i].bulk} {
			if call == nil {
				continue
			}
			call.form = formOf(call.Body)
			stops = append(stops, call)
		}
		if join := calls[i].Join; join != nil {
			join.form = formOf(join.Body)
		}
		if calls[i].Cancel != nil {
			cancels = append(cancels, calls[i].Cancel)
		}
	}
	return cancels, stops
}

// formOf is what the bodies of a template look like.
func formOf(template string) gjson.Result {
	return gjson.Parse(variable.ReplaceAllString(template, `"$0"`))
}

var variable = regexp.MustCompile(`\{[a-zA-Z_.]+\}`)
