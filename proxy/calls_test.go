package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// responses is a backend of the Responses API that takes cancel calls.
type responses struct {
	// silence comes before the first frame, which tells the id.
	silence time.Duration
	// answers are the statuses of cancel calls, one after the other, the last
	// for all further ones; 0 never answers, -1 is a failed dial.
	answers []int
	// ends: a cancel call that succeeds ends the stream.
	ends bool
	// body of an answer to a cancel call.
	body string

	mu      sync.Mutex // guards everything below
	cancels []*http.Request
	at      []time.Time
	closed  time.Time
	end     chan struct{}
}

func (b *responses) serve(_ int, w http.ResponseWriter, r *http.Request) error {
	if strings.HasSuffix(r.URL.Path, "/cancel") {
		return b.cancel(w, r)
	}
	sse(w)
	if pause(r, b.silence) != nil {
		return b.left()
	}
	say(w, responseCreated) //nolint:errcheck // the test reads what arrived
	for i := 1; ; i++ {
		select {
		case <-time.After(100 * time.Millisecond):
			if say(w, fmt.Sprintf("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"d%d \"}\n\n", i)) != nil {
				return b.left()
			}
		case <-r.Context().Done():
			return b.left()
		case <-b.end:
			return nil
		}
	}
}

const responseCreated = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"}}\n\n"

func (b *responses) left() error {
	b.mu.Lock()
	b.closed = time.Now()
	b.mu.Unlock()
	hangUp()
	return nil
}

func (b *responses) cancel(w http.ResponseWriter, r *http.Request) error {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	n := len(b.cancels)
	seen := r.Clone(r.Context())
	seen.Header.Set("Test-Body", string(body))
	b.cancels, b.at = append(b.cancels, seen), append(b.at, time.Now())
	status := b.answers[min(n, len(b.answers)-1)]
	b.mu.Unlock()
	switch {
	case status == 0:
		<-r.Context().Done()
		return r.Context().Err()
	case status < 0:
		return errDial
	case status < 300 && b.ends:
		close(b.end)
	}
	w.WriteHeader(status)
	io.WriteString(w, b.body) //nolint:errcheck // see above
	return nil
}

func (b *responses) calls() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cancels
}

func (b *responses) closedAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// background is a start that a call can stop.
var background = testkit.Ask{Method: http.MethodPost, Path: "/v1/responses", Body: `{"model":"m","stream":true,"background":true,"input":"hi"}`}.
	With("Content-Type", "application/json").With("X-Api-Key", "start-key")

func (b *responses) open(t *testing.T, change ...func(*proxy.Config)) *site {
	t.Helper()
	b.end = make(chan struct{})
	return newSite(t, b.serve, change...)
}

// TestCase20StopBeforeUpstreamID: a Stop that comes before the id waits for it;
// one call arrives, and a second Stop changes nothing.
func TestCase20StopBeforeUpstreamID(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{silence: 3 * time.Second, answers: []int{200}, ends: true, body: `{"id":"resp_1","status":"cancelled"}`}
		s := b.open(t)
		answer := s.Do(t, background)
		began := time.Now()
		time.Sleep(500 * time.Millisecond)
		run := answer.Run()
		first := testkit.Decode[testkit.Record](t, s.Do(t, stopping(run, "wait=0")).Want(http.StatusAccepted).Body())
		time.Sleep(100 * time.Millisecond)
		s.Do(t, stopping(run, "wait=0")).Want(http.StatusAccepted)
		if first.Outcome() != "cancellation_pending" || len(b.calls()) != 0 {
			t.Errorf("got %s and %d calls before the id is known", first.Outcome(), len(b.calls()))
		}
		rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(run, "wait=10")).Want(http.StatusOK).Body())
		if got := time.Since(began); got > 4*time.Second {
			t.Errorf("stopped after %v, want within a second of the id", got)
		}
		if rec.State != "cancelled" || *rec.Cancel.Upstream != "confirmed" || rec.Cancel.Version != 1 {
			t.Errorf("got %s, upstream %s, version %d", rec.State, *rec.Cancel.Upstream, rec.Cancel.Version)
		}
		if calls := b.calls(); len(calls) != 1 || calls[0].URL.Path != "/v1/responses/resp_1/cancel" || calls[0].Method != http.MethodPost {
			t.Fatalf("got calls %v, want one for resp_1", calls)
		}
		if events := answer.Rest(); len(events) != 1 || strings.Contains(events[0].Data, "delta") {
			t.Errorf("got %v, want the error frame alone", testkit.Pairs(events))
		}
	})
}

