package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// queueing lets starts wait for a minute.
func queueing(c *proxy.Config) { c.Busy, c.QueueTimeout = runregistry.BusyQueue, time.Minute }

// queuedRun waits until n runs of the caller exist and returns the newest.
func (s *site) queuedRun(t *testing.T, n int) string {
	t.Helper()
	synctest.Wait()
	runs := s.list(t, "")
	if len(runs) != n || runs[0].State != "queued" {
		t.Fatalf("got %d runs, the newest %s, want %d and queued", len(runs), runs[0].State, n)
	}
	return runs[0].RunID
}

// sends asks and does not wait for the answer. The gateway has decided when it
// returns.
func (s *site) sends(t *testing.T, a testkit.Ask) (answered func() *testkit.Answer) {
	t.Helper()
	p := s.Begin(t, a)
	got := make(chan *testkit.Answer, 1)
	go func() {
		answer, _ := p.Head() // it may be cut
		got <- answer
	}()
	synctest.Wait()
	return func() *testkit.Answer { return <-got }
}

// TestStartsWaitInLine and get the conversation in the order in which they
// came, one at a time.
func TestStartsWaitInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, slow(streams(data(1)...)), generic, queueing)
		began := time.Now()
		var pending []func() *testkit.Answer
		for _, prompt := range []string{"one", "two", "three"} {
			pending = append(pending, s.sends(t, next(prompt)))
		}
		third := s.queuedRun(t, 3)
		if named := s.Active(t, "conv-1").Named(); named == third {
			t.Error("the look-up names a run that waits")
		}
		for i, answered := range pending {
			answered().Want(http.StatusOK).Rest()
			if got, want := time.Since(began).Round(time.Second), time.Duration(i+1)*10*time.Second; got != want {
				t.Errorf("start %d was answered after %v, want %v", i, got, want)
			}
		}
		if got := s.calls.Load(); got != 3 {
			t.Errorf("got %d calls, want 3", got)
		}
	})
}

// TestTheNinthInLineIsRefused.
func TestTheNinthInLineIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(1)...), generic, queueing)
		first := s.Do(t, startChat())
		for i := range runregistry.MaxLine {
			s.sends(t, next(itoa(i)))
		}
		inFlight(t, s.Do(t, next("one more")), first.Run())
		if got := s.calls.Load(); got != 1 {
			t.Errorf("got %d calls, want 1", got)
		}
	})
}

// TestWhoWaitsTooLongIsTold that nothing happened, and its key is free again.
func TestWhoWaitsTooLongIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(holds(data(1)...), streams(data(1)...)), generic, queueing)
		first := s.Do(t, startChat())
		began := time.Now()
		a := s.Do(t, next("another").Key("k-1"))
		if got := time.Since(began); got != time.Minute || a.Header.Get("Retry-After") == "" || a.Header.Get("X-Should-Retry") != "" {
			t.Errorf("answered after %v with %v, want a minute and Retry-After", got, a.Header)
		}
		rec := s.Snapshot(t, a.Run())
		if rec.State != "failed" || rec.Reason() != "queue_timeout" || rec.Effect != "none" || strings.Join(rec.ClientActions, " ") != "show_snapshot offer_retry" {
			t.Errorf("got %s (%s), effect %s, actions %v", rec.State, rec.Reason(), rec.Effect, rec.ClientActions)
		}
		a.Problem(http.StatusServiceUnavailable, "queue_timeout")
		s.Stop(t, first.Run())
		synctest.Wait()
		if again := s.Do(t, next("another").Key("k-1")).Want(http.StatusOK); again.Run() == rec.RunID {
			t.Error("the key was not released")
		}
	})
}

// TestAWaitingRunIsStoppedBeforeAnyEffect, by Stop and by DELETE.
func TestAWaitingRunIsStoppedBeforeAnyEffect(t *testing.T) {
	for name, stop := range map[string]func(t *testing.T, s *site, run string){
		"stop": func(t *testing.T, s *site, run string) {
			if rec := s.Stop(t, run); rec.State != "cancelled" || rec.Cancel.Outcome == nil || *rec.Cancel.Outcome != "cancelled_before_effect" {
				t.Errorf("got %s, want cancelled before any effect", rec.State)
			}
		},
		"delete": func(t *testing.T, s *site, run string) {
			s.Do(t, testkit.Ask{Method: http.MethodDelete, Path: "/_runs/" + run}).Want(http.StatusNoContent)
			s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Problem(http.StatusNotFound, "run_not_found")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, inTurn(slow(streams(data(1)...)), streams(data(1)...)), generic, queueing)
				s.sends(t, startChat())
				waiting := s.sends(t, next("waits"))
				run := s.queuedRun(t, 2)
				last := s.sends(t, next("last"))
				stop(t, s, run)
				waiting().Problem(http.StatusConflict, "run_cancelled")
				last().Want(http.StatusOK).Rest()
				if got := s.calls.Load(); got != 2 {
					t.Errorf("got %d calls, want 2", got)
				}
			})
		})
	}
}

