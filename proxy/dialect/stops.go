package dialect

import (
	"net/http"
	"strings"
)

// Stop is a client's own call to the backend that stops a run, as far as its
// address tells.
type Stop struct {
	// UpstreamID and Conversation are upstream's names of what is to be stopped;
	// one of them is not empty.
	UpstreamID, Conversation string
}

// taken is how a backend answers a cancel call that it takes.
type taken struct {
	status int
	body   string // a template with {upstream_id} and {state}
	// stopped and stopping are the words for {state}.
	stopped, stopping string
}

// first is the first of the names that has a value.
func (p paths) first(vars map[string]string) string {
	for _, name := range p {
		if v := vars[name]; v != "" {
			return v
		}
	}
	return ""
}

// StopAt reads a request as a cancel call of some dialect. The path is escaped.
func StopAt(method, path string) (s Stop, ok bool) {
	for _, d := range all {
		for i := range d.calls {
			call := d.calls[i].Cancel
			if call == nil || call.Method != method {
				continue
			}
			pattern, addressed := call.pattern()
			if !addressed {
				continue
			}
			if _, fits := capture(pattern, path, nil); !fits {
				continue
			}
			vars := map[string]string{}
			capture(pattern, path, vars)
			s = Stop{UpstreamID: vars["upstream_id"], Conversation: paths{"upstream_conversation_id", "request.chatId"}.first(vars)}
			if s != (Stop{}) {
				return s, true
			}
		}
	}
	return Stop{}, false
}

// pattern is the end of the path of the calls that the template makes. Calls
// that all go to one path are told apart by their bodies alone.
func (c *ControlCall) pattern() (string, bool) {
	path, _, _ := strings.Cut(c.Path, "?")
	return strings.CutPrefix(path, "{prefix}")
}

// Taken is the answer of a backend that took a cancel call to an escaped path:
// its status and its body. stopped tells that nothing runs any more.
func (d *Dialect) Taken(path, upstreamID string, stopped bool) (status int, body []byte) {
	t := taken{status: http.StatusAccepted}
	for i := range d.calls {
		call := d.calls[i].Cancel
		if call == nil || call.taken.status == 0 {
			continue
		}
		pattern, _ := call.pattern()
		if _, fits := capture(pattern, path, nil); fits {
			t = call.taken
			break
		}
	}
	state := t.stopping
	if stopped {
		state = t.stopped
	}
	text := strings.NewReplacer("{upstream_id}", string(oneLine(upstreamID)), "{state}", string(oneLine(state))).Replace(t.body)
	return t.status, []byte(text)
}
