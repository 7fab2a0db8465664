package redisstore

import (
	"context"
	"fmt"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Watch implements [runregistry.Reader]. The runs of other instances are
// subscribed to before it returns, so that whoever reads next misses nothing.
func (s *Store) Watch(ctx context.Context, id runregistry.RunID, reading bool) (*runregistry.Watch, error) {
	w, err := s.watch(ctx, id, reading)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", id, err)
	}
	return w, nil
}

func (s *Store) watch(ctx context.Context, id runregistry.RunID, reading bool) (*runregistry.Watch, error) {
	if err := s.usable(ctx, id); err != nil {
		return nil, err
	}
	t, w, n, stamp := s.tails.join(id, reading)
	watch := runregistry.NewWatch(w.c, func() { s.unwatch(id, w) })
	if err := s.follow(ctx, t); err != nil {
		watch.Close()
		return nil, err
	}
	if !reading {
		n = -1
	}
	asked := t.asking()
	r, err := s.evalRoomy(ctx, s.clients.calls, s.counting(id, n, stamp))
	if err == nil {
		err = outcome(r.word())
	}
	if err != nil {
		watch.Close()
		return nil, err
	}
	t.learn(parseStanding(r[3:]), asked)
	return watch, nil
}

func (s *Store) unwatch(id runregistry.RunID, w *watcher) {
	s.tails.leave(id, w)
	s.kickKeeper()
}

// follow subscribes to a run of another instance, if that was not done.
func (s *Store) follow(ctx context.Context, t *tail) error {
	t.mu.Lock()
	own := t.epoch != 0 || t.leave != nil
	t.mu.Unlock()
	if own {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	leave, err := s.subs.subscribe(ctx, lane(t.id, s.opts.Cluster), s.keys.channel(t.id), &follower{t})
	if err != nil {
		return unavailable(ctx, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leave != nil { // somebody else was faster
		s.tails.part(leave)
		return nil
	}
	t.leave = leave
	return nil
}

// kickKeeper makes the keeper tell Redis that somebody left.
func (s *Store) kickKeeper() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
