package proxy_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// mirror answers with what it got.
func mirror(_ int, w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	w.Header().Set("X-Got", r.Method+" "+r.URL.String()+" "+r.Header.Get("Accept-Encoding"))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, err = w.Write(body)
	return err
}

// request is one request of a table.
type request struct {
	name, method, path, kind, body string
	header                         http.Header
}

func (q request) ask() testkit.Ask {
	a := testkit.Ask{Method: q.method, Path: q.path, Body: q.body, Header: q.header}
	if q.kind != "" {
		a = a.With("Content-Type", q.kind)
	}
	return a
}

const jsonType = "application/json"

// generations are requests that begin a run where no start option is given.
var generations = []request{
	{name: "path of a dialect", path: "/v1/chat/completions", kind: jsonType, body: `{"model":"m"}`},
	{name: "path below a prefix", path: "/proxy/v1/messages", kind: jsonType, body: `{}`},
	{name: "accepts event streams", path: "/ask", kind: jsonType, body: `{"q":1}`, header: http.Header{"Accept": {"text/event-stream"}}},
	{name: "accepts NDJSON", path: "/ask", kind: jsonType, body: `{"q":1}`, header: http.Header{"Accept": {"application/json, application/x-ndjson"}}},
	{name: "stream true", path: "/ask", kind: jsonType, body: `{"stream":true}`},
	{name: "response mode", path: "/ask", kind: jsonType, body: `{"response_mode":"streaming"}`},
	{name: "messages", path: "/ask", kind: jsonType + "; charset=utf-8", body: `{"messages":[]}`},
	{name: "AG-UI", path: "/agent", kind: jsonType, body: `{"threadId":"t","runId":"r"}`},
}

// others are requests that are none of our business.
var others = []request{
	{name: "page", method: http.MethodGet, path: "/"},
	{name: "event source", method: http.MethodGet, path: "/events", header: http.Header{"Accept": {"text/event-stream"}}},
	{name: "HEAD", method: http.MethodHead, path: "/v1/chat/completions"},
	{name: "OPTIONS", method: http.MethodOptions, path: "/v1/chat/completions"},
	{name: "login", path: "/login", kind: jsonType, body: `{"user":"u","password":"p"}`},
	{name: "form", path: "/v1/chat/completions", kind: "application/x-www-form-urlencoded", body: "a=b"},
	{name: "upload", path: "/files", kind: "multipart/form-data; boundary=x", body: "--x--"},
	{name: "webhook", path: "/hook", kind: jsonType, body: `{"event":"push","messages":"none"}`},
	{name: "gRPC", path: "/svc/Method", kind: "application/grpc", body: "\x00\x00\x00\x00\x00"},
	{name: "stream false", path: "/ask", kind: jsonType, body: `{"stream":false}`},
	{name: "stream as a word", path: "/ask", kind: jsonType, body: `{"stream":"true"}`},
	{name: "stream below the top", path: "/ask", kind: jsonType, body: `{"a":{"stream":true}}`},
	{name: "no JSON", path: "/ask", kind: jsonType, body: `stream`},
	{name: "broken JSON", path: "/ask", kind: jsonType, body: `{"stream":true`},
	{name: "a list", path: "/ask", kind: jsonType, body: `[{"stream":true}]`},
	{name: "PUT", method: http.MethodPut, path: "/ask", kind: jsonType, body: `{"stream":true}`},
	{name: "cancel call", path: "/v1/responses/resp_1/cancel", kind: jsonType, body: `{"stream":true}`},
	{name: "token count", path: "/v1/messages/count_tokens", kind: jsonType, body: `{"messages":[]}`},
	{name: "MCP notification", path: "/mcp", kind: jsonType, body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header: http.Header{"Accept": {"application/json, text/event-stream"}}},
	{name: "WebSocket", method: http.MethodGet, path: "/v1/realtime", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}},
}

// TestWhatStartsARunWithoutAStartOption, and what reaches the next handler
// untouched.
func TestWhatStartsARunWithoutAStartOption(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mirror)
		for _, q := range generations {
			if a := s.Do(t, q.ask()).Want(http.StatusOK); a.Run() == "" {
				t.Errorf("%s: started no run", q.name)
			}
		}
		for _, q := range others {
			checkUntouched(t, q, s.Do(t, q.ask()))
		}
	})
}

// checkUntouched checks that an answer is the backend's own.
func checkUntouched(t *testing.T, q request, a *testkit.Answer) {
	t.Helper()
	method := q.method
	if method == "" {
		method = http.MethodPost
	}
	body := string(a.Want(http.StatusOK).Body())
	if method == http.MethodHead {
		body = q.body
	}
	if got, want := a.Header.Get("X-Got"), method+" "+q.path; got != want || body != q.body {
		t.Errorf("%s: backend got %q %q, want %q %q", q.name, got, body, want, q.body)
	}
	for _, name := range []string{"X-Run-Id", "X-Run-Attempt", "X-Conversation-Id", "Link", "Set-Cookie", "Cache-Control", "X-Accel-Buffering", "Vary"} {
		if values := a.Header.Values(name); len(values) > 0 {
			t.Errorf("%s: got %s %q, want none of ours", q.name, name, values)
		}
	}
}

