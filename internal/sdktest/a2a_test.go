package sdktest

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// a2aSDK has the unmodified SDK of A2A, agent and client.
var a2aSDK = npm.NewFolder("a2a")

// bindings are the ways in which A2A is spoken: how, and in which version.
var bindings = [][2]string{{"JSONRPC", "1.0"}, {"JSONRPC", "0.3"}, {"HTTP+JSON", "1.0"}, {"HTTP+JSON", "0.3"}}

// TestA2A talks to an agent in each way, through one gateway: what one test
// leaves the next one finds, and the agent dies in the last.
func TestA2A(t *testing.T) {
	t.Parallel()
	for _, b := range bindings {
		t.Run(strings.Join(b[:], " "), func(t *testing.T) {
			t.Parallel()
			s := serve(t, a2aSDK, "Authorization", "Bearer a2a-test")
			client := func(t *testing.T, url string) hearer {
				return hearer{a2aSDK.Run(t, "client.mjs", url, b[0], b[1])}
			}
			t.Run("streams", func(t *testing.T) { a2aStreamsAsItDoesAlone(t, s, client) })
			t.Run("is stopped", func(t *testing.T) { a2aCancelIsAStop(t, s, client) })
			t.Run("is cut", func(t *testing.T) { a2aClientSubscribesAfterACut(t, s, client) })
			t.Run("is joined", func(t *testing.T) { a2aStreamIsJoined(t, s, client) })
			t.Run("dies", func(t *testing.T) { a2aAgentDies(t, s, client) })
		})
	}
}

// a2aClient starts a client of the server at an address.
type a2aClient func(t *testing.T, url string) hearer

// a2aStreamsAsItDoesAlone: the client hears of each task what it hears
// without a gateway, and the record says how it ended.
func a2aStreamsAsItDoesAlone(t *testing.T, s *served, client a2aClient) {
	t.Helper()
	direct, c := client(t, "http://"+s.addr), client(t, s.g.URL(""))
	for _, tt := range []struct{ task, state, reason, text string }{
		{"talk", "completed", "", "one two three"},
		{"ask", "completed", "input_required", "one two threeWhich one?"},
		{"fail", "failed", "upstream_error", "one two three"},
	} {
		ask := func(c hearer) []part {
			c.Tell(t, "send "+tt.task)
			s.Says(t, "called")
			s.step(t, 3)
			parts, end := c.rest(t)
			if end != "done" {
				t.Errorf("%s ended with %q", tt.task, end)
			}
			return parts
		}
		want := ask(direct)
		sameParts(t, ask(c), want)
		rec := s.over(t)
		if rec.State != tt.state || rec.Reason() != tt.reason || rec.Snapshot == nil || rec.Snapshot.Text != tt.text {
			t.Errorf("%s got %s %q, %+v", tt.task, rec.State, rec.Reason(), rec.Snapshot)
		}
	}
}

// a2aCancelIsAStop: the client's own call is carried out at the agent, and
// answered as the agent answers it; so is ours. Whoever reads is told.
func a2aCancelIsAStop(t *testing.T, s *served, client a2aClient) {
	t.Helper()
	reader, stopper := client(t, s.g.URL("")), client(t, s.g.URL(""))
	for _, how := range []string{"its own", "ours"} {
		reader.Tell(t, "send talk")
		s.Says(t, "called")
		s.step(t, 1)
		reader.until(t, `"one "`)
		if how == "ours" {
			s.back().Stop(t, s.record(t).RunID)
		} else {
			reader.Tell(t, "id")
			stopper.Tell(t, "cancel "+reader.Line(t))
			stopper.Says(t, "TASK_STATE_CANCELED")
		}
		s.Says(t, "cancelled")
		s.step(t, 1) // what was executed ends
		if parts, end := reader.rest(t); len(parts) > 0 || !strings.HasPrefix(end, "raised ") || !strings.Contains(end, "was stopped") {
			t.Errorf("%s: the reader heard %s%s, want to be told", how, show(parts), end)
		}
		rec := s.over(t)
		if rec.State != "cancelled" || rec.Cancel.Upstream == nil || *rec.Cancel.Upstream != "confirmed" {
			t.Errorf("%s: got %s, %+v, want cancelled and confirmed", how, rec.State, rec.Cancel)
		}
	}
}

