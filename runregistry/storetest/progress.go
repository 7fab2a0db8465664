package storetest

import (
	"context"
	"errors"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var progressTests = []test{
	{"a start makes a whole record", progressOfStart},
	{"the intent makes an effect possible", progressIntent},
	{"nothing is dispatched twice", progressIntentTwice},
	{"progress reaches the record", progressReaches},
	{"upstream's position travels with the frames", progressPosition},
	{"a run waits and goes on", progressWaits},
	{"a record is the caller's own copy", progressIsCopied},
	{"every visible change grows the revision", progressRevision},
}

func progressOfStart(f *fixture) {
	d := f.start(in("c"), body("b"), func(a *runregistry.Admission) {
		a.Release, a.Resource, a.Model, a.Dialect = "rel", "res", "mod", "dia"
		a.Origin = []byte(`{"p":"/x"}`)
	})
	rec := f.load(d.Record.ID)
	want(f, "lease", d.Lease, runregistry.Lease{Run: rec.ID, Epoch: rec.Epoch})
	want(f, "subject", rec.Subject, alice)
	want(f, "scope", rec.Scope, runregistry.SubjectScope(alice))
	want(f, "conversation", rec.Conversation, "c")
	want(f, "named", rec.Named, true)
	want(f, "route", rec.Route, "chat")
	want(f, "attempt", rec.Attempt, 1)
	want(f, "state", rec.State, runregistry.Queued)
	want(f, "effect", rec.Effect, runregistry.EffectNone)
	want(f, "release, resource, model, dialect", rec.Release+rec.Resource+rec.Model+rec.Dialect, "relresmoddia")
	want(f, "origin", string(rec.Origin), `{"p":"/x"}`)
	want(f, "format", rec.Format, runregistry.FormatSSE)
	want(f, "fingerprint", rec.Fingerprint, digest("b"))
	want(f, "retention", rec.Retention, retention)
	want(f, "deliveries", rec.Delivery, runregistry.Delivery{Pending: 1})
	want(f, "created", rec.CreatedAt.IsZero(), false)
	want(f, "expiry while active", rec.ExpiresAt.IsZero() && rec.FramesExpireAt.IsZero(), true)
}

func progressIntent(f *fixture) {
	d := f.start()
	rec, err := f.Intend(f.ctx, d.Lease)
	if err != nil {
		f.Fatal(err)
	}
	want(f, "state", rec.State, runregistry.Running)
	want(f, "effect", rec.Effect, runregistry.EffectPossible)
	want(f, "dispatched", rec.DispatchedAt.IsZero(), false)
}

func progressIntentTwice(f *fixture) {
	l := f.running()
	for _, state := range []runregistry.State{runregistry.Running, runregistry.Waiting, runregistry.Cancelling} {
		if state == runregistry.Cancelling {
			f.stop(l.Run)
		} else {
			f.advance(l, runregistry.Progress{State: state})
		}
		_, err := f.Intend(f.ctx, l)
		if e, ok := errors.AsType[*runregistry.TransitionError](err); !ok || e.From != state {
			f.Errorf("got error %v, want a forbidden move from %s", err, state)
		}
	}
	f.complete(l)
	rec, err := f.Intend(f.ctx, l)
	f.wantErr("intent of an ended run", err, runregistry.ErrSettled)
	want(f, "state told", rec.State, runregistry.Cancelled)
}

func progressReaches(f *fixture) {
	l := f.running()
	f.advance(l, runregistry.Progress{
		Format: runregistry.FormatNDJSON, Dialect: "d", Model: "m", UpstreamID: "up", Release: "r",
		Response: &runregistry.Response{Status: 201, Stream: true},
		Usage:    &runregistry.Usage{InputTokens: 2, Reported: true},
		Effect:   runregistry.EffectObserved, Snapshot: []byte(`{"text":"t"}`), SnapshotSeq: 9,
	})
	f.advance(l, runregistry.Progress{Effect: runregistry.EffectPossible})
	rec := f.load(l.Run)
	want(f, "names", string(rec.Format)+rec.Dialect+rec.Model+rec.UpstreamID+rec.Release, "ndjsondmupr")
	want(f, "status", rec.Response.Status, 201)
	want(f, "usage", rec.Usage, runregistry.Usage{InputTokens: 2, Reported: true})
	want(f, "effect", rec.Effect, runregistry.EffectObserved)
	want(f, "snapshot", string(rec.Snapshot), `{"text":"t"}`)
	want(f, "snapshot number", rec.SnapshotSeq, 9)
}

func progressPosition(f *fixture) {
	l := f.running()
	f.send(l, &runregistry.Batch{Frames: raw("a"), Position: "7"})
	f.send(l, &runregistry.Batch{After: 1, Frames: raw("b")})
	want(f, "position after a batch without one", f.load(l.Run).Position, "7")
	f.send(l, &runregistry.Batch{After: 2, Frames: raw("c"), Position: "9", Progress: &runregistry.Progress{Reattached: 2}})
	f.advance(l, runregistry.Progress{Reattached: 1})
	rec := f.load(l.Run)
	want(f, "position", rec.Position, "9")
	want(f, "times reattached", rec.Reattached, 2)
	_, err := f.Append(f.ctx, l, &runregistry.Batch{After: 9, Frames: raw("x"), Position: "11"})
	if _, gap := errors.AsType[*runregistry.GapError](err); !gap {
		f.Errorf("got error %v, want a gap", err)
	}
	f.stop(l.Run)
	f.send(l, &runregistry.Batch{After: 3, Frames: raw("y"), Position: "12"})
	want(f, "position of what was refused", f.load(l.Run).Position, "9")
}

func progressWaits(f *fixture) {
	l := f.running()
	for _, s := range []runregistry.State{runregistry.Waiting, runregistry.Running, runregistry.Waiting} {
		f.advance(l, runregistry.Progress{State: s})
		want(f, "state", f.load(l.Run).State, s)
	}
	f.advance(l, runregistry.Progress{State: runregistry.Completed})
	want(f, "state after what is no progress", f.load(l.Run).State, runregistry.Waiting)
}

func progressIsCopied(f *fixture) {
	l := f.running(in("c"))
	rec := f.load(l.Run)
	rec.State, rec.Conversation = runregistry.Failed, "x"
	want(f, "state", f.load(l.Run).State, runregistry.Running)
	want(f, "conversation", f.current("c").Conversation, "c")
	f.bind(l, "d")
	want(f, "conversation of the older copy", rec.Conversation, "x")
}

func progressRevision(f *fixture) {
	d := f.start(in("c"))
	last := d.Record.Revision
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"intent", func() { f.intend(d.Lease) }},
		{"frame", func() { f.add(d.Lease, 0, "one") }},
		{"progress", func() { f.advance(d.Lease, runregistry.Progress{Model: "m"}) }},
		{"alias", func() { f.bind(d.Lease, "theirs") }},
		{"stop", func() { f.stop(d.Lease.Run) }},
		{"settle", func() { f.complete(d.Lease) }},
	} {
		step.do()
		now := f.load(d.Lease.Run).Revision
		if now <= last {
			f.Errorf("after %s: got revision %d, want more than %d", step.name, now, last)
		}
		last = now
	}
}

