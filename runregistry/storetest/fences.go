package storetest

import "github.com/caddy-agent-runs/caddy-agent-runs/runregistry"

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
