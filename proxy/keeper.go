package proxy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Sharing is how an engine shares its store with others.
type Sharing struct {
	// Lease is how long a run stays this process's after a heartbeat; it beats
	// every third of it.
	Lease time.Duration
	// Grace is how long a transparent reader waits for a lost store.
	Grace time.Duration
	// Memory bounds the frames that wait for a lost store, all runs together, in
	// bytes.
	Memory int64
}

// DefaultSharing returns the settings of a bare global option.
func DefaultSharing() Sharing {
	return Sharing{Lease: 15 * time.Second, Grace: 10 * time.Second, Memory: 256 << 20}
}

// keeper is the heartbeat of a process: it renews the leases of its runs,
// carries out Stops that came in elsewhere, and settles the runs of owners that
// died. It starts nothing that reads an upstream.
type keeper struct {
	engine *Engine
	store  runregistry.Leaser
	me     runregistry.InstanceID
	lease  time.Duration
	// healthy is since when the store has answered without an error: a reaper
	// that was cut off itself must give owners a whole lease to renew first.
	healthy time.Time
	// left are runs that were left to other instances, since when.
	left map[runregistry.RunID]time.Time
	// heard is when the last heartbeat was sent that was answered for all runs, as
	// nanoseconds since the epoch.
	heard atomic.Int64
	// relics are the runs that ended here lately.
	relics relics
	// tending is set while they are asked about.
	tending atomic.Bool

	stop context.CancelFunc
	done sync.WaitGroup
}

// Share starts the heartbeat of an engine whose store is shared; for a store of
// one process it does nothing. Close ends it. It must be called before the
// first run, and once.
func (e *Engine) Share(s Sharing) {
	e.sharing = s
	leaser, ok := e.store.(runregistry.Leaser)
	if !ok {
		return
	}
	me := runregistry.NewInstanceID()
	leaser.Hold(me, s.Lease)
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{left: make(map[runregistry.RunID]time.Time), engine: e, store: leaser, me: me, lease: s.Lease, stop: cancel}
	e.keeper = k
	k.done.Go(func() { k.beat(ctx) })
	k.done.Go(func() { k.obey(ctx) })
}

// Close ends the heartbeat and waits for it.
func (k *keeper) Close() {
	if k != nil {
		k.stop()
		k.done.Wait()
	}
}

// obey carries out Stops of other instances.
func (k *keeper) obey(ctx context.Context) {
	for id := range k.store.Orders(ctx) {
		k.engine.halt(id, nil)
	}
}

func (k *keeper) beat(ctx context.Context) {
	tick := time.NewTicker(k.lease / 3)
	defer tick.Stop()
	for {
		var soon <-chan time.Time
		if !k.renew(ctx) {
			soon = time.After(k.lease / 15) // the one before may be lost, too
		} else if !k.engine.isDraining() {
			k.reap(ctx)
		}
		select {
		case <-tick.C:
		case <-soon:
		case <-ctx.Done():
			return
		}
	}
}

// renew extends the leases of all runs of this process, sees to those that ended
// lately, and acts on what it learns. It reports whether the store answered.
func (k *keeper) renew(ctx context.Context) bool {
	asked := time.Now()
	pumps := k.engine.owned()
	leases := make([]runregistry.Lease, len(pumps))
	for i, p := range pumps {
		leases[i] = p.lease
	}
	renewals, err := k.ask(ctx, leases)
	if err != nil {
		k.healthy = time.Time{}
		k.engine.metrics.storeFailed("renew")
		return false
	}
	if k.healthy.IsZero() {
		k.healthy = asked
	}
	if slices.ContainsFunc(renewals, unanswered) {
		k.engine.metrics.storeFailed("renew")
	} else {
		k.heard.Store(asked.UnixNano())
	}
	k.tendRelics(ctx) // before the store is told again what it lost of live runs
	for i, r := range renewals {
		pumps[i].renewed(r)
	}
	return true
}

// ask extends leases, within a beat.
func (k *keeper) ask(ctx context.Context, leases []runregistry.Lease) ([]runregistry.Renewal, error) {
	call, cancel := context.WithTimeout(ctx, k.lease/3)
	defer cancel()
	return k.store.Renew(call, leases)
}

// unanswered tells that a part of the store is away.
func unanswered(r runregistry.Renewal) bool { return errors.Is(r.Err, runregistry.ErrUnavailable) }

// trusts reports whether a lease that was asked for at a moment can still be
// relied on to start something. Trust counts from before the call, and ends a
// tenth of the lease earlier than the store's: a process that was frozen in
// between must not dispatch what another one has already settled.
func (e *Engine) trusts(asked time.Time) bool {
	lease := e.sharing.Lease
	return e.keeper == nil || time.Since(asked) < lease-lease/10
}