// TestCase22CancelRefusedFallsBack: a refusal is not repeated, and the
// connection is closed instead.
func TestCase22CancelRefusedFallsBack(t *testing.T) {
	for status, want := range map[int]string{400: "failed", 404: "failed", 405: "unsupported", 500: "failed", 501: "unsupported", 0: "unconfirmed"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &responses{answers: []int{status}, body: `{"error":{"message":"upstream-secret-detail"}}`}
				s := b.open(t)
				answer := s.Do(t, background)
				answer.Take(5)
				asked := time.Now()
				body := s.Do(t, stopping(answer.Run(), "wait=10")).Want(http.StatusOK).Body()
				rec := testkit.Decode[testkit.Record](t, body)
				limit := time.Second
				if status == 0 {
					limit = 5 * time.Second
				}
				if got := b.closedAt().Sub(asked); b.closedAt().IsZero() || got > limit {
					t.Errorf("upstream was closed after %v, want within %v", got, limit)
				}
				if rec.State != "cancelled" || *rec.Cancel.Upstream != want || len(b.calls()) != 1 {
					t.Errorf("got %s, upstream %s, %d calls, want cancelled, %s, one", rec.State, *rec.Cancel.Upstream, len(b.calls()), want)
				}
				if events := answer.Rest(); strings.Contains(string(body)+datas(events), "upstream-secret-detail") {
					t.Error("the refusal's body is shown to the client")
				}
			})
		})
	}
}

// TestACancelCallIsRepeatedWhileNobodyIsReached, with growing pauses.
func TestACancelCallIsRepeatedWhileNobodyIsReached(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{-1, 503, 429, 200}, ends: true}
		s := b.open(t)
		answer := s.Do(t, background)
		answer.Take(2)
		rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(answer.Run(), "wait=10")).Want(http.StatusOK).Body())
		if rec.State != "cancelled" || *rec.Cancel.Upstream != "confirmed" || len(b.calls()) != 4 {
			t.Errorf("got %s, upstream %s, %d calls", rec.State, *rec.Cancel.Upstream, len(b.calls()))
		}
		for i := 2; i < len(b.at); i++ {
			if b.at[i].Sub(b.at[i-1]) <= b.at[i-1].Sub(b.at[i-2]) {
				t.Errorf("pause %d is not longer than the one before it", i)
			}
		}
	})
}

// TestA200IsNoProof: a stream that goes on after the call was taken is closed
// at the deadline, and nothing is claimed.
func TestA200IsNoProof(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{200}, body: `{"id":"resp_1","status":"in_progress"}`}
		s := b.open(t, func(c *proxy.Config) { c.CancelDeadline = 7 * time.Second })
		answer := s.Do(t, background)
		answer.Take(2)
		asked := time.Now()
		rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(answer.Run(), "wait=10")).Want(http.StatusOK).Body())
		if got := b.closedAt().Sub(asked); got != 7*time.Second {
			t.Errorf("upstream was closed after %v, want the deadline", got)
		}
		if rec.State != "cancelled" || *rec.Cancel.Upstream != "unconfirmed" || len(b.calls()) != 1 {
			t.Errorf("got %s, upstream %s, %d calls", rec.State, *rec.Cancel.Upstream, len(b.calls()))
		}
	})
}

// TestAForegroundResponseIsStoppedByItsConnection: it has no cancel call.
func TestAForegroundResponseIsStoppedByItsConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{200}}
		s := b.open(t)
		ask := background
		ask.Body = `{"model":"m","stream":true,"background":false,"input":"hi"}`
		answer := s.Do(t, ask)
		answer.Take(2)
		if rec := s.Stop(t, answer.Run()); rec.State != "cancelled" || *rec.Cancel.Upstream != "unconfirmed" || len(b.calls()) != 0 {
			t.Errorf("got %s, upstream %s, %d calls", rec.State, *rec.Cancel.Upstream, len(b.calls()))
		}
	})
}

