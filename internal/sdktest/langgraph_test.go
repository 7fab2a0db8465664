package sdktest

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// langGraph has the unmodified server and client of LangGraph.
var langGraph = npm.NewFolder("langgraph")

// allModes are the stream modes in which a run tells everything.
const allModes = "messages-tuple,values,updates,custom"

// startLangGraph starts a LangGraph server with a gateway before it.
func startLangGraph(t *testing.T) *served {
	t.Helper()
	return serve(t, langGraph, "X-Api-Key", "lg-test")
}

// graphClient is a script with the client of LangGraph.
type graphClient struct{ hearer }

func newGraphClient(t *testing.T, url string) graphClient {
	t.Helper()
	return graphClient{hearer{langGraph.Run(t, "client.mjs", url)}}
}

// run is the thread and the run that the client began.
func (c graphClient) run(t *testing.T) (thread, run string) {
	t.Helper()
	c.Tell(t, "run")
	thread, run, _ = strings.Cut(c.Line(t), " ")
	return thread, run
}

// direct is what the client hears of a run without a gateway.
func directGraph(t *testing.T, s *served, graph string) []part {
	t.Helper()
	c := newGraphClient(t, "http://"+s.addr)
	c.Tell(t, "stream "+graph+" "+allModes+" true")
	s.Says(t, "called")
	s.step(t, 3)
	parts, end := c.rest(t)
	if end != "done" {
		t.Fatalf("without a gateway the run ended with %q", end)
	}
	return parts
}

// TestLangGraphRunsEndAsTheServerSays: the stream of a run only ends. A graph
// that asks for something says so in its stream or not, as the client's modes
// have it; how the run stands is the server's to say.
func TestLangGraphRunsEndAsTheServerSays(t *testing.T) {
	t.Parallel()
	s := startLangGraph(t)
	c := newGraphClient(t, s.g.URL(""))
	for _, tt := range []struct{ graph, modes, state, reason string }{
		{"talk", allModes, "completed", ""},
		{"ask", allModes, "completed", "input_required"},
		{"ask", "messages-tuple", "completed", "input_required"},
		{"fail", allModes, "failed", "upstream_error"},
	} {
		c.Tell(t, "stream "+tt.graph+" "+tt.modes+" true")
		s.Says(t, "called")
		s.step(t, 3)
		parts, end := c.rest(t)
		if end != "done" {
			t.Errorf("%s ended with %q", tt.graph, end)
		}
		if tt.modes == allModes {
			sameParts(t, parts, directGraph(t, s, tt.graph))
		}
		rec := s.over(t)
		if rec.State != tt.state || rec.Reason() != tt.reason {
			t.Errorf("%s in %s got %s %q, want %s %q", tt.graph, tt.modes, rec.State, rec.Reason(), tt.state, tt.reason)
		}
		if rec.Snapshot == nil || rec.Snapshot.Text != "one two three" {
			t.Errorf("%s in %s got snapshot %+v, want the model's words", tt.graph, tt.modes, rec.Snapshot)
		}
		if tt.state == "failed" && parts[len(parts)-1].Event != "error" {
			t.Errorf("the client heard %s last, want the server's error", parts[len(parts)-1].Event)
		}
	}
}

// TestLangGraphClientGoesOnThroughACutNetwork: the client's own call for the
// rest, after the last id that it saw, is answered by the gateway, and so is
// that of a page which knows no more than the run.
func TestLangGraphClientGoesOnThroughACutNetwork(t *testing.T) {
	t.Parallel()
	s := startLangGraph(t)
	network := testkit.NewCutter(t, s.g.URL(""))
	c := newGraphClient(t, network.URL())
	c.Tell(t, "stream talk "+allModes+" true")
	s.Says(t, "called")
	s.step(t, 1)
	parts := c.until(t, `"one "`)
	network.Cut()
	if more, end := c.rest(t); len(more) > 0 || !strings.HasPrefix(end, "raised") {
		t.Fatalf("after the cut the client heard %s%s, want it to raise", show(more), end)
	}
	s.step(t, 1)
	network.Restore()
	c.Tell(t, "join")
	parts = append(parts, c.until(t, `"two "`)...)
	thread, run := c.run(t)
	page := newGraphClient(t, network.URL())
	page.Tell(t, "attach "+thread+" "+run)
	all := page.until(t, `"two "`)
	s.step(t, 1)
	rest, end := c.rest(t)
	last, pageEnd := page.rest(t)
	if end != "done" || pageEnd != "done" {
		t.Errorf("the streams ended with %q and %q", end, pageEnd)
	}
	want := directGraph(t, s, "talk")
	sameParts(t, append(parts, rest...), want)
	sameParts(t, append(all, last...), want)
	if rec := s.over(t); rec.State != "completed" || rec.Upstream.Reattached != 0 {
		t.Errorf("got %s, reattached %d times, want one whole run", rec.State, rec.Upstream.Reattached)
	}
}

