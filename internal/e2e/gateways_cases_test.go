package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestCasesHoldBehindALoadBalancer runs cases against two gateways on one
// Redis. Requests go to them in turn, so hardly anybody speaks to the owner of
// a run twice.
func TestCasesHoldBehindALoadBalancer(t *testing.T) {
	p := startGateways(t, 2, "")
	for name, body := range map[string]func(*testing.T, opener){
		"06 disconnect keeps run":                disconnectKeepsRun,
		"10 cut everywhere":                      func(t *testing.T, on opener) { cutEverywhere(t, on, 60) },
		"11 replay to live seam":                 seamBetweenGateways,
		"14 resume after completion":             resumeAfterCompletion,
		"18 stop closes upstream":                stopClosesUpstream,
		"27 retry attaches":                      retryAttaches,
		"32 one active run per conversation":     oneActiveRun,
		"32 twenty starts at once":               twentyStartsAtOnce,
		"a hundred posts with one key":           oneKeyIsOneRun,
		"stop, then send":                        func(t *testing.T, on opener) { stopThenSend(t, on, func() []*testkit.Gateway { return p.all }) },
		"strangers learn nothing":                strangersLearnNothing,
		"a foreign conversation's name is free":  oneActiveRunPerSubject,
		"sessions are the same on all gateways":  sessionsAreShared(p),
		"a deleted run ends its readers":         deletedRunEndsItsReaders,
		"a run may be started and read anywhere": everyFrameElsewhere,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			body(t, p.on)
		})
	}
}

func disconnectKeepsRun(t *testing.T, on opener) {
	const name = "06-disconnect-keeps-run"
	want := expected[struct {
		Frames []testkit.Pair `json:"resume_frames"`
	}](t, name).Frames
	testkit.Each(t, 40, 10, func(t *testing.T, i int) {
		gate := make(chan struct{})
		c, stage := on(t, siteAuto, caseScript(t, name, "upstream.jsonl").Gated(gate))
		dropAndReturn(t, c, stage, gate, "conv-"+itoa(i), i%2 == 0, want)
	})
}

func seamBetweenGateways(t *testing.T, on opener) {
	c, stage := on(t, siteGeneric, caseScript(t, "11-replay-to-live-seam", "upstream.jsonl"))
	replayMeetsLive(t, c, stage, 60)
}

// oneActiveRunPerSubject: what keeps one user's conversation busy is nothing to
// another user, on any gateway.
func oneActiveRunPerSubject(t *testing.T, on opener) {
	gate := make(chan struct{})
	c, stage := on(t, siteGeneric, gatedGeneric(gate, 1))
	for i := range 4 {
		c.As("user-"+itoa(i)).Do(t, generate("conv-1")).Want(200).Next()
	}
	close(gate)
	if stage.Starts() != 4 {
		t.Errorf("got %d upstream calls, want 4", stage.Starts())
	}
}

// sessionsAreShared: the cookie that one gateway gave is good at the others.
func sessionsAreShared(p *gateways) func(*testing.T, opener) {
	return func(t *testing.T, on opener) {
		c, _ := on(t, siteSession, testkit.SSE("data: {\"choices\":[]}\n\n", "data: [DONE]\n\n"))
		ask := testkit.Chat("conv-1", "go").With("Sec-Fetch-Site", "same-origin")
		a := c.Do(t, ask).Want(200)
		cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
		if cookie == "" {
			t.Fatal("got no session cookie")
		}
		a.Rest()
		for range p.all {
			if rec := c.With("Cookie", cookie).Snapshot(t, a.Run()); rec.State != "completed" {
				t.Errorf("run is %s, want completed", rec.State)
			}
			c.Do(t, testkit.Ask{Path: "/_runs/" + a.Run()}).Want(404)
		}
	}
}

// deletedRunEndsItsReaders on every gateway.
func deletedRunEndsItsReaders(t *testing.T, on opener) {
	c, stage := on(t, siteGeneric, testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(), testkit.Send("data: c1\n\n"), testkit.Hang(),
	})
	a := c.Do(t, generate("conv-1")).Want(200)
	a.Next()
	readers := []*testkit.Answer{c.Resume(t, a.Run(), "").Want(200), c.Resume(t, a.Run(), "").Want(200)}
	for _, r := range readers {
		r.Next()
	}
	c.Do(t, testkit.Ask{Method: "DELETE", Path: "/_runs/" + a.Run()}).Problem(409, "run_active")
	if d := c.Do(t, testkit.Ask{Method: "DELETE", Path: "/_runs/" + a.Run() + "?force=true"}); d.Status != 202 && d.Status != 204 {
		t.Fatalf("forced DELETE got status %d, want 202 or 204: %s", d.Status, d.Body())
	}
	stage.Call(t, 1).AwaitClose(t)
	for _, r := range readers {
		r.Rest() // a clean end
	}
	testkit.Eventually(t, "the run gone on every gateway", func() bool {
		first, second := c.Do(t, testkit.Ask{Path: "/_runs/" + a.Run()}), c.Do(t, testkit.Ask{Path: "/_runs/" + a.Run()})
		return first.Status == 404 && second.Status == 404
	})
}

// everyFrameElsewhere reads a live run on the gateway that does not own it, from
// the beginning and from the middle, frame by frame.
func everyFrameElsewhere(t *testing.T, on opener) {
	const frames = 50
	gate := make(chan struct{})
	c, stage := on(t, siteGeneric, gatedGeneric(gate, frames))
	a := c.Do(t, generate("conv-1")).Want(200)
	elsewhere := c.Resume(t, a.Run(), "").Want(200)
	events := []testkit.Event{elsewhere.Next()}
	for range frames - 1 {
		gate <- struct{}{}
		events = append(events, elsewhere.Next()) // while the run is live
	}
	close(gate)
	events = append(events, elsewhere.Rest()...)
	testkit.EndsAs(t, events, "completed")
	checkCounted(t, a.Run(), 1, events)
	checkCounted(t, a.Run(), 1, a.Rest())
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}
