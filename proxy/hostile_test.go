package proxy_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// spellings are other ways to write the path of a run. RUN stands for its id.
var spellings = []string{
	"/_runs/RUN%00", "/_runs/RUN%20", "/_runs/RUN.", "/_runs/RUN%2e", "/_runs/RUN..", "/_runs/RUN%0d%0a", "/_runs/RUN;x",
	"/_runs/RUN%2f..%2fRUN", "/_runs/RUN%5cevents", "/_runs/./RUN", "/_runs/../_runs/RUN", "/_runs/%2e%2e/_runs/RUN", "/_runs//RUN", "/_runs/x/../RUN",
	"/_runs/%e2%80%8bRUN", "/_runs/RUN%EF%BC%8E", "/_runs/UPPER", "/_runs/RUN/events/", "/_runs/RUN//events", "/_runs/RUN/./events", "/_runs/RUN/../RUN/events",
	"/_runs/RUN/EVENTS", "/_runs/RUN/events%00",
}

// TestOtherSpellingsOfARunAreNoRun: an id has one spelling and a resource one
// path, whoever asks. Nothing of it reaches the backend either.
func TestOtherSpellingsOfARunAreNoRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		run := s.ran(t, startChat())
		calls := s.calls.Load()
		for _, path := range spellings {
			path = strings.NewReplacer("RUN", run, "UPPER", strings.ToUpper(run)).Replace(path)
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				r := httptest.NewRequest(method, "/", nil)
				u, err := url.Parse(path)
				if err != nil {
					t.Fatal(err)
				}
				r.URL, r.RequestURI = u, path
				r.Header.Set(testkit.SubjectHeader, "user-a")
				if w := s.serve(r); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed || w.Header().Get("X-Run-Id") != "" {
					t.Errorf("%s %s: got %d %s, want 404 or 405", method, path, w.Code, w.Body)
				}
			}
		}
		if got := s.calls.Load() - calls; got != 0 {
			t.Errorf("the backend was called %d times", got)
		}
		s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Want(http.StatusOK)
	})
}

// TestMethodsAreNotOverridden: what a request says of its method in a field or
// parameter is nothing to us.
func TestMethodsAreNotOverridden(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(1)...), generic)
		answer := s.Do(t, startChat())
		answer.Take(1)
		run := answer.Run()
		for _, field := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
			s.Do(t, testkit.Ask{Path: "/_runs/" + run}.With(field, http.MethodDelete)).Want(http.StatusOK)
			s.Do(t, testkit.Ask{Path: "/_runs/" + run + "/cancel"}.With(field, http.MethodPost)).Problem(http.StatusMethodNotAllowed, "method_not_allowed")
		}
		s.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "?_method=DELETE"}).Problem(http.StatusMethodNotAllowed, "method_not_allowed")
		if got := s.state(t, run); got != "running" {
			t.Errorf("got %s, want running", got)
		}
	})
}

// TestConditionsAndRangesTellNothing about a run of another: the ETag of a
// record is no key to it.
func TestConditionsAndRangesTellNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		run := s.ran(t, startChat())
		tag := s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Want(http.StatusOK).Header.Get("Etag")
		stranger := s.As("user-b")
		for field, value := range map[string]string{"If-None-Match": tag, "If-Match": tag, "Range": "bytes=0-1", "If-Modified-Since": "Mon, 30 Nov 2026 00:00:00 GMT"} {
			for _, path := range []string{"", "/events"} {
				s.Do(t, testkit.Ask{Path: "/_runs/" + run + path}.With(field, "*")) // what its owner gets is no matter
				stranger.Do(t, testkit.Ask{Path: "/_runs/" + run + path}.With(field, value)).Problem(http.StatusNotFound, "run_not_found")
				stranger.Do(t, testkit.Ask{Path: "/_runs/" + run + path}.With(field, "*")).Problem(http.StatusNotFound, "run_not_found")
			}
		}
		s.Do(t, testkit.Ask{Path: "/_runs/" + run}.With("If-None-Match", tag)).Want(http.StatusNotModified)
	})
}

// TestDocumentsAreNeitherKeptNorGuessedAt: no cache stores what is of a run, and
// no browser takes it for a page.
func TestDocumentsAreNeitherKeptNorGuessedAt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		run := s.ran(t, startChat())
		for _, ask := range []testkit.Ask{
			{Path: "/_runs/" + run},
			{Path: "/_runs"},
			{Path: "/_runs/active?conversation_id=conv-1"},
			{Path: "/_runs/run_x"},
			{Path: "/_runs/" + run + "/events"},
			testkit.Ask{Path: "/_runs/" + run + "/events"}.With("Accept", "application/json"),
			{Method: http.MethodPost, Path: "/_runs/" + run + "/cancel"},
		} {
			a := s.Do(t, ask)
			a.Rest()
			if !strings.HasPrefix(a.Header.Get("Cache-Control"), "no-store") || a.Header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(a.Header.Get("Content-Type"), "html") {
				t.Errorf("%s %s: got %v", ask.Method, ask.Path, a.Header)
			}
		}
	})
}

// TestEarlyDataStartsNothing: whoever recorded it could send it twice. Reading is
// safe, and so is what is no start.
func TestEarlyDataStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		early := func(r *http.Request, header bool) int {
			if header {
				r.Header.Set("Early-Data", "1")
			} else {
				r.TLS = &tls.ConnectionState{} // a handshake that is not complete
			}
			return s.serve(r).Code
		}
		for _, header := range []bool{false, true} {
			if got := early(post("/v1/chat/completions", strings.NewReader(`{"messages":[]}`)), header); got != http.StatusTooEarly {
				t.Errorf("a start: got %d, want 425", got)
			}
			if got := early(httptest.NewRequest(http.MethodGet, "/_runs", nil), header); got != http.StatusOK {
				t.Errorf("a read: got %d, want 200", got)
			}
		}
		if got := s.calls.Load(); got != 0 {
			t.Errorf("the backend was called %d times", got)
		}
		late := post("/v1/chat/completions", strings.NewReader(`{"messages":[]}`))
		late.TLS = &tls.ConnectionState{HandshakeComplete: true}
		if got := s.serve(late).Code; got != http.StatusOK {
			t.Errorf("a start after the handshake: got %d, want 200", got)
		}
	})
}
