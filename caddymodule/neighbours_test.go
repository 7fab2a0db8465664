package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestEncodeLeavesStreamsAlone: compression would hold frames back, and the
// directive stands inside encode.
func TestEncodeLeavesStreamsAlone(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load("encode gzip\n" + u.proxied("agent_runs"))
	r := g.request(http.MethodPost, chatPath, prompt)
	r.Header.Set("Accept-Encoding", "gzip, br, zstd")
	s := g.stream(r)
	c := u.next()
	if got := c.header.Get("Accept-Encoding"); got != "identity" {
		t.Errorf("Accept-Encoding at the backend: got %q, want identity", got)
	}
	c.frames <- token("one")
	if got, want := s.next(), token("one"); got != want {
		t.Errorf("first frame: got %q, want %q", got, want)
	}
	if got := s.resp.Header.Get("Content-Encoding"); got != "" {
		t.Errorf("Content-Encoding: got %q, want none", got)
	}
	c.finish()
	s.rest()
}

// TestBackendSeesWhatCameBefore: a detached request carries the variables,
// placeholders and users that handlers before the directive have set.
func TestBackendSeesWhatCameBefore(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(`vars color green
	map {path} {shape} {
		~^/v1/ round
		default square
	}
	@version path_regexp version ^/(v\d+)/
	vars @version seen yes
	basic_auth {
		alice $2a$04$88FReSYX5WDI6S4PNe4eq.SwNGMqJJTKLS0RWQ9/etka4y13CcVWC
	}
	agent_runs {
		identity caddy
	}
	reverse_proxy ` + u.Listener.Addr().String() + ` {
		header_up X-Color {vars.color}
		header_up X-Shape {shape}
		header_up X-Version {re.version.1}
		header_up X-User {http.auth.user.id}
		header_up X-Run {http.agent_runs.run_id}
		header_up X-Conversation {http.agent_runs.conversation_id}
		header_up X-State {http.agent_runs.state}
		header_up X-Attempt {http.agent_runs.attempt}
		header_up X-Client {client_ip}
		header_up X-Original {orig_uri}
		header_up X-Host {host}
	}`)
	r := g.request(http.MethodPost, chatPath+"?q=1", prompt)
	r.SetBasicAuth("alice", "secret")
	r.Header.Set("X-Forwarded-For", "192.0.2.7")
	r.Header.Set("X-Conversation-Id", "conv-42")
	s := g.stream(r)
	c := u.next()
	for name, want := range map[string]string{
		"X-Color": "green", "X-Shape": "round", "X-Version": "v1", "X-User": "alice", "X-Run": s.run(),
		"X-Conversation": "conv-42", "X-State": "running", "X-Attempt": "1", "X-Client": "192.0.2.7",
		"X-Original": chatPath + "?q=1", "X-Host": "gateway.test",
	} {
		if got := c.header.Get(name); got != want {
			t.Errorf("%s at the backend: got %q, want %q", name, got, want)
		}
	}
	c.finish()
	s.rest()
}

// TestAccessLogNamesTheRun, also for requests that read it later, and not for
// requests that are none of its business.
func TestAccessLogNamesTheRun(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load("log\nlog_append state {http.agent_runs.state}\n" + u.proxied("agent_runs"))
	s := g.start()
	u.next().finish()
	s.rest()
	if _, body := g.get("/plain"); !strings.HasPrefix(body, "plain GET /plain") {
		t.Errorf("other request: got %q, want the backend's answer", body)
	}
	var line string
	eventually(t, "access log", func() bool {
		for l := range strings.Lines(g.log()) {
			if strings.Contains(l, "http.log.access") && strings.Contains(l, chatPath) {
				line = l
			}
		}
		return line != ""
	})
	for _, want := range []string{`"run_id":"` + s.run() + `"`, `"conversation_id":"conv_`, `"state":"running"`} {
		if !strings.Contains(line, want) {
			t.Errorf("access log line: got %s, want %s in it", line, want)
		}
	}
}

// TestErrorRoutesAnswerForTheBackend: an error before the first byte goes
// through handle_errors with the run id visible, if they handle its status.
func TestErrorRoutesAnswerForTheBackend(t *testing.T) {
	g := newGateway(t)
	const nobody = "agent_runs\nreverse_proxy 127.0.0.1:1\n"
	for name, c := range map[string]struct {
		site, want string
	}{
		"all statuses":   {nobody + "handle_errors {\nrespond \"sorry {err.status_code} {http.agent_runs.run_id}\" 418\n}", "sorry 502 run_"},
		"this status":    {nobody + "handle_errors 502 {\nrespond \"sorry {http.agent_runs.run_id}\" 418\n}", "sorry run_"},
		"another status": {nobody + "handle_errors 404 {\nrespond \"sorry\" 418\n}", `"code":"upstream_unreachable"`},
		"none":           {nobody, `"code":"upstream_unreachable"`},
	} {
		g.load(c.site)
		resp, body := g.fetch(g.request(http.MethodPost, chatPath, prompt))
		if !strings.Contains(body, c.want) {
			t.Errorf("error routes for %s: got %d %s, want %s in it", name, resp.StatusCode, body, c.want)
		}
		if run := resp.Header.Get("X-Run-Id"); run == "" {
			t.Errorf("error routes for %s: got no X-Run-Id, want one", name)
		}
	}
}

// TestHandleBlocksStayExclusive: of a group of handle blocks a request takes
// one, also when it is detached in that one.
func TestHandleBlocksStayExclusive(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load("handle /v1/* {\nagent_runs\n}\nhandle {\nreverse_proxy " + u.Listener.Addr().String() + "\n}")
	answer := g.start()
	select {
	case <-answer.blocks:
	case c := <-u.calls:
		c.finish()
		t.Error("start in a block without a backend: reached the backend of the other block")
	}
}
