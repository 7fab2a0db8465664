package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func deleting(run string) testkit.Ask {
	return testkit.Ask{Method: http.MethodDelete, Path: "/_runs/" + run}
}

// TestDeleteForgetsAnEndedRun.
func TestDeleteForgetsAnEndedRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(2)...), generic)
		run := s.ran(t, startChat())
		if body := s.Do(t, deleting(run)).Want(http.StatusNoContent).Body(); len(body) > 0 {
			t.Errorf("got %q with 204", body)
		}
		for _, path := range []string{"/_runs/" + run, "/_runs/" + run + "/events"} {
			s.Do(t, testkit.Ask{Path: path}).Problem(http.StatusNotFound, "run_not_found")
		}
		s.Do(t, deleting(run)).Problem(http.StatusNotFound, "run_not_found")
		if runs := s.list(t, ""); len(runs) != 0 {
			t.Errorf("the list still has %d runs", len(runs))
		}
		if got := s.Active(t, "conv-1").Status; got != "idle" {
			t.Errorf("its conversation is %s, want idle", got)
		}
	})
}

// TestAnActiveRunIsNotDeleted unless it is asked for by force: then it is
// stopped, and gone when it has settled.
func TestAnActiveRunIsNotDeletedUnlessByForce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, lingers(3*time.Second, data(2)...), generic)
		started := s.Do(t, startChat())
		started.Take(2)
		run := started.Run()
		refused := s.Do(t, deleting(run))
		if got := refused.Header.Get("X-Should-Retry"); got != "false" {
			t.Errorf("got x-should-retry %q", got)
		}
		refused.Problem(http.StatusConflict, "run_active")
		s.Do(t, deleting(run).Query("force", "false")).Problem(http.StatusConflict, "run_active")
		reader := s.Resume(t, run, "")
		reader.Take(2)
		s.Do(t, deleting(run).Query("force", "true")).Want(http.StatusAccepted)
		synctest.Wait()
		if rec := s.Snapshot(t, run); rec.State != "cancelling" {
			t.Errorf("got %s, want cancelling until upstream is closed", rec.State)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Problem(http.StatusNotFound, "run_not_found")
		reader.Rest()
		started.RestBroken()
	})
}

// TestDeleteIsTheOwners.
func TestDeleteIsTheOwners(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		run := s.ran(t, startChat())
		s.As("user-b").Do(t, deleting(run)).Problem(http.StatusNotFound, "run_not_found")
		s.Do(t, deleting(run).With("Sec-Fetch-Site", "same-site")).Problem(http.StatusForbidden, "csrf_rejected")
		s.Snapshot(t, run)
	})
}

// TestReadersOfADeletedRunEnd, and ask again in vain.
func TestReadersOfADeletedRunEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(3500)...), generic)
		run := s.ran(t, startChat())
		control, bare := s.Resume(t, run, ""), s.Do(t, own(run, ""))
		s.Do(t, deleting(run)).Want(http.StatusNoContent)
		if events := control.Rest(); len(events) == 0 || len(events) >= 3500 {
			t.Errorf("got %d events, want those that were on their way", len(events))
		}
		bare.RestBroken()
		s.Resume(t, run, "").Problem(http.StatusNotFound, "run_not_found")
	})
}

// TestTheActiveLookUp: what runs, what ended, what nobody knows.
func TestTheActiveLookUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(holds(data(2)...), streams(data(1)...)), generic)
		idle := func(user, conversation string) {
			t.Helper()
			if got := s.As(user).Active(t, conversation); got.Status != "idle" || got.Named() != "" || got.Authoritative || got.Run != nil && user != "user-a" {
				t.Errorf("%s in %s: got %+v, want idle", user, conversation, got)
			}
		}
		idle("user-a", "conv-1")
		started := s.Do(t, startChat())
		started.Take(2)
		if got := s.Active(t, "conv-1"); got.Status != "running" || got.Named() != started.Run() || !got.Authoritative || got.Run.State != "running" {
			t.Errorf("got %+v", got)
		}
		idle("user-b", "conv-1")
		idle("user-a", "conv-2")
		s.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=conv-2"}).Want(http.StatusNoContent)
		s.As("user-b").Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=conv-1"}).Want(http.StatusNoContent)
		s.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=conv-1"}.With("Sec-Fetch-Site", "cross-site")).Problem(http.StatusForbidden, "csrf_rejected")
		stopped := testkit.Decode[testkit.Record](t, s.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=conv-1"}).Want(http.StatusOK).Body())
		if stopped.RunID != started.Run() || stopped.State != "cancelled" {
			t.Errorf("got %+v", stopped)
		}
		if got := s.Active(t, "conv-1"); got.Status != "idle" || got.Named() != "" || got.Run.RunID != started.Run() {
			t.Errorf("got %+v, want idle with the last run", got)
		}
		s.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=conv-1"}).Want(http.StatusNoContent)
		for _, bad := range []string{"", "a/b", "..", "ä"} {
			s.Do(t, testkit.Ask{Path: "/_runs/active"}.Query("conversation_id", bad)).Problem(http.StatusBadRequest, "conversation_invalid")
		}
	})
}

// TestTheEventsOfAConversation: its active run from the beginning, or any of
// its runs from a cursor.
func TestTheEventsOfAConversation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(streams(data(3)...), streams(data(3)...), holds(data(2)...)), generic)
		at := func(cursor string) testkit.Ask {
			return testkit.Ask{Path: "/_runs/active/events?conversation_id=conv-1"}.With("Last-Event-ID", cursor)
		}
		s.Do(t, at("")).Want(http.StatusNoContent)
		ended := s.ran(t, startChat())
		s.Do(t, at("")).Want(http.StatusNoContent)
		elsewhere := s.ran(t, testkit.Chat("conv-2", "hello"))
		started := s.Do(t, next("another"))
		started.Take(2)
		testkit.CheckIDs(t, started.Run(), 1, s.Do(t, at("")).Want(http.StatusOK).Take(2))
		testkit.CheckIDs(t, started.Run(), 2, s.Do(t, at(testkit.Cursor(started.Run(), 1))).Want(http.StatusOK).Take(1))
		testkit.CheckIDs(t, ended, 2, s.Do(t, at(testkit.Cursor(ended, 1))).Want(http.StatusOK).Rest())
		nothing(t, s.Do(t, at(testkit.Cursor(ended, 4))), ended)
		testkit.CheckIDs(t, started.Run(), 1, s.Do(t, at(testkit.Cursor(elsewhere, 1))).Want(http.StatusOK).Take(2))
		s.Do(t, at("abc")).Problem(http.StatusBadRequest, "malformed_cursor")
		s.As("user-b").Do(t, at("")).Want(http.StatusNoContent)
		s.As("user-b").Do(t, at(testkit.Cursor(ended, 1))).Want(http.StatusNoContent)
	})
}
