package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// releaseStatus are the answers by which upstream says that it did no work:
// the key is free again.
var releaseStatus = []int{400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 422, 425, 429, 529}

// verdict decides how a run ended; p.mu must be held. The store has the last
// word about a Stop that came between.
func (p *pump) verdict(end ending) runregistry.Settlement {
	s := p.judge(end)
	s.NoEffect = s.NoEffect || p.cfg.NoSideEffects
	s.Upstream = p.confirmation()
	if errors.Is(context.Cause(p.ctx), errStopped) && p.status == 0 && s.NoEffect {
		s.Upstream = runregistry.Confirmed
	}
	if p.status != 0 && !p.stream && !p.keyed {
		s.Keep = saidRetryWindow // nobody can ask for it again after that
	}
	return s
}

func (p *pump) judge(end ending) runregistry.Settlement {
	if s, decided := p.judgeMarker(); decided {
		return s
	}
	switch cause := context.Cause(p.ctx); {
	case errors.Is(cause, errGraceOver):
		end = ending{} // it had ended; only its connection had not
	case cause != nil:
		return judgeCause(cause)
	}
	switch {
	case end.panicked != nil:
		return failed(runregistry.ReasonUpstreamTruncated)
	case p.status == 0:
		return p.judgeUnanswered(end)
	case end.aborted || end.err != nil:
		return p.judgeBroken()
	case p.status >= http.StatusBadRequest:
		return p.judgeStatus()
	case p.facts.outcome != dialect.OutcomeNone:
		return p.judgeOutcome()
	case p.facts.waiting && p.dialect.PausedEnd:
		return runregistry.Settlement{State: runregistry.Completed, Reason: runregistry.ReasonInputRequired}
	case !p.stream || p.dialect.CleanEnd:
		return runregistry.Settlement{State: runregistry.Completed}
	default:
		return p.judgeBroken()
	}
}

// judgeBroken: the stream did not say how it ended. What became of one that the
// owner lost with its life, nobody knows.
func (p *pump) judgeBroken() runregistry.Settlement {
	if p.facts.asked {
		return p.judgeOutcome()
	}
	if p.join.adopted && p.join.times == 0 {
		return runregistry.Settlement{State: runregistry.Uncertain, Reason: runregistry.ReasonOwnerLost}
	}
	return failed(runregistry.ReasonUpstreamTruncated)
}

// judgeMarker: once the end marker is stored the stream has said how it ended,
// whatever happened to the connection after it.
func (p *pump) judgeMarker() (runregistry.Settlement, bool) {
	if !p.facts.ending || p.status >= http.StatusBadRequest {
		return runregistry.Settlement{}, false
	}
	return p.judgeOutcome(), true
}

func (p *pump) judgeOutcome() runregistry.Settlement {
	switch p.facts.outcome {
	case dialect.OutcomeFailed:
		return failed(runregistry.ReasonUpstreamError)
	case dialect.OutcomeCancelled:
		return runregistry.Settlement{State: runregistry.Cancelled}
	case dialect.OutcomeNone, dialect.OutcomeCompleted:
	}
	return runregistry.Settlement{State: runregistry.Completed, Reason: p.facts.reason}
}

func failed(why runregistry.Reason) runregistry.Settlement {
	return runregistry.Settlement{State: runregistry.Failed, Reason: why}
}

// judgeCause maps the reason for which the gateway hung up.
func judgeCause(cause error) runregistry.Settlement {
	switch {
	case errors.Is(cause, errStopped):
		return runregistry.Settlement{State: runregistry.Cancelled}
	case errors.Is(cause, errDeadline):
		return failed(runregistry.ReasonDeadlineExceeded)
	case errors.Is(cause, errIdle):
		return failed(runregistry.ReasonIdleTimeout)
	case errors.Is(cause, errFrameTooLong):
		return failed(runregistry.ReasonFrameTooLarge)
	case errors.Is(cause, errStoreDown):
		return failed(runregistry.ReasonStoreUnavailable)
	case errors.Is(cause, errLogLost):
		return runregistry.Settlement{State: runregistry.Uncertain, Reason: runregistry.ReasonLogLost}
	case errors.Is(cause, errHeaderTimeout):
		return runregistry.Settlement{State: runregistry.Uncertain, Reason: runregistry.ReasonHeaderTimeout}
	case errors.Is(cause, errGatewayStopped):
		return runregistry.Settlement{State: runregistry.Uncertain, Reason: runregistry.ReasonGatewayStopped}
	case errors.Is(cause, errEncoding):
		return failed(runregistry.ReasonUpstreamError)
	default:
		return failed(runregistry.ReasonUpstreamTruncated)
	}
}

// judgeUnanswered: nothing came back. Only an error that proves that nothing
// was sent leaves no effect.
func (p *pump) judgeUnanswered(end ending) runregistry.Settlement {
	if end.err != nil && p.host.Undelivered(end.err) {
		s := failed(runregistry.ReasonUpstreamUnreachable)
		s.NoEffect, s.ReleaseKey = true, true
		return s
	}
	return failed(runregistry.ReasonUpstreamTruncated)
}

// judgeStatus: upstream answered whole, and with an error.
func (p *pump) judgeStatus() runregistry.Settlement {
	s := failed(runregistry.ReasonUpstreamStatus)
	s.NoEffect = p.busy || slices.Contains(releaseStatus, p.status)
	s.ReleaseKey = s.NoEffect
	return s
}
