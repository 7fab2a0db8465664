package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestTheGrammarOfKeys: printable ASCII, bare or as a string of Structured
// Fields, which spell the same key.
func TestTheGrammarOfKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		for _, key := range []string{
			" ", "", `""`, "a b", "a,b", "a;b", `a"b`, `a\b`, "ä", "a\tb", strings.Repeat("k", 256), `"` + strings.Repeat("k", 256) + `"`, `"a b"`,
		} {
			s.Do(t, startChat().Key(key)).Problem(http.StatusBadRequest, "idempotency_key_invalid")
		}
		two := startChat()
		two.Header["Idempotency-Key"] = []string{"a", "a"}
		s.Do(t, two).Problem(http.StatusBadRequest, "idempotency_key_invalid")
		if got := s.calls.Load(); got != 0 {
			t.Errorf("got %d calls, want none", got)
		}
		for _, key := range []string{"k", strings.Repeat("k", 255), "8e03978e-40d5-43dd-bc93-6894a57f9324", "!#$%&'()*+-./:<=>?@[]^_`{|}~"} {
			first := s.ran(t, startChat().Key(key))
			if again := s.ran(t, startChat().Key(`"`+key+`"`)); again != first {
				t.Errorf("key %q: quoted it started %s, want %s again", key, again, first)
			}
		}
	})
}

// TestARetryWithItsKeyAttachesToAnActiveRun from the beginning, on as many
// connections as it likes.
func TestARetryWithItsKeyAttachesToAnActiveRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		end := make(chan struct{})
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			err := say(w, strings.Join(data(3), ""))
			<-end
			return err
		}, generic)
		first := s.Do(t, startChat().Key("k-1"))
		first.Take(3)
		again := s.Do(t, startChat().Key("k-1")).Want(http.StatusOK)
		if again.Run() != first.Run() || again.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("got run %s (replayed %q, first %q), want %s", again.Run(), again.Header.Get("Idempotent-Replayed"), first.Header.Get("Idempotent-Replayed"), first.Run())
		}
		close(end)
		testkit.CheckIDs(t, first.Run(), 1, again.Rest())
		first.Rest()
		if got := s.calls.Load(); got != 1 {
			t.Errorf("got %d calls, want 1", got)
		}
	})
}

// TestARetryWithItsKeyReplaysAnEndedRun with the original status and the stored
// fields.
func TestARetryWithItsKeyReplaysAnEndedRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("X-Request-Id", "req-1")
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusCreated)
			return say(w, strings.Join(data(3), ""))
		}, generic)
		first := s.Do(t, startChat().Key("k-1")).Want(http.StatusCreated)
		body := string(first.Body())
		time.Sleep(9 * time.Minute)
		again := s.Do(t, startChat().Key("k-1")).Want(http.StatusCreated)
		if got := string(again.Body()); got != body || again.Header.Get("X-Request-Id") != "req-1" || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("got %q with %v, want %q", got, again.Header, body)
		}
	})
}

// TestAKeyBelongsToOneRequest: another body, path, query, type, conversation
// or method under it is 422, also after the run has ended.
func TestAKeyBelongsToOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), starting("POST", "/*"), generic)
		base := testkit.Ask{Path: "/chat", Body: `{"a":1}`}.Key("k-1").With("X-Conversation-Id", "conv-1")
		s.ran(t, base)
		other := map[string]testkit.Ask{
			"body":            {Path: "/chat", Body: `{"a": 1}`},
			"path":            base.At("/chat2"),
			"query":           base.At("/chat?x=1"),
			"content type":    base.With("Content-Type", "text/plain"),
			"conversation":    base.With("X-Conversation-Id", "conv-2"),
			"no conversation": {Path: "/chat", Body: `{"a":1}`},
		}
		for name, ask := range other {
			answer := s.Do(t, ask.Key("k-1"))
			if answer.Status != http.StatusUnprocessableEntity || answer.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("another %s: got %d, x-should-retry %q, want 422 and false", name, answer.Status, answer.Header.Get("X-Should-Retry"))
			}
			answer.Problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		}
		for name, ask := range map[string]testkit.Ask{
			"parameters of the type": base.With("Content-Type", jsonType+"; charset=utf-8"),
			"credentials":            base.With("Authorization", "Bearer other"),
			"other fields":           base.With("X-Trace", "1"),
		} {
			if got := s.Do(t, ask).Want(http.StatusOK).Header.Get("Idempotent-Replayed"); got != "true" {
				t.Errorf("other %s: started another run", name)
			}
		}
	})
}

// TestKeysOfTwoNeverCollide: two subjects, two routes and two realms may use
// one key.
func TestKeysOfTwoNeverCollide(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), starting("POST", "/chat"), starting("POST", "/ask"), generic)
		chat := testkit.Ask{Path: "/chat", Body: `{}`}.Key("k-1")
		hosts := func(host string) string {
			r := post("/chat", strings.NewReader("{}"))
			r.Header.Set("Idempotency-Key", "k-1")
			r.Header.Set("X-User", "user-a")
			w := serveHost(s, r, host)
			return w.Header().Get("X-Run-Id")
		}
		runs := map[string]string{
			s.ran(t, chat): "first", s.As("user-b").Do(t, chat).Run(): "another subject",
			s.ran(t, chat.At("/ask")): "another route", hosts("other.test"): "another realm", hosts("third.test:8080"): "a third realm",
		}
		if len(runs) != 5 || runs[""] != "" {
			t.Errorf("got %d runs, want 5: %v", len(runs), runs)
		}
		if again := hosts("THIRD.test"); runs[again] != "a third realm" {
			t.Errorf("got %q for the third realm again: neither port nor case are part of it", runs[again])
		}
	})
}

