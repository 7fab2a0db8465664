package e2e

import (
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestReleaseHandsRunsOnInTurn: of two gateways one after the other stops in
// the middle of a run and comes back. The one that stays goes on with the run,
// so that every reader has each frame once, and the backend generates once.
func TestReleaseHandsRunsOnInTurn(t *testing.T) {
	t.Parallel()
	b, ask := responsesArchive(100)
	b.every, b.pause = 10*time.Millisecond, 50
	b.open(t)
	p, setup := b.behind(t, "shutdown release")
	for i := range 10 {
		leaver, stays := p.all[i%2], p.all[(i+1)%2]
		b.handsOn(t, leaver, stays, ask, "user-"+itoa(i))
		if t.Failed() {
			t.Fatalf("in round %d", i)
		}
		p.all[i%2] = testkit.Start(t, setup)
	}
}

// handsOn stops a gateway in the middle of a run that it owns.
func (b *archive) handsOn(t *testing.T, leaver, stays *testkit.Gateway, ask testkit.Ask, subject string) {
	t.Helper()
	starts, joins := b.seen()
	here, there := leaver.Client(siteAuto).As(subject), stays.Client(siteAuto).As(subject)
	a := here.Do(t, ask).Want(200)
	reader, elsewhere := here.Resume(t, a.Run(), "").Want(200), there.Resume(t, a.Run(), "").Want(200)
	first := elsewhere.Take(10)
	events := reader.Take(10)

	asked := time.Now()
	leaver.Terminate(t)
	events = append(events, reader.Rest()...) // told to come back: a clean end
	a.RestBroken()                            // an SDK must not take it for success
	back := there.Resume(t, a.Run(), events[len(events)-1].ID).Want(200)
	if err := leaver.Stop(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if took := time.Since(asked); took > bounded {
		t.Errorf("the gateway ended %v after it was asked to, want %v at most", took, bounded)
	}
	for _, all := range [][]testkit.Event{append(events, back.Rest()...), append(first, elsewhere.Rest()...), there.Resume(t, a.Run(), "").Want(200).Rest()} {
		testkit.EndsAs(t, all, "completed")
		wantArchive(t, b, a.Run(), testkit.Content(all))
	}
	nowStarts, nowJoins := b.seen()
	if nowStarts != starts+1 || len(nowJoins) != len(joins)+1 {
		t.Errorf("got %d generations and %d joins, want one and one", nowStarts-starts, len(nowJoins)-len(joins))
	}
}

// TestAGatewayStopsWhenItsBackendWentFirst: there is nothing to wait for any
// more, whatever time it may take.
func TestAGatewayStopsWhenItsBackendWentFirst(t *testing.T) {
	t.Parallel()
	p := startGateways(t, 2, "shutdown finish 60s")
	gate := make(chan struct{})
	script := append(gatedGeneric(gate, 2), testkit.Cut())
	script = append(script[:len(script)-2], script[len(script)-1]) // it breaks off in place of an end
	stage := p.upstream.Stage(script)
	here, there := p.client(0, siteGeneric, stage), p.client(1, siteGeneric, stage)
	a := here.Do(t, generate("conv-1")).Want(200)
	reader, elsewhere := here.Resume(t, a.Run(), "").Want(200), there.Resume(t, a.Run(), "").Want(200)
	seen, first := elsewhere.Take(1), reader.Next()
	gate <- struct{}{}
	seen = append(seen, elsewhere.Take(1)...)
	reader.Next()
	p.all[0].Terminate(t)
	reader.Rest() // told to come back
	a.RestBroken()
	back := there.Resume(t, a.Run(), first.ID).Want(200)

	asked := time.Now()
	gate <- struct{}{}
	if err := p.all[0].Stop(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if took := time.Since(asked); took > bounded {
		t.Errorf("the gateway ended %v after its backend, want %v at most", took, bounded)
	}
	seen = append(seen, elsewhere.Rest()...)
	checkCounted(t, a.Run(), 1, seen)
	testkit.EndsAs(t, seen, "failed")
	rest := back.Rest()
	checkCounted(t, a.Run(), 2, rest)
	testkit.EndsAs(t, rest, "failed")
	if n := stage.Starts(); n != 1 {
		t.Errorf("got %d upstream calls, want 1", n)
	}
}

// TestAGatewayStopsWhenRedisWentFirst: it cannot give its run up, and does not
// wait for that. When Redis is back another gateway ends the run.
func TestAGatewayStopsWhenRedisWentFirst(t *testing.T) {
	t.Parallel()
	p := &gateways{redis: testkit.StartRedis(t, testkit.Durable...), upstream: testkit.NewUpstream(t)}
	for range 2 {
		p.all = append(p.all, p.start(t, p.redis.URL(), "shutdown finish 1s"))
	}
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 4))
	here, there := p.client(0, siteGeneric, stage), p.client(1, siteGeneric, stage)
	a := here.Do(t, generate("conv-1")).Want(200)
	reader, elsewhere := here.Resume(t, a.Run(), "").Want(200), there.Resume(t, a.Run(), "").Want(200)
	gate <- struct{}{}
	reader.Take(2)
	seen := elsewhere.Take(2)
	p.redis.Kill()
	gate <- struct{}{} // nobody will ever see this one

	asked := time.Now()
	p.all[0].Terminate(t)
	if rest := reader.Rest(); len(rest) != 0 {
		t.Errorf("a reader of the stopping gateway got %d more events, want a clean end", len(rest))
	}
	a.RestBroken()
	if err := p.all[0].Stop(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if took := time.Since(asked); took > bounded {
		t.Errorf("the gateway ended %v after it was asked to, want %v at most", took, bounded)
	}
	stage.Call(t, 1).AwaitClose(t)
	p.redis.Start()
	seen = append(seen, elsewhere.Rest()...)
	end := testkit.EndsAs(t, seen, "uncertain")
	if end.StateReason == nil || *end.StateReason != "owner_lost" {
		t.Errorf("run.end has reason %v, want owner_lost", end.StateReason)
	}
	checkCounted(t, a.Run(), 1, seen)
	if n := len(testkit.Content(seen)); n != 2 {
		t.Errorf("the reader elsewhere got %d frames, want the 2 that were stored", n)
	}
}
