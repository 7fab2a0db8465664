package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// stored and shown are how many frames of a run the replica has, and how many
// its readers: a failover loses those between.
const stored, shown = 5, 10

// losing is a run whose newest frames are lost while its owner lives. It is
// read at its owner and at another gateway.
type losing struct {
	gate    chan struct{}
	stage   *testkit.Stage
	frames  []testkit.Pair // all that there will be
	client  testkit.Client // of the other gateway
	run     string
	readers []*testkit.Answer
	events  [][]testkit.Event
}

// losingRun starts a run that sends the frames with the gate's leave, the first
// one without.
func losingRun(t *testing.T, p *gateways, site, subject string, ask testkit.Ask, frames []string) *losing {
	t.Helper()
	l := &losing{gate: make(chan struct{})}
	script := testkit.Script{testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders()}
	for i, data := range frames {
		if i > 0 {
			script = append(script, testkit.Gate(l.gate))
		}
		script = append(script, testkit.Send("data: "+data+"\n\n"))
		l.frames = append(l.frames, testkit.Pair{"message", data})
	}
	l.stage = p.upstream.Stage(append(script, testkit.Gate(l.gate), testkit.End()))
	owner := p.client(0, site, l.stage).As(subject)
	l.client = p.client(1, site, l.stage).As(subject)
	a := owner.Do(t, ask).Want(200)
	l.run = a.Run()
	l.readers = []*testkit.Answer{attach(t, owner, l.run), attach(t, l.client, l.run)}
	l.events = make([][]testkit.Event, len(l.readers))
	l.take(t, 1)
	return l
}

// take lets everybody read on.
func (l *losing) take(t *testing.T, n int) {
	t.Helper()
	for i, r := range l.readers {
		l.events[i] = append(l.events[i], r.Take(n)...)
	}
}

// grow lets n further frames be sent and read.
func (l *losing) grow(t *testing.T, n int) {
	t.Helper()
	for range n {
		l.gate <- struct{}{}
	}
	l.take(t, n)
}

// whole checks that every reader, and one that comes now, has each of the first
// n frames once, and one end.
func (l *losing) whole(t *testing.T, n int, state string) {
	t.Helper()
	for i, r := range l.readers {
		l.check(t, append(l.events[i], r.Rest()...), n, state)
	}
	l.check(t, attach(t, l.client, l.run).Rest(), n, state)
	if got := l.stage.Starts(); got != 1 {
		t.Errorf("got %d upstream calls, want 1", got)
	}
}

func (l *losing) check(t *testing.T, events []testkit.Event, n int, state string) {
	t.Helper()
	testkit.EndsAs(t, events, state)
	testkit.CheckIDs(t, l.run, 1, events)
	wantPairs(t, events, l.frames[:n])
}

// chatData are chunks of a chat whose text counts, and their end marker.
func chatData(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = `{"choices":[{"index":0,"delta":{"content":"` + itoa(i+1) + `"}}]}`
	}
	all[n-1] = "[DONE]"
	return all
}

// countedData is c1, c2 and so on.
func countedData(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "c" + itoa(i+1)
	}
	return all
}

// lossyFailover is a failover of several gateways to a replica that lacks what
// was written last.
type lossyFailover struct {
	*gateways
	master, replica *testkit.Redis
	promote         func()
	subject         string // whose runs are on the master
}

// lossyLease is how long a gateway may be slow to store again what a failover
// lost, after which another may take its runs over.
const lossyLease = 15 * time.Second

// byHand is a failover in which somebody leads the gateways to the replica.
func byHand(t *testing.T) *lossyFailover {
	t.Helper()
	f := &lossyFailover{gateways: startGateways(t, 0, ""), subject: "user-a"}
	f.master, f.lease = f.redis, lossyLease
	f.replica = testkit.StartReplica(t, f.master, "repl-diskless-sync-delay 0")
	link := testkit.NewLink(t, f.master.Addr())
	for range 2 {
		f.all = append(f.all, f.start(t, "redis://"+link.Addr(), "store_grace 60s"))
	}
	f.promote = func() {
		f.replica.Do("REPLICAOF", "NO", "ONE")
		link.Redirect(f.replica.Addr())
	}
	return f
}

// bySentinel is a failover that Sentinels decide on.
func bySentinel(t *testing.T) *lossyFailover {
	t.Helper()
	s := testkit.StartRedisSentinel(t)
	f := &lossyFailover{master: s.Master, replica: s.Replica, promote: func() {}, subject: "user-a"}
	f.gateways = &gateways{redis: s.Master, upstream: testkit.NewUpstream(t), lease: lossyLease}
	for range 2 {
		f.all = append(f.all, f.start(t, servers(s.Addrs())+" {\nsentinel mymaster\n}", "store_grace 60s"))
	}
	return f
}

// inCluster is a failover of one master of a Cluster.
func inCluster(t *testing.T) *lossyFailover {
	t.Helper()
	c := testkit.StartRedisCluster(t)
	f := &lossyFailover{master: c.Masters[0], replica: c.Replica, subject: subjectOn(t, c, 0)}
	f.promote = func() { c.Replica.Do("CLUSTER", "FAILOVER", "TAKEOVER") }
	f.gateways = &gateways{redis: f.master, upstream: testkit.NewUpstream(t), lease: lossyLease}
	setup := f.setup(servers(c.Addrs()), "store_grace 60s")
	setup.Plain = true // go-redis v9.23.0 has a race of its own while a Cluster changes (clusterNodes.Addrs)
	for range 2 {
		f.all = append(f.all, testkit.Start(t, setup))
	}
	return f
}

