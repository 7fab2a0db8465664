package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// stopWithoutWait asks for a Stop and does not wait for its outcome.
func stopWithoutWait(run string) testkit.Ask {
	return testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/cancel"}.With("Prefer", "wait=0")
}

// TestOneEndForAllReadersOfADeadOwner: of two gateways that see the owner die
// one settles its run, and every reader of either gets one end.
func TestOneEndForAllReadersOfADeadOwner(t *testing.T) {
	p := startGateways(t, 3, "")
	stage := p.upstream.Stage(paced(20 * time.Millisecond))
	a := p.client(0, siteGeneric, stage).Do(t, generate("conv-1")).Want(200)
	a.Take(3)
	var readers []*testkit.Answer
	for i := range 6 {
		r := p.client(1+i%2, siteGeneric, stage).Resume(t, a.Run(), "").Want(200)
		r.Take(2)
		readers = append(readers, r)
	}
	p.all[0].Crash()
	died := time.Now()
	var frames []testkit.Pair
	for i, r := range readers {
		events := r.Rest()
		end := testkit.EndsAs(t, events, "uncertain")
		if end.StateReason == nil || *end.StateReason != "owner_lost" {
			t.Errorf("reader %d: run.end has reason %v, want owner_lost", i, end.StateReason)
		}
		checkCounted(t, a.Run(), 3, events)
		if got := testkit.Pairs(testkit.Content(events)); i == 0 {
			frames = got
		} else {
			wantPairs(t, events, frames)
		}
	}
	if took := time.Since(died); took > shortLease+5*time.Second {
		t.Errorf("readers had their end %v after the death, want lease + 5 s at most", took)
	}
	settled := len(p.all[1].Log.Lines("run of a dead owner settled")) + len(p.all[2].Log.Lines("run of a dead owner settled"))
	if settled != 1 {
		t.Errorf("the run was settled %d times, want once", settled)
	}
}

// TestStopOfADeadOwnersRun is pending until its lease is over. Then nobody can
// say what became of it, which the reader is told once.
func TestStopOfADeadOwnersRun(t *testing.T) {
	p := startGateways(t, 2, "")
	stage := p.upstream.Stage(paced(20 * time.Millisecond))
	other := p.client(1, siteGeneric, stage)
	a := p.client(0, siteGeneric, stage).Do(t, generate("conv-1")).Want(200)
	a.Take(3)
	reader := other.Resume(t, a.Run(), "").Want(200)
	reader.Take(3)
	p.all[0].Crash()
	pending := testkit.Decode[testkit.Record](t, other.Do(t, stopWithoutWait(a.Run())).Want(http.StatusAccepted).Body())
	if pending.State != "cancelling" || pending.Outcome() != "cancellation_pending" {
		t.Errorf("Stop reports %s, %s, want cancelling and pending", pending.State, pending.Outcome())
	}
	events := reader.Rest()
	end := testkit.EndsAs(t, events, "uncertain")
	if end.StateReason == nil || *end.StateReason != "owner_lost" {
		t.Errorf("run.end has reason %v, want owner_lost", end.StateReason)
	}
	if told := events[len(events)-2]; told.Name != "run.state" || told.Own {
		t.Errorf("before the end came %s with id %t, want an unnumbered run.state", told.Name, told.Own)
	}
	testkit.CheckIDs(t, a.Run(), 4, events)
	rec := other.Snapshot(t, a.Run())
	if rec.State != "uncertain" || rec.Outcome() != "already_terminal" || rec.Cancel.Version != 1 {
		t.Errorf("record has %s, outcome %s, version %d", rec.State, rec.Outcome(), rec.Cancel.Version)
	}
	if again := testkit.Decode[testkit.Record](t, other.Do(t, stopWithoutWait(a.Run())).Want(http.StatusOK).Body()); again.State != "uncertain" {
		t.Errorf("a second Stop reports %s, want uncertain", again.State)
	}
}

// TestASupersededRunElsewhereIsClosed within two seconds: by a start that
// always replaces, and by one that does when nobody reads.
func TestASupersededRunElsewhereIsClosed(t *testing.T) {
	p := startGateways(t, 2, "")
	for site, leaves := range map[string]bool{siteReplace: false, siteGeneric: true} {
		stage := p.upstream.Stage(paced(20*time.Millisecond), gatedGeneric(closedGate(), 2))
		a := p.client(0, site, stage).Do(t, generate("conv-"+site)).Want(200)
		a.Take(3)
		if leaves {
			a.Drop()
		}
		ask := generate("conv-" + site)
		ask.Body += " "
		asked := time.Now()
		next := p.client(1, site, stage).Do(t, ask).Want(200)
		if took := stage.Call(t, 1).AwaitClose(t).Sub(asked); took > soon {
			t.Errorf("%s: upstream was closed %v after the next start, want %v at most", site, took, soon)
		}
		checkCounted(t, next.Run(), 1, next.Rest())
		end := testkit.EndsAs(t, p.client(1, site, stage).Resume(t, a.Run(), "").Want(200).Rest(), "cancelled")
		if end.StateReason == nil || *end.StateReason != "superseded" {
			t.Errorf("%s: run.end has reason %v, want superseded", site, end.StateReason)
		}
	}
}
