package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// engines holds one engine per store for all configurations of this process.
// On a reload the new configuration takes its reference before the old one
// gives its own back, so the engine, its runs and their readers stay.
var engines = newEnginePool()

// metrics count for the whole life of the process; each configuration brings a
// new registry.
var metrics = proxy.NewMetrics()

// storeKey tells stores apart: two configurations with equal keys share one.
type storeKey struct {
	kind  string
	place string // where it is, if there may be more than one of its kind
}

func (s Store) key() storeKey {
	kind := cmp.Or(s.Kind, storeEmbedded)
	return storeKey{kind: kind, place: cmp.Or(s.directory(), s.Redis.place())}
}

// String returns the key in words. It has no credentials.
func (k storeKey) String() string {
	return strings.TrimSpace(k.kind + " " + k.place)
}

// backing is an open store of any kind.
type backing interface {
	runregistry.Store
	Close()
}

// enginePool counts who needs an engine: configurations, and the runs that
// outlive theirs.
type enginePool struct {
	usage    *caddy.UsagePool
	retiring sync.WaitGroup
}

func newEnginePool() *enginePool { return &enginePool{usage: caddy.NewUsagePool()} }

// acquire returns the engine of a store and takes a reference to it. It opens
// nothing. It refuses when another store holds runs, since those would be lost
// to their clients.
func (p *enginePool) acquire(store Store) (*sharedEngine, error) {
	key := store.key()
	if other := p.occupied(key); other != nil {
		return nil, fmt.Errorf("store %s cannot replace store %s, which holds runs: wait until they have expired, or restart", key, other.key)
	}
	v, _, err := p.usage.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &sharedEngine{key: key, config: store, sharing: proxy.DefaultSharing(), log: newFollowingLog()}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("taking the engine of store %s: %w", key, err)
	}
	shared, ok := v.(*sharedEngine)
	if !ok {
		return nil, fmt.Errorf("taking the engine of store %s: got a %T", key, v)
	}
	return shared, nil
}

// occupied returns another store that holds runs, or nil.
func (p *enginePool) occupied(key storeKey) (other *sharedEngine) {
	p.usage.Range(func(_, v any) bool {
		if s, ok := v.(*sharedEngine); ok && s.key != key && s.occupied() {
			other = s
		}
		return other == nil
	})
	return other
}

// release gives a reference back and returns at once. The last configuration
// passes its reference on to the runs that are still under way; wait is how
// long they may go on when the process exits.
func (p *enginePool) release(s *sharedEngine, wait time.Duration) {
	if n, _ := p.usage.References(s.key); n > 1 || !s.opened() {
		p.forget(s)
		return
	}
	p.retiring.Go(func() {
		s.outlive(wait)
		p.forget(s)
	})
}

func (p *enginePool) forget(s *sharedEngine) {
	if _, err := p.usage.Delete(s.key); err != nil {
		s.log.Warn("closing a store failed", slog.Any("error", err))
	}
}

// Close waits for the engines that no configuration refers to any more.
func (p *enginePool) Close() { p.retiring.Wait() }

// sharedEngine is the engine of one store. It is empty until it is opened.
type sharedEngine struct {
	key   storeKey
	log   *followingLog
	rules rulebook

	mu      sync.Mutex // guards everything below
	config  Store      // of the configuration whose settings count
	sharing proxy.Sharing
	engine  *proxy.Engine
	store   backing
	closed  bool
}

// errClosed means that the engine was closed because nobody needed it.
var errClosed = errors.New("store is closed")

// prepare takes the settings of a configuration that may be the first to open
// the store; an open one keeps its own.
func (s *sharedEngine) prepare(sharing proxy.Sharing, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		s.sharing = sharing
		s.log.follow(log)
	}
}

// adopt makes a configuration that runs now the one whose settings count.
func (s *sharedEngine) adopt(config Store, sharing proxy.Sharing, log *slog.Logger) {
	s.log.follow(log)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != nil && (s.sharing != sharing || s.config.restarts(config.Redis)) {
		log.Warn("lease, store_grace, store_memory, and pool_size, durability and tls of a store change with a restart, not with a reload")
	}
	s.config = config
	if store, ok := s.store.(*embeddedstore.Store); ok {
		store.SetMemory(int64(config.memory()))
	}
}

