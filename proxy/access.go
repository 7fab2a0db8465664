package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// identify tells who asks for a run resource. The error is a problem.
func (h *Handler) identify(r *http.Request) (authz.Caller, error) {
	caller, err := h.identifier(r)()
	if err != nil {
		return caller, h.challenged(err)
	}
	return caller, nil
}

// permit asks whether a caller's credentials are for this, whatever the run.
func (h *Handler) permit(c authz.Caller, verb authz.Verb) error {
	if tokens, ok := h.deps.Identity.(authz.TokenBearer); ok {
		return tokens.Permit(c, verb)
	}
	return nil
}

// identifier returns what tells again who asks. A read needs a token that is
// for reading.
func (h *Handler) identifier(r *http.Request) func() (authz.Caller, error) {
	return func() (authz.Caller, error) {
		caller, err := h.deps.Identity.Identify(r)
		if err == nil && methodOf(r) == http.MethodGet {
			err = h.permit(caller, authz.Read)
		}
		return caller, err
	}
}

// challenged is the problem of a request that is nobody's, or whose token is
// not for that.
func (h *Handler) challenged(err error) *Problem {
	p := problemOf(err)
	if challenge := h.deps.Identity.Challenge(err); challenge != "" && (p.Status() == http.StatusUnauthorized || p.Code == codeScope) {
		p.Header = http.Header{"Www-Authenticate": {challenge}}
	}
	return p
}

// guardWrite refuses writes that a token is not for, and those that ride on
// ambient credentials from another site.
func (h *Handler) guardWrite(r *http.Request, c authz.Caller) error {
	if err := h.permit(c, authz.Write); err != nil {
		return h.challenged(err)
	}
	return h.guardSite(r, c)
}

// guardSite refuses what rides on ambient credentials from another site.
func (h *Handler) guardSite(r *http.Request, c authz.Caller) error {
	if !c.Ambient {
		return nil
	}
	return h.crossSite.Check(r)
}

// stripIdentity removes our own credential from fields that leave for
// upstream.
func (h *Handler) stripIdentity(head http.Header) {
	if s, ok := h.deps.Identity.(authz.Starter); ok {
		s.Strip(head)
	}
}

// stripQuery removes tokens from the URL of a request that leaves for upstream.
func (h *Handler) stripQuery(r *http.Request) {
	if query := h.queryOf(r); query != r.URL.RawQuery {
		r.URL.RawQuery = query
		r.RequestURI = r.URL.RequestURI()
	}
}

// queryOf is the query of a request without tokens.
func (h *Handler) queryOf(r *http.Request) string {
	if tokens, ok := h.deps.Identity.(authz.TokenBearer); ok {
		return tokens.StripQuery(r.URL.RawQuery)
	}
	return r.URL.RawQuery
}

// policy is the configured one, else that of the owner.
func (h *Handler) policy() authz.Policy {
	if h.deps.Policy != nil {
		return h.deps.Policy
	}
	return authz.OwnerPolicy{}
}

// may reports whether a caller has a right over a run. It is the one place
// where runs and policy meet. rec is nil for a run that does not exist; that of
// another tenant or realm does not either. The policy is asked nevertheless, so
// that it takes as long: about a conversation that nobody can know.
func (h *Handler) may(ctx context.Context, r *http.Request, c authz.Caller, verb authz.Verb, id runregistry.RunID, rec *runregistry.Record) (bool, error) {
	ask := authz.Ask{Verb: verb, Caller: c, Request: r, Run: string(id)}
	exists := rec != nil && c.Known && runregistry.TenantScope(rec.Subject) == runregistry.TenantScope(h.subjectOf(r, c))
	if exists {
		ask.Run, ask.Conversation, ask.Owner = string(rec.ID), string(rec.Conversation), ownerOf(rec)
	} else {
		ask.Conversation = string(h.deps.Engine.nowhere(id))
	}
	allowed, err := h.policy().May(ctx, ask)
	return allowed && exists, err
}

// ownerOf is who started a run, in authz's words. The realm is compared where
// the run is found.
func ownerOf(rec *runregistry.Record) authz.Subject {
	return authz.Subject{Tenant: rec.Subject.Tenant, Issuer: rec.Subject.Issuer, Sub: rec.Subject.Sub}
}

// nowhere is the conversation of a run that does not exist: random for this
// process, and always the same for one id, as that of a run that does exist is.
func (e *Engine) nowhere(id runregistry.RunID) runregistry.ConversationID {
	return runregistry.ConversationID("conv_" + digest(e.logKey, []byte(id)).String()[:26])
}

