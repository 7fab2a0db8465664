package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// bounded is how long a gateway with nothing to wait for may take to end.
const bounded = 15 * time.Second

// TestGatewaysStopTenTimesInARow: of two gateways one after the other stops,
// sends its readers away, lets its run finish, and comes back. No frame is lost
// on the way.
func TestGatewaysStopTenTimesInARow(t *testing.T) {
	const global = "shutdown finish 60s"
	p := startGateways(t, 2, global)
	for i := range 10 {
		finishesElsewhere(t, p, i%2, "conv-"+itoa(i))
		if t.Failed() {
			t.Fatalf("in round %d", i)
		}
		p.all[i%2] = p.start(t, p.redis.URL(), global)
	}
}

// finishesElsewhere stops one of two gateways in the middle of a run whose
// readers go to the other.
func finishesElsewhere(t *testing.T, p *gateways, leaves int, conversation string) {
	t.Helper()
	leaver := p.all[leaves]
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 4))
	here, there := p.client(leaves, siteGeneric, stage), p.client(1-leaves, siteGeneric, stage)
	a := here.Do(t, generate(conversation)).Want(200)
	first := a.Next()
	reader, elsewhere := here.Resume(t, a.Run(), "").Want(200), there.Resume(t, a.Run(), "").Want(200)
	reader.Next()
	elsewhere.Next()

	leaver.Terminate(t)
	if rest := reader.Rest(); len(rest) != 0 {
		t.Errorf("a reader of the stopping gateway got %d more events, want a clean end", len(rest))
	}
	a.RestBroken() // an SDK must not take it for success
	if refused, err := here.Try(t, generate("")); err == nil {
		if refused.Problem(http.StatusServiceUnavailable, "draining"); refused.Header.Get("Retry-After") == "" {
			t.Error("refusal of the stopping gateway has no Retry-After")
		}
	}
	if now := there.Active(t, conversation); now.Status != "running" || now.Named() != a.Run() {
		t.Errorf("conversation is %s with %q while its gateway stops, want running with %s", now.Status, now.Named(), a.Run())
	}
	back := there.Resume(t, a.Run(), first.ID).Want(200)
	gate <- struct{}{}
	events := []testkit.Event{back.Next()} // the run goes on
	close(gate)
	events = append(events, back.Rest()...)
	checkCounted(t, a.Run(), 2, events)
	testkit.EndsAs(t, events, "completed")
	checkCounted(t, a.Run(), 2, elsewhere.Rest())
	if n := len(testkit.Content(events)); n != 3 || stage.Starts() != 1 {
		t.Errorf("got %d frames after the first from %d upstream calls, want 3 from 1", n, stage.Starts())
	}
	asked := time.Now()
	if err := leaver.Stop(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if took := time.Since(asked); took > bounded {
		t.Errorf("the gateway ended %v after its last run, want %v at most", took, bounded)
	}
}

// TestReleaseGivesRunsUp at once: readers elsewhere learn it, and the
// conversation is free.
func TestReleaseGivesRunsUp(t *testing.T) {
	p := startGateways(t, 1, "")
	for i := range 10 {
		leaver := p.start(t, p.redis.URL(), "shutdown release")
		gate := make(chan struct{})
		stage := p.upstream.Stage(gatedGeneric(gate, 2), gatedGeneric(closedGate(), 1))
		here, there := leaver.Client(siteReject).As("user-a").On(stage), p.client(0, siteReject, stage)
		conversation := "conv-" + itoa(i)
		a := here.Do(t, generate(conversation)).Want(200)
		a.Next()
		elsewhere := there.Resume(t, a.Run(), "").Want(200)
		elsewhere.Next()
		asked := time.Now()
		leaver.Terminate(t)
		end := testkit.EndsAs(t, elsewhere.Rest(), "uncertain")
		if end.StateReason == nil || *end.StateReason != "gateway_stopped" {
			t.Errorf("run.end has reason %v, want gateway_stopped", end.StateReason)
		}
		stage.Call(t, 1).AwaitClose(t)
		a.RestBroken()
		if now := there.Active(t, conversation); now.Status != "lost" {
			t.Errorf("conversation is %s after the release, want lost", now.Status)
		}
		next := there.Do(t, generate(conversation)).Want(200)
		checkCounted(t, next.Run(), 1, next.Rest())
		if err := leaver.Stop(); err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		if took := time.Since(asked); took > bounded {
			t.Errorf("the gateway ended %v after it was asked to, want %v at most", took, bounded)
		}
	}
}
