package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// application answers who somebody is and what they may, by their cookie.
func newApplication(t *testing.T) *httptest.Server {
	t.Helper()
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, known := strings.CutPrefix(r.Header.Get("Cookie"), "sid=")
		switch {
		case !known:
			w.WriteHeader(http.StatusUnauthorized)
		case user == "broken":
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/me":
			if err := json.NewEncoder(w).Encode(map[string]any{"user": map[string]any{"id": user}}); err != nil {
				t.Error(err)
			}
		case user == "mallory", strings.HasPrefix(r.URL.Path, "/write/") && user != "alice":
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// cookie is a request with the session of the application alone.
func cookie(user string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del("Authorization")
		if user != "" {
			r.Header.Set("Cookie", "sid="+user)
		}
	}
}

// TestTheApplicationSaysWhoAsks, and it alone is believed.
func TestTheApplicationSaysWhoAsks(t *testing.T) {
	g, u, app := newGateway(t), newUpstream(t), newApplication(t)
	g.load(u.proxied("agent_runs {\nidentity backend GET " + app.URL + "/me {\nsubject user.id\n}\n}"))
	got := seenBy(t, g, u, cookie("alice"), map[string]func(*http.Request){
		"the same": cookie("alice"), "another": cookie("bob"), "nobody": cookie(""), "who cannot be told": cookie("broken"),
	})
	compareStatus(t, got, map[string]int{"the same": 200, "another": 404, "nobody": 401, "who cannot be told": 503})
	foreign := g.request(http.MethodPost, chatPath, prompt)
	cookie("alice")(foreign)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, body := g.fetch(foreign); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "csrf_rejected") {
		t.Errorf("a start from another site: got %d %s, want 403", resp.StatusCode, body)
	}
}

// TestTheApplicationSaysWhoMay: runs are shared as it says.
func TestTheApplicationSaysWhoMay(t *testing.T) {
	g, u, app := newGateway(t), newUpstream(t), newApplication(t)
	g.load(u.proxied("agent_runs {\nidentity backend GET " + app.URL + "/me {\nsubject user.id\n}\nacl backend {\nread GET " +
		app.URL + "/read/{conversation_id}\nwrite GET " + app.URL + "/write/{conversation_id}/{run_id}\ncache off\n}\n}"))
	r := g.request(http.MethodPost, chatPath, prompt)
	cookie("alice")(r)
	s := g.stream(r)
	u.next().finish()
	s.rest()
	for _, row := range []struct {
		method, user string
		want         int
	}{
		{http.MethodGet, "alice", 200},
		{http.MethodGet, "bob", 200},
		{http.MethodGet, "mallory", 404},
		{http.MethodGet, "broken", 503},
		{http.MethodDelete, "bob", 404},
		{http.MethodDelete, "alice", 204},
		{http.MethodGet, "alice", 404},
	} {
		r := g.request(row.method, "/_runs/"+s.run(), "")
		cookie(row.user)(r)
		if resp, _ := g.fetch(r); resp.StatusCode != row.want {
			t.Errorf("%s as %s: got %d, want %d", row.method, row.user, resp.StatusCode, row.want)
		}
	}
}

// TestReloadWithOtherRulesDecidesReadersAnew: those of the old rules come back
// and meet the new ones. Other changes do not touch them.
func TestReloadWithOtherRulesDecidesReadersAnew(t *testing.T) {
	g, u, app := newGateway(t), newUpstream(t), newApplication(t)
	g.load(u.proxied("agent_runs"))
	starter := g.start()
	c := u.next()
	c.frames <- token("one")
	starter.next()
	reader := g.stream(g.request(http.MethodGet, "/_runs/"+starter.run()+"/events", ""))
	reader.next()
	g.load(u.proxied("agent_runs {\nkeepalive 1m\nrecheck 30s\n}"))
	c.frames <- token("two")
	if got := starter.next(); got != token("two") {
		t.Errorf("after a reload with the same rules: got %q, want %q", got, token("two"))
	}
	if got := reader.next(); !strings.Contains(got, "two") {
		t.Errorf("the second reader, after a reload with the same rules: got %q", got)
	}
	g.load(u.proxied("agent_runs {\nidentity backend GET " + app.URL + "/me {\nsubject user.id\n}\n}"))
	if got := reader.rest(); strings.Contains(got, "run.end") {
		t.Errorf("after a reload with other rules: got %q, want an end without a terminal frame", got)
	}
	c.finish()
}

// TestTicketsWorkThroughCaddy, and a warning says where they are written down.
func TestTicketsWorkThroughCaddy(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs {\nticket 5m\nidentity header X-User\n}"))
	as := func(method, path, body string) *http.Request {
		r := g.request(method, path, body)
		r.Header.Set("X-User", "alice")
		return r
	}
	s := g.stream(as(http.MethodPost, chatPath, prompt))
	u.next().finish()
	s.rest()
	resp, body := g.fetch(as(http.MethodPost, "/_runs/"+s.run()+"/ticket", ""))
	var ticket struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal([]byte(body), &ticket); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("got %d %s (%v), want a ticket", resp.StatusCode, body, err)
	}
	if resp, body := g.get(ticket.URL); resp.StatusCode != http.StatusOK || !strings.Contains(body, "[DONE]") {
		t.Errorf("with the ticket: got %d %s, want the events", resp.StatusCode, body)
	}
	if resp, _ := g.get("/_runs/" + s.run() + "/events"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without it: got %d, want 401", resp.StatusCode)
	}
	if !strings.Contains(g.log(), "tickets stand in URLs") {
		t.Error("got no warning about the access log")
	}
}
