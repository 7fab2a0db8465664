package proxy

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// checkpointInterval is how often the snapshot of a long run is folded and
// stored.
const checkpointInterval = 30 * time.Second

// One timer per run watches every limit. It is re-armed when it fires, never
// per frame.

// startWatchdog arms the timer for the first time.
func (p *pump) startWatchdog() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.timer = time.AfterFunc(p.nextLimit(time.Now()), p.bark)
}

// armWatchdog lets the timer look again after something changed the limits
// that apply; p.mu must be held.
func (p *pump) armWatchdog() {
	if p.timer != nil && !p.over {
		p.timer.Reset(p.nextLimit(time.Now()))
	}
}

func (p *pump) stopTimers() {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.guard != nil {
		p.guard.Stop()
	}
	if p.retry != nil {
		p.retry.Stop()
	}
}

// limit is a moment at which a run is ended, and why.
type limit struct {
	at    time.Time
	cause error
}

// limits returns the limits in force; p.mu must be held.
func (p *pump) limits() []limit {
	all := []limit{{p.began.Add(p.cfg.Deadline), errDeadline}}
	switch {
	case p.status == 0:
		all = append(all, limit{p.began.Add(p.cfg.HeaderTimeout), errHeaderTimeout})
	case p.facts.ending:
		all = append(all, limit{p.lastSeen.Add(endGrace), errGraceOver})
	case !p.facts.waiting && !p.inquiring:
		all = append(all, limit{p.lastByte.Add(p.cfg.StreamIdle), errIdle})
		if p.stream {
			all = append(all, limit{p.lastSeen.Add(p.cfg.FrameIdle), errIdle})
		}
	}
	return all
}

// nextLimit is the time until the nearest limit or checkpoint.
func (p *pump) nextLimit(now time.Time) time.Duration {
	next := checkpointInterval
	for _, l := range p.limits() {
		next = min(next, l.at.Sub(now))
	}
	return max(next, 0)
}

// bark looks whether a limit has passed.
func (p *pump) bark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.ctx.Err() != nil {
		return
	}
	now := time.Now()
	for _, l := range p.limits() {
		if !l.at.After(now) {
			p.cancel(l.cause)
			return
		}
	}
	if !p.stuck {
		p.checkpoint()
	}
	p.timer.Reset(p.nextLimit(now))
}

// checkpoint folds what came since the last one into the stored snapshot.
func (p *pump) checkpoint() {
	if !p.stream || p.fold == nil || p.fold.through == p.last {
		return
	}
	if err := p.fold.catchUp(p.storeCtx, p.engine.store, p.lease.Run, p.last); err != nil {
		p.log.Info("snapshot checkpoint waits", logRun(p.lease.Run), logError(err))
		return
	}
	b := runregistry.Batch{After: p.last, Progress: &runregistry.Progress{
		Snapshot: p.fold.json(), SnapshotSeq: p.fold.through,
	}}
	if _, err := p.engine.store.Append(p.storeCtx, p.lease, &b); err != nil {
		p.log.Info("snapshot checkpoint was not stored", logRun(p.lease.Run), logError(err))
	} else if p.mirror != nil {
		p.mirror.Advance(b.Progress)
	}
}
