package proxy

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Engine owns the runs of this process: their pumps, and the store they write
// to. It outlives configurations: a reload changes how requests are served,
// never the runs that are under way.
type Engine struct {
	store   runregistry.Store
	log     *slog.Logger
	metrics *Metrics

	seats *seats
	// started are paths that have started a run in this process, for resume
	// paths that hang below them.
	started paths
	// dialects are those that runs of this process may speak.
	dialects dialect.Registry
	// logKey keys the pseudonyms of subjects in logs.
	logKey []byte

	// sharing is how the store is shared; keeper is nil for one process.
	sharing Sharing
	keeper  *keeper
	// unstored counts the bytes that wait for a lost store.
	unstored atomic.Int64
	// closing ends when the process no longer waits for the store.
	closing context.Context //nolint:containedctx // the engine's own life
	abandon context.CancelFunc

	routes routes

	pumps sync.WaitGroup
	// errands are calls that nobody waits for; Close ends them.
	errands sync.WaitGroup
	steers  steers
	// lastCalls are the runs of unknown outcome that were cancelled upstream.
	lastCalls paths

	mu       sync.Mutex // guards everything below
	runs     map[runregistry.RunID]*pump
	draining chan struct{} // closed by Drain
	drained  bool
	// retained is until when the store keeps runs that ended here.
	retained time.Time
}

// NewEngine returns an engine on a store. It starts nothing.
func NewEngine(store runregistry.Store, log *slog.Logger, m *Metrics) *Engine {
	closing, abandon := context.WithCancel(context.Background())
	return &Engine{
		sharing: DefaultSharing(), closing: closing, abandon: abandon,
		store: store, log: log, metrics: m, seats: newSeats(m), logKey: []byte(rand.Text()),
		runs:     make(map[runregistry.RunID]*pump),
		draining: make(chan struct{}),
	}
}

// Drain makes the engine refuse new runs and tell attached readers to come
// back, here or elsewhere. Runs go on. It may be called more than once.
func (e *Engine) Drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.drained {
		e.drained = true
		close(e.draining)
	}
}

func (e *Engine) isDraining() bool {
	select {
	case <-e.draining:
		return true
	default:
		return false
	}
}

// Active returns the number of runs that this process owns.
func (e *Engine) Active() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.runs)
}

// Retained reports whether the store still keeps runs that ended in this
// process.
func (e *Engine) Retained() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.retained)
}

// retain notes until when a run is kept that has ended.
func (e *Engine) retain(rec *runregistry.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rec.ExpiresAt.After(e.retained) {
		e.retained = rec.ExpiresAt
	}
}

// Close drains, waits until ctx ends for the runs of this process, and stops
// the rest. A handler that does not care that its context ended is not waited
// for: its run is settled without it.
func (e *Engine) Close(ctx context.Context) error {
	e.Drain()
	defer e.keeper.Close()
	defer e.errands.Wait()
	defer e.abandon()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		e.pumps.Wait()
	}()
	select {
	case <-finished:
		return context.Cause(ctx)
	case <-ctx.Done():
	}
	e.interruptAll(errGatewayStopped)
	time.AfterFunc(abandonAfter, e.abandon)
	select {
	case <-finished:
	case <-time.After(leaveAfter):
		e.settleAll()
	}
	return context.Cause(ctx)
}

// leaveAfter is how long a process that stops waits for handlers to return
// after their context ended.
const leaveAfter = time.Second

// abandonAfter is how long a process that stops waits for a lost store to take
// the end of its runs; after that their leases run out.
const abandonAfter = 2 * time.Second

func (e *Engine) interruptAll(cause error) {
	for _, p := range e.owned() {
		p.cancel(cause)
	}
}

// settleAll settles what is left, all at once, and returns when that is done or
// the store is no longer waited for.
func (e *Engine) settleAll() {
	var all sync.WaitGroup
	for _, p := range e.owned() {
		all.Go(func() { p.settle(ending{aborted: true}) })
	}
	all.Wait()
}

// enrol makes a run known that is about to be dispatched, so that a Stop finds
// it from its intent on. It returns false when the engine takes no more runs.
// Every pump that was enrolled must be launched or dismissed.
func (e *Engine) enrol(p *pump) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.drained {
		return false
	}
	e.runs[p.lease.Run] = p
	e.pumps.Add(1)
	return true
}