// trusted reports whether the leases of this process can still be relied on to
// start something.
func (e *Engine) trusted() bool {
	return e.keeper == nil || e.trusts(time.Unix(0, e.keeper.heard.Load()))
}

// reapLimit bounds the runs that are taken over in one beat.
const reapLimit = 100

// reap settles the runs whose owners died. It asks for them although it may not
// take one over yet: who owns no run learns only here that the store is away.
func (k *keeper) reap(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, k.lease/3)
	defer cancel()
	ids, err := k.store.Expired(call, reapLimit)
	if err != nil {
		k.healthy = time.Time{}
		k.engine.metrics.storeFailed("expired")
		return
	}
	if time.Since(k.healthy) < k.lease {
		return
	}
	maps.DeleteFunc(k.left, func(id runregistry.RunID, _ time.Time) bool { return !slices.Contains(ids, id) })
	for _, id := range ids {
		if err := k.bury(ctx, id); err != nil && !settledElsewhere(err) {
			k.engine.log.Warn("run of a dead owner was not settled", logRun(id), logError(err))
		}
	}
}

func settledElsewhere(err error) bool {
	return errors.Is(err, runregistry.ErrLeaseLive) || errors.Is(err, runregistry.ErrSettled) ||
		errors.Is(err, runregistry.ErrNoRun) || errors.Is(err, runregistry.ErrFenced)
}

// bury takes one run over and settles it: what its owner did after the intent
// is unknown for ever, and before it nothing was done.
func (k *keeper) bury(ctx context.Context, id runregistry.RunID) error {
	if k.engine.local(id) != nil || k.relics.of(id) {
		return nil // ours: a heartbeat was late, the next one renews
	}
	if k.yields(ctx, id) {
		return nil
	}
	lease, rec, err := k.store.TakeOver(ctx, id)
	if err != nil {
		return err
	}
	if rec.State == runregistry.Cancelling {
		k.done.Go(func() { k.finishStop(ctx, lease, rec) }) // a heartbeat must not wait for an upstream
		return nil
	}
	if k.engine.adopt(lease, rec) {
		return nil
	}
	return k.settle(ctx, lease, rec, orphaned(rec))
}

// finishStop ends a run that was being stopped, within the lease that this
// process has just got.
func (k *keeper) finishStop(ctx context.Context, lease runregistry.Lease, rec *runregistry.Record) {
	s := k.engine.burial(ctx, rec, k.lease/2)
	if s == nil {
		s = orphaned(rec)
	}
	if err := k.settle(ctx, lease, rec, s); err != nil && !settledElsewhere(err) {
		k.engine.log.Warn("run of a dead owner was not settled", logRun(rec.ID), logError(err))
	}
}

// orphaned is how a run of a dead owner ends that nobody can go on with.
func orphaned(rec *runregistry.Record) *runregistry.Settlement {
	s := &runregistry.Settlement{State: runregistry.Uncertain, Reason: runregistry.ReasonOwnerLost, Upstream: runregistry.Unconfirmed}
	if rec.State == runregistry.Queued {
		s = &runregistry.Settlement{State: runregistry.Failed, Reason: runregistry.ReasonOwnerLost, NoEffect: true, ReleaseKey: true}
	}
	return s
}

// settle ends a run that was taken over.
func (k *keeper) settle(ctx context.Context, lease runregistry.Lease, rec *runregistry.Record, s *runregistry.Settlement) error {
	k.engine.foldSettlement(ctx, rec, s)
	settled, err := k.engine.store.Settle(ctx, lease, s)
	if err != nil {
		return err
	}
	k.engine.metrics.runReaped(settled)
	k.engine.retain(settled)
	k.engine.log.LogAttrs(ctx, slog.LevelWarn, "run of a dead owner settled", runAttrs(settled, "")...)
	return nil
}

// foldSettlement gives the settlement of a run that this process did not pump
// its snapshot.
func (e *Engine) foldSettlement(ctx context.Context, rec *runregistry.Record, s *runregistry.Settlement) {
	d, known := e.dialects.Lookup(rec.Dialect)
	if !known || rec.Response == nil || !rec.Response.Stream || rec.LastSeq == 0 {
		return
	}
	f := e.fold(ctx, d, rec)
	if f.holed && rec.Snapshot != nil {
		return // the checkpoint saw the frames that are gone
	}
	s.Progress = &runregistry.Progress{Snapshot: f.json(), SnapshotSeq: f.through}
}

// owned returns the pumps of this process.
func (e *Engine) owned() []*pump {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*pump, 0, len(e.runs))
	for _, p := range e.runs {
		all = append(all, p)
	}
	return all
}
