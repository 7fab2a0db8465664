package storetest

import (
	"errors"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var limitTests = []test{
	{"a subject has no more active runs than its limit", limitHolds},
	{"an attached request does not count", limitIgnoresAttached},
	{"a superseded run does not count", limitIgnoresSuperseded},
	{"a superseded run ends without counting twice", limitAfterSuperseded},
	{"a refused replacement leaves the old run alone", limitBeforeReplacement},
	{"a busy conversation is told before the limit", limitAfterConversation},
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
	f.start(by(bob), atMost(1))
	old := f.running(in("c"), shared)
	f.wantLimit(f.refused(by(bob), in("c"), shared, atMost(1), busy(runregistry.BusyReplace),
		func(a *runregistry.Admission) { a.MayReplace = true }), 1)
	want(f, "state", f.load(old.Run).State, runregistry.Running)
}

func limitAfterConversation(f *fixture) {
	f.start(atMost(1), in("c"))
	f.wantBusy(f.refused(atMost(1), in("c"), busy(runregistry.BusyReject)))
}
