package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase62FiftyReloadsWithRedis: reloads leave no connection behind, lose no
// start, and one that names another store is refused while a run goes on.
func TestCase62FiftyReloadsWithRedis(t *testing.T) {
	p := startGateways(t, 1, "")
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 2))
	quick := p.upstream.Stage(gatedGeneric(closedGate(), 2))
	g, c := p.all[0], p.client(0, siteGeneric, stage)
	a := c.Do(t, generate("conv-1")).Want(200)
	first := a.Next()
	reload := func(i int) {
		t.Helper()
		setup := p.setup(p.redis.URL(), "frame_retention "+itoa(300+i%2)+"s")
		if err := g.Reload(setup); err != nil {
			t.Fatalf("reload %d: %v", i, err)
		}
		started := startAround(t, c.On(quick))
		checkCounted(t, started.Run(), 1, started.Rest())
	}
	for i := range 5 {
		reload(i)
	}
	before, connections := g.Usage(t), len(p.redis.Clients())
	for i := range 50 {
		reload(i)
		if i%5 > 0 {
			continue
		}
		err := g.Reload(p.setup("redis://127.0.0.1:1", ""))
		if err == nil || !strings.Contains(err.Error(), "cannot replace store redis") {
			t.Fatalf("reload with another store during a run: got %v, want it refused", err)
		}
		if err := g.Reload(p.setup("http://127.0.0.1:1", "")); err == nil || !strings.Contains(err.Error(), "the scheme must be redis or rediss") {
			t.Fatalf("reload with a wrong address: got %v, want it refused", err)
		}
	}
	testkit.Eventually(t, "goroutines, sockets and connections at their baseline", func() bool {
		now := g.Usage(t)
		return now.Goroutines <= before.Goroutines+5 && now.Files <= before.Files+5 && len(p.redis.Clients()) <= connections+5
	})
	close(gate)
	checkCounted(t, a.Run(), 2, a.Rest())
	replay := c.Resume(t, a.Run(), first.ID).Want(200).Rest()
	testkit.EndsAs(t, replay, "completed")
	if lines := g.Log.Lines("duplicate metrics"); len(lines) > 0 {
		t.Error(lines[0])
	}
}

// startAround starts a run beside a reload. Caddy hands its sockets over, and
// closes a connection unanswered that reaches the old one in that moment; a
// browser sends such a request again.
func startAround(t *testing.T, c testkit.Client) *testkit.Answer {
	t.Helper()
	for range 3 {
		if a, err := c.Try(t, generate("")); err == nil {
			return a.Want(200)
		}
	}
	return c.Do(t, generate("")).Want(200)
}

// TestAReloadWhileAnotherGatewayDies: a gateway takes a new configuration twice
// in mid-stream, around the death of the other one. Its own run goes on for the
// readers of both; that of the dead one has one end, and its readers come back
// here.
func TestAReloadWhileAnotherGatewayDies(t *testing.T) {
	t.Parallel()
	p := startGateways(t, 2, "store_grace 60s")
	mine, theirs := startTrial(t, p, "user-a", 300), p.upstream.Stage(paced(20*time.Millisecond))
	dying, stays := p.client(1, siteGeneric, theirs), p.client(0, siteGeneric, theirs)
	a := dying.Do(t, generate("conv-dying")).Want(200)
	attached, moving := stays.Resume(t, a.Run(), "").Want(200), dying.Resume(t, a.Run(), "").Want(200)
	seen, moved := attached.Take(10), moving.Take(10)
	reload := func(i int) {
		t.Helper()
		if err := p.all[0].Reload(p.setup(p.redis.URL(), "store_grace 60s\nframe_retention "+itoa(300+i)+"s")); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	mine.sent(t, 20)
	died := make(chan struct{})
	go func() {
		defer close(died)
		p.all[1].Crash()
	}()
	reload(1)
	<-died
	late, _ := moving.Events.All() // what was on its way when it died
	moved = append(moved, late...)
	reload(2)

	back := stays.Resume(t, a.Run(), moved[len(moved)-1].ID).Want(200)
	seen, moved = append(seen, attached.Rest()...), append(moved, back.Rest()...)
	for _, events := range [][]testkit.Event{seen, moved} {
		checkCounted(t, a.Run(), 1, events)
		if end := testkit.EndsAs(t, events, "uncertain"); end.StateReason == nil || *end.StateReason != "owner_lost" {
			t.Errorf("run.end has reason %v, want owner_lost", end.StateReason)
		}
	}
	if a, b := len(testkit.Content(seen)), len(testkit.Content(moved)); a != b {
		t.Errorf("the reader that stayed got %d frames, the one that came back %d", a, b)
	}
	mine.elsewhereDied(t)
	if n := theirs.Starts(); n != 1 {
		t.Errorf("got %d upstream calls, want 1", n)
	}
}

// elsewhereDied is end for a trial whose second gateway is gone: its readers
// come back to the first with what they have.
func (r *trial) elsewhereDied(t *testing.T) {
	t.Helper()
	for i, reader := range r.readers {
		if i%2 == 0 {
			r.whole(t, i > 0, reader)
			continue
		}
		events, _ := reader.Events.All()
		after := ""
		if n := len(events); n > 0 {
			after = events[n-1].ID
		}
		back := r.owner.Resume(t, r.run, after).Want(200).Rest()
		r.check(t, true, append(events, back...))
	}
	r.whole(t, true, r.owner.Resume(t, r.run, "").Want(200))
}
