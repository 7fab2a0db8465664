package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// halting is how far a stored Stop of a run got.
type halting struct {
	// begun: the Stop is stored, so that no frame is any more.
	begun bool
	// stream ends with upstream's answer; nil unless a cancel call is made.
	stream    context.Context //nolint:containedctx // the life of a connection
	endStream context.CancelFunc
	deadline  time.Time
	// news tells that an id was learned for which the call waits.
	news chan struct{}
	// answered is closed when the call is answered or will not be; nil unless one
	// is made.
	answered chan struct{}
	call     sync.WaitGroup // and the wait for what comes of it
	reply    *reply
	// said is what upstream made of the call.
	said runregistry.Confirmation
	// late folds what came after the Stop on top of what is stored, which has so
	// many receipts; receipt tells that a further one came.
	late     *folding
	receipts int
	receipt  bool
	// streamOver: upstream's answer has ended; whole: by itself and properly.
	streamOver, whole bool
}

// lender makes the ground of a call from the request at hand, whose own
// handler must not have returned. Nil lends nothing.
type lender func(base *ground) *ground

// answerGrace is how long the answer to a cancel call is waited for when the
// stream that it was about has ended.
const answerGrace = time.Second

// stop carries a stored Stop out.
func (p *pump) stop(by lender) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.haltLocked(by)
}

// haltLocked is stop for those who hold p.mu: upstream is told by its cancel
// call, where there is one, and closed where there is none. It happens once.
func (p *pump) haltLocked(by lender) {
	if p.lined {
		p.cancel(errStopped) // there is nothing upstream
	}
	if p.halt.begun || p.over || p.lined {
		return
	}
	p.halt.begun = true
	g := p.ground
	if g != nil && by != nil {
		g = by(g)
	}
	_, err := p.cancelCall(g)
	if g == nil || p.halt.streamOver || errors.Is(err, errNoWay) {
		p.cancel(errStopped)
		return
	}
	p.halt.deadline = time.Now().Add(p.cfg.CancelDeadline)
	p.halt.follow(p.ctx)
	p.halt.news, p.halt.answered = make(chan struct{}, 1), make(chan struct{})
	p.halt.call.Go(func() { p.carryOut(g) })
}

// follow gives the stream of a run a context of its own.
func (h *halting) follow(run context.Context) { h.stream, h.endStream = context.WithCancel(run) }

// learned wakes a call that waits for an id.
func (h *halting) learned() {
	select {
	case h.news <- struct{}{}:
	default: // nobody waits, or somebody was woken already
	}
}

// streamEnded notes how upstream's answer ended and waits for a cancel call
// that is under way.
func (p *pump) streamEnded(end ending) {
	p.mu.Lock()
	p.halt.streamOver = true
	p.halt.whole = end.err == nil && !end.aborted && end.panicked == nil && p.ctx.Err() == nil
	if p.halt.answered != nil {
		p.halt.endStream()
	}
	p.mu.Unlock()
	p.halt.call.Wait() // none begins any more
}

// carryOut makes the cancel call and waits until the stream ends. Whatever
// comes of it, upstream is closed at the deadline at the latest.
func (p *pump) carryOut(g *ground) {
	ctx, cancel := context.WithDeadlineCause(p.ctx, p.halt.deadline, errStopped)
	defer cancel()
	defer context.AfterFunc(p.halt.stream, func() { time.AfterFunc(answerGrace, cancel) })()
	e, err := p.awaitErrand(ctx, g)
	var answer *reply
	if err == nil {
		answer, err = g.persist(ctx, e)
		p.heard(e, answer, err)
	}
	close(p.halt.answered)
	if answer != nil && e.took(answer) && (e.own == nil || !e.own.Silent) {
		awaitEither(p.halt.stream, ctx)
	}
	if p.halt.stream.Err() == nil {
		p.cancel(errStopped)
	}
}

func awaitEither(a, b context.Context) {
	select {
	case <-a.Done():
	case <-b.Done():
	}
}

