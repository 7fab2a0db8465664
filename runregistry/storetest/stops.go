package storetest

import (
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var stopTests = []test{
	{"Stop asks a running run to stop", stopRunning},
	{"Stop asks a waiting run to stop", stopWaiting},
	{"Stop ends a queued run at once", stopQueuedRun},
	{"Stop again changes nothing", stopAgain},
	{"Stop of an ended run changes nothing", stopEnded},
	{"the reason of Stop stands", stopReason},
	{"Stop of an unknown run", stopUnknown},
	{"of parallel Stops one counts", stopRace},
	{"of Stop and intent one comes first", stopIntentRace},
}

func stopRunning(f *fixture) {
	l := f.running()
	rec := f.stop(l.Run)
	want(f, "state", rec.State, runregistry.Cancelling)
	want(f, "version", rec.Cancel.Version, 1)
	want(f, "outcome", rec.Cancel.Outcome, runregistry.CancellationPending)
	want(f, "requested", rec.Cancel.RequestedAt.IsZero(), false)
	want(f, "loaded state", f.load(l.Run).State, runregistry.Cancelling)
}

func stopWaiting(f *fixture) {
	l := f.running()
	f.advance(l, runregistry.Progress{State: runregistry.Waiting})
	want(f, "state", f.stop(l.Run).State, runregistry.Cancelling)
}

func stopQueuedRun(f *fixture) {
	d := f.start(in("c"))
	rec := f.stop(d.Record.ID)
	want(f, "state", rec.State, runregistry.Cancelled)
	want(f, "effect", rec.Effect, runregistry.EffectNone)
	want(f, "outcome", rec.Cancel.Outcome, runregistry.CancelledBeforeEffect)
	want(f, "upstream", rec.Cancel.Upstream, runregistry.Confirmed)
	want(f, "final number", rec.FinalSeq, 1)
	want(f, "expiry", rec.ExpiresAt, rec.EndedAt.Add(retention.Record))
	_, err := f.Intend(f.ctx, d.Lease)
	f.wantErr("intent", err, runregistry.ErrSettled)
	f.start(in("c"))
}

func stopAgain(f *fixture) {
	l := f.running()
	first := f.stop(l.Run)
	again, err := f.Stop(f.ctx, l.Run, runregistry.ReasonSuperseded)
	if err != nil {
		f.Fatal(err)
	}
	want(f, "cancel", again.Cancel, first.Cancel)
	want(f, "reason", again.Reason, first.Reason)
	want(f, "revision", again.Revision, first.Revision)
	f.complete(l)
	want(f, "version in the end", f.stop(l.Run).Cancel.Version, 1)
}

func stopEnded(f *fixture) {
	l := f.running()
	ended := f.complete(l)
	rec := f.stop(l.Run)
	want(f, "state", rec.State, runregistry.Completed)
	want(f, "cancel", rec.Cancel, runregistry.Cancel{})
	want(f, "revision", rec.Revision, ended.Revision)
}

func stopReason(f *fixture) {
	l := f.running()
	rec, err := f.Stop(f.ctx, l.Run, runregistry.ReasonDeadlineExceeded)
	if err != nil {
		f.Fatal(err)
	}
	want(f, "reason", rec.Reason, runregistry.ReasonDeadlineExceeded)
	want(f, "reason in the end", f.complete(l).Reason, runregistry.ReasonDeadlineExceeded)
}

func stopUnknown(f *fixture) {
	_, err := f.Stop(f.ctx, runregistry.NewRunID(0), "")
	f.wantErr("stop", err, runregistry.ErrNoRun)
}

func stopRace(f *fixture) {
	l := f.running()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := f.Stop(f.ctx, l.Run, ""); err != nil {
				f.Errorf("stop failed: %v", err)
			}
		})
	}
	all.Wait()
	want(f, "version", f.load(l.Run).Cancel.Version, 1)
}

// A run that was stopped in the queue must never be dispatched.
func stopIntentRace(f *fixture) {
	for range 50 {
		d := f.start()
		var stop, intent error
		var both sync.WaitGroup
		both.Go(func() { _, stop = f.Stop(f.ctx, d.Record.ID, "") })
		both.Go(func() { _, intent = f.Intend(f.ctx, d.Lease) })
		both.Wait()
		f.wantErr("stop", stop, nil)
		rec := f.load(d.Record.ID)
		if intent == nil {
			want(f, "state of a dispatched run", rec.State, runregistry.Cancelling)
		} else {
			f.wantErr("intent", intent, runregistry.ErrSettled)
			want(f, "dispatched", rec.DispatchedAt.IsZero(), true)
		}
	}
}
