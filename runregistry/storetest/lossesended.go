package storetest

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

func restoreEnded(f *pair) {
	l := f.running(in("c"), keyed("k"), atMost(1))
	f.add(l, 0, "one", "two", "three")
	f.advance(l, runregistry.Progress{UpstreamID: "up", Effect: runregistry.EffectObserved})
	f.stop(l.Run)
	ended := f.end(l, runregistry.Settlement{State: runregistry.Cancelled, Upstream: runregistry.Confirmed})
	f.server.Lose()
	f.wantErr("restoring", f.restore(l, ended, 1, "two", "three"), nil)
	f.wantErr("restoring again", f.restore(l, ended, 1, "two", "three"), nil)
	f.wantErr("renewal", f.renew(l).Err, runregistry.ErrSettled)

	rec := f.other.load(l.Run)
	want(f.fixture, "state", rec.State, runregistry.Cancelled)
	want(f.fixture, "cancel", rec.Cancel, ended.Cancel)
	want(f.fixture, "effect", rec.Effect, runregistry.EffectObserved)
	want(f.fixture, "numbers", [3]runregistry.Seq{rec.FirstSeq, rec.LastSeq, rec.FinalSeq}, [3]runregistry.Seq{2, 3, 4})
	want(f.fixture, "end", rec.EndedAt, ended.EndedAt)
	want(f.fixture, "that it is kept longer", rec.ExpiresAt.After(ended.ExpiresAt.Add(10*time.Second)), false) // but for a slow machine
	f.bounded("restore")
	f.other.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.other.wantUpstream("up", l.Run)
	f.other.start(in("c"), atMost(1)) // neither is it busy nor does it count
}

// The conversation went on: what is restored first must not take it away from
// the run that it is about now.
func restoreEndedFirst(f *pair) {
	f.complete(f.running(in("c")))
	before := f.running(in("c"), keyed("k"))
	f.add(before, 0, "one")
	ended := f.complete(before)
	now := f.running(in("c"), keyed("l"))
	active := f.load(now.Run)
	f.server.Lose()
	f.wantErr("restoring the one that ended", f.restore(before, ended, 0, "one"), nil)
	f.wantErr("restoring the active one", f.restore(now, active, 0), nil)
	f.other.attached(before.Run, runregistry.MatchKey, keyed("k"))
	f.other.attached(now.Run, runregistry.MatchKey, keyed("l"))
	want(f.fixture, "the run that holds it", f.other.wantBusy(f.other.refused(in("c"))).Run, now.Run)
	f.complete(now)
	list, err := f.other.List(f.ctx, runregistry.ListQuery{Subject: alice})
	f.wantErr("listing", err, nil)
	want(f.fixture, "the newest of the list", list.Records[0].ID, now.Run)
}

func restoreEndedLast(f *pair) {
	f.complete(f.running(in("c")))
	before := f.running(in("c"), keyed("k"))
	f.add(before, 0, "one")
	ended := f.complete(before)
	f.server.Lose()
	soonForgotten := func(a *runregistry.Admission) {
		a.Retention = runregistry.Retention{Frames: time.Hour, Record: time.Hour}
	}
	now := f.other.start(in("c"), keyed("k"), soonForgotten)
	f.other.intend(now.Lease)
	f.wantErr("restoring", f.restore(before, ended, 0, "one"), nil)
	f.other.wantFrames(before.Run, "one")
	f.other.attached(now.Record.ID, runregistry.MatchKey, keyed("k"))
	want(f.fixture, "the run that holds it", f.other.wantBusy(f.other.refused(in("c"))).Run, now.Record.ID)
	f.other.complete(now.Lease)
	want(f.fixture, "the run that it was about last", f.other.current("c").ID, now.Record.ID)
	f.remove(before.Run)
	f.other.attached(now.Record.ID, runregistry.MatchKey, keyed("k"))
}

func restoreEndedFree(f *pair) {
	l := f.running(keyed("k"))
	ended := f.end(l, runregistry.Settlement{State: runregistry.Failed, NoEffect: true, ReleaseKey: true})
	f.server.Lose()
	f.wantErr("restoring", f.restore(l, ended, 0), nil)
	f.other.start(keyed("k"))
}

func restoreEndedDeleted(f *pair) {
	l := f.running()
	f.add(l, 0, "one")
	ended := f.complete(l)
	f.remove(l.Run)
	f.wantErr("restoring", f.restore(l, ended, 0, "one"), runregistry.ErrTaken)
	f.wantErr("loading", first(f.other.Load(f.ctx, l.Run)), runregistry.ErrNoRun)
}

// The store has lost the end, so that it believed a Stop to come in time, or has
// lost both.
func settleTold(f *pair) {
	l := f.running()
	f.stop(l.Run)
	rec := f.end(l, runregistry.Settlement{State: runregistry.Completed, Reason: runregistry.ReasonLength, Told: &runregistry.Cancel{}})
	want(f.fixture, "state and reason", [2]string{rec.State.String(), string(rec.Reason)}, [2]string{"completed", "length"})
	want(f.fixture, "cancel", rec.Cancel, runregistry.Cancel{})

	l = f.running()
	told := runregistry.Cancel{Version: 1, Outcome: runregistry.CancelledAfterEffect, Upstream: runregistry.Confirmed}
	rec = f.end(l, runregistry.Settlement{State: runregistry.Cancelled, Reason: runregistry.ReasonSuperseded, Told: &told})
	want(f.fixture, "reason", rec.Reason, runregistry.ReasonSuperseded)
	want(f.fixture, "cancel", rec.Cancel, told)
}
