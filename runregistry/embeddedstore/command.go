package embeddedstore

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
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
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r, err := s.findLocked(ctx, id, now)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec.Stop(why, now) {
		if r.rec.State.Terminal() {
			s.endedLocked(r, &runregistry.Settlement{})
		}
		r.watchers.wake()
	}
	return r.copyLocked(), nil
}

// Deliver implements [runregistry.Commander].
func (s *Store) Deliver(ctx context.Context, id runregistry.RunID, e runregistry.DeliveryEvent) error {
	r, err := s.find(ctx, id)
	if err == nil {
		err = r.deliver(e)
	}
	if err != nil {
		return fmt.Errorf("counting delivery of %s: %w", id, err)
	}
	return nil
}

func (r *run) deliver(e runregistry.DeliveryEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return runregistry.ErrNoRun
	}
	r.rec.Delivery.Apply(e)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.findLocked(ctx, id, time.Now())
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec.State.Active() {
		return runregistry.ErrRunActive
	}
	keyed := s.claims.holdsKey(r)
	s.removeLocked(r)
	if keyed {
		s.claims.reserve(r.subject, r.key)
		d := &deadline{subject: r.subject, key: r.key}
		if s.agenda.put(d, r.rec.KeyExpiresAt()) {
			s.kickSweeper()
		}
	}
	r.watchers.wake()
	return nil
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
