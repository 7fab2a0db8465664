package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase59RedisLinkCutMidStream cuts the links of both gateways to Redis, for
// two seconds and then twenty times for a moment. Every reader gets every frame
// once.
func TestCase59RedisLinkCutMidStream(t *testing.T) {
	const frames = 400
	p, links := linkedGateways(t, "")
	cut := func(what func(*testkit.Link)) {
		for _, link := range links {
			what(link)
		}
	}
	stage := p.upstream.Stage(testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"), testkit.FlushHeaders(),
		testkit.Repeat(frames, 20*time.Millisecond, "data: c{{i}}\n\n"), testkit.End(),
	})
	a := p.client(0, siteGeneric, stage).Do(t, generate("conv-1")).Want(200)
	a.Next()
	viewers := []*testkit.Answer{a}
	for i := range 10 {
		viewers = append(viewers, p.client(i%2, siteGeneric, stage).Resume(t, a.Run(), "").Want(200))
	}
	call := stage.Call(t, 1)
	upstreamSent := func(n int64) {
		t.Helper()
		testkit.Eventually(t, "upstream at frame "+itoa(int(n)), func() bool { return call.Wrote() >= 12*n })
	}
	upstreamSent(50)
	cut((*testkit.Link).Cut)
	refused := p.client(1, siteGeneric, stage).Do(t, generate("conv-2"))
	if refused.Problem(http.StatusServiceUnavailable, "store_unavailable"); refused.Header.Get("Retry-After") == "" {
		t.Error("start during the cut has no Retry-After")
	}
	upstreamSent(150) // two seconds later
	cut((*testkit.Link).Mend)
	upstreamSent(200)
	for i := range 20 {
		cut((*testkit.Link).Cut)
		upstreamSent(int64(201 + 4*i))
		cut((*testkit.Link).Mend)
		upstreamSent(int64(203 + 4*i))
	}
	for i, v := range viewers {
		events := v.Rest()
		if i == 0 {
			checkCounted(t, a.Run(), 2, events)
			continue
		}
		checkCounted(t, a.Run(), 1, events)
		testkit.EndsAs(t, events, "completed")
		if n := len(testkit.Content(events)); n != frames {
			t.Errorf("viewer %d got %d frames, want %d", i, n, frames)
		}
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// TestCase59RedisAwayForLong keeps Redis away for longer than a transparent
// reader waits. The run goes on, and is whole when Redis is back.
func TestCase59RedisAwayForLong(t *testing.T) {
	p := startGateways(t, 0, "")
	link := testkit.NewLink(t, p.redis.Addr())
	p.all = append(p.all, p.start(t, "redis://"+link.Addr(), "store_grace 500ms"))
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 3))
	c := p.client(0, siteGeneric, stage)
	a := c.Do(t, generate("conv-1")).Want(200)
	first := a.Next()
	link.Cut()
	gate <- struct{}{}
	if late := a.RestBroken(); len(late) != 0 {
		t.Errorf("%d frames were shown that Redis had not stored", len(late))
	}
	back := c.Resume(t, a.Run(), first.ID).Want(200) // an EventSource must not give up
	if events := back.Rest(); len(events) != 0 || len(back.Events.Retries) == 0 {
		t.Errorf("resume during the outage got %d events and retry %v, want a retry alone", len(events), back.Events.Retries)
	}
	c.Do(t, testkit.Ask{Path: "/_runs/" + a.Run()}).Problem(http.StatusServiceUnavailable, "store_unavailable")
	link.Mend()
	close(gate)
	stage.Call(t, 1).AwaitEnd(t)
	var again *testkit.Answer
	testkit.Eventually(t, "the store is there again", func() bool {
		again = c.Do(t, testkit.Ask{Path: "/_runs/" + a.Run()})
		return again.Status == http.StatusOK
	})
	events := c.Resume(t, a.Run(), first.ID).Want(200).Rest()
	checkCounted(t, a.Run(), 2, events)
	testkit.EndsAs(t, events, "completed")
	if n := len(testkit.Content(events)); n != 2 {
		t.Errorf("got %d frames after the first, want 2", n)
	}
}

// TestGatewaysStartWithoutRedis, answer starts with 503, pass everything else,
// and serve runs once it is there.
func TestGatewaysStartWithoutRedis(t *testing.T) {
	p := startGateways(t, 0, "")
	p.redis.Kill()
	p.all = append(p.all, p.start(t, p.redis.URL(), ""))
	stage := p.upstream.Stage(gatedGeneric(closedGate(), 2))
	c := p.client(0, siteGeneric, stage)
	c.Do(t, generate("conv-1")).Problem(http.StatusServiceUnavailable, "store_unavailable")
	if stage.Starts() != 0 {
		t.Errorf("upstream got %d calls without a store, want 0", stage.Starts())
	}
	c.Do(t, testkit.Ask{Path: "/page"}).Want(200)
	passed := stage.Starts()
	p.redis.Start()
	var a *testkit.Answer
	testkit.Eventually(t, "a start is taken", func() bool {
		a = c.Do(t, generate("conv-1"))
		return a.Status == http.StatusOK
	})
	checkCounted(t, a.Run(), 1, a.Rest())
	if got := stage.Starts() - passed; got != 1 {
		t.Errorf("got %d upstream calls for the run, want 1", got)
	}
}

// closedGate lets everything through.
func closedGate() <-chan struct{} {
	gate := make(chan struct{})
	close(gate)
	return gate
}
