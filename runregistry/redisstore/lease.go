package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

const (
	// renewTogether bounds one pipeline of renewals.
	renewTogether = 200
	// renewAtOnce bounds the pipelines that are under way. One that waits for a
	// dead master of a Cluster must not keep the others from theirs.
	renewAtOnce = 8
)

// Renew implements [runregistry.Leaser]. What some servers of a Cluster do not
// answer is [runregistry.ErrUnavailable] in its place.
func (s *Store) Renew(ctx context.Context, leases []runregistry.Lease) ([]runregistry.Renewal, error) {
	if err := s.ready(ctx); err != nil {
		return nil, fmt.Errorf("renewing leases: %w", err)
	}
	renewals := make([]runregistry.Renewal, len(leases))
	var all sync.WaitGroup
	seats := make(chan struct{}, renewAtOnce)
	for from := 0; from < len(leases); from += renewTogether {
		to := min(from+renewTogether, len(leases))
		seats <- struct{}{}
		all.Go(func() {
			s.renew(ctx, leases[from:to], renewals[from:to])
			<-seats
		})
	}
	all.Wait()
	answered := func(r runregistry.Renewal) bool { return !errors.Is(r.Err, runregistry.ErrUnavailable) }
	if len(leases) > 0 && !slices.ContainsFunc(renewals, answered) {
		return nil, fmt.Errorf("renewing leases: %w", renewals[0].Err)
	}
	return renewals, nil
}

// renew fills renewals with what became of leases.
func (s *Store) renew(ctx context.Context, leases []runregistry.Lease, renewals []runregistry.Renewal) {
	by, lease := s.me()
	calls := make([]*params, len(leases))
	for i, l := range leases {
		calls[i] = s.renewal(l, lease, by)
	}
	replies, errs := s.evalAll(ctx, s.clients.calls, calls)
	for i, l := range leases {
		r, err := replies[i], errs[i]
		if fullServer(err) { // a lease must not end for want of memory
			r, err = s.evalRoomy(ctx, s.clients.calls, calls[i])
		}
		if err != nil {
			renewals[i].Err = err
			continue
		}
		renewals[i] = s.renewed(ctx, l, r)
	}
}

func (s *Store) renewed(ctx context.Context, l runregistry.Lease, r reply) runregistry.Renewal {
	if err := outcome(r.word()); err != nil {
		s.lostOwnership(l, err)
		return runregistry.Renewal{Err: err}
	}
	if r.number(5) < safety.Milliseconds()/2 {
		s.prolong(ctx, l)
	}
	return runregistry.Renewal{
		Stopping: runregistry.State(r.number(2)) == runregistry.Cancelling,
		Last:     r.seq(3),
		Readers:  int(r.number(4)) + s.tails.reading(l.Run),
		Revision: uint64(r.number(6)),
	}
}

// prolong gives everything of a long run another long time to live. What fails
// is tried again with the next renewal, days before it matters.
func (s *Store) prolong(ctx context.Context, l runregistry.Lease) {
	e, err := s.load(ctx, l.Run)
	if err != nil {
		return
	}
	p := call(prolongScript)
	s.claimed(p, e)
	p.arg(epochText(l.Epoch), safetyMillis, flag(e.rec.UpstreamID != ""))
	if e.rec.UpstreamID != "" {
		p.key(s.keys.upstream(l.Run.Partition(), e.rec.Scope, e.rec.UpstreamID))
	}
	_, _ = s.evalRoomy(ctx, s.clients.calls, p)
}

// Release implements [runregistry.Leaser]: the lease is extended to a moment ago.
func (s *Store) Release(ctx context.Context, l runregistry.Lease) error {
	if err := s.usable(ctx, l.Run); err != nil {
		return fmt.Errorf("releasing %s: %w", l.Run, err)
	}
	by, _ := s.me()
	r, err := s.evalRoomy(ctx, s.clients.calls, s.renewal(l, -time.Millisecond, by))
	if err == nil {
		err = outcome(r.word())
	}
	s.tails.disown(l)
	if err != nil {
		return fmt.Errorf("releasing %s: %w", l.Run, err)
	}
	return nil
}

// renewal is the call that makes a lease last from now on.
func (s *Store) renewal(l runregistry.Lease, lease time.Duration, by runregistry.InstanceID) *params {
	return call(renewScript).
		key(s.keys.run(l.Run), s.keys.readers(l.Run), s.keys.leases(l.Run.Partition())).
		arg(epochText(l.Epoch), lease.Milliseconds(), string(by))
}

// TakeOver implements [runregistry.Leaser].
func (s *Store) TakeOver(ctx context.Context, id runregistry.RunID) (runregistry.Lease, *runregistry.Record, error) {
	e, err := s.takeOver(ctx, id)
	if err != nil {
		return runregistry.Lease{}, nil, fmt.Errorf("taking %s over: %w", id, err)
	}
	return runregistry.Lease{Run: id, Epoch: e.rec.Epoch}, e.copied(), nil
}

func (s *Store) takeOver(ctx context.Context, id runregistry.RunID) (*entry, error) {
	if err := s.usable(ctx, id); err != nil {
		return nil, err
	}
	e, err := s.load(ctx, id)
	if err != nil {
		s.unlist(ctx, id, err)
		return nil, err
	}
	by, lease := s.me()
	r, err := s.evalRoomy(ctx, s.clients.calls, call(takeoverScript).
		key(s.keys.run(id), s.keys.leases(id.Partition())).
		arg(epochText(e.rec.Epoch), newToken(), string(by), lease.Milliseconds(), s.verb(), s.keys.channel(id)))
	if err == nil {
		err = outcome(r.word())
	}
	if err != nil {
		s.unlist(ctx, id, err)
		return nil, err
	}
	if e, err = s.load(ctx, id); err != nil {
		return nil, err
	}
	if e.rec.Epoch != runregistry.Epoch(r.number(2)) {
		return nil, runregistry.ErrLeaseLive // and gone again since
	}
	s.tails.owned(e, e.rec.Epoch)
	return e, nil
}

// unlist forgets the lease of a run that no longer exists, so that nobody tries
// to take it over again.
func (s *Store) unlist(ctx context.Context, id runregistry.RunID, err error) {
	if errors.Is(err, runregistry.ErrNoRun) {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		_ = s.clients.calls.ZRem(ctx, s.keys.leases(id.Partition()), string(id)).Err()
	}
}
