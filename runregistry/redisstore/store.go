package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// safety is how long the keys of an active run live without anybody renewing
// them. It is long enough for a night without any gateway, and ends what a
// crash of everything leaves behind.
const safety = 7 * 24 * time.Hour

// defaultLease is the lease of a store whose owner named none.
const defaultLease = 15 * time.Second

// Store is the Redis engine.
type Store struct {
	opts    Options
	keys    keyspace
	clients clients
	clock   clock
	writers []*writer
	subs    *subscriptions
	tails   *tails
	looks   looks

	mu    sync.Mutex // guards everything below
	by    runregistry.InstanceID
	lease time.Duration

	checking sync.Once // the server's settings
	kick     chan struct{}
	done     chan struct{} // closed by Close
	closing  sync.Once
	working  sync.WaitGroup
}

var (
	_ runregistry.Store  = (*Store)(nil)
	_ runregistry.Leaser = (*Store)(nil)
)

// Open returns a store. It checks the options and does not connect: a server
// that is down is [runregistry.ErrUnavailable] for each call until it is there.
// The caller must close the store.
func Open(o Options) (*Store, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("opening Redis store: %w", err)
	}
	s := &Store{
		opts: o, keys: keyspace{o.KeyPrefix}, clients: newClients(&o),
		by: runregistry.NewInstanceID(), lease: defaultLease,
		kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.tails = newTails(&s.clock)
	s.subs = newSubscriptions(s.clients.subs, o.Cluster)
	for range appendLanes(&o) {
		w := newWriter(s)
		s.writers = append(s.writers, w)
		s.working.Go(w.run)
	}
	s.working.Go(s.keep)
	return s, nil
}

// Close ends the store; what it kept stays in Redis. Calls that follow get
// [runregistry.ErrUnavailable], and watchers are woken to find that out. It
// returns when no goroutine of the store is left, and may be called again.
func (s *Store) Close() {
	s.closing.Do(func() {
		close(s.done)
		s.subs.close()
		s.clients.close()
		s.tails.wakeAll()
	})
	s.working.Wait()
	s.tails.rest()
}

// Hold implements [runregistry.Leaser].
func (s *Store) Hold(by runregistry.InstanceID, lease time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by, s.lease = by, lease
}

// me returns on whose behalf the store writes, and for how long.
func (s *Store) me() (runregistry.InstanceID, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by, s.lease
}

// ready reports why the store may not be used, if so, and learns the server's
// time before the first decision.
func (s *Store) ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return unavailable(ctx, ctx.Err())
	}
	select {
	case <-s.done:
		return unavailable(ctx, errClosed)
	default:
	}
	if s.clock.known.Load() {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	sent := time.Now()
	t, err := s.clients.calls.Time(ctx).Result()
	if err != nil {
		return unavailable(ctx, err)
	}
	s.clock.observe(sent, t.UnixMicro())
	s.checking.Do(func() { s.check(ctx) })
	return nil
}

// deadline bounds a call. The client looks at deadlines only: a context that is
// cancelled does not interrupt it.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.opts.Timeout)
}

// check warns about a server that may throw claims away.
func (s *Store) check(ctx context.Context) {
	policy, err := s.clients.calls.ConfigGet(ctx, "maxmemory-policy").Result()
	switch {
	case err != nil:
		s.opts.Log.Warn("cannot read maxmemory-policy of Redis; it must be noeviction")
	case policy["maxmemory-policy"] != "noeviction":
		s.opts.Log.Warn("Redis may evict runs and their claims; set maxmemory-policy to noeviction")
	}
}

// verb is the command that publishes within a partition.
func (s *Store) verb() string {
	if s.opts.Cluster {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// load reads a run. It returns [runregistry.ErrNoRun] for one that is not
// there.
func (s *Store) load(ctx context.Context, id runregistry.RunID) (*entry, error) {
	entries, err := s.loadAll(ctx, []runregistry.RunID{id})
	switch {
	case err != nil:
		return nil, err
	case entries[0] == nil:
		return nil, runregistry.ErrNoRun
	}
	return entries[0], nil
}

// loadAll reads runs in one round trip; nil stands for those that are not
// there.
func (s *Store) loadAll(ctx context.Context, ids []runregistry.RunID) ([]*entry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	pipe := s.clients.calls.Pipeline()
	cmds := make([]*redis.MapStringStringCmd, len(ids))
	asked := make([]question, len(ids))
	for i, id := range ids {
		asked[i] = s.tails.asking(id)
		cmds[i] = pipe.HGetAll(ctx, s.keys.run(id))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable(ctx, err)
	}
	entries, err := s.parseAll(ids, cmds)
	for i, e := range entries {
		if e != nil {
			e.asked = asked[i]
		}
	}
	return entries, err
}

func (s *Store) parseAll(ids []runregistry.RunID, cmds []*redis.MapStringStringCmd) ([]*entry, error) {
	now := s.clock.now()
	entries := make([]*entry, len(ids))
	for i, cmd := range cmds {
		e, err := parseEntry(ids[i], cmd.Val(), now)
		switch {
		case err == nil:
			entries[i] = e
		case e == nil: // what cannot be read is not there, but not for want of Redis
			return nil, fmt.Errorf("%w: %w", runregistry.ErrUnavailable, err)
		}
	}
	return entries, nil
}

// known reports whether an id may be looked up at all: others have no
// partition.
func known(id runregistry.RunID) error {
	if _, err := runregistry.ParseRunID(string(id)); err != nil {
		return runregistry.ErrNoRun
	}
	return nil
}
