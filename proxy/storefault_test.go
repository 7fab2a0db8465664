package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/faultstore"
)

// faulty opens a site whose store fails on command.
func faulty(t *testing.T, b backend, change ...configure) (*site, *faultstore.Store) {
	t.Helper()
	var faults *faultstore.Store
	s := setup{config: change, store: func(inner runregistry.Store) runregistry.Store {
		faults = faultstore.Wrap(inner)
		return faults
	}}.open(t, b)
	return s, faults
}

// unavailable checks that nothing was sent and that the answer says to come
// back.
func unavailable(t *testing.T, a *testkit.Answer) {
	t.Helper()
	if a.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	if p := a.Problem(http.StatusServiceUnavailable, "store_unavailable"); !p.Retryable {
		t.Error("it is not retryable")
	}
}

// TestWithoutAStoreNothingIsSentUpstream: neither without an admission nor
// without the stored intent.
func TestWithoutAStoreNothingIsSentUpstream(t *testing.T) {
	for _, call := range []faultstore.Call{faultstore.Admit, faultstore.Intend} {
		t.Run(string(call), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, faults := faulty(t, streams(data(1)...), generic)
				faults.Plan(call, 1, faultstore.Fail())
				unavailable(t, s.Do(t, startChat().Key("k-1")))
				if got := s.calls.Load(); got != 0 {
					t.Errorf("got %d calls, want none", got)
				}
				s.Do(t, startChat().Key("k-1")).Want(http.StatusOK).Rest()
				if got := s.calls.Load(); got != 1 {
					t.Errorf("got %d calls, want 1: the key is free again", got)
				}
			})
		})
	}
}

// TestALostReplyToTheIntentIsNoDispatch: whoever cannot know does not send.
func TestALostReplyToTheIntentIsNoDispatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, streams(data(1)...), generic)
		faults.Plan(faultstore.Intend, 1, faultstore.LoseReply())
		unavailable(t, s.Do(t, startChat()))
		rec := s.list(t, "")[0]
		if s.calls.Load() != 0 || rec.State != "failed" || rec.Reason() != "store_unavailable" || rec.Effect != "none" {
			t.Errorf("got %d calls, %s (%s), effect %s", s.calls.Load(), rec.State, rec.Reason(), rec.Effect)
		}
	})
}

// TestAReplacedRunIsStoppedEvenIfItsSuccessorDoesNotBegin: it gave its
// conversation away.
func TestAReplacedRunIsStoppedEvenIfItsSuccessorDoesNotBegin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, holds(data(1)...), generic, busy(runregistry.BusyReplace))
		first := s.Do(t, startChat())
		first.Take(1)
		faults.Plan(faultstore.Intend, 1, faultstore.Fail())
		unavailable(t, s.Do(t, next("another")))
		synctest.Wait()
		if rec := s.Snapshot(t, first.Run()); rec.State != "cancelled" {
			t.Errorf("got %s, want cancelled", rec.State)
		}
	})
}

// TestAnEventSourceOutlivesAStoreThatIsAway: any status but 200 would stop it
// for ever; everybody else gets 503.
func TestAnEventSourceOutlivesAStoreThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, streams(data(1)...), generic)
		run := s.ran(t, startChat())
		for _, call := range []faultstore.Call{faultstore.Load, faultstore.Watch} {
			for _, ask := range []testkit.Ask{asks(run, "", ""), asks(run, "", acceptSSE)} {
				faults.Plan(call, 1, faultstore.Fail())
				answer := s.Do(t, ask).Want(http.StatusOK)
				if events := answer.Rest(); len(events) != 0 || len(answer.Events.Retries) != 1 || len(answer.Events.Comments) != 1 {
					t.Errorf("%s: got %v, retries %v, comments %v", call, events, answer.Events.Retries, answer.Events.Comments)
				}
				if got := answer.Header.Get("Content-Type"); got != acceptSSE {
					t.Errorf("got type %q", got)
				}
			}
			for _, ask := range []testkit.Ask{own(run, ""), asks(run, "", acceptNDJSON), {Path: "/x", Header: http.Header{"Last-Event-Id": {testkit.Cursor(run, 0)}}}} {
				faults.Plan(call, 1, faultstore.Fail())
				unavailable(t, s.Do(t, ask))
			}
		}
		for _, path := range []string{"/_runs", "/_runs/" + run, "/_runs/active?conversation_id=conv-1"} {
			faults.Plan(faultstore.Any, 1, faultstore.Fail())
			unavailable(t, s.Do(t, testkit.Ask{Path: path}))
		}
		faults.Plan(faultstore.Load, 1, faultstore.Fail())
		unavailable(t, s.Do(t, asks(run, "", acceptJSON)))
		faults.Plan(faultstore.Stop, 1, faultstore.Fail())
		unavailable(t, s.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/cancel"}))
	})
}