var freeTests = []test{
	{"the end frees conversation and limit together", freesAtEnd},
	{"a stopped run holds its claims until it has ended", holdsWhileCancelling},
}

var fenceTests = []test{
	{"another epoch can write nothing", fenceEpoch},
	{"an ended run can be written by nobody", fenceEnded},
	{"an unknown run cannot be written", fenceUnknown},
	{"the owner goes on for as long as it likes", fenceNot},
}

func freesAtEnd(f *fixture) {
	l := f.running(in("c"), atMost(1))
	f.complete(l)
	f.start(in("c"), atMost(1))
}

func holdsWhileCancelling(f *fixture) {
	l := f.running(in("c"), atMost(1))
	f.watch(l.Run, true)
	f.stop(l.Run)
	f.wantBusy(f.refused(in("c")))
	f.wantLimit(f.refused(atMost(1)), 1)
	f.complete(l)
	f.start(in("c"), atMost(1))
}

// writes are all calls of an owner.
func (f *fixture) writes(l runregistry.Lease) map[string]error {
	errs := make(map[string]error)
	_, errs["intent"] = f.Intend(f.ctx, l)
	_, errs["append"] = f.Append(f.ctx, l, &runregistry.Batch{Frames: raw("x"), Progress: &runregistry.Progress{UpstreamID: "up"}})
	errs["bind"] = f.Bind(f.ctx, l, "alias")
	_, errs["settle"] = f.Settle(f.ctx, l, &runregistry.Settlement{State: runregistry.Completed})
	return errs
}

