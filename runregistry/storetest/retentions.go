package storetest

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var retentionTests = []test{
	{"retention counts from the end", retentionFromEnd},
	{"frames expire before the record", retentionOfFrames},
	{"a reader at the end misses nothing when frames expire", retentionAtEnd},
	{"the record expires with everything", retentionOfRecord},
	{"a settlement may shorten it", retentionShortened},
	{"frames do not outlive the record", retentionOrder},
	{"readers are told that frames and record expired", retentionIsAnnounced},
	{"a run in a long conversation expires alone", retentionInConversation},
	{"many runs expire each in its time", retentionOfMany},
}

// tick is the finest time that an engine must tell apart.
const tick = time.Millisecond

func retentionFromEnd(f *fixture) {
	l := f.running(keyed("k"), in("c"))
	f.add(l, 0, "one")
	time.Sleep(100 * time.Hour)
	f.add(l, 1, "two")
	f.wantFrames(l.Run, "one", "two")
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.complete(l)
	time.Sleep(retention.Frames - tick)
	f.wantFrames(l.Run, "one", "two")
}

func retentionOfFrames(f *fixture) {
	l := f.running(in("c"), func(a *runregistry.Admission) { a.Limits.Frames = 2 })
	f.add(l, 0, "one", "two", "three")
	ended := f.complete(l)
	time.Sleep(retention.Frames - tick)
	want(f, "first number", f.load(l.Run).FirstSeq, 2)
	time.Sleep(tick)
	rec := f.load(l.Run)
	want(f, "first number", rec.FirstSeq, 0)
	want(f, "last number", rec.LastSeq, 3)
	want(f, "final number", rec.FinalSeq, 4)
	want(f, "grown revision", rec.Revision > ended.Revision, true)
	for _, after := range []runregistry.Seq{0, 1, 2} {
		p, err := f.Read(f.ctx, runregistry.PageQuery{Run: l.Run, After: after})
		f.wantErr("reading", err, runregistry.ErrExpired)
		want(f, "first number told", p.First, 0)
		want(f, "final number told", p.Final, 4)
		want(f, "state told", p.State, runregistry.Completed)
	}
	want(f, "current", f.current("c").ID, l.Run)
	want(f, "listed", len(f.list(runregistry.ListQuery{}).Records), 1)
}

// The terminal frame is made from the record, so it does not expire with the
// others.
func retentionAtEnd(f *fixture) {
	l := f.running()
	f.add(l, 0, "one")
	f.complete(l)
	empty := f.running()
	f.complete(empty)
	time.Sleep(retention.Frames)
	for id, after := range map[runregistry.RunID]runregistry.Seq{l.Run: 1, empty.Run: 0} {
		p := f.page(runregistry.PageQuery{Run: id, After: after})
		want(f, "frames", len(p.Frames), 0)
		want(f, "final number", p.Final, after+1)
	}
}

func retentionOfRecord(f *fixture) {
	l := f.running(in("c"), echo("hi"))
	f.add(l, 0, "one")
	f.advance(l, runregistry.Progress{UpstreamID: "up"})
	f.bind(l, "alias")
	f.complete(l)
	time.Sleep(retention.Record - tick)
	f.load(l.Run)
	want(f, "current", f.current("alias").ID, l.Run)
	f.wantUpstream("up", l.Run)
	time.Sleep(tick)
	f.wantGone(l.Run)
	f.wantUnknown("c")
	f.wantUnknown("alias")
	f.wantNoUpstream("up")
	want(f, "listed", len(f.list(runregistry.ListQuery{}).Records), 0)
	f.wantErr("deleting", f.Delete(f.ctx, l.Run), runregistry.ErrNoRun)
	for call, err := range f.writes(l) {
		f.wantErr(call, err, runregistry.ErrNoRun)
	}
}

func retentionShortened(f *fixture) {
	l := f.running(keyed("k"))
	f.add(l, 0, "one")
	rec := f.end(l, runregistry.Settlement{State: runregistry.Completed, Keep: time.Minute})
	want(f, "record expiry", rec.ExpiresAt, rec.EndedAt.Add(time.Minute))
	time.Sleep(time.Minute - tick)
	f.wantFrames(l.Run, "one")
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	time.Sleep(tick)
	f.wantGone(l.Run)
	f.start(keyed("k"))

	long := f.running()
	rec = f.end(long, runregistry.Settlement{State: runregistry.Completed, Keep: 1000 * time.Hour})
	want(f, "record expiry", rec.ExpiresAt, rec.EndedAt.Add(retention.Record))
}

func retentionOrder(f *fixture) {
	l := f.running(func(a *runregistry.Admission) {
		a.Retention = runregistry.Retention{Frames: time.Hour, Record: time.Minute}
	})
	f.add(l, 0, "one")
	rec := f.complete(l)
	want(f, "frame expiry", rec.FramesExpireAt, rec.ExpiresAt)
	time.Sleep(time.Minute)
	f.wantGone(l.Run)
}

