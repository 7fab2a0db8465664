package e2e

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// waitsForStore fails the test unless a start is refused with a time to come
// back, and nothing is sent upstream.
func waitsForStore(t *testing.T, p *gateways) {
	t.Helper()
	stage := p.upstream.Stage(gatedGeneric(closedGate(), 1))
	for i := range p.all {
		refused := p.client(i, siteGeneric, stage).Do(t, generate("conv-refused"))
		if refused.Problem(http.StatusServiceUnavailable, "store_unavailable"); refused.Header.Get("Retry-After") == "" {
			t.Errorf("gateway %d refuses a start without Retry-After", i)
		}
	}
	if n := stage.Starts(); n != 0 {
		t.Errorf("got %d upstream calls without a store, want 0", n)
	}
}

// held is a run whose readers have its first frame. Its second one is sent while
// the store is away, and must not be shown before it is back.
type held struct {
	gate    chan struct{}
	run     string
	call    *testkit.Call
	readers []*testkit.Answer // the first is the client that started it
	shown   atomic.Int64      // frames that readers got without the store
	done    chan []testkit.Event
}

func hold(t *testing.T, p *gateways, subject string) *held {
	t.Helper()
	h := &held{gate: make(chan struct{}), done: make(chan []testkit.Event, 3)}
	stage := p.upstream.Stage(gatedGeneric(h.gate, 2))
	owner, other := p.client(0, siteGeneric, stage).As(subject), p.client(1, siteGeneric, stage).As(subject)
	a := owner.Do(t, generate("conv-held")).Want(200)
	h.run, h.call = a.Run(), stage.Call(t, 1)
	h.readers = []*testkit.Answer{a, attach(t, owner, a.Run()), attach(t, other, a.Run())}
	for _, r := range h.readers {
		r.Next()
	}
	return h
}

// send lets the second frame be sent, and reads on.
func (h *held) send(t *testing.T) {
	t.Helper()
	before := h.call.Wrote()
	h.gate <- struct{}{}
	testkit.Eventually(t, "the frame is sent", func() bool { return h.call.Wrote() > before })
	for _, r := range h.readers {
		go func() {
			ev, err := r.Events.Next()
			if err == nil {
				h.shown.Add(1)
			}
			rest, _ := r.Events.All() // a broken end lacks its frame
			h.done <- append([]testkit.Event{ev}, rest...)
		}()
	}
}

// unseen fails the test if the second frame was shown.
func (h *held) unseen(t *testing.T) {
	t.Helper()
	if n := h.shown.Load(); n != 0 {
		t.Errorf("%d readers got a frame that was not stored", n)
	}
}

// end lets the run end and checks that everybody has the second frame.
func (h *held) end(t *testing.T) {
	t.Helper()
	close(h.gate)
	for range h.readers {
		events := <-h.done
		checkCounted(t, h.run, 2, events)
		if n := len(testkit.Content(events)); n != 1 {
			t.Errorf("a reader got %d frames when the store was back, want 1", n)
		}
	}
}

// outage checks two gateways whose store does not answer, for so long that
// every lease runs out.
func outage(t *testing.T, p *gateways, h *held) {
	t.Helper()
	began := time.Now()
	waitsForStore(t, p)
	h.send(t)
	testkit.Eventually(t, "the leases run out", func() bool { return time.Since(began) > shortLease })
	waitsForStore(t, p)
	h.unseen(t)
}

// TestAServerThatLoadsItsDataLosesNothing: Redis is killed in mid-stream, and
// loads for longer than a lease lasts.
func TestAServerThatLoadsItsDataLosesNothing(t *testing.T) {
	t.Parallel()
	p := &gateways{redis: testkit.StartRedis(t, testkit.Durable...), upstream: testkit.NewUpstream(t)}
	p.redis.Ballast()
	for range 2 {
		p.all = append(p.all, p.start(t, p.redis.URL(), "store_grace 60s"))
	}
	h := hold(t, p, "user-held")
	r := startTrial(t, p, "user-a", 300)
	r.sent(t, 20)
	p.redis.Kill()
	p.redis.StartLoading()
	outage(t, p, h)
	p.redis.Loaded()
	h.end(t)
	r.end(t)
}

// TestAClusterThatIsDownLosesNothing: while one master is away its Cluster
// serves nobody, and the runs of all masters wait.
func TestAClusterThatIsDownLosesNothing(t *testing.T) {
	t.Parallel()
	c := testkit.StartRedisCluster(t, testkit.Durable...)
	p := &gateways{redis: c.Masters[1], upstream: testkit.NewUpstream(t)}
	setup := p.setup(servers(c.Addrs()), "store_grace 60s")
	setup.Plain = true // go-redis v9.23.0 has a race of its own while a Cluster changes (clusterNodes.Addrs)
	for range 2 {
		p.all = append(p.all, testkit.Start(t, setup))
	}
	h := hold(t, p, subjectOn(t, c, 1))
	there, elsewhere := startTrial(t, p, subjectOn(t, c, 1), 300), startTrial(t, p, subjectOn(t, c, 2), 300)
	there.sent(t, 20)
	elsewhere.sent(t, 20)
	c.Masters[1].Kill() // it has no replica
	for _, m := range []*testkit.Redis{c.Masters[0], c.Masters[2]} {
		c.Down(m)
	}
	outage(t, p, h)
	c.Masters[1].Start()
	h.end(t)
	there.end(t)
	elsewhere.end(t)
}

// TestAStopWhileRedisIsCutOff is refused, for nobody could say that it is kept;
// asked again it is carried out. All links are cut for two seconds.
func TestAStopWhileRedisIsCutOff(t *testing.T) {
	t.Parallel()
	p, links := linkedGateways(t, "store_grace 60s")
	h := hold(t, p, "user-held")
	goesOn, stopped := startTrial(t, p, "user-a", 300), startTrial(t, p, "user-b", 100_000)
	stopped.sent(t, 50)
	for _, link := range links {
		link.Cut()
	}
	for i := range p.all {
		refused := p.all[i].Client(siteGeneric).As("user-b").Do(t, stopWithoutWait(stopped.run))
		if refused.Problem(http.StatusServiceUnavailable, "store_unavailable"); refused.Header.Get("Retry-After") == "" {
			t.Errorf("gateway %d refuses a Stop without Retry-After", i)
		}
	}
	outage(t, p, h)
	if !stopped.call.IsOpen() {
		t.Error("a Stop that was refused closed upstream")
	}
	for _, link := range links {
		link.Mend()
	}
	testkit.Eventually(t, "the Stop is taken", func() bool {
		return stopped.replay.Do(t, stopWithoutWait(stopped.run)).Status < 300
	})
	stopped.call.AwaitClose(t)
	h.end(t)
	goesOn.end(t)
	frames := testkit.Pairs(testkit.Content(stopped.readers[1].Rest()))
	for i, r := range append(stopped.readers[2:], attach(t, stopped.replay, stopped.run)) {
		events := r.Rest()
		testkit.EndsAs(t, events, "cancelled")
		checkCounted(t, stopped.run, 1, events)
		if len(testkit.Content(events)) != len(frames) {
			t.Errorf("reader %d got %d frames of the stopped run, and another %d", i, len(testkit.Content(events)), len(frames))
		}
	}
	checkCounted(t, stopped.run, 1, stopped.readers[0].RestBroken()) // a generic stream has no words for its end
}
