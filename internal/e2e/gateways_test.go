package e2e

import (
	"cmp"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// shortLease makes the death of a gateway known within a test's patience. It is
// longer than a busy machine needs to lead a client to a new master.
const shortLease = 5 * time.Second

// gateways are several processes on one store, as behind a load balancer.
type gateways struct {
	redis    *testkit.Redis
	upstream *testkit.Upstream
	lease    time.Duration // shortLease unless another is set
	all      []*testkit.Gateway
}

// startGateways starts n gateways on a Redis of their own.
func startGateways(t *testing.T, n int, global string) *gateways {
	t.Helper()
	p := &gateways{redis: testkit.StartRedis(t), upstream: testkit.NewUpstream(t)}
	for range n {
		p.all = append(p.all, p.start(t, p.redis.URL(), global))
	}
	return p
}

// linkedGateways starts two gateways, each of which reaches its Redis over a link
// that can be cut.
func linkedGateways(t *testing.T, global string) (p *gateways, links []*testkit.Link) {
	t.Helper()
	p = startGateways(t, 0, "")
	for range 2 {
		link := testkit.NewLink(t, p.redis.Addr())
		links = append(links, link)
		p.all = append(p.all, p.start(t, "redis://"+link.Addr(), global))
	}
	return p, links
}

// start adds a gateway that reaches the store under an address.
func (p *gateways) start(t *testing.T, url, global string) *testkit.Gateway {
	t.Helper()
	return testkit.Start(t, p.setup(url, global))
}

// setup is the configuration of one gateway.
func (p *gateways) setup(url, global string) testkit.Setup {
	const quiet = "keepalive off\nimplicit_retry 2s" // what is remembered for retries goes with the rest
	// Idle connections to the application are not counted among what is ours.
	to := p.upstream.Addr() + " {\ntransport http {\nkeepalive off\n}\n}"
	return testkit.Setup{
		Global: "store redis " + url + "\nlease " + cmp.Or(p.lease, shortLease).String() + "\n" + global,
		Sites: map[string]string{
			siteAuto:    testkit.Site(to, quiet),
			siteGeneric: genericSite(to, quiet),
			siteReject:  genericSite(to, quiet, "conversation_busy reject"),
			siteReplace: genericSite(to, quiet, "conversation_busy replace"),
			siteSession: testkit.Bare(to, quiet),
		},
	}
}

// The sites that only tests with several gateways have.
const (
	siteReject  = "reject"  // generic; a busy conversation refuses
	siteReplace = "replace" // generic; a busy conversation is taken over
	siteSession = "session" // identity by cookie
)

// client is a client of one gateway.
func (p *gateways) client(i int, site string, stage *testkit.Stage) testkit.Client {
	return p.all[i].Client(site).As("user-a").On(stage)
}

// on is an [opener] whose clients go to all gateways in turn.
func (p *gateways) on(t testing.TB, site string, scripts ...testkit.Script) (testkit.Client, *testkit.Stage) {
	t.Helper()
	stage := p.upstream.Stage(scripts...)
	var others []string
	for _, g := range p.all[1:] {
		others = append(others, g.URL(site))
	}
	return p.all[0].Client(site).As(t.Name()).On(stage).Over(others...), stage
}

// paced sends frames one by one until the peer closes: "data: c1" and so on.
func paced(every time.Duration) testkit.Script {
	return testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(),
		testkit.Repeat(100_000, every, "data: c{{i}}\n\n"), testkit.End(),
	}
}

// gatedGeneric sends one frame, then one for each value on the gate until it is
// closed, and ends.
func gatedGeneric(gate <-chan struct{}, frames int) testkit.Script {
	s := testkit.Script{testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(), testkit.Send("data: c1\n\n")}
	for i := range frames - 1 {
		s = append(s, testkit.Gate(gate), testkit.Send("data: c"+itoa(i+2)+"\n\n"))
	}
	return append(s, testkit.Gate(gate), testkit.End())
}

// counted are the pairs of frames from to to of a script above.
func counted(from, to int) []testkit.Pair {
	var want []testkit.Pair
	for n := from; n <= to; n++ {
		want = append(want, testkit.Pair{"message", "c" + itoa(n)})
	}
	return want
}

// checkCounted fails the test unless events are frames first, first+1, ... and
// nothing else.
func checkCounted(t *testing.T, run string, first int, events []testkit.Event) {
	t.Helper()
	testkit.CheckIDs(t, run, first, events)
	wantPairs(t, events, counted(first, first+len(testkit.Content(events))-1))
}
