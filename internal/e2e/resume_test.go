package e2e

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func TestCase09ResumeAfterMidStreamError(t *testing.T) {
	t.Parallel()
	c, stage := on(t, siteAuto, caseScript(t, "09-resume-after-mid-stream-error", "upstream.jsonl").Scaled(0.1))
	a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
	whole := a.Rest()
	var want []testkit.Pair
	for i := range 5 {
		want = append(want, token(i+1))
	}
	testkit.CheckIDs(t, a.Run(), 1, whole)
	if len(whole) != 6 {
		t.Fatalf("got %d events, want five tokens and one error", len(whole))
	}
	wantPairs(t, whole[:5], want)
	if last := whole[5]; !strings.HasPrefix(last.Data, `{"error":{`) {
		t.Errorf("stream ends with %s %.200q, want an error of the OpenAI shape", last.Name, last.Data)
	}
	for k := range 6 {
		after := ""
		if k > 0 {
			after = whole[k-1].ID
		}
		events := c.Resume(t, a.Run(), after).Want(200).Rest()
		testkit.CheckIDs(t, a.Run(), k+1, events)
		wantPairs(t, events, want[k:])
		end := testkit.EndsAs(t, events, "failed")
		if end.StateReason == nil || *end.StateReason != "upstream_truncated" {
			t.Errorf("resume after %d: run.end has no reason upstream_truncated", k)
		}
		if id := events[len(events)-1].ID; id != whole[5].ID {
			t.Errorf("resume after %d: terminal frame has id %q, want %q", k, id, whole[5].ID)
		}
		plain := c.Do(t, testkit.Resume(a.Run(), after).Query("control", "off")).Want(200).Rest()
		wantPairs(t, plain, testkit.Pairs(whole[k:]))
	}
	c.Resume(t, a.Run(), whole[5].ID).Want(204)
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1: nothing may be run again", stage.Starts())
	}
}

// TestCase10CutEverywhere reads one run through many short connections, cut at
// random places, some of them inside a frame, from 200 seeds.
func TestCase10CutEverywhere(t *testing.T) {
	t.Parallel()
	cutEverywhere(t, on, 200)
}

func cutEverywhere(t *testing.T, on opener, seeds int) {
	var want []testkit.Pair
	for i := range 40 {
		want = append(want, token(i+1))
	}
	want = append(want, testkit.Pair{"message", "[DONE]"})
	script := caseScript(t, "10-cut-everywhere", "upstream.jsonl").Scaled(0.02)
	testkit.Each(t, seeds, 8, func(t *testing.T, seed int) {
		c, stage := on(t, siteAuto, script)
		dice := rand.New(rand.NewPCG(uint64(seed), 10))
		run, events := hop(t, c, dice)
		testkit.CheckIDs(t, run, 1, events)
		testkit.EndsAs(t, events, "completed")
		wantPairs(t, events, want)
		if stage.Starts() != 1 {
			t.Errorf("got %d upstream calls, want 1", stage.Starts())
		}
		old := testkit.Cursor(run, dice.IntN(len(events)))
		for range 3 {
			seq, _ := testkit.SeqOf(run, testkit.Event{ID: old})
			again := c.Resume(t, run, old).Want(200).Rest()
			testkit.CheckIDs(t, run, seq+1, again)
			wantPairs(t, again, testkit.Pairs(testkit.Content(events[seq:])))
		}
	})
}

// hop starts a run and reads it to its terminal frame through connections that
// end after a few frames.
func hop(t *testing.T, c testkit.Client, dice *rand.Rand) (string, []testkit.Event) {
	t.Helper()
	a := c.Do(t, testkit.Chat("", "go")).Want(200)
	run := a.Run()
	var events []testkit.Event
	for {
		for range 1 + dice.IntN(7) {
			events = append(events, a.Next())
			if events[len(events)-1].Name == "run.end" {
				return run, events
			}
		}
		if dice.IntN(3) == 0 {
			part := make([]byte, 20) // into the next frame, past its id perhaps
			_, _ = a.Read(part)      // the end of the answer is as good
		}
		a.Drop()
		a = c.Resume(t, run, events[len(events)-1].ID).Want(200)
	}
}

