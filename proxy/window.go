package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// errStoreDown means that the frames of a run no longer fit into memory while
// the store was away.
var errStoreDown = errors.New("store was away for too long")

// errLogLost means that the store lost frames which no longer are in the
// owner's window.
var errLogLost = errors.New("stored frames were lost")

const (
	// windowBytes is how much of what was stored last an owner of a shared store
	// keeps, to put it back after a failover that lost it.
	windowBytes = 64 << 10
	// unstoredBytes is how much one run may hold while its store is away.
	unstoredBytes = 4 << 20
	// storeRetry is how often an owner tries again to store what waits.
	storeRetry = 200 * time.Millisecond
)

// window is the newest stored part of a log, as its owner keeps it.
type window struct {
	last   runregistry.Seq // number of the newest frame in it
	frames [][]byte
	bytes  int
}

// add takes frames that were just stored; their memory is copied.
func (w *window) add(last runregistry.Seq, frames [][]byte) {
	w.last = last
	for _, f := range frames {
		w.frames = append(w.frames, slices.Clone(f))
		w.bytes += len(f)
	}
	drop := 0
	for w.bytes > windowBytes && drop < len(w.frames)-1 {
		w.bytes -= len(w.frames[drop])
		w.frames[drop] = nil
		drop++
	}
	w.frames = w.frames[drop:]
}

// after returns the frames after a position, if the window reaches back to it.
func (w *window) after(seq runregistry.Seq) ([][]byte, bool) {
	missing := w.last - seq
	if seq > w.last || missing > runregistry.Seq(len(w.frames)) {
		return nil, false
	}
	return w.frames[len(w.frames)-int(missing):], true
}

// all is the window as a batch that starts where it does.
func (w *window) all() runregistry.Batch {
	return runregistry.Batch{After: w.last - runregistry.Seq(len(w.frames)), Frames: w.frames}
}

// store appends the batch; p.mu must be held. While the store is away the
// batch waits and grows; a store that lost something of the run gets it back
// first.
func (p *pump) store() error {
	b := &p.batch.sent
	*b = runregistry.Batch{After: p.last, Frames: p.batch.frames}
	if p.batch.changed {
		b.Progress = &p.batch.progress
	}
	if p.join.position != p.join.stored {
		b.Position = p.join.position
	}
	appended, err := p.engine.store.Append(p.storeCtx, p.lease, b)
	if err != nil {
		appended, err = p.appendMended(b, err)
	}
	switch {
	case errors.Is(err, runregistry.ErrUnavailable):
		return p.hold()
	case err != nil:
		p.over = true
		return fmt.Errorf("appending to %s: %w", p.lease.Run, err)
	}
	p.unhold()
	if appended.Stopping {
		b.Frames = nil // they came too late
		p.haltLocked(nil)
	}
	p.committed(max(appended.Last, p.last), b)
	p.compare(appended.Revision)
	return nil
}

// hold keeps the batch for the next try. When memory is full the run ends, and
// what waits is stored with its end; p.mu must be held.
func (p *pump) hold() error {
	size := len(p.batch.buf)
	p.engine.unstored.Add(int64(size - p.held))
	p.held = size
	full := size > unstoredBytes || p.engine.unstored.Load() > p.engine.sharing.Memory
	p.stuck = true
	if full && len(p.batch.frames) > 1 && !p.over {
		p.cancel(errStoreDown)
		return errStoreDown
	}
	switch {
	case p.over: // flush tries again by itself
	case p.retry == nil:
		p.retry = time.AfterFunc(storeRetry, p.storeAgain)
	default:
		p.retry.Reset(storeRetry)
	}
	return nil
}

func (p *pump) unhold() {
	p.stuck = false
	p.engine.unstored.Add(-int64(p.held))
	p.held = 0
}

// storeAgain tries to store what waits.
func (p *pump) storeAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || !p.stuck {
		return
	}
	if err := p.store(); err != nil && !errors.Is(err, errStoreDown) {
		p.cancel(errLost)
	}
}

// flush stores what waits before the run is settled. It gives up when the
// process does.
func (p *pump) flush(ctx context.Context) error {
	for {
		if waiting, err := p.flushNow(); err != nil || !waiting {
			return err
		}
		if rest(ctx, storeRetry); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// flushNow tries once, and reports whether something still waits.
func (p *pump) flushNow() (waiting bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stuck {
		return false, nil
	}
	err = p.store()
	return p.stuck, err
}
