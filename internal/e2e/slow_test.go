package e2e

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase68SlowViewerBoundedMemory sends 64 MiB past viewers that are slow or
// do not read at all. A program without them is the measure of what they cost.
func TestCase68SlowViewerBoundedMemory(t *testing.T) {
	t.Parallel()
	alone, _ := flood(t, 0)
	crowded, _ := flood(t, 20)
	t.Logf("%d MiB resident alone, %d MiB with slow viewers", alone>>20, crowded>>20)
	const allowed = 48 << 20
	if crowded > alone+allowed {
		t.Errorf("slow viewers cost %d MiB, want at most %d", (crowded-alone)>>20, allowed>>20)
	}
}

// flood runs one run of 64 MiB past a number of slow viewers and one that does
// not read, and returns the largest memory that was seen.
func flood(t *testing.T, slow int) (peak int64, run string) {
	t.Helper()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Plain: true, Sites: map[string]string{
		"": testkit.Site(u.Addr(), "dialect generic", "start POST /generate", "limits {\nrun_bytes 128MiB\n}")}})
	stage := u.Stage(caseScript(t, "68-slow-viewer-bounded-memory", "upstream.jsonl"))
	c := g.Client("").As("user-a").On(stage)
	a := c.Do(t, generate("")).Want(200)
	a.Events.Quiet = true
	run = a.Run()
	viewers := make([]*testkit.Answer, slow)
	for i := range viewers {
		viewers[i] = c.Resume(t, run, "").Want(200)
		viewers[i].Events.Quiet = true
	}
	for n := 1; ; n++ {
		ev, err := a.Events.Next()
		if err == io.EOF && n == frames68+1 {
			break
		}
		if err != nil || ev.ID != testkit.Cursor(run, n) {
			t.Fatalf("frame %d: got id %q and %v", n, ev.ID, err)
		}
		if n%256 == 0 { // the slow ones take one frame to this reader's 256
			peak = max(peak, g.Resident(t))
			nextOf(t, viewers, run, n/256)
		}
	}
	stage.Call(t, 1).AwaitEnd(t)
	peak = max(peak, g.Resident(t))
	var all sync.WaitGroup
	for _, v := range viewers {
		all.Go(func() { t.Run("viewer", func(t *testing.T) { readOn(t, v, run, frames68/256+1) }) })
	}
	all.Wait()
	return max(peak, g.Resident(t)), run
}

// frames68 is the number of frames of case 68.
const frames68 = 16384

func nextOf(t *testing.T, viewers []*testkit.Answer, run string, n int) {
	t.Helper()
	for _, v := range viewers {
		if ev := v.Next(); ev.ID != testkit.Cursor(run, n) {
			t.Fatalf("slow viewer got id %q, want number %d", ev.ID, n)
		}
	}
}

// readOn reads a viewer from frame n to the end of the run.
func readOn(t *testing.T, v *testkit.Answer, run string, n int) {
	t.Helper()
	for ; n <= frames68; n++ {
		if ev := v.Next(); ev.ID != testkit.Cursor(run, n) {
			t.Fatalf("got id %q, want number %d", ev.ID, n)
		}
	}
	testkit.EndsAs(t, []testkit.Event{v.Next()}, "completed")
}

// TestCase68AViewerThatNeverReadsIsClosed lets the starting client and another
// viewer stop reading altogether: the run ends all the same, and in time both
// are closed. What they did get has no gap.
func TestCase68AViewerThatNeverReadsIsClosed(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Plain: true, Sites: map[string]string{
		"": testkit.Site(u.Addr(), "dialect generic", "start POST /generate", "limits {\nrun_bytes 128MiB\n}")}})
	stage := u.Stage(caseScript(t, "68-slow-viewer-bounded-memory", "upstream.jsonl"))
	c := g.Client("").As("user-a").On(stage)
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
