package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestTheLastReaderMayLeaveAnywhere: under "on_disconnect cancel" a run goes on
// while somebody reads it at any gateway, and is stopped when the last one has
// left, wherever that was.
func TestTheLastReaderMayLeaveAnywhere(t *testing.T) {
	t.Parallel()
	p := startGateways(t, 0, "")
	setup := p.setup(p.redis.URL(), "")
	setup.Sites = map[string]string{siteGeneric: genericSite(p.upstream.Addr(), "keepalive off", "on_disconnect cancel after 500ms")}
	for range 2 {
		p.all = append(p.all, testkit.Start(t, setup))
	}
	stage := p.upstream.Stage(paced(20 * time.Millisecond))
	there := p.client(1, siteGeneric, stage)
	a := p.client(0, siteGeneric, stage).Do(t, generate("conv-1")).Want(200)
	elsewhere := there.Resume(t, a.Run(), "").Want(200)
	a.Take(3)
	a.Drop()
	events := elsewhere.Take(100) // for much longer than the run may be without readers
	checkCounted(t, a.Run(), 1, events)
	elsewhere.Drop()
	stage.Call(t, 1).AwaitClose(t)
	testkit.Eventually(t, "the run is stopped", func() bool { return there.Snapshot(t, a.Run()).State == "cancelled" })
}

// TestADeletedRunStaysDeleted although an owner comes back that was frozen when
// its run was taken from it, ended and deleted.
func TestADeletedRunStaysDeleted(t *testing.T) {
	t.Parallel()
	p := startGateways(t, 2, "")
	stage := p.upstream.Stage(paced(20 * time.Millisecond))
	owner, other := p.client(0, siteGeneric, stage), p.client(1, siteGeneric, stage)
	a := owner.Do(t, generate("conv-1")).Want(200)
	a.Take(3)
	p.all[0].Freeze(t)
	testkit.EndsAs(t, other.Resume(t, a.Run(), "").Want(200).Rest(), "uncertain")
	if d := other.Do(t, testkit.Ask{Method: http.MethodDelete, Path: "/_runs/" + a.Run()}); d.Status != http.StatusNoContent {
		t.Fatalf("DELETE got status %d, want 204: %s", d.Status, d.Body())
	}
	p.all[0].Thaw(t)
	stage.Call(t, 1).AwaitClose(t) // it learned that the run is not its own
	for _, c := range []testkit.Client{owner, other} {
		c.Do(t, testkit.Ask{Path: "/_runs/" + a.Run()}).Problem(http.StatusNotFound, "run_not_found")
		if now := c.Active(t, "conv-1"); now.Status != "idle" {
			t.Errorf("conversation is %s, want idle", now.Status)
		}
	}
}
