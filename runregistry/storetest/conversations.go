package storetest

import (
	"errors"
	"slices"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var conversationTests = []test{
	{"a conversation has one active run", busyRejects},
	{"a conversation is free when its run ends", busyUntilEnd},
	{"a conversation belongs to its scope", busyInScope},
	{"who is busy is told", busyTells},
	{"a run whose end is stored keeps its conversation until it settles", busyEnding},
	{"allow lets everybody in, and the newest is current", busyAllow},
}

var replacementTests = []test{
	{"auto replaces what its owner no longer reads", autoReplaces},
	{"auto does not replace what somebody reads", autoKeepsRead},
	{"auto does not replace somebody else's run", autoKeepsForeign},
	{"replace takes what the caller owns or may write", replaceTakes},
	{"a superseded run is stopped, and its conversation is free of it", supersededStops},
	{"a superseded run that was not dispatched has ended", supersededQueued},
	{"a stopped run can be superseded and stays as it was stopped", supersededStopped},
	{"auto after allow supersedes everybody or nobody", supersededAll},
}

// wantBusy checks that an error says that a conversation is busy.
func (f *fixture) wantBusy(err error) *runregistry.BusyError {
	f.Helper()
	b, ok := errors.AsType[*runregistry.BusyError](err)
	if !ok {
		f.Fatalf("got error %v, want that the conversation is busy", err)
	}
	return b
}

func (f *fixture) current(c runregistry.ConversationID) *runregistry.Record {
	f.Helper()
	rec, err := f.Current(f.ctx, runregistry.SubjectScope(alice), c)
	if err != nil {
		f.Fatalf("looking up %s failed: %v", c, err)
	}
	return rec
}

func busyRejects(f *fixture) {
	f.start(in("c"))
	f.wantBusy(f.refused(in("c"), body("other")))
	f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject)))
	f.start(in("d"))
}

func busyUntilEnd(f *fixture) {
	for _, s := range []runregistry.State{runregistry.Completed, runregistry.Failed, runregistry.Cancelled, runregistry.Uncertain} {
		l := f.running(in("c"))
		f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject)))
		f.stopIf(s == runregistry.Cancelled, l)
		f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject)))
		f.end(l, runregistry.Settlement{State: s})
	}
	f.start(in("c"))
}

func (f *fixture) stopIf(cond bool, l runregistry.Lease) {
	f.Helper()
	if cond {
		f.stop(l.Run)
	}
}

func busyInScope(f *fixture) {
	f.start(in("c"))
	f.start(in("c"), by(bob))
	f.start(in("c"), shared)
	f.wantBusy(f.refused(in("c"), by(bob), shared))
}

func busyTells(f *fixture) {
	d := f.start(in("c"), shared)
	f.watch(d.Record.ID, true)
	b := f.wantBusy(f.refused(in("c"), shared))
	want(f, "busy", *b, runregistry.BusyError{Run: d.Record.ID, Mine: true, Readers: 2})
	d.Watch.Close()
	b = f.wantBusy(f.refused(in("c"), shared, by(bob), shared))
	want(f, "busy", *b, runregistry.BusyError{Run: d.Record.ID, Readers: 1})
}

func busyEnding(f *fixture) {
	l := f.running(in("c"))
	f.advance(l, runregistry.Progress{Ending: true})
	for _, p := range []runregistry.Busy{runregistry.BusyAuto, runregistry.BusyReject, runregistry.BusyReplace} {
		b := f.wantBusy(f.refused(in("c"), busy(p)))
		want(f, "ending", b.Ending, true)
	}
	f.complete(l)
	f.start(in("c"))
}

func busyAllow(f *fixture) {
	older := f.running(in("c"))
	newer := f.running(in("c"), busy(runregistry.BusyAllow))
	want(f, "current", f.current("c").ID, newer.Run)
	f.complete(newer)
	want(f, "current after the newer ended", f.current("c").ID, older.Run)
	f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject)))
	f.complete(older)
	want(f, "current after both ended", f.current("c").ID, newer.Run)
}

func autoReplaces(f *fixture) {
	old := f.running(in("c"))
	d := f.start(in("c"))
	want(f, "superseded", d.Superseded, old.Run)
	want(f, "current", f.current("c").ID, d.Record.ID)
}

func autoKeepsRead(f *fixture) {
	d := f.start(in("c"))
	f.wantBusy(f.refused(in("c")))
	d.Watch.Close()
	want(f, "superseded", f.start(in("c")).Superseded, d.Record.ID)
}

