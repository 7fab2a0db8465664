package storetest

import (
	"errors"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var keyTests = []test{
	{"an equal request with the key attaches to the active run", keyAttachesToActive},
	{"an equal request with the key attaches to the ended run", keyAttachesToEnded},
	{"another request with the key is refused", keyReused},
	{"an active run can be a conflict", keyConflict},
	{"a key belongs to one subject and one route", keyIsScoped},
	{"a key wins over a busy conversation", keyBeforeConversation},
	{"a released key starts anew", keyReleased},
	{"an effect keeps the key", keyKeptByEffect},
	{"a key that was not released stays", keyNotReleased},
	{"a run that was not dispatched releases its key", keyReleasedBeforeDispatch},
	{"a run that went on under a released key does not take it back", keyTakenOver},
	{"an admission sent twice starts once", admissionTwice},
}

func keyAttachesToActive(f *fixture) {
	first := f.start(keyed("k"))
	again := f.attached(first.Record.ID, runregistry.MatchKey, keyed("k"))
	want(f, "lease of an attached request", again.Lease, runregistry.Lease{})
	want(f, "deliveries", f.load(first.Record.ID).Delivery.Pending, 2)
}

func keyAttachesToEnded(f *fixture) {
	l := f.running(keyed("k"))
	f.complete(l)
	again := f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	want(f, "state", again.Record.State, runregistry.Completed)
}

func keyReused(f *fixture) {
	l := f.running(keyed("k"))
	f.wantErr("active", f.refused(keyed("k"), body("other")), runregistry.ErrKeyReused)
	f.complete(l)
	f.wantErr("ended", f.refused(keyed("k"), body("other")), runregistry.ErrKeyReused)
}

func keyConflict(f *fixture) {
	conflict := func(a *runregistry.Admission) { a.KeyConflict = true }
	l := f.running(keyed("k"))
	err := f.refused(keyed("k"), conflict)
	if e, ok := errors.AsType[*runregistry.InProgressError](err); !ok || e.Run != l.Run {
		f.Errorf("got error %v, want that %s is in progress", err, l.Run)
	}
	f.complete(l)
	f.attached(l.Run, runregistry.MatchKey, keyed("k"), conflict)
}

func keyIsScoped(f *fixture) {
	f.start(keyed("k"))
	f.start(keyed("k"), by(bob))
	f.start(keyed("k"), func(a *runregistry.Admission) { a.Route = "other" })
	f.start(keyed("l"))
	f.start() // no key is not a key
	f.start()
}

func keyBeforeConversation(f *fixture) {
	l := f.running(keyed("k"), in("c"))
	f.running(in("d"))
	f.attached(l.Run, runregistry.MatchKey, keyed("k"), in("d"))
}

func keyReleased(f *fixture) {
	l := f.running(keyed("k"))
	f.end(l, runregistry.Settlement{State: runregistry.Failed, NoEffect: true, ReleaseKey: true})
	f.start(keyed("k"), body("other"))
	want(f, "state of the first run", f.load(l.Run).State, runregistry.Failed)
}

func keyKeptByEffect(f *fixture) {
	l := f.running(keyed("k"))
	f.end(l, runregistry.Settlement{
		State: runregistry.Failed, NoEffect: true, ReleaseKey: true,
		Progress: &runregistry.Progress{Effect: runregistry.EffectObserved},
	})
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
}

func keyNotReleased(f *fixture) {
	l := f.running(keyed("k"))
	f.end(l, runregistry.Settlement{State: runregistry.Completed, NoEffect: true})
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
}

func keyReleasedBeforeDispatch(f *fixture) {
	stopped := f.start(keyed("stopped"))
	f.stop(stopped.Record.ID)
	f.start(keyed("stopped"))

	failed := f.start(keyed("failed"))
	f.end(failed.Lease, runregistry.Settlement{State: runregistry.Failed})
	f.start(keyed("failed"))
}

func keyTakenOver(f *fixture) {
	first := f.running(keyed("k"))
	f.end(first, runregistry.Settlement{State: runregistry.Failed, NoEffect: true, ReleaseKey: true})
	second := f.running(keyed("k"))
	if err := f.Delete(f.ctx, first.Run); err != nil {
		f.Fatal(err)
	}
	f.attached(second.Run, runregistry.MatchKey, keyed("k"))
}

// A store whose reply to an admission was lost must not leave a run that
// nobody owns.
func admissionTwice(f *fixture) {
	a := ask(keyed("k"), in("c"))
	first, err := f.Admit(f.ctx, a)
	if err != nil {
		f.Fatal(err)
	}
	first.Watch.Close()
	again, err := f.Admit(f.ctx, a)
	if err != nil {
		f.Fatal(err)
	}
	defer again.Watch.Close()
	want(f, "match", again.Match, runregistry.MatchNone)
	want(f, "lease", again.Lease, first.Lease)
	want(f, "deliveries", again.Record.Delivery.Pending, 1)
	f.intend(again.Lease)
}
