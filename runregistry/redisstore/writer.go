package redisstore

import (
	"context"
	"fmt"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A writer sends the appends of many runs together: whatever arrives while one
// pipeline is under way goes with the next. It never waits for more to come.
type writer struct {
	store *Store
	queue chan *appending
}

// appending is one append on its way.
type appending struct {
	call *params
	done chan struct{}
	said reply
	err  error
}

const (
	// queued bounds the appends that wait. One run has one at a time, and each
	// is bounded by its owner.
	queued = 4096
	// together bounds one pipeline.
	together = 256
	// bytesTogether bounds the frames of one pipeline, as far as whole appends
	// allow.
	bytesTogether = 1 << 20
	// clusterLanes are writers in a Cluster, so that one server in trouble does
	// not delay all runs.
	clusterLanes = 8
)

func appendLanes(o *Options) int {
	if o.Cluster {
		return clusterLanes
	}
	return 1
}

func newWriter(s *Store) *writer {
	return &writer{store: s, queue: make(chan *appending, queued)}
}

// write hands an append over and waits for its outcome. When ctx ends first the
// append may still be carried out.
func (w *writer) write(ctx context.Context, p *params) (reply, error) {
	a := &appending{call: p, done: make(chan struct{})}
	select {
	case w.queue <- a:
	case <-ctx.Done():
		return nil, unavailable(ctx, ctx.Err())
	case <-w.store.done:
		return nil, unavailable(ctx, errClosed)
	}
	select {
	case <-a.done:
		return a.said, a.err
	case <-ctx.Done():
		return nil, unavailable(ctx, ctx.Err())
	case <-w.store.done:
		return nil, unavailable(ctx, errClosed)
	}
}

// run sends until the store closes.
func (w *writer) run() {
	for {
		select {
		case <-w.store.done:
			return
		case a := <-w.queue:
			w.send(w.gather(a))
		}
	}
}

// gather takes what waits behind the first.
func (w *writer) gather(first *appending) []*appending {
	batch, size := []*appending{first}, first.call.size()
	for len(batch) < together && size < bytesTogether {
		select {
		case a := <-w.queue:
			batch, size = append(batch, a), size+a.call.size()
		default:
			return batch
		}
	}
	return batch
}

func (w *writer) send(batch []*appending) {
	calls := make([]*params, len(batch))
	for i, a := range batch {
		calls[i] = a.call
	}
	replies, errs := w.store.evalAll(context.Background(), w.store.clients.appends, calls)
	for i, a := range batch {
		a.said, a.err = replies[i], errs[i]
		close(a.done)
	}
}

// size is about how many bytes a call sends.
func (p *params) size() int {
	n := 0
	for _, a := range p.args {
		switch v := a.(type) {
		case []byte:
			n += len(v)
		case string:
			n += len(v)
		}
	}
	return n
}

// Append implements [runregistry.Writer].
func (s *Store) Append(ctx context.Context, l runregistry.Lease, b *runregistry.Batch) (runregistry.Appended, error) {
	done, err := s.append(ctx, l, b)
	if err != nil {
		s.lostOwnership(l, err)
		return done, fmt.Errorf("appending to %s: %w", l.Run, err)
	}
	return done, nil
}
