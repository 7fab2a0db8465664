package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// trial is a long run on one gateway with readers on both, each of which must
// get every frame once whatever happens to the store.
type trial struct {
	frames  int
	call    *testkit.Call
	run     string
	readers []*testkit.Answer // the first is the client that started the run
	owner   testkit.Client
	replay  testkit.Client // of the other gateway
}

// startTrial starts the run as a subject.
func startTrial(t *testing.T, p *gateways, subject string, frames int) *trial {
	t.Helper()
	stage := p.upstream.Stage(testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(),
		testkit.Repeat(frames, 20*time.Millisecond, "data: c{{i}}\n\n"), testkit.End(),
	})
	owner, other := p.client(0, siteGeneric, stage).As(subject), p.client(1, siteGeneric, stage).As(subject)
	a := owner.Do(t, generate("conv-1")).Want(200)
	r := &trial{frames: frames, call: stage.Call(t, 1), run: a.Run(), readers: []*testkit.Answer{a}, owner: owner, replay: other}
	for i := range 6 {
		r.readers = append(r.readers, attach(t, []testkit.Client{other, owner}[i%2], a.Run()))
	}
	return r
}

// attach reads a run from its beginning. A store that is slow for a moment sends
// a reader away; it comes back, as an EventSource does.
func attach(t *testing.T, c testkit.Client, run string) (a *testkit.Answer) {
	t.Helper()
	testkit.Eventually(t, "a reader finds the run", func() bool {
		a = c.Resume(t, run, "").Want(200)
		if a.Run() == "" {
			a.Drop()
		}
		return a.Run() != ""
	})
	return a
}

// sent waits until upstream has sent n more frames than now.
func (r *trial) sent(t *testing.T, n int64) {
	t.Helper()
	const bytesOfFrame = 11 // about
	until := r.call.Wrote() + bytesOfFrame*n
	testkit.Eventually(t, "upstream sends on", func() bool { return r.call.Wrote() >= until })
}

// end checks what everybody got, and what a late reader gets.
func (r *trial) end(t *testing.T) {
	t.Helper()
	for i, reader := range r.readers {
		r.whole(t, i > 0, reader)
	}
	r.whole(t, true, attach(t, r.replay, r.run))
}

func (r *trial) whole(t *testing.T, control bool, reader *testkit.Answer) {
	t.Helper()
	r.check(t, control, reader.Rest())
}

func (r *trial) check(t *testing.T, control bool, events []testkit.Event) {
	t.Helper()
	checkCounted(t, r.run, 1, events)
	if control {
		testkit.EndsAs(t, events, "completed")
	}
	if n := len(testkit.Content(events)); n != r.frames {
		t.Errorf("a reader got %d frames, want %d", n, r.frames)
	}
}

// servers writes the addresses of several servers as one store.
func servers(addrs []string) string { return "redis://" + strings.Join(addrs, " redis://") }

// TestARunOutlivesTheMasterOfSentinel through two gateways.
func TestARunOutlivesTheMasterOfSentinel(t *testing.T) {
	s := testkit.StartRedisSentinel(t)
	p := &gateways{redis: s.Master, upstream: testkit.NewUpstream(t)}
	for range 2 {
		p.all = append(p.all, p.start(t, servers(s.Addrs())+" {\nsentinel mymaster\n}", "store_grace 60s"))
	}
	r := startTrial(t, p, "user-a", 300)
	r.sent(t, 50)
	s.Master.Kill()
	r.end(t)
}

// TestARunOutlivesAMasterOfACluster through two gateways.
func TestARunOutlivesAMasterOfACluster(t *testing.T) {
	c := testkit.StartRedisCluster(t)
	p := &gateways{redis: c.Masters[0], upstream: testkit.NewUpstream(t)}
	setup := p.setup(servers(c.Addrs()), "store_grace 60s")
	setup.Plain = true // go-redis v9.23.0 has a race of its own while a Cluster changes (clusterNodes.Addrs)
	for range 2 {
		p.all = append(p.all, testkit.Start(t, setup))
	}
	r := startTrial(t, p, subjectOn(t, c, 0), 300)
	r.sent(t, 50)
	c.Masters[0].Kill()
	r.end(t)
}

// subjectOn finds a subject whose runs are on one of the masters of a Cluster.
func subjectOn(t *testing.T, c *testkit.RedisCluster, master int) string {
	t.Helper()
	for n := range 100 {
		s := runregistry.Subject{Realm: "127.0.0.1", Issuer: "header", Sub: "user-" + itoa(n)}
		at := runregistry.PartitionOf(string(runregistry.SubjectScope(s)))
		if slot, ok := c.Masters[0].Do("CLUSTER", "KEYSLOT", fmt.Sprintf("{p%02d}", at)).(int64); ok && c.MasterOf(slot) == master {
			return s.Sub
		}
	}
	t.Fatalf("no subject is on master %d", master)
	return ""
}

// TestReadersGetEachFrameOnceWhateverRedisDoes in mid-stream.
func TestReadersGetEachFrameOnceWhateverRedisDoes(t *testing.T) {
	p := startGateways(t, 2, "store_grace 60s")
	troubles := []struct {
		name     string
		does, is func()
	}{
		{"hangs", p.redis.Freeze, p.redis.Thaw},
		{"is a replica", func() { p.redis.Do("REPLICAOF", "127.0.0.1", "1") }, func() { p.redis.Do("REPLICAOF", "NO", "ONE") }},
		{"is full", func() { p.redis.Do("CONFIG", "SET", "maxmemory", "1") }, func() { p.redis.Do("CONFIG", "SET", "maxmemory", "0") }},
		{"forgets its scripts", func() { p.redis.Do("SCRIPT", "FLUSH") }, func() {}},
		{"comes back empty", p.redis.Kill, p.redis.Start},
	}
	r := startTrial(t, p, "user-a", 600)
	for _, trouble := range troubles {
		r.sent(t, 20)
		t.Log(trouble.name)
		trouble.does()
		r.sent(t, 50)
		trouble.is()
	}
	r.end(t)
}