// launch runs an enrolled pump until its run is settled.
func (e *Engine) launch(p *pump) {
	e.metrics.runStarted()
	e.pump(p, p.run)
}

// pump lets a pump loose that is enrolled and counted in the metrics.
func (e *Engine) pump(p *pump, run func()) {
	go func() {
		defer e.pumps.Done()
		run()
		e.concluded(p)
	}()
}

// concluded forgets a pump whose run has ended.
func (e *Engine) concluded(p *pump) {
	p.cancel(nil)
	e.forget(p)
	if p.deleteAfter.Load() { // asked for before it was forgotten; later ones delete themselves
		e.remove(p.storeCtx, p.lease.Run)
	}
}

// dismiss forgets an enrolled pump that will not run.
func (e *Engine) dismiss(p *pump) {
	p.cancel(errLost)
	p.span.End()
	e.forget(p)
	e.pumps.Done()
}

func (e *Engine) forget(p *pump) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, p.lease.Run)
}

// local returns the pump of a run that this process owns, or nil.
func (e *Engine) local(id runregistry.RunID) *pump {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id]
}

// stop is the Stop command: it is stored first and then carried out.
func (e *Engine) stop(ctx context.Context, id runregistry.RunID, by lender) (*runregistry.Record, error) {
	rec, err := e.store.Stop(ctx, id, "")
	if err != nil {
		return nil, err
	}
	e.halt(id, by)
	return rec, nil
}

// halt carries a stored Stop out if this process owns the run.
func (e *Engine) halt(id runregistry.RunID, by lender) {
	if p := e.local(id); p != nil {
		p.stop(by)
	}
}

// later does something that nobody waits for, within a time and while the
// process goes on.
func (e *Engine) later(limit time.Duration, do func(ctx context.Context)) {
	e.errands.Go(func() {
		ctx, cancel := context.WithTimeout(e.closing, limit)
		defer cancel()
		do(ctx)
	})
}

// settled waits until a run has ended or ctx has, and returns its record.
func (e *Engine) settled(ctx context.Context, id runregistry.RunID) (*runregistry.Record, error) {
	look := context.WithoutCancel(ctx) // the last look comes after the wait
	watch, err := e.store.Watch(look, id, false)
	if err != nil {
		return nil, err
	}
	defer watch.Close()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		rec, err := e.store.Load(look, id)
		if err != nil || rec.State.Terminal() {
			return rec, err
		}
		select {
		case <-watch.C:
		case <-poll.C:
		case <-ctx.Done():
			return rec, nil
		}
	}
}

// pollInterval is how often a watcher looks again although nothing woke it:
// hints may be lost.
const pollInterval = 2 * time.Second

// readerLeft starts the clock of on_disconnect cancel. It is called when a
// reader of a run that this process owns went away.
func (e *Engine) readerLeft(id runregistry.RunID) {
	if p := e.local(id); p != nil && p.cfg.DisconnectCancel {
		left := p.readers.Add(1)
		time.AfterFunc(p.cfg.DisconnectAfter, func() { e.abandoned(p, left) })
	}
}

// deserted starts that clock, if it does not run, for a run that nobody reads
// on any gateway: whoever left last may have been elsewhere.
func (e *Engine) deserted(p *pump) {
	if p.cfg.DisconnectCancel && p.clocked.CompareAndSwap(false, true) {
		left := p.readers.Load()
		time.AfterFunc(p.cfg.DisconnectAfter, func() {
			defer p.clocked.Store(false)
			e.abandoned(p, left)
		})
	}
}

// abandoned stops a run if still nobody reads it.
func (e *Engine) abandoned(p *pump, left int64) {
	if p.readers.Load() != left || p.ctx.Err() != nil {
		return // somebody came back, or it is over
	}
	id := p.lease.Run
	if n, err := e.store.Readers(p.ctx, id); err != nil || n > 0 {
		return
	}
	if _, err := e.stop(p.ctx, id, nil); err != nil {
		e.log.Warn("stopping an abandoned run failed", logRun(id), logError(err))
	}
}

// readerCame stops the clock of on_disconnect cancel.
func (e *Engine) readerCame(id runregistry.RunID) {
	if p := e.local(id); p != nil {
		p.readers.Add(1)
	}
}