// open returns the engine and opens its store on first use.
func (s *sharedEngine) open() (*proxy.Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.engine == nil:
		store, err := s.newStore()
		if err != nil {
			return nil, err
		}
		s.store = store
		s.engine = proxy.NewEngine(s.store, s.log.Logger, metrics)
		s.engine.Share(s.sharing)
	}
	return s.engine, nil
}

// newStore opens the store; s.mu must be held. Nothing is waited for: a Redis
// that is down, or a directory that another process has, answers 503 until it is
// there.
func (s *sharedEngine) newStore() (backing, error) {
	if s.key.kind != storeRedis {
		store := embeddedstore.New(embeddedstore.Options{
			Memory: int64(s.config.memory()), Path: s.config.directory(), Log: s.log.Logger,
		})
		store.Open()
		return store, nil
	}
	o := s.config.opts
	o.Credentials, o.SentinelCredentials, o.Log = s.credentials, s.sentinelCredentials, s.log.Logger
	return redisstore.Open(o)
}

// credentials are those of the newest configuration: a reload may change them.
func (s *sharedEngine) credentials() (user, password string, err error) {
	return s.redis().opts.Credentials.Ask()
}

func (s *sharedEngine) sentinelCredentials() (user, password string, err error) {
	return s.redis().opts.SentinelCredentials.Ask()
}

func (s *sharedEngine) redis() Redis {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config.Redis
}

// secret returns the signing key of sessions, which all gateways of one store
// share: from Redis, else from Caddy's storage.
func (s *sharedEngine) secret(storage certmagic.Storage) ([]byte, error) {
	s.mu.Lock()
	redis, ok := s.store.(*redisstore.Store)
	s.mu.Unlock()
	if !ok {
		return storedSecret(storage)
	}
	secret, err := redis.Secret(context.Background(), "session", newSecret)
	return secret, wrapSecret(err)
}

// opened reports whether there is anything to close.
func (s *sharedEngine) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine != nil && !s.closed
}

// occupied reports whether runs would be lost with the store.
func (s *sharedEngine) occupied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil || s.closed {
		return false
	}
	if store, ok := s.store.(*embeddedstore.Store); ok {
		return store.Used() > 0
	}
	return s.engine.Active() > 0 || s.engine.Retained() // in Redis, where the other store does not look
}

// drain tells readers to come back and refuses new runs.
func (s *sharedEngine) drain() {
	if engine, err := s.open(); err == nil {
		engine.Drain()
	}
}

// retirePoll is how often an engine without a configuration looks whether its
// runs have ended or the process exits: Caddy tells a module nothing more once
// its configuration is gone.
const retirePoll = 250 * time.Millisecond

// outlive waits for the runs of an engine that no configuration refers to. The
// readers of an exiting process are told to leave, because Caddy waits for
// them.
func (s *sharedEngine) outlive(wait time.Duration) {
	engine, err := s.open()
	if err != nil {
		return
	}
	tick := time.NewTicker(retirePoll)
	defer tick.Stop()
	for engine.Active() > 0 {
		<-tick.C
		if caddy.Exiting() {
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			if err := s.close(ctx); err != nil {
				s.log.Warn("closing a store failed", slog.Any("error", err))
			}
			return
		}
	}
}

// Destruct implements caddy.Destructor. A request of the old configuration may
// have started a run a moment ago: that one is waited for.
func (s *sharedEngine) Destruct() error { return s.close(context.Background()) }

// close waits for the runs until ctx ends, stops the rest, and closes the
// store. It may be called more than once.
func (s *sharedEngine) close(ctx context.Context) error {
	s.mu.Lock()
	engine, store, closed := s.engine, s.store, s.closed
	s.closed = true
	s.mu.Unlock()
	if engine == nil || closed {
		return nil
	}
	err := engine.Close(ctx)
	store.Close()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("closing engine: %w", err)
	}
	return nil
}
