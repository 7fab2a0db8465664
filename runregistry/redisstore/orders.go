package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Orders implements [runregistry.Leaser]. The channel is closed when ctx ends.
func (s *Store) Orders(ctx context.Context) <-chan runregistry.RunID {
	by, _ := s.me()
	o := &orders{store: s, runs: make(chan runregistry.RunID, ordersWaiting)}
	s.working.Go(func() {
		defer o.close()
		o.take(ctx, s.keys.owner(by))
	})
	return o.runs
}

// ordersWaiting bounds the orders that nobody has taken yet. What does not fit
// is told again by the next append or renewal.
const ordersWaiting = 256

// orders hears the channel of this instance.
type orders struct {
	store *Store

	mu     sync.Mutex // guards everything below
	runs   chan runregistry.RunID
	closed bool
}

func (o *orders) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	close(o.runs)
}

// take listens until the context ends or the store closes. A server that is
// down is asked again: the subscription lasts until its deadline each time.
func (o *orders) take(ctx context.Context, channel string) {
	for ctx.Err() == nil {
		limit, cancel := o.store.deadline(ctx)
		leave, err := o.store.subs.subscribe(limit, ownersLane, channel, o)
		cancel()
		switch {
		case err == nil:
			select {
			case <-ctx.Done():
			case <-o.store.done:
			}
			leave()
			return
		case errors.Is(err, errClosed):
			return
		}
	}
}

// message implements [listener].
func (o *orders) message(text string) {
	id := runregistry.RunID(text)
	o.store.tails.doubt(id)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	select {
	case o.runs <- id:
	default:
	}
}

// gap implements [listener]: appends and renewals tell it again.
func (o *orders) gap() {}
