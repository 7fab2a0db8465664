package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// chatOf is a start as the AI SDK sends it: the conversation is its id.
func chatOf(id string) testkit.Ask {
	return testkit.Ask{Path: "/api/chat", Body: `{"id":"` + id + `","messages":[]}`}
}

// uiStream is a backend of the AI SDK that has no resume path of its own.
func uiStream(pieces ...string) backend {
	return func(n int, w http.ResponseWriter, r *http.Request) error {
		if r.Method != http.MethodPost {
			return answers(http.StatusNotFound, "text/html", "<h1>not found")(n, w, r)
		}
		w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
		w.Header().Set("Content-Type", "text/event-stream")
		return holds(pieces...)(n, w, r)
	}
}

var uiParts = []string{datum(`{"type":"start","messageId":"m-1"}`), datum(`{"type":"text-delta","id":"1","delta":"a"}`)}

// TestTheResumePathOfTheAISDK: useChat with resume asks there after a reload,
// and the backend needs no code for it.
func TestTheResumePathOfTheAISDK(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, uiStream(uiParts...))
		path := testkit.Ask{Path: "/api/chat/chat-1/stream"}
		empty(t, s.Do(t, path))
		started := s.Do(t, chatOf("chat-1"))
		started.Take(2)
		a := s.Do(t, path).Want(http.StatusOK)
		testkit.CheckIDs(t, started.Run(), 1, a.Take(2))
		if a.Run() != started.Run() || a.Header.Get("X-Vercel-Ai-Ui-Message-Stream") != "v1" || a.Header.Get("X-Conversation-Id") != "chat-1" {
			t.Errorf("got run %s with %v", a.Run(), a.Header)
		}
		if strings.Contains(string(a.Events.Raw()), "retry:") {
			t.Error("the stream has a field that is not the SDK's")
		}
		empty(t, s.As("user-b").Do(t, path))
		empty(t, s.Do(t, testkit.Ask{Path: "/api/chat/chat-2/stream"}))
		s.Do(t, testkit.Ask{Method: http.MethodDelete, Path: path.Path}.With("Sec-Fetch-Site", "cross-site")).Problem(http.StatusForbidden, "csrf_rejected")
		stopped := testkit.Decode[testkit.Record](t, s.Do(t, testkit.Ask{Method: http.MethodDelete, Path: path.Path}).Want(http.StatusOK).Body())
		if stopped.State != "cancelled" || stopped.RunID != started.Run() {
			t.Errorf("DELETE got %+v", stopped)
		}
		if events := a.Rest(); len(events) != 2 || !strings.Contains(events[0].Data, `"abort"`) {
			t.Errorf("the reader got %v", testkit.Pairs(events))
		}
		empty(t, s.Do(t, path))
		s.Do(t, testkit.Ask{Method: http.MethodDelete, Path: path.Path}).Want(http.StatusNoContent)
	})
}

// empty checks that there is nothing to resume, and that nothing of the
// backend's own answer is left.
func empty(t *testing.T, a *testkit.Answer) {
	t.Helper()
	if body := a.Want(http.StatusNoContent).Body(); len(body) > 0 || a.Header.Get("Content-Type") != "" || a.Header.Get("Content-Length") != "" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %q with %v", body, a.Header)
	}
}

// TestTheBackendAnswersItsResumePathWhereWeHaveNothing: a stream of its own, an
// error or a redirect passes; not found is nothing to resume.
func TestTheBackendAnswersItsResumePathWhereWeHaveNothing(t *testing.T) {
	for status, want := range map[int]int{200: 200, 204: 204, 302: 302, 401: 401, 404: 204, 405: 204, 410: 410, 500: 500} {
		inBubble(t, func(t *testing.T) {
			s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("X-Theirs", "yes")
				w.Header().Set("Allow", "POST")
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(status)
				if status == http.StatusNoContent {
					return nil
				}
				return say(w, "theirs")
			})
			a := s.Do(t, testkit.Ask{Path: "/api/chat/chat-1/stream"}).Want(want)
			if body := string(a.Body()); a.Run() != "" || a.Header.Get("X-Theirs") != "yes" || (body == "theirs") != (want != http.StatusNoContent) {
				t.Errorf("%d: got %q with %v", status, body, a.Header)
			}
			if want != status && a.Header.Get("Allow") != "" {
				t.Errorf("%d: got Allow %q with 204", status, a.Header.Get("Allow"))
			}
		})
	}
}