func autoKeepsForeign(f *fixture) {
	f.running(in("c"), shared)
	f.wantBusy(f.refused(by(bob), in("c"), shared))
}

func replaceTakes(f *fixture) {
	l := f.running(in("c"), shared)
	f.watch(l.Run, true) // readers do not matter to replace
	f.wantBusy(f.refused(by(bob), in("c"), shared, busy(runregistry.BusyReplace)))
	d := f.start(by(bob), in("c"), shared, busy(runregistry.BusyReplace),
		func(a *runregistry.Admission) { a.MayReplace = true })
	want(f, "superseded", d.Superseded, l.Run)
	mine := f.start(by(bob), in("c"), shared, busy(runregistry.BusyReplace))
	want(f, "superseded", mine.Superseded, d.Record.ID)
}

func supersededStops(f *fixture) {
	old := f.running(in("c"))
	w := f.watch(old.Run, false)
	next := f.start(in("c"))
	f.awaken(w)
	rec := f.load(old.Run)
	want(f, "state", rec.State, runregistry.Cancelling)
	want(f, "reason", rec.Reason, runregistry.ReasonSuperseded)
	want(f, "stopping", f.add(old, 0, "late").Stopping, true)
	rec = f.end(old, runregistry.Settlement{State: runregistry.Failed, Upstream: runregistry.Unconfirmed})
	want(f, "state in the end", rec.State, runregistry.Cancelled)
	want(f, "current", f.current("c").ID, next.Record.ID)
	f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject)))
}

func supersededQueued(f *fixture) {
	old := f.start(in("c"), keyed("k"))
	old.Watch.Close()
	f.start(in("c"))
	rec := f.load(old.Record.ID)
	want(f, "state", rec.State, runregistry.Cancelled)
	want(f, "reason", rec.Reason, runregistry.ReasonSuperseded)
	want(f, "effect", rec.Effect, runregistry.EffectNone)
	want(f, "final number", rec.FinalSeq, 1)
	_, err := f.Intend(f.ctx, old.Lease)
	f.wantErr("intent of a superseded run", err, runregistry.ErrSettled)
	f.start(keyed("k"))
}

func supersededStopped(f *fixture) {
	old := f.running(in("c"))
	stopped := f.stop(old.Run)
	want(f, "superseded", f.start(in("c")).Superseded, old.Run)
	rec := f.load(old.Run)
	want(f, "reason", rec.Reason, "")
	want(f, "cancel", rec.Cancel, stopped.Cancel)
}

func supersededAll(f *fixture) {
	older := f.running(in("c"))
	newer := f.running(in("c"), busy(runregistry.BusyAllow))
	w := f.watch(older.Run, true)
	want(f, "busy with", f.wantBusy(f.refused(in("c"))).Run, older.Run)
	want(f, "state of the newer", f.load(newer.Run).State, runregistry.Running)
	w.Close()
	want(f, "superseded", f.start(in("c")).Superseded, newer.Run)
	want(f, "state of the older", f.load(older.Run).State, runregistry.Cancelling)
}

var aliasTests = []test{
	{"an alias becomes the name, and both find the run", aliasFinds},
	{"both names are busy together", aliasIsBusy},
	{"a taken alias is left alone", aliasTaken},
	{"an alias stays within its scope", aliasInScope},
	{"a name of the same conversation is no news", aliasAgain},
	{"a later run answers to both names", aliasOfLaterRun},
	{"an ended run takes no alias", aliasAfterEnd},
	{"an alias does not survive a refusal", aliasAfterRefusal},
	{"an alias lives as long as a run that carries it", aliasLifetime},
	{"runs without a conversation are not busy, and may be given one", aliasOfUnnamed},
}

func (f *fixture) bind(l runregistry.Lease, alias runregistry.ConversationID) {
	f.Helper()
	if err := f.Bind(f.ctx, l, alias); err != nil {
		f.Fatalf("binding %s failed: %v", alias, err)
	}
}

func (f *fixture) wantUnknown(c runregistry.ConversationID) {
	f.Helper()
	_, err := f.Current(f.ctx, runregistry.SubjectScope(alice), c)
	f.wantErr("looking up "+string(c), err, runregistry.ErrNoRun)
}

