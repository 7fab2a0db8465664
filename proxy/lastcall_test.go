package proxy_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// orphanage is a store of several instances in which some runs have lost their
// owners.
type orphanage struct {
	runregistry.Store
	runregistry.Noter
	mu      sync.Mutex // guards orphans
	orphans []runregistry.RunID
}

func (o *orphanage) abandon(id runregistry.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.orphans = append(o.orphans, id)
}

func (*orphanage) Hold(runregistry.InstanceID, time.Duration) {}

func (*orphanage) Renew(_ context.Context, leases []runregistry.Lease) ([]runregistry.Renewal, error) {
	return make([]runregistry.Renewal, len(leases)), nil
}

func (o *orphanage) Expired(context.Context, int) ([]runregistry.RunID, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.orphans), nil
}

func (o *orphanage) TakeOver(ctx context.Context, id runregistry.RunID) (runregistry.Lease, *runregistry.Record, error) {
	o.mu.Lock()
	o.orphans = slices.DeleteFunc(o.orphans, func(r runregistry.RunID) bool { return r == id })
	o.mu.Unlock()
	rec, err := o.Load(ctx, id)
	if err != nil {
		return runregistry.Lease{}, nil, err
	}
	return runregistry.Lease{Run: id, Epoch: rec.Epoch}, rec, nil
}

func (*orphanage) Release(context.Context, runregistry.Lease) error { return nil }

func (*orphanage) Orders(context.Context) <-chan runregistry.RunID {
	none := make(chan runregistry.RunID)
	close(none)
	return none
}

func (*orphanage) Restore(context.Context, runregistry.Lease, *runregistry.Record, *runregistry.Batch) error {
	return runregistry.ErrTaken
}

// bereft is a site on an orphanage whose backend takes cancel calls.
func bereft(t *testing.T, calls *[]*http.Request) (*site, *orphanage) {
	t.Helper()
	o := new(orphanage)
	s := setup{
		store: func(inner runregistry.Store) runregistry.Store { o.Store = inner; return o },
		config: []func(*proxy.Config){generic, func(c *proxy.Config) {
			c.Cancel = proxy.Way{Method: http.MethodDelete, Target: "/up/{upstream_id}"}
		}},
	}.open(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodDelete {
			*calls = append(*calls, r)
			return nil
		}
		return streams("data: x\n\n")(0, w, r)
	})
	s.engine.Share(proxy.DefaultSharing())
	return s, o
}

// left is a run of an instance that died.
func (o *orphanage) left(t *testing.T, conversation string, stopped bool) string {
	t.Helper()
	run := newStage(t, o.Store, conversation, 1)
	run.append(t, 0, &runregistry.Progress{UpstreamID: "up-" + conversation})
	if stopped {
		if _, err := o.Stop(t.Context(), run.lease.Run, ""); err != nil {
			t.Fatalf("stopping: %v", err)
		}
	}
	o.abandon(run.lease.Run)
	return string(run.lease.Run)
}

// TestAStopIsSentAgainWhenItsOwnerDied, on the way that another run of the route
// took and without anything of that run's caller.
func TestAStopIsSentAgainWhenItsOwnerDied(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls []*http.Request
		s, o := bereft(t, &calls)
		s.ran(t, startChat().With("Authorization", "Bearer another"))
		run := o.left(t, "c1", true)
		time.Sleep(time.Minute)
		synctest.Wait()
		rec := s.Snapshot(t, run)
		if rec.State != "cancelled" || rec.Outcome() != "cancelled_after_effect" || *rec.Cancel.Upstream != "unconfirmed" {
			t.Errorf("got %s, %s, upstream %s", rec.State, rec.Outcome(), *rec.Cancel.Upstream)
		}
		if len(calls) != 1 || calls[0].URL.Path != "/up/up-c1" || calls[0].Header.Get("Authorization") != "" {
			t.Errorf("got calls %v, want one for the run without another's credentials", calls)
		}
	})
}

// TestAStopWhoseOwnerDiedIsUncertainWhereNobodyCanCall.
func TestAStopWhoseOwnerDiedIsUncertainWhereNobodyCanCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls []*http.Request
		s, o := bereft(t, &calls)
		run := o.left(t, "c1", true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if rec := s.Snapshot(t, run); rec.State != "uncertain" || rec.Outcome() != "already_terminal" || len(calls) != 0 {
			t.Errorf("got %s, %s, %d calls", rec.State, rec.Outcome(), len(calls))
		}
	})
}

// TestStopOfAnUncertainRunIsStillCalledOnce.
func TestStopOfAnUncertainRunIsStillCalledOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls []*http.Request
		s, o := bereft(t, &calls)
		run := o.left(t, "c1", false)
		time.Sleep(time.Minute)
		for range 2 {
			rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(run, "").With("Authorization", "Bearer mine")).Want(http.StatusOK).Body())
			if rec.State != "uncertain" || rec.Outcome() != "already_terminal" {
				t.Errorf("got %s, %s", rec.State, rec.Outcome())
			}
		}
		synctest.Wait()
		if len(calls) != 1 || calls[0].Header.Get("Authorization") != "Bearer mine" {
			t.Errorf("got calls %v, want one with the caller's credentials", calls)
		}
	})
}

var _ runregistry.Leaser = (*orphanage)(nil)