// TestAFailoverThatLosesTheTailLosesNothing: the owners of the runs have it
// still, and store it again whatever happens next.
func TestAFailoverThatLosesTheTailLosesNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *lossyFailover{"by hand": byHand, "Sentinel": bySentinel, "Cluster": inCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			losesNothing(t, open(t))
		})
	}
}

func losesNothing(t *testing.T, f *lossyFailover) {
	t.Helper()
	start := func(name string, frames int) *losing {
		l := losingRun(t, f.gateways, siteGeneric, f.subject, generate("conv-"+name), countedData(frames))
		l.grow(t, stored-1)
		return l
	}
	goesOn, silent := start("goes-on", 2*shown), start("silent", 2*shown)
	endsLater, stopped, over := start("ends-later", shown), start("stopped", 2*shown), start("over", shown)
	ends := losingRun(t, f.gateways, siteAuto, f.subject, testkit.Chat("conv-ends", "go"), chatData(shown+1)) // its end marker comes when the store is away
	ends.grow(t, stored-1)
	unanswered := f.unanswered(t, countedData(shown))
	f.replica.CatchUp(f.master)
	f.replica.FallBehind(f.master)
	for _, l := range []*losing{goesOn, silent, ends, endsLater, stopped} {
		l.grow(t, shown-stored)
	}
	answered := unanswered.answer(t)
	answered.grow(t, 1)
	brief := losingRun(t, f.gateways, siteGeneric, f.subject, generate("conv-brief"), countedData(shown))
	for _, l := range []*losing{over, brief} { // the replica does not know that one has ended, and nothing of the other
		close(l.gate)
		l.whole(t, shown, "completed")
	}
	f.master.Kill()
	close(ends.gate)
	ends.stage.Call(t, 1).AwaitEnd(t)
	f.promote()

	testkit.Eventually(t, "the store is there again", func() bool {
		return stopped.client.Do(t, stopWithoutWait(stopped.run)).Status < 300
	})
	close(endsLater.gate)
	close(goesOn.gate)
	ends.whole(t, shown+1, "completed")
	if got := ends.client.Snapshot(t, ends.run).Snapshot; got == nil || got.Text != "12345678910" || !got.Complete {
		t.Errorf("the snapshot is %+v, want all of the text", got)
	}
	endsLater.whole(t, shown, "completed")
	goesOn.whole(t, 2*shown, "completed")
	stopped.whole(t, shown, "cancelled")
	testkit.Eventually(t, "the tail is stored although nothing new comes", func() bool {
		rec := silent.client.Snapshot(t, silent.run)
		return rec.Frames.LastSeq != nil && *rec.Frames.LastSeq == shown
	})
	for _, l := range []*losing{over, brief} {
		testkit.Eventually(t, "the lost end is stored again", func() bool {
			a := l.client.Do(t, testkit.Ask{Path: "/_runs/" + l.run})
			return a.Status == 200 && strings.Contains(string(a.Body()), `"state":"completed"`)
		})
		l.check(t, attach(t, l.client, l.run).Rest(), shown, "completed")
	}
	close(silent.gate)
	silent.whole(t, 2*shown, "completed")
	close(answered.gate)
	answered.whole(t, shown, "completed")
	if rec := answered.client.Snapshot(t, answered.run); rec.Upstream.Status == nil || *rec.Upstream.Status != 200 || rec.Frames.Format != "sse" {
		t.Errorf("the record has status %v and format %q, want what upstream answered", rec.Upstream.Status, rec.Frames.Format)
	}
}

// unanswered is a run that was dispatched and to which upstream has not
// answered.
type unanswered struct {
	losing

	owner testkit.Client
	head  chan *testkit.Answer
}

func (f *lossyFailover) unanswered(t *testing.T, frames []string) *unanswered {
	t.Helper()
	gate := make(chan struct{})
	u := &unanswered{losing: losing{gate: gate}, head: make(chan *testkit.Answer, 1)}
	script := testkit.Script{testkit.Gate(gate), testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders()}
	for _, data := range frames {
		script = append(script, testkit.Send("data: "+data+"\n\n"), testkit.Gate(gate))
		u.frames = append(u.frames, testkit.Pair{"message", data})
	}
	u.stage = f.upstream.Stage(append(script, testkit.End()))
	u.owner, u.client = f.client(0, siteGeneric, u.stage).As(f.subject), f.client(1, siteGeneric, u.stage).As(f.subject)
	start := u.owner.Begin(t, generate("conv-unanswered"))
	go func() {
		a, _ := start.Head() // without an answer the test ends soon enough
		u.head <- a
	}()
	u.stage.Call(t, 1)
	return u
}

// answer lets upstream answer, and everybody read the first frame.
func (u *unanswered) answer(t *testing.T) *losing {
	t.Helper()
	u.gate <- struct{}{}
	a := <-u.head
	if a == nil {
		t.Fatal("the start got no answer")
	}
	l := &u.losing
	l.run = a.Want(200).Run()
	l.readers = []*testkit.Answer{attach(t, u.owner, l.run), attach(t, l.client, l.run)}
	l.events = make([][]testkit.Event, len(l.readers))
	l.take(t, 1)
	return l
}
