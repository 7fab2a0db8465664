package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// How often a backend is asked how a run stands that goes on, and how long one
// that cannot be asked is tried.
const (
	inquiryRetry    = 500 * time.Millisecond
	maxInquiryRetry = 30 * time.Second
	inquiryPatience = 30 * time.Second
)

// inquire asks the backend how the run ended when its stream ended properly
// without a word about it, as it may after a success, a failure and a Stop, or
// when it broke and is not to be joined. A backend that cannot tell leaves the
// end as it looks.
func (p *pump) inquire(end ending) {
	e, broken := p.inquiry(end)
	if e == nil {
		return
	}
	for wait := inquiryRetry; ; wait = min(2*wait, maxInquiryRetry) {
		standing, answer, err := p.ask(e, broken)
		switch {
		case err != nil:
			p.log.Warn("upstream did not tell how the run ended", logRun(p.lease.Run), logError(err))
			return
		case standing == dialect.StandingRunning && (!broken || e.tellsAll()):
		case broken:
			p.standBroken(e, standing, answer)
			return
		default:
			p.stand(p.refine(standing))
			return
		}
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-p.ctx.Done():
			again.Stop()
			return
		}
	}
}

// tellsAll reports whether the answer to a status call holds all that the run
// has made.
func (e *errand) tellsAll() bool { return e.own != nil && e.own.TellsAll() }

// standBroken takes the backend's word for how a run ended whose stream broke.
// What the answer holds is then the last frame. Without it frames are missing, so
// that only a bad end is believed.
func (p *pump) standBroken(e *errand, s dialect.Standing, answer *reply) {
	if e.tellsAll() {
		p.mu.Lock()
		p.cutter, p.join.fresh = frame.New(p.kind, p.cfg.Limits.Frame), false
		p.mu.Unlock()
		if err := p.feed(e.own.Last(answer.body)); err != nil {
			p.log.Warn("last frame of a run was not taken", logRun(p.lease.Run), logError(err))
		}
		return
	}
	if s == dialect.StandingFailed || s == dialect.StandingCancelled {
		p.stand(s)
		p.mu.Lock()
		p.facts.asked = true
		p.mu.Unlock()
	}
}

// inquiry is the status call that the end of the stream asks for, or nil; broken
// tells that it did not end properly.
func (p *pump) inquiry(end ending) (e *errand, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end.panicked != nil || p.ctx.Err() != nil || p.ground == nil || !p.stream || p.status >= http.StatusBadRequest || p.halt.begun || p.over {
		return nil, false
	}
	if p.facts.ending || p.facts.outcome != dialect.OutcomeNone {
		return nil, false
	}
	if broken = p.broken(end); !broken && !p.dialect.CleanEnd {
		return nil, false
	}
	if e, err := p.bearings.status(&p.cfg.Status); err == nil && p.ground.reaches(e) {
		p.inquiring = true
		return e, broken
	}
	return nil, false
}

// refine asks of a run that has completed whether it only waits for somebody's
// input, where the backend tells that elsewhere.
func (p *pump) refine(s dialect.Standing) dialect.Standing {
	p.mu.Lock()
	e, err := p.bearings.pause(&p.cfg.Status)
	p.mu.Unlock()
	if s != dialect.StandingCompleted || err != nil {
		return s
	}
	if more, _, err := p.ask(e, false); err == nil && more == dialect.StandingPaused {
		return more
	}
	return s
}

var errUntold = errors.New("answer tells no status")

// ask makes one status call and reads the answer. A backend whose stream broke
// is asked once: it may be gone, and readers wait to be told.
func (p *pump) ask(e *errand, broken bool) (dialect.Standing, *reply, error) {
	ctx, cancel := context.WithTimeout(p.ctx, inquiryPatience)
	defer cancel()
	call := p.ground.persist
	if broken {
		call = p.ground.once
	}
	answer, err := call(ctx, e)
	if err != nil {
		return dialect.StandingUnknown, nil, err
	}
	standing := e.standing(answer)
	if !answer.accepted() || standing == dialect.StandingUnknown {
		p.log.Info("upstream was asked how the run stands", logRun(p.lease.Run), slog.Int("status", answer.code()))
		return standing, nil, errUntold
	}
	return standing, answer, nil
}

// standing reads an answer: by the dialect's table, or for a configured call by
// the words that backends use.
func (e *errand) standing(answer *reply) dialect.Standing {
	if e.own != nil {
		return e.own.Standing(answer.body)
	}
	for _, member := range []string{"status", "state"} {
		if s, ok := standings[strings.ToLower(gjson.GetBytes(answer.body, member).String())]; ok {
			return s
		}
	}
	return dialect.StandingUnknown
}

// standings are the words for how a run stands.
var standings = map[string]dialect.Standing{
	"queued": dialect.StandingRunning, "pending": dialect.StandingRunning, "running": dialect.StandingRunning,
	"in_progress": dialect.StandingRunning, "working": dialect.StandingRunning, "cancelling": dialect.StandingRunning,
	"completed": dialect.StandingCompleted, "complete": dialect.StandingCompleted, "success": dialect.StandingCompleted,
	"succeeded": dialect.StandingCompleted, "done": dialect.StandingCompleted,
	"failed": dialect.StandingFailed, "error": dialect.StandingFailed, "timeout": dialect.StandingFailed, "expired": dialect.StandingFailed,
	"cancelled": dialect.StandingCancelled, "canceled": dialect.StandingCancelled, "stopped": dialect.StandingCancelled,
	"interrupted":     dialect.StandingCancelled,
	"requires_action": dialect.StandingPaused, "input_required": dialect.StandingPaused, "paused": dialect.StandingPaused,
}

// stand takes the backend's word for how the run ended.
func (p *pump) stand(s dialect.Standing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case dialect.StandingCompleted:
		p.facts.outcome = dialect.OutcomeCompleted
	case dialect.StandingPaused:
		p.facts.outcome, p.facts.reason = dialect.OutcomeCompleted, runregistry.ReasonInputRequired
	case dialect.StandingFailed:
		p.facts.outcome = dialect.OutcomeFailed
	case dialect.StandingCancelled:
		p.facts.outcome = dialect.OutcomeCancelled
	case dialect.StandingUnknown, dialect.StandingRunning:
	}
}
