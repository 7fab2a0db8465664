package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase64EmbeddedStoreSurvivesReload reloads the configuration three times
// around a run that is over and one that goes on: equal, with another site,
// and with another setting of the gateway itself.
func TestCase64EmbeddedStoreSurvivesReload(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	setup := func(version int, keepalive string) testkit.Setup {
		return testkit.Setup{Sites: map[string]string{"": fmt.Sprintf("respond /version \"%d\"\n", version) +
			testkit.Site(u.Addr(), "keepalive "+keepalive)}}
	}
	g := testkit.Start(t, setup(1, "15s"))
	gate := make(chan struct{})
	script := caseScript(t, "27-retry-attaches", "upstream.jsonl")
	over, alive := u.Stage(script.Scaled(0)), u.Stage(script.Gated(gate))
	c := g.Client("").As("user-a")
	keyed := testkit.Chat("conv-f", "go").Key("k-f")
	finished := c.On(over).Do(t, keyed).Want(200)
	whole := testkit.Pairs(finished.Rest())
	active := c.On(alive).Do(t, testkit.Chat("conv-a", "go")).Want(200)
	events := []testkit.Event{active.Next()}

	for i, next := range []testkit.Setup{setup(1, "15s"), setup(2, "15s"), setup(2, "14s")} {
		if err := g.Reload(next); err != nil {
			t.Fatal(err)
		}
		gate <- struct{}{}
		events = append(events, active.Next()) // the attached reader reads on
		replay := c.Resume(t, finished.Run(), "").Want(200).Rest()
		wantPairs(t, replay, whole)
		testkit.EndsAs(t, replay, "completed")
		again := c.On(over).Do(t, keyed).Want(200)
		if again.Run() != finished.Run() {
			t.Errorf("reload %d: the key starts run %s, want %s again", i, again.Run(), finished.Run())
		}
		wantPairs(t, again.Rest(), whole)
		back := c.Resume(t, active.Run(), events[i].ID).Want(200)
		if ev := back.Next(); ev.ID != events[i+1].ID {
			t.Errorf("reload %d: resume got id %s, want %s", i, ev.ID, events[i+1].ID)
		}
		back.Close()
		if now := c.Active(t, "conv-a"); now.Status != "running" || now.Named() != active.Run() {
			t.Errorf("reload %d: conversation is %s with %q, want running with %s", i, now.Status, now.Named(), active.Run())
		}
	}
	close(gate)
	events = append(events, active.Rest()...)
	testkit.CheckIDs(t, active.Run(), 1, events)
	wantPairs(t, events, whole)
	if got := string(c.Do(t, testkit.Ask{Path: "/version"}).Want(200).Body()); got != "2" {
		t.Errorf("the last configuration answers %q, want 2", got)
	}
	if over.Starts() != 1 || alive.Starts() != 1 {
		t.Errorf("got %d and %d upstream calls, want 1 and 1", over.Starts(), alive.Starts())
	}
}

func TestManyReloadsLeakNothing(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	setup := testkit.Setup{Sites: map[string]string{"": testkit.Site(u.Addr())}}
	g := testkit.Start(t, setup)
	gate := make(chan struct{})
	stage := u.Stage(testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(),
		testkit.Gate(gate), testkit.Send("data: [DONE]\n\n"), testkit.End(),
	})
	c := g.Client("").As("user-a").On(stage)
	a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
	reload := func(n int) {
		for range n {
			if err := g.Reload(setup); err != nil {
				t.Fatal(err)
			}
		}
	}
	reload(3)
	before := g.Usage(t)
	reload(50)
	testkit.Eventually(t, "goroutines and sockets at their baseline", func() bool {
		now := g.Usage(t)
		return now.Goroutines <= before.Goroutines+5 && now.Files <= before.Files+5
	})
	close(gate)
	wantPairs(t, a.Rest(), []testkit.Pair{{"message", "[DONE]"}})
	if rec := c.Snapshot(t, a.Run()); rec.State != "completed" {
		t.Errorf("run is %s, want completed", rec.State)
	}
}

// TestAStoppingGatewayLetsItsRunsFinish gives SIGTERM while a run goes on.
func TestAStoppingGatewayLetsItsRunsFinish(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Global: "shutdown finish 30s", Sites: map[string]string{"": testkit.Site(u.Addr())}})
	gate := make(chan struct{})
	stage := u.Stage(caseScript(t, "27-retry-attaches", "upstream.jsonl").Gated(gate))
	c := g.Client("").As("user-a").On(stage)
	a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
	a.Next()
	reader := c.Resume(t, a.Run(), "").Want(200)
	reader.Next()
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest := reader.Rest(); len(rest) != 0 { // told to come back: a clean end
		t.Errorf("a reader got %d more events, want a clean end", len(rest))
	}
	a.RestBroken() // an SDK must not take it for success
	close(gate)
	if !stage.Call(t, 1).AwaitEnd(t) {
		t.Error("the run was cut off, want it to finish")
	}
	if err := g.Stop(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}
