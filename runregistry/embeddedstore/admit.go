package embeddedstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

// Admit implements [runregistry.Admitter]. The claims' lock makes it one step,
// and so does its one journal record.
func (s *Store) Admit(ctx context.Context, a *runregistry.Admission) (*runregistry.Decision, error) {
	d, err := s.admit(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("admitting run: %w", err)
	}
	return d, nil
}

func (s *Store) admit(ctx context.Context, a *runregistry.Admission) (*runregistry.Decision, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	d, at, err := s.claim(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := s.sync(at); err != nil {
		d.Watch.Close()
		s.abandon(a.Run)
		return nil, err
	}
	return d, nil
}

// claim decides, and journals a new run.
func (s *Store) claim(ctx context.Context, a *runregistry.Admission) (*runregistry.Decision, journal.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	now := time.Now()
	s.sweepLocked(now, everything)
	if r := s.runs.get(a.Run); r != nil {
		return r.decide(runregistry.MatchNone), 0, nil // the reply to the first was lost
	}
	d, last, err := s.matchLocked(a, now)
	if d != nil || err != nil {
		return d, 0, err
	}
	return s.startLocked(a, last, now)
}

// abandon forgets a new run that may not be on stable storage. Nobody has its
// lease.
func (s *Store) abandon(id runregistry.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs.get(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.claims.release(r)
	_, _ = s.record(journal.Running, func(b []byte) []byte { return entry.AppendGone(b, r.number) }) // if that fails too, its owner is lost
	s.removeLocked(r)
	r.watchers.wake()
}

// matchLocked looks for the run that the request repeats, or for the last
// attempt, which it is to follow.
func (s *Store) matchLocked(a *runregistry.Admission, now time.Time) (d *runregistry.Decision, last *run, err error) {
	acct := s.claims.accounts[a.Subject]
	switch {
	case acct == nil:
		return nil, nil, nil
	case !a.Key.IsZero():
		return s.matchKey(acct, a)
	case a.Implicit.IsZero():
		return nil, nil, nil
	}
	if d := s.matchConversation(a); d != nil {
		return d, nil, nil
	}
	return s.matchDelivery(acct, a, now), nil, nil
}

func (s *Store) matchKey(acct *account, a *runregistry.Admission) (d *runregistry.Decision, last *run, err error) {
	r, claimed := acct.keys[request{a.Route, a.Key}]
	switch {
	case !claimed:
		return nil, nil, nil
	case r == nil:
		return nil, nil, runregistry.ErrDeleted
	}
	rec, err := r.snapshot()
	switch {
	case err != nil:
		return nil, nil, err
	case rec.Fingerprint != a.Fingerprint:
		return nil, nil, runregistry.ErrKeyReused
	case a.KeyConflict && rec.State.Active():
		return nil, nil, &runregistry.InProgressError{Run: r.id}
	}
	again, err := a.Retries(rec)
	switch {
	case err != nil:
		return nil, nil, err
	case again:
		return nil, r, nil
	}
	d, err = s.attachAttempt(a, r)
	return d, nil, err
}

// attachAttempt attaches to the attempt that the admission asks for, the last
// one or one before it.
func (s *Store) attachAttempt(a *runregistry.Admission, last *run) (*runregistry.Decision, error) {
	for r := last; r != nil; r = s.runs.get(r.previous) {
		if !a.Names(r.attempt, last.attempt) {
			continue
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return s.attachLocked(r, runregistry.MatchKey), nil
	}
	return nil, runregistry.ErrDeleted
}

// matchConversation finds the equal request that keeps the conversation busy.
func (s *Store) matchConversation(a *runregistry.Admission) *runregistry.Decision {
	d := s.claims.dialogueOf(place{a.Scope, a.Conversation})
	if d == nil {
		return nil
	}
	r := d.current()
	if r.subject != a.Subject || r.echo != (request{a.Route, a.Implicit}) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !a.Resumes(&r.rec) {
		return nil
	}
	return s.attachLocked(r, runregistry.MatchConversation)
}

// matchDelivery finds the newest broken delivery of an equal request. The
// attached delivery is pending, so that nobody else claims the same.
func (s *Store) matchDelivery(acct *account, a *runregistry.Admission, now time.Time) *runregistry.Decision {
	echoes := acct.echoes[request{a.Route, a.Implicit}]
	if echoes == nil {
		return nil
	}
	for _, r := range echoes.before(0) {
		d, old := s.claimDelivery(r, a, now)
		if d != nil || old {
			return d
		}
	}
	return nil
}

// claimDelivery attaches the admission to r if it may be taken for its retry.
// It also reports whether r is so old that older ones need not be looked at.
func (s *Store) claimDelivery(r *run, a *runregistry.Admission, now time.Time) (d *runregistry.Decision, old bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Repeats(&r.rec, now) {
		return s.attachLocked(r, runregistry.MatchDelivery), false
	}
	return nil, now.Sub(r.rec.CreatedAt) > a.ImplicitWindow
}

// attachLocked counts one more delivery of r.
func (s *Store) attachLocked(r *run, m runregistry.Match) *runregistry.Decision {
	r.rec.Attach()
	s.recordDelivery(r)
	return &runregistry.Decision{Match: m, Record: r.copyLocked(), Watch: r.watchers.join(true)}
}

// decide is the decision for a new run.
func (r *run) decide(m runregistry.Match) *runregistry.Decision {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return &runregistry.Decision{
		Match:  m,
		Record: r.copyLocked(),
		Lease:  runregistry.Lease{Run: r.id, Epoch: r.rec.Epoch},
		Watch:  r.watchers.join(true),
	}
}

// startLocked starts a new run, if the conversation is to be had, and the
// limits leave room. Until that is sure, and journaled, it changes nothing.
func (s *Store) startLocked(a *runregistry.Admission, last *run, now time.Time) (*runregistry.Decision, journal.Position, error) {
	losers, lined, err := s.contestLocked(a)
	if err != nil {
		return nil, 0, err
	}
	if err := s.roomLocked(a, losers); err != nil {
		return nil, 0, err
	}
	r := newRun(a, last, now)
	r.number = s.births + 1
	r.lined, r.rec.Lined = lined, lined
	at, err := s.enterLocked(r, last, losers, now)
	if err != nil {
		return nil, 0, err
	}
	d := r.decide(runregistry.MatchNone)
	if n := len(losers); n > 0 {
		d.Superseded = losers[n-1].id
	}
	return d, at, nil
}

// enterLocked stops the runs that give way and claims everything for r, in one
// step. The last attempt gives it the key.
func (s *Store) enterLocked(r, last *run, losers []*run, now time.Time) (journal.Position, error) {
	next := make([]runregistry.Record, len(losers))
	for i, l := range losers {
		l.mu.Lock() // whoever waits for a second lock of a run holds s.mu
		defer l.mu.Unlock()
		next[i] = l.rec
		next[i].Stop(runregistry.ReasonSuperseded, now)
	}
	at, err := s.record(journal.New, func(b []byte) []byte {
		for i, l := range losers {
			b = s.endingLocked(b, l, &next[i], &runregistry.Settlement{})
		}
		if last != nil {
			ties := s.claims.ties(last)
			ties.Keyed = false
			b = entry.AppendTies(b, last.number, ties)
		}
		start := s.claims.foresee(r)
		return entry.AppendStart(b, &start)
	})
	if err != nil {
		return 0, err
	}
	for i, l := range losers {
		s.supersedeLocked(l, &next[i], at)
	}
	s.births = r.number
	s.claims.enter(r)
	if last != nil {
		last.mu.Lock()
		defer last.mu.Unlock()
		s.scheduleLocked(last) // its key is no longer its own
	}
	s.chargeLocked(r) // nobody else knows r yet
	s.runs.add(r)
	return at, nil
}

// contestLocked returns the runs that must give the conversation away, or
// whether the new one waits for them, or why neither.
func (s *Store) contestLocked(a *runregistry.Admission) (losers []*run, lined bool, err error) {
	d := s.claims.dialogueOf(place{a.Scope, a.Conversation})
	if d == nil || a.Busy == runregistry.BusyAllow {
		return nil, false, nil
	}
	holders := make([]runregistry.Holder, len(d.holders))
	for i, r := range d.holders {
		holders[i] = r.holder(a)
	}
	lined, err = a.Contest(holders)
	if err != nil || lined {
		return nil, lined, err
	}
	return slices.Clone(d.holders), false, nil
}

func (r *run) holder(a *runregistry.Admission) runregistry.Holder {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return runregistry.Holder{
		Busy: runregistry.BusyError{
			Run:     r.id,
			Mine:    r.subject == a.Subject,
			Readers: r.watchers.reading(),
			Ending:  r.rec.Ending,
		},
		Lined: r.rec.Lined,
	}
}

// errFull is why the store is unavailable for new runs.
var errFull = fmt.Errorf("%w: memory bound is reached", runregistry.ErrUnavailable)

// roomLocked checks the limits. Runs that will give way no longer count.
func (s *Store) roomLocked(a *runregistry.Admission, losers []*run) error {
	if acct := s.claims.accounts[a.Subject]; acct != nil && a.ActiveLimit > 0 {
		active := acct.active
		for _, r := range losers {
			if r.account == acct {
				active--
			}
		}
		if active >= a.ActiveLimit {
			return &runregistry.LimitError{Limit: "active_runs_per_subject", Max: a.ActiveLimit}
		}
	}
	if s.used.Load() >= s.memory {
		return errFull
	}
	return nil
}

// supersedeLocked takes the conversation of a stopped run and its place in the
// limit. One that was not dispatched has ended with that.
func (s *Store) supersedeLocked(r *run, next *runregistry.Record, at journal.Position) {
	if next.State.Terminal() {
		s.endedLocked(r, next, &runregistry.Settlement{}, at)
		return
	}
	r.rec = *next
	s.claims.release(r)
	r.watchers.wake()
}