// visible loads a run for a caller who wants to read it.
func (h *Handler) visible(r *http.Request, c authz.Caller, id string) (*runregistry.Record, error) {
	return h.granted(r, c, authz.Read, id)
}

// changeable loads a run for whoever sent a request that stops or deletes it.
func (h *Handler) changeable(r *http.Request, id string) (*runregistry.Record, error) {
	caller, err := h.identify(r)
	if err == nil {
		err = h.guardWrite(r, caller)
	}
	if err != nil {
		return nil, err
	}
	return h.writable(r, caller, id)
}

// writable loads a run for a caller who wants to steer, stop or delete it.
func (h *Handler) writable(r *http.Request, c authz.Caller, id string) (*runregistry.Record, error) {
	return h.granted(r, c, authz.Write, id)
}

// granted loads a run for a caller who has a right over it. Whatever the reason
// not to show it, the answer is the same and costs one look-up and one
// question.
func (h *Handler) granted(r *http.Request, c authz.Caller, verb authz.Verb, id string) (*runregistry.Record, error) {
	run, err := runregistry.ParseRunID(id)
	if err != nil {
		run = runregistry.NewRunID(0)
	}
	rec, err := h.deps.Engine.store.Load(r.Context(), run)
	return h.grant(r, c, verb, run, rec, err)
}

// grant decides about what a look-up found.
func (h *Handler) grant(r *http.Request, c authz.Caller, verb authz.Verb, id runregistry.RunID, rec *runregistry.Record, err error) (*runregistry.Record, error) {
	if err != nil && !errors.Is(err, runregistry.ErrNoRun) {
		return nil, err
	}
	if err != nil {
		rec = nil
	}
	switch allowed, err := h.may(r.Context(), r, c, verb, id, rec); {
	case err != nil:
		return nil, err
	case !allowed:
		return nil, runregistry.ErrNoRun
	}
	return rec, nil
}

// admissible asks whether a caller may start in a conversation.
func (h *Handler) admissible(s *start) error {
	policy := h.policy()
	ask := authz.Ask{Verb: authz.Start, Caller: s.caller, Request: s.r, Conversation: string(s.conversation)}
	if policy.Shared() && s.named {
		rec, err := h.deps.Engine.store.Current(s.r.Context(), h.scopeOf(s.subject), s.conversation)
		switch {
		case err == nil:
			s.current, ask.Owner = rec, ownerOf(rec)
		case !errors.Is(err, runregistry.ErrNoRun):
			return err
		}
	}
	allowed, err := policy.May(s.r.Context(), ask)
	if err == nil && !allowed {
		err = runregistry.ErrNoRun
	}
	return err
}

// mayAttach asks whether the caller of a start may read the run that it
// repeats.
func (h *Handler) mayAttach(s *start, rec *runregistry.Record) error {
	allowed, err := h.may(s.r.Context(), s.r, s.caller, authz.Read, rec.ID, rec)
	if err == nil && !allowed {
		err = runregistry.ErrNoRun
	}
	return err
}

// mayReplace reports whether a start may take its conversation away from a run
// of somebody else.
func (h *Handler) mayReplace(s *start) (bool, error) {
	if h.cfg.Busy != runregistry.BusyReplace || s.current == nil || !s.current.State.Active() || s.current.Subject == s.subject {
		return false, nil
	}
	return h.may(s.r.Context(), s.r, s.caller, authz.Write, s.current.ID, s.current)
}

// scopeOf is the namespace of the conversations that a subject can name.
func (h *Handler) scopeOf(s runregistry.Subject) runregistry.Scope {
	if h.policy().Shared() {
		return runregistry.TenantScope(s)
	}
	return runregistry.SubjectScope(s)
}

// readable leaves those runs that a caller may read, in order. A page has few
// runs and fewer conversations, about which a policy is asked at the same time.
func (h *Handler) readable(r *http.Request, c authz.Caller, all []*runregistry.Record) ([]*runregistry.Record, error) {
	verdicts, errs := make([]bool, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	seats := make(chan struct{}, askAtOnce)
	for i, rec := range all {
		seats <- struct{}{}
		asking.Go(func() {
			verdicts[i], errs[i] = h.may(r.Context(), r, c, authz.Read, rec.ID, rec)
			<-seats
		})
	}
	asking.Wait()
	left := make([]*runregistry.Record, 0, len(all))
	for i, rec := range all {
		if verdicts[i] {
			left = append(left, rec)
		}
	}
	return left, errors.Join(errs...)
}

// askAtOnce bounds the questions that one list puts to a policy at a time.
const askAtOnce = 8
