package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/faultstore"
)

// TestAHeartbeatWaitsForNoRun: it is that of all runs, and one whose owner is
// at a store that does not answer must not cost the others their leases.
func TestAHeartbeatWaitsForNoRun(t *testing.T) {
	p := &pump{log: slog.New(slog.DiscardHandler), cfg: &Config{}, last: 3}
	p.cancel = func(cause error) { t.Errorf("the run was given up: %v", cause) }
	p.mu.Lock() // as an append does until it is answered
	defer p.mu.Unlock()
	for _, r := range []runregistry.Renewal{{}, {Last: 1}, {Err: runregistry.ErrNoRun}, {Err: runregistry.ErrUnavailable}} {
		p.renewed(r) // it would never return
	}
}

// TestARunThatCannotBeSettledLetsOthersLook, Stops for instance, while it waits
// for its store.
func TestARunThatCannotBeSettledLetsOthersLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := embeddedstore.New(embeddedstore.Options{})
		defer inner.Close()
		store := faultstore.Wrap(inner)
		quiet := slog.New(slog.DiscardHandler)
		e := NewEngine(store, quiet, NewMetrics())
		ctx, cancel := context.WithCancelCause(t.Context())
		p := &pump{engine: e, cfg: &Config{}, log: quiet, span: runSpan{trace.SpanFromContext(ctx)}, ctx: ctx, cancel: cancel, storeCtx: t.Context(), header: make(http.Header)}
		store.Down()
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			p.settle(ending{aborted: true})
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if !p.mu.TryLock() {
			t.Fatal("the run is locked while it waits")
		}
		p.mu.Unlock()
		e.abandon()
		<-settled
	})
}

// lonely is a store of which this process has heard everything and whose leases
// nobody else looks at.
type lonely struct {
	runregistry.Store
	runregistry.Noter

	looks atomic.Int64
}

func (*lonely) Hold(runregistry.InstanceID, time.Duration) {}
func (*lonely) Renew(context.Context, []runregistry.Lease) ([]runregistry.Renewal, error) {
	return nil, nil
}

func (s *lonely) Expired(context.Context, int) ([]runregistry.RunID, error) {
	s.looks.Add(1)
	return nil, nil
}

func (*lonely) TakeOver(context.Context, runregistry.RunID) (runregistry.Lease, *runregistry.Record, error) {
	return runregistry.Lease{}, nil, runregistry.ErrLeaseLive
}
func (*lonely) Release(context.Context, runregistry.Lease) error { return nil }
func (*lonely) Orders(context.Context) <-chan runregistry.RunID {
	none := make(chan runregistry.RunID)
	close(none)
	return none
}

func (*lonely) Restore(context.Context, runregistry.Lease, *runregistry.Record, *runregistry.Batch) error {
	return nil
}

// TestAGatewayThatDrainsTakesNothingOver: it could not go on with a run that
// another one can go on with.
func TestAGatewayThatDrainsTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lonely{}
		e := NewEngine(store, slog.New(slog.DiscardHandler), NewMetrics())
		e.Share(Sharing{Lease: 15 * time.Second})
		defer e.keeper.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		looked := store.looks.Load()
		if looked == 0 {
			t.Error("a healthy gateway never looked for dead owners")
		}
		e.Drain()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := store.looks.Load(); got > looked {
			t.Errorf("looked %d times while it drains", got-looked)
		}
	})
}

// away is a lonely store that does not answer for a while, after which the lease
// of a run has run out.
type away struct {
	lonely

	until time.Time
	taken atomic.Pointer[time.Time] // when somebody tried to take the run over
}

func (s *away) Expired(context.Context, int) ([]runregistry.RunID, error) {
	if time.Now().Before(s.until) {
		return nil, runregistry.ErrUnavailable
	}
	return []runregistry.RunID{runregistry.NewRunID(1)}, nil
}

func (*away) Load(context.Context, runregistry.RunID) (*runregistry.Record, error) {
	return nil, runregistry.ErrNoRun
}

func (s *away) TakeOver(ctx context.Context, id runregistry.RunID) (runregistry.Lease, *runregistry.Record, error) {
	now := time.Now()
	s.taken.CompareAndSwap(nil, &now)
	return s.lonely.TakeOver(ctx, id)
}

// TestAGatewayWithoutRunsGivesOwnersTimeAfterAnOutage: it has no lease to renew
// by which it could notice that its store was away.
func TestAGatewayWithoutRunsGivesOwnersTimeAfterAnOutage(t *testing.T) {
	for outage := 10 * time.Second; outage < time.Minute; outage += time.Second {
		synctest.Test(t, func(t *testing.T) {
			const lease = 15 * time.Second
			store := &away{until: time.Now().Add(outage)}
			e := NewEngine(store, slog.New(slog.DiscardHandler), NewMetrics())
			e.Share(Sharing{Lease: lease})
			defer e.keeper.Close()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if at := store.taken.Load(); at == nil || at.Sub(store.until) < lease {
				t.Errorf("after %v: took a run over at %v, want a lease after %v", outage, at, store.until)
			}
		})
	}
}

// flaky is a store that misses some heartbeats.
type flaky struct {
	lonely

	misses, beats int
}

func (s *flaky) Renew(context.Context, []runregistry.Lease) ([]runregistry.Renewal, error) {
	if s.beats++; s.beats <= s.misses {
		return nil, runregistry.ErrUnavailable
	}
	return nil, nil
}

// TestAMissedHeartbeatIsMadeUpForSoon: what a failover lost before it is not
// there to last until the next one.
func TestAMissedHeartbeatIsMadeUpForSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{misses: 2}
		e := NewEngine(store, slog.New(slog.DiscardHandler), NewMetrics())
		e.Share(Sharing{Lease: 15 * time.Second})
		time.Sleep(4 * time.Second)
		e.keeper.Close()
		if store.beats != 3 {
			t.Errorf("got %d heartbeats in 4 s, of which 2 were missed, want 3", store.beats)
		}
	})
}
