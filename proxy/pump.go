package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Why the gateway itself ended an upstream call; the cause of a pump's
// context.
var (
	errStopped        = errors.New("run was stopped")
	errGraceOver      = errors.New("upstream stayed open after its end marker")
	errDeadline       = errors.New("run exceeded its deadline")
	errIdle           = errors.New("upstream was idle for too long")
	errHeaderTimeout  = errors.New("upstream did not answer in time")
	errFrameTooLong   = errors.New("frame exceeds the limit")
	errGatewayStopped = errors.New("gateway stops")
	errEncoding       = errors.New("upstream's content encoding is not supported")
	errLost           = errors.New("run is no longer ours to write")
)

// endGrace is how long frames after the end marker are waited for.
const endGrace = 2 * time.Second

// pump reads one upstream answer and writes one log. It never touches a
// client: not its writer, not its request, not its context.
type pump struct {
	engine  *Engine
	cfg     *Config
	log     *slog.Logger
	lease   runregistry.Lease
	request *http.Request // detached
	next    Next
	host    Host
	path    string           // as the start named it, for dialect detection
	told    *dialect.Dialect // what the request told about the dialect, or nil
	own     string           // the id that the client chose for its run, if it did
	keyed   bool             // the start carried an idempotency key
	lined   bool             // it waits in line and was not dispatched; mu guards it
	span    runSpan
	subject string // keyed hash, for the log
	// ground carries calls about the run; nil when there can be none.
	ground *ground

	ctx    context.Context //nolint:containedctx // the run's own life, not a call's
	cancel context.CancelCauseFunc
	// storeCtx has the values of ctx but does not end with it: what was read
	// before a Stop is still stored.
	storeCtx context.Context //nolint:containedctx // see ctx
	began    time.Time
	// readers changes whenever a reader comes or goes.
	readers atomic.Int64
	// clocked is set while a heartbeat's clock of on_disconnect runs.
	clocked atomic.Bool
	// deleteAfter asks for deletion once the run is settled.
	deleteAfter atomic.Bool
	// first are the header fields that only the first delivery gets.
	first atomic.Pointer[http.Header]
	// throttle holds a plain body back while the start's client lags.
	throttle *throttle
	// failure is what the next handler returned before it answered; the start's
	// own client may get it through error routes.
	failure atomic.Pointer[error]

	guard *time.Timer // settles a run whose next handler does not return

	// Upstream's side. reverse_proxy flushes from a goroutine of its own, and
	// timers look at it, hence the lock.
	mu       sync.Mutex
	header   http.Header
	status   int   // 0 until upstream answered
	length   int64 // what upstream said that the body has; 0 when it did not
	stream   bool
	busy     bool // 503 with Retry-After: upstream did no work
	kind     frame.Kind
	decoder  *decoder
	dialect  *dialect.Dialect
	detected bool // the dialect is fixed
	cutter   frame.Cutter
	sink     frame.Sink
	reader   dialect.Reader
	timer    *time.Timer
	facts    tally
	batch    batch
	last     runregistry.Seq
	window   window
	mirror   *runregistry.Record // the record as this process knows it; nil in a store of its own
	stuck    bool                // the batch waits for a lost store
	held     int                 // its bytes in Engine.unstored
	retry    *time.Timer
	bytes    int64
	lastByte time.Time
	lastSeen time.Time // last frame
	fold     *folding
	over     bool          // the run is settled or no longer ours
	settled  chan struct{} // made by the first settle, closed at its end
	bearings bearings
	halt     halting
	join     joining
	before   int // streams that earlier owners joined
	// inquiring: the stream is over and the backend is asked how it ended.
	inquiring bool
}

// tally is what the frames of a run told about it.
type tally struct {
	outcome dialect.Outcome
	reason  runregistry.Reason
	ending  bool // the end marker was seen
	waiting bool
	// asked: the outcome is what the backend said when it was asked about a stream
	// that broke.
	asked bool
}

// batch collects what one read from upstream brought.
type batch struct {
	buf      []byte
	frames   [][]byte
	progress runregistry.Progress
	changed  bool // progress holds something
	// sent is what the store is given; a new one for each frame would be the
	// only allocation on its way.
	sent runregistry.Batch
}

func (b *batch) reset() {
	if cap(b.buf) > maxBatchBuffer {
		b.buf = nil // a huge frame must not be paid for until the run ends
	}
	b.buf, b.frames, b.progress, b.changed = b.buf[:0], b.frames[:0], runregistry.Progress{}, false
}

// maxBatchBuffer is how much of a batch's memory is kept for the next one.
const maxBatchBuffer = 64 << 10

// run dispatches the request and settles the run, whatever happens.
func (p *pump) run() {
	defer p.cancel(nil)
	unguard := context.AfterFunc(p.ctx, p.startGuard)
	p.startWatchdog()
	end := p.begin()
	for found := true; found; {
		end, found = p.rejoin(end)
	}
	unguard()
	p.finish(end)
}

// begin reads the stream that a run begins with: the answer to its dispatch. A
// run that was taken over has lost it.
func (p *pump) begin() ending {
	if p.join.adopted {
		p.recall()
		return ending{aborted: true}
	}
	return p.dispatch()
}

// ending is how the next handler came back.
type ending struct {
	err error
	// aborted tells that it panicked with http.ErrAbortHandler: the body broke,
	// or we closed it.
	aborted bool
	// panicked holds any other panic.
	panicked any
}

