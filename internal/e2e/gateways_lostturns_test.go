package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestAFailoverThatLosesTurnsOfAConversationLosesNone: the replica knows the
// first turn of a conversation. It has never heard of the next, which ended, nor
// of the one after it, which goes on; the gateway that had them knows both, and
// neither may keep the other out. What was deleted stays so. In another
// conversation the replica believes that the first turn goes on.
func TestAFailoverThatLosesTurnsOfAConversationLosesNone(t *testing.T) {
	t.Parallel()
	f := byHand(t)
	turnOf := func(conversation string, frames int) *losing {
		l := losingRun(t, f.gateways, siteGeneric, f.subject, generate(conversation), countedData(frames))
		l.grow(t, frames/2)
		return l
	}
	turn := func(frames int) *losing { return turnOf("conv-turns", frames) }
	end := func(l *losing, frames int) {
		close(l.gate)
		l.whole(t, frames, "completed")
	}
	first := turn(shown)
	end(first, shown)
	early := turnOf("conv-held", shown) // as the replica will remember it, the conversation is still about this one
	told := turnOf("conv-told", shown)
	f.replica.CatchUp(f.master)
	f.replica.FallBehind(f.master)

	deleted := turn(shown)
	end(deleted, shown)
	owner := f.client(0, siteGeneric, deleted.stage).As(f.subject)
	owner.Do(t, testkit.Ask{Method: http.MethodDelete, Path: "/_runs/" + deleted.run}).Want(http.StatusNoContent)
	keyed := generate("conv-turns").With("Idempotency-Key", "second-turn")
	second := losingRun(t, f.gateways, siteGeneric, f.subject, keyed, countedData(shown))
	end(second, shown)
	third := turn(2 * shown)
	end(early, shown)
	late := turnOf("conv-held", 2*shown)
	end(told, shown)
	f.master.Kill()
	f.promote()

	// A Stop that comes before the end is stored again does not change it.
	testkit.Eventually(t, "the store is there again", func() bool {
		return told.client.Do(t, stopWithoutWait(told.run)).Status < 300
	})

	record := func(l *losing) *testkit.Answer { return l.client.Do(t, testkit.Ask{Path: "/_runs/" + l.run}) }
	for _, l := range []*losing{second, told} {
		testkit.Eventually(t, "the turn is stored again as it ended", func() bool {
			a := record(l)
			return a.Status == http.StatusOK && strings.Contains(string(a.Body()), `"state":"completed"`)
		})
	}
	second.check(t, attach(t, second.client, second.run).Rest(), shown, "completed")
	end(third, 2*shown)
	end(late, 2*shown)
	told.check(t, attach(t, told.client, told.run).Rest(), shown, "completed")
	early.check(t, attach(t, early.client, early.run).Rest(), shown, "completed")
	again := second.client.Do(t, keyed).Want(http.StatusOK)
	if again.Header.Get("Idempotent-Replayed") != "true" || again.Run() != second.run {
		t.Errorf("the second turn was paid for again, as %s", again.Run())
	}
	first.check(t, attach(t, first.client, first.run).Rest(), shown, "completed")
	record(deleted).Want(http.StatusNotFound)
}
