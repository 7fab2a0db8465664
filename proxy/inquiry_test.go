package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// silentGraph is a LangGraph server whose streams just end; words are what its
// status calls say one after the other, the last for all further ones.
func silentGraph(asked *atomic.Int64, frames string, words ...string) backend {
	return silentGraphOn("idle", asked, frames, words...)
}

// silentGraphOn is silentGraph with a thread that stands in some way.
func silentGraphOn(thread string, asked *atomic.Int64, frames string, words ...string) backend {
	return func(_ int, w http.ResponseWriter, r *http.Request) error {
		switch {
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodGet && r.URL.Path == "/base/threads/t1":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"thread_id":"t1","status":"`+thread+`"}`) //nolint:errcheck // nobody waits for it
		case r.Method == http.MethodGet && r.URL.Path == "/base/threads/t1/runs/r1":
			n := int(asked.Add(1))
			word := words[min(n, len(words))-1]
			if word == "" {
				w.WriteHeader(http.StatusNotFound)
				return nil
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"run_id":"r1","status":%q}`, word)
		default:
			w.Header().Set("Content-Location", "/threads/t1/runs/r1")
			sse(w)
			io.WriteString(w, "event: metadata\ndata: {\"run_id\":\"r1\",\"attempt\":1}\n\n"+frames) //nolint:errcheck // the test reads what arrived
		}
		return nil
	}
}

var graphStart = testkit.Ask{Method: http.MethodPost, Path: "/base/threads/t1/runs/stream", Body: `{"assistant_id":"a"}`}.With("Content-Type", "application/json")

// TestASilentEndIsAskedAbout: the backend's word decides what the stream does
// not say.
func TestASilentEndIsAskedAbout(t *testing.T) {
	for _, c := range []struct {
		words         []string
		state, reason string
	}{
		{[]string{"success"}, "completed", ""},
		{[]string{"error"}, "failed", "upstream_error"},
		{[]string{"timeout"}, "failed", "upstream_error"},
		{[]string{"interrupted"}, "cancelled", ""},
		{[]string{"running", "pending", "success"}, "completed", ""},
		{[]string{""}, "completed", ""},
		{[]string{"unheard of"}, "completed", ""},
	} {
		t.Run(strings.Join(c.words, " "), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var asked atomic.Int64
				s := newSite(t, silentGraph(&asked, "", c.words...))
				answer := s.Do(t, graphStart)
				answer.Rest()
				synctest.Wait()
				rec := s.Snapshot(t, answer.Run())
				if rec.State != c.state || rec.Reason() != c.reason || asked.Load() != int64(len(c.words)) {
					t.Errorf("got %s, %q after %d questions", rec.State, rec.Reason(), asked.Load())
				}
			})
		})
	}
}

// TestAGraphThatAskedInSilence: where no frame tells, the thread does.
func TestAGraphThatAskedInSilence(t *testing.T) {
	for thread, want := range map[string][2]string{
		"interrupted": {"completed", "input_required"}, "busy": {"completed", ""}, "error": {"completed", ""}, "unheard of": {"completed", ""},
	} {
		inBubble(t, func(t *testing.T) {
			var asked atomic.Int64
			s := newSite(t, silentGraphOn(thread, &asked, "", "success"))
			rec := s.Snapshot(t, s.ran(t, graphStart))
			if got := [2]string{rec.State, rec.Reason()}; got != want {
				t.Errorf("on a thread that is %s: got %v, want %v", thread, got, want)
			}
		})
	}
}

// TestARunThatGoesOnIsAskedAboutUntilItsDeadline, and not for ever.
func TestARunThatGoesOnIsAskedAboutUntilItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var asked atomic.Int64
		s := newSite(t, silentGraph(&asked, "", "running"), func(c *proxy.Config) { c.Deadline, c.StreamIdle = 10*time.Minute, time.Minute })
		answer := s.Do(t, graphStart)
		began := time.Now()
		answer.Rest()
		if rec := s.Snapshot(t, answer.Run()); rec.Reason() != "deadline_exceeded" || time.Since(began) != 10*time.Minute {
			t.Errorf("got %s, %q after %v", rec.State, rec.Reason(), time.Since(began))
		}
		if n := asked.Load(); n < 20 || n > 30 {
			t.Errorf("asked %d times in ten minutes, want growing pauses up to half a minute", n)
		}
	})
}

// TestAStopWhileTheBackendIsAskedIsACall: the stream is over, the run is not.
func TestAStopWhileTheBackendIsAskedIsACall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var asked atomic.Int64
		s := newSite(t, silentGraph(&asked, "", "running", "running", "running", "interrupted"))
		answer := s.Do(t, graphStart)
		answer.Take(1)
		time.Sleep(time.Second)
		rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(answer.Run(), "wait=10")).Want(http.StatusOK).Body())
		if rec.State != "cancelled" || *rec.Cancel.Upstream != "confirmed" {
			t.Errorf("got %s, upstream %s", rec.State, *rec.Cancel.Upstream)
		}
	})
}

// TestAGraphThatAsksIsNotAskedAbout: its stream told.
func TestAGraphThatAsksIsNotAskedAbout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var asked atomic.Int64
		s := newSite(t, silentGraph(&asked, "event: updates\ndata: {\"__interrupt__\":[{\"value\":\"sure?\"}]}\n\n", "interrupted"))
		run := s.ran(t, graphStart)
		if rec := s.Snapshot(t, run); rec.State != "completed" || rec.Reason() != "input_required" || asked.Load() != 0 {
			t.Errorf("got %s, %q after %d questions", rec.State, rec.Reason(), asked.Load())
		}
	})
}

// TestStatusOffAsksNothing, and a configured call asks any backend.
func TestStatusOffAsksNothing(t *testing.T) {
	for target, want := range map[string]string{"": "completed", "/base/threads/{conversation_id}/runs/{upstream_run_id}": "failed"} {
		inBubble(t, func(t *testing.T) {
			var asked atomic.Int64
			s := newSite(t, silentGraph(&asked, "", "error"), func(c *proxy.Config) {
				c.Status = proxy.Way{Off: target == "", Method: http.MethodGet, Target: target}
			})
			run := s.ran(t, graphStart)
			if rec := s.Snapshot(t, run); rec.State != want {
				t.Errorf("%q: got %s, want %s", target, rec.State, want)
			}
		})
	}
}
