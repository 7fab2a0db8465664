package embeddedstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
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
	rec, at, err := s.dispatch(r, l.Epoch)
	if err != nil {
		return rec, err
	}
	if err := s.sync(at); err != nil {
		return nil, err
	}
	return rec, nil
}

// dispatch stores the intent of a run.
func (s *Store) dispatch(r *run, e runregistry.Epoch) (*runregistry.Record, journal.Position, error) {
	if r.lined {
		s.mu.Lock() // it gets the conversation in the same step
		defer s.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.writableLocked(e); err != nil {
		return nil, 0, err
	}
	next := r.rec
	switch err := next.Intend(time.Now()); {
	case errors.Is(err, runregistry.ErrSettled):
		return r.copyLocked(), 0, err
	case err != nil:
		return nil, 0, err
	case r.rec.Lined && r.dialogue.holders[0] != r:
		return nil, 0, runregistry.ErrInLine
	}
	at, err := s.commitLocked(r, &next)
	if err != nil {
		return nil, 0, err
	}
	r.watchers.wake()
	return r.copyLocked(), at, nil
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
	done, changed, err := s.appendLocked(r, b, time.Now())
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
	if err := s.await(ctx); err != nil {
		return err
	}
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
	if !s.claims.free(r, alias) {
		return runregistry.ErrTaken
	}
	next := r.rec
	if next.Rename(alias); next.Revision == r.rec.Revision {
		return nil // it has that name
	}
	_, err = s.record(journal.Running, func(b []byte) []byte {
		t := s.claims.ties(r)
		t.Dialogue = cmp.Or(t.Dialogue, uint64(r.number))
		return entry.AppendTies(r.appendChange(b, &next), r.number, t)
	})
	if err != nil {
		return err
	}
	s.claims.alias(r, alias)
	r.rec = next
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
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	rec, at, err := s.finish(ctx, l, end)
	if rec == nil {
		return nil, err
	}
	// The loser, too, relies on the end that stands.
	if err := s.sync(at); err != nil {
		return nil, err
	}
	return rec, err
}

// finish ends a run, and says where that is journaled.
func (s *Store) finish(ctx context.Context, l runregistry.Lease, end *runregistry.Settlement) (*runregistry.Record, journal.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r, err := s.findLocked(ctx, l.Run, now)
	if err != nil {
		return nil, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.writableLocked(l.Epoch); err != nil {
		return nil, 0, err
	}
	next := r.rec
	switch err := next.Settle(end, now); {
	case errors.Is(err, runregistry.ErrSettled):
		return r.copyLocked(), r.ended, err
	case err != nil:
		return nil, 0, err
	}
	if err := s.finishLocked(r, &next, end); err != nil {
		return nil, 0, err
	}
	return r.copyLocked(), r.ended, nil
}
