package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var (
	errClosed    = errors.New("store is closed")
	errContest   = errors.New("other instances kept changing it")
	errReplicas  = errors.New("too few replicas acknowledged")
	errTakenOver = errors.New("another instance took it over")
	errReply     = errors.New("script gave an unexpected reply")
)

// unavailable turns any trouble with Redis into the one error that callers
// branch on. When ctx has ended its cause is told too.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", runregistry.ErrUnavailable, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w", runregistry.ErrUnavailable, err)
}

// outcome turns the word of a reply into an error; nil for "ok" and for words
// that only some callers know.
func outcome(word string) error {
	switch word {
	case "gone":
		return runregistry.ErrNoRun
	case "fenced":
		return runregistry.ErrFenced
	case "settled":
		return runregistry.ErrSettled
	case "taken":
		return runregistry.ErrTaken
	case "waits":
		return runregistry.ErrInLine
	case "live":
		return runregistry.ErrLeaseLive
	}
	return nil
}
