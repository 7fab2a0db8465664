package proxy

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// bequest is a run that this process believes to have ended, and whose end its
// store does not know.
type bequest struct {
	*testing.T

	store  runregistry.Store
	keeper *keeper
	relic  *relic
	run    runregistry.RunID
}

func withBequest(t *testing.T, test func(*bequest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := embeddedstore.New(embeddedstore.Options{})
		defer store.Close()
		quiet := slog.New(slog.DiscardHandler)
		e := NewEngine(store, quiet, NewMetrics())
		k := &keeper{engine: e, lease: 15 * time.Second}
		e.keeper = k
		scope := runregistry.SubjectScope(runregistry.Subject{Sub: "u"})
		d, err := store.Admit(t.Context(), &runregistry.Admission{
			Run: runregistry.NewRunID(runregistry.PartitionOf(string(scope))), Scope: scope, Route: "chat", Busy: runregistry.BusyReject,
			Retention: runregistry.Retention{Frames: time.Minute, Record: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Watch.Close()
		rec, err := store.Intend(t.Context(), d.Lease)
		if err != nil {
			t.Fatal(err)
		}
		p := &pump{engine: e, log: quiet, lease: d.Lease, mirror: rec}
		p.bequeath(&runregistry.Settlement{State: runregistry.Completed}, completed(rec, time.Hour))
		kept := k.relics.all()
		if len(kept) != 1 {
			t.Fatalf("kept %d runs, want the one", len(kept))
		}
		test(&bequest{t, store, k, kept[0], d.Lease.Run})
		k.done.Wait()
	})
}

// completed is how a run ends that is kept for a while.
func completed(rec *runregistry.Record, keep time.Duration) *runregistry.Record {
	ended := *rec
	ended.State, ended.EndedAt, ended.ExpiresAt = runregistry.Completed, time.Now(), time.Now().Add(keep)
	return &ended
}

// told lets a heartbeat tell something, and reports whether the run is kept.
func (b *bequest) told(err error) bool {
	return !b.keeper.outlived(b.Context(), b.relic, runregistry.Renewal{Err: err})
}

// wantCompleted checks that the store has the end that was told.
func (b *bequest) wantCompleted() {
	b.Helper()
	rec, err := b.store.Load(b.Context(), b.run)
	if err != nil || rec.State != runregistry.Completed || rec.Cancel != (runregistry.Cancel{}) {
		b.Errorf("got state %v, cancel %+v and error %v, want completed and no Stop", rec.State, rec.Cancel, err)
	}
}

func TestALostEndIsStoredAgain(t *testing.T) {
	withBequest(t, func(b *bequest) {
		if !b.told(nil) {
			t.Error("the run is not kept, though it may be lost again")
		}
		b.wantCompleted()
	})
}

// What readers were told does not become another end because the store, which
// had lost it, took a Stop or another turn of the conversation for timely.
func TestALostEndStandsWhateverWasAskedSince(t *testing.T) {
	withBequest(t, func(b *bequest) {
		if rec, err := b.store.Stop(b.Context(), b.run, runregistry.ReasonSuperseded); err != nil || rec.State != runregistry.Cancelling {
			t.Fatalf("got state %v and error %v", rec.State, err)
		}
		b.told(nil)
		b.wantCompleted()
	})
}

// It is asked about while others are looked for, and must not be one of them.
func TestALostEndIsNotReapedByItsOwner(t *testing.T) {
	withBequest(t, func(b *bequest) {
		b.keeper.store = &orphan{}
		if err := b.keeper.bury(t.Context(), b.run); err != nil {
			t.Errorf("it was taken over: %v", err)
		}
	})
}

// orphan is a store whose only run is somebody's to take over.
type orphan struct{ lonely }

func TestNothingIsKeptOfARunThatWasDeleted(t *testing.T) {
	withBequest(t, func(b *bequest) {
		if err := b.keeper.engine.delete(t.Context(), b.run); !errors.Is(err, runregistry.ErrRunActive) {
			t.Fatal(err) // it has not ended in this store
		}
		if n := len(b.keeper.relics.all()); n != 0 {
			t.Errorf("%d runs are kept", n)
		}
		if b.told(runregistry.ErrNoRun) {
			t.Error("it would be asked about again")
		}
	})
}

func TestAnEndIsKeptForAWhileAndWhileTheStoreIsAway(t *testing.T) {
	withBequest(t, func(b *bequest) {
		if !b.told(runregistry.ErrSettled) {
			t.Error("it was dropped at once")
		}
		time.Sleep(2 * relicTime) // in the bubble of withBequest
		if !b.told(runregistry.ErrUnavailable) {
			t.Error("it was dropped though the store said nothing")
		}
		if b.told(runregistry.ErrSettled) {
			t.Error("it is kept for longer than that")
		}
	})
}

func TestAnEndOfARunThatAnotherInstanceOwnsIsNotKept(t *testing.T) {
	withBequest(t, func(b *bequest) {
		if b.told(runregistry.ErrFenced) {
			t.Error("it is kept")
		}
	})
}

// A store that keeps a run only for moments has not lost it when it is gone.
func TestAnEndOfARunThatIsSoonForgottenIsNotKept(t *testing.T) {
	withBequest(t, func(b *bequest) {
		p := b.relic.pump(t.Context(), b.keeper.engine)
		p.bequeath(&b.relic.settlement, completed(b.relic.record, 20*time.Second))
		if n := len(b.keeper.relics.all()); n != 1 {
			t.Errorf("got %d, want no other", n)
		}
	})
}

func TestEndsAreKeptWithinTheirMemory(t *testing.T) {
	var r relics
	for range 100 {
		r.add(&relic{bytes: relicBytes / 10})
	}
	newest := &relic{bytes: relicBytes / 10}
	r.add(newest)
	kept := r.all()
	if len(kept) != 10 || kept[9] != newest || r.bytes > relicBytes {
		t.Errorf("kept %d ends in %d bytes, want the 10 newest", len(kept), r.bytes)
	}
	for range 2 {
		r.drop(func(one *relic) bool { return one == newest })
	}
	if len(r.all()) != 9 || r.bytes != 9*(relicBytes/10) {
		t.Errorf("kept %d ends in %d bytes after one was dropped", len(r.all()), r.bytes)
	}
}

// unheard is a store that does not answer about runs that have ended.
type unheard struct {
	lonely

	beats atomic.Int64
}

func (s *unheard) Renew(ctx context.Context, leases []runregistry.Lease) ([]runregistry.Renewal, error) {
	if len(leases) > 0 {
		<-ctx.Done()
		return nil, runregistry.ErrUnavailable
	}
	s.beats.Add(1)
	return nil, nil
}

// TestAHeartbeatWaitsForNoRunThatHasEnded: runs that go on would lose their
// leases, which is worse than a lost end.
func TestAHeartbeatWaitsForNoRunThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unheard{}
		e := NewEngine(store, slog.New(slog.DiscardHandler), NewMetrics())
		e.Share(Sharing{Lease: 15 * time.Second})
		defer e.keeper.Close()
		e.keeper.relics.add(&relic{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := store.beats.Load(); n < 12 {
			t.Errorf("got %d heartbeats in a minute, want one in 5 s", n)
		}
	})
}
