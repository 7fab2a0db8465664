package embeddedstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Intend implements [runregistry.Writer].
func (s *Store) Intend(ctx context.Context, l runregistry.Lease) (*runregistry.Record, error) {
	rec, err := s.intend(ctx, l)
	if err != nil {
		return rec, fmt.Errorf("intending %s: %w", l.Run, err)
	}
	return rec, nil
}

func (s *Store) intend(ctx context.Context, l runregistry.Lease) (*runregistry.Record, error) {
	r, err := s.find(ctx, l.Run)
	if err != nil {
		return nil, err
	}
	defer r.watchers.wake()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.writableLocked(l.Epoch); err != nil {
		return nil, err
	}
	err = r.rec.Intend(time.Now())
	if err != nil && !errors.Is(err, runregistry.ErrSettled) {
		return nil, err
	}
	return r.copyLocked(), err
}

// Append implements [runregistry.Writer].
func (s *Store) Append(ctx context.Context, l runregistry.Lease, b *runregistry.Batch) (runregistry.Appended, error) {
	var done runregistry.Appended
	r, err := s.find(ctx, l.Run)
	if err == nil {
		done, err = s.append(r, l.Epoch, b)
	}
	if err != nil {
		return done, fmt.Errorf("appending to %s: %w", l.Run, err)
	}
	return done, nil
}

func (s *Store) append(r *run, e runregistry.Epoch, b *runregistry.Batch) (runregistry.Appended, error) {
	if b.Progress != nil && b.Progress.UpstreamID != "" {
		s.mu.Lock() // the run becomes known by that id in the same step
		defer s.mu.Unlock()
	}
	r.mu.Lock()
	if err := r.writableLocked(e); err != nil {
		r.mu.Unlock()
		return runregistry.Appended{}, err
	}
	was := r.rec.UpstreamID
	done, changed, err := r.appendLocked(b, time.Now())
	if changed {
		s.chargeLocked(r)
	}
	if r.rec.UpstreamID != was {
		s.claims.upstream(r, was)
	}
	r.mu.Unlock()
	if changed {
		r.watchers.wake()
	}
	return done, err
}

// Bind implements [runregistry.Writer].
func (s *Store) Bind(ctx context.Context, l runregistry.Lease, alias runregistry.ConversationID) error {
	if err := s.bind(ctx, l, alias); err != nil {
		return fmt.Errorf("binding %s: %w", l.Run, err)
	}
	return nil
}

func (s *Store) bind(ctx context.Context, l runregistry.Lease, alias runregistry.ConversationID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.findLocked(ctx, l.Run, time.Now())
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.writableLocked(l.Epoch); err != nil {
		return err
	}
	if r.rec.State.Terminal() {
		return runregistry.ErrSettled
	}
	if !s.claims.alias(r, alias) {
		return runregistry.ErrTaken
	}
	r.rec.Rename(alias)
	return nil
}

// Settle implements [runregistry.Writer].
func (s *Store) Settle(ctx context.Context, l runregistry.Lease, end *runregistry.Settlement) (*runregistry.Record, error) {
	rec, err := s.settle(ctx, l, end)
	if err != nil {
		return rec, fmt.Errorf("settling %s: %w", l.Run, err)
	}
	return rec, nil
}

func (s *Store) settle(ctx context.Context, l runregistry.Lease, end *runregistry.Settlement) (*runregistry.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r, err := s.findLocked(ctx, l.Run, now)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.writableLocked(l.Epoch); err != nil {
		return nil, err
	}
	was := r.rec.UpstreamID
	switch err := r.rec.Settle(end, now); {
	case errors.Is(err, runregistry.ErrSettled):
		return r.copyLocked(), err
	case err != nil:
		return nil, err
	}
	if r.rec.UpstreamID != was {
		s.claims.upstream(r, was)
	}
	s.endedLocked(r, end)
	r.watchers.wake()
	return r.copyLocked(), nil
}

// endedLocked frees what only an active run claims, and starts the clocks;
// r.mu and s.mu must be held.
func (s *Store) endedLocked(r *run, end *runregistry.Settlement) {
	s.claims.release(r)
	if end.FreesKey(&r.rec) {
		s.claims.freeKey(r)
	}
	r.log.seal()
	s.chargeLocked(r)
	s.scheduleLocked(r)
}
