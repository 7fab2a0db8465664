package e2e

import (
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestASteerIsSentOnceWhicheverGatewayIsAsked: its key holds on all of them, and
// each tells what came of it.
func TestASteerIsSentOnceWhicheverGatewayIsAsked(t *testing.T) {
	t.Parallel()
	const site = "steered"
	p := startGateways(t, 0, "")
	setup := p.setup(p.redis.URL(), "")
	setup.Sites[site] = genericSite(p.upstream.Addr(), "keepalive off", "steer PUT /in/{conversation_id}")
	p.all = append(p.all, testkit.Start(t, setup), testkit.Start(t, setup))
	gate := make(chan struct{})
	defer close(gate)
	answer := func(status int) testkit.Script {
		return testkit.Script{testkit.Status(status), testkit.FlushHeaders(), testkit.End()}
	}
	stage := p.upstream.Stage(gatedGeneric(gate, 2), answer(http.StatusNoContent), answer(http.StatusConflict), answer(http.StatusOK))
	owner, other := p.client(0, site, stage), p.client(1, site, stage)
	started := owner.Do(t, generate("conv-1")).Want(200)
	started.Take(1)
	steer := func(key, body string) testkit.Ask {
		return testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + started.Run() + "/steer", Body: body}.Key(key)
	}
	ask := func(who testkit.Client, key, body string, status, calls int) {
		t.Helper()
		who.Do(t, steer(key, body)).Want(status)
		if got := stage.Starts(); got != calls {
			t.Errorf("%s %s: the backend was called %d times, want %d", key, body, got, calls)
		}
	}
	ask(other, "k-1", "left", http.StatusAccepted, 2)
	ask(owner, "k-1", "left", http.StatusAccepted, 2)
	ask(owner, "k-1", "right", http.StatusUnprocessableEntity, 2)
	ask(owner, "k-2", "right", http.StatusBadGateway, 3)
	ask(other, "k-2", "right", http.StatusBadGateway, 3)
	ask(other, "k-3", "right", http.StatusAccepted, 4)
}
