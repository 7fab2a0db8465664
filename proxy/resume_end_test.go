package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestNothingLeftIs204: any other status would make an EventSource that has
// read everything come back for ever.
func TestNothingLeftIs204(t *testing.T) {
	whole := []string{chatFrame("a"), chatFrame("b"), chatDone}
	cases := []struct {
		name     string
		backend  backend
		config   []configure
		state    string
		rest     func(run string) testkit.Ask // at the last upstream frame, 3
		left     string                       // what is left there: an event, or nothing
		leftBody string
	}{
		{name: "completed", backend: streams(whole...), config: []configure{openaiChat}, state: "completed", rest: restOf("", ""), left: "run.end"},
		{name: "completed, asked as SSE", backend: streams(whole...), config: []configure{openaiChat}, state: "completed", rest: restOf(acceptSSE, ""), left: "run.end"},
		{name: "completed, control off", backend: streams(whole...), config: []configure{openaiChat}, state: "completed", rest: restOf("", "off")},
		{name: "completed, envelopes", backend: streams(whole...), config: []configure{openaiChat}, state: "completed", rest: restOf(acceptNDJSON, ""), leftBody: `"event":"run.end"`},
		{name: "completed, page", backend: streams(whole...), config: []configure{openaiChat}, state: "completed", rest: restOf(acceptJSON, ""), leftBody: `"event":"run.end"`},
		{name: "completed lines", backend: lines("1", "2", "3"), config: []configure{generic}, state: "completed", rest: restOf("", "")},
		{name: "completed lines as SSE", backend: lines("1", "2", "3"), config: []configure{generic}, state: "completed", rest: restOf(acceptSSE, ""), left: "run.end"},
		{name: "failed", backend: breaks(data(3)...), config: []configure{openaiChat}, state: "failed", rest: restOf("", ""), left: "run.end"},
		{name: "failed, control off", backend: breaks(data(3)...), config: []configure{openaiChat}, state: "failed", rest: restOf("", "off"), left: "message"},
		{name: "failed generic, control off", backend: breaks(data(3)...), config: []configure{generic}, state: "failed", rest: restOf("", "off"), left: "run.end"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, c.backend, c.config...)
				run := s.ran(t, startChat())
				if rec := s.Snapshot(t, run); rec.State != c.state || *rec.Frames.FinalSeq != 4 {
					t.Fatalf("got %s with final %d, want %s with 4", rec.State, *rec.Frames.FinalSeq, c.state)
				}
				answer := s.Do(t, c.rest(run))
				switch {
				case c.leftBody != "":
					if body := answer.Want(http.StatusOK).Body(); !strings.Contains(string(body), c.leftBody) {
						t.Errorf("got %s, want %s", body, c.leftBody)
					}
				case c.left == "":
					nothing(t, answer, run)
				default:
					events := answer.Want(http.StatusOK).Rest()
					if len(events) != 1 || events[0].Name != c.left || events[0].ID != testkit.Cursor(run, 4) {
						t.Errorf("got %v, want one %s with the terminal cursor", events, c.left)
					}
				}
				terminal := c.rest(run).With("Last-Event-ID", testkit.Cursor(run, 4))
				nothing(t, s.Do(t, terminal), run)
				terminal.Method = http.MethodHead
				nothing(t, s.Do(t, terminal), run)
			})
		})
	}
}

// restOf asks for what follows frame 3.
func restOf(accept, control string) func(string) testkit.Ask {
	return func(run string) testkit.Ask {
		a := asks(run, testkit.Cursor(run, 3), accept)
		if control != "" {
			a = a.Query("control", control)
		}
		return a
	}
}

// nothing checks a 204.
func nothing(t *testing.T, a *testkit.Answer, run string) {
	t.Helper()
	if body := a.Want(http.StatusNoContent).Body(); len(body) > 0 || a.Header.Get("Content-Type") != "" {
		t.Errorf("got %q of type %q, want nothing", body, a.Header.Get("Content-Type"))
	}
	if a.Run() != run {
		t.Errorf("got run %q, want %q", a.Run(), run)
	}
}

// TestTheBeginningOfAnEmptyRunIsNoEnd: a run without a frame still has its
// terminal frame to show.
func TestTheBeginningOfAnEmptyRunIsNoEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(), generic)
		run := s.ran(t, startChat())
		testkit.EndsAs(t, s.Resume(t, run, "").Want(http.StatusOK).Rest(), "completed")
		nothing(t, s.Resume(t, run, testkit.Cursor(run, 1)), run)
	})
}

// TestAnActiveRunIsNeverAtItsEnd: at the tail of an active run a reader waits.
func TestAnActiveRunIsNeverAtItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		end := make(chan struct{})
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			if err := say(w, datum("f1")); err != nil {
				return err
			}
			<-end
			return nil
		}, generic)
		started := s.Do(t, startChat())
		started.Take(1)
		answer := s.Resume(t, started.Run(), testkit.Cursor(started.Run(), 1)).Want(http.StatusOK)
		close(end)
		events := answer.Rest()
		testkit.CheckIDs(t, started.Run(), 2, events)
		testkit.EndsAs(t, events, "completed")
	})
}