// dispatch calls the next handler. Nothing that it does may kill the process:
// net/http's own recover does not cover this goroutine.
func (p *pump) dispatch() (end ending) {
	defer func() {
		v := recover()
		err, _ := v.(error)
		switch {
		case v == nil:
		case errors.Is(err, http.ErrAbortHandler):
			end.aborted = true
		default:
			end.panicked = v
			p.log.Error("handler panicked", slog.String("run_id", string(p.lease.Run)), slog.String("stack", string(debug.Stack())))
		}
	}()
	w := &upstreamWriter{pump: p}
	err := p.next(w, p.request)
	if err == nil && p.ctx.Err() == nil && !w.answered() {
		w.WriteHeader(http.StatusOK) // what net/http does for a handler that writes nothing
	}
	return ending{err: err}
}

// release tells the pump that the start's own client is served or gone.
func (p *pump) release() {
	if p != nil {
		p.throttle.release()
	}
}

// startGuard settles the run even if the next handler ignores that its context
// ended.
func (p *pump) startGuard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.guard = time.AfterFunc(p.patience(), func() { p.settle(ending{aborted: true}) })
	}
}

// finish cuts what is left and settles the run.
func (p *pump) finish(end ending) {
	clean := end.err == nil && !end.aborted && end.panicked == nil && p.ctx.Err() == nil
	if d := p.takeDecoder(); d != nil {
		clean = d.Close(clean) && clean
		end.aborted = end.aborted || !clean
	}
	p.mu.Lock()
	if p.cutter != nil && !p.over {
		if !p.stuck {
			p.batch.reset()
		}
		if err := p.cutter.End(p.sink, clean); err == nil {
			err = p.commit()
			end.err = errors.Join(end.err, err)
		}
	}
	p.mu.Unlock()
	p.inquire(end)
	p.streamEnded(end)
	p.settle(end)
}

func (p *pump) takeDecoder() *decoder {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.decoder
	p.decoder = nil
	return d
}

// settle ends the run in the store, once; whoever comes later waits for it.
func (p *pump) settle(end ending) {
	p.mu.Lock()
	settled, first := p.settled, p.settled == nil
	if first {
		settled = make(chan struct{})
		p.settled = settled
	}
	p.mu.Unlock()
	if !first {
		<-settled
		return
	}
	defer close(settled)
	s := p.conclude(end)
	if s.Reason == runregistry.ReasonGatewayStopped && p.handBack() {
		return
	}
	p.commitSettlement(&s)
}

// conclude decides how the run ended. From then on nothing is taken from
// upstream.
func (p *pump) conclude(end ending) runregistry.Settlement {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.stopTimers()
	p.keepFailure(end)
	s := p.verdict(end)
	p.tell()
	return s
}

func (p *pump) keepFailure(end ending) {
	if end.err != nil && p.status == 0 {
		p.failure.Store(&end.err)
	}
}

// commitSettlement stores the settlement. A settle is repeated until it is
// stored or somebody else settled. It waits without the lock, on which the
// heartbeat of all runs would wait too.
func (p *pump) commitSettlement(s *runregistry.Settlement) {
	if err := p.flush(p.engine.closing); err != nil {
		p.log.Warn("frames were not stored before the end of the run", logRun(p.lease.Run), logError(err))
	}
	if s.Reason != runregistry.ReasonLogLost {
		s.Last = p.stored()
	}
	for wait := settleRetry; p.engine.closing.Err() == nil; wait = min(2*wait, maxSettleRetry) {
		rec, err := p.settleOnce(s)
		switch {
		case err == nil, errors.Is(err, runregistry.ErrSettled) && rec != nil: // by an earlier try whose reply was lost
			p.bequeath(s, rec)
			p.ended(rec)
			return
		case !errors.Is(err, runregistry.ErrUnavailable):
			p.disowned() // taken over, or gone
			return
		}
		rest(p.engine.closing, wait)
	}
	p.disowned()
}

// stored is the number of the last frame that was stored.
func (p *pump) stored() runregistry.Seq {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// rest waits for a store that is away, until ctx ends; nobody may hold a pump's
// lock meanwhile.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// disowned ends what this process keeps about a run whose end is for somebody
// else to tell.
func (p *pump) disowned() {
	p.engine.metrics.active.Dec()
	p.span.End()
}

const (
	settleRetry    = 100 * time.Millisecond
	maxSettleRetry = 5 * time.Second
)

// ended tells metrics, trace and log about the settled run: one line per run.
func (p *pump) ended(rec *runregistry.Record) {
	p.engine.metrics.runEnded(rec)
	p.engine.retain(rec)
	p.span.end(rec)
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "run ended", runAttrs(rec, p.subject)...)
}

// upstreamWriter is the response writer that the next handler sees.
type upstreamWriter struct{ pump *pump }

// Header implements [http.ResponseWriter]. The map is the run's own.
func (w *upstreamWriter) Header() http.Header { return w.pump.header }

// WriteHeader implements [http.ResponseWriter]. Informational answers are for
// one connection and end here.
func (w *upstreamWriter) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		return
	}
	w.pump.answer(status)
}

// Write implements [http.ResponseWriter]. An error means that the upstream
// must be closed.
func (w *upstreamWriter) Write(b []byte) (int, error) {
	if !w.answered() {
		w.WriteHeader(http.StatusOK)
	}
	if err := w.pump.write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// FlushError makes flushing through [http.ResponseController] succeed:
// everything written is already on its way.
func (w *upstreamWriter) FlushError() error { return nil }

// Flush implements [http.Flusher] for handlers that ask for it.
func (w *upstreamWriter) Flush() {}

func (w *upstreamWriter) answered() bool {
	w.pump.mu.Lock()
	defer w.pump.mu.Unlock()
	return w.pump.status != 0
}

var (
	_ http.ResponseWriter = (*upstreamWriter)(nil)
	_ http.Flusher        = (*upstreamWriter)(nil)
)
