package e2e

import (
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestWithoutItsReplicaNothingIsDispatched under "durability wait:1". Runs that
// were admitted before go on: frames never wait for a replica, and an end that
// none has acknowledged counts all the same.
func TestWithoutItsReplicaNothingIsDispatched(t *testing.T) {
	p := startGateways(t, 0, "")
	replica := testkit.StartReplica(t, p.redis, "repl-diskless-sync-delay 0")
	p.all = append(p.all, p.start(t, p.redis.URL()+" {\ndurability wait:1\n}", ""))
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 2), gatedGeneric(closedGate(), 2))
	c := p.client(0, siteGeneric, stage)
	going := c.Do(t, generate("conv-1")).Want(200)
	events := []testkit.Event{going.Next()}

	replica.Kill()
	keyed := generate("conv-2").Key("k-2")
	refused := c.Do(t, keyed)
	refused.Problem(http.StatusServiceUnavailable, "store_unavailable")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("got no Retry-After, want the client to come back")
	}
	if n := stage.Starts(); n != 1 {
		t.Errorf("got %d upstream calls, want only that of the run before", n)
	}
	close(gate)
	events = append(events, going.Rest()...)
	checkCounted(t, going.Run(), 1, events)
	if len(events) != 2 {
		t.Errorf("got %d frames without a replica, want 2", len(events))
	}
	testkit.Eventually(t, "the run has ended", func() bool { return c.Snapshot(t, going.Run()).State == "completed" })

	replica.Start()
	replica.Follows()
	var again *testkit.Answer
	testkit.Eventually(t, "the key starts a run", func() bool {
		again = c.Do(t, keyed)
		return again.Status == http.StatusOK
	})
	checkCounted(t, again.Run(), 1, again.Rest())
	if n := stage.Starts(); n != 2 {
		t.Errorf("got %d upstream calls, want one for each run", n)
	}
}
