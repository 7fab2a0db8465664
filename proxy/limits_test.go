package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestLimitsEndARunWithTheirReason: each limit ends the run with a state and a
// reason of its own, and the reader learns that the answer is not whole.
func TestLimitsEndARunWithTheirReason(t *testing.T) {
	hour := func(c *proxy.Config) {
		c.Deadline, c.StreamIdle, c.FrameIdle, c.HeaderTimeout = time.Hour, time.Hour, time.Hour, time.Hour
	}
	cases := []struct {
		name          string
		limit         func(*proxy.Config)
		answer        backend
		state, reason string
		after         time.Duration
	}{
		{"deadline", func(c *proxy.Config) { c.Deadline = 10 * time.Second }, chatty, "failed", "deadline_exceeded", 10 * time.Second},
		{"stream idle", func(c *proxy.Config) { c.StreamIdle = 20 * time.Second }, silent, "failed", "idle_timeout", 20 * time.Second},
		{"frame idle", func(c *proxy.Config) { c.FrameIdle = 30 * time.Second }, pinging, "failed", "idle_timeout", 30 * time.Second},
		{"header timeout", func(c *proxy.Config) { c.HeaderTimeout = 40 * time.Second }, mute, "uncertain", "header_timeout", 40 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, c.answer, openaiChat, hour, c.limit)
				began := time.Now()
				answer := s.Do(t, startChat())
				run := answer.Run()
				answer.Bytes() //nolint:errcheck // how it ends is the record's to say
				if got := time.Since(began).Round(time.Second); got != c.after {
					t.Errorf("ended after %v, want %v", got, c.after)
				}
				rec := s.Snapshot(t, run)
				if rec.State != c.state || rec.StateReason == nil || *rec.StateReason != c.reason {
					t.Errorf("got %s (%v), want %s (%s)", rec.State, rec.StateReason, c.state, c.reason)
				}
			})
		})
	}
}

// chatty sends a frame each second for ever.
func chatty(_ int, w http.ResponseWriter, r *http.Request) error {
	sse(w)
	for pause(r, time.Second) == nil {
		if say(w, chatFrame("a")) != nil {
			hangUp()
		}
	}
	hangUp()
	return nil
}

// silent sends one frame and then nothing.
func silent(_ int, w http.ResponseWriter, r *http.Request) error {
	sse(w)
	if say(w, chatFrame("a")) != nil || pause(r, 24*time.Hour) != nil {
		hangUp()
	}
	return nil
}

// pinging sends comments, which are bytes but no frames.
func pinging(_ int, w http.ResponseWriter, r *http.Request) error {
	sse(w)
	for pause(r, time.Second) == nil {
		if say(w, ": ping\n\n") != nil {
			hangUp()
		}
	}
	hangUp()
	return nil
}

// mute never answers.
func mute(_ int, w http.ResponseWriter, r *http.Request) error {
	if pause(r, 24*time.Hour) != nil {
		w.WriteHeader(499) // what reverse_proxy does when its caller left
	}
	return nil
}

// TestFramesAfterTheEndMarkerAreKept: usage comes after the marker; a backend
// that stays open is left after a short grace.
func TestFramesAfterTheEndMarkerAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			say(w, chatFrame("hi")+chatDone) //nolint:errcheck // the test reads what arrived
			if pause(r, time.Second) != nil {
				hangUp()
			}
			say(w, "data: {\"late\":1}\n\n") //nolint:errcheck // see above
			if pause(r, time.Hour) != nil {
				hangUp()
			}
			return nil
		}, openaiChat)
		began := time.Now()
		answer := s.Do(t, startChat())
		events := answer.Rest()
		if len(events) != 3 {
			t.Errorf("got %d events, want 3: %s", len(events), datas(events))
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("released after %v, want 3s: one second of work and two of grace", got)
		}
		if rec := s.Snapshot(t, answer.Run()); rec.State != "completed" {
			t.Errorf("got %s, want completed", rec.State)
		}
	})
}

// TestAHandlerThatIgnoresItsContextCannotHoldARun: Stop settles the run at the
// cancel deadline even if the next handler never returns before.
func TestAHandlerThatIgnoresItsContextCannotHoldARun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			say(w, chatFrame("hi")) //nolint:errcheck // the test reads what arrived
			<-release
			return nil
		}, openaiChat, func(c *proxy.Config) { c.CancelDeadline = 30 * time.Second })
		defer close(release)
		answer := s.Do(t, startChat())
		answer.Next()
		if rec := s.Stop(t, answer.Run()); rec.State != "cancelling" {
			t.Errorf("got %s, want cancelling while upstream is open", rec.State)
		}
		answer.Rest()
		rec := s.Snapshot(t, answer.Run())
		if rec.State != "cancelled" || *rec.Cancel.Upstream != "unconfirmed" || *rec.Cancel.Outcome != "cancelled_after_effect" {
			t.Errorf("got %s, upstream %v, outcome %v", rec.State, *rec.Cancel.Upstream, *rec.Cancel.Outcome)
		}
	})
}
