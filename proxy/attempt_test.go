package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// attempt asks for one attempt of startChat's request under a key.
func attempt(n int) testkit.Ask {
	return startChat().Key("k-1").With("X-Run-Attempt", strconv.Itoa(n))
}

func accepts(a testkit.Ask) testkit.Ask { return a.With("X-Run-Confirm", "effects") }

// TestANewAttemptNeedsAPersonsWord where the last one may have had an effect,
// and is linked with it.
func TestANewAttemptNeedsAPersonsWord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3)...), generic)
		first := s.ran(t, startChat().Key("k-1"))
		refused := s.Do(t, attempt(2))
		raw := string(refused.Want(http.StatusConflict).Body())
		for _, want := range []string{`"code":"retry_unsafe"`, `"run_id":"` + first, `"effect":"possible"`, `"client_actions":["show_snapshot","warn_external_action"]`} {
			if !strings.Contains(raw, want) {
				t.Errorf("got %s, want %s in it", raw, want)
			}
		}
		if got := refused.Header.Get("X-Should-Retry"); got != "false" || s.calls.Load() != 1 {
			t.Errorf("got x-should-retry %q after %d calls, want false after 1", got, s.calls.Load())
		}
		second := s.Do(t, accepts(attempt(2))).Want(http.StatusOK)
		testkit.CheckIDs(t, second.Run(), 1, second.Rest())
		if got := second.Header.Get("X-Run-Attempt"); got != "2" || second.Run() == first || second.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("got attempt %s of run %s, want the second of another run", got, second.Run())
		}
		rec := s.Snapshot(t, second.Run())
		if rec.Attempt != 2 || rec.PreviousAttempt == nil || *rec.PreviousAttempt != first {
			t.Errorf("got attempt %d after %v, want 2 after %s", rec.Attempt, rec.PreviousAttempt, first)
		}
		for ask, want := range map[*testkit.Ask]string{
			new(attempt(1)): first, new(attempt(2)): second.Run(), new(startChat().Key("k-1")): second.Run(),
		} {
			if again := s.Do(t, *ask).Want(http.StatusOK); again.Run() != want || again.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("got run %s, want %s replayed", again.Run(), want)
			}
		}
		if got := s.calls.Load(); got != 2 {
			t.Errorf("got %d calls, want 2", got)
		}
	})
}

// TestWhereNothingCanHaveHappenedANewAttemptNeedsNoWord.
func TestWhereNothingCanHaveHappenedANewAttemptNeedsNoWord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic, func(c *proxy.Config) { c.NoSideEffects = true })
		first := s.ran(t, startChat().Key("k-1"))
		if second := s.ran(t, attempt(2)); second == first {
			t.Error("got a replay, want a new attempt")
		}
	})
}

// TestManyCallersOfOneAttempt: the first one makes it, the others attach.
func TestManyCallersOfOneAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, slow(streams(data(1)...)), generic)
		s.ran(t, startChat().Key("k-1"))
		pending := make([]*testkit.Pending, 10)
		for i := range pending {
			pending[i] = s.Begin(t, accepts(attempt(2)))
		}
		runs := make(map[string]int)
		for _, p := range pending {
			a, err := p.Head()
			if err != nil {
				t.Fatal(err)
			}
			runs[a.Run()]++
		}
		if got := s.calls.Load(); got != 2 || len(runs) != 1 {
			t.Errorf("got %d calls and runs %v, want 2 calls and one run", got, runs)
		}
	})
}

// TestAnAttemptOfAnActiveRunAttaches, whatever it confirms.
func TestAnAttemptOfAnActiveRunAttaches(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(2)...), generic)
		first := s.Do(t, startChat().Key("k-1"))
		again := s.Do(t, accepts(attempt(2))).Want(http.StatusOK)
		if again.Run() != first.Run() || again.Header.Get("X-Run-Attempt") != "1" {
			t.Errorf("got attempt %s of run %s, want 1 of %s", again.Header.Get("X-Run-Attempt"), again.Run(), first.Run())
		}
	})
}

// TestMalformedAttempts: a number that says nothing starts nothing.
func TestMalformedAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		for _, text := range []string{"0", "-1", "", "one", "1.0", "01", "+1", "99999999999999999999"} {
			s.Do(t, startChat().Key("k-1").With("X-Run-Attempt", text)).Problem(http.StatusBadRequest, "malformed_request")
		}
		if got := s.calls.Load(); got != 0 {
			t.Fatalf("got %d calls, want none", got)
		}
		s.ran(t, startChat().Key("k-1"))
		raw := string(s.Do(t, accepts(attempt(3))).Want(http.StatusBadRequest).Body())
		if !strings.Contains(raw, `"last_attempt":1`) {
			t.Errorf("got %s, want that 1 was the last", raw)
		}
		s.Do(t, accepts(testkit.Chat("conv-1", "another").Key("k-1").With("X-Run-Attempt", "2"))).Problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
	})
}

// TestTheFieldsOfAnAttemptStayHere: the backend does not see them.
func TestTheFieldsOfAnAttemptStayHere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		seen := make(chan http.Header, 1)
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			seen <- r.Header
			return streams(data(1)...)(n, w, r)
		}, generic)
		s.ran(t, accepts(attempt(1)))
		if h := <-seen; h.Get("X-Run-Attempt") != "" || h.Get("X-Run-Confirm") != "" {
			t.Errorf("got %v", h)
		}
	})
}

// TestAnExpiredRunIsTold only to whom it names by a key: who asks again without
// one gets an answer.
func TestAnExpiredRunIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, slow(streams(data(2)...)), generic, retention(time.Minute, time.Hour), func(c *proxy.Config) { c.ImplicitRetry = time.Hour })
		s.abandons(t, loose())
		time.Sleep(5 * time.Minute)
		again := s.Do(t, loose()).Want(http.StatusOK)
		testkit.CheckIDs(t, again.Run(), 1, again.Rest())
		if got := s.calls.Load(); got != 2 {
			t.Errorf("got %d calls, want another run", got)
		}
		synctest.Wait()
		s.ran(t, startChat().Key("k-1"))
		time.Sleep(5 * time.Minute)
		s.Do(t, startChat().Key("k-1")).Problem(http.StatusGone, "stream_expired")
	})
}
