package storetest

import (
	"errors"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var limitTests = []test{
	{"a subject has no more active runs than its limit", limitHolds},
	{"an attached request does not count", limitIgnoresAttached},
	{"a superseded run does not count", limitIgnoresSuperseded},
	{"a superseded run ends without counting twice", limitAfterSuperseded},
	{"a refused replacement leaves the old run alone", limitBeforeReplacement},
	{"a busy conversation is told before the limit", limitAfterConversation},
	{"runs of both scopes of a subject count", limitOfBothScopes},
	{"a run of either scope makes room when it ends", limitFreedInEitherScope},
	{"a run superseded in the tenant's scope does not count", limitIgnoresSupersededOfTenant},
	{"a refused start in the tenant's scope does not count", limitIgnoresRefusedOfTenant},
}

func atMost(n int) detail {
	return func(a *runregistry.Admission) { a.ActiveLimit = n }
}

func (f *fixture) wantLimit(err error, limit int) {
	f.Helper()
	e, ok := errors.AsType[*runregistry.LimitError](err)
	if !ok || e.Max != limit || e.Limit != "active_runs_per_subject" {
		f.Errorf("got error %v, want that the limit of %d runs is reached", err, limit)
	}
}

func limitHolds(f *fixture) {
	l := f.running(atMost(2))
	f.start(atMost(2))
	f.wantLimit(f.refused(atMost(2)), 2)
	f.start(atMost(2), by(bob))
	f.start(atMost(3))
	f.wantLimit(f.refused(atMost(2)), 2)
	f.complete(l)
	f.wantLimit(f.refused(atMost(2)), 2)
	f.start() // no limit
}

func limitIgnoresAttached(f *fixture) {
	l := f.running(atMost(1), keyed("k"))
	f.attached(l.Run, runregistry.MatchKey, atMost(1), keyed("k"))
	f.complete(l)
	f.attached(l.Run, runregistry.MatchKey, atMost(1), keyed("k"))
	f.start(atMost(1))
}

func limitIgnoresSuperseded(f *fixture) {
	f.running(atMost(1), in("c"))
	f.start(atMost(1), in("c"))
	f.wantLimit(f.refused(atMost(1)), 1)
}

func limitAfterSuperseded(f *fixture) {
	old := f.running(atMost(1), in("c"))
	f.start(atMost(1), in("c"))
	f.complete(old)
	f.wantLimit(f.refused(atMost(1)), 1)
}

func limitBeforeReplacement(f *fixture) {
	f.start(by(bob), shared, atMost(1))
	old := f.running(in("c"), shared)
	f.wantLimit(f.refused(by(bob), in("c"), shared, atMost(1), busy(runregistry.BusyReplace),
		func(a *runregistry.Admission) { a.MayReplace = true }), 1)
	want(f, "state", f.load(old.Run).State, runregistry.Running)
}

func limitAfterConversation(f *fixture) {
	f.start(atMost(1), in("c"))
	f.wantBusy(f.refused(atMost(1), in("c"), busy(runregistry.BusyReject)))
}

func limitOfBothScopes(f *fixture) {
	f.start(atMost(2), shared)
	f.start(atMost(2))
	f.wantLimit(f.refused(atMost(2)), 2)
	f.wantLimit(f.refused(atMost(2), shared), 2)
	f.start(atMost(2), shared, by(bob), shared)
}

func limitFreedInEitherScope(f *fixture) {
	for range 3 {
		own, tenants := f.running(atMost(2)), f.running(atMost(2), shared)
		f.complete(tenants)
		own2 := f.running(atMost(2))
		f.wantLimit(f.refused(atMost(2), shared), 2)
		f.complete(own)
		tenants = f.running(atMost(2), shared)
		f.wantLimit(f.refused(atMost(2)), 2)
		f.complete(own2)
		f.complete(tenants)
	}
}

func limitIgnoresSupersededOfTenant(f *fixture) {
	f.running(atMost(1), in("c"), shared)
	f.running(atMost(1), in("c"), shared)
	f.start(atMost(1), in("c"), shared)
	f.wantLimit(f.refused(atMost(1)), 1)
}

func limitIgnoresRefusedOfTenant(f *fixture) {
	f.start(by(bob), shared, in("c"))
	f.wantBusy(f.refused(atMost(1), in("c"), shared, busy(runregistry.BusyReject)))
	f.start(atMost(1))
}

// boundedTests get the number of bytes that fill the store.
var boundedTests = []struct {
	name string
	run  func(f *fixture, memory int)
}{
	{"a full store refuses new runs", fullRefuses},
	{"a full store lets running runs go on", fullGoesOn},
	{"a full store still attaches", fullAttaches},
	{"a full store does not stop the run that would have been replaced", fullReplacesNothing},
	{"what is deleted makes room", fullMakesRoom},
	{"what is trimmed makes room", fullTrims},
}

const fillFrame = 32 << 10

// fill appends to a run until the store is full.
func (f *fixture) fill(l runregistry.Lease, memory int) {
	f.Helper()
	after := f.load(l.Run).LastSeq
	for size := 0; size <= memory; size += fillFrame {
		after = f.add(l, after, strings.Repeat("x", fillFrame)).Last
	}
}

func fullRefuses(f *fixture, memory int) {
	l := f.running()
	f.start()
	f.fill(l, memory)
	f.wantErr("start", f.refused(), runregistry.ErrUnavailable)
	f.wantErr("start with a key", f.refused(keyed("k"), in("c")), runregistry.ErrUnavailable)
	f.wantUnknown("c")
}

func fullGoesOn(f *fixture, memory int) {
	l := f.running(in("c"))
	queued := f.start()
	f.fill(l, memory)
	f.intend(queued.Lease)
	f.add(queued.Lease, 0, "one")
	f.bind(l, "alias")
	f.stop(queued.Record.ID)
	f.complete(queued.Lease)
	f.complete(l)
	f.wantFrames(queued.Record.ID, "one")
}

func fullAttaches(f *fixture, memory int) {
	l := f.running(keyed("k"), in("c"))
	f.fill(l, memory)
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject)))
}

func fullReplacesNothing(f *fixture, memory int) {
	l := f.running(in("c"))
	f.fill(l, memory)
	f.wantErr("replacement", f.refused(in("c")), runregistry.ErrUnavailable)
	want(f, "state", f.load(l.Run).State, runregistry.Running)
}

func fullMakesRoom(f *fixture, memory int) {
	l := f.running()
	f.fill(l, memory)
	f.refused()
	f.complete(l)
	f.refused() // what is retained counts
	f.remove(l.Run)
	f.start()
}

func fullTrims(f *fixture, memory int) {
	l := f.running(limited(runregistry.LogLimits{Frames: 1}))
	f.fill(l, memory)
	f.start()
}
