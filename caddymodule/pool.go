package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// engines holds one engine per store for all configurations of this process.
// On a reload the new configuration takes its reference before the old one
// gives its own back, so the engine, its runs and their readers stay.
var engines = newEnginePool()

// metrics count for the whole life of the process; each configuration brings a
// new registry.
var metrics = proxy.NewMetrics()

// storeKey tells stores apart: two configurations with equal keys share one.
type storeKey struct{ kind string }

func (s Store) key() storeKey {
	if s.Kind == "" {
		return storeKey{"embedded"}
	}
	return storeKey{s.Kind}
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
		return nil, fmt.Errorf("store %s cannot replace store %s, which holds runs: wait until they have expired, or restart", key.kind, other.key.kind)
	}
	v, _, err := p.usage.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &sharedEngine{key: key, memory: store.memory(), log: newFollowingLog()}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("taking the engine of store %s: %w", key.kind, err)
	}
	shared, ok := v.(*sharedEngine)
	if !ok {
		return nil, fmt.Errorf("taking the engine of store %s: got a %T", key.kind, v)
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
	key storeKey
	log *followingLog

	mu     sync.Mutex // guards everything below
	memory Size
	engine *proxy.Engine
	store  *embeddedstore.Store
	closed bool
}

// errClosed means that the engine was closed because nobody needed it.
var errClosed = errors.New("store is closed")

// adopt makes a configuration that starts the one whose settings count.
func (s *sharedEngine) adopt(memory Size, log *slog.Logger) {
	s.log.follow(log)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = memory
	if s.store != nil {
		s.store.SetMemory(int64(memory))
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
		s.store = embeddedstore.New(embeddedstore.Options{Memory: int64(s.memory)})
		s.engine = proxy.NewEngine(s.store, s.log.Logger, metrics)
	}
	return s.engine, nil
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
	return s.store != nil && !s.closed && s.store.Used() > 0
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
