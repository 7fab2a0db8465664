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
// without a word about it, as it may after a success, a failure and a Stop. A
// backend that cannot tell leaves the end as it looks.
func (p *pump) inquire(end ending) {
	e := p.inquiry(end)
	if e == nil {
		return
	}
	for wait := inquiryRetry; ; wait = min(2*wait, maxInquiryRetry) {
		standing, err := p.ask(e)
		switch {
		case err != nil:
			p.log.Warn("upstream did not tell how the run ended", logRun(p.lease.Run), logError(err))
			return
		case standing != dialect.StandingRunning:
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

// inquiry is the status call that the end of the stream asks for, or nil.
func (p *pump) inquiry(end ending) *errand {
	p.mu.Lock()
	defer p.mu.Unlock()
	whole := end.err == nil && !end.aborted && end.panicked == nil && p.ctx.Err() == nil
	if !whole || p.ground == nil || !p.stream || p.status >= http.StatusBadRequest || p.halt.begun || p.over {
		return nil
	}
	if p.facts.ending || p.facts.outcome != dialect.OutcomeNone || !p.dialect.CleanEnd {
		return nil
	}
	e, err := p.bearings.status(&p.cfg.Status)
	if err != nil {
		return nil
	}
	p.inquiring = true
	return e
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
	if more, err := p.ask(e); err == nil && more == dialect.StandingPaused {
		return more
	}
	return s
}

var errUntold = errors.New("answer tells no status")

// ask makes one status call and reads the answer.
func (p *pump) ask(e *errand) (dialect.Standing, error) {
	ctx, cancel := context.WithTimeout(p.ctx, inquiryPatience)
	defer cancel()
	answer, err := p.ground.persist(ctx, e)
	if err != nil {
		return dialect.StandingUnknown, err
	}
	standing := e.standing(answer)
	if !answer.accepted() || standing == dialect.StandingUnknown {
		p.log.Info("upstream was asked how the run stands", logRun(p.lease.Run), slog.Int("status", answer.code()))
		return standing, errUntold
	}
	return standing, nil
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