func aliasFinds(f *fixture) {
	l := f.running(in("ours"))
	f.bind(l, "theirs")
	for _, c := range []runregistry.ConversationID{"ours", "theirs"} {
		rec := f.current(c)
		want(f, "found by "+string(c), rec.ID, l.Run)
		want(f, "conversation", rec.Conversation, "theirs")
		if !slices.Equal(rec.Aliases, []runregistry.ConversationID{"ours"}) {
			f.Errorf("got aliases %v, want [ours]", rec.Aliases)
		}
	}
}

func aliasIsBusy(f *fixture) {
	l := f.running(in("ours"))
	f.bind(l, "theirs")
	f.wantBusy(f.refused(in("ours"), busy(runregistry.BusyReject)))
	f.wantBusy(f.refused(in("theirs"), busy(runregistry.BusyReject)))
	f.complete(l)
	f.start(in("ours"))
	f.wantBusy(f.refused(in("theirs"), busy(runregistry.BusyReject)))
}

func aliasTaken(f *fixture) {
	other := f.running(in("theirs"))
	l := f.running(in("ours"))
	f.wantErr("binding", f.Bind(f.ctx, l, "theirs"), runregistry.ErrTaken)
	want(f, "conversation", f.load(l.Run).Conversation, "ours")
	want(f, "current of the taken name", f.current("theirs").ID, other.Run)
	f.complete(other)
	f.wantErr("binding to an ended conversation", f.Bind(f.ctx, l, "theirs"), runregistry.ErrTaken)
}

func aliasInScope(f *fixture) {
	f.bind(f.running(in("ours")), "theirs")
	l := f.running(by(bob), in("ours"))
	f.bind(l, "theirs")
	rec, err := f.Current(f.ctx, runregistry.SubjectScope(bob), "theirs")
	if err != nil {
		f.Fatal(err)
	}
	want(f, "found", rec.ID, l.Run)
}

func aliasAgain(f *fixture) {
	l := f.running(in("ours"))
	f.bind(l, "theirs")
	before := f.load(l.Run)
	f.bind(l, "theirs")
	after := f.load(l.Run)
	want(f, "revision", after.Revision, before.Revision)
	f.bind(l, "ours")
	want(f, "conversation", f.load(l.Run).Conversation, "ours")
	want(f, "found by the other", f.current("theirs").ID, l.Run)
}

func aliasOfLaterRun(f *fixture) {
	first := f.running(in("ours"))
	f.bind(first, "theirs")
	f.complete(first)
	second := f.running(in("theirs"))
	want(f, "current of the old name", f.current("ours").ID, second.Run)
	third := f.start(in("ours"))
	want(f, "superseded through the other name", third.Superseded, second.Run)
	f.intend(third.Lease)
	f.bind(third.Lease, "theirs") // its own conversation already
	want(f, "conversation", f.load(third.Record.ID).Conversation, "theirs")
}

func aliasAfterEnd(f *fixture) {
	l := f.running(in("ours"))
	f.complete(l)
	f.wantErr("binding", f.Bind(f.ctx, l, "theirs"), runregistry.ErrSettled)
	f.wantUnknown("theirs")
}

func aliasAfterRefusal(f *fixture) {
	l := f.running(in("ours"))
	l.Epoch++
	f.wantErr("binding", f.Bind(f.ctx, l, "theirs"), runregistry.ErrFenced)
	f.wantUnknown("theirs")
}

func aliasLifetime(f *fixture) {
	first := f.running(in("ours"))
	f.bind(first, "theirs")
	f.complete(first)
	second := f.running(in("theirs"))
	if err := f.Delete(f.ctx, first.Run); err != nil {
		f.Fatal(err)
	}
	f.wantUnknown("ours")
	want(f, "found by the alias", f.current("theirs").ID, second.Run)
	f.complete(second)
	if err := f.Delete(f.ctx, second.Run); err != nil {
		f.Fatal(err)
	}
	f.wantUnknown("theirs")
}

func aliasOfUnnamed(f *fixture) {
	nowhere := func(a *runregistry.Admission) { a.Conversation = "" }
	l := f.running(nowhere)
	f.start(nowhere, busy(runregistry.BusyReject))
	f.wantUnknown("")
	f.bind(l, "theirs")
	rec := f.current("theirs")
	want(f, "current", rec.ID, l.Run)
	want(f, "conversation", rec.Conversation, "theirs")
	want(f, "aliases", len(rec.Aliases), 0)
	f.wantBusy(f.refused(in("theirs"), busy(runregistry.BusyReject)))
	f.complete(l)
	f.start(in("theirs"))
}
