package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// The slot of a run moves to another master, key by key, while frames are
// stored and read: a command may be told MOVED, ASK or TRYAGAIN at any time.
// Nothing is lost and nothing doubled.
func TestRunSurvivesTheMigrationOfItsSlot(t *testing.T) {
	const frames = 400
	c := testkit.StartRedisCluster(t)
	o := redisstore.Options{Addrs: c.Addrs()}
	s := &site{T: t, store: open(t, o), other: open(t, o)}
	s.store.Hold("one", time.Hour)
	s.other.Hold("two", time.Hour)
	l := s.running("c")
	var read []string
	var all sync.WaitGroup
	all.Go(func() { read = s.follow(l.Run, frames) })
	for i := range frames {
		if i == frames/4 {
			all.Go(func() { migrate(t, c, l.Run) })
		}
		s.persist(l, batch(runregistry.Seq(i), strconv.Itoa(i+1)))
	}
	all.Wait()
	if _, err := s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed}); err != nil {
		t.Fatal(err)
	}
	if len(read) != frames {
		t.Fatalf("got %d frames, want %d", len(read), frames)
	}
	for i, text := range read {
		if text != strconv.Itoa(i+1) {
			t.Fatalf("frame %d: got %q", i+1, text)
		}
	}
	rec, err := s.other.Load(t.Context(), l.Run)
	if err != nil || rec.LastSeq != frames {
		t.Errorf("got %+v and error %v, want %d frames", rec, err, frames)
	}
}

// follow reads a run on the other instance until it has so many frames. It
// goes on after errors, as a tail does.
func (s *site) follow(id runregistry.RunID, frames int) []string {
	var got []string
	w, err := s.other.Watch(s.Context(), id, true)
	if err != nil {
		s.Errorf("watching: %v", err)
		return nil
	}
	defer w.Close()
	for end := time.Now().Add(time.Minute); len(got) < frames && time.Now().Before(end); {
		p, err := s.other.Read(s.Context(), runregistry.PageQuery{Run: id, After: runregistry.Seq(len(got))})
		for _, f := range p.Frames {
			if int(f.Seq) != len(got)+1 {
				s.Errorf("got frame %d after %d", f.Seq, len(got))
				return got
			}
			got = append(got, string(f.Data))
		}
		if err != nil || len(p.Frames) == 0 {
			select {
			case <-w.C:
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return got
}

// migrate moves the slot of a run to the next master, as redis-cli does.
func migrate(t *testing.T, c *testkit.RedisCluster, id runregistry.RunID) {
	key := fmt.Sprintf("ag:{p%02d}:r:%s", id.Partition(), id)
	slot := c.Masters[0].Do("CLUSTER", "KEYSLOT", key)
	from := int(slot.(int64)) * 3 / 16384
	source, target := c.Masters[from], c.Masters[(from+1)%3]
	sourceID, targetID := source.Do("CLUSTER", "MYID"), target.Do("CLUSTER", "MYID")
	target.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID)
	source.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
	client := source.Client()
	defer func() { _ = client.Close() }()
	moved := 0
	for {
		keys, err := client.Do(context.Background(), "CLUSTER", "GETKEYSINSLOT", slot, 1).StringSlice()
		if err != nil {
			t.Errorf("listing keys: %v", err)
			return
		}
		if len(keys) == 0 {
			break
		}
		if err := client.Do(context.Background(), "MIGRATE", "127.0.0.1", target.Port, keys[0], 0, 5000).Err(); err != nil {
			t.Errorf("migrating %s: %v", keys[0], err)
			return
		}
		moved++
		time.Sleep(20 * time.Millisecond) // scripted: keys of one run are on two servers for a while
	}
	if moved < 3 {
		t.Errorf("got %d keys moved, want all of the run", moved)
	}
	for _, r := range []*testkit.Redis{target, source, c.Masters[(from+2)%3]} {
		r.Do("CLUSTER", "SETSLOT", slot, "NODE", targetID)
	}
}