// a2aClientSubscribesAfterACut: the agent gives what it has made so
// far and then the rest, and the run is the one that was begun.
func a2aClientSubscribesAfterACut(t *testing.T, s *served, client a2aClient) {
	t.Helper()
	network := testkit.NewCutter(t, s.g.URL(""))
	c := client(t, network.URL())
	c.Tell(t, "send talk")
	s.Says(t, "called")
	s.step(t, 1)
	c.until(t, `"one "`)
	network.Cut()
	if parts, end := c.rest(t); len(parts) > 0 || !strings.HasPrefix(end, "raised") {
		t.Fatalf("after the cut the client heard %s%s, want it to raise", show(parts), end)
	}
	s.step(t, 1)
	testkit.Eventually(t, "the second word", func() bool { return s.record(t).Snapshot.Text == "one two " })
	network.Restore()
	c.Tell(t, "subscribe")
	parts := c.until(t, `"two "`)
	if words := strings.Count(show(parts), `"value":"one "`); words != 1 || len(parts) != 1 {
		t.Errorf("the client heard %swant the task as it stands", show(parts))
	}
	s.step(t, 1)
	parts, end := c.rest(t)
	if words := strings.Count(show(parts), `"$case":"text"`); words != 1 || !strings.Contains(show(parts), `"three"`) || end != "done" {
		t.Errorf("the client heard %s%s, want the third word", show(parts), end)
	}
	if rec := s.over(t); rec.State != "completed" || rec.Snapshot.Text != "one two three" {
		t.Errorf("got %s, %+v", rec.State, rec.Snapshot)
	}
}

// a2aStreamIsJoined: the gateway loses the agent and finds it again, and its
// client hears the task as it stands and then the rest.
func a2aStreamIsJoined(t *testing.T, s *served, client a2aClient) {
	t.Helper()
	c := client(t, s.g.URL(""))
	c.Tell(t, "send talk")
	s.Says(t, "called")
	s.step(t, 1)
	c.until(t, `"one "`)
	tried := s.line.Waiting()
	s.line.Cut()
	testkit.Eventually(t, "the gateway to come back", func() bool { return s.line.Waiting() > tried })
	s.line.Restore()
	parts := c.until(t, `"one "`)
	if len(parts) != 1 || parts[0].Event != "task" {
		t.Errorf("the client heard %swant the task", show(parts))
	}
	s.step(t, 2)
	parts, end := c.rest(t)
	if words := strings.Count(show(parts), `"$case":"text"`); words != 2 || end != "done" {
		t.Errorf("the client heard %s%s, want two words more", show(parts), end)
	}
	rec := s.over(t)
	if rec.State != "completed" || rec.Snapshot.Text != "one two three" || rec.Upstream.Reattached != 1 {
		t.Errorf("got %s, %+v, reattached %d times", rec.State, rec.Snapshot, rec.Upstream.Reattached)
	}
}

// a2aAgentDies: that is no end. The client hears of it, and the record says so.
func a2aAgentDies(t *testing.T, s *served, client a2aClient) {
	t.Helper()
	c := client(t, s.g.URL(siteAlone))
	c.Tell(t, "send talk")
	s.Says(t, "called")
	s.step(t, 1)
	c.until(t, `"one "`)
	s.Kill(t)
	if parts, end := c.rest(t); len(parts) > 0 || !strings.HasPrefix(end, "raised") || !strings.Contains(end, "upstream_truncated") {
		t.Errorf("the client heard %s%s, want it to raise", show(parts), end)
	}
	if rec := s.over(t); rec.State != "failed" || rec.Reason() != "upstream_truncated" {
		t.Errorf("got %s %q, want failed", rec.State, rec.Reason())
	}
}
