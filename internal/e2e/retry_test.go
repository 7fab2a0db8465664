package e2e

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func TestCase27RetryAttaches(t *testing.T) {
	t.Parallel()
	retryAttaches(t, on)
}

func retryAttaches(t *testing.T, on opener) {
	const name = "27-retry-attaches"
	gate := make(chan struct{})
	c, stage := on(t, siteAuto, caseScript(t, name, "upstream.jsonl").Gated(gate))
	ask := caseAsk(t, name, "request.http")
	first := c.Do(t, ask).Want(200)
	seen := []testkit.Event{first.Next()}
	gate <- struct{}{}
	seen = append(seen, first.Next())
	first.Drop()

	second := c.Do(t, ask)
	third := c.Do(t, ask)
	from := c.Do(t, ask.With("Last-Event-ID", seen[1].ID)).Want(200)
	close(gate)
	var want []testkit.Pair
	for i := range 10 {
		want = append(want, token(i+1))
	}
	want = append(want, testkit.Pair{"message", "[DONE]"})
	checkReplayed(t, first.Run(), second, want)
	checkReplayed(t, first.Run(), third, want)
	tail := from.Rest()
	testkit.CheckIDs(t, first.Run(), 3, tail)
	wantPairs(t, tail, want[2:])
	stage.Call(t, 1).AwaitEnd(t)
	checkReplayed(t, first.Run(), c.Do(t, ask), want)
	checkReplayed(t, first.Run(), c.Do(t, ask), want)
	if rec := c.Snapshot(t, first.Run()); rec.State != "completed" {
		t.Errorf("run is %s, want completed", rec.State)
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// checkReplayed reads an answer that must be a whole replay of a run.
func checkReplayed(t *testing.T, run string, a *testkit.Answer, want []testkit.Pair) {
	t.Helper()
	a.Want(200)
	if a.Run() != run || a.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got run %s (replayed %q), want %s", a.Run(), a.Header.Get("Idempotent-Replayed"), run)
	}
	events := a.Rest()
	testkit.CheckIDs(t, run, 1, events)
	wantPairs(t, events, want)
}

func TestCase28KeyReusedWithAnotherBody(t *testing.T) {
	t.Parallel()
	const name = "28-key-reused-with-another-body"
	gate := make(chan struct{})
	c, stage := on(t, siteAuto, caseScript(t, "27-retry-attaches", "upstream.jsonl").Gated(gate))
	first := c.Do(t, caseAsk(t, name, "first.http")).Want(200)
	first.Next()
	refused := func(when string) {
		for _, file := range []string{"other-body", "reordered", "other-query"} {
			a := c.Do(t, caseAsk(t, name, file+".http"))
			if a.Problem(http.StatusUnprocessableEntity, "idempotency_key_reused"); a.Header.Get("x-should-retry") != "false" {
				t.Errorf("%s %s: x-should-retry is %q, want false", file, when, a.Header.Get("x-should-retry"))
			}
		}
	}
	refused("while the run is active")
	fresh := caseAsk(t, name, "other-body.http").Key("7b0c8a52-6f0e-4f0b-9f3e-2d8a3b1c0002")
	c.Do(t, fresh).Problem(http.StatusConflict, "run_in_flight")
	close(gate)
	first.Rest()
	stage.Call(t, 1).AwaitEnd(t)
	refused("after its end")
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// TestAHundredPostsWithOneKeyAreOneRun sends them from behind a barrier.
func TestAHundredPostsWithOneKeyAreOneRun(t *testing.T) {
	t.Parallel()
	oneKeyIsOneRun(t, on)
}

func oneKeyIsOneRun(t *testing.T, on opener) {
	const posts = 100
	c, stage := on(t, siteAuto, caseScript(t, "10-cut-everywhere", "upstream.jsonl").Scaled(0.1))
	together := testkit.NewBarrier(posts)
	bodies, replayed := make([][]byte, posts), make([]string, posts)
	testkit.Each(t, posts, posts, func(t *testing.T, i int) {
		together.Wait(t)
		a := c.Do(t, testkit.Chat("conv-1", "go").Key("k-1")).Want(200)
		bodies[i], replayed[i] = a.Body(), a.Header.Get("Idempotent-Replayed")
	})
	originals := 0
	for i := range posts {
		if !bytes.Equal(bodies[i], bodies[0]) || len(bodies[i]) == 0 {
			t.Fatalf("answer %d has another body than answer 0: %.200q", i, bodies[i])
		}
		if replayed[i] == "" {
			originals++
		}
	}
	if stage.Starts() != 1 || originals != 1 {
		t.Errorf("got %d upstream calls and %d answers that are no replay, want 1 and 1", stage.Starts(), originals)
	}
}

// TestFiftyEqualPostsAreFiftyRuns sends equal prompts in no conversation. All
// their connections break before the headers, and each retry finds a run of
// its own.
func TestFiftyEqualPostsAreFiftyRuns(t *testing.T) {
	t.Parallel()
	const posts = 50
	u := testkit.NewUpstream(t)
	gate := make(chan struct{})
	stage := u.Stage(append(testkit.Script{testkit.Gate(gate)}, testkit.SSE("data: {\"choices\":[]}\n\n", "data: [DONE]\n\n")...))
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Site(u.Addr())}})
	c := g.Client("").As("user-a").On(stage)
	ask := testkit.Chat("", "the same question")

	testkit.Each(t, posts, posts, func(t *testing.T, _ int) {
		pending := c.Begin(t, ask)
		go func() {
			stage.Call(t, posts) // all are under way
			pending.Abandon()
		}()
		if a, err := pending.Head(); err == nil {
			t.Errorf("an abandoned request got status %d", a.Status)
		}
	})
	testkit.Eventually(t, "50 deliveries known as broken", func() bool {
		return len(g.Log.Accesses("/v1/chat/completions")) == posts
	})
	runs := make([]string, posts)
	testkit.Each(t, posts, posts, func(t *testing.T, i int) {
		pending := c.Begin(t, ask.With("X-Stainless-Retry-Count", "1"))
		if i == posts-1 {
			close(gate)
		}
		a, err := pending.Head()
		if err != nil {
			t.Fatal(err)
		}
		runs[i] = a.Want(200).Run()
		if a.Header.Get("Idempotent-Replayed") != "true" {
			t.Error("retry counts as a new run")
		}
		if events := a.Rest(); len(events) != 2 {
			t.Errorf("got %d events, want 2", len(events))
		}
	})
	distinct := map[string]bool{}
	for _, run := range runs {
		distinct[run] = true
	}
	if len(distinct) != posts || stage.Starts() != posts {
		t.Errorf("retries got %d runs from %d upstream calls, want %d and %d", len(distinct), stage.Starts(), posts, posts)
	}
}
