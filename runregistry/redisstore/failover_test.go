package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// own is an owner that keeps all of its frames, and puts back what the store
// has lost.
func own(t *testing.T, s *redisstore.Store, l runregistry.Lease, last runregistry.Seq) {
	t.Helper()
	b := &runregistry.Batch{}
	frames := func(after runregistry.Seq) [][]byte {
		var all [][]byte
		for n := after + 1; n <= last; n++ {
			all = append(all, fmt.Append(nil, n))
		}
		return all
	}
	b.Frames = frames(0)
	testkit.Eventually(t, "everything is stored", func() bool {
		done, err := s.Append(t.Context(), l, b)
		if gap, ok := errors.AsType[*runregistry.GapError](err); ok {
			b = &runregistry.Batch{After: gap.Last, Frames: frames(gap.Last)}
			return false
		}
		if err != nil && !errors.Is(err, runregistry.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil && done.Last == last
	})
}

// failover kills a master in the middle of a run that another instance follows.
func failover(t *testing.T, o redisstore.Options, id func() runregistry.RunID, kill func()) {
	t.Helper()
	const frames = 200
	o.Timeout = quick
	s, other := open(t, o), open(t, o)
	a := admission("c")
	if a.Run = id(); a.Run == "" {
		t.Fatal("no run is on the server that dies")
	}
	a.Subject = subjectOf(a.Run)
	a.Scope = runregistry.SubjectScope(a.Subject)
	d, err := s.Admit(t.Context(), a)
	if err == nil {
		d.Watch.Close()
		_, err = s.Intend(t.Context(), d.Lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	readers := followers(t, other, a.Run, 5, frames)
	for n := range runregistry.Seq(frames / 2) {
		own(t, s, d.Lease, n+1)
	}
	rec, err := s.Load(t.Context(), a.Run)
	if err != nil {
		t.Fatal(err)
	}
	kill()
	began := time.Now()
	// A master that died before it had a replica's word may have lost the run
	// itself; then its owner writes it again.
	testkit.Eventually(t, "the new master takes frames", func() bool {
		_, err := s.Append(t.Context(), d.Lease, batch(frames/2, fmt.Sprint(frames/2+1)))
		if errors.Is(err, runregistry.ErrNoRun) {
			err = s.Restore(t.Context(), d.Lease, rec, &runregistry.Batch{})
		}
		return !errors.Is(err, runregistry.ErrUnavailable)
	})
	t.Logf("the store was away for %v", time.Since(began).Round(100*time.Millisecond))
	own(t, s, d.Lease, frames)
	testkit.Eventually(t, "the run is settled", func() bool {
		_, err := s.Settle(t.Context(), d.Lease, &runregistry.Settlement{State: runregistry.Completed})
		return err == nil || errors.Is(err, runregistry.ErrSettled)
	})
	readers.Wait()
}

// subjectOf finds a subject whose runs are in the partition of one.
func subjectOf(id runregistry.RunID) runregistry.Subject {
	for n := 0; ; n++ {
		s := runregistry.Subject{Realm: "chat", Sub: fmt.Sprint(n)}
		if runregistry.PartitionOf(string(runregistry.SubjectScope(s))) == id.Partition() {
			return s
		}
	}
}

func TestRunOutlivesAFailoverOfSentinel(t *testing.T) {
	s := testkit.StartRedisSentinel(t)
	anywhere := func() runregistry.RunID { return runregistry.NewRunID(1) }
	failover(t, redisstore.Options{Addrs: s.Addrs(), Sentinel: "mymaster"}, anywhere, s.Master.Kill)
}

func TestRunOutlivesAFailoverInACluster(t *testing.T) {
	c := testkit.StartRedisCluster(t)
	onFirst := func() runregistry.RunID {
		for at := range runregistry.Partition(runregistry.Partitions) {
			slot, ok := c.Masters[0].Do("CLUSTER", "KEYSLOT", fmt.Sprintf("{p%02d}", at)).(int64)
			if ok && slot < 16384/3 {
				return runregistry.NewRunID(at)
			}
		}
		return ""
	}
	failover(t, redisstore.Options{Addrs: c.Addrs()}, onFirst, c.Masters[0].Kill)
}