// cancelCall is the cancel call of the run; p.mu must be held. A client's own
// stands in for one that lacks something which no start of ours has said.
func (p *pump) cancelCall(g *ground) (*errand, error) {
	e, err := p.bearings.cancel(&p.cfg.Cancel)
	if errors.Is(err, errNoWay) && g != nil && g.asked != nil && !p.cfg.Cancel.Off {
		return g.asked, nil
	}
	return e, err
}

// awaitErrand waits until everything that the cancel call names is known and
// the run is surely still ours.
func (p *pump) awaitErrand(ctx context.Context, g *ground) (*errand, error) {
	for {
		p.mu.Lock()
		e, err := p.cancelCall(g)
		p.mu.Unlock()
		if !errors.Is(err, errUnknownVariable) && (err != nil || p.engine.trusted()) {
			return e, err
		}
		again := time.NewTimer(callRetry)
		select {
		case <-p.halt.news:
		case <-again.C:
		case <-p.halt.stream.Done():
			again.Stop()
			return nil, errNoWay // it never became known
		case <-ctx.Done():
			again.Stop()
			return nil, context.Cause(ctx)
		}
		again.Stop()
	}
}

// heard notes what upstream made of the call. That it took the call is no
// proof: the end of the stream is, or its own word that the run is cancelled.
func (p *pump) heard(e *errand, answer *reply, err error) {
	if errors.Is(err, context.Canceled) {
		return // the stream ended first
	}
	said := confirmationOf(e, answer, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.halt.said, p.halt.reply = said, answer
	if said == runregistry.ConfirmFailed || said == runregistry.CancelUnsupported {
		p.log.Warn("upstream did not take the cancel call", logRun(p.lease.Run), slog.Int("status", answer.code()), logError(err))
	}
}

func (r *reply) code() int {
	if r == nil {
		return 0
	}
	return r.status
}

// unsupportedStatus are answers by which a backend says that it has no such
// call.
var unsupportedStatus = []int{http.StatusMethodNotAllowed, http.StatusNotImplemented}

func confirmationOf(e *errand, answer *reply, err error) runregistry.Confirmation {
	switch {
	case errors.Is(err, errNoAnswer):
		return runregistry.Unconfirmed
	case answer.accepted() && !e.took(answer):
		return runregistry.ConfirmFailed
	case answer.accepted() && e.own != nil && e.own.Standing(answer.body) == dialect.StandingCancelled:
		return runregistry.Confirmed
	case answer.accepted():
		return runregistry.Unconfirmed
	case slices.Contains(unsupportedStatus, answer.code()):
		return runregistry.CancelUnsupported
	default:
		return runregistry.ConfirmFailed
	}
}

// confirmation is what the settlement says about how upstream took a Stop; p.mu
// must be held.
func (p *pump) confirmation() runregistry.Confirmation {
	switch {
	case p.halt.begun && p.halt.whole, p.facts.outcome == dialect.OutcomeCancelled:
		return runregistry.Confirmed
	case p.halt.said != "":
		return p.halt.said
	default:
		return runregistry.Unconfirmed
	}
}

// patience is how long a next handler may take to return once it was told to;
// p.mu must be held. A Stop by call has used its time up.
func (p *pump) patience() time.Duration {
	if p.halt.answered == nil {
		return p.cfg.CancelDeadline
	}
	return max(time.Until(p.halt.deadline), endGrace)
}

// givenUp are the causes for which the gateway hangs up on a run that goes on
// upstream as far as it knows.
var givenUp = []error{errDeadline, errIdle, errFrameTooLong, errStoreDown, errHeaderTimeout}

// tell sends the cancel call for a run that the gateway gave up, and does not
// wait for it; p.mu must be held.
func (p *pump) tell() {
	cause := context.Cause(p.ctx)
	if p.ground == nil || p.halt.answered != nil || !slices.ContainsFunc(givenUp, func(c error) bool { return errors.Is(cause, c) }) {
		return
	}
	if e, err := p.bearings.cancel(&p.cfg.Cancel); err == nil {
		g, limit := p.ground, p.cfg.CancelDeadline
		p.engine.later(limit, func(ctx context.Context) {
			if answer, err := g.persist(ctx, e); !answer.accepted() {
				p.log.Warn("upstream did not take the cancel call", logRun(p.lease.Run), slog.Int("status", answer.code()), logError(err))
			}
		})
	}
}
