package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// storePoll is how often a reader asks a store again that does not answer.
const storePoll = time.Second

// rideOut waits for a lost store: readers that know us are kept alive, and
// transparent ones for a while, since their SDK would take an end for success.
func (t *tail) rideOut(ctx context.Context, err error) (end tailEnd, over bool) {
	if ctx.Err() != nil || !t.passes(err) {
		return t.readFailed(ctx, err), true
	}
	if !t.h.mayWait(&t.away) && !t.control {
		return t.interrupt(), true
	}
	return t.idle(ctx, storePoll)
}

// idle lets time pass without reading on; the reader is kept alive.
func (t *tail) idle(ctx context.Context, d time.Duration) (end tailEnd, over bool) {
	again := time.NewTimer(d)
	defer again.Stop()
	return t.stay(ctx, nil, again.C, nil)
}

// stay keeps the reader alive until there is news or either time has come;
// over means that the stream ends instead.
func (t *tail) stay(ctx context.Context, news <-chan struct{}, soon, later <-chan time.Time) (end tailEnd, over bool) {
	for {
		select {
		case <-news:
			return 0, false
		case <-soon:
			return 0, false
		case <-later:
			return 0, false
		case <-t.quiet.C:
			if err := t.keepAlive(); err != nil {
				return tailGone, true
			}
		case <-ctx.Done():
			return tailGone, true
		case <-t.ended:
			return t.interrupt(), true
		case <-t.standing.superseded:
			return t.interrupt(), true
		case <-t.h.deps.Engine.draining:
			return t.interrupt(), true
		}
	}
}

// passes reports whether an error may be over in a moment: the store is away,
// or it came back empty and the owner has not written the run again.
func (t *tail) passes(err error) bool {
	if errors.Is(err, runregistry.ErrUnavailable) {
		return true
	}
	if !errors.Is(err, runregistry.ErrNoRun) || t.h.deps.Engine.keeper == nil || t.state.Terminal() || t.rec.State.Terminal() {
		return false
	}
	if t.missing.IsZero() {
		t.missing = time.Now()
	}
	return time.Since(t.missing) < t.h.deps.Engine.sharing.Lease
}

// answered notes that the store did.
func (t *tail) answered() { t.away, t.missing = time.Time{}, time.Time{} }

// mayWait reports whether a transparent reader still waits for a store that did
// not answer; since is when that began, and is set if need be.
func (h *Handler) mayWait(since *time.Time) bool {
	if since.IsZero() {
		*since = time.Now()
	}
	return time.Since(*since) < h.deps.Engine.sharing.Grace
}

// load reads the record. Like a page it is waited for while the store is away:
// a stream that ends just then must not end as if it had broken.
func (t *tail) load(ctx context.Context) (rec *runregistry.Record, end tailEnd, over bool) {
	for {
		rec, err := t.h.deps.Engine.store.Load(ctx, t.rec.ID)
		if err == nil {
			t.answered()
			return rec, 0, false
		}
		if end, over := t.rideOut(ctx, err); over {
			return nil, end, true
		}
	}
}

// interrupt ends an unfinished stream so that the reader comes back: cleanly
// after a retry hint where the reader knows us, by an abort elsewhere.
func (t *tail) interrupt() tailEnd {
	if !t.control {
		return tailAborted
	}
	if t.form == formSSE {
		t.send([]byte(retryHint(retryAfterDrain) + "\n")) //nolint:errcheck // it ends anyway
	}
	return tailInterrupted
}

// readFailed ends a stream whose log cannot be read on.
func (t *tail) readFailed(ctx context.Context, err error) tailEnd {
	switch {
	case ctx.Err() != nil:
		return tailGone
	case errors.Is(err, runregistry.ErrExpired):
		return t.expired(ctx)
	case errors.Is(err, runregistry.ErrNoRun) && t.rec.State.Terminal() && !time.Now().Before(t.rec.ExpiresAt):
		t.rec.FirstSeq = 0 // the record went too
		return t.expire(t.after+1, expiryReason(t.rec))
	case errors.Is(err, runregistry.ErrNoRun) && t.control:
		return tailInterrupted // deleted: the next request is answered like an unknown run
	case errors.Is(err, runregistry.ErrNoRun):
		return tailAborted
	default:
		return t.interrupt()
	}
}

const (
	retryDefault    = 2 * time.Second
	retryAfterDrain = 2 * time.Second
	retryStore      = 5 * time.Second
)

// retryHint is a retry field with a quarter of jitter, so that the readers of
// one gateway do not come back all at once.
func retryHint(d time.Duration) string {
	jitter := time.Duration(rand.Int64N(int64(d)/2)) - d/4 //nolint:gosec // not a secret
	return fmt.Sprintf("retry: %d\n", (d + jitter).Milliseconds())
}
