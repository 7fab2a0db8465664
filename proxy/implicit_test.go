package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// No SDK sends a key, and most retry by themselves: these are the rules by
// which a request without one repeats a run.

// slow answers after a while, which is when its client may already be gone.
func slow(b backend) backend { return after(10*time.Second, b) }

// abandons sends a start and vanishes a second later, before its answer.
func (s *site) abandons(t *testing.T, a testkit.Ask) {
	t.Helper()
	p := s.Begin(t, a)
	var gone sync.WaitGroup
	gone.Go(func() { p.Head() }) //nolint:errcheck // it is cut
	time.Sleep(time.Second)
	p.Abandon()
	gone.Wait()
	time.Sleep(time.Millisecond) // the gateway has noticed
}

// loose is a start in no named conversation.
func loose() testkit.Ask { return testkit.Chat("", "hello") }

// TestARetryOfABrokenDeliveryFindsItsRun while it is active and after it has
// completed.
func TestARetryOfABrokenDeliveryFindsItsRun(t *testing.T) {
	for name, wait := range map[string]time.Duration{"active": time.Second, "completed": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, slow(streams(data(3)...)), generic)
				s.abandons(t, loose())
				time.Sleep(wait)
				again := s.Do(t, loose()).Want(http.StatusOK)
				testkit.CheckIDs(t, again.Run(), 1, again.Rest())
				if got := s.calls.Load(); got != 1 || again.Header.Get("Idempotent-Replayed") != "true" {
					t.Errorf("got %d calls, replayed %q, want the first run", got, again.Header.Get("Idempotent-Replayed"))
				}
				if next := s.ran(t, loose()); next == again.Run() {
					t.Error("a delivery that was claimed was claimed again")
				}
			})
		})
	}
}

// TestHowFarBackARetryLooks: a minute, or fifteen when the request says that it
// is a retry.
func TestHowFarBackARetryLooks(t *testing.T) {
	cases := []struct {
		name   string
		wait   time.Duration // since the run began
		retry  string        // X-Stainless-Retry-Count
		config configure
		found  bool
	}{
		{"within a minute", time.Minute, "", generic, true},
		{"after a minute", time.Minute + time.Second, "", generic, false},
		{"says retry 0", time.Minute + time.Second, "0", generic, false},
		{"says retry 1", time.Minute + time.Second, "1", generic, true},
		{"within fifteen", 15 * time.Minute, "2", generic, true},
		{"after fifteen", 15*time.Minute + time.Second, "2", generic, false},
		{"off", 2 * time.Second, "1", func(c *proxy.Config) { c.ImplicitRetry = 0 }, false},
		{"longer by configuration", 20 * time.Minute, "1", func(c *proxy.Config) { c.ImplicitRetry = 20 * time.Minute }, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, slow(streams(data(1)...)), generic, c.config, retention(time.Hour, 2*time.Hour))
				s.abandons(t, loose())
				time.Sleep(c.wait - time.Second - time.Millisecond)
				ask := loose()
				if c.retry != "" {
					ask = ask.With("X-Stainless-Retry-Count", c.retry)
				}
				if got := s.Do(t, ask).Want(http.StatusOK).Header.Get("Idempotent-Replayed") == "true"; got != c.found {
					t.Errorf("found its run: %v, want %v", got, c.found)
				}
			})
		})
	}
}

// TestWhatIsNeverTakenForARetry.
func TestWhatIsNeverTakenForARetry(t *testing.T) {
	ok := slow(streams(data(1)...))
	cases := []struct {
		name    string
		backend backend
		first   testkit.Ask
		between func(t *testing.T, s *site)
		again   testkit.Ask
	}{
		{name: "another body", backend: ok, first: loose(), again: testkit.Chat("", "other")},
		{name: "other credentials", backend: ok, first: loose().With("Authorization", "Bearer a"), again: loose().With("Authorization", "Bearer b")},
		{name: "other cookies", backend: ok, first: loose().With("Cookie", "sid=a"), again: loose().With("Cookie", "sid=b")},
		{name: "another user", backend: ok, first: loose(), again: loose().With("X-User", "user-b")},
		{name: "another path", backend: ok, first: loose(), again: loose().At("/v1/messages")},
		{name: "a key", backend: ok, first: loose(), again: loose().Key("k-1")},
		{name: "of a start with a key", backend: ok, first: loose().Key("k-1"), again: loose()},
		{name: "of a stopped run", backend: ok, first: loose(), between: stopNewest, again: loose()},
		{name: "of a failed run", backend: slow(breaks(data(1)...)), first: loose(), between: rest, again: loose()},
		{name: "of an unanswered run", backend: slow(func(int, http.ResponseWriter, *http.Request) error { return errLostEarly }), first: loose(), between: rest, again: loose()},
		{name: "of a refused one", backend: slow(answers(http.StatusTooManyRequests, jsonType, "{}")), first: loose(), between: rest, again: loose()},
		{name: "of a redirected one", backend: slow(answers(http.StatusFound, "text/plain", "x")), first: loose(), between: rest, again: loose()},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, c.backend)
				s.abandons(t, c.first)
				if c.between != nil {
					c.between(t, s)
				}
				if again := s.Do(t, c.again); again.Header.Get("Idempotent-Replayed") != "" {
					t.Errorf("got %d of the first run, want another", again.Status)
				}
				if got := s.calls.Load(); got != 2 {
					t.Errorf("got %d calls, want 2", got)
				}
			})
		})
	}
}

