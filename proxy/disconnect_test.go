package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

func cancelAfter(d time.Duration) configure {
	return func(c *proxy.Config) { c.DisconnectCancel, c.DisconnectAfter = true, d }
}

// state is that of a run.
func (s *site) state(t *testing.T, run string) string {
	t.Helper()
	synctest.Wait()
	return s.Snapshot(t, run).State
}

// TestADisconnectStopsNothing by default: case 06. The answer is whole for who
// comes back.
func TestADisconnectStopsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for _, f := range data(10) {
				if say(w, f) != nil || pause(r, time.Minute) != nil {
					hangUp()
				}
			}
			return nil
		}, generic)
		first := s.Do(t, startChat())
		first.Take(2)
		first.Drop()
		time.Sleep(12 * time.Minute)
		if got := s.state(t, first.Run()); got != "completed" {
			t.Errorf("got %s, want completed", got)
		}
		events := s.Resume(t, first.Run(), testkit.Cursor(first.Run(), 2)).Want(http.StatusOK)
		if all := events.Rest(); testkit.CheckIDs(t, first.Run(), 3, all) != 12 {
			t.Errorf("got %d events, want frames 3 to 10 and the end", len(all))
		}
	})
}

// TestARunThatNobodyReadsIsStopped where the operator wants that, and not
// before its time.
func TestARunThatNobodyReadsIsStopped(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Second, time.Nanosecond} {
		t.Run(d.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, holds(data(1)...), generic, cancelAfter(d))
				first := s.Do(t, startChat())
				listens(first)
				time.Sleep(time.Minute)
				if got := s.state(t, first.Run()); got != "running" {
					t.Fatalf("got %s while somebody reads", got)
				}
				first.Close()
				synctest.Wait()
				time.Sleep(d - time.Nanosecond)
				if got := s.state(t, first.Run()); d > time.Second && got != "running" {
					t.Errorf("got %s before its time", got)
				}
				time.Sleep(time.Second)
				if rec := s.Snapshot(t, first.Run()); rec.State != "cancelled" || rec.Cancel.Version != 1 {
					t.Errorf("got %s, want cancelled", rec.State)
				}
			})
		})
	}
}

// TestWhoComesBackStopsTheClock, and it starts anew when he leaves.
func TestWhoComesBackStopsTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(1)...), generic, cancelAfter(10*time.Second))
		first := s.Do(t, startChat())
		first.Take(1)
		run := first.Run()
		first.Close()
		time.Sleep(9 * time.Second)
		second := s.Resume(t, run, "")
		listens(second)
		time.Sleep(time.Minute)
		if got := s.state(t, run); got != "running" {
			t.Fatalf("got %s while somebody reads", got)
		}
		second.Close()
		time.Sleep(9 * time.Second)
		if got := s.state(t, run); got != "running" {
			t.Errorf("got %s nine seconds later", got)
		}
		time.Sleep(2 * time.Second)
		if got := s.state(t, run); got != "cancelled" {
			t.Errorf("got %s, want cancelled", got)
		}
	})
}

// TestASecondReaderKeepsARunAlive, and so does one who waits for the answer.
func TestASecondReaderKeepsARunAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(time.Minute, holds(data(1)...)), generic, cancelAfter(time.Second))
		s.abandons(t, startChat())
		run := s.newest(t)
		second := s.Do(t, own(run, "")).Want(http.StatusOK) // has waited for the answer
		second.Take(1)
		if got := s.state(t, run); got != "running" {
			t.Errorf("got %s, want running", got)
		}
	})
}

// TestAStartThatIsAbandonedBeforeItsAnswerIsStoppedToo.
func TestAStartThatIsAbandonedBeforeItsAnswerIsStoppedToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mute, generic, cancelAfter(5*time.Second))
		s.abandons(t, startChat())
		time.Sleep(6 * time.Second)
		if got := s.state(t, s.newest(t)); got != "cancelled" {
			t.Errorf("got %s, want cancelled", got)
		}
	})
}
