package proxy_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Backends that many tests share. A test with a story of its own writes its own.

// streams sends an event stream in pieces and ends it properly.
func streams(pieces ...string) backend {
	return func(_ int, w http.ResponseWriter, _ *http.Request) error {
		sse(w)
		for _, p := range pieces {
			if err := say(w, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// holds sends pieces and stays open until the gateway hangs up.
func holds(pieces ...string) backend {
	return func(_ int, w http.ResponseWriter, r *http.Request) error {
		sse(w)
		for _, p := range pieces {
			if err := say(w, p); err != nil {
				hangUp()
			}
		}
		<-r.Context().Done()
		hangUp()
		return nil
	}
}

// paced sends pieces one at a time, with a pause after each, and stays open.
func paced(every time.Duration, pieces ...string) backend {
	return func(_ int, w http.ResponseWriter, r *http.Request) error {
		sse(w)
		for _, p := range pieces {
			if say(w, p) != nil || pause(r, every) != nil {
				hangUp()
			}
		}
		<-r.Context().Done()
		hangUp()
		return nil
	}
}

// breaks sends pieces and then loses its connection.
func breaks(pieces ...string) backend {
	return func(_ int, w http.ResponseWriter, _ *http.Request) error {
		sse(w)
		for _, p := range pieces {
			if err := say(w, p); err != nil {
				return err
			}
		}
		hangUp()
		return nil
	}
}

// answers sends a body of any type with a length, as backends do that do not
// stream.
func answers(status int, contentType, body string) backend {
	return func(_ int, w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", itoa(len(body)))
		w.WriteHeader(status)
		return say(w, body)
	}
}

// lines sends NDJSON lines and ends properly.
func lines(all ...string) backend {
	return func(_ int, w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.WriteHeader(http.StatusOK)
		for _, l := range all {
			if err := say(w, l+"\n"); err != nil {
				return err
			}
		}
		return nil
	}
}

// inTurn answers the first call with the first backend and so on; the last one
// answers all that follow.
func inTurn(all ...backend) backend {
	return func(n int, w http.ResponseWriter, r *http.Request) error {
		return all[min(n, len(all))-1](n, w, r)
	}
}

// datum is a generic frame.
func datum(text string) string { return "data: " + text + "\n\n" }

// data are generic frames a, b, c, ...
func data(n int) []string {
	all := make([]string, 0, n)
	for i := range n {
		all = append(all, datum("f"+itoa(i+1)))
	}
	return all
}

// ran starts a run, reads it to its end however that is, and returns its id.
func (s *site) ran(t *testing.T, a testkit.Ask) string {
	t.Helper()
	answer := s.Do(t, a)
	answer.Bytes() //nolint:errcheck // how it ends is the test's to look at
	if answer.Run() == "" {
		t.Fatalf("start got status %d and no run", answer.Status)
	}
	synctest.Wait()
	return answer.Run()
}

// asks returns an events request in a format.
func asks(run, after, accept string) testkit.Ask {
	a := testkit.Resume(run, after)
	if accept != "" {
		a = a.With("Accept", accept)
	}
	return a
}

// The formats of the events resource.
const (
	acceptSSE    = "text/event-stream"
	acceptNDJSON = "application/x-ndjson"
	acceptJSON   = "application/json"
)

// own asks for the run's own format without the gateway's events.
func own(run, after string) testkit.Ask { return testkit.Resume(run, after).Query("control", "off") }

// retention sets both clocks.
func retention(frames, record time.Duration) func(*proxy.Config) {
	return func(c *proxy.Config) { c.FrameRetention, c.RecordRetention = frames, record }
}

// keptFrames trims logs to n frames.
func keptFrames(n int) func(*proxy.Config) {
	return func(c *proxy.Config) { c.Limits.RunFrames = n }
}

// envelopes reads NDJSON.
func envelopes(t *testing.T, body []byte) []testkit.Envelope {
	t.Helper()
	var all []testkit.Envelope
	for line := range strings.Lines(string(body)) {
		if strings.TrimSpace(line) != "" {
			all = append(all, testkit.Decode[testkit.Envelope](t, []byte(line)))
		}
	}
	return all
}

// onlyExpired checks that a stream holds one stream_expired and nothing else,
// and returns what it says.
func onlyExpired(t *testing.T, run string, events []testkit.Event, reason string, at int) testkit.Terminal {
	t.Helper()
	if len(events) != 1 || events[0].Name != "stream_expired" {
		t.Fatalf("got %v, want one stream_expired", testkit.Pairs(events))
	}
	gone := testkit.Decode[testkit.Terminal](t, []byte(events[0].Data))
	if gone.Reason != reason || gone.RunID != run || events[0].ID != testkit.Cursor(run, at) {
		t.Fatalf("got %s with id %s, want reason %s at %d", events[0].Data, events[0].ID, reason, at)
	}
	return gone
}

// errLostEarly is a connection that broke before an answer.
var errLostEarly = errors.New("connection reset")

// speaking sets the dialect.
func speaking(name string) configure { return func(c *proxy.Config) { c.Dialect = name } }

// listens reads on in the background: a client that takes nothing is closed.
func listens(a *testkit.Answer) {
	go a.Bytes() //nolint:errcheck // it ends when the client leaves
}

func runID(text string) runregistry.RunID { return runregistry.RunID(text) }
