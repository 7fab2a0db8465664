package redisstore

import (
	"context"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// intended makes the script for a dispatch intent. A run that waits in line
// gets the conversation with it.
func (s *Store) intended(epoch string) func(e, n *entry) (*params, error) {
	changed := s.changed(epoch, false)
	return func(e, n *entry) (*params, error) {
		if !e.rec.Lined {
			return changed(e, n)
		}
		id := e.rec.ID
		p := call(turnScript).key(s.keys.run(id), s.keys.holders(id.Partition(), e.claims.dialogue)).arg(epoch)
		if err := p.change(e, n); err != nil {
			return nil, err
		}
		return p.arg(s.verb(), s.keys.channel(id)), nil
	}
}

// stand makes a run of this instance hear when its turn may have come. What is
// not heard is found by asking again.
func (s *Store) stand(ctx context.Context, id runregistry.RunID) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	t := s.tails.get(id)
	if t == nil {
		return
	}
	leave, err := s.subs.subscribe(ctx, lane(id, s.opts.Cluster), s.keys.channel(id), &caller{t})
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = leave
}

// stepUpLocked ends that; t.mu must be held.
func (ts *tails) stepUpLocked(t *tail) {
	if t.line != nil {
		ts.part(t.line)
		t.line = nil
	}
}

// caller wakes those who watch a run of this instance that waits in line. What
// the store knows of the run it knows from itself.
type caller struct{ tail *tail }

// message implements [listener].
func (c *caller) message(string) { c.gap() }

// gap implements [listener].
func (c *caller) gap() {
	c.tail.mu.Lock()
	defer c.tail.mu.Unlock()
	c.tail.wakeLocked()
}