// TestLangGraphClientGoesOnByItself where the server names the stream of the
// run: the gateway answers there, and each part comes once.
func TestLangGraphClientGoesOnByItself(t *testing.T) {
	t.Parallel()
	s := serve(t, langGraph, "X-Api-Key", "lg-test", "located")
	network := testkit.NewCutter(t, s.g.URL(""))
	c := newGraphClient(t, network.URL())
	c.Tell(t, "stream talk "+allModes+" false") // the server itself keeps nothing
	s.Says(t, "called")
	s.step(t, 1)
	parts := c.until(t, `"one "`)
	network.Cut()
	s.step(t, 1)
	testkit.Eventually(t, "the client to come back", func() bool { return network.Waiting() > 0 })
	network.Restore()
	parts = append(parts, c.until(t, `"two "`)...)
	s.step(t, 1)
	rest, end := c.rest(t)
	if end != "done" {
		t.Errorf("the stream ended with %q", end)
	}
	sameParts(t, append(parts, rest...), directGraph(t, s, "talk"))
}

// TestLangGraphRunsAreStopped by the client's own call, of both kinds, and by
// ours. The server's run really ends.
func TestLangGraphRunsAreStopped(t *testing.T) {
	t.Parallel()
	s := startLangGraph(t)
	c := newGraphClient(t, s.g.URL(""))
	for _, tt := range []struct{ how, server string }{
		{"cancel interrupt", "interrupted"}, {"cancel rollback", "error"}, {"", "interrupted"},
	} {
		c.Tell(t, "stream talk messages-tuple true")
		s.Says(t, "called")
		s.step(t, 1)
		c.until(t, `"one "`)
		if tt.how != "" {
			c.Tell(t, tt.how)
		} else {
			s.back().Stop(t, s.record(t).RunID)
		}
		parts, end := c.rest(t)
		if len(parts) != 1 || parts[0].Event != "error" || end != "done" {
			t.Errorf("%s: the client heard %s%s, want to be told", tt.how, show(parts), end)
		}
		rec := s.over(t)
		if rec.State != "cancelled" || rec.Cancel.Upstream == nil || *rec.Cancel.Upstream != "confirmed" {
			t.Errorf("%s: got %s, %+v, want cancelled and confirmed", tt.how, rec.State, rec.Cancel)
		}
		c.Tell(t, "status")
		c.Says(t, tt.server)
	}
	c.Tell(t, "alone talk messages-tuple") // the server names no thread, and has no call without one
	s.Says(t, "called")
	s.step(t, 1)
	c.until(t, `"one "`)
	rec := s.back().Stop(t, s.record(t).RunID)
	if rec.State != "cancelled" || rec.Cancel.Upstream == nil || *rec.Cancel.Upstream != "unconfirmed" {
		t.Errorf("without a thread: got %s, %+v, want cancelled and unconfirmed at once", rec.State, rec.Cancel)
	}
}

// TestLangGraphServerDiesInMidStream: the client must not take a half for the
// whole.
func TestLangGraphServerDiesInMidStream(t *testing.T) {
	t.Parallel()
	s := startLangGraph(t)
	c := newGraphClient(t, s.g.URL(""))
	c.Tell(t, "stream talk messages-tuple false")
	s.Says(t, "called")
	s.step(t, 1)
	c.until(t, `"one "`)
	s.Kill(t)
	parts, end := c.rest(t)
	if len(parts) != 1 || parts[0].Event != "error" || end != "done" {
		t.Errorf("the client heard %s%s, want an error", show(parts), end)
	}
	if rec := s.over(t); rec.State != "failed" || rec.Reason() != "upstream_truncated" {
		t.Errorf("got %s %q, want failed", rec.State, rec.Reason())
	}
}

// TestLangGraphRunOutlivesItsGateway kills one of two gateways in the middle of
// a run. Whoever reads at the other gets the rest, byte for byte what the
// server itself would give, and the server generates once.
func TestLangGraphRunOutlivesItsGateway(t *testing.T) {
	t.Parallel()
	s := listen(t, langGraph, "X-Api-Key", "lg-test")
	redis := testkit.StartRedis(t)
	start := func() *testkit.Gateway {
		return testkit.Start(t, testkit.Setup{
			Global: "store redis " + redis.URL() + "\nlease 2s",
			Sites:  map[string]string{"": testkit.Bare(s.addr)},
		})
	}
	one, two := start(), start()
	s.g = two
	c := newGraphClient(t, one.URL(""))
	c.Tell(t, "stream talk "+allModes+" true")
	s.Says(t, "called")
	s.step(t, 1)
	parts := c.until(t, `"one "`)
	thread, run := c.run(t)
	other := newGraphClient(t, two.URL(""))
	other.Tell(t, "attach "+thread+" "+run)
	all := other.until(t, `"one "`)
	one.Crash()
	c.rest(t)
	s.step(t, 2)
	rest, end := other.rest(t)
	if end != "done" {
		t.Errorf("the reader's stream ended with %q", end)
	}
	all = append(all, rest...)
	sameParts(t, all[:len(parts)], parts)
	sameParts(t, all, directGraph(t, s, "talk"))
	rec := s.over(t)
	if rec.State != "completed" || rec.Upstream.Reattached != 1 {
		t.Errorf("got %s, reattached %d times, want completed and once", rec.State, rec.Upstream.Reattached)
	}
	kept := testkit.NewClient("http://"+s.addr).Do(t, testkit.Ask{Path: "/threads/" + thread + "/runs/" + run + "/stream"}.
		With("Last-Event-ID", "-1")).Want(200).Rest()
	ours := testkit.Content(s.back().Resume(t, rec.RunID, "").Want(200).Rest())
	if !slices.Equal(testkit.Pairs(ours), testkit.Pairs(kept)) {
		t.Errorf("the log has\n%v\nand the server\n%v", testkit.Pairs(ours), testkit.Pairs(kept))
	}
}
