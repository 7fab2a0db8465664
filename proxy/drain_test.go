package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestADrainingGatewayTakesNoStarts, not even those that repeat one: they are
// told to come back in a moment, to whoever is there then.
func TestADrainingGatewayTakesNoStarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(2)...), generic)
		run := s.ran(t, startChat().Key("k-1"))
		s.engine.Drain()
		s.engine.Drain() // again changes nothing
		for _, ask := range []testkit.Ask{startChat(), startChat().Key("k-1"), startChat().Key("k-2")} {
			a := s.Do(t, ask)
			if a.Header.Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
			a.Problem(http.StatusServiceUnavailable, "draining")
		}
		if got := s.calls.Load(); got != 1 {
			t.Errorf("got %d calls, want the first alone", got)
		}
		s.Snapshot(t, run)
		testkit.EndsAs(t, s.Resume(t, run, "").Want(http.StatusOK).Rest(), "completed")
		s.Do(t, testkit.Ask{Path: "/page"}).Want(http.StatusOK)
	})
}

// TestReadersOfADrainingGatewayAreToldToComeBack: those that know us cleanly
// after a hint, the others so that no SDK takes it for success.
func TestReadersOfADrainingGatewayAreToldToComeBack(t *testing.T) {
	for name, b := range map[string]backend{"quiet": holds(data(2)...), "busy": busyStream} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, b, generic)
				first := s.Do(t, startChat())
				first.Take(2)
				run := first.Run()
				control, bare, lines := s.Resume(t, run, ""), s.Do(t, own(run, "")), s.Do(t, asks(run, "", acceptNDJSON))
				control.Take(2)
				bare.Take(2)
				began := time.Now()
				s.engine.Drain()
				control.Rest()
				if got := len(control.Events.Retries); got != 2 {
					t.Errorf("got %d hints, want the first and one to come back", got)
				}
				first.RestBroken()
				bare.RestBroken()
				if _, err := lines.Bytes(); err != nil {
					t.Errorf("envelopes ended with %v, want a clean end", err)
				}
				if got := time.Since(began); got > time.Second {
					t.Errorf("told after %v", got)
				}
				if got := s.state(t, run); got != "running" {
					t.Errorf("the run is %s, want running: it goes on", got)
				}
				late := s.Resume(t, run, testkit.Cursor(run, 1))
				if events := late.Want(http.StatusOK).Rest(); len(events) == 0 || events[0].ID != testkit.Cursor(run, 2) {
					t.Errorf("a late reader got %v, want what is there", testkit.Pairs(events))
				}
			})
		})
	}
}

// busyStream sends a frame each millisecond for a long time.
func busyStream(_ int, w http.ResponseWriter, r *http.Request) error {
	sse(w)
	for i := 0; pause(r, time.Millisecond) == nil; i++ {
		if say(w, datum(itoa(i))) != nil {
			break
		}
	}
	hangUp()
	return nil
}

// TestCloseWaitsForRunsToEnd as long as it may.
func TestCloseWaitsForRunsToEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(3*time.Second, streams(data(2)...)), generic)
		s.abandons(t, startChat())
		run := s.newest(t)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if err := s.engine.Close(ctx); err != nil {
			t.Errorf("got %v, want nil: all runs have ended", err)
		}
		if got := time.Since(began).Round(time.Second); got != 2*time.Second {
			t.Errorf("closed after %v, want 2s", got)
		}
		if got := s.state(t, run); got != "completed" || s.engine.Active() != 0 {
			t.Errorf("got %s and %d active runs", got, s.engine.Active())
		}
	})
}

// TestCloseEndsRunsThatDoNotEnd: what became of them upstream is not known.
func TestCloseEndsRunsThatDoNotEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		closed := make(chan struct{})
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			defer close(closed)
			return holds(data(2)...)(n, w, r)
		}, generic)
		first := s.Do(t, startChat())
		first.Take(2)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if err := s.engine.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time was over", err)
		}
		<-closed
		rec := s.Snapshot(t, first.Run())
		if rec.State != "uncertain" || rec.Reason() != "gateway_stopped" {
			t.Errorf("got %s (%s)", rec.State, rec.Reason())
		}
		if got := s.Active(t, "conv-1"); got.Status != "lost" || got.Named() != first.Run() || !got.Authoritative {
			t.Errorf("the conversation is %s of %s, want lost", got.Status, got.Named())
		}
	})
}

// TestCloseDoesNotWaitForAHandlerThatIgnoresItsContext: its run is settled
// without it, and what it does later changes nothing.
func TestCloseDoesNotWaitForAHandlerThatIgnoresItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		deaf := make(chan struct{})
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			say(w, data(1)[0]) //nolint:errcheck // it is there
			<-deaf
			return say(w, datum("late"))
		}, generic)
		first := s.Do(t, startChat())
		first.Take(1)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.engine.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time was over", err)
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("closed after %v, want the 4s and a moment", took)
		}
		settled := s.Snapshot(t, first.Run())
		if settled.State != "uncertain" || settled.Reason() != "gateway_stopped" {
			t.Errorf("got %s (%s)", settled.State, settled.Reason())
		}
		close(deaf)
		synctest.Wait()
		if late := s.Snapshot(t, first.Run()); late.Revision != settled.Revision || *late.Frames.LastSeq != 1 {
			t.Errorf("got revision %d and %d frames after the end, want %d and 1", late.Revision, *late.Frames.LastSeq, settled.Revision)
		}
	})
}

// TestTheOldestReaderMakesRoom where a run has as many as it may: a phone that
// changed networks must not be locked out by its own dead connections.
func TestTheOldestReaderMakesRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(2)...), generic, func(c *proxy.Config) { c.Limits.ReadersPerRun = 2 })
		first := s.Do(t, startChat())
		first.Take(2)
		run := first.Run()
		second := s.Resume(t, run, "")
		second.Take(2)
		third := s.Resume(t, run, "").Want(http.StatusOK)
		third.Take(2)
		first.RestBroken()
		fourth := s.Resume(t, run, "").Want(http.StatusOK)
		fourth.Take(2)
		if second.Rest(); len(second.Events.Retries) != 2 {
			t.Errorf("the second got hints %v, want one to come back", second.Events.Retries)
		}
		synctest.Wait()
		if got := s.gauge(t, "caddy_agent_runs_readers"); got != 2 {
			t.Errorf("got %v readers, want 2", got)
		}
		third.Close()
		fourth.Close()
		synctest.Wait()
		if got := s.gauge(t, "caddy_agent_runs_readers"); got != 0 {
			t.Errorf("got %v readers, want none", got)
		}
	})
}
