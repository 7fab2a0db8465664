package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

func busy(b runregistry.Busy) configure { return func(c *proxy.Config) { c.Busy = b } }

// next is another message in the conversation of startChat.
func next(prompt string) testkit.Ask { return testkit.Chat("conv-1", prompt) }

// inFlight checks a refusal that names the active run.
func inFlight(t *testing.T, a *testkit.Answer, run string) {
	t.Helper()
	if got := a.Header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("got x-should-retry %q, want false", got)
	}
	raw := a.Want(http.StatusConflict).Body()
	doc := testkit.Decode[struct {
		Code    string   `json:"code"`
		Actions []string `json:"client_actions"`
		Active  struct {
			RunID  string `json:"run_id"`
			Events string `json:"events"`
			Cancel string `json:"cancel"`
		} `json:"active_run"`
	}](t, raw)
	if doc.Code != "run_in_flight" || doc.Active.RunID != run || doc.Active.Events != "/_runs/"+run+"/events" || doc.Active.Cancel != "/_runs/"+run+"/cancel" || strings.Join(doc.Actions, " ") != "reattach" {
		t.Errorf("got %s, want run_in_flight naming %s", raw, run)
	}
}

// TestStopThenSendReplacesARunThatNobodyReads is case 32: on the wire a Stop
// button is a connection that closes, and the next message follows at once.
func TestStopThenSendReplacesARunThatNobodyReads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(holds(data(2)...), streams(data(1)...)), generic)
		first := s.Do(t, startChat())
		first.Take(2)
		first.Close()
		began := time.Now()
		second := s.Do(t, next("another")).Want(http.StatusOK)
		if waited := time.Since(began); waited > 250*time.Millisecond {
			t.Errorf("waited %v, want at most 250ms", waited)
		}
		second.Rest()
		synctest.Wait()
		old := s.Snapshot(t, first.Run())
		if old.State != "cancelled" || old.Reason() != "superseded" || second.Run() == first.Run() {
			t.Errorf("got %s (%s), want cancelled and superseded", old.State, old.Reason())
		}
		if active := s.Active(t, "conv-1"); active.Run.RunID != second.Run() {
			t.Errorf("the conversation is about %s, want %s", active.Run.RunID, second.Run())
		}
	})
}

// TestAReaderThatIsJustClosingIsNoticed within a quarter of a second.
func TestAReaderThatIsJustClosingIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		closes time.Duration
		want   int
	}{"in time": {200 * time.Millisecond, http.StatusOK}, "too late": {300 * time.Millisecond, http.StatusConflict}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, inTurn(holds(data(2)...), streams(data(1)...)), generic)
				first := s.Do(t, startChat())
				first.Take(2)
				began := time.Now()
				time.AfterFunc(c.closes, first.Close)
				if got := s.Do(t, next("another")).Status; got != c.want {
					t.Errorf("got %d, want %d", got, c.want)
				}
				if waited := time.Since(began); waited > 250*time.Millisecond {
					t.Errorf("answered after %v, want at most 250ms", waited)
				}
			})
		})
	}
}

// TestASecondDeviceKeepsTheConversationBusy: somebody still reads.
func TestASecondDeviceKeepsTheConversationBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(2)...), generic)
		first := s.Do(t, startChat())
		first.Take(2)
		second := s.Resume(t, first.Run(), "")
		second.Take(2)
		first.Close()
		synctest.Wait()
		inFlight(t, s.Do(t, next("another")), first.Run())
		second.Close()
		synctest.Wait()
		if got := s.Do(t, next("another")).Status; got != http.StatusOK {
			t.Errorf("got %d when nobody reads, want 200", got)
		}
	})
}

// TestEachPolicyForABusyConversation, with and without a reader.
func TestEachPolicyForABusyConversation(t *testing.T) {
	cases := []struct {
		name    string
		policy  runregistry.Busy
		reading bool
		status  int
		old     string // what becomes of the first run
	}{
		{"auto, read", runregistry.BusyAuto, true, http.StatusConflict, "running"},
		{"auto, unread", runregistry.BusyAuto, false, http.StatusOK, "cancelled"},
		{"reject, read", runregistry.BusyReject, true, http.StatusConflict, "running"},
		{"reject, unread", runregistry.BusyReject, false, http.StatusConflict, "running"},
		{"replace, read", runregistry.BusyReplace, true, http.StatusOK, "cancelled"},
		{"replace, unread", runregistry.BusyReplace, false, http.StatusOK, "cancelled"},
		{"allow, read", runregistry.BusyAllow, true, http.StatusOK, "running"},
		{"allow, unread", runregistry.BusyAllow, false, http.StatusOK, "running"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, holds(data(2)...), generic, busy(c.policy))
				first := s.Do(t, startChat())
				first.Take(2)
				if !c.reading {
					first.Close()
					synctest.Wait()
				}
				answer := s.Do(t, next("another"))
				if c.status == http.StatusConflict {
					inFlight(t, answer, first.Run())
				}
				answer.Want(c.status)
				synctest.Wait()
				rec := s.Snapshot(t, first.Run())
				if rec.State != c.old || c.old == "cancelled" && rec.Reason() != "superseded" {
					t.Errorf("first run is %s (%s), want %s", rec.State, rec.Reason(), c.old)
				}
				if c.status == http.StatusOK {
					if named := s.Active(t, "conv-1").Named(); named != answer.Run() {
						t.Errorf("active look-up names %s, want the newest, %s", named, answer.Run())
					}
				}
			})
		})
	}
}

