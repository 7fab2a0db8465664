package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Server is one store that several instances share.
type Server struct {
	// Open returns another instance, which it closes in a cleanup of t.
	Open func(t *testing.T) runregistry.Store
	// Lose makes the server forget everything.
	Lose func()
	// LoseTail makes it forget the frames of a run above a number, as a failover
	// does.
	LoseTail func(run runregistry.RunID, last runregistry.Seq)
	// Deadlines returns everything that is stored, and how long it lives; -1
	// stands for ever.
	Deadlines func() map[string]time.Duration
}

// Serve returns an empty server, which it stops in a cleanup of t.
type Serve func(t *testing.T) *Server

// leased are the promises of a [runregistry.Leaser].
func leased() []sharedPromise {
	return []sharedPromise{
		{"1 admission is one step for all instances", sharedAdmissionTests},
		{"a note is left once", noteTests},
		{"5 only a takeover ends ownership", leaseTests},
		{"6 instances follow each other's runs", followTests},
		{"7 what a server lost comes back", restoreTests},
		{"8 everything has a deadline at every moment", deadlineTests},
		{"10 readers are counted on all instances", sharedReaderTests},
	}
}

type sharedPromise struct {
	name  string
	tests []sharedTest
}

type sharedTest struct {
	name string
	run  func(f *pair)
}

// RunShared tests a store that several instances share, in real time.
func RunShared(t *testing.T, serve Serve) {
	t.Helper()
	eachShared(t, func(t *testing.T, run func(*pair)) { run(newPair(t, serve(t))) })
}

// RunSharedTimed does the same, each test inside a synctest bubble of its own.
func RunSharedTimed(t *testing.T, serve Serve) {
	t.Helper()
	eachShared(t, func(t *testing.T, run func(*pair)) {
		synctest.Test(t, func(t *testing.T) { run(newPair(t, serve(t))) })
	})
}

func eachShared(t *testing.T, run func(*testing.T, func(*pair))) {
	t.Helper()
	for _, p := range leased() {
		t.Run(p.name, func(t *testing.T) {
			for _, tt := range p.tests {
				t.Run(tt.name, func(t *testing.T) { run(t, tt.run) })
			}
		})
	}
}

// pair is a test with two instances: its own, which owns the runs of the test,
// and another.
type pair struct {
	*fixture
	server *Server
	other  *fixture
}

// Leases of the tests: one that does not expire while the test runs, and one
// that can be waited for.
const (
	longLease  = time.Hour
	shortLease = 100 * time.Millisecond
)

func newPair(t *testing.T, server *Server) *pair {
	t.Helper()
	return &pair{
		fixture: newFixture(t, instance(t, server, longLease)), server: server,
		other: newFixture(t, instance(t, server, longLease)),
	}
}

func instance(t *testing.T, server *Server, lease time.Duration) runregistry.Store {
	t.Helper()
	s := server.Open(t)
	newFixture(t, s).leaser().Hold(runregistry.NewInstanceID(), lease)
	return s
}

// leaser is the fixture's instance as that.
func (f *fixture) leaser() runregistry.Leaser {
	f.Helper()
	l, ok := f.Store.(runregistry.Leaser)
	if !ok {
		f.Fatalf("got a %T, want a store that instances share", f.Store)
	}
	return l
}

// mortal is an instance that lets its leases expire.
func (f *pair) mortal() *fixture {
	f.Helper()
	return newFixture(f.T, instance(f.T, f.server, shortLease))
}

// renew renews one lease.
func (f *fixture) renew(l runregistry.Lease) runregistry.Renewal {
	f.Helper()
	r, err := f.leaser().Renew(f.ctx, []runregistry.Lease{l})
	if err != nil || len(r) != 1 {
		f.Fatalf("renewing gave %v and error %v, want one renewal", r, err)
	}
	return r[0]
}

// expired waits until the store says that a lease has expired.
func (f *fixture) expired(l runregistry.Lease) {
	f.Helper()
	f.eventually("the lease expires", func() bool {
		ids, err := f.leaser().Expired(f.ctx, 100)
		if err != nil {
			f.Fatalf("looking for expired leases failed: %v", err)
		}
		return slices.Contains(ids, l.Run)
	})
}

