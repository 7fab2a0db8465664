package redisstore

import (
	"context"
	"errors"
	"fmt"

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
	if err := s.usable(ctx, l.Run); err != nil {
		return nil, err
	}
	e, err := s.move(ctx, l.Run, transition{
		decide: func(n *entry) error {
			if err := writable(n, l.Epoch); err != nil {
				return err
			}
			return n.rec.Intend(s.clock.now())
		},
		commit: s.intended(epochText(l.Epoch)),
	})
	switch {
	case errors.Is(err, runregistry.ErrSettled):
		s.tails.ended(e)
		return e.copied(), err
	case err != nil:
		s.lostOwnership(l, err)
		return nil, err
	}
	s.tails.owned(e, l.Epoch)
	return e.copied(), nil
}

// Bind implements [runregistry.Writer].
func (s *Store) Bind(ctx context.Context, l runregistry.Lease, alias runregistry.ConversationID) error {
	if err := s.bind(ctx, l, alias); err != nil {
		return fmt.Errorf("binding %s: %w", l.Run, err)
	}
	return nil
}

func (s *Store) bind(ctx context.Context, l runregistry.Lease, alias runregistry.ConversationID) error {
	if err := s.usable(ctx, l.Run); err != nil {
		return err
	}
	e, err := s.move(ctx, l.Run, transition{
		decide: func(n *entry) error { return rename(n, l.Epoch, alias) },
		commit: func(e, n *entry) (*params, error) { return s.bound(e, n, alias) },
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		s.lostOwnership(l, err)
		return err
	}
	s.tails.owned(e, l.Epoch) // also when the reply to an earlier Bind was lost
	return nil
}

// rename decides a Bind. A run without a conversation opens one.
func rename(n *entry, epoch runregistry.Epoch, alias runregistry.ConversationID) error {
	switch err := writable(n, epoch); {
	case err != nil:
		return err
	case n.rec.State.Terminal():
		return runregistry.ErrSettled
	case n.rec.Conversation == alias:
		return errUnchanged
	}
	n.rec.Rename(alias)
	if n.claims.dialogue == "" {
		n.claims.dialogue = newDialogue(n.rec.ID)
	}
	return nil
}

// bound makes the script for a Bind.
func (s *Store) bound(e, n *entry, alias runregistry.ConversationID) (*params, error) {
	id := e.rec.ID
	p := call(bindScript)
	s.claimed(p, n)
	p.key(s.keys.name(id.Partition(), e.rec.Scope, alias)).arg(epochText(e.rec.Epoch))
	if err := p.change(e, n); err != nil {
		return nil, err
	}
	opens := e.claims.dialogue == ""
	return p.arg(flag(opens), flag(n.claims.holding), safetyMillis, s.verb(), s.keys.channel(id)), nil
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
	if err := s.usable(ctx, l.Run); err != nil {
		return nil, err
	}
	t := transition{
		decide: func(n *entry) error {
			if err := writable(n, l.Epoch); err != nil {
				return err
			}
			return n.rec.Settle(end, s.clock.now())
		},
		commit:  s.ended(epochText(l.Epoch), end),
		durable: true,
	}
	e, err := s.move(ctx, l.Run, t)
	if fullServer(err) && s.trimAll(ctx, l.Run) == nil {
		e, err = s.move(ctx, l.Run, t)
	}
	switch {
	case errors.Is(err, runregistry.ErrSettled) && e != nil:
		s.tails.ended(e)
		return e.bequeathed(end), err
	case errors.Is(err, runregistry.ErrNoRun):
		s.tails.disown(l)
		return nil, err
	case err != nil:
		s.lostOwnership(l, err)
		return nil, err
	}
	s.tails.ended(e)
	return e.bequeathed(end), nil
}

// bequeathed is the record of a run that has ended, with what it still claims.
func (e *entry) bequeathed(end *runregistry.Settlement) *runregistry.Record {
	rec, left := e.copied(), e.claims
	left.holding = false
	if end.FreesKey(rec) {
		left.key = runregistry.Digest{}
	}
	rec.Claims = left
	return rec
}

// trimAll makes room on a server that is out of memory and too old to let a
// script write all the same: the end of a run counts more than its frames.
func (s *Store) trimAll(ctx context.Context, id runregistry.RunID) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.clients.calls.Del(ctx, s.keys.frames(id)).Err()
}

// usable is ready for calls about one run.
func (s *Store) usable(ctx context.Context, id runregistry.RunID) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return known(id)
}

// lostOwnership makes the readers of a run here look at Redis again when it is
// no longer ours to write. A run that Redis has lost stays ours.
func (s *Store) lostOwnership(l runregistry.Lease, err error) {
	switch {
	case errors.Is(err, runregistry.ErrFenced), errors.Is(err, runregistry.ErrSettled):
		s.tails.disown(l)
	case errors.Is(err, runregistry.ErrNoRun), errors.As(err, new(*runregistry.GapError)):
		s.tails.doubt(l.Run)
	}
}
