package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// follow reads a run to its end as a client's tail does: it waits for hints,
// polls, and rides out a store that is away. It returns how many frames it saw,
// each once and in order.
func follow(t *testing.T, s *redisstore.Store, id runregistry.RunID, w *runregistry.Watch) (runregistry.Seq, error) {
	defer w.Close()
	poll := time.NewTicker(2 * time.Second)
	defer poll.Stop()
	q := runregistry.PageQuery{Run: id}
	for {
		p, err := s.Read(t.Context(), q)
		if err != nil && !errors.Is(err, runregistry.ErrUnavailable) {
			return q.After, err
		}
		for _, f := range p.Frames {
			if q.After++; f.Seq != q.After || string(f.Data) != fmt.Sprint(q.After) {
				return q.After, fmt.Errorf("frame %d holds %q in place %d", f.Seq, f.Data, q.After)
			}
		}
		switch {
		case len(p.Frames) > 0:
		case err == nil && p.State.Terminal():
			return q.After, nil
		default:
			select {
			case <-w.C:
			case <-poll.C:
			case <-t.Context().Done():
				return q.After, t.Context().Err()
			}
		}
		q.Into = p.Frames
	}
}

// followers are many readers on one instance.
func followers(t *testing.T, s *redisstore.Store, id runregistry.RunID, n int, frames runregistry.Seq) *sync.WaitGroup {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		w, err := s.Watch(t.Context(), id, true)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if got, err := follow(t, s, id, w); got != frames || err != nil {
				t.Errorf("got %d frames and error %v, want %d", got, err, frames)
			}
		})
	}
	return &all
}

// write appends numbered frames until the store has them.
func (s *site) write(l runregistry.Lease, from, to runregistry.Seq) {
	s.Helper()
	for i := from; i < to; i++ {
		s.persist(l, batch(i, fmt.Sprint(i+1)))
	}
}

func (s *site) finish(l runregistry.Lease) {
	s.Helper()
	testkit.Eventually(s, "the run is settled", func() bool {
		_, err := s.store.Settle(s.Context(), l, &runregistry.Settlement{State: runregistry.Completed})
		return err == nil || errors.Is(err, runregistry.ErrSettled)
	})
}

func TestManyReadersShareASmallPool(t *testing.T) {
	const readers, frames = 300, 100
	s := newSite(t)
	l := s.running("c")
	s.write(l, 0, frames/2)
	// A pool of 10 is the default; time-outs are, too: the readers' machine may
	// be busy.
	many := open(t, redisstore.Options{Addrs: []string{s.redis.Addr()}, PoolSize: 10, Timeout: 10 * time.Second})
	all := followers(t, many, l.Run, readers, frames)
	s.write(l, frames/2, frames)
	s.finish(l)
	all.Wait()
}

// All links are cut for longer than readers and owners have patience for one
// call; each reader still gets each frame once.
func TestReadersSurviveACutLink(t *testing.T) {
	const readers, frames = 20, 60
	s := newSite(t)
	l := s.running("c")
	there := testkit.NewLink(t, s.redis.Addr())
	behind := open(t, redisstore.Options{Addrs: []string{there.Addr()}, Timeout: quick})
	s.write(l, 0, frames/3)
	all := followers(t, behind, l.Run, readers, frames)
	here := followers(t, s.store, l.Run, readers, frames)
	s.write(l, frames/3, frames/2)
	for _, cut := range []*testkit.Link{s.link, there} {
		cut.Cut()
	}
	mended := time.AfterFunc(2*time.Second, func() {
		s.link.Mend()
		there.Mend()
	})
	defer mended.Stop()
	_, err := s.store.Append(t.Context(), l, batch(frames/2, fmt.Sprint(frames/2+1)))
	s.unavailable("append over the cut link", err)
	s.write(l, frames/2, frames)
	s.finish(l)
	all.Wait()
	here.Wait()
}
