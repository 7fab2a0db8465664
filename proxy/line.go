package proxy

import (
	"errors"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// enqueue runs an enrolled pump when it is its turn in the line of its
// conversation. asked is when the run was asked for in the store. A client that
// leaves does not take its run out of the line.
func (e *Engine) enqueue(p *pump, asked time.Time) {
	p.lined = true
	e.metrics.runStarted()
	e.pump(p, func() {
		if p.awaitTurn(asked) {
			p.run()
		}
	})
}

// awaitTurn waits until the dispatch intent is stored, for queue's timeout at
// most. It reports false when the run ended instead, and has then told so.
func (p *pump) awaitTurn(asked time.Time) bool {
	defer p.step()
	engine := p.engine
	watch, err := engine.store.Watch(p.storeCtx, p.lease.Run, false)
	if err != nil {
		watch = runregistry.NewWatch(nil, nil) // a hint less: it is asked again
	}
	defer watch.Close()
	patience := time.NewTimer(p.cfg.QueueTimeout)
	defer patience.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		if engine.trusted() || engine.trusts(asked) {
			if over, turn := p.claimTurn(); over {
				return turn
			}
		}
		select {
		case <-watch.C:
		case <-poll.C:
		case <-patience.C:
			p.giveTurnUp(runregistry.ReasonQueueTimeout)
			return false
		case <-engine.draining:
			p.giveTurnUp(runregistry.ReasonGatewayStopped)
			return false
		case <-p.ctx.Done(): // stopped, which the store knows, or no longer ours
			p.giveTurnUp("")
			return false
		}
	}
}

// claimTurn tries to store the intent. It reports whether the waiting is over,
// and whether the run may be dispatched.
func (p *pump) claimTurn() (over, turn bool) {
	asked := time.Now()
	rec, err := p.engine.store.Intend(p.storeCtx, p.lease)
	_, twice := errors.AsType[*runregistry.TransitionError](err)
	switch {
	case errors.Is(err, runregistry.ErrInLine), errors.Is(err, runregistry.ErrUnavailable):
		return false, false
	case err == nil && p.engine.trusts(asked):
		p.began = time.Now()
		p.intended(rec)
		return true, true
	case err == nil:
		p.giveTurnUp(runregistry.ReasonOwnerLost)
	case twice: // the reply to the first was lost: whether it was in time is not known
		p.giveTurnUp(runregistry.ReasonStoreUnavailable)
	case rec != nil:
		p.ended(rec)
	default:
		p.disowned()
	}
	return true, false
}

// giveTurnUp ends a run that was not dispatched.
func (p *pump) giveTurnUp(why runregistry.Reason) {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.commitSettlement(undispatched(why))
}

// undispatched is how a run ends that was admitted but not dispatched.
func undispatched(why runregistry.Reason) *runregistry.Settlement {
	return &runregistry.Settlement{State: runregistry.Failed, Reason: why, NoEffect: true, ReleaseKey: true}
}

// step leaves the line: from now on a Stop is for upstream.
func (p *pump) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lined = false
}