func stopNewest(t *testing.T, s *site) { t.Helper(); s.Stop(t, s.newest(t)) }

func rest(*testing.T, *site) { time.Sleep(20 * time.Second) } // in the bubble

// TestADeliveryInMidStreamIsClaimedByAGetAlone: an EventSource of a GET start
// comes back to its own path; a POST that is sent again is meant anew.
func TestADeliveryInMidStreamIsClaimedByAGetAlone(t *testing.T) {
	for method, want := range map[string]bool{http.MethodGet: true, http.MethodPost: false} {
		t.Run(method, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, holds(data(2)...), generic, starting(method, "/ask"))
				ask := testkit.Ask{Method: method, Path: "/ask?q=1"}
				first := s.Do(t, ask)
				first.Take(1)
				first.Drop()
				synctest.Wait()
				again := s.Do(t, ask).Want(http.StatusOK)
				if got := again.Run() == first.Run(); got != want {
					t.Errorf("found its run: %v, want %v", got, want)
				}
			})
		})
	}
}

// TestAnEqualRequestInTheConversationThatItsRunKeepsBusyAttaches, while one in
// another conversation or with other words does not.
func TestAnEqualRequestInTheConversationThatItsRunKeepsBusyAttaches(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(2)...), generic)
		first := s.Do(t, startChat())
		first.Take(2)
		again := s.Do(t, startChat()).Want(http.StatusOK)
		if again.Run() != first.Run() || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("got run %s, want %s", again.Run(), first.Run())
		}
		again.Take(2)
		s.Do(t, testkit.Chat("conv-1", "other")).Problem(http.StatusConflict, "run_in_flight")
		if other := s.Do(t, testkit.Chat("conv-2", "hello")); other.Run() == first.Run() {
			t.Error("another conversation got the run")
		}
		// A generated name is nobody's: naming it says that one knows it.
		unnamed := s.Do(t, loose())
		unnamed.Take(1)
		named := testkit.Chat(unnamed.Conversation(), "hello")
		s.Do(t, named).Problem(http.StatusConflict, "run_in_flight")
	})
}

// TestFiftyParallelEqualStartsAreFiftyRuns, and each broken one is found by its
// own retry.
func TestFiftyParallelEqualStartsAreFiftyRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, slow(streams(data(1)...)), generic)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { s.abandons(t, loose()) })
		}
		all.Wait()
		if got := s.calls.Load(); got != 50 {
			t.Fatalf("got %d calls, want 50", got)
		}
		found := make(chan string, 50)
		for range 50 {
			all.Go(func() {
				a := s.Do(t, loose()).Want(http.StatusOK)
				a.Rest()
				found <- a.Run()
			})
		}
		all.Wait()
		close(found)
		distinct := map[string]bool{}
		for run := range found {
			distinct[run] = true
		}
		if got := s.calls.Load(); got != 50 || len(distinct) != 50 {
			t.Errorf("got %d calls and %d runs, want 50 of each", got, len(distinct))
		}
	})
}

// TestAHundredParallelStartsWithOneKeyAreOneCall with a hundred equal bodies.
func TestAHundredParallelStartsWithOneKeyAreOneCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, slow(streams(data(20)...)), generic)
		bodies := make(chan string, 100)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { bodies <- string(s.Do(t, startChat().Key("k-1")).Want(http.StatusOK).Body()) })
		}
		all.Wait()
		close(bodies)
		distinct := map[string]int{}
		for b := range bodies {
			distinct[b]++
		}
		if got := s.calls.Load(); got != 1 || len(distinct) != 1 {
			t.Errorf("got %d calls and %d different bodies, want 1 and 1", got, len(distinct))
		}
		for b := range distinct {
			if strings.Count(b, "data: ") != 20 {
				t.Errorf("got %q", b)
			}
		}
	})
}

// TestASharedSubjectNeverRepeatsARunImplicitly: under anonymous the next equal
// request may be anybody's.
func TestASharedSubjectNeverRepeatsARunImplicitly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := setup{identity: authz.Anonymous{}, config: []configure{generic}}.open(t, slow(streams(data(1)...)))
		s.abandons(t, loose())
		if again := s.Do(t, loose()); again.Header.Get("Idempotent-Replayed") != "" {
			t.Error("got the run of somebody who may be somebody else")
		}
	})
}

// TestAPlainAnswerIsKeptWhileItsDeliveryMayBeClaimed, however large it is, and
// no longer.
func TestAPlainAnswerIsKeptWhileItsDeliveryMayBeClaimed(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "larger than is kept under a key": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, slow(answers(http.StatusOK, "text/plain", strings.Repeat("x", size))), generic)
				s.abandons(t, loose())
				time.Sleep(20 * time.Second)
				again := s.Do(t, loose()).Want(http.StatusOK)
				if got := len(again.Body()); got != size || s.calls.Load() != 1 {
					t.Errorf("got %d bytes and %d calls, want %d and 1", got, s.calls.Load(), size)
				}
				s.abandons(t, loose())
				run := s.newest(t)
				time.Sleep(16 * time.Minute)
				s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Problem(http.StatusNotFound, "run_not_found")
			})
		})
	}
}
