package caddymodule

import (
	"log/slog"
	"strings"
	"testing"
)

// TestLogFollowsTheNewestConfiguration: loggers that were derived earlier move
// along, with their attributes and groups.
func TestLogFollowsTheNewestConfiguration(t *testing.T) {
	f := newFollowingLog()
	derived := f.With(slog.String("a", "1")).WithGroup("g").With(slog.String("b", "2"))
	sibling := f.With(slog.String("a", "1")).WithGroup("g").With(slog.String("c", "3"))
	derived.Info("before anybody listens")

	var first, second strings.Builder
	f.follow(plainLog(&first, slog.LevelInfo))
	derived.Info("one", slog.String("x", "y"))
	sibling.Debug("not asked for")
	f.follow(plainLog(&second, slog.LevelDebug))
	derived.Info("two")
	sibling.Debug("three")

	if got, want := first.String(), "level=INFO msg=one a=1 g.b=2 g.x=y\n"; got != want {
		t.Errorf("first log: got %q, want %q", got, want)
	}
	if got, want := second.String(), "level=INFO msg=two a=1 g.b=2\nlevel=DEBUG msg=three a=1 g.c=3\n"; got != want {
		t.Errorf("second log: got %q, want %q", got, want)
	}
}

func plainLog(b *strings.Builder, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}}))
}
