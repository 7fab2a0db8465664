package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var restoreTests = []sharedTest{
	{"a run comes back with its claims and its window", restoreWhole},
	{"a run without frames comes back", restoreEmpty},
	{"a run whose claims are taken does not come back", restoreTaken},
	{"a run that was taken over comes back too", restoreTakenOver},
	{"a lost tail is told and can be stored again", restoreTail},
	{"a lost tail is told to readers", restoreTailReaders},
	{"a run does not end before its lost tail is stored again", restoreTailFirst},
	{"a lost tail can be stored again after a Stop", restoreTailStopped},
	{"a run that is there is left as it is", restoreNotLost},
	{"a run that another instance took over is not restored", restoreNotMine},
	{"a run that was deleted is not restored", restoreDeleted},
	{"a run that has ended comes back as it ended", restoreEnded},
	{"a run that has ended is in no other's way", restoreEndedFirst},
	{"a run that has ended leaves what is taken", restoreEndedLast},
	{"a run that has ended does not take its key back that it freed", restoreEndedFree},
	{"a run that has ended does not come back after a deletion", restoreEndedDeleted},
	{"an end that was told stands, whatever was asked since", settleTold},
}

func (f *fixture) restore(l runregistry.Lease, r *runregistry.Record, after runregistry.Seq, frames ...string) error {
	return f.leaser().Restore(f.ctx, l, r, &runregistry.Batch{After: after, Frames: raw(frames...)})
}

func restoreWhole(f *pair) {
	l := f.running(in("c"), keyed("k"), atMost(1))
	f.send(l, &runregistry.Batch{Frames: raw("one", "two", "three"), Position: "u3"})
	f.advance(l, runregistry.Progress{
		UpstreamID: "up", Model: "m", Effect: runregistry.EffectObserved, Snapshot: []byte(`{"text":"t"}`), SnapshotSeq: 2,
	})
	f.bind(l, "alias")
	before := f.load(l.Run)
	f.server.Lose()
	f.wantErr("loading", first(f.Load(f.ctx, l.Run)), runregistry.ErrNoRun)
	f.wantErr("renewal", f.renew(l).Err, runregistry.ErrNoRun)
	_, err := f.Append(f.ctx, l, &runregistry.Batch{After: 3, Frames: raw("four")})
	f.wantErr("append", err, runregistry.ErrNoRun)
	f.wantErr("restoring", f.restore(l, before, 1, "two", "three"), nil)

	rec := f.other.load(l.Run)
	want(f.fixture, "state", rec.State, runregistry.Running)
	want(f.fixture, "model and upstream's id", rec.Model+rec.UpstreamID, "mup")
	want(f.fixture, "upstream's position", rec.Position, "u3")
	want(f.fixture, "effect", rec.Effect, runregistry.EffectObserved)
	want(f.fixture, "snapshot", string(rec.Snapshot), `{"text":"t"}`)
	want(f.fixture, "numbers", [2]runregistry.Seq{rec.FirstSeq, rec.LastSeq}, [2]runregistry.Seq{2, 3})
	want(f.fixture, "bytes", rec.Bytes, before.Bytes)
	want(f.fixture, "created", rec.CreatedAt, before.CreatedAt)
	want(f.fixture, "first frame", rec.FirstFrameAt, before.FirstFrameAt)
	want(f.fixture, "revision grew", rec.Revision > before.Revision, true)

	f.other.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.other.wantBusy(f.other.refused(in("alias"), busy(runregistry.BusyReject)))
	f.other.wantLimit(f.other.refused(atMost(1)), 1)
	f.other.wantUpstream("up", l.Run)
	want(f.fixture, "last of the next append", f.add(l, 3, "four").Last, 4)
	if _, err := f.other.Read(f.ctx, runregistry.PageQuery{Run: l.Run}); !errors.Is(err, runregistry.ErrExpired) {
		f.Errorf("reading before the window: got error %v, want %v", err, runregistry.ErrExpired)
	}
	want(f.fixture, "frames", strings.Join(f.other.frames(l.Run, 1), " "), "two three four")
	f.complete(l)
	f.other.start(in("c"), atMost(1))
}

func first[T any](_ T, err error) error { return err }

