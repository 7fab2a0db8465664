package proxy_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// fields are what a backend may send with a stream.
var fields = http.Header{
	"Content-Type":                 {"text/event-stream; charset=utf-8"},
	"Content-Location":             {"/x/1"},
	"Location":                     {"/x/2"},
	"Mcp-Session-Id":               {"mcp-1"},
	"X-Vercel-Ai-Ui-Message-Other": {"v1"},
	"X-Request-Id":                 {"req-1"},
	"Request-Id":                   {"req-2"},
	"Openai-Version":               {"2020"},
	"Anthropic-Ratelimit":          {"9"},
	"X-Model":                      {"m-1", "m-2"},
	"Set-Cookie":                   {"a=1", "b=2"},
	"Www-Authenticate":             {"Basic"},
	"Access-Control-Allow-Origin":  {"*"},
	"X-Custom":                     {"c"},
	"Server":                       {"s"},
	"Vary":                         {"Accept-Language"},
	"Link":                         {"</style.css>; rel=preload"},
	// Of one connection, or untrue for a stream of frames:
	"Connection":        {"X-Hop"},
	"X-Hop":             {"h"},
	"Keep-Alive":        {"timeout=5"},
	"Etag":              {`"v"`},
	"Last-Modified":     {"Mon, 30 Nov 2026 00:00:00 GMT"},
	"Accept-Ranges":     {"bytes"},
	"Cache-Control":     {"max-age=60"},
	"X-Run-Id":          {"run_theirs"},
	"X-Run-Secret":      {"s"},
	"X-Conversation-Id": {"theirs"},

	"Idempotent-Replayed": {"true"}, // nothing was
}

var kept = []string{"Content-Type", "Content-Location", "Location", "Mcp-Session-Id", "X-Vercel-Ai-Ui-Message-Other", "X-Request-Id", "Request-Id", "Openai-Version", "Anthropic-Ratelimit", "X-Model"}

var onceOnly = []string{"Set-Cookie", "Www-Authenticate", "Access-Control-Allow-Origin", "X-Custom", "Server"}

var never = []string{"X-Hop", "Keep-Alive", "Etag", "Last-Modified", "Accept-Ranges", "X-Run-Secret"}

// TestWhichFieldsAreStored: an allow-list is replayed to everybody, the rest
// belongs to the first delivery alone, and what concerns one connection or is
// untrue for a stream to nobody.
func TestWhichFieldsAreStored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			maps.Copy(w.Header(), fields)
			w.WriteHeader(http.StatusOK)
			return say(w, datum("1"))
		}, generic, func(c *proxy.Config) { c.ReplayHeaders = []string{"x-model"} })
		first := s.Do(t, startChat().Key("k-1"))
		first.Rest()
		run := first.Run()
		answers := map[string]*testkit.Answer{
			"first": first, "retry": s.Do(t, startChat().Key("k-1")), "own": s.Do(t, own(run, "")),
			"our cursor": s.Do(t, testkit.Ask{Path: "/chat"}.With("Last-Event-ID", testkit.Cursor(run, 0))),
		}
		for who, a := range answers {
			for _, name := range kept {
				if got := a.Header[name]; strings.Join(got, "|") != strings.Join(fields[name], "|") {
					t.Errorf("%s: got %s %q, want %q", who, name, got, fields[name])
				}
			}
			for _, name := range onceOnly {
				if got := a.Header[name]; (who == "first") != (strings.Join(got, "|") == strings.Join(fields[name], "|")) {
					t.Errorf("%s: got %s %q", who, name, got)
				}
			}
			for _, name := range never {
				if got := a.Header[name]; len(got) > 0 {
					t.Errorf("%s: got %s %q, want none", who, name, got)
				}
			}
			ours(t, who, a, run)
		}
		if links := first.Header["Link"]; len(links) != 2 || links[0] != fields["Link"][0] {
			t.Errorf("got links %q, want upstream's beside ours", links)
		}
		if got := first.Header["Set-Cookie"]; len(got) != 2 {
			t.Errorf("got cookies %q", got)
		}
	})
}

// ours checks the fields that every stream of a run carries.
func ours(t *testing.T, who string, a *testkit.Answer, run string) {
	t.Helper()
	links := strings.Join(a.Header["Link"], ", ")
	for _, want := range []string{"</_runs/" + run + ">; rel=", "</_runs/" + run + "/events>; rel=", "</_runs/" + run + "/cancel>; rel="} {
		if !strings.Contains(links, want) {
			t.Errorf("%s: got links %q, want %s", who, links, want)
		}
	}
	for name, want := range map[string]string{
		"X-Run-Id": run, "X-Run-Attempt": "1", "X-Conversation-Id": "conv-1",
		"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no",
	} {
		if got := strings.Join(a.Header[name], "|"); got != want {
			t.Errorf("%s: got %s %q, want %q", who, name, got, want)
		}
	}
	if got := a.Header.Get("Idempotent-Replayed"); (got == "true") != (who == "retry") {
		t.Errorf("%s: got Idempotent-Replayed %q", who, got)
	}
}

// TestControlledEventsCarryNoFieldOfUpstreams: they are a resource of ours.
func TestControlledEventsCarryNoFieldOfUpstreams(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("X-Request-Id", "req-1")
			w.Header().Set("Location", "/x")
			sse(w)
			return say(w, datum("1"))
		}, generic)
		run := s.ran(t, startChat())
		a := s.Resume(t, run, "")
		if a.Header.Get("X-Request-Id") != "" || a.Header.Get("Location") != "" || a.Header.Get("Vary") != "Accept" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got %v", a.Header)
		}
		ours(t, "events", a, run)
	})
}

// TestTheRunIDComesWithTheHead, before the first byte of the body: case 01.
func TestTheRunIDComesWithTheHead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(), generic)
		a := s.Do(t, startChat()).Want(http.StatusOK)
		if rec := s.Snapshot(t, a.Run()); rec.State != "running" || *rec.Upstream.Status != http.StatusOK || rec.ConversationID != "conv-1" {
			t.Errorf("got %+v", rec)
		}
	})
}

// TestLinksFollowTheConfiguredPrefix.
func TestLinksFollowTheConfiguredPrefix(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic, func(c *proxy.Config) { c.API = "/ai/runs" })
		a := s.Do(t, startChat())
		a.Rest()
		if got := a.Header.Get("Link"); !strings.Contains(got, "</ai/runs/"+a.Run()+"/events>") {
			t.Errorf("got %s", got)
		}
		rec := testkit.Decode[testkit.Record](t, s.Do(t, testkit.Ask{Path: "/ai/runs/" + a.Run()}).Want(http.StatusOK).Body())
		if rec.Links.Self != "/ai/runs/"+a.Run() || rec.Links.Events != rec.Links.Self+"/events" || rec.Links.Cancel != rec.Links.Self+"/cancel" {
			t.Errorf("got %+v", rec.Links)
		}
		checkUntouched(t, request{name: "the usual prefix", method: http.MethodGet, path: "/_runs"}, newSite(t, mirror, func(c *proxy.Config) { c.API = "/ai/runs" }).Do(t, testkit.Ask{Path: "/_runs"}))
	})
}