// TestWhereResumePathsHang: below the start paths, without them below /api/chat
// and what has started a run in this process.
func TestWhereResumePathsHang(t *testing.T) {
	ui := uiStream(uiParts...)
	cases := []struct {
		name   string
		config []configure
		start  testkit.Ask
		path   string
		found  bool
	}{
		{"the usual path", nil, chatOf("c-1"), "/api/chat/c-1/stream", true},
		{"a path that has started a run", nil, chatOf("c-1").At("/ai/talk"), "/ai/talk/c-1/stream", true},
		{"a path that has not", nil, chatOf("c-1"), "/ai/talk/c-1/stream", false},
		{"a start option", []configure{starting("POST", "/bot")}, chatOf("c-1").At("/bot"), "/bot/c-1/stream", true},
		{"a wildcard", []configure{starting("POST", "/bots/*")}, chatOf("c-1").At("/bots/x"), "/bots/x/c-1/stream", true},
		{"the usual path with a start option", []configure{starting("POST", "/bot")}, chatOf("c-1").At("/bot"), "/api/chat/c-1/stream", false},
		{"off", []configure{func(c *proxy.Config) { c.ResumeAuto = false }}, chatOf("c-1"), "/api/chat/c-1/stream", false},
		{"a template", []configure{func(c *proxy.Config) { c.ResumeAuto, c.ResumePaths = false, []string{"/c/{conversation_id}/live"} }}, chatOf("c-1"), "/c/c-1/live", true},
		{"no template", []configure{func(c *proxy.Config) { c.ResumePaths = []string{"/c/{conversation_id}/live"} }}, chatOf("c-1"), "/c/c-1/live/more", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, ui, c.config...)
				started := s.Do(t, c.start)
				started.Take(2)
				a := s.Do(t, testkit.Ask{Path: c.path})
				if got := a.Status == http.StatusOK && a.Run() == started.Run(); got != c.found {
					t.Errorf("got %d of %s, found: want %v", a.Status, a.Run(), c.found)
				}
			})
		})
	}
}

// graph is a backend of LangGraph: it names thread and run in its head.
func graph(n int, w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return answers(http.StatusNotFound, jsonType, "{}")(n, w, r)
	}
	w.Header().Set("Content-Location", "/threads/t-1/runs/lg-"+itoa(n))
	w.Header().Set("Content-Type", "text/event-stream")
	return streams("event: metadata\ndata: {\"run_id\":\"lg-"+itoa(n)+"\",\"attempt\":1}\n\n", "event: end\ndata: null\n\n")(n, w, r)
}

// TestTheResumePathOfLangGraph names upstream's run, ended or not.
func TestTheResumePathOfLangGraph(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, graph)
		start := testkit.Ask{Path: "/threads/t-1/runs/stream", Body: `{"input":{}}`}
		run := s.ran(t, start)
		if rec := s.Snapshot(t, run); rec.ConversationID != "t-1" || *rec.Upstream.ID != "lg-1" || rec.Upstream.Dialect != "langgraph" {
			t.Errorf("got %+v", rec)
		}
		path := testkit.Ask{Path: "/threads/t-1/runs/lg-1/stream"}
		a := s.Do(t, path).Want(http.StatusOK)
		if testkit.CheckIDs(t, run, 1, a.Rest()) != 3 || a.Header.Get("Content-Location") != "/threads/t-1/runs/lg-1" {
			t.Errorf("got %v", a.Header)
		}
		for id, want := range map[string]int{testkit.Cursor(run, 1): 1, "theirs-1": 2} {
			if events := s.Do(t, path.With("Last-Event-ID", id)).Want(http.StatusOK).Rest(); len(events) != want {
				t.Errorf("after %s got %v, want %d events", id, testkit.Pairs(events), want)
			}
		}
		for name, a := range map[string]*testkit.Answer{
			"another run": s.Do(t, testkit.Ask{Path: "/threads/t-1/runs/lg-9/stream"}), "another user": s.As("user-b").Do(t, path),
		} {
			if a.Status != http.StatusNotFound || a.Header.Get("Content-Type") != jsonType || a.Run() != "" {
				t.Errorf("%s: got %d with %v, want the backend's own 404", name, a.Status, a.Header)
			}
		}
	})
}

