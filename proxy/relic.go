package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A failover may lose the end of a run that readers have seen. Then the store
// holds a run that nobody goes on with, and a reaper would give it another end.
// So its owner keeps for a while what it takes to store that end again, and asks
// with its heartbeats whether it must.

// relicBytes bounds what a process keeps of runs that have ended; the oldest
// give way.
const relicBytes = 16 << 20

// relicTime is how long an end is kept at least, and for a lease: longer than a
// replica may be behind, and a failover take that shows the newest of it.
const relicTime = time.Minute

const (
	// relicOverhead is about what a relic takes beside what grows with the run.
	relicOverhead = 4 << 10
	// frameOverhead is what a frame takes beside its data.
	frameOverhead = 40
)

// relic is what is left of a run that has ended.
type relic struct {
	lease      runregistry.Lease
	record     *runregistry.Record // as it ended
	settlement runregistry.Settlement
	window     window
	bytes      int
	until      time.Time
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

// drop forgets those for which it is time.
func (r *relics) drop(over func(*relic) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.DeleteFunc(r.kept, func(one *relic) bool {
		gone := over(one)
		if gone {
			r.bytes -= one.bytes
		}
		return gone
	})
}

// has reports whether one is still kept.
func (r *relics) has(one *relic) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.kept, one)
}

// of reports whether something of a run is kept.
func (r *relics) of(id runregistry.RunID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.kept, func(one *relic) bool { return one.lease.Run == id })
}

// bequeath keeps what it takes to store the end of the run again. What its store
// keeps only for moments, or what was never dispatched, is not worth it.
func (p *pump) bequeath(s *runregistry.Settlement, rec *runregistry.Record) {
	k := p.engine.keeper
	if k == nil || rec.ExpiresAt.Sub(rec.EndedAt) < 2*k.lease {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mirror != nil {
		k.relics.add(newRelic(p.lease, s, rec, &p.window, time.Now().Add(max(k.lease, relicTime))))
	}
}

func newRelic(l runregistry.Lease, s *runregistry.Settlement, rec *runregistry.Record, w *window, until time.Time) *relic {
	one := &relic{lease: l, record: rec, settlement: *s, window: window{last: rec.LastSeq}, until: until}
	one.settlement.State, one.settlement.Reason, one.settlement.Told = rec.State, rec.Reason, &rec.Cancel
	one.settlement.Progress, one.settlement.Last = rec.Told(), rec.LastSeq
	if w.last == rec.LastSeq { // else it ended without some of its frames
		one.window = *w
		one.window.frames = slices.Clone(w.frames) // the rest of their array is not kept
	}
	one.bytes = relicOverhead + one.window.bytes + frameOverhead*len(one.window.frames) + len(rec.Snapshot) + len(rec.Origin)
	return one
}

// pump is as much of the run's pump as settleOnce needs.
func (one *relic) pump(ctx context.Context, e *Engine) *pump {
	mirror := *one.record // which two may store again at once
	return &pump{
		engine: e, log: e.log, lease: one.lease, storeCtx: ctx, cancel: func(error) {}, over: true,
		window: one.window, mirror: &mirror, last: mirror.LastSeq,
	}
}

// tendRelics asks about the runs that ended here lately, and stores those ends
// again that were lost. Many runs may have ended, and the store may have lost
// them all: the heartbeat of those that go on must not wait for them.
func (k *keeper) tendRelics(ctx context.Context) {
	kept := k.relics.all()
	if len(kept) == 0 || !k.tending.CompareAndSwap(false, true) {
		return
	}
	k.done.Go(func() {
		defer k.tending.Store(false)
		k.tend(ctx, kept)
	})
}

func (k *keeper) tend(ctx context.Context, kept []*relic) {
	leases := make([]runregistry.Lease, len(kept))
	for i, one := range kept {
		leases[i] = one.lease
	}
	renewals, err := k.ask(ctx, leases)
	if err != nil {
		return // the next beat asks again
	}
	over := make(map[*relic]bool)
	for i, one := range kept {
		over[one] = ctx.Err() == nil && k.outlived(ctx, one, renewals[i])
	}
	k.relics.drop(func(one *relic) bool { return over[one] })
}

// outlived acts on what was told about a run that has ended, and reports whether
// it need not be kept any longer. A store that extends its lease has lost the
// end, and one that does not know it all of it.
func (k *keeper) outlived(ctx context.Context, one *relic, r runregistry.Renewal) bool {
	switch {
	case errors.Is(r.Err, runregistry.ErrUnavailable): // it says nothing about this run
		return false
	case errors.Is(r.Err, runregistry.ErrSettled):
		return time.Now().After(one.until)
	case r.Err == nil, errors.Is(r.Err, runregistry.ErrNoRun):
		return !k.settleAgain(ctx, one)
	default:
		return true // somebody else has taken it over
	}
}

// settleAgain stores a run again as it ended, and reports whether that is worth
// a look later on. It tries once: the next heartbeat tells whether it was enough.
func (k *keeper) settleAgain(ctx context.Context, one *relic) bool {
	if !k.relics.has(one) {
		return false // it was deleted here since
	}
	s := one.settlement
	_, err := one.pump(ctx, k.engine).settleOnce(&s)
	switch {
	case err == nil, errors.Is(err, runregistry.ErrSettled): // the latter by Restore
		k.engine.log.Warn("end of a run was lost and is stored again", logRun(one.lease.Run))
		return true
	case errors.Is(err, runregistry.ErrUnavailable):
		return true
	case !errors.Is(err, runregistry.ErrTaken) && !errors.Is(err, runregistry.ErrNoRun): // else it was deleted, or its time is over
		k.engine.log.Warn("end of a run was lost", logRun(one.lease.Run), logError(err))
	}
	return false
}

// makeWay looks whether the store believes that a run which ended here still
// holds what an active one, which it has lost, is to get back.
func (k *keeper) makeWay(ctx context.Context, active *runregistry.Record) {
	if k == nil {
		return
	}
	before := slices.DeleteFunc(k.relics.all(), func(one *relic) bool { return !one.precedes(active) })
	if len(before) > 0 {
		k.tend(ctx, before)
	}
}

// precedes reports whether an active run can have claims that were the relic's.
func (one *relic) precedes(active *runregistry.Record) bool {
	ended := one.record
	sameTalk := ended.Conversation != "" && active.InConversation(ended.Conversation)
	sameRequest := !ended.Fingerprint.IsZero() && ended.Fingerprint == active.Fingerprint
	return ended.Scope == active.Scope && (sameTalk || sameRequest)
}

// forgetRelic forgets a run that ended here and was deleted.
func (k *keeper) forgetRelic(id runregistry.RunID) {
	if k != nil {
		k.relics.drop(func(one *relic) bool { return one.lease.Run == id })
	}
}