func restoreEmpty(f *pair) {
	d := f.start(in("c"))
	before := f.load(d.Record.ID)
	f.server.Lose()
	f.wantErr("restoring", f.restore(d.Lease, before, 0), nil)
	f.intend(d.Lease)
	f.add(d.Lease, 0, "one")
	f.complete(d.Lease)
	f.other.wantFrames(d.Record.ID, "one")
}

func restoreTaken(f *pair) {
	keyHolder, talker := f.running(keyed("k")), f.running(in("c"))
	records := []*runregistry.Record{f.load(keyHolder.Run), f.load(talker.Run)}
	f.server.Lose()
	f.other.start(keyed("k"))
	f.other.start(in("c"))
	f.wantErr("restoring a key", f.restore(keyHolder, records[0], 0), runregistry.ErrTaken)
	f.wantErr("restoring a conversation", f.restore(talker, records[1], 0), runregistry.ErrTaken)
	f.wantErr("loading", first(f.Load(f.ctx, keyHolder.Run)), runregistry.ErrNoRun)
	f.wantErr("loading", first(f.Load(f.ctx, talker.Run)), runregistry.ErrNoRun)
}

func restoreTakenOver(f *pair) {
	owner := f.mortal()
	old := owner.running(keyed("k"))
	f.expired(old)
	l := f.takeOver(old.Run)
	before := f.load(l.Run)
	f.server.Lose()
	f.wantErr("restoring", f.restore(l, before, 0, "one"), nil)
	f.wantErr("append of the old owner", first(owner.Append(f.ctx, old, &runregistry.Batch{})), runregistry.ErrFenced)
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.wantFrames(l.Run, "one")
}

func restoreTail(f *pair) {
	l := f.running()
	f.add(l, 0, "one", "two", "three")
	f.server.LoseTail(l.Run, 1)
	want(f.fixture, "last told by the renewal", f.renew(l).Last, 1)
	_, err := f.Append(f.ctx, l, &runregistry.Batch{After: 3, Frames: raw("four")})
	gap, ok := errors.AsType[*runregistry.GapError](err)
	if !ok || gap.Last != 1 {
		f.Fatalf("got error %v, want a gap after 1", err)
	}
	want(f.fixture, "last", f.add(l, 1, "two", "three", "four").Last, 4)
	f.wantFrames(l.Run, "one", "two", "three", "four")
	f.other.wantFrames(l.Run, "one", "two", "three", "four")
}

// A reader that is ahead of what is stored waits and misses nothing.
func restoreTailReaders(f *pair) {
	l := f.running()
	w := f.other.watch(l.Run, true)
	f.add(l, 0, "one", "two")
	var seen runregistry.Seq
	for seen < 2 {
		seen += runregistry.Seq(len(f.other.next(w, l.Run, seen)))
	}
	f.server.LoseTail(l.Run, 1)
	_, err := f.Append(f.ctx, l, &runregistry.Batch{After: 2, Frames: raw("three")})
	if _, ok := errors.AsType[*runregistry.GapError](err); !ok {
		f.Fatalf("got error %v, want a gap", err)
	}
	f.add(l, 1, "two", "three")
	got := f.other.next(w, l.Run, 2)
	want(f.fixture, "frame", string(got[0].Data), "three")
}

// The frame that ends the log has its number from the end of the run, so that
// whoever stored more must be able to put it back before.
func restoreTailFirst(f *pair) {
	l := f.running()
	f.add(l, 0, "one", "two")
	f.server.LoseTail(l.Run, 1)
	end := &runregistry.Settlement{State: runregistry.Completed, Last: 2}
	gap, ok := errors.AsType[*runregistry.GapError](first(f.Settle(f.ctx, l, end)))
	if !ok || gap.Last != 1 {
		f.Fatalf("got %v, want a gap after 1", gap)
	}
	want(f.fixture, "state", f.other.load(l.Run).State, runregistry.Running)
	f.add(l, 1, "two")
	rec, err := f.Settle(f.ctx, l, end)
	f.wantErr("the second try", err, nil)
	want(f.fixture, "final number", rec.FinalSeq, 3)
	f.other.wantFrames(l.Run, "one", "two")
}

// What was stored before the Stop belongs to the run; what came later does not.
func restoreTailStopped(f *pair) {
	l := f.running()
	f.add(l, 0, "one", "two")
	f.server.LoseTail(l.Run, 1)
	f.other.stop(l.Run)
	done := f.send(l, &runregistry.Batch{After: 1, Frames: raw("two"), Again: true})
	want(f.fixture, "last", done.Last, 2)
	want(f.fixture, "stopping", done.Stopping, true)
	want(f.fixture, "last of new frames", f.add(l, 2, "three").Last, 2)
	f.other.wantFrames(l.Run, "one", "two")
}