// TestCancelCloseNeverCalls.
func TestCancelCloseNeverCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{200}}
		s := b.open(t, func(c *proxy.Config) { c.Cancel.Off = true })
		answer := s.Do(t, background)
		answer.Take(2)
		if s.Stop(t, answer.Run()); len(b.calls()) != 0 || b.closedAt().IsZero() {
			t.Errorf("got %d calls, closed at %v", len(b.calls()), b.closedAt())
		}
	})
}

// TestACallHasTheFieldsOfTheRunAndItsCallersCredentials.
func TestACallHasTheFieldsOfTheRunAndItsCallersCredentials(t *testing.T) {
	for _, c := range []struct{ stop, want string }{{"", "Bearer start"}, {"Bearer stop", "Bearer stop"}} {
		inBubble(t, func(t *testing.T) {
			b := &responses{answers: []int{200}, ends: true}
			s := b.open(t)
			answer := s.Do(t, background.With("Authorization", "Bearer start").Key("k-1").With("X-Run-Id", "forged"))
			answer.Take(2)
			ask := stopping(answer.Run(), "wait=10")
			if c.stop != "" {
				ask = ask.With("Authorization", c.stop)
			}
			s.Do(t, ask).Want(http.StatusOK)
			head := b.calls()[0].Header
			for name, want := range map[string]string{
				"Authorization": c.want, "X-Api-Key": "start-key", "Idempotency-Key": "", "Prefer": "", "Content-Type": "", "X-Run-Id": "", "Accept": "application/json",
			} {
				if got := head.Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestAConfiguredCallHasItsValuesEscaped, and none that a path could be left
// with.
func TestAConfiguredCallHasItsValuesEscaped(t *testing.T) {
	call := func(c *proxy.Config) {
		c.Cancel = proxy.Way{Method: http.MethodDelete, Target: "/x/{conversation_id}/{upstream_id}/cancel?run={run_id}"}
	}
	for id, want := range map[string]string{"a b?c#d": "/x/conv-1/a%20b%3Fc%23d/cancel", "..": "", "a/b": "", "é": "/x/conv-1/%C3%A9/cancel"} {
		t.Run(id, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls []string
				s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
					if r.Method == http.MethodDelete {
						calls = append(calls, r.URL.EscapedPath()+" "+r.URL.RawQuery)
						w.WriteHeader(http.StatusNoContent)
						return nil
					}
					sse(w)
					say(w, strings.ReplaceAll(responseCreated, "resp_1", id)) //nolint:errcheck // the test reads what arrived
					<-r.Context().Done()
					hangUp()
					return nil
				}, call, func(c *proxy.Config) { c.CancelDeadline = time.Second })
				answer := s.Do(t, background.With("X-Conversation-Id", "conv-1"))
				answer.Take(1)
				rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(answer.Run(), "wait=10")).Want(http.StatusOK).Body())
				synctest.Wait()
				wanted := want + " run=" + answer.Run()
				if want == "" && len(calls) != 0 || want != "" && (len(calls) != 1 || calls[0] != wanted) || rec.State != "cancelled" {
					t.Errorf("got %v and %s, want %q", calls, rec.State, wanted)
				}
			})
		})
	}
}

// TestAGivenUpRunIsCancelledUpstream, without waiting for it.
func TestAGivenUpRunIsCancelledUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &responses{answers: []int{200}}
		s := b.open(t, func(c *proxy.Config) { c.Deadline = 5 * time.Second })
		answer := s.Do(t, background)
		answer.Rest()
		synctest.Wait()
		if rec := s.Snapshot(t, answer.Run()); rec.State != "failed" || rec.Reason() != "deadline_exceeded" || len(b.calls()) != 1 {
			t.Errorf("got %s, %s, %d calls", rec.State, rec.Reason(), len(b.calls()))
		}
	})
}
