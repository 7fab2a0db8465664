package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestRemovedDirectiveLetsRunsEnd: without a configuration that refers to it
// the engine stays until its last run has ended, and goes then.
func TestRemovedDirectiveLetsRunsEnd(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	g.load(u.proxied(""))
	c.frames <- token("one")
	if got, want := reader.next(), token("one"); got != want {
		t.Errorf("after the directive was removed: got %q, want %q", got, want)
	}
	if n := poolSize(); n != 1 {
		t.Errorf("engines while a run is under way: got %d, want 1", n)
	}
	c.finish()
	if got := reader.rest(); got != doneMark {
		t.Errorf("end of the answer: got %q, want %q", got, doneMark)
	}
	engines.Close()
	if n := poolSize(); n != 0 {
		t.Errorf("engines after the last run: got %d, want none", n)
	}
}

// TestDirectiveThatComesBackFindsItsRuns while one is under way.
func TestDirectiveThatComesBackFindsItsRuns(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	g.load(u.proxied(""))
	g.load(u.proxied("agent_runs"))
	if _, body := g.get("/_runs/" + reader.run()); !strings.Contains(body, `"state":"running"`) {
		t.Errorf("run of an earlier configuration: got %s, want it running", body)
	}
	if again := g.start(); again.run() == "" {
		t.Errorf("start after the directive came back: got status %d, want a run", again.resp.StatusCode)
	} else {
		u.next().finish()
		again.rest()
	}
	c.finish()
	reader.rest()
}

// TestAnotherStoreIsRefusedWhileRunsAreKept: the runs would be lost. Without
// any the store may change.
func TestAnotherStoreIsRefusedWhileRunsAreKept(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	site := u.proxied("agent_runs")
	g.load(site)
	const other = "agent_runs {\nstore memory\n}"
	g.global = other
	g.load(site) // nothing is lost
	g.global = ""
	g.load(site) // nor on the way back
	reader := g.start()
	c := u.next()
	refused := func(when string) {
		t.Helper()
		g.global = other
		if err := g.tryLoad(site); err == nil || !strings.Contains(err.Error(), "store memory cannot replace store embedded") {
			t.Errorf("another store, %s: got %v, want it refused by name", when, err)
		}
	}
	refused("with an active run")
	c.finish()
	reader.rest()
	eventually(t, "the run settles", func() bool {
		_, body := g.get("/_runs/" + reader.run())
		return strings.Contains(body, `"state":"completed"`)
	})
	refused("with a retained run")
	if resp, _ := g.get("/_runs/" + reader.run()); resp.StatusCode != http.StatusOK {
		t.Errorf("run after refused reloads: got %d, want 200", resp.StatusCode)
	}
	if resp, _ := g.fetch(g.request(http.MethodDelete, "/_runs/"+reader.run(), "")); resp.StatusCode != http.StatusNoContent {
		t.Errorf("deleting the run: got %d, want 204", resp.StatusCode)
	}
}

// TestValidateOpensNoStore: `caddy validate` provisions everything, perhaps
// beside a server that uses the store.
func TestValidateOpensNoStore(t *testing.T) {
	config, err := adapt(":80 {\nagent_runs\nreverse_proxy localhost:1\n}")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := engines.acquire(Store{})
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, config); err != nil {
		t.Fatal(err)
	}
	if shared.opened() {
		t.Error("store after validate: got an open one, want none")
	}
	engines.release(shared, 0)
	if n := poolSize(); n != 0 {
		t.Errorf("engines after validate: got %d, want none", n)
	}
}

// TestStoreMemoryFollowsReload: the bound of the running store changes.
func TestStoreMemoryFollowsReload(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	c.frames <- token(strings.Repeat("x", 2<<20))
	reader.next()
	g.global = "agent_runs {\nstore embedded {\nmemory 1MiB\n}\n}"
	g.load(u.proxied("agent_runs"))
	if refused := g.start(); refused.resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("start above the new bound: got %d, want 503", refused.resp.StatusCode)
	}
	g.global = ""
	g.load(u.proxied("agent_runs"))
	again := g.start()
	if again.run() == "" {
		t.Fatalf("start below the old bound: got status %d, want a run", again.resp.StatusCode)
	}
	u.next().finish()
	again.rest()
	c.finish()
	reader.rest()
}
