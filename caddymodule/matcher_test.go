package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// isRun reports whether the gateway makes a run of a request, and ends it.
func isRun(g *gateway, u *upstream, r *http.Request) bool {
	g.t.Helper()
	s := g.stream(r)
	if strings.HasPrefix(s.resp.Header.Get("Content-Type"), "text/event-stream") {
		u.next().finish()
	}
	s.rest()
	return s.run() != ""
}

// TestMatcherNarrowsStarts: with a matcher only what it matches starts a run,
// and run resources are served whatever it says.
func TestMatcherNarrowsStarts(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load("@llm header X-Agent yes\n" + u.proxied("agent_runs @llm"))
	if isRun(g, u, g.request(http.MethodPost, chatPath, prompt)) {
		t.Error("generation that the matcher does not match: got a run, want it passed on")
	}
	matched := g.request(http.MethodPost, chatPath, prompt)
	matched.Header.Set("X-Agent", "yes")
	s := g.stream(matched)
	if s.run() == "" {
		t.Fatalf("generation that the matcher matches: got no run, want one")
	}
	u.next().finish()
	s.rest()
	if resp, body := g.get("/_runs/" + s.run()); resp.StatusCode != http.StatusOK {
		t.Errorf("record, which the matcher does not match: got %d %s, want 200", resp.StatusCode, body)
	}
}

// TestStartLinesSayWhatStarts: methods, paths and matchers, each enough.
func TestStartLinesSayWhatStarts(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs {\nstart /stream/a /stream/b*\nstart GET /stream/get\nstart {\nmethod PUT\nheader X-Agent yes\n}\n}"))
	for _, c := range []struct {
		method, path string
		agent, want  bool
	}{
		{http.MethodPost, "/stream/a", false, true},
		{http.MethodPost, "/stream/ab", false, false},
		{http.MethodPost, "/stream/bc", false, true},
		{http.MethodGet, "/stream/a", false, false},
		{http.MethodGet, "/stream/get", false, true},
		{http.MethodPut, "/stream/put", true, true},
		{http.MethodPut, "/stream/put", false, false},
		{http.MethodPost, chatPath, false, false},
	} {
		body := ""
		if c.method != http.MethodGet {
			body = prompt
		}
		r := g.request(c.method, c.path, body)
		if c.agent {
			r.Header.Set("X-Agent", "yes")
		}
		if got := isRun(g, u, r); got != c.want {
			t.Errorf("%s %s (agent %t): got run %t, want %t", c.method, c.path, c.agent, got, c.want)
		}
	}
}

// TestDirectiveCoversItsBlock: at the top of a site all of it, inside a block
// that block alone.
func TestDirectiveCoversItsBlock(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	backend := "reverse_proxy " + u.Listener.Addr().String()
	blocks := "handle /v1/* {\n%\n" + backend + "\n}\nroute /stream/* {\n%\n" + backend + "\n}\n"
	g.load("agent_runs {\nstart /v1/* /stream/*\n}\n" + strings.ReplaceAll(blocks, "%", ""))
	for _, path := range []string{chatPath, "/stream/x"} {
		if !isRun(g, u, g.request(http.MethodPost, path, prompt)) {
			t.Errorf("%s under a directive at the top: got no run, want one", path)
		}
	}
	inside := strings.Replace(blocks, "%", "agent_runs {\napi /v1/_runs\nstart /v1/* /stream/*\n}", 1)
	g.load(strings.Replace(inside, "%", "", 1))
	if isRun(g, u, g.request(http.MethodPost, "/stream/x", prompt)) {
		t.Error("start outside the block of the directive: got a run, want it passed on")
	}
	s := g.start()
	if s.run() == "" {
		t.Fatal("start inside the block: got no run, want one")
	}
	u.next().finish()
	s.rest()
	if link := s.resp.Header.Get("Link"); !strings.Contains(link, "/v1/_runs/"+s.run()) {
		t.Errorf("links: got %q, want them below the block's path", link)
	}
	if resp, _ := g.get("/v1/_runs/" + s.run()); resp.StatusCode != http.StatusOK {
		t.Errorf("record inside the block: got %d, want 200", resp.StatusCode)
	}
}

// TestLinksUseTheOriginalPath: handle_path strips a prefix before the
// directive sees the request, and clients know nothing of that.
func TestLinksUseTheOriginalPath(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load("handle_path /llm/* {\n" + u.proxied("agent_runs") + "\n}")
	s := g.stream(g.request(http.MethodPost, "/llm"+chatPath, prompt))
	if got := u.next(); got.path != chatPath {
		t.Errorf("path at the backend: got %s, want %s", got.path, chatPath)
	} else {
		got.finish()
	}
	s.rest()
	if link := s.resp.Header.Get("Link"); !strings.Contains(link, "</llm/_runs/"+s.run()) {
		t.Errorf("links: got %q, want them below /llm", link)
	}
	if resp, _ := g.get("/llm/_runs/" + s.run()); resp.StatusCode != http.StatusOK {
		t.Errorf("record: got %d, want 200", resp.StatusCode)
	}
}
