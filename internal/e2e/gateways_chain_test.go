package e2e

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestOneRunInAChainOfGateways: an inner gateway lets what belongs to a run of
// the outer one pass, and the application sees no mark. What a client marks
// itself is a start like any other.
func TestOneRunInAChainOfGateways(t *testing.T) {
	p := startGateways(t, 1, "")
	inner := p.all[0]
	to := strings.TrimPrefix(inner.URL(siteGeneric), "http://")
	setup := p.setup(p.redis.URL(), "")
	setup.Sites = map[string]string{siteGeneric: genericSite(to, "keepalive off", "realm outer")}
	p.all = append(p.all, testkit.Start(t, setup))
	stage := p.upstream.Stage(gatedGeneric(closedGate(), 3))
	outside, inside := p.client(1, siteGeneric, stage), p.client(0, siteGeneric, stage)

	a := outside.Do(t, generate("conv-1")).Want(200)
	checkCounted(t, a.Run(), 1, a.Rest())
	if got := runsOf(t, inside); got != 0 {
		t.Errorf("the inner gateway has %d runs, want none", got)
	}
	if got := runsOf(t, outside); got != 1 {
		t.Errorf("the outer gateway has %d runs, want 1", got)
	}
	if got, there := stage.Call(t, 1).Header["X-Run-Id"]; there {
		t.Errorf("the application got the mark %q", got)
	}
	forged := inside.With("X-Run-Id", a.Run()+";until=99999999999;mac=AAAA").Do(t, generate("conv-2")).Want(200)
	forged.Rest()
	if forged.Run() == "" || runsOf(t, inside) != 1 {
		t.Error("a client's own mark was believed")
	}
}

// runsOf counts the runs of a client at its gateway.
func runsOf(t *testing.T, c testkit.Client) int {
	t.Helper()
	list := testkit.Decode[struct {
		Runs []testkit.Record `json:"runs"`
	}](t, c.Do(t, testkit.Ask{Path: "/_runs"}).Want(200).Body())
	return len(list.Runs)
}

// TestRealmsOnOneStoreDoNotMeet: the same subject, key and conversation on two
// sites are two of each.
func TestRealmsOnOneStoreDoNotMeet(t *testing.T) {
	p := startGateways(t, 0, "")
	setup := p.setup(p.redis.URL(), "")
	setup.Sites = map[string]string{}
	for _, realm := range []string{"one", "two"} {
		setup.Sites[realm] = genericSite(p.upstream.Addr(), "keepalive off", "realm "+realm)
	}
	p.all = append(p.all, testkit.Start(t, setup))
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 1))
	one, two := p.client(0, "one", stage), p.client(0, "two", stage)
	a := one.Do(t, generate("conv-1").Key("k-1")).Want(200)
	a.Next()
	two.Resume(t, a.Run(), "").Problem(404, "run_not_found")
	two.Do(t, stopWithoutWait(a.Run())).Problem(404, "run_not_found")
	if now := two.Active(t, "conv-1"); now.Status != "idle" {
		t.Errorf("the conversation is %s on the other site, want idle", now.Status)
	}
	b := two.Do(t, generate("conv-1").Key("k-1")).Want(200)
	b.Next()
	if b.Run() == a.Run() || stage.Starts() != 2 || runsOf(t, one) != 1 || runsOf(t, two) != 1 {
		t.Errorf("got runs %s and %s from %d upstream calls, want two", a.Run(), b.Run(), stage.Starts())
	}
	close(gate)
}
