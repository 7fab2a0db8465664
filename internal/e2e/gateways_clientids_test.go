package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// clientIDs are starts whose clients choose an id for what they start.
var clientIDs = map[string]testkit.Ask{
	"AG-UI":   {Path: "/generate", Body: `{"threadId":"t-1","runId":"r-1","messages":[]}`},
	"FastGPT": {Path: "/generate", Body: `{"chatId":"c-1","responseChatItemId":"i-1","stream":true,"messages":[]}`},
}

// sameID checks that a start attaches to a run by its client's id, and that
// another body under that id is refused.
func sameID(t *testing.T, c testkit.Client, ask testkit.Ask, run string) {
	t.Helper()
	again := c.Do(t, ask).Want(200)
	if again.Next(); again.Run() != run || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got run %s, want %s again", again.Run(), run)
	}
	ask.Body = strings.Replace(ask.Body, "[]", "[1]", 1)
	c.Do(t, ask).Problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
}

// TestAnIDOfTheClientsOwnHoldsOnEveryGateway.
func TestAnIDOfTheClientsOwnHoldsOnEveryGateway(t *testing.T) {
	p := startGateways(t, 2, "")
	for name, ask := range clientIDs {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			stage := p.upstream.Stage(gatedGeneric(gate, 2))
			one, other := p.client(0, siteGeneric, stage), p.client(1, siteGeneric, stage)
			first := one.Do(t, ask).Want(200)
			first.Next()
			sameID(t, other, ask, first.Run())
			close(gate)
			first.Rest()
			sameID(t, other, ask, first.Run())
			if stage.Starts() != 1 {
				t.Errorf("got %d upstream calls, want 1", stage.Starts())
			}
		})
	}
}

// TestAnIDOfTheClientsOwnSurvivesARestart.
func TestAnIDOfTheClientsOwnSurvivesARestart(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	setup := testkit.Setup{
		Global: "store embedded {\npath " + t.TempDir() + "\n}",
		Sites:  map[string]string{"": genericSite(u.Addr(), "keepalive off")},
	}
	before := testkit.Start(t, setup)
	runs, stages := map[string]string{}, map[string]*testkit.Stage{}
	for name, ask := range clientIDs {
		stages[name] = u.Stage(gatedGeneric(closedGate(), 2))
		a := before.Client("").As("user-a").On(stages[name]).Do(t, ask).Want(200)
		a.Rest()
		runs[name] = a.Run()
	}
	before.Crash()
	c := testkit.Start(t, setup).Client("").As("user-a")
	for name, ask := range clientIDs {
		sameID(t, c.On(stages[name]), ask, runs[name])
		if stages[name].Starts() != 1 {
			t.Errorf("%s: got %d upstream calls, want 1", name, stages[name].Starts())
		}
	}
}