// TestADeletedRunKeepsItsKeyReserved until its window ends.
func TestADeletedRunKeepsItsKeyReserved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic, retention(10*time.Minute, time.Hour))
		run := s.ran(t, startChat().Key("k-1"))
		s.Do(t, testkit.Ask{Method: http.MethodDelete, Path: "/_runs/" + run}).Want(http.StatusNoContent)
		s.Do(t, startChat().Key("k-1")).Problem(http.StatusConflict, "run_deleted")
		s.Do(t, testkit.Chat("conv-1", "another").Key("k-1")).Problem(http.StatusConflict, "run_deleted")
		time.Sleep(time.Hour)
		if again := s.ran(t, startChat().Key("k-1")); again == run {
			t.Error("the deleted run came back")
		}
	})
}

// TestTheWindowOfAKeyCountsFromTheEndOfItsRun and may be shorter than the
// record's retention.
func TestTheWindowOfAKeyCountsFromTheEndOfItsRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			return pause(r, 2*time.Hour)
		}, generic, func(c *proxy.Config) {
			c.Idempotency.Window, c.StreamIdle, c.FrameIdle = time.Hour, 24*time.Hour, 24*time.Hour
		})
		run := s.ran(t, startChat().Key("k-1"))
		time.Sleep(59 * time.Minute)
		if again := s.Do(t, startChat().Key("k-1")); again.Run() != run && again.Status != http.StatusGone {
			t.Errorf("within the window got %d of %s", again.Status, again.Run())
		}
		time.Sleep(time.Minute)
		if again := s.Do(t, startChat().Key("k-1")); again.Run() == run || again.Status != http.StatusOK {
			t.Errorf("after the window got %d of the old run", again.Status)
		}
	})
}

// TestOnRunningConflictRefusesToAttach while the run is active, and replays it
// afterwards.
func TestOnRunningConflictRefusesToAttach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		end := make(chan struct{})
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			<-end
			return nil
		}, generic, func(c *proxy.Config) { c.Idempotency.Conflict = true })
		first := s.Do(t, startChat().Key("k-1"))
		answer := s.Do(t, startChat().Key("k-1"))
		if answer.Header.Get("Retry-After") == "" || answer.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("got Retry-After %q and x-should-retry %q", answer.Header.Get("Retry-After"), answer.Header.Get("X-Should-Retry"))
		}
		raw := answer.Want(http.StatusConflict).Body()
		if p := testkit.Decode[testkit.Problem](t, raw); p.Code != "request_in_progress" || !p.Retryable || !strings.Contains(string(raw), first.Run()) {
			t.Errorf("got %s", raw)
		}
		close(end)
		first.Rest()
		if again := s.Do(t, startChat().Key("k-1")).Want(http.StatusOK); again.Run() != first.Run() {
			t.Errorf("got run %s, want a replay of %s", again.Run(), first.Run())
		}
	})
}

// TestARequiredKey: a start without one is 400, unless the protocol has its
// own.
func TestARequiredKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), func(c *proxy.Config) { c.Idempotency.Required = true })
		s.Do(t, startChat()).Problem(http.StatusBadRequest, "idempotency_key_missing")
		s.Do(t, startChat().Key("k-1")).Want(http.StatusOK)
		s.Do(t, testkit.Ask{Path: "/agent", Body: `{"threadId":"t-1","runId":"r-1","messages":[]}`}).Want(http.StatusOK)
	})
}

// TestAnIDOfTheClientsOwnIsItsKey, while the run goes on and after it has ended,
// and a header field overrides it.
func TestAnIDOfTheClientsOwnIsItsKey(t *testing.T) {
	for name, c := range map[string]struct {
		ask          testkit.Ask
		conversation string
	}{
		"AG-UI":                        {testkit.Ask{Path: "/agent", Body: `{"threadId":"t-1","runId":"r-1","messages":[]}`}, "t-1"},
		"CopilotKit's single endpoint": {testkit.Ask{Path: "/api/copilotkit", Body: `{"method":"agent/run","params":{"agentId":"a"},"body":{"threadId":"t-1","runId":"r-1","messages":[]}}`}, "t-1"},
		"FastGPT":                      {testkit.Ask{Path: "/api/v1/chat/completions", Body: `{"chatId":"c-1","responseChatItemId":"i-1","stream":true,"messages":[]}`}, "c-1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				end := make(chan struct{})
				s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
					if n > 1 {
						return streams(data(1)...)(n, w, r)
					}
					sse(w)
					defer func() { <-end }()
					return say(w, data(1)[0])
				})
				first := s.Do(t, c.ask).Want(http.StatusOK)
				first.Take(1)
				changed := c.ask
				changed.Body = strings.Replace(c.ask.Body, "[]", "[1]", 1)
				same := func(when string) {
					t.Helper()
					again := s.Do(t, c.ask).Want(http.StatusOK)
					if again.Take(1); again.Run() != first.Run() || again.Header.Get("Idempotent-Replayed") != "true" {
						t.Errorf("%s: got %s, want %s again", when, again.Run(), first.Run())
					}
					s.Do(t, changed).Problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
				}
				same("while it runs")
				close(end)
				first.Bytes() //nolint:errcheck // how it ends is not looked at
				same("when it has ended")
				if first.Conversation() != c.conversation {
					t.Errorf("got conversation %q, want %q", first.Conversation(), c.conversation)
				}
				if got := s.calls.Load(); got != 1 {
					t.Errorf("got %d calls, want 1", got)
				}
				if other := s.ran(t, c.ask.Key("k-1")); other == first.Run() {
					t.Error("the header field did not win")
				}
				if theirs := s.As("user-b").Do(t, c.ask); theirs.Run() == first.Run() {
					t.Error("the id of one user attaches another")
				}
			})
		})
	}
}