// TestCase13ResumeBeforeFirstToken attaches in the moment in which a run is
// known, with frames that come at once; with silence before the first frame it
// is tested by the keepalive times.
func TestCase13ResumeBeforeFirstToken(t *testing.T) {
	t.Parallel()
	script := caseScript(t, "13-resume-before-first-token", "upstream.jsonl")
	want := []testkit.Pair{token(1), token(2), token(3), {"message", "[DONE]"}}

	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		c, _ := on(t, siteAuto, script.Gated(gate))
		a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
		second := c.Resume(t, a.Run(), "").Want(200)
		now := c.Active(t, "conv-1")
		if now.Status != "running" || now.Named() != a.Run() {
			t.Errorf("conversation is %s with run %q before its first frame, want running with %s", now.Status, now.Named(), a.Run())
		}
		if now.Run == nil || (now.Run.Frames.LastSeq != nil && *now.Run.Frames.LastSeq != 0) {
			t.Errorf("look-up shows %+v, want a run without frames", now.Run)
		}
		third := c.Resume(t, a.Run(), "").Want(200)
		a.Drop()
		close(gate)
		for _, reader := range []*testkit.Answer{second, third} {
			events := reader.Rest()
			testkit.CheckIDs(t, a.Run(), 1, events)
			wantPairs(t, events, want)
			testkit.EndsAs(t, events, "completed")
		}
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		testkit.Each(t, 200, 8, func(t *testing.T, _ int) {
			c, _ := on(t, siteAuto, script.Scaled(0))
			run := c.Do(t, testkit.Chat("", "go")).Want(200).Run()
			events := c.Resume(t, run, "").Want(200).Rest()
			testkit.CheckIDs(t, run, 1, events)
			wantPairs(t, events, want)
		})
	})
}

// TestCase13KeepaliveComesBeforeTheFirstFrame is the same silence on a site
// whose keepalive is short enough to wait for.
func TestCase13KeepaliveComesBeforeTheFirstFrame(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	c, _ := on(t, siteKeepalive, testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"),
		testkit.FlushHeaders(), testkit.Gate(gate), testkit.Send("data: 1\n\n"), testkit.End(),
	})
	a := c.Do(t, generate("")).Want(200)
	for _, reader := range []*testkit.Answer{a, c.Resume(t, a.Run(), "").Want(200)} {
		sign := make([]byte, 100)
		n, err := reader.Read(sign)
		if got := string(sign[:n]); err != nil || !strings.HasPrefix(got, ": keepalive\n") {
			t.Errorf("first bytes are %q (%v), want a keepalive", got, err)
		}
	}
	close(gate)
}

// TestCase14ResumeAfterCompletion reads a finished run again at once; later
// hours are tested where time is free.
func TestCase14ResumeAfterCompletion(t *testing.T) {
	t.Parallel()
	resumeAfterCompletion(t, on)
}

func resumeAfterCompletion(t *testing.T, on opener) {
	c, stage := on(t, siteAuto, caseScript(t, "10-cut-everywhere", "upstream.jsonl").Scaled(0))
	a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
	live := a.Rest()
	stage.Call(t, 1).AwaitEnd(t)
	for range 3 {
		events := c.Resume(t, a.Run(), "").Want(200).Rest()
		testkit.CheckIDs(t, a.Run(), 1, events)
		wantPairs(t, events, testkit.Pairs(live))
		testkit.EndsAs(t, events, "completed")
	}
	c.Resume(t, a.Run(), testkit.Cursor(a.Run(), 42)).Want(204)
	c.Do(t, testkit.Resume(a.Run(), testkit.Cursor(a.Run(), 41)).Query("control", "off")).Want(204)
}

func TestCase24EventNamesSurviveResume(t *testing.T) {
	t.Parallel()
	const name = "24-event-names-survive-resume"
	want := expected[struct{ Frames []testkit.Pair }](t, name).Frames
	gate := make(chan struct{})
	c, stage := on(t, siteGeneric, caseScript(t, name, "upstream.jsonl").Gated(gate))
	ask := generate("").At("/generate?stream_mode=updates&stream_subgraphs=true")
	a := c.Do(t, ask).Want(200)
	first := a.Next()
	gate <- struct{}{}
	seen := []testkit.Event{first, a.Next()}
	a.Drop()
	close(gate)
	for _, query := range []url.Values{{}, {"stream_mode": {"values"}}} {
		resume := testkit.Resume(a.Run(), seen[1].ID)
		for name, values := range query {
			resume = resume.Query(name, values[0])
		}
		events := c.Do(t, resume).Want(200).Rest()
		testkit.CheckIDs(t, a.Run(), 3, events)
		wantPairs(t, append(seen[:2:2], events...), want)
	}
	if call := stage.Call(t, 1); call.URI != ask.Path || stage.Starts() != 1 {
		t.Errorf("upstream got %d calls, the first for %s, want 1 for %s", stage.Starts(), call.URI, ask.Path)
	}
}
