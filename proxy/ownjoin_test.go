package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// asked is a call for the rest of resp_1.
func asked(query string) testkit.Ask { return testkit.Ask{Path: "/v1/responses/resp_1" + query} }

// ofTheBackend is what the backend of these tests says to every GET.
const ofTheBackend = `{"object":"response","of":"the backend"}`

// shortLived streams an answer, and says the same to everything that is asked
// about it.
func shortLived(pieces ...string) backend {
	return func(n int, w http.ResponseWriter, r *http.Request) error {
		if r.Method != http.MethodPost {
			return answers(http.StatusNotFound, jsonType, ofTheBackend)(n, w, r)
		}
		return streams(pieces...)(n, w, r)
	}
}

// TestAResponseIsReadOnByItsOwnNumbers, as responses.retrieve does, although
// the backend has nothing: it did not run in the background.
func TestAResponseIsReadOnByItsOwnNumbers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		frames := longAnswer(10)
		s := newSite(t, shortLived(frames...))
		run := s.ran(t, testkit.Ask{Path: "/v1/responses", Body: `{"stream":true,"input":"hi"}`})
		for query, want := range map[string]int{
			"?stream=true": len(frames), "?stream=true&starting_after=0": len(frames) - 1,
			"?starting_after=4&stream=true&include_obfuscation=false": len(frames) - 5, "?stream=true&starting_after=11": 0,
		} {
			a := s.Do(t, asked(query)).Want(http.StatusOK)
			events := a.Rest()
			if len(events) != want || a.Run() != run || a.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s: got %d events of %s, want %d of %s", query, len(events), a.Run(), want, run)
			}
			if want > 0 && events[want-1].Name != "response.completed" {
				t.Errorf("%s: got %v last, want the answer's own end", query, events[want-1])
			}
		}
	})
}

// TestAResponseIsReadOnWhileItRuns: replay, then what is still to come.
func TestAResponseIsReadOnWhileItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &archive{frames: longAnswer(10)}
		s := newSite(t, b.serve)
		first := s.Do(t, background)
		first.Take(3)
		a := s.Do(t, asked("?stream=true&starting_after=1")).Want(http.StatusOK)
		if got := testkit.CheckIDs(t, first.Run(), 3, a.Rest()); got != len(b.frames)+1 {
			t.Errorf("the last number is before %d, want %d frames", got, len(b.frames))
		}
		if len(b.joined()) != 0 {
			t.Errorf("the backend was asked for %v", b.joined())
		}
	})
}

// TestACallForARunThatIsNotHeldPassesUntouched: no stream, another's, an
// unknown run, a number that no frame has, expired frames, and switched off.
func TestACallForARunThatIsNotHeldPassesUntouched(t *testing.T) {
	for name, off := range map[string]bool{"auto": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, shortLived(longAnswer(3)...), func(c *proxy.Config) { c.ResumeAuto = !off })
				s.ran(t, testkit.Ask{Path: "/v1/responses", Body: `{"stream":true,"input":"hi"}`})
				untouched := func(what string, c testkit.Client, ask testkit.Ask) {
					t.Helper()
					a := c.Do(t, ask).Want(http.StatusNotFound)
					if string(a.Body()) != ofTheBackend || a.Run() != "" {
						t.Errorf("%s: got run %q, want the backend's answer alone", what, a.Run())
					}
				}
				if off {
					untouched("switched off", s.Client, asked("?stream=true"))
					return
				}
				untouched("no stream", s.Client, asked(""))
				untouched("another's", s.As("user-b"), asked("?stream=true"))
				untouched("an unknown run", s.Client, testkit.Ask{Path: "/v1/responses/resp_2?stream=true"})
				untouched("no such number", s.Client, asked("?stream=true&starting_after=99"))
				untouched("no number", s.Client, asked("?stream=true&starting_after=x"))
				time.Sleep(time.Hour)
				untouched("expired frames", s.Client, asked("?stream=true"))
				untouched("expired frames after a number", s.Client, asked("?stream=true&starting_after=1"))
			})
		})
	}
}

// toolStream is what a server of MCP says, with ids of its own.
func toolStream(call string, n int) (frames []string) {
	frames = append(frames, "id: "+call+"_0\ndata: \n\n")
	for i := 1; i <= n; i++ {
		frames = append(frames, "event: message\nid: "+call+"_"+itoa(i)+"\ndata: "+
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":`+itoa(i)+"}}\n\n")
	}
	return append(frames, "event: message\nid: "+call+"_end\ndata: "+`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`+"\n\n")
}

