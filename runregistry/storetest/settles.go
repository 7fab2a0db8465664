package storetest

import (
	"errors"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var settleTests = []test{
	{"the end is whole", settleWhole},
	{"the first finisher wins", settleFirst},
	{"of many finishers one wins", settleRace},
	{"a settlement that the table forbids changes nothing", settleForbidden},
	{"the last progress comes with the end", settleProgress},
	{"an end after Stop is cancelled", settleAfterStop},
	{"an end marker stored before Stop stands", settleMarkerFirst},
	{"an end marker that came after Stop does not stand", settleMarkerLate},
	{"no effect is recorded unless one was observed", settleNoEffect},
	{"of Stop and end one comes first", settleStopRace},
}

func settleWhole(f *fixture) {
	l := f.running()
	f.add(l, 0, "one", "two")
	rec := f.end(l, runregistry.Settlement{State: runregistry.Failed, Reason: runregistry.ReasonUpstreamError})
	want(f, "state", rec.State, runregistry.Failed)
	want(f, "reason", rec.Reason, runregistry.ReasonUpstreamError)
	want(f, "final number", rec.FinalSeq, 3)
	want(f, "last number", rec.LastSeq, 2)
	want(f, "cancel", rec.Cancel, runregistry.Cancel{})
	want(f, "frame expiry", rec.FramesExpireAt, rec.EndedAt.Add(retention.Frames))
	want(f, "record expiry", rec.ExpiresAt, rec.EndedAt.Add(retention.Record))
	loaded := f.load(l.Run)
	want(f, "loaded state", loaded.State, rec.State)
	want(f, "loaded revision", loaded.Revision, rec.Revision)
}

func settleFirst(f *fixture) {
	l := f.running()
	first := f.complete(l)
	rec, err := f.Settle(f.ctx, l, &runregistry.Settlement{
		State: runregistry.Failed, Progress: &runregistry.Progress{Model: "late"}, Keep: 1,
	})
	f.wantErr("settling again", err, runregistry.ErrSettled)
	want(f, "state told", rec.State, runregistry.Completed)
	want(f, "model told", rec.Model, "")
	want(f, "revision told", rec.Revision, first.Revision)
	want(f, "revision", f.load(l.Run).Revision, first.Revision)
}

func settleRace(f *fixture) {
	l := f.running(keyed("k"), in("c"), atMost(1))
	states := []runregistry.State{runregistry.Completed, runregistry.Failed, runregistry.Cancelled, runregistry.Uncertain}
	won := make(chan runregistry.State, 4*len(states))
	told := make(chan runregistry.State, 4*len(states))
	var all sync.WaitGroup
	for i := range cap(won) {
		all.Go(func() {
			rec, err := f.Settle(f.ctx, l, &runregistry.Settlement{State: states[i%len(states)]})
			switch {
			case err == nil:
				won <- rec.State
			case errors.Is(err, runregistry.ErrSettled):
				told <- rec.State
			default:
				f.Errorf("settling failed: %v", err)
			}
		})
	}
	all.Wait()
	want(f, "winners", len(won), 1)
	state := <-won
	for range len(told) {
		want(f, "state told", <-told, state)
	}
	want(f, "state", f.load(l.Run).State, state)
	f.start(in("c"), atMost(1)) // freed once, not more often
	f.wantLimit(f.refused(atMost(1)), 1)
}

func settleForbidden(f *fixture) {
	queued, running := f.start(), f.running()
	for _, tt := range []struct {
		lease runregistry.Lease
		to    runregistry.State
	}{
		{queued.Lease, runregistry.Completed},
		{queued.Lease, runregistry.Uncertain},
		{queued.Lease, runregistry.Running},
		{running, runregistry.Queued},
		{running, runregistry.Running},
		{running, runregistry.Waiting},
		{running, runregistry.StateNone},
	} {
		before := f.load(tt.lease.Run)
		_, err := f.Settle(f.ctx, tt.lease, &runregistry.Settlement{State: tt.to, Progress: &runregistry.Progress{Model: "m"}})
		if e, ok := errors.AsType[*runregistry.TransitionError](err); !ok || e.To != tt.to {
			f.Errorf("settling as %q: got error %v, want a forbidden move", tt.to, err)
		}
		want(f, "revision", f.load(tt.lease.Run).Revision, before.Revision)
	}
}

func settleProgress(f *fixture) {
	l := f.running()
	rec := f.end(l, runregistry.Settlement{State: runregistry.Completed, Progress: &runregistry.Progress{
		UpstreamID: "up", Usage: &runregistry.Usage{OutputTokens: 3, Complete: true}, Snapshot: []byte("{}"), SnapshotSeq: 1,
	}})
	want(f, "usage", rec.Usage.OutputTokens, 3)
	want(f, "snapshot", string(rec.Snapshot), "{}")
	found, err := f.ByUpstream(f.ctx, runregistry.SubjectScope(alice), "up")
	if err != nil || found.ID != l.Run {
		f.Errorf("got %v and error %v by upstream's id, want %s", found, err, l.Run)
	}
}

func settleAfterStop(f *fixture) {
	for _, s := range []runregistry.State{runregistry.Completed, runregistry.Failed, runregistry.Cancelled} {
		l := f.running()
		f.stop(l.Run)
		rec := f.end(l, runregistry.Settlement{State: s, Reason: runregistry.ReasonUpstreamTruncated, Upstream: runregistry.Confirmed})
		want(f, "state", rec.State, runregistry.Cancelled)
		want(f, "reason", rec.Reason, "")
		want(f, "outcome", rec.Cancel.Outcome, runregistry.CancelledAfterEffect)
		want(f, "upstream", rec.Cancel.Upstream, runregistry.Confirmed)
	}
}

func settleMarkerFirst(f *fixture) {
	l := f.running()
	f.send(l, &runregistry.Batch{Frames: raw("end"), Progress: &runregistry.Progress{Ending: true}})
	f.stop(l.Run)
	rec := f.complete(l)
	want(f, "state", rec.State, runregistry.Completed)
	want(f, "outcome", rec.Cancel.Outcome, runregistry.AlreadyTerminal)
}

func settleMarkerLate(f *fixture) {
	l := f.running()
	f.stop(l.Run)
	f.send(l, &runregistry.Batch{Frames: raw("end"), Progress: &runregistry.Progress{Ending: true}})
	rec := f.end(l, runregistry.Settlement{State: runregistry.Completed, Progress: &runregistry.Progress{Ending: true}})
	want(f, "state", rec.State, runregistry.Cancelled)
	want(f, "final number", rec.FinalSeq, 1)
}

func settleNoEffect(f *fixture) {
	l := f.running()
	want(f, "effect", f.end(l, runregistry.Settlement{State: runregistry.Failed, NoEffect: true}).Effect, runregistry.EffectNone)
	l = f.running()
	f.advance(l, runregistry.Progress{Effect: runregistry.EffectObserved})
	want(f, "effect", f.end(l, runregistry.Settlement{State: runregistry.Failed, NoEffect: true}).Effect, runregistry.EffectObserved)
}

// Whichever comes first, the two agree on what happened.
func settleStopRace(f *fixture) {
	for range 50 {
		l := f.running()
		var stopped, settled *runregistry.Record
		var stop, settle error
		var both sync.WaitGroup
		both.Go(func() { stopped, stop = f.Stop(f.ctx, l.Run, "") })
		both.Go(func() { settled, settle = f.Settle(f.ctx, l, &runregistry.Settlement{State: runregistry.Completed}) })
		both.Wait()
		f.wantErr("stop", stop, nil)
		f.wantErr("settle", settle, nil)
		if f.Failed() {
			return
		}
		first := stopped.State == runregistry.Cancelling
		want(f, "cancelled", settled.State == runregistry.Cancelled, first)
		want(f, "stop recorded", settled.Cancel.Version > 0, first)
	}
}

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
