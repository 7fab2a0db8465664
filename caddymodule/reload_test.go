package caddymodule

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestReloadKeepsRunsAndReaders is what the whole pool is for: a run that is
// under way, and the client that reads it, do not notice a reload.
func TestReloadKeepsRunsAndReaders(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	c.frames <- token("one")
	if got, want := reader.next(), token("one"); got != want {
		t.Fatalf("before the reload: got %q, want %q", got, want)
	}
	g.load(u.proxied("agent_runs {\nkeepalive 1m\n}"))
	c.frames <- token("two")
	if got, want := reader.next(), token("two"); got != want {
		t.Errorf("after the reload: got %q, want %q", got, want)
	}
	second := g.stream(g.request(http.MethodGet, "/_runs/"+reader.run()+"/events?control=off", ""))
	if got, want := second.next()+second.next(), token("one")+token("two"); got != want {
		t.Errorf("second reader, on the new configuration: got %q, want %q", got, want)
	}
	c.finish()
	if got := reader.rest(); got != doneMark {
		t.Errorf("end of the first reader: got %q, want %q", got, doneMark)
	}
	if got := second.rest(); got != doneMark {
		t.Errorf("end of the second reader: got %q, want %q", got, doneMark)
	}
	if _, body := g.get("/_runs/" + reader.run()); !strings.Contains(body, `"state":"completed"`) {
		t.Errorf("record: got %s, want state completed", body)
	}
}

// TestReloadKeepsTheEngine: both configurations hold the same one, and one
// reference is left of it.
func TestReloadKeepsTheEngine(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	before := onlyEngine(t)
	g.load(u.proxied("agent_runs {\nname other\n}"))
	if after := onlyEngine(t); after != before {
		t.Errorf("engine after a reload: got another one, want the same")
	}
	if n, _ := engines.usage.References(Store{}.key()); n != 1 {
		t.Errorf("references after a reload: got %d, want 1", n)
	}
}

// TestFailedReloadChangesNothing: a configuration that fails early, in the
// middle or late gives back what it took, and the running one goes on.
func TestFailedReloadChangesNothing(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	for _, mistake := range []struct {
		name, site string
		times      int
	}{
		{"mistake in the Caddyfile", "agent_runs {\ndialect klingon\n}", 1},
		{"mistake in another handler", "agent_runs\nreverse_proxy {\nlb_policy moon\n}", 1},
		{"secret that is not there", "agent_runs {\nidentity session {\nsecret {env.AGENT_RUNS_NOT_SET}\n}\n}", 1},
		{"handler after it that cannot be set up", "agent_runs\nreverse_proxy https://localhost:1 {\ntransport http {\ntls_client_auth /no/cert /no/key\n}\n}", 1},
		// Caddy starts apps in random order: ours may have started before this fails.
		{"listener that cannot be opened", "agent_runs\nbind unix//does/not/exist/s", 8},
	} {
		for range mistake.times {
			if err := g.tryLoad(mistake.site); err == nil {
				t.Errorf("reload with a %s: got no error, want one", mistake.name)
			}
		}
		if n, _ := engines.usage.References(Store{}.key()); n != 1 {
			t.Errorf("references after a reload with a %s: got %d, want 1", mistake.name, n)
		}
	}
	c.frames <- token("still here")
	if got, want := reader.next(), token("still here"); got != want {
		t.Errorf("after failed reloads: got %q, want %q", got, want)
	}
	c.finish()
	reader.rest()
}

// TestReloadAppliesNewSettings: a run keeps what it was started with, requests
// get what is configured now.
func TestReloadAppliesNewSettings(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	g.load(u.proxied("agent_runs {\napi /answers\n}"))
	if _, body := g.get("/answers/" + reader.run()); !strings.Contains(body, `"state":"running"`) {
		t.Errorf("under the new path: got %s, want the running run", body)
	}
	if _, body := g.get("/_runs/" + reader.run()); !strings.HasPrefix(body, "plain GET") {
		t.Errorf("under the old path: got %s, want the backend's answer", body)
	}
	c.finish()
	reader.rest()
}

// TestReloadKeepsSessions: the signing key is made once and found again.
func TestReloadKeepsSessions(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	r := g.request(http.MethodPost, chatPath, prompt)
	r.Header.Del("Authorization") // a browser
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	reader := g.stream(r)
	cookies := reader.resp.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("cookies: got %v, want one", cookies)
	}
	u.next().finish()
	reader.rest()
	g.load(u.proxied("agent_runs {\nname other\n}"))
	read := g.request(http.MethodGet, "/_runs/"+reader.run(), "")
	read.Header.Del("Authorization")
	read.AddCookie(cookies[0])
	if resp, body := g.fetch(read); resp.StatusCode != http.StatusOK {
		t.Errorf("with the session of before the reload: got %d %s, want 200", resp.StatusCode, body)
	}
}

// TestRunEndsInTheNewestLog: the output of the configuration that it was
// started under is closed by then.
func TestRunEndsInTheNewestLog(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	g.logName = "newlog"
	g.load(u.proxied("agent_runs"))
	c.finish()
	reader.rest()
	eventually(t, "line in the new log", func() bool {
		return strings.Contains(g.log(), `"run ended","run_id":"`+reader.run()+`"`)
	})
}

// TestMetricsSurviveReload: every configuration has a registry of its own, and
// counters do not start again.
func TestMetricsSurviveReload(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	site := "metrics /metrics\n" + u.proxied("agent_runs")
	g.load(site)
	reader := g.start()
	u.next().finish()
	reader.rest()
	const started = "caddy_agent_runs_started_total"
	before := metric(t, g, started)
	for range 3 {
		g.load(site)
	}
	if after := metric(t, g, started); after != before || before < 1 {
		t.Errorf("%s: got %v before and %v after reloads, want the same number above 0", started, before, after)
	}
}

func metric(t *testing.T, g *gateway, name string) float64 {
	t.Helper()
	_, body := g.get("/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("metric %s: got none in\n%s", name, body)
	return 0
}

func onlyEngine(t *testing.T) *sharedEngine {
	t.Helper()
	var found []*sharedEngine
	engines.usage.Range(func(_, v any) bool {
		if s, ok := v.(*sharedEngine); ok {
			found = append(found, s)
		}
		return true
	})
	if len(found) != 1 {
		t.Fatalf("engines: got %d, want 1", len(found))
	}
	return found[0]
}
