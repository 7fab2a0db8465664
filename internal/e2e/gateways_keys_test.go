package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// ttlScan looks at every key of a server again and again.
type ttlScan struct {
	client *redis.Client
	stop   chan struct{}
	done   sync.WaitGroup

	mu      sync.Mutex // guards everything below
	keys    map[string]bool
	forever map[string]bool // keys that were seen without a deadline
}

func startTTLScan(t *testing.T, server *testkit.Redis) *ttlScan {
	t.Helper()
	s := &ttlScan{client: server.Client(), stop: make(chan struct{}), keys: map[string]bool{}, forever: map[string]bool{}}
	s.done.Go(s.loop)
	return s
}

func (s *ttlScan) loop() {
	for {
		s.look()
		select {
		case <-s.stop:
			return
		default:
		}
	}
}

// look reads all keys and their deadlines. A key that is gone in between has
// none of -2 ms.
func (s *ttlScan) look() {
	ctx := context.Background()
	keys, _, err := s.client.Scan(ctx, 0, "*", 10_000).Result()
	if err != nil {
		return
	}
	pipe := s.client.Pipeline()
	ttls := make([]*redis.DurationCmd, len(keys))
	for i, key := range keys {
		ttls[i] = pipe.PTTL(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		s.keys[key] = true
		if ttls[i].Val() == -1 {
			s.forever[key] = true
		}
	}
}

// longest is how far ahead the last deadline is of the keys that contain kind.
func (s *ttlScan) longest(t *testing.T, kind string) (most time.Duration) {
	t.Helper()
	ctx := t.Context()
	keys, _, err := s.client.Scan(ctx, 0, "*"+kind+"*", 10_000).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		ttl, err := s.client.PTTL(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, ttl)
	}
	return most
}

// nothingLeft reports whether all keys are gone but those that are no run's: the
// one that signs sessions, and the marks of gateways.
func (s *ttlScan) nothingLeft() bool {
	keys, _, err := s.client.Scan(context.Background(), 0, "*", 10_000).Result()
	return err == nil && !slices.ContainsFunc(keys, func(key string) bool {
		return key != "ag:secret:session" && !strings.Contains(key, "}:b:")
	})
}

// tellIfFailed writes down what is left, for whoever finds that too much.
func (s *ttlScan) tellIfFailed(t *testing.T) {
	if !t.Failed() {
		return
	}
	keys, _, err := s.client.Scan(context.Background(), 0, "*", 10_000).Result()
	t.Logf("%d keys are left (%v)", len(keys), err)
	for _, key := range keys[:min(len(keys), 20)] {
		t.Logf("%s for %v", key, s.client.PTTL(context.Background(), key).Val())
	}
}

// end stops the scan and fails the test for each key without a deadline.
func (s *ttlScan) end(t *testing.T) {
	t.Helper()
	close(s.stop)
	s.done.Wait()
	_ = s.client.Close()
	for key := range s.forever {
		t.Errorf("key %s was seen without a deadline", key)
	}
	if len(s.keys) < 1000 {
		t.Errorf("saw %d keys, want those of many runs", len(s.keys))
	}
}

