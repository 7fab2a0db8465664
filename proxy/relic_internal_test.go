package proxy

import (
	"log/slog"
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
		p := &pump{engine: e, log: quiet, lease: d.Lease, storeCtx: t.Context(), mirror: rec}
		ended := *rec
		ended.ExpiresAt = time.Now().Add(time.Hour)
		p.bequeath(&runregistry.Settlement{State: runregistry.Completed}, &ended)
		kept := k.relics.all()
		if len(kept) != 1 {
			t.Fatalf("kept %d runs, want the one", len(kept))
		}
		test(&bequest{t, store, k, kept[0], d.Lease.Run})
		k.done.Wait()
	})
}

// told lets a heartbeat tell something, and reports whether the run is kept.
func (b *bequest) told(err error) bool {
	b.keeper.tend(b.relic, runregistry.Renewal{Err: err})
	b.keeper.done.Wait()
	return len(b.keeper.relics.all()) == 1
}

func TestALostEndIsStoredAgain(t *testing.T) {
	withBequest(t, func(b *bequest) {
		if !b.told(nil) {
			t.Error("the run is not kept, though it may be lost again")
		}
		rec, err := b.store.Load(b.Context(), b.run)
		if err != nil || rec.State != runregistry.Completed {
			t.Errorf("got state %v and error %v, want completed", rec.State, err)
		}
	})
}

func TestAnEndIsKeptForALeaseAndWhileTheStoreIsAway(t *testing.T) {
	withBequest(t, func(b *bequest) {
		if !b.told(runregistry.ErrSettled) {
			t.Error("it was dropped at once")
		}
		time.Sleep(time.Minute) // in the bubble of withBequest
		if !b.told(runregistry.ErrUnavailable) {
			t.Error("it was dropped though the store said nothing")
		}
		if b.told(runregistry.ErrSettled) {
			t.Error("it is kept for longer than a lease")
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
		b.relic.run.bequeath(&b.relic.settlement, &runregistry.Record{ExpiresAt: time.Now().Add(20 * time.Second)})
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
	r.drop(newest)
	r.drop(newest)
	if len(r.all()) != 9 || r.bytes != 9*(relicBytes/10) {
		t.Errorf("kept %d ends in %d bytes after one was dropped", len(r.all()), r.bytes)
	}
}
