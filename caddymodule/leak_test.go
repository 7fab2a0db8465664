package caddymodule

import (
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
)

// TestFiftyReloadsLeakNothing is case 62. A run is under way all the time, so
// that every configuration has something to hold on to.
func TestFiftyReloadsLeakNothing(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	site := u.proxied("agent_runs")
	g.load(site)
	reader := g.start()
	c := u.next()
	g.load(site) // what happens once has happened
	before := goroutines(t)
	for range 50 {
		g.load(site)
	}
	eventually(t, "goroutines of 50 reloads end", func() bool { return goroutines(t) <= before })
	if n, _ := engines.usage.References(Store{}.key()); n != 1 {
		t.Errorf("references after 50 reloads: got %d, want 1", n)
	}
	c.frames <- token("still here")
	if got, want := reader.next(), token("still here"); got != want {
		t.Errorf("after 50 reloads: got %q, want %q", got, want)
	}
	c.finish()
	reader.rest()
}

// goroutines counts those that are ours, or wait in code of ours.
func goroutines(t *testing.T) int {
	t.Helper()
	runtime.GC()
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
		t.Fatal(err)
	}
	n := 0
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(stack, "caddy-agent-runs") {
			n++
		}
	}
	return n
}
