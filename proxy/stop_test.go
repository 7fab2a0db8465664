package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// stopping is a Stop that waits as long as it says.
func stopping(run, prefer string) testkit.Ask {
	a := testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/cancel"}
	if prefer != "" {
		a = a.With("Prefer", prefer)
	}
	return a
}

// lingers sends pieces, and lets go of its caller only a while after it left.
func lingers(d time.Duration, pieces ...string) backend {
	return func(_ int, w http.ResponseWriter, r *http.Request) error {
		sse(w)
		for _, p := range pieces {
			if say(w, p) != nil {
				hangUp()
			}
		}
		<-r.Context().Done()
		time.Sleep(d)
		hangUp()
		return nil
	}
}

// TestStopBeforeTheAnswerClosesUpstream: the start's client is told, and
// nothing claims that nothing happened.
func TestStopBeforeTheAnswerClosesUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		closed := make(chan time.Time, 1)
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			closed <- time.Now()
			w.WriteHeader(499) // what reverse_proxy does when its caller left
			return nil
		}, openaiChat)
		started := make(chan *testkit.Answer, 1)
		go func() {
			if a, err := s.Try(t, startChat().Key("k-1")); err == nil {
				started <- a
			}
		}()
		run := s.newest(t)
		asked := time.Now()
		rec := s.Stop(t, run)
		if got := (<-closed).Sub(asked); got > time.Second {
			t.Errorf("upstream was closed after %v", got)
		}
		if rec.State != "cancelled" || rec.Effect != "possible" || rec.Outcome() != "cancelled_after_effect" || *rec.Cancel.Upstream != "unconfirmed" {
			t.Errorf("got %s, effect %s, %s, upstream %s", rec.State, rec.Effect, rec.Outcome(), *rec.Cancel.Upstream)
		}
		answer := <-started
		if answer.Run() != run {
			t.Errorf("the refusal names run %q, want %q", answer.Run(), run)
		}
		if p := answer.Problem(http.StatusConflict, "run_cancelled"); p.RunID != run || strings.Join(p.ClientActions, " ") != "show_snapshot warn_external_action" {
			t.Errorf("got %+v", p)
		}
		s.Do(t, startChat().Key("k-1")).Problem(http.StatusConflict, "run_cancelled")
	})
}

