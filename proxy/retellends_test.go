package proxy_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestAWorkflowEndsAsItSays, when it did so while nobody listened: its stream has
// nothing but that.
func TestAWorkflowEndsAsItSays(t *testing.T) {
	paused := append(chatflow()[:8], flow("workflow_paused", `"reasons":[]`))
	for name, c := range map[string]struct {
		events           []string
		state, text      string
		complete, reason bool
	}{
		"succeeded":        {plainFlow("succeeded", `{"text":"one two"}`), "completed", "one two", true, false},
		"in part":          {plainFlow("partial-succeeded", `{"text":"one two"}`), "completed", "one two", true, false},
		"several outputs":  {plainFlow("succeeded", `{"a":"one ","b":"two"}`), "completed", "one ", false, false},
		"an object":        {plainFlow("succeeded", `{"a":{"b":1}}`), "completed", "one ", false, false},
		"nothing":          {plainFlow("succeeded", `{}`), "completed", "one ", false, false},
		"failed":           {plainFlow("failed", `{}`), "failed", "one ", false, true},
		"stopped":          {plainFlow("stopped", `{}`), "cancelled", "one ", false, false},
		"waits for a form": {paused, "completed", "a b ", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &workflow{events: c.events, breaks: []int{3}, missed: 99, bus: busLive}
				s := newSite(t, b.serve)
				a := s.Do(t, askWorkflow)
				onceEach(t, a.Rest())
				rec := s.Snapshot(t, a.Run())
				if rec.State != c.state || rec.Upstream.Reattached != 1 || (rec.Reason() != "") != c.reason {
					t.Errorf("got %s, %q, reattached %d times, want %s", rec.State, rec.Reason(), rec.Upstream.Reattached, c.state)
				}
				if rec.Snapshot.Text != c.text || rec.Snapshot.Complete != c.complete {
					t.Errorf("got %q, complete %v, want %q, %v", rec.Snapshot.Text, rec.Snapshot.Complete, c.text, c.complete)
				}
			})
		})
	}
}

// TestPiecesThatAreAllThereAreBelieved, however many outputs there are: nothing
// broke, or all events followed.
func TestPiecesThatAreAllThereAreBelieved(t *testing.T) {
	for name, breaks := range map[string][]int{"never broken": nil, "joined again": {3}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &workflow{events: plainFlow("succeeded", `{"a":"one ","b":"two"}`), breaks: breaks, missed: 1, bus: busAll}
				s := newSite(t, b.serve)
				rec := s.Snapshot(t, s.ran(t, askWorkflow))
				if rec.State != "completed" || rec.Snapshot.Text != "one two" || !rec.Snapshot.Complete || len(b.joins) != len(breaks) {
					t.Errorf("got %s, %q, complete %v, after %d joins", rec.State, rec.Snapshot.Text, rec.Snapshot.Complete, len(b.joins))
				}
			})
		})
	}
}

// TestReasoningOfATornStreamIsNotCalledWhole: nobody states all of it.
func TestReasoningOfATornStreamIsNotCalledWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		events := slices.Insert(chatflow(), 6, `{"event":"reasoning_chunk",`+difyIDs+`"data":{"reasoning":"hm"}}`)
		b := &workflow{events: events, breaks: []int{8}, missed: 1, bus: busLive}
		s := newSite(t, b.serve)
		rec := s.Snapshot(t, s.ran(t, askChatflow))
		if rec.State != "completed" || rec.Snapshot.Text != "a b a c" || rec.Snapshot.Complete || !rec.Snapshot.Truncated {
			t.Errorf("got %s, %q, complete %v, truncated %v", rec.State, rec.Snapshot.Text, rec.Snapshot.Complete, rec.Snapshot.Truncated)
		}
	})
}

// TestAModeratedAnswerStaysSo in a torn stream: the outputs have it as it was.
func TestAModeratedAnswerStaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		events := slices.Insert(chatflow(), 11, `{"event":"message_replace",`+difyIDs+`"answer":"no","reason":"output_moderation"}`)
		b := &workflow{events: events, breaks: []int{7}, missed: 1, bus: busLive}
		s := newSite(t, b.serve)
		rec := s.Snapshot(t, s.ran(t, askChatflow))
		if rec.State != "completed" || rec.Snapshot.Text != "no" || !rec.Snapshot.Complete {
			t.Errorf("got %s, %q, complete %v", rec.State, rec.Snapshot.Text, rec.Snapshot.Complete)
		}
	})
}

// TestWhatIsNoWorkflowIsNotJoined, nor one of somebody else, nor one whose
// beginning is forgotten: they fail as any stream that breaks.
func TestWhatIsNoWorkflowIsNotJoined(t *testing.T) {
	anonymous := askChatflow
	anonymous.Body = `{"query":"hi"}`
	for name, c := range map[string]struct {
		ask    testkit.Ask
		events []string
		refuse int
		config func(*proxy.Config)
		joins  int
	}{
		"somebody else's": {ask: askChatflow, events: chatflow(), refuse: http.StatusNotFound, joins: 1},
		"refused":         {ask: askChatflow, events: chatflow(), refuse: http.StatusBadRequest, joins: 1},
		"a chatbot":       {ask: askChatflow, events: []string{said("a"), said("b"), said("c"), said("d"), said("e")}},
		"a generator":     {ask: testkit.Ask{Path: "/v1/completion-messages", Body: askChatflow.Body}, events: chatflow()},
		"without a user":  {ask: anonymous, events: chatflow()},
		"switched off":    {ask: askChatflow, events: chatflow(), config: func(cfg *proxy.Config) { cfg.Join.Off = true }},
		"trimmed":         {ask: askChatflow, events: chatflow(), config: keptFrames(2)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &workflow{events: c.events, breaks: []int{4}, bus: busAll, refuse: c.refuse}
				s := newSite(t, b.serve, func(cfg *proxy.Config) {
					if c.config != nil {
						c.config(cfg)
					}
				})
				began := time.Now()
				rec := s.Snapshot(t, s.ran(t, c.ask))
				if got := time.Since(began); got > 5*time.Second {
					t.Errorf("failed after %v", got)
				}
				if rec.State != "failed" || rec.Reason() != "upstream_truncated" || rec.Upstream.Reattached != 0 || len(b.joins) != c.joins || b.starts != 1 {
					t.Errorf("got %s, %s, reattached %d times, joined at %q", rec.State, rec.Reason(), rec.Upstream.Reattached, b.joins)
				}
			})
		})
	}
}
