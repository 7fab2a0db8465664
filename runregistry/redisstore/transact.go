package redisstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// attempts bounds how often a transition is decided anew because somebody else
// was first. With n contenders one of them gets through in every round.
const attempts = 1000

// transition is how a run moves: decide changes a copy of what was read, or says
// why not, and commit makes the script that writes it down.
type transition struct {
	decide func(n *entry) error
	commit func(e, n *entry) (*params, error)
	// durable waits for replicas, if the options say so.
	durable bool
}

// move reads a run, decides, and commits, until nobody came between. A reply
// that was lost is no failure if the run carries our own token. What decide
// said, it returns with the run as it is.
func (s *Store) move(ctx context.Context, id runregistry.RunID, t transition) (*entry, error) {
	tokens := make(map[string]bool)
	for range attempts {
		e, err := s.load(ctx, id)
		if err != nil {
			return nil, err
		}
		if tokens[e.token] {
			return e, nil
		}
		n := e.next()
		if err := t.decide(n); err != nil {
			return e, err
		}
		p, err := t.commit(e, n)
		if err != nil {
			return nil, err
		}
		tokens[n.token] = true
		r, err := s.commit(ctx, p, t.durable)
		if err != nil {
			return nil, err
		}
		if word := r.word(); word != "stale" {
			return n, outcome(word)
		}
	}
	return nil, unavailable(ctx, errContest)
}

func (s *Store) commit(ctx context.Context, p *params, durable bool) (reply, error) {
	roomy := func(c redis.Scripter) (reply, error) { return s.evalRoomy(ctx, c, p) }
	if durable {
		return s.durable(ctx, p, roomy)
	}
	return roomy(s.clients.calls)
}

// writable reports why the holder of an epoch may not write, if so.
func writable(e *entry, epoch runregistry.Epoch) error {
	if e.rec.Epoch != epoch {
		return runregistry.ErrFenced
	}
	return nil
}

// errUnchanged ends a transition that has nothing to change.
var errUnchanged = errors.New("nothing to change")

// changed makes the script for a run that goes on.
func (s *Store) changed(epoch string, tellOwner bool) func(e, n *entry) (*params, error) {
	return func(e, n *entry) (*params, error) {
		id := e.rec.ID
		p := call(changeScript).key(s.keys.run(id)).arg(epoch)
		if err := p.change(e, n); err != nil {
			return nil, err
		}
		return p.arg(s.verb(), s.keys.channel(id), flag(tellOwner), s.keys.owners()), nil
	}
}

// ended makes the script for a run that ends.
func (s *Store) ended(epoch string, end *runregistry.Settlement) func(e, n *entry) (*params, error) {
	return func(e, n *entry) (*params, error) {
		n.claims.holding = false
		p := call(settleScript)
		s.claimed(p, n)
		p.arg(epoch, uint64(e.rec.LastSeq))
		if err := p.change(e, n); err != nil {
			return nil, err
		}
		p.ending(n, n.rec.EndedAt, end.FreesKey(&n.rec))
		s.upstream(p, e.rec.UpstreamID, n)
		return p.arg(s.verb(), s.keys.channel(e.rec.ID)), nil
	}
}

func epochText(e runregistry.Epoch) string { return strconv.FormatUint(uint64(e), 10) }