// TestCase57EveryKeyHasADeadline at every moment: during runs, after their
// ends of every kind, after refusals and after the death of a gateway. When
// the retention is over nothing is left.
func TestCase57EveryKeyHasADeadline(t *testing.T) {
	p := startGateways(t, 2, "frame_retention 3s\nrecord_retention 12s")
	scan := startTTLScan(t, p.redis)
	t.Cleanup(func() { scan.tellIfFailed(t) })
	c, stage := p.on(t, siteReject, gatedGeneric(closedGate(), 3))
	for i := range 30 {
		ask := generate("conv-" + itoa(i)).Key("k-" + itoa(i))
		a := c.Do(t, ask).Want(200)
		a.Rest()
		c.Do(t, ask).Want(200).Rest()
		other := ask
		other.Body += " "
		c.Do(t, other).Want(http.StatusUnprocessableEntity)
		c.Resume(t, a.Run(), "").Want(200).Rest()
	}
	if stage.Starts() != 30 {
		t.Errorf("got %d upstream calls, want 30", stage.Starts())
	}
	const runs = 200
	c, stage = p.on(t, siteReject, gatedGeneric(closedGate(), 3))
	testkit.Each(t, runs, 10, func(t *testing.T, i int) {
		c.Do(t, generate("conv-n-"+itoa(i))).Want(200).Rest()
	})
	if stage.Starts() != runs {
		t.Errorf("got %d upstream calls, want %d", stage.Starts(), runs)
	}
	testkit.Eventually(t, "deadlines that count from the ends", func() bool {
		return scan.longest(t, ":r:") <= 12*time.Second && scan.longest(t, ":f:") <= 3*time.Second
	})
	c, _ = p.on(t, siteReject, paced(10*time.Millisecond))
	stopped := c.Do(t, generate("conv-s")).Want(200)
	stopped.Next()
	another := generate("conv-s")
	another.Body += " "
	c.Do(t, another).Problem(http.StatusConflict, "run_in_flight")
	c.Stop(t, stopped.Run())
	c, _ = p.on(t, siteAuto, testkit.Script{testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(), testkit.Send("data: {\"choices\":[]}\n\n"), testkit.Cut()})
	c.Do(t, testkit.Chat("conv-t", "go")).Want(200).Rest()
	died := p.client(0, siteGeneric, p.upstream.Stage(paced(10*time.Millisecond)))
	left := died.Do(t, generate("conv-d")).Want(200)
	left.Next()
	p.all[0].Crash()
	testkit.Eventually(t, "a Redis without a key of any run", scan.nothingLeft)
	scan.end(t)
}

// TestCase58ManyViewersSmallPool: the connections to Redis do not grow with the
// viewers, and nobody waits for one.
func TestCase58ManyViewersSmallPool(t *testing.T) {
	const viewers, runs, most = 300, 60, 20
	p := startGateways(t, 0, "")
	for range 2 {
		p.all = append(p.all, p.start(t, p.redis.URL()+" {\npool_size 10\n}", ""))
	}
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 10))
	owner, other := p.client(0, siteGeneric, stage), p.client(1, siteGeneric, stage)
	a := owner.Do(t, generate("conv-1")).Want(200)
	ready := testkit.NewBarrier(viewers + 1)
	var all sync.WaitGroup
	all.Go(func() {
		ready.Wait(t)
		for i := range 9 {
			gate <- struct{}{}
			started := owner.Do(t, generate("conv-other-"+itoa(i)))
			if started.Want(200).Next().Data != "c1" {
				t.Error("a start beside the viewers got no first frame")
			}
			if now := other.Active(t, "conv-1"); now.Status != "running" {
				t.Errorf("conversation is %s, want running", now.Status)
			}
		}
		if n := len(p.redis.Clients()); n > 2*most {
			t.Errorf("%d viewers have %d connections to Redis, want at most %d", viewers, n, 2*most)
		}
		close(gate)
	})
	testkit.Each(t, viewers, viewers, func(t *testing.T, _ int) {
		v := other.Resume(t, a.Run(), "").Want(200)
		v.Next()
		ready.Wait(t)
		events := v.Rest()
		checkCounted(t, a.Run(), 2, events)
		testkit.EndsAs(t, events, "completed")
	})
	all.Wait()
	testkit.Each(t, runs, runs, func(t *testing.T, i int) {
		mine := owner.Do(t, generate("conv-run-"+itoa(i))).Want(200)
		events := other.Resume(t, mine.Run(), "").Want(200).Rest()
		checkCounted(t, mine.Run(), 1, events)
		testkit.EndsAs(t, events, "completed")
	})
	for i, g := range p.all {
		if lines := g.Log.Lines("pool timeout"); len(lines) > 0 {
			t.Errorf("gateway %d: %s", i, lines[0])
		}
	}
}
