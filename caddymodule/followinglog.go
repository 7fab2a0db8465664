package caddymodule

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// followingLog is a logger that outlives configurations. What a run logs at its
// end goes to the log of the newest configuration, for the outputs of the one
// it was started under may be closed by then.
type followingLog struct {
	*slog.Logger
	target *atomic.Pointer[slog.Handler]
}

// newFollowingLog returns a log that discards until it follows somebody.
func newFollowingLog() *followingLog {
	target := new(atomic.Pointer[slog.Handler])
	nowhere := slog.DiscardHandler
	target.Store(&nowhere)
	return &followingLog{Logger: slog.New(&followingHandler{target: target}), target: target}
}

// follow makes log the destination.
func (f *followingLog) follow(log *slog.Logger) {
	h := log.Handler()
	f.target.Store(&h)
}

// followingHandler looks its destination up for each record. The attributes
// and groups of derived loggers are kept as steps, since they have to be
// repeated on every new destination.
type followingHandler struct {
	target *atomic.Pointer[slog.Handler]
	steps  []func(slog.Handler) slog.Handler
}

func (f *followingHandler) current() slog.Handler {
	h := *f.target.Load()
	for _, step := range f.steps {
		h = step(h)
	}
	return h
}

// Enabled implements slog.Handler.
func (f *followingHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (*f.target.Load()).Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (f *followingHandler) Handle(ctx context.Context, r slog.Record) error {
	return f.current().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (f *followingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return f.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (f *followingHandler) WithGroup(name string) slog.Handler {
	return f.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (f *followingHandler) with(step func(slog.Handler) slog.Handler) slog.Handler {
	steps := make([]func(slog.Handler) slog.Handler, 0, len(f.steps)+1)
	return &followingHandler{target: f.target, steps: append(append(steps, f.steps...), step)}
}

var _ slog.Handler = (*followingHandler)(nil)
