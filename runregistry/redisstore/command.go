package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

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
	if err := s.usable(ctx, id); err != nil {
		return nil, err
	}
	going, ending := s.changed("", true), s.ended("", &runregistry.Settlement{})
	e, err := s.move(ctx, id, transition{
		decide: func(n *entry) error {
			if !n.rec.Stop(why, s.clock.now()) {
				return errUnchanged
			}
			return nil
		},
		commit: func(e, n *entry) (*params, error) {
			if n.rec.State.Terminal() {
				return ending(e, n)
			}
			return going(e, n)
		},
	})
	switch {
	case errors.Is(err, errUnchanged):
		return e.copied(), nil
	case err != nil:
		return nil, err
	case e.rec.State.Terminal():
		s.tails.ended(e)
	default:
		s.tails.changed(e)
	}
	return e.copied(), nil
}

// Deliver implements [runregistry.Commander].
func (s *Store) Deliver(ctx context.Context, id runregistry.RunID, e runregistry.DeliveryEvent) error {
	err := s.usable(ctx, id)
	if err == nil {
		var r reply
		p := call(deliverScript).key(s.keys.run(id), s.keys.op(id.Partition(), newToken())).arg(int(e))
		if r, err = s.evalRoomy(ctx, s.clients.calls, p); err == nil {
			err = outcome(r.word())
		}
	}
	if err != nil {
		return fmt.Errorf("counting delivery of %s: %w", id, err)
	}
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
	if err := s.usable(ctx, id); err != nil {
		return err
	}
	at, op := id.Partition(), newToken()
	for range attempts {
		e, err := s.load(ctx, id)
		switch {
		case err != nil:
			return err
		case e.rec.State.Active():
			return runregistry.ErrRunActive
		}
		p := call(deleteScript)
		s.claimed(p, e)
		p.key(s.keys.op(at, op), s.keys.deleted(id)).arg(e.token, e.rec.KeyExpiresAt().Sub(s.clock.now()).Milliseconds())
		p.arg(flag(e.rec.UpstreamID != ""))
		if e.rec.UpstreamID != "" {
			p.key(s.keys.upstream(at, e.rec.Scope, e.rec.UpstreamID))
		}
		r, err := s.evalRoomy(ctx, s.clients.calls, p.arg(s.verb(), s.keys.channel(id)))
		if err != nil {
			return err
		}
		if word := r.word(); word != "stale" {
			s.tails.gone(id)
			return outcome(word)
		}
	}
	return unavailable(ctx, errContest)
}

// Readers implements [runregistry.Commander].
func (s *Store) Readers(ctx context.Context, id runregistry.RunID) (int, error) {
	n, err := 0, s.usable(ctx, id)
	if err == nil {
		n, err = s.readersElsewhere(ctx, s.clients.calls, id)
	}
	if err != nil {
		return 0, fmt.Errorf("counting readers of %s: %w", id, err)
	}
	return n + s.tails.reading(id), nil
}

// readersElsewhere counts those of all other instances.
func (s *Store) readersElsewhere(ctx context.Context, c redis.Scripter, id runregistry.RunID) (int, error) {
	r, err := s.eval(ctx, c, s.counting(id, -1, 0))
	if err != nil {
		return 0, err
	}
	return int(r.number(2)), outcome(r.word())
}

// counting tells how many readers a run has here; -1 only asks.
func (s *Store) counting(id runregistry.RunID, n int, stamp uint64) *params {
	by, lease := s.me()
	return call(readersScript).key(s.keys.run(id), s.keys.readers(id)).
		arg(string(by), n, stamp, lease.Milliseconds(), s.verb(), s.keys.channel(id))
}
