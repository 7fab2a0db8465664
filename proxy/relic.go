package proxy

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A failover may lose the end of a run that readers have seen. Then the store
// holds a run that nobody goes on with, and a reaper would give it another end.
// So its owner keeps for a while what it takes to settle it again, and asks with
// its heartbeats whether it must.

// relicBytes bounds what a process keeps of runs that have ended; the oldest
// give way.
const relicBytes = 16 << 20

// relicOverhead is about what a relic takes beside frames and snapshot.
const relicOverhead = 4 << 10

// relic is what is left of a run that has ended.
type relic struct {
	run        *pump // as much of it as settleOnce needs
	settlement runregistry.Settlement
	bytes      int
	until      time.Time
	busy       atomic.Bool // it is being settled again
}

// relics are kept in the order in which their runs ended.
type relics struct {
	mu    sync.Mutex
	kept  []*relic
	bytes int
}

// add keeps one more.
func (r *relics) add(one *relic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, one)
	r.bytes += one.bytes
	for r.bytes > relicBytes {
		r.bytes -= r.kept[0].bytes
		r.kept = slices.Delete(r.kept, 0, 1)
	}
}

// all returns what is kept.
func (r *relics) all() []*relic {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kept)
}

// drop forgets one.
func (r *relics) drop(one *relic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.kept, one); i >= 0 {
		r.bytes -= one.bytes
		r.kept = slices.Delete(r.kept, i, i+1)
	}
}

// bequeath keeps what it takes to settle the run again. What its store keeps
// only for moments, or what was never dispatched, is not worth it.
func (p *pump) bequeath(s *runregistry.Settlement, rec *runregistry.Record) {
	k := p.engine.keeper
	if k == nil || time.Until(rec.ExpiresAt) < 2*k.lease {
		return
	}
	left := p.remains()
	if left == nil {
		return
	}
	one := &relic{run: left, settlement: *s, bytes: left.window.bytes + relicOverhead, until: time.Now().Add(k.lease)}
	if s.Progress != nil {
		one.bytes += len(s.Progress.Snapshot)
	}
	k.relics.add(one)
}

// remains returns the part of a pump that can store its run again, or nil if
// that was never possible.
func (p *pump) remains() *pump {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mirror == nil {
		return nil
	}
	mirror := *p.mirror
	return &pump{
		engine: p.engine, log: p.log, lease: p.lease, storeCtx: p.storeCtx, cancel: func(error) {}, over: true,
		window: p.window, mirror: &mirror, last: p.last, join: joining{stored: p.join.stored},
	}
}

// tend acts on what a heartbeat told about a run that has ended. A store that
// extends its lease has lost the end, and one that does not know it all of it.
func (k *keeper) tend(one *relic, r runregistry.Renewal) {
	switch {
	case errors.Is(r.Err, runregistry.ErrUnavailable): // it says nothing about this run
	case errors.Is(r.Err, runregistry.ErrSettled):
		if time.Now().After(one.until) {
			k.relics.drop(one)
		}
	case r.Err == nil, errors.Is(r.Err, runregistry.ErrNoRun):
		if one.busy.CompareAndSwap(false, true) {
			k.done.Go(func() { k.settleAgain(one) }) // a heartbeat must not wait for one run
		}
	default: // somebody else has taken it over
		k.relics.drop(one)
	}
}

// settleAgain stores a run again as it ended. It tries once: the next heartbeat
// tells whether it was enough.
func (k *keeper) settleAgain(one *relic) {
	defer one.busy.Store(false)
	_, err := one.run.settleOnce(&one.settlement)
	switch {
	case err == nil:
		one.run.log.Warn("end of a run was lost and is stored again", logRun(one.run.lease.Run))
	case errors.Is(err, runregistry.ErrUnavailable), errors.Is(err, runregistry.ErrSettled):
	default:
		k.relics.drop(one)
		one.run.log.Info("end of a run was lost", logRun(one.run.lease.Run), logError(err))
	}
}