func restoreNotLost(f *pair) {
	l := f.running()
	f.add(l, 0, "one")
	f.wantErr("restoring", f.restore(l, f.load(l.Run), 0, "other"), nil)
	f.other.wantFrames(l.Run, "one")
	want(f.fixture, "last of the next append", f.add(l, 1, "two").Last, 2)
}

func restoreNotMine(f *pair) {
	owner := f.mortal()
	old := owner.running()
	before := f.load(old.Run)
	f.expired(old)
	f.takeOver(old.Run)
	f.wantErr("restoring", owner.restore(old, before, 0, "one"), runregistry.ErrTaken)
	f.wantFrames(old.Run)
}

// An owner that was frozen finds its run gone, too.
func restoreDeleted(f *pair) {
	l := f.running()
	f.add(l, 0, "one")
	before := f.load(l.Run)
	f.complete(l)
	f.remove(l.Run)
	f.wantErr("restoring", f.restore(l, before, 0, "one"), runregistry.ErrTaken)
	f.wantErr("loading", first(f.other.Load(f.ctx, l.Run)), runregistry.ErrNoRun)
}

var deadlineTests = []sharedTest{
	{"nothing is ever stored without a deadline", deadlineAlways},
	{"nothing is left after retention", deadlineNothingLeft},
}

// bounded fails for everything that lives for ever.
func (f *pair) bounded(after string) {
	f.Helper()
	all := f.server.Deadlines()
	if len(all) == 0 {
		f.Errorf("after %s: got nothing stored", after)
	}
	for key, left := range all {
		if left < 0 {
			f.Errorf("after %s: %s lives for ever", after, key)
		}
	}
}

func deadlineAlways(f *pair) {
	d := f.start(in("c"), keyed("k"), atMost(5))
	var l runregistry.Lease
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"admission", func() { l = d.Lease }},
		{"attachment", func() { f.other.admit(keyed("k")) }},
		{"echo", func() { f.start(echo("hi")) }},
		{"intent", func() { f.intend(l) }},
		{"append", func() { f.add(l, 0, "one", "two") }},
		{"progress", func() { f.advance(l, runregistry.Progress{UpstreamID: "up"}) }},
		{"alias", func() { f.bind(l, "alias") }},
		{"watch", func() { f.other.watch(l.Run, true) }},
		{"delivery", func() { f.deliver(l.Run, opened) }},
		{"renewal", func() { f.renew(l) }},
		{"superseded", func() { f.start(in("alias"), busy(runregistry.BusyReplace)) }},
		{"stop", func() { f.stop(l.Run) }},
		{"settle", func() { f.complete(l) }},
		{"deletion", func() { f.remove(l.Run) }},
	} {
		step.do()
		f.bounded(step.name)
	}
	rec := f.load(f.running(keyed("j")).Run)
	f.server.Lose()
	f.wantErr("restoring", f.restore(runregistry.Lease{Run: rec.ID, Epoch: 1}, rec, 0, "one"), nil)
	f.bounded("restore")
}

func deadlineNothingLeft(f *pair) {
	brief := func(a *runregistry.Admission) {
		a.Retention = runregistry.Retention{Frames: 100 * time.Millisecond, Record: 200 * time.Millisecond}
		if !a.Implicit.IsZero() {
			a.ImplicitWindow = 100 * time.Millisecond
		}
	}
	for i := range 20 {
		l := f.running(brief, in("c"), keyed(strings.Repeat("k", i)))
		f.add(l, 0, "one")
		f.bind(l, "alias")
		f.advance(l, runregistry.Progress{UpstreamID: "up"})
		f.complete(l)
		e := f.other.running(echo("hi"), brief)
		f.deliver(e.Run, brokeEarly)
		f.other.end(e, runregistry.Settlement{State: runregistry.Failed})
		q := f.start(brief)
		q.Watch.Close()
		f.stop(q.Record.ID)
	}
	var left map[string]time.Duration
	defer func() {
		if f.Failed() {
			f.Logf("left: %v", left)
		}
	}()
	f.eventually("nothing is left", func() bool {
		left = f.server.Deadlines()
		return len(left) == 0
	})
}
