package proxy

import (
	"errors"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A store that fails over, or comes back empty, may lose what it acknowledged:
// the intent, changes of the record, the newest frames, or all of a run. While
// its owner lives it stores again what it knows of the run.

// mendings bounds how often one call is made again because the store had lost
// something: first the run or its intent, then its frames.
const mendings = 3

// intended keeps the record of a run whose intent is stored, where the store
// may lose it.
func (p *pump) intended(rec *runregistry.Record) {
	if p.engine.keeper == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mirror = rec
}

// mend stores again what a refusal of the store shows to be lost, so that the
// call may be repeated. Otherwise it returns why not; p.mu must be held.
func (p *pump) mend(refusal error) error {
	gap, short := errors.AsType[*runregistry.GapError](refusal)
	move, forbidden := errors.AsType[*runregistry.TransitionError](refusal)
	switch {
	case p.mirror == nil: // the store is this process's own, or nothing was dispatched
		return refusal
	case short:
		return p.refill(gap.Last)
	case forbidden && move.From == runregistry.Queued:
		_, err := p.engine.store.Intend(p.storeCtx, p.lease)
		return err
	case errors.Is(refusal, runregistry.ErrNoRun):
		return p.restore()
	default:
		return refusal
	}
}

// appendMended repeats an append that was refused, as long as what it needs can
// be mended; p.mu must be held.
func (p *pump) appendMended(b *runregistry.Batch, refusal error) (done runregistry.Appended, err error) {
	for range mendings {
		if err = p.mend(refusal); err != nil {
			return done, err
		}
		if done, refusal = p.engine.store.Append(p.storeCtx, p.lease, b); refusal == nil {
			return done, nil
		}
	}
	return done, refusal
}

// settleOnce folds the run and settles it. What turns out to be lost is stored again
// before; if it cannot be, the end says so.
func (p *pump) settleOnce(s *runregistry.Settlement) (rec *runregistry.Record, err error) {
	for range mendings {
		if rec, err = p.foldAndSettle(s); err == nil {
			return rec, nil
		}
		p.mu.Lock()
		unmended := p.mend(err)
		p.mu.Unlock()
		switch {
		case errors.Is(unmended, errLogLost):
			s.State, s.Reason, s.Last = runregistry.Uncertain, runregistry.ReasonLogLost, 0
		case unmended != nil:
			return rec, unmended
		}
	}
	return rec, err
}

func (p *pump) foldAndSettle(s *runregistry.Settlement) (*runregistry.Record, error) {
	if err := p.foldInto(s); err != nil {
		return nil, err
	}
	return p.engine.store.Settle(p.storeCtx, p.lease, s)
}

// refill stores the lost tail again, and what else the record has lost with it;
// p.mu must be held.
func (p *pump) refill(from runregistry.Seq) error {
	lost, ok := p.window.after(from)
	if !ok {
		p.cancel(errLogLost)
		return errLogLost
	}
	p.engine.metrics.tailRepaired()
	return p.tellAgain(&runregistry.Batch{After: from, Frames: lost, Position: p.join.stored})
}

// compare looks whether the store knows of fewer changes than it acknowledged,
// and if so tells it again what the owner told. It may be wrong about that: a
// record that has lost nothing is not changed. p.mu must be held.
func (p *pump) compare(revision uint64) {
	if p.mirror == nil || p.halt.begun || revision >= p.mirror.Revision {
		return
	}
	if err := p.tellAgain(&runregistry.Batch{After: p.last}); err != nil { // the next answer shows it again
		p.log.Info("run was not told again to a store that lost changes of it", logRun(p.lease.Run), logError(err))
	}
}

// tellAgain stores a batch with all that the owner has told of the run; p.mu
// must be held.
func (p *pump) tellAgain(b *runregistry.Batch) error {
	b.Progress, b.Again = p.mirror.Told(), true
	done, err := p.engine.store.Append(p.storeCtx, p.lease, b)
	if err != nil {
		return err
	}
	p.mirror.Revision = done.Revision
	if len(p.mirror.Aliases) > 0 {
		p.bindTo(p.mirror.Conversation)
	}
	return nil
}

// restore writes the run into a store that came back without it.
func (p *pump) restore() error {
	leaser, ok := p.engine.store.(runregistry.Leaser)
	if !ok || p.mirror == nil { // what was not dispatched may start again
		return runregistry.ErrNoRun
	}
	if p.mirror.State.Active() {
		p.engine.keeper.makeWay(p.storeCtx, p.mirror)
	}
	rec := *p.mirror
	b := p.window.all()
	err := leaser.Restore(p.storeCtx, p.lease, &rec, &b)
	if err == nil {
		p.engine.metrics.runRestored()
		p.last = p.window.last
	}
	return err
}

// restored puts the run back into an empty store. It reports whether that may
// still succeed: an answer that was lost ends no run.
func (p *pump) restored() bool {
	err := p.restore()
	return err == nil || errors.Is(err, runregistry.ErrUnavailable)
}

// renewed acts on what a heartbeat told about this run. It must not wait for
// the run: the heartbeat is that of all runs, and one whose store is away would
// cost the others their leases.
func (p *pump) renewed(r runregistry.Renewal) {
	switch {
	case errors.Is(r.Err, runregistry.ErrNoRun):
		p.lost()
	case errors.Is(r.Err, runregistry.ErrUnavailable): // it says nothing about this run
	case r.Err != nil:
		p.cancel(errLost)
	case r.Stopping:
		p.stop(nil)
	default:
		p.repair(r.Last, r.Revision)
		if r.Readers == 0 {
			p.engine.deserted(p)
		}
	}
}

// lost puts the run back into an empty store, or gives it up. A pump that is
// at the store itself finds out there, or at the next heartbeat.
func (p *pump) lost() {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if p.over {
		return
	}
	if !p.restored() {
		p.over = true
		p.cancel(errLost)
	}
}

// repair stores again what a failover lost although nothing new came from
// upstream since. A pump that is at the store itself finds out there.
func (p *pump) repair(stored runregistry.Seq, revision uint64) {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	switch {
	case p.over || p.stuck:
	case stored >= p.last:
		p.compare(revision)
	default:
		if err := p.refill(stored); err != nil {
			p.log.Warn("lost tail was not repaired", logRun(p.lease.Run), logError(err))
		}
	}
}