// TestASupersededRunsReaderLearnsOfIt: its stream ends as that of a stopped
// run.
func TestASupersededRunsReaderLearnsOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(holds(chatFrame("a")), streams(chatFrame("b"), chatDone)), openaiChat, busy(runregistry.BusyReplace))
		first := s.Do(t, startChat())
		reader := s.Resume(t, first.Run(), "")
		s.Do(t, next("another")).Want(http.StatusOK).Rest()
		events := first.Rest()
		if last := events[len(events)-1]; !strings.Contains(last.Data, `"error":{`) || !strings.Contains(last.Data, `"code":"cancelled"`) {
			t.Errorf("got %v, want the dialect's error", last)
		}
		if end := testkit.EndsAs(t, reader.Rest(), "cancelled"); *end.StateReason != "superseded" {
			t.Errorf("got reason %s, want superseded", *end.StateReason)
		}
	})
}

// TestANewRunDoesNotWaitForTheOneItReplaced, even if that one's backend does
// not let go.
func TestANewRunDoesNotWaitForTheOneItReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newSite(t, inTurn(func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			err := say(w, datum("1"))
			<-release
			return err
		}, streams(data(1)...)), generic)
		defer close(release)
		first := s.Do(t, startChat())
		first.Take(1)
		first.Close()
		began := time.Now()
		s.Do(t, next("another")).Want(http.StatusOK).Rest()
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("waited %v", waited)
		}
		if rec := s.Snapshot(t, first.Run()); rec.State != "cancelling" || rec.Reason() != "superseded" {
			t.Errorf("got %s (%s), want cancelling and superseded", rec.State, rec.Reason())
		}
	})
}

// TestAfterTheEndMarkerTheNextRequestWaitsForTheSettlement: it gets no 409.
func TestAfterTheEndMarkerTheNextRequestWaitsForTheSettlement(t *testing.T) {
	for name, policy := range map[string]runregistry.Busy{"auto": runregistry.BusyAuto, "reject": runregistry.BusyReject, "replace": runregistry.BusyReplace} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, inTurn(holds(chatFrame("a"), chatDone), streams(chatFrame("b"), chatDone)), openaiChat, busy(policy))
				first := s.Do(t, startChat())
				first.Take(2) // the marker is there; upstream stays open
				began := time.Now()
				second := s.Do(t, next("another")).Want(http.StatusOK)
				if waited := time.Since(began); waited != 2*time.Second {
					t.Errorf("waited %v, want 2s: the grace after the marker", waited)
				}
				if rec := s.Snapshot(t, first.Run()); rec.State != "completed" || second.Run() == first.Run() {
					t.Errorf("first run is %s, want completed", rec.State)
				}
			})
		})
	}
}

// TestABusyConversationOfAnotherSubjectIsAnotherConversation.
func TestABusyConversationOfAnotherSubjectIsAnotherConversation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(2)...), generic, busy(runregistry.BusyReject))
		s.Do(t, startChat()).Take(2)
		s.As("user-b").Do(t, startChat()).Want(http.StatusOK).Take(2)
		if got := s.calls.Load(); got != 2 {
			t.Errorf("got %d calls, want 2", got)
		}
	})
}

// TestTheLimitOfActiveRunsPerSubject: one more is 429 with Retry-After; what
// was replaced no longer counts.
func TestTheLimitOfActiveRunsPerSubject(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(2)...), generic, func(c *proxy.Config) { c.Limits.ActiveRunsPerSubject = 2 })
		for _, conversation := range []string{"conv-1", "conv-2"} {
			s.Do(t, testkit.Chat(conversation, "hello")).Take(2)
		}
		refused := s.Do(t, testkit.Chat("conv-3", "hello"))
		for field, want := range map[string]string{
			"Retry-After": "5", "RateLimit": `"active_runs_per_subject";r=0;t=5`, "RateLimit-Policy": `"active_runs_per_subject";q=2;qu="concurrent-requests"`,
		} {
			if got := refused.Header.Get(field); got != want {
				t.Errorf("429 with %s: got %q, want %q", field, got, want)
			}
		}
		refused.Problem(http.StatusTooManyRequests, "limit_exceeded")
		s.As("user-b").Do(t, testkit.Chat("conv-3", "hello")).Want(http.StatusOK)
		for _, run := range s.list(t, "") { // whoever is at the limit may still read, look up and stop
			s.Resume(t, run.RunID, "").Want(http.StatusOK).Take(2)
			s.Snapshot(t, run.RunID)
		}
		s.Do(t, testkit.Ask{Method: http.MethodGet, Path: "/_runs/active?conversation_id=conv-1"}).Want(http.StatusOK)
		s.Stop(t, s.list(t, "?conversation_id=conv-1")[0].RunID)
		s.Do(t, testkit.Chat("conv-3", "hello")).Want(http.StatusOK)
	})
}
