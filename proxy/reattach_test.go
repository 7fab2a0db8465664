package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestOurCursorReattachesOnAnyPath and with any method; it never starts a run.
func TestOurCursorReattachesOnAnyPath(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3)...), generic)
		run := s.ran(t, startChat())
		cursor := testkit.Cursor(run, 1)
		asks := map[string]testkit.Ask{
			"GET its path":       {Method: http.MethodGet, Path: "/v1/chat/completions"},
			"GET another path":   {Method: http.MethodGet, Path: "/anything/else?q=1"},
			"PUT":                {Method: http.MethodPut, Path: "/v1/chat/completions"},
			"POST the same body": startChat(),
		}
		for name, ask := range asks {
			answer := s.Do(t, ask.With("Last-Event-ID", cursor)).Want(http.StatusOK)
			events := answer.Rest()
			testkit.CheckIDs(t, run, 2, events)
			if len(events) != 2 || answer.Run() != run || events[1].Name != "message" {
				t.Errorf("%s: got %v of %s, want frames 2 and 3 alone", name, testkit.Pairs(events), answer.Run())
			}
		}
		for _, name := range []string{"lastEventId", "last_event_id"} {
			events := s.Do(t, testkit.Ask{Path: "/v1/chat/completions"}.Query(name, cursor)).Want(http.StatusOK).Rest()
			if testkit.CheckIDs(t, run, 2, events) != 4 {
				t.Errorf("?%s=: got %v", name, testkit.Pairs(events))
			}
		}
		if got := s.calls.Load(); got != 1 {
			t.Errorf("got %d calls, want the first alone", got)
		}
	})
}

// TestAPostWithOurCursorNeedsTheRunsOwnBody: fetch-event-source posts again
// what it posted first.
func TestAPostWithOurCursorNeedsTheRunsOwnBody(t *testing.T) {
	for name, change := range map[string][]configure{
		"recognised":   {generic},
		"start option": {generic, starting("POST", "/v1/chat/completions")},
		"named route":  {generic, func(c *proxy.Config) { c.Name = "chat" }},
		"key required": {generic, func(c *proxy.Config) { c.Idempotency.Required = true }},
		"conflict":     {generic, func(c *proxy.Config) { c.Idempotency.Conflict = true }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, streams(data(3)...), change...)
				run := s.ran(t, startChat().Key("k-1"))
				again := s.Do(t, startChat().With("Last-Event-ID", testkit.Cursor(run, 1))).Want(http.StatusOK)
				if events := again.Rest(); testkit.CheckIDs(t, run, 2, events) != 4 || again.Header.Get("Idempotent-Replayed") != "true" {
					t.Errorf("got %v, replayed %q", testkit.Pairs(events), again.Header.Get("Idempotent-Replayed"))
				}
				s.Do(t, testkit.Chat("conv-1", "another").With("Last-Event-ID", testkit.Cursor(run, 1))).Problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
				s.Do(t, testkit.Chat("conv-9", "hello").With("Last-Event-ID", testkit.Cursor(run, 1))).Problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
				if got := s.calls.Load(); got != 1 {
					t.Errorf("got %d calls, want 1", got)
				}
			})
		})
	}
}

// starting sets the start option to one pattern.
func starting(method, path string) configure {
	return func(c *proxy.Config) { c.Starts = append(c.Starts, proxy.StartPattern{Method: method, Path: path}) }
}

// TestAnIDOfAnotherStreamIsNotOurs: it is left to the backend, as any request.
func TestAnIDOfAnotherStreamIsNotOurs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		seen := make(chan string, 10)
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			seen <- r.Header.Get("Last-Event-ID")
			sse(w)
			return nil
		}, generic)
		for _, id := range []string{"1", "theirs.7", "run_.1", "run_123.4", strings.Repeat("x", 300)} {
			s.Do(t, testkit.Ask{Path: "/events"}.With("Last-Event-ID", id)).Want(http.StatusOK).Rest()
			if got := <-seen; got != id {
				t.Errorf("backend got %q, want %q", got, id)
			}
		}
		// A start's own field never reaches upstream: it would answer a part only.
		s.Do(t, startChat().With("Last-Event-ID", "theirs.7")).Want(http.StatusOK).Rest()
		if got := <-seen; got != "" {
			t.Errorf("upstream got %q with a start, want nothing", got)
		}
	})
}

// TestCursorsOnAPathOfTheApplication follow the resuming table.
func TestCursorsOnAPathOfTheApplication(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3)...), generic)
		run := s.ran(t, startChat())
		at := func(cursor string) testkit.Ask { return testkit.Ask{Path: "/chat"}.With("Last-Event-ID", cursor) }
		s.Do(t, at(run+".x")).Problem(http.StatusBadRequest, "malformed_cursor")
		s.Do(t, at(run+".01")).Problem(http.StatusBadRequest, "malformed_cursor")
		s.Do(t, at("run_0"+strings.Repeat("0", 27)+".1")).Problem(http.StatusNotFound, "run_not_found")
		nothing(t, s.Do(t, at(testkit.Cursor(run, 3))), run)
		nothing(t, s.Do(t, at(testkit.Cursor(run, 4))), run)
		onlyExpired(t, run, s.Do(t, at(testkit.Cursor(run, 5))).Want(http.StatusOK).Rest(), "lost", 4)
		s.As("user-b").Do(t, at(testkit.Cursor(run, 1))).Problem(http.StatusNotFound, "run_not_found")
		post := startChat().With("Last-Event-ID", testkit.Cursor(run, 1))
		s.As("user-b").Do(t, post).Problem(http.StatusNotFound, "run_not_found")
	})
}

// TestAReattachToARunThatFailed: a dialect with an error frame gets it, a
// generic stream gets run.end as its only event of ours.
func TestAReattachToARunThatFailed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(breaks(chatFrame("a"), chatFrame("b")), breaks(data(2)...)))
		chat, plain := s.ran(t, startChat()), s.ran(t, testkit.Ask{Path: "/chat", Body: `{"stream":true}`})
		for run, want := range map[string]string{chat: "message", plain: "run.end"} {
			events := s.Do(t, testkit.Ask{Path: "/chat"}.With("Last-Event-ID", testkit.Cursor(run, 1))).Want(http.StatusOK).Rest()
			testkit.CheckIDs(t, run, 2, events)
			if len(events) != 2 || events[1].Name != want {
				t.Errorf("got %v, want frame 2 and %s", testkit.Pairs(events), want)
			}
			nothing(t, s.Do(t, testkit.Ask{Path: "/chat"}.With("Last-Event-ID", testkit.Cursor(run, 3))), run)
		}
	})
}
