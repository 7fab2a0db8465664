package embeddedstore

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

// Stop implements [runregistry.Commander].
func (s *Store) Stop(ctx context.Context, id runregistry.RunID, why runregistry.Reason) (*runregistry.Record, error) {
	rec, err := s.stop(ctx, id, why)
	if err != nil {
		return nil, fmt.Errorf("stopping %s: %w", id, err)
	}
	return rec, nil
}

func (s *Store) stop(ctx context.Context, id runregistry.RunID, why runregistry.Reason) (*runregistry.Record, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	rec, at, err := s.order(ctx, id, why)
	if err == nil {
		err = s.sync(at)
	}
	return rec, err
}

// order applies a Stop.
func (s *Store) order(ctx context.Context, id runregistry.RunID, why runregistry.Reason) (*runregistry.Record, journal.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r, err := s.findLocked(ctx, id, now)
	if err != nil {
		return nil, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next, at := r.rec, r.ended
	switch {
	case !next.Stop(why, now):
	case next.State.Terminal():
		err = s.finishLocked(r, &next, &runregistry.Settlement{})
		at = r.ended
	default:
		at, err = s.commitLocked(r, &next)
		r.watchers.wake()
	}
	if err != nil {
		return nil, 0, err
	}
	return r.copyLocked(), at, nil
}

// Deliver implements [runregistry.Commander].
func (s *Store) Deliver(ctx context.Context, id runregistry.RunID, e runregistry.DeliveryEvent) error {
	r, err := s.find(ctx, id)
	if err == nil {
		err = s.deliver(r, e)
	}
	if err != nil {
		return fmt.Errorf("counting delivery of %s: %w", id, err)
	}
	return nil
}

func (s *Store) deliver(r *run, e runregistry.DeliveryEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return runregistry.ErrNoRun
	}
	r.rec.Delivery.Apply(e)
	s.recordDelivery(r)
	return nil
}

// Delete implements [runregistry.Commander].
func (s *Store) Delete(ctx context.Context, id runregistry.RunID) error {
	if err := s.delete(ctx, id); err != nil {
		return fmt.Errorf("deleting %s: %w", id, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, id runregistry.RunID) error {
	if err := s.await(ctx); err != nil {
		return err
	}
	at, err := s.forgetRun(ctx, id)
	if err != nil {
		return err
	}
	return s.sync(at)
}

// forgetRun removes a run and reserves its key.
func (s *Store) forgetRun(ctx context.Context, id runregistry.RunID) (journal.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.findLocked(ctx, id, time.Now())
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec.State.Active() {
		return 0, runregistry.ErrRunActive
	}
	keyed, until := s.claims.holdsKey(r), r.rec.KeyExpiresAt()
	at, err := s.record(journal.Running, func(b []byte) []byte {
		b = entry.AppendGone(b, r.number)
		if keyed {
			b = entry.AppendKey(b, &entry.Key{Subject: r.subject, Route: r.key.route, Digest: r.key.digest, Until: until})
		}
		return b
	})
	if err != nil {
		return 0, err
	}
	s.removeLocked(r)
	s.litter(erasure)
	if keyed {
		s.reserveLocked(r.subject, r.key, until)
	}
	r.watchers.wake()
	return at, nil
}

// Readers implements [runregistry.Commander].
func (s *Store) Readers(ctx context.Context, id runregistry.RunID) (int, error) {
	r, err := s.find(ctx, id)
	if err == nil {
		_, err = r.snapshot()
	}
	if err != nil {
		return 0, fmt.Errorf("counting readers of %s: %w", id, err)
	}
	return r.watchers.reading(), nil
}
