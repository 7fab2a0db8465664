package e2e

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase64EmbeddedStoreSurvivesRestart kills a gateway that keeps its runs in
// a directory, around a run that is over and one that goes on. The next process
// has both: what was acknowledged, the key, and an end for the second.
func TestCase64EmbeddedStoreSurvivesRestart(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	setup := testkit.Setup{
		Global: "store embedded {\npath " + t.TempDir() + "\n}",
		Sites:  map[string]string{"": testkit.Site(u.Addr(), "keepalive off")},
	}
	first := testkit.Start(t, setup)
	gate := make(chan struct{})
	script := caseScript(t, "27-retry-attaches", "upstream.jsonl")
	over, alive := u.Stage(script.Scaled(0)), u.Stage(script.Gated(gate))
	keyed, going := testkit.Chat("conv-f", "go").Key("k-f"), testkit.Chat("conv-a", "go").Key("k-a")
	c := first.Client("").As("user-a")
	finished := c.On(over).Do(t, keyed).Want(200)
	whole := testkit.Pairs(finished.Rest())
	testkit.Eventually(t, "the first run has ended", func() bool { return c.Snapshot(t, finished.Run()).State == "completed" })
	before := c.Snapshot(t, finished.Run())
	active := c.On(alive).Do(t, going).Want(200)
	shown := []testkit.Event{active.Next()}
	gate <- struct{}{}
	shown = append(shown, active.Next())
	first.Crash()

	second := testkit.Start(t, setup)
	c = second.Client("").As("user-a")
	after := c.Snapshot(t, finished.Run())
	if after.State != "completed" || *after.EndedAt != *before.EndedAt || after.Snapshot.Text != before.Snapshot.Text || after.Revision != before.Revision {
		t.Errorf("the record of the first run is %+v after the restart, want %+v", after, before)
	}
	replay := c.Resume(t, finished.Run(), "").Want(200).Rest()
	wantPairs(t, replay, whole)
	testkit.EndsAs(t, replay, "completed")
	again := c.On(over).Do(t, keyed).Want(200)
	if again.Run() != finished.Run() || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the key starts run %s, want %s replayed", again.Run(), finished.Run())
	}
	wantPairs(t, again.Rest(), whole)

	lost := c.Snapshot(t, active.Run())
	if lost.State != "uncertain" || lost.StateReason == nil || *lost.StateReason != "owner_lost" {
		t.Errorf("the second run is %s, want uncertain", lost.State)
	}
	kept := c.Resume(t, active.Run(), "").Want(200).Rest()
	wantPairs(t, kept[:len(shown)], testkit.Pairs(shown))
	testkit.CheckIDs(t, active.Run(), 1, kept)
	testkit.EndsAs(t, kept, "uncertain")
	if now := c.Active(t, "conv-a"); now.Status != "lost" {
		t.Errorf("the conversation of the second run is %s, want lost", now.Status)
	}
	retried := c.On(alive).Do(t, going)
	retried.Rest()
	if retried.Run() != active.Run() {
		t.Errorf("the key of the second run starts %s, want %s again", retried.Run(), active.Run())
	}
	if over.Starts() != 1 || alive.Starts() != 1 {
		t.Errorf("got %d and %d upstream calls, want 1 and 1", over.Starts(), alive.Starts())
	}
}
