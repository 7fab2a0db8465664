package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCursorsOutsideTheGrammarAreRefusedBeforeTheFirstByte, whatever carries
// them and in every format.
func TestCursorsOutsideTheGrammarAreRefusedBeforeTheFirstByte(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3)...), generic)
		run, other := s.ran(t, startChat()), s.ran(t, testkit.Chat("conv-2", "hello"))
		cases := []struct{ cursor, code string }{
			{"abc", "malformed_cursor"},
			{"1", "malformed_cursor"},
			{run, "malformed_cursor"},
			{run + ".", "malformed_cursor"},
			{run + ".x", "malformed_cursor"},
			{run + ".-1", "malformed_cursor"},
			{run + ".+1", "malformed_cursor"},
			{run + ".01", "malformed_cursor"},
			{run + ".1.1", "malformed_cursor"},
			{run + ".1 ", "malformed_cursor"},
			{run + ".9007199254740992", "malformed_cursor"},
			{run + ":1", "malformed_cursor"},
			{"run_zzz.1", "malformed_cursor"},
			{other + ".1", "wrong_run_cursor"},
		}
		for _, c := range cases {
			for _, accept := range []string{"", acceptSSE, acceptNDJSON, acceptJSON} {
				for _, name := range []string{"after", "lastEventId", "last_event_id"} {
					s.Do(t, asks(run, "", accept).Query(name, c.cursor)).Problem(http.StatusBadRequest, c.code)
				}
				if c.cursor != run+".1 " { // a field's value cannot end with a space
					s.Do(t, asks(run, c.cursor, accept)).Problem(http.StatusBadRequest, c.code)
				}
			}
		}
	})
}

// TestTwoCursorsAreNone: whichever of two fields was meant, one of them is
// wrong.
func TestTwoCursorsAreNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3)...), generic)
		run := s.ran(t, startChat())
		ask := testkit.Resume(run, testkit.Cursor(run, 1))
		ask.Header["Last-Event-Id"] = []string{testkit.Cursor(run, 1), testkit.Cursor(run, 2)}
		s.Do(t, ask).Problem(http.StatusBadRequest, "malformed_cursor")
		for _, name := range []string{"after", "lastEventId", "last_event_id"} {
			twice := "?" + name + "=" + testkit.Cursor(run, 1) + "&" + name + "=" + testkit.Cursor(run, 2)
			s.Do(t, testkit.Ask{Path: "/_runs/" + run + "/events" + twice}).Problem(http.StatusBadRequest, "malformed_cursor")
		}
	})
}

// TestTheBeginningHasManyNames: no cursor, an empty one, 0, -1 and .0; the
// header wins over the query.
func TestTheBeginningHasManyNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3)...), generic)
		run := s.ran(t, startChat())
		cases := []struct {
			name string
			ask  testkit.Ask
			want int
		}{
			{"none", testkit.Resume(run, ""), 1},
			{"zero", testkit.Resume(run, "0"), 1},
			{"minus one", testkit.Resume(run, "-1"), 1},
			{"cursor 0", testkit.Resume(run, testkit.Cursor(run, 0)), 1},
			{"empty query", testkit.Resume(run, "").Query("after", ""), 1},
			{"query -1", testkit.Resume(run, "").Query("lastEventId", "-1"), 1},
			{"after", testkit.Resume(run, "").Query("after", testkit.Cursor(run, 2)), 3},
			{"lastEventId", testkit.Resume(run, "").Query("lastEventId", testkit.Cursor(run, 2)), 3},
			{"last_event_id", testkit.Resume(run, "").Query("last_event_id", testkit.Cursor(run, 2)), 3},
			{"a polyfill comes back", testkit.Resume(run, "").Query("after", testkit.Cursor(run, 1)).Query("lastEventId", testkit.Cursor(run, 2)), 3},
			{"header wins", testkit.Resume(run, testkit.Cursor(run, 1)).Query("after", testkit.Cursor(run, 2)), 2},
			{"empty header, query", testkit.Resume(run, "").With("Last-Event-ID", "").Query("after", testkit.Cursor(run, 2)), 3},
		}
		for _, c := range cases {
			events := s.Do(t, c.ask).Want(http.StatusOK).Rest()
			if next := testkit.CheckIDs(t, run, c.want, events); next != 5 {
				t.Errorf("%s: last number is %d, want 4", c.name, next-1)
			}
			testkit.EndsAs(t, events, "completed")
		}
	})
}

