package e2e

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase68SlowViewerBoundedMemory sends 64 MiB past viewers that are slow or
// do not read at all. A program without them is the measure of what they cost.
func TestCase68SlowViewerBoundedMemory(t *testing.T) {
	t.Parallel()
	alone, crowded := flood(t, 0), flood(t, 20)
	t.Logf("%d MiB resident alone, %d MiB with slow viewers", alone>>20, crowded>>20)
	const allowed = 48 << 20
	if crowded > alone+allowed {
		t.Errorf("slow viewers cost %d MiB, want at most %d", (crowded-alone)>>20, allowed>>20)
	}
}

// frames68 is the number of frames of case 68.
const frames68 = 16384

// flood runs one run of 64 MiB past a number of slow viewers and returns the
// largest memory that was seen.
func flood(t *testing.T, slow int) (peak int64) {
	t.Helper()
	g, c, stage := floodSite(t)
	a := c.Do(t, generate("")).Want(200)
	a.Events.Quiet = true
	viewers := make([]*viewer, slow)
	for i := range viewers {
		viewers[i] = &viewer{client: c, run: a.Run(), answer: c.Resume(t, a.Run(), "").Want(200)}
	}
	for n := 1; n <= frames68; n++ {
		if ev := a.Next(); ev.ID != testkit.Cursor(a.Run(), n) {
			t.Fatalf("frame %d has id %q", n, ev.ID)
		}
		if n%256 == 0 { // the slow ones take one frame to this reader's 256
			peak = max(peak, g.Resident(t))
			for _, v := range viewers {
				v.next(t)
			}
		}
	}
	a.Rest()
	stage.Call(t, 1).AwaitEnd(t)
	peak = max(peak, g.Resident(t))
	testkit.Each(t, slow, slow, func(t *testing.T, i int) {
		for viewers[i].seen < frames68 {
			viewers[i].next(t)
		}
	})
	return max(peak, g.Resident(t))
}

// floodSite is a gateway whose memory is its own, in front of case 68.
func floodSite(t *testing.T) (*testkit.Gateway, testkit.Client, *testkit.Stage) {
	t.Helper()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Plain: true, Sites: map[string]string{
		"": genericSite(u.Addr(), "limits {\nrun_bytes 128MiB\n}"),
	}})
	stage := u.Stage(caseScript(t, "68-slow-viewer-bounded-memory", "upstream.jsonl"))
	return g, g.Client("").As("user-a").On(stage), stage
}

// viewer reads a run frame by frame. Where it was too slow for the gateway's
// patience it comes back, as any client does.
type viewer struct {
	client testkit.Client
	run    string
	answer *testkit.Answer
	seen   int
}

func (v *viewer) next(t *testing.T) {
	t.Helper()
	v.answer.Events.Quiet = true
	ev, err := v.answer.Events.Next()
	if err != nil {
		v.answer = v.client.Resume(t, v.run, testkit.Cursor(v.run, v.seen)).Want(200)
		ev = v.answer.Next()
	}
	v.seen++
	if ev.ID != testkit.Cursor(v.run, v.seen) {
		t.Fatalf("slow viewer got id %q, want number %d", ev.ID, v.seen)
	}
}

// TestCase68AViewerThatNeverReadsIsClosed lets the starting client and another
// viewer stop reading altogether: the run ends all the same, and in time both
// are closed. What they did get has no gap.
func TestCase68AViewerThatNeverReadsIsClosed(t *testing.T) {
	t.Parallel()
	g, c, stage := floodSite(t)
	start := c.Do(t, generate("")).Want(200)
	viewer := c.Resume(t, start.Run(), "").Want(200)
	if !stage.Call(t, 1).AwaitEnd(t) {
		t.Error("upstream was closed, want the run to finish without a reader")
	}
	testkit.Eventually(t, "both closed by the gateway", func() bool {
		return len(g.Log.Accesses("/generate")) == 1 && len(g.Log.Accesses("/_runs/"+start.Run()+"/events")) == 1
	})
	for name, a := range map[string]*testkit.Answer{"the starting client": start, "a viewer": viewer} {
		a.Events.Quiet = true
		events, err := a.Events.All()
		testkit.CheckIDs(t, start.Run(), 1, events)
		if err == nil || len(events) >= frames68 || strings.Contains(err.Error(), "deadline") {
			t.Errorf("%s got %d events and %v, want some and a broken connection", name, len(events), err)
		}
	}
	if rec := c.Snapshot(t, start.Run()); rec.State != "completed" {
		t.Errorf("run is %s (%s), want completed", rec.State, rec.Reason())
	}
}