func (f *fixture) takeOver(id runregistry.RunID) runregistry.Lease {
	f.Helper()
	l, rec, err := f.leaser().TakeOver(f.ctx, id)
	if err != nil {
		f.Fatalf("takeover failed: %v", err)
	}
	want(f, "epoch of the record", rec.Epoch, l.Epoch)
	return l
}

// eventually asks again and again.
func (f *fixture) eventually(what string, ok func() bool) {
	f.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.After(2 * patience)
	for !ok() {
		select {
		case <-again.C:
		case <-late:
			f.Fatalf("never did it happen that %s", what)
		}
	}
}

var leaseTests = []sharedTest{
	{"a lease expires by the store's time", leaseExpires},
	{"of racing instances one takes over", leaseRace},
	{"after a takeover the old owner can write nothing", leaseFences},
	{"until a takeover the owner goes on past its deadline", leaseOutlived},
	{"a live lease, an ended and an unknown run cannot be taken over", leaseRefused},
	{"a run that was taken over goes on where it was", leaseGoesOn},
	{"a lease that was given back is free at once", leaseReleased},
	{"renewals report each lease in its place", leaseReports},
}

func leaseExpires(f *pair) {
	owner := f.mortal()
	lost, kept := owner.running(), f.running()
	f.other.expired(lost)
	ids, err := f.leaser().Expired(f.ctx, 100)
	f.wantErr("looking for expired leases", err, nil)
	want(f.fixture, "expired though it lasts", slices.Contains(ids, kept.Run), false)
	ended := owner.running()
	owner.complete(ended)
	late := owner.running()
	f.other.expired(late)
	ids, err = f.leaser().Expired(f.ctx, 100)
	f.wantErr("looking for expired leases", err, nil)
	want(f.fixture, "expired though it ended", slices.Contains(ids, ended.Run), false)
	ids, err = f.leaser().Expired(f.ctx, 1)
	f.wantErr("looking for expired leases", err, nil)
	want(f.fixture, "expired leases of a bounded look", len(ids), 1)
}

func leaseRace(f *pair) {
	owner := f.mortal()
	l := owner.running()
	f.other.expired(l)
	var all sync.WaitGroup
	won := make(chan runregistry.Lease, 20)
	for i := range cap(won) {
		taker := []*fixture{f.fixture, f.other}[i%2]
		all.Go(func() {
			lease, _, err := taker.leaser().TakeOver(f.ctx, l.Run)
			if err == nil {
				won <- lease
				return
			}
			f.wantErr("takeover", err, runregistry.ErrLeaseLive)
		})
	}
	all.Wait()
	want(f.fixture, "winners", len(won), 1)
	want(f.fixture, "epoch", (<-won).Epoch, l.Epoch+1)
}

func leaseFences(f *pair) {
	owner := f.mortal()
	old := owner.running(in("c"))
	owner.add(old, 0, "one")
	f.expired(old)
	l := f.takeOver(old.Run)
	before := f.load(old.Run)
	for call, err := range owner.writes(old) {
		f.wantErr(call, err, runregistry.ErrFenced)
	}
	f.wantErr("renewal", owner.renew(old).Err, runregistry.ErrFenced)
	want(f.fixture, "revision", f.load(old.Run).Revision, before.Revision)
	f.wantUnknown("alias")
	f.add(l, 1, "two")
	f.end(l, runregistry.Settlement{State: runregistry.Uncertain, Reason: runregistry.ReasonOwnerLost})
	for call, err := range owner.writes(old) {
		f.wantErr(call+" after the end", err, runregistry.ErrFenced)
	}
	owner.wantFrames(old.Run, "one", "two")
	owner.start(in("c")) // free since the end
}

func leaseOutlived(f *pair) {
	owner := f.mortal()
	l := owner.running(in("c"))
	f.other.expired(l)
	owner.add(l, 0, "one")
	owner.bind(l, "alias")
	long := newFixture(f.T, owner.Store)
	long.leaser().Hold(runregistry.NewInstanceID(), longLease)
	want(f.fixture, "renewal", owner.renew(l).Err, nil)
	_, _, err := f.leaser().TakeOver(f.ctx, l.Run)
	f.wantErr("takeover after a renewal", err, runregistry.ErrLeaseLive)
	owner.complete(l)

	last := f.mortal()
	end := last.running()
	f.other.expired(end)
	want(f.fixture, "state", last.complete(end).State, runregistry.Completed)
}

