package proxy_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var presetGuard = proxy.Guard{
	Roles: []string{"user", "assistant"}, Models: []string{"small"}, NoTools: true, NoURLs: true,
	Set: []proxy.Fixed{{Path: "fixed_by", Value: `"us"`}},
}

// TestEveryDialectIsGuarded: whichever dialect a route has, what is forged in
// any is refused before the backend is called, and what its clients send every
// day arrives as it was sent, but for what the gateway sets.
func TestEveryDialectIsGuarded(t *testing.T) {
	cases := proxy.GuardCases(t)
	for _, named := range []string{"auto", "its own"} {
		sites := make(map[string]func(proxy.GuardCase))
		for _, c := range cases {
			key := "auto"
			if named != "auto" {
				key = c.Dialect
			}
			if sites[key] == nil {
				sites[key] = guardedDialect(t, key)
			}
			sites[key](c)
		}
	}
}

// guardedDialect returns how a case goes at a site of one dialect.
func guardedDialect(t *testing.T, name string) func(proxy.GuardCase) {
	s, seen := guarded(t, presetGuard, starting("", "/*"), func(c *proxy.Config) { c.Dialect, c.Busy = name, runregistry.BusyAllow })
	return func(c proxy.GuardCase) {
		t.Helper()
		before := s.calls.Load()
		w := s.serve(post(c.Path, bytes.NewReader(c.Body)))
		called := s.calls.Load() > before
		if c.Want != "pass" {
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"rule":"`+c.Want+`"`) || called {
				t.Errorf("dialect %s, %s %s\ngot %d %s (called: %v), want 403 for %s", name, c.Path, c.Body, w.Code, w.Body, called, c.Want)
			}
			return
		}
		if w.Code != http.StatusOK || !called {
			t.Errorf("dialect %s, %s %s\ngot %d %s, want 200 and a call", name, c.Path, c.Body, w.Code, w.Body)
			return
		}
		if got, want := seen(), `{"fixed_by":"us",`+string(c.Body[1:]); got != want {
			t.Errorf("dialect %s: the backend got\n%s, want\n%s", name, got, want)
		}
	}
}

// TestEveryDialectHasGuardCases: one that passes, and one that is refused.
func TestEveryDialectHasGuardCases(t *testing.T) {
	cases := proxy.GuardCases(t)
	for _, name := range dialect.Names() {
		for _, passes := range []bool{true, false} {
			if !slices.ContainsFunc(cases, func(c proxy.GuardCase) bool { return c.Dialect == name && (c.Want == "pass") == passes }) {
				t.Errorf("%s: no case with pass %v", name, passes)
			}
		}
	}
}

// TestAllowedRolesAreAllowedInEveryWord: what is refused for its role alone
// passes where the role is allowed.
func TestAllowedRolesAreAllowedInEveryWord(t *testing.T) {
	all := proxy.Guard{Roles: []string{"user", "assistant", "system", "developer", "tool", "remove", "constructor", "role_unspecified"}}
	s, seen := guarded(t, all, starting("", "/*"), func(c *proxy.Config) { c.Busy = runregistry.BusyAllow })
	for _, c := range proxy.GuardCases(t) {
		if c.Want != "roles" {
			continue
		}
		if w := s.serve(post(c.Path, bytes.NewReader(c.Body))); w.Code != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", c.Body, w.Code, w.Body)
		} else if got := seen(); got != string(c.Body) {
			t.Errorf("the backend got %s, want %s", got, c.Body)
		}
	}
}