// TestWhereAConversationIsNamed: the configured places first, then the
// dialect's own field, else the gateway makes one up and says so.
func TestWhereAConversationIsNamed(t *testing.T) {
	header := proxy.Source{In: "header", Name: "X-Conversation-Id"}
	cases := []struct {
		name    string
		sources []proxy.Source
		ask     testkit.Ask
		want    string // empty: made up
	}{
		{"header", []proxy.Source{header}, chatOf("body").With("X-Conversation-Id", "head"), "head"},
		{"the dialect's field", []proxy.Source{header}, chatOf("body"), "body"},
		{"query", []proxy.Source{{In: "query", Name: "c"}}, chatOf("body").At("/api/chat?c=q"), "q"},
		{"body", []proxy.Source{{In: "body", Name: "meta.thread"}}, testkit.Ask{Path: "/api/chat", Body: `{"messages":[],"meta":{"thread":"b"}}`}, "b"},
		{"body, a number", []proxy.Source{{In: "body", Name: "thread"}}, testkit.Ask{Path: "/api/chat", Body: `{"messages":[],"thread":42}`}, "42"},
		{"path", []proxy.Source{{In: "path", Name: "/c/{conversation_id}/ask"}}, chatOf("body").At("/c/p/ask"), "p"},
		{"the first found wins", []proxy.Source{{In: "query", Name: "c"}, header}, chatOf("body").At("/api/chat?c=q").With("X-Conversation-Id", "head"), "q"},
		{"an empty one is none", []proxy.Source{{In: "query", Name: "c"}, header}, chatOf("body").At("/api/chat?c=").With("X-Conversation-Id", "head"), "head"},
		{"AG-UI", nil, testkit.Ask{Path: "/agent", Body: `{"threadId":"t","runId":"r"}`}, "t"},
		{"Responses", nil, testkit.Ask{Path: "/v1/responses", Body: `{"conversation":{"id":"conv_r"}}`}, "conv_r"},
		{"a field that is no id", nil, chatOf("a/b"), ""},
		{"none", []proxy.Source{header}, testkit.Ask{Path: "/v1/chat/completions", Body: `{}`}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, streams(data(1)...), func(cfg *proxy.Config) { cfg.Conversation = c.sources })
				a := s.Do(t, c.ask).Want(http.StatusOK)
				a.Bytes() //nolint:errcheck // how it ends is not looked at
				got := a.Conversation()
				if c.want != "" && got != c.want || c.want == "" && !strings.HasPrefix(got, "conv_") {
					t.Errorf("got conversation %q, want %q", got, c.want)
				}
				synctest.Wait()
				if rec := s.Snapshot(t, a.Run()); rec.ConversationID != got {
					t.Errorf("the record says %q, the answer %q", rec.ConversationID, got)
				}
			})
		})
	}
}

// TestAnInvalidConversationIsTheCallersMistake where a configured place names
// it.
func TestAnInvalidConversationIsTheCallersMistake(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), func(c *proxy.Config) {
			c.Conversation = []proxy.Source{{In: "header", Name: "X-Conversation-Id"}, {In: "query", Name: "c"}, {In: "body", Name: "thread"}}
		})
		for _, bad := range []string{"a/b", "a b", ".", "..", "ä", strings.Repeat("x", 129), "a\"b"} {
			s.Do(t, startChat().With("X-Conversation-Id", bad)).Problem(http.StatusBadRequest, "conversation_invalid")
			s.Do(t, loose().Query("c", bad)).Problem(http.StatusBadRequest, "conversation_invalid")
		}
		s.Do(t, testkit.Ask{Path: "/v1/chat/completions", Body: `{"thread":"a/b"}`}).Problem(http.StatusBadRequest, "conversation_invalid")
		s.Do(t, testkit.Ask{Path: "/v1/chat/completions", Body: `{"thread":{"id":"x"}}`}).Want(http.StatusOK)
		s.Do(t, startChat().With("X-Conversation-Id", strings.Repeat("x", 128))).Want(http.StatusOK)
		if got := s.calls.Load(); got != 2 {
			t.Errorf("got %d calls, want the two valid ones", got)
		}
	})
}

// TestUpstreamsOwnConversationNamesTheRunToo, beside what the request called
// it.
func TestUpstreamsOwnConversationNamesTheRunToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Location", "/threads/theirs-1/runs/lg-1")
			return holds("event: metadata\ndata: {\"run_id\":\"lg-1\",\"attempt\":1}\n\n")(n, w, r)
		})
		started := s.Do(t, testkit.Ask{Path: "/runs/stream", Body: `{"input":{}}`}.With("X-Conversation-Id", "mine-1"))
		started.Take(1)
		for _, name := range []string{"mine-1", "theirs-1"} {
			if got := s.Active(t, name); got.Named() != started.Run() || got.Run.ConversationID != "theirs-1" {
				t.Errorf("%s: got %+v", name, got)
			}
			if got := s.list(t, "?conversation_id="+name); len(got) != 1 {
				t.Errorf("%s: the list has %d runs", name, len(got))
			}
		}
	})
}

