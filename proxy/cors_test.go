package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

const appOrigin = "https://app.example"

func cors(c *proxy.Config) { c.CORS = []string{appOrigin} }

// preflight asks whether a script of an origin may send a request.
func preflight(origin, method, path, fields string) testkit.Ask {
	a := testkit.Ask{Method: http.MethodOptions, Path: path}.With("Origin", origin).With("Access-Control-Request-Method", method)
	if fields != "" {
		a = a.With("Access-Control-Request-Headers", fields)
	}
	return a
}

// open wants the fields that let a script of our origin read an answer, each
// once.
func open(t *testing.T, what string, a *testkit.Answer) {
	t.Helper()
	for name, want := range map[string]string{"Access-Control-Allow-Origin": appOrigin, "Access-Control-Allow-Credentials": "true"} {
		if got := strings.Join(a.Header[name], "|"); got != want {
			t.Errorf("%s: got %s %q, want %q", what, name, got, want)
		}
	}
	if got := strings.Join(a.Header["Vary"], ","); strings.Count(got, "Origin") != 1 {
		t.Errorf("%s: got Vary %q, want Origin once", what, got)
	}
}

// TestCase69CORSPreflightForResume: a page of an allowed origin may start and
// resume, without credentials in the question and without a call upstream; one
// whose name only begins like it may not.
func TestCase69CORSPreflightForResume(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mirror, cors, starting("POST", "/chat"))
		for name, ask := range map[string]testkit.Ask{
			"resume": preflight(appOrigin, http.MethodGet, "/_runs/run_x/events", "authorization,cache-control,last-event-id"),
			"start":  preflight(appOrigin, http.MethodPost, "/chat", "authorization,content-type,idempotency-key"),
		} {
			a := s.Do(t, ask).Want(http.StatusNoContent)
			open(t, name, a)
			methods, fields := a.Header.Get("Access-Control-Allow-Methods"), strings.ToLower(a.Header.Get("Access-Control-Allow-Headers"))
			for _, field := range []string{"authorization", "cache-control", "content-type", "idempotency-key", "last-event-id"} {
				if !strings.Contains(fields, field) {
					t.Errorf("%s: %s is not allowed: %q", name, field, fields)
				}
			}
			if !strings.Contains(methods, "GET") || !strings.Contains(methods, "POST") {
				t.Errorf("%s: got methods %q, want GET and POST", name, methods)
			}
		}
		bad := s.Do(t, preflight(appOrigin+".evil.example", http.MethodGet, "/_runs/run_x/events", "authorization,last-event-id"))
		if len(bad.Header["Access-Control-Allow-Origin"]) > 0 {
			t.Errorf("bad origin: got %v", bad.Header)
		}
		if got := s.calls.Load(); got != 0 {
			t.Errorf("got %d calls, want none", got)
		}
	})
}

