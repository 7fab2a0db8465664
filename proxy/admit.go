package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// admission puts a start into the store's words.
func (h *Handler) admission(s *start) *runregistry.Admission {
	scope := h.scopeOf(s.subject)
	a := &runregistry.Admission{
		Run: runregistry.NewRunID(runregistry.PartitionOf(string(scope))), Subject: s.subject, Scope: scope,
		Route: s.route, Conversation: s.conversation, Named: s.named, Busy: h.busy(s),
		Fingerprint: s.fingerprint, KeyConflict: h.cfg.Idempotency.Conflict,
		Limits:      runregistry.LogLimits{Bytes: h.cfg.Limits.RunBytes, Frames: h.cfg.Limits.RunFrames},
		Retention:   h.retention(),
		Release:     "",
		Resource:    h.expand(s.r, h.cfg.Resource),
		Model:       dialect.Model(s.body),
		Dialect:     h.expectedDialect(s.r.URL.Path),
		ActiveLimit: h.cfg.Limits.ActiveRunsPerSubject,
		Origin:      h.originOf(s),
	}
	if s.key != "" {
		a.Key, a.Attempt, a.Confirmed = digest([]byte(s.key)), s.attempt, s.confirmed
	}
	if s.caller.Shared {
		a.ActiveLimit = 0
		return a
	}
	if h.cfg.ImplicitRetry > 0 && s.key == "" {
		a.Implicit, a.ImplicitWindow, a.MidStream = s.implicit, h.implicitWindow(s.r), s.r.Method == http.MethodGet
	}
	return a
}

// originOf notes what calls about the run of a start will need, and returns it
// for the record; nil when there can be none.
func (h *Handler) originOf(s *start) []byte {
	s.origin, s.callable = dialect.Remember(s.r.URL.EscapedPath(), s.body)
	s.origin.Session = dialect.SessionOf(s.r.Header)
	s.callable = s.callable || h.cfg.Cancel.configured() || h.cfg.Status.configured() || h.cfg.Steer.configured() ||
		h.cfg.Join.configured()
	if !s.callable {
		return nil
	}
	return mustJSON(s.origin)
}

// expectedDialect is what upstream will speak as far as the configuration or
// the path tells; empty when they do not.
func (h *Handler) expectedDialect(path string) string {
	if h.cfg.Dialect != autoDialect {
		return h.cfg.Dialect
	}
	if d, _ := dialect.DetectByResponse(path, nil); d != genericDialect {
		return d.Name
	}
	return ""
}

func (h *Handler) retention() runregistry.Retention {
	key := h.cfg.RecordRetention
	if h.cfg.Idempotency.Window > 0 {
		key = min(key, h.cfg.Idempotency.Window)
	}
	return runregistry.Retention{Frames: h.cfg.FrameRetention, Record: h.cfg.RecordRetention, Key: key}
}

func (h *Handler) expand(r *http.Request, template string) string {
	if template == "" {
		return ""
	}
	return h.deps.Host.Expand(r, template, nil)
}

// busyPatience is how long a start waits for a closing reader to be noticed.
const (
	busyPatience = 250 * time.Millisecond
	busyRetry    = 20 * time.Millisecond
)

// admit asks the store until the answer is final: a conversation whose run has
// ended but is not settled yet, or whose last reader is just leaving, is worth
// a moment.
func (h *Handler) admit(s *start) (*runregistry.Decision, error) {
	ctx := s.r.Context()
	if h.deps.Engine.isDraining() {
		return nil, refuse(codeDraining, "Try again in a moment.")
	}
	patience := time.NewTimer(busyPatience)
	defer patience.Stop()
	a := h.admission(s)
	var err error
	if a.MayReplace, err = h.mayReplace(s); err != nil {
		return nil, err
	}
	for {
		s.asked = time.Now()
		decision, err := h.deps.Engine.store.Admit(ctx, a)
		busy, isBusy := errors.AsType[*runregistry.BusyError](err)
		switch {
		case !isBusy:
			return decision, h.admitProblem(err, s)
		case busy.Ending:
			if _, err := h.deps.Engine.settled(ctx, busy.Run); err != nil && !errors.Is(err, runregistry.ErrNoRun) {
				return nil, err
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue
		case !busy.Mine || a.Busy != runregistry.BusyAuto:
			return nil, h.inFlight(s, busy)
		}
		select {
		case <-time.After(busyRetry):
		case <-patience.C:
			return nil, h.inFlight(s, busy)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// strategies are the policies for a busy conversation as LangGraph calls them.
var strategies = map[string]runregistry.Busy{
	"reject": runregistry.BusyReject, "enqueue": runregistry.BusyQueue,
	"interrupt": runregistry.BusyReplace, "rollback": runregistry.BusyReplace,
}

// busy is the policy for a busy conversation: the request's wish, else the
// configured one.
func (h *Handler) busy(s *start) runregistry.Busy {
	if wished, ok := strategies[s.wishes.Multitask]; ok {
		return wished
	}
	return h.cfg.Busy
}

func (h *Handler) admitProblem(err error, s *start) error {
	if progress, ok := errors.AsType[*runregistry.InProgressError](err); ok {
		return (&Problem{
			Code: codeInProgress, Detail: "Attach to the run or wait for it.", Err: err,
			Actions: []runregistry.Action{runregistry.ActionReattach},
		}).with("active_run", h.activeRun(s.links, progress.Run))
	}
	return err
}

// inFlight names the active run only to those who may read it.
func (h *Handler) inFlight(s *start, busy *runregistry.BusyError) error {
	p := &Problem{Code: codeInFlight, Detail: "Wait for it, stop it, or re-attach to it.", Err: busy}
	if h.mayName(s, busy) {
		p.Actions = []runregistry.Action{runregistry.ActionReattach}
		return p.with("active_run", h.activeRun(s.links, busy.Run))
	}
	return p
}

// mayName reports whether the caller may read the run that is in the way.
func (h *Handler) mayName(s *start, busy *runregistry.BusyError) bool {
	if !h.policy().Shared() {
		return busy.Mine
	}
	_, err := h.visible(s.r, s.caller, string(busy.Run))
	return err == nil // if it cannot be told now, it is not
}

func (h *Handler) activeRun(l links, id runregistry.RunID) map[string]any {
	return map[string]any{"run_id": id, "events": l.events(id), "cancel": l.cancel(id)}
}