// TestACursorFromTheFutureIsLostAtOnceWhenTheRunHasEnded: nothing will come.
func TestACursorFromTheFutureIsLostAtOnceWhenTheRunHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3)...), generic)
		run := s.ran(t, startChat())
		for _, seq := range []int{5, 400} {
			began := time.Now()
			for _, ask := range []testkit.Ask{asks(run, testkit.Cursor(run, seq), ""), asks(run, testkit.Cursor(run, seq), acceptSSE)} {
				gone := onlyExpired(t, run, s.Do(t, ask).Want(http.StatusOK).Rest(), "lost", 4)
				if gone.ConversationID != "conv-1" || *gone.FinalSeq != 4 || *gone.FirstSeq != 1 || gone.State != "completed" {
					t.Errorf("got %+v", gone)
				}
			}
			for _, accept := range []string{acceptNDJSON, acceptJSON} {
				future(t, s.Do(t, asks(run, testkit.Cursor(run, seq), accept)), 4)
			}
			if waited := time.Since(began); waited != 0 {
				t.Errorf("waited %v for a run that has ended", waited)
			}
		}
	})
}

// future checks a refusal of a cursor that is ahead of the log.
func future(t *testing.T, a *testkit.Answer, last int) {
	t.Helper()
	raw := a.Want(http.StatusConflict).Body()
	doc := testkit.Decode[struct {
		Code    string `json:"code"`
		LastSeq int    `json:"last_seq"`
	}](t, raw)
	if doc.Code != "future_cursor" || doc.LastSeq != last {
		t.Errorf("got %s, want future_cursor with last_seq %d", raw, last)
	}
	if got := a.Header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("got x-should-retry %q, want false", got)
	}
}

// TestACursorFromTheFutureOfAnActiveRunWaitsOneLease: its owner may still put
// frames back that a failover lost.
func TestACursorFromTheFutureOfAnActiveRunWaitsOneLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(3)...), generic)
		started := s.Do(t, startChat())
		started.Take(3)
		run := started.Run()
		cases := map[string]func(*testing.T, *testkit.Answer){
			"": func(t *testing.T, a *testkit.Answer) {
				onlyExpired(t, run, a.Want(http.StatusOK).Rest(), "lost", 3)
			},
			acceptSSE: func(t *testing.T, a *testkit.Answer) {
				onlyExpired(t, run, a.Want(http.StatusOK).Rest(), "lost", 3)
			},
			acceptNDJSON: func(t *testing.T, a *testkit.Answer) { future(t, a, 3) },
			acceptJSON:   func(t *testing.T, a *testkit.Answer) { future(t, a, 3) },
		}
		for accept, check := range cases {
			began := time.Now()
			check(t, s.Do(t, asks(run, testkit.Cursor(run, 4), accept)))
			if got := time.Since(began); got != 15*time.Second {
				t.Errorf("Accept %q: answered after %v, want 15s", accept, got)
			}
		}
	})
}

// TestAReaderAheadOfTheLogGoesOnWhenFramesComeBack at its exact position.
func TestAReaderAheadOfTheLogGoesOnWhenFramesComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for _, f := range data(5) {
				if err := say(w, f); err != nil {
					return err
				}
				if err := pause(r, 4*time.Second); err != nil {
					return err
				}
			}
			return nil
		}, generic)
		started := s.Do(t, startChat())
		run := started.Run()
		began := time.Now()
		answer := s.Resume(t, run, testkit.Cursor(run, 3)).Want(http.StatusOK)
		if got := time.Since(began); got != 8*time.Second {
			t.Errorf("answered after %v, want 8s, when frame 3 was stored", got)
		}
		events := answer.Rest()
		testkit.CheckIDs(t, run, 4, events)
		testkit.EndsAs(t, events, "completed")
	})
}
