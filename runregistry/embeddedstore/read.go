package embeddedstore

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Load implements [runregistry.Reader].
func (s *Store) Load(ctx context.Context, id runregistry.RunID) (*runregistry.Record, error) {
	var rec *runregistry.Record
	r, err := s.find(ctx, id)
	if err == nil {
		rec, err = r.snapshot()
	}
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", id, err)
	}
	return rec, nil
}

// Read implements [runregistry.Reader].
func (s *Store) Read(ctx context.Context, q runregistry.PageQuery) (runregistry.Page, error) {
	var page runregistry.Page
	r, err := s.find(ctx, q.Run)
	if err == nil {
		page, err = r.page(&q)
	}
	forget(q.Into[:cap(q.Into)], len(page.Frames))
	if err != nil {
		return page, fmt.Errorf("reading %s: %w", q.Run, err)
	}
	return page, nil
}

// forget clears what an earlier, longer page left behind the n frames of this
// one: a reader at rest must not keep the chunks of its last page.
func forget(into []runregistry.Frame, n int) {
	for i := n; i < len(into) && into[i].Data != nil; i++ {
		into[i] = runregistry.Frame{}
	}
}

func (r *run) page(q *runregistry.PageQuery) (runregistry.Page, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.gone {
		return runregistry.Page{}, runregistry.ErrNoRun
	}
	return r.pageLocked(q)
}

// Watch implements [runregistry.Reader].
func (s *Store) Watch(ctx context.Context, id runregistry.RunID, reading bool) (*runregistry.Watch, error) {
	r, err := s.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", id, err)
	}
	w := r.watchers.join(reading)
	if _, err := r.snapshot(); err != nil { // it went before we joined, and nothing will wake us
		w.Close()
		return nil, fmt.Errorf("watching %s: %w", id, err)
	}
	return w, nil
}

// Current implements [runregistry.Reader].
func (s *Store) Current(ctx context.Context, scope runregistry.Scope, c runregistry.ConversationID) (*runregistry.Record, error) {
	rec, err := s.lookup(ctx, func() *run {
		if d := s.claims.dialogueOf(place{scope, c}); d != nil {
			return d.current()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking up a conversation: %w", err)
	}
	return rec, nil
}

// ByUpstream implements [runregistry.Reader].
func (s *Store) ByUpstream(ctx context.Context, scope runregistry.Scope, upstreamID string) (*runregistry.Record, error) {
	rec, err := s.lookup(ctx, func() *run {
		return s.claims.upstreams[upstreamName{scope, upstreamID}]
	})
	if err != nil {
		return nil, fmt.Errorf("looking up an id of upstream: %w", err)
	}
	return rec, nil
}

// lookup returns the record of the run that pick finds in the claims.
func (s *Store) lookup(ctx context.Context, pick func() *run) (*runregistry.Record, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.sweepLocked(time.Now(), everything)
	if r := pick(); r != nil {
		return r.snapshot()
	}
	return nil, runregistry.ErrNoRun
}
