package storetest

import (
	"slices"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

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
