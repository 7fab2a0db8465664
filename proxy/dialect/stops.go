package dialect

import "strings"

// Stop is a client's own call to the backend that stops a run, as far as its
// address tells.
type Stop struct {
	Call *ControlCall
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
			return Stop{Call: call, UpstreamID: vars["upstream_id"], Conversation: vars["upstream_conversation_id"]}, true
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

// Taken is the answer of a backend that took the call: its status, and its body
// with the names filled in by value, which makes JSON of them. stopped tells
// that nothing runs any more.
func (c *ControlCall) Taken(upstreamID string, stopped bool) (status int, body []byte) {
	state := c.taken.stopping
	if stopped {
		state = c.taken.stopped
	}
	text := strings.NewReplacer("{upstream_id}", string(oneLine(upstreamID)), "{state}", string(oneLine(state))).Replace(c.taken.body)
	return c.taken.status, []byte(text)
}