// TestTheStartOptionNamesStarts, and nothing else is one.
func TestTheStartOptionNamesStarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mirror, func(c *proxy.Config) {
			c.Starts = []proxy.StartPattern{{Method: "POST", Path: "/chat"}, {Method: "POST", Path: "/v1/*"}, {Method: "GET", Path: "/ask"}}
		})
		for _, q := range []request{
			{name: "exact", path: "/chat", body: "anything", kind: "text/plain"},
			{name: "wildcard", path: "/v1/x/y", body: "--x--", kind: "multipart/form-data; boundary=x"},
			{name: "GET", method: http.MethodGet, path: "/ask?q=1"},
			{name: "without a body", method: http.MethodPost, path: "/chat"},
		} {
			if a := s.Do(t, q.ask()).Want(http.StatusOK); a.Run() == "" {
				t.Errorf("%s: started no run", q.name)
			} else if string(a.Body()) != q.body {
				t.Errorf("%s: upstream got another body", q.name)
			}
		}
		for _, q := range []request{
			{name: "other method", method: http.MethodGet, path: "/chat"},
			{name: "HEAD of a GET start", method: http.MethodHead, path: "/ask"},
			{name: "below an exact path", path: "/chat/more", body: "x", kind: "text/plain"},
			{name: "recognisable, but not named", path: "/api/generate", body: `{"stream":true}`, kind: jsonType},
			{name: "control call", path: "/v1/responses/resp_1/cancel", body: `{}`, kind: jsonType},
			{name: "control message", path: "/v1/mcp", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, kind: jsonType},
			{name: "upgrade", method: http.MethodGet, path: "/ask", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}},
		} {
			checkUntouched(t, q, s.Do(t, q.ask()))
		}
	})
}

// TestMatchersNarrowAndName: the directive's own matcher narrows what may
// start; matchers of the start option name further starts.
func TestMatchersNarrowAndName(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		narrow := func(r *http.Request) bool { return r.Header.Get("X-In") == "yes" }
		s := newSite(t, mirror, func(c *proxy.Config) { c.Match = narrow })
		q := request{name: "out", path: "/v1/chat/completions", kind: jsonType, body: `{}`}
		checkUntouched(t, q, s.Do(t, q.ask()))
		if a := s.Do(t, q.ask().With("X-In", "yes")); a.Run() == "" {
			t.Error("a request that the matcher takes started no run")
		}

		s = newSite(t, mirror, func(c *proxy.Config) { c.StartMatch = narrow })
		checkUntouched(t, q, s.Do(t, q.ask()))
		if a := s.Do(t, testkit.Ask{Path: "/any"}.With("X-In", "yes")); a.Run() == "" {
			t.Error("a request that the start matcher names started no run")
		}

		s = newSite(t, mirror, starting("POST", "/chat"), func(c *proxy.Config) { c.Match = narrow })
		q = request{name: "named but out", path: "/chat", kind: jsonType, body: `{}`}
		checkUntouched(t, q, s.Do(t, q.ask()))
	})
}

// TestARequestInsideARunPassesThrough: a second directive in the chain does not
// start a run of a run.
func TestARequestInsideARunPassesThrough(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var inner *site
		outer := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			inner.handler.ServeHTTP(w, r)
			return nil
		}, generic)
		inner = newSite(t, streams(data(1)...), generic)
		a := outer.Do(t, startChat()).Want(http.StatusOK)
		a.Rest()
		if inner.engine.Active() != 0 || len(inner.list(t, "")) != 0 {
			t.Error("the inner directive recorded a run")
		}
	})
}

// TestClientsCannotClaimToBeInsideARun by sending the field themselves.
func TestClientsCannotClaimToBeInsideARun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		got := make(chan http.Header, 1)
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			got <- r.Header
			sse(w)
			return nil
		}, generic)
		s.Do(t, startChat().With("X-Run-Id", "run_mine").With("X-Run-Attempt", "1").With("X-Run-Other", "x")).Want(http.StatusOK).Rest()
		for name := range <-got {
			if strings.HasPrefix(name, "X-Run-") {
				t.Errorf("upstream got %s from the client", name)
			}
		}
	})
}

// TestAStreamThatIsNoStartIsHintedAtOnce per path: one log line names the line
// to add.
func TestAStreamThatIsNoStartIsHintedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...))
		for range 3 {
			s.Do(t, testkit.Ask{Path: "/feed"}).Rest()
		}
		s.Do(t, testkit.Ask{Path: "/news"}).Rest()
		for line, want := range map[string]int{"start GET /feed": 1, "start GET /news": 1} {
			if got := strings.Count(s.log.String(), line); got != want {
				t.Errorf("got %d lines with %q, want %d", got, line, want)
			}
		}
	})
}

// serve hands a request to the gateway without a network between, so that the
// test sees what is read of its body. An aborted answer is as far as it came.
func (s *site) serve(r *http.Request) (w *httptest.ResponseRecorder) {
	w = httptest.NewRecorder()
	defer func() {
		p := recover()
		err, _ := p.(error)
		if p != nil && !errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
	}()
	r.Host = "pipe.test"
	if r.Header.Get(testkit.SubjectHeader) == "" {
		r.Header.Set(testkit.SubjectHeader, "user-a")
	}
	s.handler.ServeHTTP(w, r)
	return w
}

// serveHost is serve for another host.
func serveHost(s *site, r *http.Request, host string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.Host = host
	s.handler.ServeHTTP(w, r)
	return w
}
