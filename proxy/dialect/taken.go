package dialect

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// taken is how a backend answers a cancel call that it takes.
type taken struct {
	status int
	// body is a template with {upstream_id}, {upstream_conversation_id}, {state}
	// and {message_id}; {each} is the template each, once for each run, with
	// commas between.
	body string
	// stopped and stopping are the words for {state}.
	stopped, stopping string
	each              string
}

// Stopped is a run that a cancel call stopped.
type Stopped struct {
	Dialect                  string
	UpstreamID, Conversation string
	// Over tells that nothing runs any more.
	Over bool
}

// Own reports whether the call is the one that the gateway makes for a run of a
// dialect: its answer is then the answer.
func (s *Stop) Own(dialectName string) bool {
	d, known := Lookup(dialectName)
	return known && slices.Contains(d.cancels, s.in(d))
}

// in is the call of a dialect that the request is: the dialects of some backends
// have the same paths.
func (s *Stop) in(d *Dialect) *ControlCall {
	if s.InBody || slices.Contains(d.stops, s.call) {
		return s.call
	}
	for _, call := range d.stops {
		pattern, addressed := call.pattern()
		if _, fits := capture(pattern, s.path, nil); addressed && fits {
			return call
		}
	}
	return s.call
}

// Call is the entry of the table that the request is.
func (s *Stop) Call() *ControlCall { return s.call }

// Taken is the answer of a backend that took the call: its status and its body.
func (s *Stop) Taken(runs []Stopped) (status int, body []byte) {
	t := taken{status: http.StatusAccepted}
	if d, known := Lookup(runs[0].Dialect); known {
		if own := s.in(d).taken; own.status != 0 {
			t = own
		}
	}
	texts := make([]string, len(runs))
	for i := range runs {
		texts[i] = s.fillIn(t.each, &t, &runs[i])
	}
	whole := strings.ReplaceAll(s.fillIn(t.body, &t, &runs[0]), "{each}", strings.Join(texts, ","))
	return t.status, []byte(whole)
}

func (s *Stop) fillIn(template string, t *taken, run *Stopped) string {
	state := t.stopping
	if run.Over {
		state = t.stopped
	}
	return strings.NewReplacer(
		"{upstream_id}", string(oneLine(run.UpstreamID)), "{upstream_conversation_id}", string(oneLine(run.Conversation)),
		"{state}", string(oneLine(state)), "{message_id}", s.id,
	).Replace(template)
}

// Answer makes the backend's answer to the gateway's own call one to the
// client's: of messages that are numbered it bears the number.
func (s *Stop) Answer(body []byte) []byte {
	id := gjson.GetBytes(body, "id")
	if s.id == "" || id.Index == 0 || !gjson.ValidBytes(body) {
		return body
	}
	return slices.Concat(body[:id.Index], []byte(s.id), body[id.Index+len(id.Raw):])
}