// TestStopInMidStreamEndsEachKindOfStreamInItsOwnWords: the frame carries the
// terminal cursor, so that a client which comes back stops.
func TestStopInMidStreamEndsEachKindOfStreamInItsOwnWords(t *testing.T) {
	cases := []struct {
		dialect, frame string
		want           []string // of the last events
	}{
		{"openai-chat", chatFrame("a"), []string{`"error":{`}},
		{"anthropic-messages", "event: message_start\ndata: {\"type\":\"message_start\"}\n\n", []string{`"type":"error"`}},
		{"ai-ui-v1", datum(`{"type":"text-delta","id":"1","delta":"a"}`), []string{`{"type":"abort"}`, "[DONE]"}},
		{"ag-ui", datum(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`), []string{`"type":"RUN_ERROR"`}},
	}
	for _, c := range cases {
		t.Run(c.dialect, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, holds(c.frame), speaking(c.dialect))
				answer := s.Do(t, startChat())
				answer.Take(1)
				if rec := s.Stop(t, answer.Run()); rec.State != "cancelled" {
					t.Fatalf("got %s", rec.State)
				}
				events := answer.Rest()
				if len(events) != len(c.want) {
					t.Fatalf("got %v, want %v", testkit.Pairs(events), c.want)
				}
				for i, want := range c.want {
					if !strings.Contains(events[i].Data, want) {
						t.Errorf("got %s, want %s", events[i].Data, want)
					}
				}
				if last := events[len(events)-1]; last.ID != testkit.Cursor(answer.Run(), 2) {
					t.Errorf("got id %s, want the terminal cursor", last.ID)
				}
			})
		})
	}
}

// TestStopAbortsAGenericStream, which has no words for it; who comes back with
// our cursor gets run.end.
func TestStopAbortsAGenericStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(2)...), generic)
		answer := s.Do(t, startChat())
		answer.Take(2)
		run := answer.Run()
		s.Stop(t, run)
		if events := answer.RestBroken(); len(events) != 0 {
			t.Errorf("got %v, want nothing more", testkit.Pairs(events))
		}
		s.Do(t, own(run, "")).RestBroken()
		for name, ask := range map[string]testkit.Ask{
			"the application's path": testkit.Ask{Path: "/chat"}.With("Last-Event-ID", testkit.Cursor(run, 2)),
			"events, control off":    own(run, testkit.Cursor(run, 2)),
			"the start again":        startChat().With("Last-Event-ID", testkit.Cursor(run, 2)),
		} {
			events := s.Do(t, ask).Want(http.StatusOK).Rest()
			if len(events) != 1 || events[0].ID != testkit.Cursor(run, 3) {
				t.Fatalf("%s: got %v", name, testkit.Pairs(events))
			}
			testkit.EndsAs(t, events, "cancelled")
		}
	})
}

// TestReadersWithControlSeeCancellingAndThenTheEnd.
func TestReadersWithControlSeeCancellingAndThenTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, lingers(3*time.Second, data(2)...), generic)
		answer := s.Do(t, startChat())
		answer.Take(2)
		run := answer.Run()
		events, lines := s.Resume(t, run, ""), s.Do(t, asks(run, "", acceptNDJSON))
		body := make(chan []byte, 1)
		go func() { raw, _ := lines.Bytes(); body <- raw }()
		events.Take(2)
		s.Do(t, stopping(run, "wait=0")).Want(http.StatusAccepted)
		rest := events.Rest()
		if len(rest) != 2 || rest[0].Name != "run.state" || !strings.Contains(rest[0].Data, `"state":"cancelling"`) || rest[0].Own {
			t.Fatalf("got %v, want an unnumbered run.state", rest)
		}
		end := testkit.EndsAs(t, rest, "cancelled")
		if rest[1].ID != testkit.Cursor(run, 3) || *end.FinalSeq != 3 {
			t.Errorf("got id %s and final %d, want 3", rest[1].ID, *end.FinalSeq)
		}
		all := envelopes(t, <-body)
		if len(all) != 4 || all[2].Type != "run.state" || all[3].Type != "run.end" || all[3].Seq != 3 {
			t.Errorf("got envelopes %+v", all)
		}
	})
}

// TestAfterStopNothingIsShownButMuchIsLearned: frames end, usage still reaches
// the record.
func TestAfterStopNothingIsShownButMuchIsLearned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			say(w, chatFrame("a")) //nolint:errcheck // the test reads what arrived
			<-r.Context().Done()
			say(w, chatFrame("b")+datum(`{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34}}`)) //nolint:errcheck // see above
			return nil
		}, openaiChat)
		answer := s.Do(t, startChat())
		answer.Take(1)
		s.Stop(t, answer.Run())
		if events := answer.Rest(); len(events) != 1 {
			t.Errorf("got %v, want the error frame alone", testkit.Pairs(events))
		}
		rec := s.Snapshot(t, answer.Run())
		if *rec.Frames.LastSeq != 1 || rec.Snapshot.Text != "a" || rec.Snapshot.Complete {
			t.Errorf("got %d frames and snapshot %+v", *rec.Frames.LastSeq, rec.Snapshot)
		}
		if usage := string(rec.Usage); !strings.Contains(usage, `"input_tokens":12,"output_tokens":34`) || rec.Cancel.Billing == "unknown" {
			t.Errorf("got usage %s and billing %s", usage, rec.Cancel.Billing)
		}
	})
}

// TestStopAfterTheEndMarkerChangesNothing: the answer is whole and stands.
func TestStopAfterTheEndMarkerChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(chatFrame("a"), chatDone), openaiChat)
		answer := s.Do(t, startChat())
		answer.Take(2)
		rec := s.Stop(t, answer.Run())
		if rec.State != "completed" || rec.Outcome() != "already_terminal" {
			t.Errorf("got %s, %s", rec.State, rec.Outcome())
		}
		if events := answer.Rest(); len(events) != 0 {
			t.Errorf("got %v after the marker, want a clean end", testkit.Pairs(events))
		}
		if rec := s.Snapshot(t, answer.Run()); !rec.Snapshot.Complete || strings.Join(rec.ClientActions, " ") != "show_snapshot" {
			t.Errorf("got %+v", rec)
		}
	})
}

// TestStopTwiceIsStopOnce: the second returns the first one's record.
func TestStopTwiceIsStopOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, lingers(5*time.Second, data(1)...), generic)
		answer := s.Do(t, startChat())
		answer.Take(1)
		first := testkit.Decode[testkit.Record](t, s.Do(t, stopping(answer.Run(), "wait=0")).Want(http.StatusAccepted).Body())
		time.Sleep(time.Second)
		second := testkit.Decode[testkit.Record](t, s.Do(t, stopping(answer.Run(), "wait=0")).Want(http.StatusAccepted).Body())
		if first.State != "cancelling" || first.Outcome() != "cancellation_pending" || first.Cancel.Version != 1 || first.Snapshot != nil {
			t.Errorf("got %+v", first)
		}
		if second.Cancel.Version != 1 || *second.Cancel.RequestedAt != *first.Cancel.RequestedAt {
			t.Errorf("got version %d at %s, want the first Stop's", second.Cancel.Version, *second.Cancel.RequestedAt)
		}
		third := s.Stop(t, answer.Run())
		if third.State != "cancelled" || third.Cancel.Version != 1 || third.Outcome() != "cancelled_after_effect" {
			t.Errorf("got %+v", third)
		}
	})
}

// TestHowLongAStopWaits: a second by itself, as long as the caller prefers, at
// most ten.
func TestHowLongAStopWaits(t *testing.T) {
	cases := []struct {
		prefer string
		closes time.Duration
		status int
		after  time.Duration
	}{
		{"", 500 * time.Millisecond, http.StatusOK, 500 * time.Millisecond},
		{"", 5 * time.Second, http.StatusAccepted, time.Second},
		{"wait=0", time.Second, http.StatusAccepted, 0},
		{"wait=10", 5 * time.Second, http.StatusOK, 5 * time.Second},
		{"respond-async, wait=3", 5 * time.Second, http.StatusAccepted, 3 * time.Second},
		{"wait=1000", 20 * time.Second, http.StatusAccepted, 10 * time.Second},
		{"wait=x", 5 * time.Second, http.StatusAccepted, time.Second},
	}
	for _, c := range cases {
		t.Run(c.prefer+" "+c.closes.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, lingers(c.closes, data(1)...), generic)
				answer := s.Do(t, startChat())
				answer.Take(1)
				began := time.Now()
				s.Do(t, stopping(answer.Run(), c.prefer)).Want(c.status)
				if got := time.Since(began); got != c.after {
					t.Errorf("answered after %v, want %v", got, c.after)
				}
			})
		})
	}
}

// TestStopOfARunThatHasEndedSaysSo.
func TestStopOfARunThatHasEndedSaysSo(t *testing.T) {
	for state, b := range map[string]backend{"completed": streams(chatFrame("a"), chatDone), "failed": breaks(chatFrame("a"))} {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, b, openaiChat)
				run := s.ran(t, startChat())
				rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(run, "")).Want(http.StatusOK).Body())
				if rec.State != state || rec.Outcome() != "already_terminal" || rec.Cancel.Version != 0 {
					t.Errorf("got %s, %s, version %d", rec.State, rec.Outcome(), rec.Cancel.Version)
				}
			})
		})
	}
}

// TestOnlyTheOwnerStops, and no page of another site in its name.
func TestOnlyTheOwnerStops(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(1)...), generic)
		answer := s.Do(t, startChat())
		answer.Take(1)
		s.As("user-b").Do(t, stopping(answer.Run(), "")).Problem(http.StatusNotFound, "run_not_found")
		s.Do(t, stopping(answer.Run(), "").With("Sec-Fetch-Site", "cross-site")).Problem(http.StatusForbidden, "csrf_rejected")
		s.Do(t, stopping(answer.Run(), "").With("Origin", "https://evil.example")).Problem(http.StatusForbidden, "csrf_rejected")
		synctest.Wait()
		if rec := s.Snapshot(t, answer.Run()); rec.State != "running" {
			t.Errorf("got %s, want running", rec.State)
		}
		s.Do(t, stopping(answer.Run(), "").With("Sec-Fetch-Site", "same-origin")).Want(http.StatusOK)
	})
}

// TestReadersWithControlSeeAnAgentWaitAndGoOn; to the others it is no event.
func TestReadersWithControlSeeAnAgentWaitAndGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(), generic)
		run := newStage(t, s.store, "conv-1", 1)
		id := string(run.lease.Run)
		control, bare := s.Resume(t, id, ""), s.Do(t, own(id, ""))
		control.Take(1)
		bare.Take(1)
		for _, state := range []runregistry.State{runregistry.Waiting, runregistry.Running} {
			run.append(t, 0, &runregistry.Progress{State: state})
			if ev := control.Next(); ev.Name != "run.state" || ev.Own || !strings.Contains(ev.Data, `"state":"`+state.String()+`"`) {
				t.Errorf("got %v, want that it is %s", ev, state)
			}
		}
		run.append(t, 1, nil)
		run.settle(t)
		testkit.EndsAs(t, control.Rest(), "completed")
		if events := bare.Rest(); len(events) != 1 {
			t.Errorf("with control off got %v, want the second frame alone", testkit.Pairs(events))
		}
	})
}