// TestPreflightsOfWhatIsOursAreAnswered: resources, starts, and paths on which a
// client comes back.
func TestPreflightsOfWhatIsOursAreAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mirror, cors, starting("POST", "/chat"))
		for _, ask := range []testkit.Ask{
			preflight(appOrigin, http.MethodGet, "/_runs", "authorization"),
			preflight(appOrigin, http.MethodGet, "/_runs/run_x/events", "last-event-id"),
			preflight(appOrigin, http.MethodPost, "/_runs/run_x/cancel", ""),
			preflight(appOrigin, http.MethodDelete, "/_runs/run_x", ""),
			preflight(appOrigin, http.MethodPost, "/chat", "content-type,idempotency-key,x-my-app"),
			preflight(appOrigin, http.MethodGet, "/chat/c-1/stream", ""),
		} {
			a := s.Do(t, ask).Want(http.StatusNoContent)
			open(t, ask.Path, a)
			if !strings.Contains(a.Header.Get("Access-Control-Allow-Methods"), "DELETE") || a.Header.Get("Access-Control-Max-Age") == "" {
				t.Errorf("%s: got %v", ask.Path, a.Header)
			}
			allowed := strings.ToLower(a.Header.Get("Access-Control-Allow-Headers"))
			for _, name := range []string{"authorization", "content-type", "idempotency-key", "last-event-id", "x-conversation-id", "prefer"} {
				if !strings.Contains(allowed, name) {
					t.Errorf("%s: %s is not allowed: %q", ask.Path, name, allowed)
				}
			}
			if strings.Contains(allowed, "*") {
				t.Errorf("%s: got %q: with credentials a star is a name", ask.Path, allowed)
			}
		}
		if got := s.calls.Load(); got != 0 {
			t.Errorf("got %d calls, want none", got)
		}
		mine := s.Do(t, preflight(appOrigin, http.MethodPost, "/chat", "x-my-app, bad name, x-other"))
		if got := mine.Header.Get("Access-Control-Allow-Headers"); !strings.Contains(got, "x-my-app, x-other") || strings.Contains(got, "bad name") {
			t.Errorf("got %q, want the application's own fields", got)
		}
	})
}

// TestOtherPreflightsAreTheBackends: those of strangers, and of what is not
// ours.
func TestOtherPreflightsAreTheBackends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mirror, cors, starting("POST", "/chat"))
		for _, ask := range []testkit.Ask{
			preflight(appOrigin, http.MethodPost, "/login", "content-type"),
			preflight(appOrigin, http.MethodGet, "/chat", ""),
			preflight("https://evil.example", http.MethodPost, "/chat", ""),
			preflight("null", http.MethodPost, "/chat", ""),
			preflight("http://app.example", http.MethodPost, "/chat", ""),
			{Method: http.MethodOptions, Path: "/chat"},
		} {
			a := s.Do(t, ask).Want(http.StatusOK)
			if a.Header.Get("X-Got") == "" || a.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s from %s: got %v", ask.Path, ask.Header.Get("Origin"), a.Header)
			}
		}
		stranger := s.Do(t, preflight("https://evil.example", http.MethodGet, "/_runs", "")).Want(http.StatusNoContent)
		if stranger.Header.Get("Access-Control-Allow-Origin") != "" || stranger.Header.Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("a stranger got %v", stranger.Header)
		}
		plain := newSite(t, mirror, starting("POST", "/chat"))
		if a := plain.Do(t, preflight(appOrigin, http.MethodPost, "/chat", "")).Want(http.StatusOK); a.Header.Get("X-Got") == "" || len(a.Header["Vary"]) > 0 {
			t.Errorf("without cors got %v", a.Header)
		}
	})
}