// TestTheResumePathOfLangGraphBelowAPrefix, where a wildcard of the start option
// covers it, too; and at the stream of the thread, for who has seen a frame of ours.
func TestTheResumePathOfLangGraphBelowAPrefix(t *testing.T) {
	frames := []string{"event: metadata\ndata: {\"run_id\":\"lg-1\",\"attempt\":1}\n\n", "event: values\ndata: {}\n\n", "event: values\ndata: {\"x\":1}\n\n"}
	for name, change := range map[string][]configure{"recognised": nil, "a wildcard": {starting("POST", "/api/langgraph/*")}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
					if r.Method != http.MethodPost {
						return answers(http.StatusNotFound, jsonType, ofTheBackend)(n, w, r)
					}
					w.Header().Set("Content-Location", "/threads/t-1/runs/lg-1")
					return holds(frames...)(n, w, r)
				}, change...)
				start := testkit.Ask{Path: "/api/langgraph/threads/t-1/runs/stream", Body: `{"input":{}}`}
				first := s.Do(t, start)
				first.Take(3)
				at := testkit.Ask{Path: "/api/langgraph/threads/t-1/runs/lg-1/stream?cancel_on_disconnect=0"}
				for id, from := range map[string]int{"-1": 1, testkit.Cursor(first.Run(), 2): 3, "": 1} {
					a := s.Do(t, at.With("Last-Event-ID", id)).Want(http.StatusOK)
					if testkit.CheckIDs(t, first.Run(), from, a.Take(4-from)) != 4 {
						t.Errorf("after %s: not the rest", id)
					}
				}
				thread := testkit.Ask{Path: "/api/langgraph/threads/t-1/stream"}.With("Accept", "text/event-stream")
				a := s.Do(t, thread.With("Last-Event-ID", testkit.Cursor(first.Run(), 1))).Want(http.StatusOK)
				testkit.CheckIDs(t, first.Run(), 2, a.Take(2))
				if got := s.calls.Load(); got != 1 {
					t.Errorf("the backend got %d calls, want the start alone", got)
				}
			})
		})
	}
}

// TestARunIsJoinedAtTheAddressOfTheBackendsChoice: a facade may name a path of
// its own in Location. Who has seen no frame yet gets all of them.
func TestARunIsJoinedAtTheAddressOfTheBackendsChoice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if r.Method != http.MethodPost {
				return answers(http.StatusNotFound, jsonType, ofTheBackend)(n, w, r)
			}
			w.Header().Set("Location", "/join/lg-"+itoa(n)+"?of=t-1")
			return graph(n, w, r)
		})
		start := testkit.Ask{Path: "/threads/t-1/runs/stream", Body: `{"input":{}}`}
		first, second := s.ran(t, start), s.ran(t, start)
		join := func(uri, id string) testkit.Ask {
			a := testkit.Ask{Path: uri}.With("Accept", "text/event-stream")
			if id != "" {
				a = a.With("Last-Event-ID", id)
			}
			return a
		}
		for _, c := range []struct {
			ask  testkit.Ask
			run  string
			from int
		}{
			{join("/join/lg-1?of=t-1", ""), first, 1},
			{join("/join/lg-2?of=t-1", ""), second, 1},
			{join("/join/lg-1?of=t-1", "-1"), first, 1},
			{join("/join/lg-1?of=t-1", testkit.Cursor(first, 1)), first, 2},
		} {
			if got := testkit.CheckIDs(t, c.run, c.from, s.Do(t, c.ask).Want(http.StatusOK).Rest()); got != 3 {
				t.Errorf("%s: the last number is before %d", c.ask.Path, got)
			}
		}
		for name, a := range map[string]*testkit.Answer{
			"another query": s.Do(t, join("/join/lg-1", "")), "another user": s.As("user-b").Do(t, join("/join/lg-1?of=t-1", "")),
			"no stream": s.Do(t, testkit.Ask{Path: "/join/lg-1?of=t-1"}),
		} {
			if string(a.Body()) != ofTheBackend || a.Run() != "" {
				t.Errorf("%s: got run %q, want the backend's answer alone", name, a.Run())
			}
		}
	})
}