// TestASettlementIsRepeatedUntilItIsStored, and told once whichever reply was
// lost.
func TestASettlementIsRepeatedUntilItIsStored(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{"not stored": faultstore.Fail(), "reply lost": faultstore.LoseReply()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, faults := faulty(t, streams(data(2)...), generic)
				faults.Plan(faultstore.Settle, 3, fault)
				run := s.ran(t, startChat())
				time.Sleep(time.Minute)
				if rec := s.Snapshot(t, run); rec.State != "completed" || *rec.Frames.LastSeq != 2 {
					t.Errorf("got %s with %d frames", rec.State, *rec.Frames.LastSeq)
				}
				if got := strings.Count(s.log.String(), "run ended"); got != 1 {
					t.Errorf("got %d lines about the end, want 1", got)
				}
				if got := s.gauge(t, "caddy_agent_runs_active"); got != 0 {
					t.Errorf("got %v active runs, want none", got)
				}
			})
		})
	}
}

// TestAReplyToAnAppendThatIsLostCostsNothing: sent again, it changes nothing.
func TestAReplyToAnAppendThatIsLostCostsNothing(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{"not stored": faultstore.Fail(), "reply lost": faultstore.LoseReply()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, faults := faulty(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
					sse(w)
					for _, f := range data(10) {
						if say(w, f) != nil || pause(r, time.Second) != nil {
							hangUp()
						}
					}
					return nil
				}, generic)
				answer := s.Do(t, startChat())
				faults.Plan(faultstore.Append, 7, fault)
				events := answer.Rest()
				if testkit.CheckIDs(t, answer.Run(), 1, events) != 11 {
					t.Errorf("got %d events, want 10", len(events))
				}
			})
		})
	}
}

// TestReadersFindNewFramesWithoutHints, and starts their answer: hints may be
// lost, the log is the truth.
func TestReadersFindNewFramesWithoutHints(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, after(5*time.Second, streams(data(3)...)), generic)
		faults.LoseHints()
		answer := s.Do(t, startChat()).Want(http.StatusOK)
		testkit.CheckIDs(t, answer.Run(), 1, answer.Rest())
	})
}

// TestReadersWaitForAStoreThatIsAway: those that know us are kept alive, the
// others for ten seconds; whoever is still there misses nothing.
func TestReadersWaitForAStoreThatIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		away    time.Duration
		aborted bool
	}{"a moment": {5 * time.Second, false}, "half a minute": {30 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, faults := faulty(t, paced(time.Second, data(60)...), generic)
				started := s.Do(t, startChat())
				run := started.Run()
				control := s.Resume(t, run, "")
				control.Take(2)
				began := time.Now()
				faults.Down()
				time.AfterFunc(c.away, faults.Up)
				listening := make(chan []testkit.Event, 1)
				var broken time.Duration
				go func() {
					all, err := started.Events.All()
					if err != nil {
						broken = time.Since(began)
					}
					listening <- all
				}()
				testkit.CheckIDs(t, run, 3, control.Take(48))
				if alive := len(control.Events.Comments) > 0; alive != (c.away > 15*time.Second) {
					t.Errorf("got signs of life %v during %v", control.Events.Comments, c.away)
				}
				s.Stop(t, run)
				bare := <-listening
				testkit.CheckIDs(t, run, 1, bare)
				if c.aborted && (broken < 10*time.Second || broken > 12*time.Second) {
					t.Errorf("the transparent reader was aborted after %v, want about 10s", broken)
				}
				if !c.aborted && len(bare) < 48 {
					t.Errorf("the transparent reader got %d frames, want them all", len(bare))
				}
			})
		})
	}
}

// TestAForeignStreamDoesNotWaitForOurStore: it may be of a run that the backend
// gave an address of its own, but when that cannot be told it passes.
func TestAForeignStreamDoesNotWaitForOurStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, answers(http.StatusOK, "text/plain", ofTheBackend))
		held := faults.Hold(faultstore.List)
		defer held.Release()
		began := time.Now()
		a := s.Do(t, testkit.Ask{Path: "/news"}.With("Accept", "text/event-stream")).Want(http.StatusOK)
		if got := string(a.Body()); got != ofTheBackend {
			t.Errorf("got %q, want the backend's answer", got)
		}
		if waited := time.Since(began); waited > 2*time.Second {
			t.Errorf("it waited %v", waited)
		}
		if faults.Calls(faultstore.List) == 0 {
			t.Error("the store was not asked, so that nothing was shown")
		}
	})
}
