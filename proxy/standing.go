package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// standing is why a reader may read, and until when that stands: a reader that
// stays is decided again and again, with the credentials of its request.
type standing struct {
	h        *Handler
	r        *http.Request
	caller   authz.Caller
	identify func() (authz.Caller, error)
	// lenient readers are not cut by the expiry of their token alone.
	lenient bool
	// next is when it is decided again.
	next time.Time
	// superseded is closed when other rules are in force.
	superseded <-chan struct{}
}

// standing is that of a reader of a run resource, which was just let in.
func (h *Handler) standing(r *http.Request, c authz.Caller, identify func() (authz.Caller, error)) *standing {
	s := &standing{h: h, r: r, caller: c, identify: identify}
	if h.deps.Superseded != nil {
		s.superseded = h.deps.Superseded()
	}
	s.stand(time.Now())
	return s
}

// standingOf is that of the client of a start. One that came without a subject
// has no other credentials than the request itself.
func (h *Handler) standingOf(s *start) *standing {
	identify := func() (authz.Caller, error) { return h.deps.Identity.Identify(s.r) }
	if s.cookie != nil {
		identify = func() (authz.Caller, error) { return s.caller, nil }
	}
	stands := h.standing(s.r, s.caller, identify)
	stands.lenient = !h.cfg.ExpiryStrict
	stands.stand(time.Now())
	return stands
}

// stand sets when it is decided again.
func (s *standing) stand(now time.Time) {
	s.next = now.Add(s.h.cfg.Recheck)
	if e := s.caller.Expires; !s.lenient && !e.IsZero() && e.Before(s.next) {
		s.next = e
	}
}

// again decides anew. A token that has expired can no longer be asked about: it
// ends its reader, unless that is lenient.
func (s *standing) again(ctx context.Context, rec *runregistry.Record) (bool, error) {
	now := time.Now()
	defer s.stand(now)
	if e := s.caller.Expires; !e.IsZero() && !now.Before(e) {
		return s.lenient, nil
	}
	caller, err := s.identify()
	switch {
	case errors.Is(err, authz.ErrUnavailable):
		return false, err
	case err != nil:
		return false, nil // nobody any more, which is a decision
	}
	s.caller = caller
	return s.h.may(ctx, s.r, caller, authz.Read, rec.ID, rec)
}

const (
	// doubtPatience is how long a reader waits for a decision that cannot be
	// made, and sees nothing new.
	doubtPatience = 15 * time.Second
	// doubtRetry is how often it is tried again.
	doubtRetry = 3 * time.Second
)

// recheck decides again about a reader when it is time. While that cannot be
// told, the reader is kept alive and shown nothing; then it ends.
func (t *tail) recheck(ctx context.Context) (end tailEnd, over bool) {
	if time.Now().Before(t.standing.next) {
		return 0, false
	}
	began := time.Now()
	for {
		allowed, err := t.decideAgain(ctx)
		switch {
		case ctx.Err() != nil:
			return tailGone, true
		case errors.Is(err, authz.ErrUnavailable) && time.Since(began) < doubtPatience:
			if end, over := t.idle(ctx, doubtRetry); over {
				return end, true
			}
			continue
		case errors.Is(err, runregistry.ErrNoRun):
			return t.readFailed(ctx, err), true
		case err != nil, !allowed:
			return t.interrupt(), true
		}
		t.check.Reset(time.Until(t.standing.next))
		return 0, false
	}
}

// decideAgain looks at the run as it is now: it may have got another
// conversation, or be gone. A store that is away will be noticed by the next
// read; until then the record is the one that is known.
func (t *tail) decideAgain(ctx context.Context) (bool, error) {
	rec, err := t.h.deps.Engine.store.Load(ctx, t.rec.ID)
	if err != nil && !errors.Is(err, runregistry.ErrUnavailable) {
		return false, err
	}
	if err != nil {
		rec = t.rec
	}
	return t.standing.again(ctx, rec)
}
