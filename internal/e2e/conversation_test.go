package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func TestCase32OneActiveRunPerConversation(t *testing.T) {
	t.Parallel()
	oneActiveRun(t, on)
}

func oneActiveRun(t *testing.T, on opener) {
	const name = "32-one-active-run-per-conversation"
	gate := make(chan struct{})
	c, stage := on(t, siteAuto, caseScript(t, name, "upstream.jsonl").Gated(gate))
	a := c.Do(t, caseAsk(t, name, "a.http")).Want(200)
	a.Next()
	refusal := c.Do(t, caseAsk(t, name, "b.http"))
	p := refusal.Problem(http.StatusConflict, "run_in_flight")
	if p.ActiveRun.RunID != a.Run() || refusal.Header.Get("x-should-retry") != "false" {
		t.Errorf("refusal names run %q and x-should-retry %q, want %s and false", p.ActiveRun.RunID, refusal.Header.Get("x-should-retry"), a.Run())
	}
	resumed := c.Do(t, testkit.Ask{Path: p.ActiveRun.Events}).Want(200)
	if first := resumed.Next(); first.ID != testkit.Cursor(a.Run(), 1) {
		t.Errorf("the refusal's link leads to event %q, want the run's first", first.ID)
	}
	resumed.Close()
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
	other := c.As("user-b").Do(t, caseAsk(t, name, "b.http")).Want(200)
	if other.Run() == a.Run() {
		t.Error("another subject's conversation of the same name is the same")
	}
	close(gate)
	a.Rest()
	stage.Call(t, 1).AwaitEnd(t)
	if next := c.Do(t, caseAsk(t, name, "b.http")).Want(200); next.Run() == a.Run() || next.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("after the end of %s got run %s (replayed %q), want a new one", a.Run(), next.Run(), next.Header.Get("Idempotent-Replayed"))
	}
}

// TestCase32TwentyStartsAtOnce sends twenty starts in one conversation from
// behind a barrier.
func TestCase32TwentyStartsAtOnce(t *testing.T) {
	t.Parallel()
	twentyStartsAtOnce(t, on)
}

func twentyStartsAtOnce(t *testing.T, on opener) {
	const starts = 20
	race := func(t *testing.T, prompt func(i int) string) (accepted, refused int, runs map[string]bool, calls int) {
		gate := make(chan struct{})
		c, stage := on(t, siteAuto, caseScript(t, "32-one-active-run-per-conversation", "upstream.jsonl").Gated(gate))
		together := testkit.NewBarrier(starts)
		answered := testkit.NewBarrier(starts)
		var got [starts]*testkit.Answer
		var left atomic.Int32
		left.Store(starts)
		testkit.Each(t, starts, starts, func(t *testing.T, i int) {
			together.Wait(t)
			got[i] = c.Do(t, testkit.Chat("conv-new", prompt(i)))
			answered.Wait(t) // nobody leaves before all have their answer
			if left.Add(-1) == 0 {
				close(gate)
			}
			got[i].Body()
		})
		if t.Failed() {
			t.FailNow()
		}
		runs = map[string]bool{}
		for _, a := range got {
			switch a.Status {
			case http.StatusOK:
				accepted++
				runs[a.Run()] = true
			case http.StatusConflict:
				refused++
			}
		}
		return accepted, refused, runs, stage.Starts()
	}
	t.Run("different bodies", func(t *testing.T) {
		t.Parallel()
		accepted, refused, _, calls := race(t, func(i int) string { return fmt.Sprintf("question %d", i) })
		if accepted != 1 || refused != starts-1 || calls != 1 {
			t.Errorf("got %d runs, %d refusals and %d upstream calls, want 1, %d and 1", accepted, refused, calls, starts-1)
		}
	})
	t.Run("equal bodies", func(t *testing.T) {
		t.Parallel()
		accepted, _, runs, calls := race(t, func(int) string { return "the same question" })
		if accepted != starts || len(runs) != 1 || calls != 1 {
			t.Errorf("got %d answers of %d runs from %d upstream calls, want %d of 1 from 1", accepted, len(runs), calls, starts)
		}
	})
}

