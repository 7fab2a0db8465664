package e2e

import (
	"strings"
	"testing"

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
