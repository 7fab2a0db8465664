package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase11ReplayToLiveSeam attaches 500 viewers at random moments of a run
// of 5000 frames, each after a random frame that was already seen. For every
// one of them replay must meet live tail without a gap or a repeat.
func TestCase11ReplayToLiveSeam(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": genericSite(u.Addr())}})
	stage := u.Stage(caseScript(t, "11-replay-to-live-seam", "upstream.jsonl"))
	replayMeetsLive(t, g.Client("").As("user-a").On(stage), stage, 500)
}

// replayMeetsLive reads the run of a stage with a leader and many viewers.
func replayMeetsLive(t *testing.T, c testkit.Client, stage *testkit.Stage, viewers int) {
	t.Helper()
	const frames = 5000
	a := c.Do(t, generate("")).Want(200)
	a.Events.Quiet = true
	run := a.Run()

	dice := rand.New(rand.NewPCG(11, 11))
	joinAt := map[int]int{} // how many viewers join when the leader is at a frame
	for range viewers {
		joinAt[1+dice.IntN(frames-1)]++
	}
	var all sync.WaitGroup
	defer all.Wait() // also when the leader fails
	for n := 1; n <= frames; n++ {
		if ev := a.Next(); ev.Data != "n"+strconv.Itoa(n) {
			t.Fatalf("leader got %q as frame %d", ev.Data, n)
		}
		for i := range joinAt[n] {
			after := dice.IntN(n + 1)
			all.Go(func() {
				t.Run(fmt.Sprintf("at %d after %d (%d)", n, after, i), func(t *testing.T) { watch(t, c, run, after, frames) })
			})
		}
	}
	all.Wait()
	if rest := a.Rest(); len(rest) != 0 {
		t.Errorf("leader got %d more frames", len(rest))
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// watch reads a run from a position to its end.
func watch(t *testing.T, c testkit.Client, run string, after, frames int) {
	t.Helper()
	from := ""
	if after > 0 {
		from = testkit.Cursor(run, after)
	}
	a := c.Resume(t, run, from).Want(200)
	a.Events.Quiet = true
	for n := after + 1; n <= frames; n++ {
		ev := a.Next()
		if ev.Data != "n"+strconv.Itoa(n) || ev.ID != testkit.Cursor(run, n) {
			t.Fatalf("got %q with id %q, want frame %d", ev.Data, ev.ID, n)
		}
	}
	end := a.Next()
	testkit.EndsAs(t, []testkit.Event{end}, "completed")
	if end.ID != testkit.Cursor(run, frames+1) {
		t.Errorf("run.end has id %q, want number %d", end.ID, frames+1)
	}
	if _, err := a.Events.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("body ends with %v, want a clean end", err)
	}
}
