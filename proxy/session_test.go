package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// sessions opens a site with the default identity.
func sessions(t *testing.T, b backend, change ...configure) *site {
	t.Helper()
	identity, err := authz.NewSession(authz.Options{Secret: func() ([]byte, error) { return []byte(strings.Repeat("k", authz.MinSecret)), nil }})
	if err != nil {
		t.Fatal(err)
	}
	s := setup{identity: identity, config: change}.open(t, b)
	s.Header.Del(testkit.SubjectHeader)
	return s
}

// cookieOf returns our cookie from an answer, as a client sends it.
func cookieOf(a *testkit.Answer) string {
	for _, c := range (&http.Response{Header: a.Header}).Cookies() {
		if strings.HasSuffix(c.Name, "agent-runs") {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// page answers with a page, and any other path with an event stream.
func page(n int, w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == "/" {
		w.Header().Set("X-Cookies", strings.Join(r.Header.Values("Cookie"), "|"))
		return answers(http.StatusOK, "text/html; charset=utf-8", "<p>hi")(n, w, r)
	}
	w.Header().Set("X-Cookies", strings.Join(r.Header.Values("Cookie"), "|"))
	return streams(data(2)...)(n, w, r)
}

func navigate() testkit.Ask {
	return testkit.Ask{Path: "/"}.With("Sec-Fetch-Mode", "navigate").With("Sec-Fetch-Site", "none")
}

// fromPage is what a script of our page sends.
func fromPage(a testkit.Ask, cookie string) testkit.Ask {
	a = a.With("Sec-Fetch-Site", "same-origin")
	if cookie != "" {
		a = a.With("Cookie", cookie)
	}
	return a
}

// TestTheFirstPageLoadBeginsASession, and later ones leave it alone: that the
// cookie does not reach upstream must not make it forgotten.
func TestTheFirstPageLoadBeginsASession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := sessions(t, page)
		first := s.Do(t, navigate()).Want(http.StatusOK)
		cookie := cookieOf(first)
		if set := first.Header.Get("Set-Cookie"); cookie == "" || !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Lax") {
			t.Fatalf("got Set-Cookie %q", set)
		}
		for _, c := range []string{cookie, "app=1; " + cookie, cookie + "; app=1"} {
			again := s.Do(t, navigate().With("Cookie", c)).Want(http.StatusOK)
			if got := again.Header.Get("Set-Cookie"); got != "" {
				t.Errorf("with %q got another: %q", c, got)
			}
			if got := again.Header.Get("X-Cookies"); strings.Contains(got, "agent-runs") || strings.Contains(c, "app=1") && got != "app=1" {
				t.Errorf("upstream got the cookies %q of %q", got, c)
			}
		}
		for name, ask := range map[string]testkit.Ask{"no navigation": {Path: "/"}, "no page": {Path: "/data", Header: http.Header{"Sec-Fetch-Mode": {"navigate"}}}} {
			if got := s.Do(t, ask).Header.Get("Set-Cookie"); got != "" {
				t.Errorf("%s: got %q", name, got)
			}
		}
	})
}

// TestTheFirstRunBeginsASessionWherePagesDidNot: the run is its browser's from
// then on and nobody else's.
func TestTheFirstRunBeginsASessionWherePagesDidNot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := sessions(t, page)
		first := s.Do(t, fromPage(startChat(), "")).Want(http.StatusOK)
		first.Rest()
		cookie := cookieOf(first)
		if cookie == "" {
			t.Fatal("the first run sets no cookie")
		}
		second := s.Do(t, fromPage(next("more"), "app=1; "+cookie)).Want(http.StatusOK)
		second.Rest()
		if second.Header.Get("Set-Cookie") != "" || second.Header.Get("X-Cookies") != "app=1" {
			t.Errorf("got Set-Cookie %q, upstream got %q", second.Header.Get("Set-Cookie"), second.Header.Get("X-Cookies"))
		}
		for _, run := range []string{first.Run(), second.Run()} {
			s.Do(t, fromPage(testkit.Resume(run, ""), cookie)).Want(http.StatusOK).Rest()
			s.Do(t, fromPage(testkit.Resume(run, ""), "")).Problem(http.StatusNotFound, "run_not_found")
			s.Do(t, fromPage(testkit.Resume(run, ""), cookie+"x")).Problem(http.StatusNotFound, "run_not_found")
		}
		retry := s.Do(t, fromPage(startChat(), "")).Want(http.StatusOK)
		if other := cookieOf(retry); other == "" || other == cookie || retry.Run() == first.Run() {
			t.Error("another browser got the first one's session")
		}
	})
}

// TestReadsNeverBeginASession: without one they are answered like an unknown
// run, or with nothing.
func TestReadsNeverBeginASession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := sessions(t, page)
		run := s.Do(t, fromPage(startChat(), "")).Run()
		for path, status := range map[string]int{
			"/_runs": 200, "/_runs/" + run: 404, "/_runs/" + run + "/events": 404, "/_runs/active?conversation_id=conv-1": 200,
			"/_runs/active/events?conversation_id=conv-1": 204, "/chat?lastEventId=" + run + ".1": 404,
		} {
			a := s.Do(t, fromPage(testkit.Ask{Path: path}, "")).Want(status)
			if got := a.Header.Get("Set-Cookie"); got != "" {
				t.Errorf("%s: got %q", path, got)
			}
			if body := string(a.Body()); strings.Contains(body, run) {
				t.Errorf("%s: got %s", path, body)
			}
		}
	})
}

