package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// basicAuth lets two users in by the password "secret".
const basicAuth = `basic_auth {
	alice $2a$04$siI7QYlNp0oj8oaBH74U7eBg7bpG7UkrX2fc6UnyDzyJ/q8uQQzSi
	bob $2a$04$siI7QYlNp0oj8oaBH74U7eBg7bpG7UkrX2fc6UnyDzyJ/q8uQQzSi
}
`

// TestForwardAuthNamesTheSubject: the field is what the application answers,
// whatever a client puts there.
func TestForwardAuthNamesTheSubject(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := map[string]string{"Bearer alice": "1", "Bearer bob": "2", "Bearer guest": ""}
		id, known := user[r.Header.Get("Authorization")]
		if !known {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if id != "" {
			w.Header().Set("X-User-Id", id)
		}
	}))
	defer login.Close()
	g, u := newGateway(t), newUpstream(t)
	g.load("forward_auth " + login.Listener.Addr().String() + " {\nuri /check\ncopy_headers X-User-Id\n}\n" +
		u.proxied("agent_runs {\nidentity caddy {http.request.header.X-User-Id}\n}"))
	got := seenBy(t, g, u, setting("Authorization", "Bearer alice"), map[string]func(*http.Request){
		"the same":            setting("Authorization", "Bearer alice"),
		"another":             setting("Authorization", "Bearer bob"),
		"another who lies":    setting("Authorization", "Bearer bob", "X-User-Id", "1"),
		"a guest":             setting("Authorization", "Bearer guest"),
		"a guest who lies":    setting("Authorization", "Bearer guest", "X-User-Id", "1"),
		"a stranger":          setting("Authorization", "Bearer x"),
		"a stranger who lies": setting("Authorization", "Bearer x", "X-User-Id", "1"),
	})
	compareStatus(t, got, map[string]int{
		"the same": http.StatusOK, "another": http.StatusNotFound, "another who lies": http.StatusNotFound,
		"a guest": http.StatusUnauthorized, "a guest who lies": http.StatusUnauthorized,
		"a stranger": http.StatusUnauthorized, "a stranger who lies": http.StatusUnauthorized,
	})
}

// TestBasicAuthNamesTheSubject by default.
func TestBasicAuthNamesTheSubject(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(basicAuth + u.proxied("agent_runs {\nidentity caddy\n}"))
	as := func(name, password string, more ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.SetBasicAuth(name, password)
			setting(more...)(r)
		}
	}
	got := seenBy(t, g, u, as("alice", "secret"), map[string]func(*http.Request){
		"the same":         as("alice", "secret"),
		"another":          as("bob", "secret", "X-User-Id", "alice"),
		"a wrong password": as("alice", "wrong"),
		"nobody":           func(r *http.Request) { r.Header.Del("Authorization") },
	})
	compareStatus(t, got, map[string]int{
		"the same": http.StatusOK, "another": http.StatusNotFound, "a wrong password": http.StatusUnauthorized, "nobody": http.StatusUnauthorized,
	})
}

// TestBasicAuthIsAmbient: a browser adds it for pages of other sites too.
func TestBasicAuthIsAmbient(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(basicAuth + u.proxied("agent_runs {\nidentity caddy\n}"))
	r := g.request(http.MethodPost, chatPath, prompt)
	r.SetBasicAuth("alice", "secret")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, body := g.fetch(r); resp.StatusCode != http.StatusForbidden || len(u.calls) > 0 {
		t.Errorf("start from another site: got %d %s, want 403", resp.StatusCode, body)
	}
}