func fenceEpoch(f *fixture) {
	l := f.running(in("c"))
	before := f.load(l.Run)
	for _, e := range []runregistry.Epoch{l.Epoch + 1, l.Epoch - 1, 99} {
		for call, err := range f.writes(runregistry.Lease{Run: l.Run, Epoch: e}) {
			f.wantErr(call, err, runregistry.ErrFenced)
		}
	}
	want(f, "revision", f.load(l.Run).Revision, before.Revision)
	f.wantFrames(l.Run)
	f.complete(l)
	for call, err := range f.writes(runregistry.Lease{Run: l.Run, Epoch: l.Epoch + 1}) {
		f.wantErr(call+" of an ended run", err, runregistry.ErrFenced)
	}
}

func fenceEnded(f *fixture) {
	l := f.running()
	f.complete(l)
	for call, err := range f.writes(l) {
		f.wantErr(call, err, runregistry.ErrSettled)
	}
}

func fenceUnknown(f *fixture) {
	for call, err := range f.writes(runregistry.Lease{Run: runregistry.NewRunID(0), Epoch: 1}) {
		f.wantErr(call, err, runregistry.ErrNoRun)
	}
}

func fenceNot(f *fixture) {
	l := f.running()
	for i := range runregistry.Seq(100) {
		f.add(l, i, "x")
	}
	f.complete(l)
}

var callTests = []test{
	{"a call whose context has ended does nothing", callsLookAtContext},
}

// calls are all methods of a store, on a run that lets each of them succeed.
func (f *fixture) calls(ctx context.Context, l runregistry.Lease) map[string]error {
	errs := make(map[string]error)
	_, errs["Admit"] = f.Admit(ctx, ask(in("new")))
	_, errs["Intend"] = f.Intend(ctx, l)
	_, errs["Append"] = f.Append(ctx, l, &runregistry.Batch{Frames: raw("x")})
	errs["Bind"] = f.Bind(ctx, l, "alias")
	_, errs["Settle"] = f.Settle(ctx, l, &runregistry.Settlement{State: runregistry.Failed})
	_, errs["Load"] = f.Load(ctx, l.Run)
	_, errs["Read"] = f.Read(ctx, runregistry.PageQuery{Run: l.Run})
	_, errs["Watch"] = f.Watch(ctx, l.Run, true)
	_, errs["Current"] = f.Current(ctx, runregistry.SubjectScope(alice), "c")
	_, errs["List"] = f.List(ctx, runregistry.ListQuery{Subject: alice})
	_, errs["ByUpstream"] = f.ByUpstream(ctx, runregistry.SubjectScope(alice), "up")
	_, errs["Stop"] = f.Stop(ctx, l.Run, "")
	errs["Deliver"] = f.Deliver(ctx, l.Run, opened)
	errs["Delete"] = f.Delete(ctx, l.Run)
	_, errs["Readers"] = f.Readers(ctx, l.Run)
	return errs
}

func callsLookAtContext(f *fixture) {
	l := f.running(in("c"))
	before := f.load(l.Run)
	why := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(why)
	for call, err := range f.calls(ctx, l) {
		f.wantErr(call, err, runregistry.ErrUnavailable)
		f.wantErr(call, err, why)
	}
	want(f, "revision", f.load(l.Run).Revision, before.Revision)
	want(f, "deliveries", f.load(l.Run).Delivery, before.Delivery)
	f.wantReaders(l.Run, 0)
	f.wantUnknown("new")
	f.wantUnknown("alias")
	want(f, "runs", len(f.listAll(runregistry.ListQuery{})), 1)
}
