package caddymodule

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestARedisThatIsDownIsNoMistake: the gateway starts, refuses runs, passes
// everything else, and serves runs once the server is there.
func TestARedisThatIsDownIsNoMistake(t *testing.T) {
	server := testkit.StartRedis(t)
	server.Kill()
	g, u := newGateway(t), newUpstream(t)
	g.global = inRedis(server.URL())
	g.load(u.proxied("agent_runs"))
	resp, body := g.fetch(g.request(http.MethodPost, chatPath, prompt))
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "store_unavailable") || resp.Header.Get("Retry-After") == "" {
		t.Errorf("start without Redis: got %d %s, want 503 store_unavailable with Retry-After", resp.StatusCode, body)
	}
	if _, body := g.get("/plain"); !strings.HasPrefix(body, "plain GET") {
		t.Errorf("other request without Redis: got %s, want the backend's answer", body)
	}
	server.Start()
	eventually(t, "a run", func() bool {
		resp := g.do(g.request(http.MethodPost, chatPath, prompt))
		return resp.StatusCode == http.StatusOK
	})
	u.next().finish()
}

// TestReloadToAnotherRedis is refused while runs of this process are active or
// retained: the other store does not have them.
func TestReloadToAnotherRedis(t *testing.T) {
	server := testkit.StartRedis(t)
	g, u := newGateway(t), newUpstream(t)
	g.global = inRedis(server.URL())
	site := u.proxied("agent_runs")
	g.load(site)
	reader := g.start()
	c := u.next()
	c.frames <- token("one")
	reader.next()

	g.global = inRedis(server.URL(), "key_prefix other:")
	if err := g.tryLoad(site); err == nil || !strings.Contains(err.Error(), "cannot replace store redis "+server.Addr()) {
		t.Errorf("reload with another store during a run: got %v, want it refused", err)
	}
	g.global = inRedis(server.URL(), "pool_size 3")
	g.load(site)
	if !strings.Contains(g.log(), "change with a restart") {
		t.Error("reload with another pool_size: got no warning, want one")
	}
	c.frames <- token("two")
	if got, want := reader.next(), token("two"); got != want {
		t.Errorf("after the reloads: got %q, want %q", got, want)
	}
	c.finish()
	reader.rest()

	eventually(t, "the end of the run", func() bool { return onlyEngine(t).engine.Active() == 0 })
	g.global = inRedis(server.URL(), "key_prefix other:")
	if err := g.tryLoad(site); err == nil || !strings.Contains(err.Error(), "which holds runs") {
		t.Errorf("reload with another store after a run: got %v, want it refused", err)
	}
	if _, body := g.get("/_runs/" + reader.run()); !strings.Contains(body, `"state":"completed"`) {
		t.Errorf("the run after the refusal: got %s, want it completed", body)
	}
}

// TestReloadToAnotherRedisOnceRunsHaveExpired is not refused.
func TestReloadToAnotherRedisOnceRunsHaveExpired(t *testing.T) {
	server := testkit.StartRedis(t)
	g, u := newGateway(t), newUpstream(t)
	brief := func(text string) string {
		return strings.Replace(text, "agent_runs {", "agent_runs {\nframe_retention 1s\nrecord_retention 1s", 1)
	}
	g.global = brief(inRedis(server.URL()))
	site := u.proxied("agent_runs")
	g.load(site)
	reader := g.start()
	u.next().finish()
	reader.rest()
	g.global = brief(inRedis(server.URL(), "key_prefix other:"))
	eventually(t, "reload after the record's end", func() bool { return g.tryLoad(site) == nil })
}

// TestReloadBringsTheNewPassword to a store that stays open.
func TestReloadBringsTheNewPassword(t *testing.T) {
	server := testkit.StartRedis(t, "requirepass one")
	server.Password = "one"
	withPassword := func(p string) string { return strings.Replace(server.URL(), "://", "://:"+p+"@", 1) }
	g, u := newGateway(t), newUpstream(t)
	g.global = inRedis(withPassword("one"))
	site := u.proxied("agent_runs")
	g.load(site)
	before := onlyEngine(t)
	reader := g.start()
	c := u.next()

	g.global = inRedis(withPassword("two"))
	g.load(site)
	if onlyEngine(t) != before {
		t.Error("engine after a reload with another password: got another one, want the same")
	}
	server.Do("CONFIG", "SET", "requirepass", "two")
	server.Password = "two"
	server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	c.frames <- token("one")
	if got, want := reader.next(), token("one"); got != want {
		t.Errorf("after the password has changed: got %q, want %q", got, want)
	}
	c.finish()
	reader.rest()
}

// TestSessionsOfARedisStoreHaveOneKey, which all gateways find there.
func TestSessionsOfARedisStoreHaveOneKey(t *testing.T) {
	store := Store{Kind: storeRedis, Redis: Redis{URLs: []string{testkit.StartRedis(t).URL()}}}
	if err := store.resolve(); err != nil {
		t.Fatal(err)
	}
	var first []byte
	for i := range 2 { // the second is another process, as far as Redis knows
		shared, err := engines.acquire(store)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shared.open(); err != nil {
			t.Fatal(err)
		}
		secret, err := shared.secret(&certmagic.FileStorage{Path: t.TempDir()})
		if err != nil || len(secret) == 0 || i > 0 && !bytes.Equal(secret, first) {
			t.Errorf("gateway %d: got a key of %d bytes, the first one's %t (%v), want one key", i, len(secret), bytes.Equal(secret, first), err)
		}
		first = secret
		engines.release(shared, 0)
		engines.Close()
	}
}