// TestMCPIsReadOnByUpstreamsIDs: the id alone says which run is meant, among
// several calls of one session, ended or not.
func TestMCPIsReadOnByUpstreamsIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if r.Method != http.MethodPost {
				return answers(http.StatusConflict, jsonType, ofTheBackend)(n, w, r)
			}
			return paced(time.Second, toolStream("call"+itoa(n), 3)...)(n, w, r)
		})
		tool := testkit.Ask{Path: "/mcp", Body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`}.
			With("Accept", "application/json, text/event-stream").With("Mcp-Session-Id", "s-1")
		first, second := s.Do(t, tool), s.Do(t, tool)
		first.Take(2)
		second.Take(2)
		back := func(id string) testkit.Ask {
			return testkit.Ask{Path: "/mcp"}.With("Accept", "text/event-stream").With("Mcp-Session-Id", "s-1").With("Last-Event-ID", id)
		}
		for id, want := range map[string]string{"call1_0": first.Run(), "call1_1": first.Run(), "call2_1": second.Run()} {
			a := s.Do(t, back(id)).Want(http.StatusOK)
			events := a.Take(3)
			if a.Run() != want || !strings.HasSuffix(events[2].ID, map[bool]string{true: "_3", false: "_end"}[strings.HasSuffix(id, "_0")]) {
				t.Errorf("after %s got %v of %s, want %s", id, testkit.Pairs(events), a.Run(), want)
			}
		}
		for what, c := range map[string]testkit.Client{"theirs": s.As("user-b"), "unknown": s.Client} {
			id := map[string]string{"theirs": "call1_1", "unknown": "call9_1"}[what]
			if a := c.Do(t, back(id)); a.Status != http.StatusConflict || a.Run() != "" {
				t.Errorf("%s: got %d of %q, want the backend's own answer", what, a.Status, a.Run())
			}
		}
	})
}

// TestTheRestOfAStreamThatEndedEarlyIsTheBackends: a server of MCP may hang up
// before it has answered, and let its client ask again and again.
func TestTheRestOfAStreamThatEndedEarlyIsTheBackends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if r.Method != http.MethodPost {
				return streams("id: rest\ndata: {}\n\n")(n, w, r)
			}
			return streams(toolStream("call", 3)[:3]...)(n, w, r)
		})
		run := s.ran(t, testkit.Ask{Path: "/mcp", Body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`}.
			With("Accept", "application/json, text/event-stream").With("Mcp-Session-Id", "s-1"))
		for id, want := range map[string]string{"call_1": run, "call_2": ""} {
			a := s.Do(t, testkit.Ask{Path: "/mcp"}.With("Mcp-Session-Id", "s-1").With("Last-Event-ID", id)).Want(http.StatusOK)
			if events := a.Rest(); len(events) != 1 || a.Run() != want {
				t.Errorf("after %s got %v of %q, want one event of %q", id, testkit.Pairs(events), a.Run(), want)
			}
		}
	})
}

// TestAddressesOfALangGraphRunKeepTheOrigin that the client called: its SDK
// goes on there, and refuses another.
func TestAddressesOfALangGraphRunKeepTheOrigin(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"http://10.0.0.7:2024/threads/t-1/runs/lg-1/stream", "/threads/t-1/runs/lg-1/stream"},
		{"//graph/threads/t-1/runs/lg-1/stream?x=1", "/threads/t-1/runs/lg-1/stream?x=1"},
		{"/threads/t-1/runs/lg-1/stream", "/threads/t-1/runs/lg-1/stream"},
		{"https://example.com/elsewhere", "https://example.com/elsewhere"},
	} {
		inBubble(t, func(t *testing.T) {
			s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("Location", c.given)
				w.Header().Set("Content-Location", "http://10.0.0.7:2024/threads/t-1/runs/lg-1")
				return graph(n, w, r)
			})
			a := s.Do(t, testkit.Ask{Path: "/threads/t-1/runs/stream", Body: `{"input":{}}`})
			a.Rest()
			for _, got := range []string{a.Header.Get("Location"), s.Do(t, testkit.Ask{Path: "/_runs/" + a.Run() + "/events?control=off"}).Header.Get("Location")} {
				if got != c.want {
					t.Errorf("%s: got %s, want %s", c.given, got, c.want)
				}
			}
			if got := a.Header.Get("Content-Location"); got != "/threads/t-1/runs/lg-1" {
				t.Errorf("got Content-Location %s", got)
			}
		})
	}
}

// TestALettaRunIsReadOnByTheNumberInTheBody, ended or not; what names no run of
// the caller is a request like any other.
func TestALettaRunIsReadOnByTheNumberInTheBody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var frames []string
		for i := range 4 {
			frames = append(frames, datum(`{"message_type":"assistant_message","run_id":"run-1","seq_id":`+itoa(i+1)+`,"content":"hi"}`))
		}
		frames = append(frames, datum(`{"message_type":"stop_reason","stop_reason":"end_turn"}`), datum("[DONE]"))
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if !strings.HasSuffix(r.URL.Path, "/messages/stream") {
				return answers(http.StatusConflict, jsonType, ofTheBackend)(n, w, r)
			}
			return streams(frames...)(n, w, r)
		})
		run := s.ran(t, testkit.Ask{Path: "/v1/agents/a1/messages/stream", Body: `{"messages":[],"background":true}`})
		at := func(body string) testkit.Ask {
			return testkit.Ask{Path: "/v1/runs/run-1/stream", Body: body}.With("Accept", "text/event-stream")
		}
		for body, from := range map[string]int{`{"starting_after":2,"include_pings":true}`: 3, `{"starting_after":0}`: 1, `{}`: 1, `{"starting_after":null}`: 1} {
			a := s.Do(t, at(body)).Want(http.StatusOK)
			if got := testkit.CheckIDs(t, run, from, a.Rest()); got != len(frames)+1 || a.Run() != run {
				t.Errorf("%s: the last number is before %d of %s", body, got, a.Run())
			}
		}
		if got := s.calls.Load(); got != 1 {
			t.Errorf("the backend got %d calls, want the start alone", got)
		}
		if a := s.Do(t, at(`{"starting_after":99}`)); string(a.Body()) != ofTheBackend || a.Run() != "" {
			t.Errorf("a number that no frame has: got run %q, want the backend's answer", a.Run())
		}
		if a := s.As("user-b").Do(t, at(`{"starting_after":2}`)); a.Status != http.StatusConflict || a.Run() == run {
			t.Errorf("another user: got %d of %q, want the backend's answer", a.Status, a.Run())
		}
	})
}