// TestOurCookieReachesUpstreamOnNoPath: starts, requests that are none, and
// those that a resume path hands on.
func TestOurCookieReachesUpstreamOnNoPath(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		got := make(chan http.Header, 1)
		s := sessions(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			got <- r.Header.Clone()
			w.WriteHeader(http.StatusNotFound)
			return nil
		})
		cookie := "agent-runs=x.y"
		for name, ask := range map[string]testkit.Ask{
			"start": startChat(), "page": navigate(), "login": {Path: "/login", Body: `{"a":1}`}, "undecided": {Path: "/ask", Body: `{"stream":false}`},
			"upload": {Method: http.MethodPut, Path: "/file", Body: "x"}, "resume path": {Path: "/api/chat/conv-1/stream"}, "control call": {Path: "/v1/responses/r/cancel", Body: `{}`},
			"upgrade": {Path: "/ws", Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}},
		} {
			a := s.Do(t, ask.With("Cookie", "a=1; "+cookie+"; b=\"2\"").With("X-Kept", "yes"))
			if head := <-got; strings.Join(head["Cookie"], "|") != `a=1; b="2"` || head.Get("X-Kept") != "yes" {
				t.Errorf("%s: upstream got cookies %q", name, head["Cookie"])
			}
			a.Body()
			s.Do(t, ask.With("Cookie", cookie)).Body()
			if head := <-got; len(head["Cookie"]) > 0 {
				t.Errorf("%s: upstream got cookies %q, want none", name, head["Cookie"])
			}
			synctest.Wait()
		}
	})
}

// TestAScriptIsKnownByItsCredential, without a cookie jar: it starts, retries,
// resumes and stops as itself.
func TestAScriptIsKnownByItsCredential(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := sessions(t, holds(data(2)...), generic)
		script := s.With("Authorization", "Bearer sk-1")
		first := script.Do(t, startChat())
		first.Take(2)
		if first.Header.Get("Set-Cookie") != "" {
			t.Error("a script got a cookie")
		}
		script.Do(t, testkit.Resume(first.Run(), "")).Want(http.StatusOK).Take(2)
		s.With("Authorization", "Bearer sk-2").Do(t, testkit.Resume(first.Run(), "")).Problem(http.StatusNotFound, "run_not_found")
		s.With("X-Api-Key", "sk-1").Do(t, testkit.Resume(first.Run(), "")).Problem(http.StatusNotFound, "run_not_found")
		s.Do(t, testkit.Resume(first.Run(), "")).Problem(http.StatusNotFound, "run_not_found")
		if rec := script.Stop(t, first.Run()); rec.State != "cancelled" {
			t.Errorf("got %s", rec.State)
		}
	})
}

// TestARetryFindsItsRunAlthoughItsCookieWasLost with the first answer: key and
// request stand in for it.
func TestARetryFindsItsRunAlthoughItsCookieWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := sessions(t, slow(streams(data(2)...)), generic)
		s.abandons(t, startChat().Key("k-1"))
		again := s.Do(t, startChat().Key("k-1")).Want(http.StatusOK)
		again.Rest()
		if s.calls.Load() != 1 || cookieOf(again) == "" {
			t.Errorf("got %d calls and cookie %q", s.calls.Load(), cookieOf(again))
		}
		if other := s.Do(t, testkit.Chat("conv-1", "other").Key("k-1")).Want(http.StatusOK); other.Run() == again.Run() {
			t.Error("another request under the key of a stranger got his run")
		}
	})
}

// TestCrossSiteRequestsDoNotStartOrStop: the browser would add its cookie.
func TestCrossSiteRequestsDoNotStartOrStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := sessions(t, page, starting("GET", "/ask"), starting("POST", "/v1/*"), func(c *proxy.Config) { c.CORS = []string{"https://app.example"} })
		first := s.Do(t, fromPage(startChat(), ""))
		first.Rest()
		cookie := cookieOf(first)
		writes := []testkit.Ask{
			startChat(),
			{Path: "/ask?q=1"},
			stopping(first.Run(), ""), deleting(first.Run()),
			{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=conv-1"},
		}
		for _, ask := range writes {
			for _, from := range []testkit.Ask{ask.With("Sec-Fetch-Site", "cross-site"), ask.With("Sec-Fetch-Site", "same-site"), ask.With("Origin", "https://evil.example"), ask.With("Origin", "null")} {
				s.Do(t, from.With("Cookie", cookie)).Problem(http.StatusForbidden, "csrf_rejected")
			}
		}
		if got := s.calls.Load(); got != 1 {
			t.Errorf("got %d calls, want the first alone", got)
		}
		allowed := startChat().With("Origin", "https://app.example").With("Sec-Fetch-Site", "cross-site").With("Cookie", cookie)
		s.Do(t, allowed).Want(http.StatusOK)
		s.Do(t, testkit.Resume(first.Run(), "").With("Cookie", cookie).With("Sec-Fetch-Site", "cross-site")).Want(http.StatusOK)
	})
}