func leaseRefused(f *pair) {
	l := f.running()
	takes := func(id runregistry.RunID) error {
		_, _, err := f.other.leaser().TakeOver(f.ctx, id)
		return err
	}
	f.wantErr("live", takes(l.Run), runregistry.ErrLeaseLive)
	f.complete(l)
	f.wantErr("ended", takes(l.Run), runregistry.ErrSettled)
	f.wantErr("unknown", takes(runregistry.NewRunID(3)), runregistry.ErrNoRun)
}

func leaseGoesOn(f *pair) {
	owner := f.mortal()
	old := owner.running()
	owner.add(old, 0, "one")
	owner.advance(old, runregistry.Progress{UpstreamID: "up", Model: "m"})
	f.expired(old)
	l := f.takeOver(old.Run)
	f.send(l, &runregistry.Batch{After: 1, Frames: raw("two"), Progress: &runregistry.Progress{Model: "n"}})
	rec := f.complete(l)
	want(f.fixture, "state", rec.State, runregistry.Completed)
	want(f.fixture, "model", rec.Model, "n")
	want(f.fixture, "epoch", rec.Epoch, old.Epoch+1)
	f.other.wantFrames(old.Run, "one", "two")
}

func leaseReleased(f *pair) {
	l := f.running()
	f.send(l, &runregistry.Batch{Frames: raw("one"), Position: "u1"})
	if _, _, err := f.other.leaser().TakeOver(f.ctx, l.Run); !errors.Is(err, runregistry.ErrLeaseLive) {
		f.Fatalf("got error %v, want %v", err, runregistry.ErrLeaseLive)
	}
	f.wantErr("release", f.leaser().Release(f.ctx, l), nil)
	f.other.eventually("the lease is free", func() bool { // clocks of stores count in milliseconds
		ids, err := f.other.leaser().Expired(f.ctx, 100)
		return err == nil && slices.Contains(ids, l.Run)
	})
	next, rec, err := f.other.leaser().TakeOver(f.ctx, l.Run)
	if err != nil {
		f.Fatal(err)
	}
	want(f.fixture, "epoch", next.Epoch, l.Epoch+1)
	want(f.fixture, "upstream's position", rec.Position, "u1")
	f.wantErr("release by the old owner", f.leaser().Release(f.ctx, l), runregistry.ErrFenced)
	f.other.complete(next)
	f.wantErr("release of what has ended", f.other.leaser().Release(f.ctx, next), runregistry.ErrSettled)
}

func leaseReports(f *pair) {
	running, ended, stopped := f.running(), f.running(), f.running()
	f.add(running, 0, "one", "two")
	f.complete(ended)
	f.other.stop(stopped.Run)
	unknown := runregistry.Lease{Run: runregistry.NewRunID(9), Epoch: 1}
	fenced := runregistry.Lease{Run: running.Run, Epoch: 9}
	got, err := f.leaser().Renew(f.ctx, []runregistry.Lease{unknown, running, ended, stopped, fenced})
	if err != nil || len(got) != 5 {
		f.Fatalf("got %v and error %v, want 5 renewals", got, err)
	}
	f.wantErr("unknown", got[0].Err, runregistry.ErrNoRun)
	want(f.fixture, "running", got[1], runregistry.Renewal{Last: 2, Revision: f.load(running.Run).Revision})
	f.wantErr("ended", got[2].Err, runregistry.ErrSettled)
	want(f.fixture, "stopped", got[3], runregistry.Renewal{Stopping: true, Revision: f.load(stopped.Run).Revision})
	f.wantErr("fenced", got[4].Err, runregistry.ErrFenced)
	none, err := f.leaser().Renew(f.ctx, nil)
	want(f.fixture, "renewals of nothing", len(none), 0)
	f.wantErr("renewing nothing", err, nil)
}