// TestScriptsOfAnAllowedOriginReadWhatWeAnswer, streams, refusals and plain
// bodies alike, with upstream's own CORS fields replaced by ours.
func TestScriptsOfAnAllowedOriginReadWhatWeAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Expose-Headers", "X-Theirs")
			w.Header().Set("Vary", "Accept")
			if strings.Contains(r.Header.Get("X-Kind"), "plain") {
				return answers(http.StatusOK, jsonType, "{}")(n, w, r)
			}
			return streams(data(1)...)(n, w, r)
		}, generic, cors)
		from := s.With("Origin", appOrigin).With("Sec-Fetch-Site", "cross-site")
		first := from.Do(t, startChat().Key("k-1")).Want(http.StatusOK)
		first.Rest()
		run := first.Run()
		answers := map[string]*testkit.Answer{
			"start": first, "retry": from.Do(t, startChat().Key("k-1")), "events": from.Do(t, testkit.Resume(run, "")), "own events": from.Do(t, own(run, "")),
			"record": from.Do(t, testkit.Ask{Path: "/_runs/" + run}), "204": from.Do(t, testkit.Resume(run, testkit.Cursor(run, 2))),
			"404": from.Do(t, testkit.Ask{Path: "/_runs/run_x"}), "405": from.Do(t, testkit.Ask{Method: http.MethodPatch, Path: "/_runs"}),
			"422": from.Do(t, testkit.Chat("conv-1", "other").Key("k-1")), "400": from.Do(t, startChat().Key("a b")),
			"plain": from.Do(t, loose().With("X-Kind", "plain")), "our cursor": from.Do(t, testkit.Ask{Path: "/x"}.With("Last-Event-ID", testkit.Cursor(run, 0))),
			"cancel": from.Do(t, stopping(run, "")),
		}
		for name, a := range answers {
			open(t, name, a)
			exposed := a.Header.Get("Access-Control-Expose-Headers")
			for _, want := range []string{"X-Run-Id", "X-Conversation-Id", "Idempotent-Replayed", "Link", "Retry-After"} {
				if !strings.Contains(exposed, want) {
					t.Errorf("%s: %s is not exposed: %q", name, want, exposed)
				}
			}
		}
		if got := strings.Join(first.Header["Vary"], ", "); !strings.Contains(got, "Accept") {
			t.Errorf("got Vary %q, want upstream's too", got)
		}
		if got := s.Do(t, loose()).Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("a request without an origin got %q", got)
		}
		if got := s.With("Origin", "https://evil.example").Do(t, testkit.Resume(run, "")).Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("a stranger got %q", got)
		}
	})
}

// TestAnswersOfTheBackendAloneKeepItsOwnFields; where it answers in our stead,
// on a resume path, ours replace them: never are there two.
func TestAnswersOfTheBackendAloneKeepItsOwnFields(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Add("Access-Control-Allow-Origin", "*") // as reverse_proxy copies them
			w.Header().Add("Access-Control-Expose-Headers", "X-Theirs")
			w.WriteHeader(map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[strings.HasSuffix(r.URL.Path, "/stream")])
			return nil
		}, cors, bodyLimit(50))
		from := s.With("Origin", appOrigin).With("Sec-Fetch-Site", "cross-site")
		theirs := map[string]testkit.Ask{
			"page": {Path: "/page"}, "login": {Path: "/login", Body: `{"a":1}`}, "control call": {Path: "/v1/responses/r/cancel", Body: `{}`},
			"control message": testkit.Ask{Path: "/mcp", Body: `{"jsonrpc":"2.0","method":"ping","id":1}`}.With("Accept", "text/event-stream"),
			"too large":       {Path: "/v1/chat/completions", Body: `{"x":"` + strings.Repeat("x", 100) + `"}`},
		}
		for name, ask := range theirs {
			a := from.Do(t, ask).Want(http.StatusOK)
			if got := strings.Join(a.Header["Access-Control-Allow-Origin"], "|"); got != "*" || len(a.Header["Access-Control-Allow-Credentials"]) > 0 {
				t.Errorf("%s: got Allow-Origin %q with credentials %q, want the backend's own", name, got, a.Header["Access-Control-Allow-Credentials"])
			}
		}
		large := post("/v1/chat/completions", strings.NewReader(`{"x":"`+strings.Repeat("x", 100)+`"}`))
		large.Header.Set("Origin", appOrigin)
		if w := s.serve(large); strings.Join(w.Header()["Access-Control-Allow-Origin"], "|") != "*" {
			t.Errorf("too large without a length: got %q", w.Header()["Access-Control-Allow-Origin"])
		}
		a := from.Do(t, testkit.Ask{Path: "/api/chat/c-1/stream"}).Want(http.StatusNoContent)
		open(t, "resume path", a)
		stranger := s.With("Origin", "https://evil.example").Do(t, testkit.Ask{Path: "/api/chat/c-1/stream"}).Want(http.StatusNoContent)
		if got := stranger.Header["Access-Control-Allow-Origin"]; len(got) > 0 {
			t.Errorf("a stranger on a resume path got %q", got)
		}
	})
}
