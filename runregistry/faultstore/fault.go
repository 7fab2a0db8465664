package faultstore

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Call names a method of the store.
type Call string

// The calls. Any stands for all of them.
const (
	Any        Call = "any"
	Admit      Call = "admit"
	Intend     Call = "intend"
	Append     Call = "append"
	Bind       Call = "bind"
	Settle     Call = "settle"
	Load       Call = "load"
	Read       Call = "read"
	Watch      Call = "watch"
	Current    Call = "current"
	List       Call = "list"
	ByUpstream Call = "by upstream"
	Stop       Call = "stop"
	Deliver    Call = "deliver"
	Delete     Call = "delete"
	Readers    Call = "readers"
)

// Fault is what happens to one call.
type Fault struct {
	before func(ctx context.Context) error // an error keeps the call from arriving
	after  error                           // returned although the call was carried out
}

// errInjected is what a planned failure wraps.
func errInjected(what string) error {
	return fmt.Errorf("%w: %s on command", runregistry.ErrUnavailable, what)
}

// Fail is a store that cannot be reached: the call is not carried out and
// returns [runregistry.ErrUnavailable].
func Fail() Fault { return FailWith(errInjected("unreachable")) }

// FailWith does not carry the call out and returns err, which may be any
// outcome, [runregistry.ErrFenced] for instance.
func FailWith(err error) Fault {
	return Fault{before: func(context.Context) error { return err }}
}

// LoseReply carries the call out and then returns
// [runregistry.ErrUnavailable]: the caller cannot know what happened.
func LoseReply() Fault { return Fault{after: errInjected("reply lost")} }

// Delay carries the call out after a while, or not at all when the caller does
// not wait that long.
func Delay(d time.Duration) Fault {
	return Fault{before: func(ctx context.Context) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		return wait(ctx, timer.C)
	}}
}

// wait returns when c says something, or an error when the caller gives up.
func wait[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", runregistry.ErrUnavailable, context.Cause(ctx))
	}
}

// Held are calls that wait.
type Held struct {
	// Arrived receives a value for every call that began to wait.
	Arrived <-chan struct{}
	release func()
}

// Release lets all of them go on, and those that follow. It may be called
// again.
func (h *Held) Release() { h.release() }
