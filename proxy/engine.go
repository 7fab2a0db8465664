package proxy

import (
	"context"
	"log/slog"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Engine owns the runs of this process: their pumps, and the store they write
// to. It outlives configurations.
type Engine struct {
	store runregistry.Store
	log   *slog.Logger
}

// NewEngine returns an engine on a store.
func NewEngine(store runregistry.Store, log *slog.Logger) *Engine {
	return &Engine{store: store, log: log}
}

// Drain makes the engine refuse new runs and tell attached readers to come
// back elsewhere.
func (e *Engine) Drain() {}

// Active returns the number of runs that this process owns.
func (e *Engine) Active() int { return 0 }

// Close waits until ctx ends for the runs of this process, stops the rest, and
// returns when no pump is left.
func (e *Engine) Close(ctx context.Context) error { return nil }
