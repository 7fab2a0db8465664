package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase06DisconnectKeepsRun drops a hundred clients, ten at a time. Half of
// their runs go on behind an attached reader, half are over when it comes.
func TestCase06DisconnectKeepsRun(t *testing.T) {
	t.Parallel()
	const name = "06-disconnect-keeps-run"
	want := expected[struct {
		Frames []testkit.Pair `json:"resume_frames"`
	}](t, name).Frames
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{
		"": testkit.Site(u.Addr() + " {\ntransport http {\nkeepalive off\n}\n}"),
	}})
	script := caseScript(t, name, "upstream.jsonl")
	round := func(t *testing.T, i int) {
		gate := make(chan struct{})
		stage := u.Stage(script.Gated(gate))
		c := g.Client("").As("user-a").On(stage)
		dropAndReturn(t, c, stage, gate, fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "."), i), i%2 == 0, want)
	}
	t.Run("warm", func(t *testing.T) { testkit.Each(t, 10, 10, round) })
	var before testkit.Usage
	testkit.Eventually(t, "a quiet gateway", func() bool {
		last := before
		before = g.Usage(t)
		return before.Goroutines == last.Goroutines && before.Files == last.Files
	})
	t.Run("runs", func(t *testing.T) { testkit.Each(t, 100, 10, round) })
	testkit.Eventually(t, "goroutines and sockets at their baseline", func() bool {
		now := g.Usage(t)
		return now.Goroutines <= before.Goroutines+5 && now.Files <= before.Files+5
	})
}

// dropAndReturn starts a run, vanishes after three frames, and comes back
// while the run goes on or after its end.
func dropAndReturn(t *testing.T, c testkit.Client, stage *testkit.Stage, gate chan struct{}, conversation string, live bool, want []testkit.Pair) {
	t.Helper()
	a := c.Do(t, testkit.Chat(conversation, "go")).Want(200)
	var seen []testkit.Event
	for range 3 {
		seen = append(seen, a.Next())
		if len(seen) < 3 {
			gate <- struct{}{}
		}
	}
	testkit.CheckIDs(t, a.Run(), 1, seen)
	a.Drop()

	if now := c.Active(t, conversation); now.Status != "running" || now.Named() != a.Run() {
		t.Errorf("conversation is %s with run %q after the client left, want running with %s", now.Status, now.Named(), a.Run())
	}
	var back *testkit.Answer
	if live {
		back = c.Resume(t, a.Run(), seen[2].ID).Want(200)
	}
	close(gate)
	if !stage.Call(t, 1).AwaitEnd(t) {
		t.Error("upstream was closed early")
	}
	if !live {
		back = c.Resume(t, a.Run(), seen[2].ID).Want(200)
	}
	events := back.Rest()
	testkit.CheckIDs(t, a.Run(), 4, events)
	wantPairs(t, events, want)
	testkit.EndsAs(t, events, "completed")
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

func TestCase18StopClosesUpstreamDisconnectDoesNot(t *testing.T) {
	t.Parallel()
	stopClosesUpstream(t, on)
}

func stopClosesUpstream(t *testing.T, on opener) {
	c, stage := on(t, siteAuto, caseScript(t, "18-stop-closes-upstream-disconnect-does-not", "upstream.jsonl").Scaled(0.1))
	a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
	a.Take(5)
	a.Drop()
	back := c.Resume(t, a.Run(), "").Want(200)
	shown := back.Take(60) // some of them long after the client left
	call := stage.Call(t, 1)
	if !call.IsOpen() {
		t.Fatal("a disconnect closed the upstream")
	}

	asked := time.Now()
	rec := c.Stop(t, a.Run())
	t.Logf("upstream was closed %v after the Stop", call.AwaitClose(t).Sub(asked))
	if rec.State != "cancelled" || rec.Cancel.Version != 1 {
		t.Errorf("Stop left the run %s with cancel version %d, want cancelled and 1", rec.State, rec.Cancel.Version)
	}
	if rec.Outcome() != "cancelled_after_effect" || rec.Cancel.Billing != "unknown" {
		t.Errorf("Stop reports outcome %q and billing %q, want cancelled_after_effect and unknown", rec.Outcome(), rec.Cancel.Billing)
	}
	shown = append(shown, back.Rest()...)
	testkit.CheckIDs(t, a.Run(), 1, shown)
	testkit.EndsAs(t, shown, "cancelled")
	checkStoppedRun(t, c, a.Run(), testkit.Content(shown))

	again := c.Stop(t, a.Run())
	if again.State != "cancelled" || again.Cancel.Version != 1 || again.Outcome() != rec.Outcome() {
		t.Errorf("second Stop reports %s, version %d, %q, want the first one's record", again.State, again.Cancel.Version, again.Outcome())
	}
	if len(stage.Cancels()) != 0 || stage.Starts() != 1 {
		t.Errorf("upstream got %d cancel calls and %d starts, want 0 and 1", len(stage.Cancels()), stage.Starts())
	}
}

// checkStoppedRun compares the record and a full replay of a stopped run with
// what was shown live.
func checkStoppedRun(t *testing.T, c testkit.Client, run string, shown []testkit.Event) {
	t.Helper()
	var text strings.Builder
	for i := range shown {
		fmt.Fprintf(&text, "tok%d ", i+1)
	}
	rec := c.Snapshot(t, run)
	if rec.Snapshot == nil || rec.Snapshot.Text != text.String() || rec.Snapshot.Complete {
		t.Errorf("got snapshot %+v, want the %d tokens shown and not complete", rec.Snapshot, len(shown))
	}
	if len(rec.Usage) == 0 {
		t.Error("record has no usage member")
	}
	replay := c.Resume(t, run, "").Want(200).Rest()
	testkit.CheckIDs(t, run, 1, replay)
	testkit.EndsAs(t, replay, "cancelled")
	wantPairs(t, replay, testkit.Pairs(shown))
}
