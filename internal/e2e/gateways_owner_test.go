package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// soon is how long what concerns the owner of a run may take when it was asked
// of another gateway.
const soon = 2 * time.Second

// TestStopReachesTheOwnerFromElsewhere within two seconds, and both answers
// tell the same.
func TestStopReachesTheOwnerFromElsewhere(t *testing.T) {
	p := startGateways(t, 2, "")
	for i := range 5 {
		stage := p.upstream.Stage(paced(20 * time.Millisecond))
		a := p.client(0, siteGeneric, stage).Do(t, generate("conv-"+itoa(i))).Want(200)
		events := a.Take(3)
		elsewhere := p.client(1, siteGeneric, stage)
		asked := time.Now()
		rec := elsewhere.Stop(t, a.Run())
		if took := stage.Call(t, 1).AwaitClose(t).Sub(asked); took > soon {
			t.Errorf("upstream was closed %v after the Stop, want %v at most", took, soon)
		}
		if rec.State != "cancelled" || rec.Cancel.Version != 1 {
			t.Errorf("Stop reports %s, version %d, want cancelled and 1", rec.State, rec.Cancel.Version)
		}
		events = append(events, a.RestBroken()...) // a generic stream has no words for its end
		checkCounted(t, a.Run(), 1, events)
		replay := elsewhere.Resume(t, a.Run(), "").Want(200).Rest()
		testkit.EndsAs(t, replay, "cancelled")
		checkCounted(t, a.Run(), 1, replay)
	}
}

// TestCase33Crash kills the owner of a run. Until its lease has run out nothing
// is lost; then everything is, in one step.
func TestCase33Crash(t *testing.T) {
	p := startGateways(t, 2, "")
	stage := p.upstream.Stage(paced(20*time.Millisecond), gatedGeneric(nil, 1))
	owner, other := p.client(0, siteReject, stage), p.client(1, siteReject, stage)
	a := owner.Do(t, generate("conv-1").Key("k-1")).Want(200)
	reader := other.Resume(t, a.Run(), "").Want(200)
	seen := a.Take(10)

	p.all[0].Crash()
	died := time.Now()
	if now := other.Active(t, "conv-1"); now.Status != "running" || now.Named() != a.Run() {
		t.Errorf("conversation is %s with run %q while the lease is valid, want running with %s", now.Status, now.Named(), a.Run())
	}
	refused := other.Do(t, generate("conv-1"))
	refused.Problem(http.StatusConflict, "run_in_flight")

	shown := reader.Rest()
	took := time.Since(died)
	t.Logf("readers had their end %v after the death", took)
	if took > shortLease+5*time.Second {
		t.Errorf("readers had their end %v after the death, want lease + 5 s at most", took)
	}
	end := testkit.EndsAs(t, shown, "uncertain")
	if end.StateReason == nil || *end.StateReason != "owner_lost" {
		t.Errorf("run.end gives %s, want the reason owner_lost", shown[len(shown)-1].Data)
	}
	checkCounted(t, a.Run(), 1, shown)
	if len(shown) < len(seen)+1 {
		t.Errorf("a reader elsewhere got %d frames, want the %d that were shown before at least", len(shown)-1, len(seen))
	}
	if now := other.Active(t, "conv-1"); now.Status != "lost" {
		t.Errorf("conversation is %s after the takeover, want lost", now.Status)
	}
	replay := other.Resume(t, a.Run(), "").Want(200).Rest()
	wantPairs(t, replay, testkit.Pairs(testkit.Content(shown)))
	testkit.EndsAs(t, replay, "uncertain")
	other.Do(t, generate("conv-1").Key("k-1")).RestBroken() // the key still names the run that was lost
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1: nothing is run again by itself", stage.Starts())
	}
	next := other.Do(t, generate("conv-1")).Want(200)
	if next.Run() == a.Run() || next.Next().Data != "c1" {
		t.Errorf("the next start got run %s, want a new one", next.Run())
	}
}

// TestAFrozenOwnerIsFenced freezes the owner past its lease. What it reads
// after another gateway took the run over is neither stored nor shown.
func TestAFrozenOwnerIsFenced(t *testing.T) {
	p := startGateways(t, 2, "")
	stage := p.upstream.Stage(paced(20 * time.Millisecond))
	owner, other := p.client(0, siteGeneric, stage), p.client(1, siteGeneric, stage)
	a := owner.Do(t, generate("conv-1")).Want(200)
	seen := a.Take(5)
	reader := other.Resume(t, a.Run(), "").Want(200)
	reader.Take(5)
	p.all[0].Freeze(t)
	shown := reader.Rest()
	testkit.EndsAs(t, shown, "uncertain")
	final := other.Resume(t, a.Run(), "").Want(200).Rest()

	p.all[0].Thaw(t)
	stage.Call(t, 1).AwaitClose(t) // it learned that the run is not its own
	// What stood in the socket when it froze may have been on its way to the
	// client that started the run; nothing of it is newer than the log.
	late, _ := a.Events.All()
	if seen = append(seen, late...); len(testkit.Content(seen)) > len(testkit.Content(final)) {
		t.Errorf("the fenced owner showed %d frames, and %d are stored", len(testkit.Content(seen)), len(testkit.Content(final)))
	}
	for _, c := range []testkit.Client{owner, other} {
		again := c.Resume(t, a.Run(), "").Want(200).Rest()
		wantPairs(t, again, testkit.Pairs(testkit.Content(final)))
		testkit.EndsAs(t, again, "uncertain")
	}
	if now := owner.Active(t, "conv-1"); now.Status != "lost" {
		t.Errorf("conversation is %s at the fenced owner, want lost", now.Status)
	}
}

// TestAStartingGatewayHarmsNobody: it must not take over what is alive.
func TestAStartingGatewayHarmsNobody(t *testing.T) {
	p := startGateways(t, 1, "")
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 2))
	a := p.client(0, siteGeneric, stage).Do(t, generate("conv-1")).Want(200)
	for range 3 {
		p.all = append(p.all, p.start(t, p.redis.URL(), ""))
	}
	for _, g := range p.all[1:] {
		if now := g.Client(siteGeneric).As("user-a").Active(t, "conv-1"); now.Status != "running" {
			t.Errorf("conversation is %s on a gateway that just started, want running", now.Status)
		}
	}
	close(gate)
	events := a.Rest()
	checkCounted(t, a.Run(), 1, events)
	if rec := p.client(1, siteGeneric, stage).Snapshot(t, a.Run()); rec.State != "completed" {
		t.Errorf("run is %s, want completed", rec.State)
	}
}