func retentionIsAnnounced(f *fixture) {
	l := f.running()
	f.add(l, 0, "one")
	f.complete(l)
	w := f.watch(l.Run, true)
	for _, wait := range []time.Duration{retention.Frames, retention.Record - retention.Frames} {
		time.Sleep(wait)
		f.awaken(w)
	}
}

func retentionInConversation(f *fixture) {
	first := f.running(in("c"))
	f.complete(first)
	time.Sleep(retention.Record - time.Hour)
	second := f.running(in("c"))
	f.complete(second)
	time.Sleep(time.Hour)
	f.wantGone(first.Run)
	want(f, "current", f.current("c").ID, second.Run)
	time.Sleep(retention.Record)
	f.wantUnknown("c")
}

func retentionOfMany(f *fixture) {
	const runs = 300
	var ends []runregistry.Lease
	for i := range runs {
		keep := time.Duration(1+i*7%runs) * time.Second
		l := f.running()
		f.end(l, runregistry.Settlement{State: runregistry.Completed, Keep: keep})
		ends = append(ends, l)
	}
	for second := range runs {
		time.Sleep(time.Second)
		left := len(f.listAll(runregistry.ListQuery{Limit: 200}))
		if w := runs - second - 1; left != w {
			f.Fatalf("after %d s: got %d runs, want %d", second+1, left, w)
		}
	}
	for _, l := range ends {
		f.wantGone(l.Run)
	}
}

var deletionTests = []test{
	{"an active run cannot be deleted", deleteActive},
	{"a deleted run is gone in every way", deleteGone},
	{"the key of a deleted run stays reserved", deleteKeepsKey},
	{"a key that was released is not reserved", deleteReleased},
	{"a conversation goes back to the run before", deleteInConversation},
	{"deleting again finds nothing", deleteAgain},
	{"a deleted delivery is not claimed", deleteDelivery},
}

func (f *fixture) remove(id runregistry.RunID) {
	f.Helper()
	if err := f.Delete(f.ctx, id); err != nil {
		f.Fatalf("deleting failed: %v", err)
	}
}

func deleteActive(f *fixture) {
	queued := f.start()
	f.wantErr("queued", f.Delete(f.ctx, queued.Record.ID), runregistry.ErrRunActive)
	l := f.running()
	f.wantErr("running", f.Delete(f.ctx, l.Run), runregistry.ErrRunActive)
	f.stop(l.Run)
	f.wantErr("cancelling", f.Delete(f.ctx, l.Run), runregistry.ErrRunActive)
	f.complete(l)
	f.remove(l.Run)
}

func deleteGone(f *fixture) {
	l := f.running(in("c"))
	f.advance(l, runregistry.Progress{UpstreamID: "up"})
	f.add(l, 0, "one")
	f.complete(l)
	f.remove(l.Run)
	f.wantGone(l.Run)
	f.wantUnknown("c")
	_, err := f.ByUpstream(f.ctx, runregistry.SubjectScope(alice), "up")
	f.wantErr("by upstream's id", err, runregistry.ErrNoRun)
	want(f, "runs listed", len(f.list(runregistry.ListQuery{}).Records), 0)
	f.wantErr("delivery", f.Deliver(f.ctx, l.Run, opened), runregistry.ErrNoRun)
	_, err = f.Stop(f.ctx, l.Run, "")
	f.wantErr("stop", err, runregistry.ErrNoRun)
}

func deleteKeepsKey(f *fixture) {
	l := f.running(keyed("k"))
	f.complete(l)
	f.remove(l.Run)
	f.wantErr("equal request", f.refused(keyed("k")), runregistry.ErrDeleted)
	f.wantErr("other request", f.refused(keyed("k"), body("other")), runregistry.ErrDeleted)
	f.start(keyed("l"))
	f.start(keyed("k"), by(bob))
}

func deleteReleased(f *fixture) {
	l := f.running(keyed("k"))
	f.end(l, runregistry.Settlement{State: runregistry.Failed, NoEffect: true, ReleaseKey: true})
	f.remove(l.Run)
	f.start(keyed("k"))
}

func deleteInConversation(f *fixture) {
	first := f.running(in("c"))
	f.complete(first)
	second := f.running(in("c"))
	f.complete(second)
	f.remove(second.Run)
	want(f, "current", f.current("c").ID, first.Run)
	f.remove(first.Run)
	f.wantUnknown("c")
}

func deleteAgain(f *fixture) {
	l := f.running()
	f.complete(l)
	f.remove(l.Run)
	f.wantErr("deleting again", f.Delete(f.ctx, l.Run), runregistry.ErrNoRun)
}

func deleteDelivery(f *fixture) {
	l := f.running(echo("hi"))
	f.deliver(l.Run, brokeEarly)
	f.complete(l)
	f.remove(l.Run)
	f.start(echo("hi"))
}
