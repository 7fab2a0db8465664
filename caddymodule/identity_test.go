package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// seenBy starts a run as one caller and reports what others get to see of it.
func seenBy(t *testing.T, g *gateway, u *upstream, as func(r *http.Request), others map[string]func(r *http.Request)) map[string]int {
	t.Helper()
	r := g.request(http.MethodPost, chatPath, prompt)
	as(r)
	s := g.stream(r)
	if s.run() == "" {
		t.Fatalf("start: got status %d, want a run", s.resp.StatusCode)
	}
	u.next().finish()
	s.rest()
	seen := make(map[string]int)
	for name, other := range others {
		read := g.request(http.MethodGet, "/_runs/"+s.run(), "")
		other(read)
		resp, _ := g.fetch(read)
		seen[name] = resp.StatusCode
	}
	return seen
}

func compareStatus(t *testing.T, got, want map[string]int) {
	t.Helper()
	for name, status := range want {
		if got[name] != status {
			t.Errorf("%s: got %d, want %d", name, got[name], status)
		}
	}
}

func setting(fields ...string) func(r *http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
	}
}

// TestSessionIdentityTellsScriptsApart is the default.
func TestSessionIdentityTellsScriptsApart(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	got := seenBy(t, g, u, setting("Authorization", "Bearer alice"), map[string]func(*http.Request){
		"the same key": setting("Authorization", "Bearer alice"),
		"another key":  setting("Authorization", "Bearer bob"),
	})
	compareStatus(t, got, map[string]int{"the same key": http.StatusOK, "another key": http.StatusNotFound})
}

// TestHeaderIdentityTrustsTheProxy: here all peers are trusted proxies, since
// they come over a socket.
func TestHeaderIdentityTrustsTheProxy(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs {\nidentity header X-User X-Tenant\n}"))
	got := seenBy(t, g, u, setting("X-User", "alice", "X-Tenant", "a"), map[string]func(*http.Request){
		"the same user":              setting("X-User", "alice", "X-Tenant", "a"),
		"another user":               setting("X-User", "bob", "X-Tenant", "a"),
		"the same in another tenant": setting("X-User", "alice", "X-Tenant", "b"),
		"without a tenant":           setting("X-User", "alice"),
		"nobody":                     setting(),
	})
	compareStatus(t, got, map[string]int{
		"the same user": http.StatusOK, "another user": http.StatusNotFound, "the same in another tenant": http.StatusNotFound,
		"without a tenant": http.StatusUnauthorized, "nobody": http.StatusUnauthorized,
	})
}

// TestHeaderIdentityDistrustsEverybodyElse: a client may send any header.
func TestHeaderIdentityDistrustsEverybodyElse(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	site := u.proxied("agent_runs {\nidentity header X-User\n}")
	g.loadText(strings.Replace(g.caddyfile(site), "trusted_proxies_unix", "", 1))
	r := g.request(http.MethodPost, chatPath, prompt)
	r.Header.Set("X-User", "alice")
	if resp, body := g.fetch(r); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("header of a client that is no trusted proxy: got %d %s, want 401", resp.StatusCode, body)
	}
}

// TestCaddyIdentityReadsPlaceholders that other directives set; one that is
// empty makes nobody, not somebody.
func TestCaddyIdentityReadsPlaceholders(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load("vars tenant {header.X-Org}\n" + u.proxied("agent_runs {\nidentity caddy {header.X-First}-{header.X-Last} tenant {vars.tenant}\n}"))
	alice := []string{"X-First", "Alice", "X-Last", "A", "X-Org", "acme"}
	got := seenBy(t, g, u, setting(alice...), map[string]func(*http.Request){
		"the same":       setting(alice...),
		"another":        setting("X-First", "Bob", "X-Last", "A", "X-Org", "acme"),
		"another tenant": setting("X-First", "Alice", "X-Last", "A", "X-Org", "other"),
		"half a name":    setting("X-First", "Alice", "X-Org", "acme"),
		"no tenant":      setting("X-First", "Alice", "X-Last", "A"),
	})
	compareStatus(t, got, map[string]int{
		"the same": http.StatusOK, "another": http.StatusNotFound, "another tenant": http.StatusNotFound,
		"half a name": http.StatusUnauthorized, "no tenant": http.StatusUnauthorized,
	})
}

// TestAnonymousIdentityIsOneForAll.
func TestAnonymousIdentityIsOneForAll(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs {\nidentity anonymous\n}"))
	got := seenBy(t, g, u, setting("Authorization", "Bearer alice"), map[string]func(*http.Request){
		"somebody else": setting("Authorization", "Bearer bob"),
	})
	compareStatus(t, got, map[string]int{"somebody else": http.StatusOK})
}

// TestSessionCookieIsSecureBehindATrustedProxy that ends TLS.
func TestSessionCookieIsSecureBehindATrustedProxy(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	compareSecure(t, g, u, map[string]bool{"https": true, "http": false, "": false})
}

// TestSessionCookieIgnoresProtocolsOfStrangers: browsers would refuse a secure
// cookie over clear text.
func TestSessionCookieIgnoresProtocolsOfStrangers(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.loadText(strings.Replace(g.caddyfile(u.proxied("agent_runs")), "trusted_proxies_unix", "", 1))
	compareSecure(t, g, u, map[string]bool{"https": false, "": false})
}

func compareSecure(t *testing.T, g *gateway, u *upstream, secure map[string]bool) {
	t.Helper()
	for proto, want := range secure {
		r := g.request(http.MethodPost, chatPath, prompt)
		r.Header.Del("Authorization")
		if proto != "" {
			r.Header.Set("X-Forwarded-Proto", proto)
		}
		s := g.stream(r)
		u.next().finish()
		s.rest()
		cookies := s.resp.Cookies()
		if len(cookies) != 1 || cookies[0].Secure != want {
			t.Errorf("session cookie with X-Forwarded-Proto %q: got %v, want one with Secure %t", proto, cookies, want)
		}
	}
}
