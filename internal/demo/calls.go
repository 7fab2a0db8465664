package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// keptCalls is how many calls are remembered one by one.
const keptCalls = 50

// The states of a call, from the agent's own point of view.
const (
	running  = "running"
	finished = "finished"
	failed   = "failed"
	hungUp   = "hung_up" // the reader went away before the end
)

// seen is what the agent knows about one call of it.
type seen struct {
	ID     string `json:"id"`
	Script string `json:"script"`
	State  string `json:"state"`
	// Frames counts the pieces sent so far, [DONE] included; 0 for an answer in
	// one body.
	Frames int `json:"frames"`
}

// calls remembers the newest calls and counts all.
type calls struct {
	mu    sync.Mutex // guards everything below
	total int
	last  []*seen // oldest first
}

// begin counts a call and gives it an id.
func (c *calls) begin(script string) *seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	s := &seen{ID: fmt.Sprintf("chatcmpl-demo-%d", c.total), Script: script, State: running}
	c.last = append(c.last, s)
	if len(c.last) > keptCalls {
		c.last = c.last[1:]
	}
	return s
}

// sent counts one frame of a call.
func (c *calls) sent(s *seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Frames++
}

// end sets how a call ended, unless it has ended already.
func (c *calls) end(s *seen, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.State == running {
		s.State = state
	}
}

// tally is the answer of GET /agent/calls, newest call first.
type tally struct {
	Total int    `json:"total"`
	Calls []seen `json:"calls"`
}

func (c *calls) tally() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := tally{Total: c.total, Calls: make([]seen, 0, len(c.last))}
	for _, s := range slices.Backward(c.last) {
		t.Calls = append(t.Calls, *s)
	}
	return t
}

func (d *Demo) serveCalls(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, d.calls.tally())
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failed write means that the reader left; nobody is there to be told.
	_ = json.NewEncoder(w).Encode(body)
}