// TestAClientThatLeavesKeepsItsPlace: its run begins without it, unless that is
// to stop it.
func TestAClientThatLeavesKeepsItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		config configure
		want   string
	}{"continue": {generic, "completed"}, "cancel": {cancelAfter(time.Second), "cancelled"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, slow(streams(data(2)...)), generic, queueing, c.config)
				s.sends(t, startChat())
				s.abandons(t, next("another"))
				run := s.newest(t)
				time.Sleep(30 * time.Second)
				if got := s.state(t, run); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestAWaitingRunIsReadFromItsBeginning by whoever comes before its turn.
func TestAWaitingRunIsReadFromItsBeginning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, slow(streams(data(2)...)), generic, queueing)
		s.sends(t, startChat())
		s.sends(t, next("another"))
		run := s.queuedRun(t, 2)
		events := s.Resume(t, run, "").Want(http.StatusOK).Rest()
		testkit.EndsAs(t, events, "completed")
		testkit.CheckIDs(t, run, 1, events)
	})
}

// TestEarlyHeadersKeepWhoWaitsAlive.
func TestEarlyHeadersKeepWhoWaitsAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(40*time.Second, streams(chatFrame("a"), chatDone)), openaiChat, queueing, earlyHeaders)
		s.sends(t, startChat())
		began := time.Now()
		a := s.Do(t, next("another")).Want(http.StatusOK)
		if got := time.Since(began); got != 5*time.Second {
			t.Errorf("head came after %v, want 5s", got)
		}
		events := a.Rest()
		if got := time.Since(began); got != 80*time.Second || len(a.Events.Comments) < 4 {
			t.Errorf("ended after %v with %d signs of life", got, len(a.Events.Comments))
		}
		testkit.CheckIDs(t, a.Run(), 1, events)
	})
}

// TestADrainingGatewaySendsTheLineAway: nothing was sent for those in it.
func TestADrainingGatewaySendsTheLineAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, slow(streams(data(1)...)), generic, queueing)
		s.sends(t, startChat())
		waiting := s.sends(t, next("another"))
		run := s.queuedRun(t, 2)
		s.engine.Drain()
		waiting().Problem(http.StatusServiceUnavailable, "draining")
		if rec := s.Snapshot(t, run); rec.State != "failed" || rec.Reason() != "gateway_stopped" || rec.Effect != "none" {
			t.Errorf("got %s (%s), effect %s", rec.State, rec.Reason(), rec.Effect)
		}
		whole, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.engine.Close(whole); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// TestLangGraphClientsChoose what happens to a busy thread, and to their run
// when they leave.
func TestLangGraphClientsChoose(t *testing.T) {
	ask := func(more string) testkit.Ask {
		return testkit.Ask{Path: "/threads/t-1/runs/stream", Body: `{"assistant_id":"a","input":{},"multitask_strategy":` + more + `}`}
	}
	for strategy, c := range map[string]struct {
		status int
		first  string
	}{
		"reject": {http.StatusConflict, "running"}, "enqueue": {http.StatusServiceUnavailable, "running"},
		"interrupt": {http.StatusOK, "cancelled"}, "rollback": {http.StatusOK, "cancelled"},
	} {
		t.Run(strategy, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, holds(data(1)...), func(c *proxy.Config) { c.QueueTimeout = time.Second })
				first := s.Do(t, ask(`null`))
				first.Take(1)
				if got := s.Do(t, ask(`"`+strategy+`"`)).Status; got != c.status {
					t.Errorf("got %d, want %d", got, c.status)
				}
				if got := s.state(t, first.Run()); got != c.first {
					t.Errorf("first run is %s, want %s", got, c.first)
				}
			})
		})
	}
	t.Run("on_disconnect", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newSite(t, holds(data(1)...))
			first := s.Do(t, ask(`null,"on_disconnect":"cancel"`))
			first.Take(1)
			first.Close()
			time.Sleep(11 * time.Second)
			if got := s.state(t, first.Run()); got != "cancelled" {
				t.Errorf("got %s, want cancelled", got)
			}
		})
	})
}