// TestStopThenSend is what a user does who closes the answer and asks anew:
// nobody reads the first run any more, so the second takes its place.
func TestStopThenSend(t *testing.T) {
	t.Parallel()
	stopThenSend(t, on, func() []*testkit.Gateway { return []*testkit.Gateway{shared.gateway} })
}

// stopThenSend sends when the gateways have noticed that the reader left. The
// quarter of a second that a start waits for that is more than enough, except
// on a machine that is busy with other tests.
func stopThenSend(t *testing.T, on opener, gateways func() []*testkit.Gateway) {
	endless := testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(),
		testkit.Send("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"), testkit.Hang(),
	}
	c, stage := on(t, siteAuto, endless, testkit.SSE("data: {\"choices\":[]}\n\n", "data: [DONE]\n\n"))
	first := c.Do(t, testkit.Chat("conv-1", "long")).Want(200)
	first.Next()
	first.Drop()
	testkit.Eventually(t, "a gateway to notice that the reader left", func() bool {
		return slices.ContainsFunc(gateways(), func(g *testkit.Gateway) bool {
			return slices.ContainsFunc(g.Log.Accesses("/v1/chat/completions"), func(a testkit.Access) bool {
				return a.Request.Header.Get(testkit.StageHeader) == stage.Name()
			})
		})
	})
	second := c.Do(t, testkit.Chat("conv-1", "short")).Want(200)
	if events := second.Rest(); len(events) != 2 || second.Run() == first.Run() {
		t.Errorf("got %d events of run %s, want 2 of a new run", len(events), second.Run())
	}
	stage.Call(t, 1).AwaitClose(t)
	events := c.Resume(t, first.Run(), "").Want(200).Rest()
	end := testkit.EndsAs(t, events, "cancelled")
	if end.StateReason == nil || *end.StateReason != "superseded" {
		t.Errorf("the first run ended with %s, want the reason superseded", events[len(events)-1].Data)
	}
	if now := c.Active(t, "conv-1"); now.Status != "idle" {
		t.Errorf("conversation is %s, want idle", now.Status)
	}
}

// TestStrangersLearnNothing compares the answers about a foreign run with
// those about one that never was, byte for byte.
func TestStrangersLearnNothing(t *testing.T) {
	t.Parallel()
	strangersLearnNothing(t, on)
}

func strangersLearnNothing(t *testing.T, on opener) {
	gate := make(chan struct{})
	c, _ := on(t, siteAuto, testkit.Script{testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(), testkit.Gate(gate), testkit.End()})
	run := c.Do(t, testkit.Chat("conv-1", "go")).Want(200).Run()
	defer close(gate)
	stranger := c.As("user-b")
	unknown := run[:len(run)-4] + "0000"
	for _, path := range []string{"", "/events", "/cancel"} {
		ask := func(id string) testkit.Ask {
			a := testkit.Ask{Path: "/_runs/" + id + path}
			if path == "/cancel" {
				a.Method = http.MethodPost
			}
			return a
		}
		foreign := stranger.Do(t, ask(run)).Want(404)
		absent := stranger.Do(t, ask(unknown)).Want(404)
		malformed := stranger.Do(t, ask("run_x")).Want(404)
		want := string(absent.Body())
		for kind, a := range map[string]*testkit.Answer{"foreign": foreign, "malformed": malformed} {
			got := string(a.Body())
			if got != want || strings.Contains(got, run) || len(a.Header) != len(absent.Header) {
				t.Errorf("%s run%s: got %s with %d headers, want %s with %d", kind, path, got, len(a.Header), want, len(absent.Header))
			}
		}
	}
	if now := stranger.Active(t, "conv-1"); now.Status != "idle" || now.Named() != "" {
		t.Errorf("a stranger sees the conversation as %s with run %q, want idle", now.Status, now.Named())
	}
}
