package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func ownStop(path string) testkit.Ask {
	return testkit.Ask{Method: http.MethodPost, Path: path}
}

// TestABackendsOwnCancelCallIsOurStop, and answered as the backend answers.
func TestABackendsOwnCancelCallIsOurStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{200}, ends: true, body: `{"id":"resp_1","status":"cancelled","output":[{"x":1}]}`}
		s := b.open(t)
		answer := s.Do(t, background)
		answer.Take(2)
		got := s.Do(t, ownStop("/v1/responses/resp_1/cancel")).Want(http.StatusOK)
		if text := string(got.Body()); text != b.body || got.Run() != answer.Run() {
			t.Errorf("got %s for run %s, want the backend's own answer", text, got.Run())
		}
		answer.Rest()
		rec := s.Snapshot(t, answer.Run())
		if rec.State != "cancelled" || rec.Cancel.Version != 1 || *rec.Cancel.Upstream != "confirmed" || len(b.calls()) != 1 {
			t.Errorf("got %s, version %d, upstream %s, %d calls", rec.State, rec.Cancel.Version, *rec.Cancel.Upstream, len(b.calls()))
		}
	})
}

// TestACancelCallForARunThatIsNotHeldPassesUntouched: another subject's, an
// unknown one, an ended one.
func TestACancelCallForARunThatIsNotHeldPassesUntouched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{404}, body: `{"error":"theirs"}`}
		s := b.open(t)
		answer := s.Do(t, background)
		answer.Take(2)
		for _, c := range []testkit.Client{s.As("user-b"), s.Client} {
			path := "/v1/responses/resp_1/cancel"
			if c.Header.Get(testkit.SubjectHeader) == "user-a" {
				path = "/v1/responses/resp_9/cancel"
			}
			got := c.Do(t, ownStop(path)).Want(http.StatusNotFound)
			if string(got.Body()) != b.body || got.Run() != "" {
				t.Errorf("%s: got %s and run %q, want the backend's answer alone", path, got.Body(), got.Run())
			}
		}
		if rec := s.Snapshot(t, answer.Run()); rec.State != "running" {
			t.Errorf("got %s, want running", rec.State)
		}
		s.Do(t, ownStop("/v1/responses/resp_1/cancel").With("Sec-Fetch-Site", "cross-site")).Problem(http.StatusForbidden, "csrf_rejected")
	})
}

// TestLangGraphClientsStopWithTheirOwnCall: what it asks for reaches the
// backend.
func TestLangGraphClientsStopWithTheirOwnCall(t *testing.T) {
	for refuses, want := range map[bool]int{false: http.StatusNoContent, true: http.StatusInternalServerError} {
		inBubble(t, func(t *testing.T) {
			end := make(chan struct{})
			var uri string
			s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
				switch {
				case strings.HasSuffix(r.URL.Path, "/cancel"):
					uri = r.Method + " " + r.URL.RequestURI()
					if refuses {
						w.WriteHeader(http.StatusInternalServerError)
						return nil
					}
					close(end)
					w.WriteHeader(http.StatusNoContent)
					return nil
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusNotFound)
					return nil
				}
				w.Header().Set("Content-Location", "/threads/t1/runs/r1")
				sse(w)
				say(w, "event: metadata\ndata: {\"run_id\":\"r1\",\"attempt\":1}\n\n") //nolint:errcheck // the test reads what arrived
				select {
				case <-end:
					return nil
				case <-r.Context().Done():
					hangUp()
				}
				return nil
			})
			answer := s.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/threads/t1/runs/stream", Body: `{"assistant_id":"a"}`}.With("Content-Type", "application/json"))
			answer.Take(1)
			s.Do(t, ownStop("/threads/t1/runs/r1/cancel?wait=1&action=rollback")).Want(want)
			if uri != "POST /threads/t1/runs/r1/cancel?wait=1&action=rollback" {
				t.Errorf("got %s, want the caller's own question", uri)
			}
			answer.Rest()
			if rec := s.Snapshot(t, answer.Run()); rec.State != "cancelled" {
				t.Errorf("got %s, want cancelled", rec.State)
			}
		})
	}
}

// TestAStopThatNobodyCanCallIsAnsweredInTheBackendsForm: the connection is
// closed instead, and the answer says what is so.
func TestAStopThatNobodyCanCallIsAnsweredInTheBackendsForm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{200}}
		s := b.open(t)
		ask := background
		ask.Body = `{"model":"m","stream":true,"input":"hi"}`
		answer := s.Do(t, ask)
		answer.Take(2)
		got := s.Do(t, ownStop("/v1/responses/resp_1/cancel")).Want(http.StatusOK)
		if text := string(got.Body()); !strings.Contains(text, `"id":"resp_1"`) || !strings.Contains(text, `"status":"cancelled"`) || len(b.calls()) != 0 {
			t.Errorf("got %s and %d calls", text, len(b.calls()))
		}
	})
}
