package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestASlowReaderHurtsOnlyItself is case 68: the run and its other readers go
// on, and a reader that takes nothing for half a minute is closed, to resume.
func TestASlowReaderHurtsOnlyItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		big := strings.Repeat("x", 100<<10)
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for i := range 60 {
				if say(w, datum(itoa(i)+big)) != nil || pause(r, time.Second) != nil {
					hangUp()
				}
			}
			return nil
		}, generic)
		slow := s.Do(t, startChat())
		seen := slow.Take(1)
		run := slow.Run()
		began := time.Now()
		fast := s.Resume(t, run, "").Rest()
		if got := time.Since(began); got != time.Minute {
			t.Errorf("the run took %v with a slow reader, want a minute", got)
		}
		if testkit.CheckIDs(t, run, 1, fast) != 62 {
			t.Errorf("the other reader got %d events, want 61", len(fast))
		}
		if seen = append(seen, slow.RestBroken()...); len(seen) > 10 {
			t.Errorf("the slow reader got %d frames before it was closed", len(seen))
		}
		rest := s.Resume(t, run, testkit.Cursor(run, len(seen))).Want(http.StatusOK).Rest()
		if testkit.CheckIDs(t, run, len(seen)+1, rest) != 62 {
			t.Errorf("resumed it got %d more", len(rest))
		}
	})
}

// TestAReaderIsClosedAfterHalfAMinuteWithoutTakingAByte, not earlier: a phone in
// a tunnel is not gone.
func TestAReaderIsClosedAfterHalfAMinuteWithoutTakingAByte(t *testing.T) {
	for name, c := range map[string]struct {
		away   time.Duration
		closed bool
	}{"29 seconds": {29 * time.Second, false}, "36 seconds": {36 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, holds(datum("1"), datum(strings.Repeat("x", 200<<10))), generic)
				answer := s.Do(t, startChat())
				time.Sleep(c.away)
				synctest.Wait()
				n, err := s.store.Readers(t.Context(), runID(answer.Run()))
				if err != nil || (n == 0) != c.closed {
					t.Errorf("got %d readers (%v), closed: want %v", n, err, c.closed)
				}
			})
		})
	}
}

// strict is a client whose server enforces write deadlines in silence too, as
// HTTP/2 does.
type strict struct {
	*httptest.ResponseRecorder
	t        *testing.T
	deadline *time.Timer
}

// SetWriteDeadline is what [http.ResponseController] looks for.
func (s *strict) SetWriteDeadline(at time.Time) error {
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.deadline = time.AfterFunc(time.Until(at), func() { s.t.Error("a write deadline passed while nobody wrote") })
	return nil
}

// TestSilenceBreaksNoStream: over HTTP/2 a deadline that passes resets the
// stream, whether or not something is written.
func TestSilenceBreaksNoStream(t *testing.T) {
	cases := []struct {
		name   string
		config configure
		answer backend
	}{
		{"no keepalive", func(c *proxy.Config) { c.Keepalive = 0 }, silences("text/event-stream", datum("1"))},
		{"rare keepalive", func(c *proxy.Config) { c.Keepalive = 2 * time.Minute }, silences("text/event-stream", datum("1"))},
		{"usual keepalive", generic, silences("text/event-stream", datum("1"))},
		{"plain body", generic, silences("text/plain", "1")},
		{"no id and no comment", speaking("gemini"), silences("text/event-stream", datum(`{"candidates":[{"finishReason":"STOP"}]}`))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, c.answer, c.config)
				w := &strict{ResponseRecorder: httptest.NewRecorder(), t: t}
				r := post("/ask", strings.NewReader(`{"stream":true}`))
				r.Host = "pipe.test"
				r.Header.Set(testkit.SubjectHeader, "user-a")
				s.handler.ServeHTTP(w, r)
				if w.deadline == nil || !w.deadline.Stop() {
					t.Error("nothing is left to write the end of the body in")
				}
			})
		})
	}
}

// silences sends a piece, is silent for three minutes, sends another, and is
// silent again before its end.
func silences(kind, piece string) backend {
	return func(_ int, w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", kind)
		for range 2 {
			if err := say(w, piece); err != nil {
				return err
			}
			if err := pause(r, 3*time.Minute); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestAClientThatHasEverythingHasNotBrokenOff: it may close as soon as it has
// the marker or the last byte, and what it then asks is meant anew.
func TestAClientThatHasEverythingHasNotBrokenOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, b := range map[string]backend{
			"marker": holds(chatFrame("a"), chatDone),
			"length": func(n int, w http.ResponseWriter, r *http.Request) error {
				err := answers(http.StatusOK, jsonType, "{}")(n, w, r)
				return firstError(err, pause(r, time.Second))
			},
		} {
			s := newSite(t, b, openaiChat, starting("GET", "/ask"))
			ask := testkit.Ask{Path: "/ask?q=1"}
			first := s.Do(t, ask).Want(http.StatusOK)
			if name == "marker" {
				first.Take(2)
			} else {
				first.Body()
			}
			first.Close()
			time.Sleep(5 * time.Second)
			if again := s.Do(t, ask).Want(http.StatusOK); again.Run() == first.Run() || s.calls.Load() != 2 {
				t.Errorf("%s: the same question again got the old answer", name)
			}
		}
	})
}
