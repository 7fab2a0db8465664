package storetest

import (
	"errors"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var attemptTests = []test{
	{"the next attempt of an ended run starts anew", attemptNext},
	{"an effect that nobody confirmed refuses the next attempt", attemptUnsafe},
	{"an attempt of an active run attaches", attemptOfActive},
	{"an earlier attempt answers to its number", attemptEarlier},
	{"an attempt beyond the next is refused", attemptBeyond},
	{"another request makes no attempt", attemptOfAnother},
	{"a free key begins with the first attempt", attemptWithoutRun},
	{"the first caller makes the attempt, the others attach", attemptOnce},
	{"a refused attempt leaves the key with the last one", attemptRefused},
	{"an attempt that is deleted answers no more", attemptDeleted},
	{"without a key there are no attempts", attemptUnkeyed},
}

// attempt names the attempt that the request wants.
func attempt(n int) detail {
	return func(a *runregistry.Admission) { a.Attempt = n }
}

func confirmed(a *runregistry.Admission) { a.Confirmed = true }

func attemptNext(f *fixture) {
	first := f.running(keyed("k"))
	want(f, "number of the first", f.load(first.Run).Attempt, 1)
	f.end(first, runregistry.Settlement{State: runregistry.Failed, NoEffect: true})
	second := f.start(keyed("k"), attempt(2))
	want(f, "number", second.Record.Attempt, 2)
	want(f, "previous", second.Record.Previous, first.Run)
	f.attached(second.Record.ID, runregistry.MatchKey, keyed("k"))
	f.intend(second.Lease)
	f.complete(second.Lease)
	third := f.start(keyed("k"), attempt(3), confirmed)
	want(f, "previous of the third", f.load(third.Record.ID).Previous, second.Record.ID)
}

func attemptUnsafe(f *fixture) {
	l := f.running(keyed("k"))
	f.complete(l)
	e, ok := errors.AsType[*runregistry.UnsafeRetryError](f.refused(keyed("k"), attempt(2)))
	if !ok || e.Run != l.Run || e.Effect != runregistry.EffectPossible {
		f.Errorf("got %v, want that %s may have had an effect", e, l.Run)
	}
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.start(keyed("k"), attempt(2), confirmed)
}

func attemptOfActive(f *fixture) {
	l := f.running(keyed("k"))
	f.attached(l.Run, runregistry.MatchKey, keyed("k"), attempt(2), confirmed)
	f.attached(l.Run, runregistry.MatchKey, keyed("k"), attempt(1))
}

func attemptEarlier(f *fixture) {
	first := f.running(keyed("k"))
	f.complete(first)
	second := f.start(keyed("k"), attempt(2), confirmed)
	f.intend(second.Lease)
	f.complete(second.Lease)
	f.start(keyed("k"), attempt(3), confirmed)
	f.attached(first.Run, runregistry.MatchKey, keyed("k"), attempt(1))
	f.attached(second.Record.ID, runregistry.MatchKey, keyed("k"), attempt(2), confirmed)
}

func attemptBeyond(f *fixture) {
	f.complete(f.running(keyed("k")))
	e, ok := errors.AsType[*runregistry.AttemptError](f.refused(keyed("k"), attempt(3), confirmed))
	if !ok || e.Last != 1 {
		f.Errorf("got %v, want that the last attempt is 1", e)
	}
}

func attemptOfAnother(f *fixture) {
	f.complete(f.running(keyed("k")))
	f.wantErr("attempt", f.refused(keyed("k"), body("other"), attempt(2), confirmed), runregistry.ErrKeyReused)
}

func attemptWithoutRun(f *fixture) {
	want(f, "number", f.start(keyed("k"), attempt(2), confirmed).Record.Attempt, 1)
}

func attemptOnce(f *fixture) {
	f.complete(f.running(keyed("k")))
	all := f.race(10, func(int) *runregistry.Admission { return ask(keyed("k"), attempt(2), confirmed) })
	f.wantCount(all, 1, 9, 0)
	_, _, _, runs := count(all)
	want(f, "runs", len(runs), 1)
}

func attemptRefused(f *fixture) {
	l := f.running(keyed("k"), in("c"))
	f.complete(l)
	f.running(in("c"))
	f.wantBusy(f.refused(keyed("k"), in("c"), attempt(2), confirmed, busy(runregistry.BusyReject)))
	f.attached(l.Run, runregistry.MatchKey, keyed("k"), in("c"))
}

func attemptDeleted(f *fixture) {
	first := f.running(keyed("k"))
	f.complete(first)
	second := f.start(keyed("k"), attempt(2), confirmed)
	f.remove(first.Run)
	f.wantErr("the first", f.refused(keyed("k"), attempt(1)), runregistry.ErrDeleted)
	f.attached(second.Record.ID, runregistry.MatchKey, keyed("k"))
	f.intend(second.Lease)
	f.complete(second.Lease)
	f.remove(second.Record.ID)
	f.wantErr("the last", f.refused(keyed("k"), attempt(3), confirmed), runregistry.ErrDeleted)
}

func attemptUnkeyed(f *fixture) {
	l := f.running(echo("hi"))
	f.deliver(l.Run, brokeEarly)
	f.attached(l.Run, runregistry.MatchDelivery, echo("hi"), attempt(2), confirmed)
}
