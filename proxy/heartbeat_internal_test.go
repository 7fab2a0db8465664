package proxy

import (
	"context"
	"log/slog"
	"net/http"
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
	p := &pump{log: slog.New(slog.DiscardHandler), last: 3}
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
