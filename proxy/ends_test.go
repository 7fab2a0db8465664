package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// finish is a chunk that says why the answer ended.
func finish(reason string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

const chatError = `data: {"error":{"message":"overloaded","type":"server_error","code":"overloaded"}}` + "\n\n"

// panics sends pieces and then fails as no handler should.
func panics(pieces ...string) backend {
	return func(n int, w http.ResponseWriter, r *http.Request) error {
		if len(pieces) > 0 {
			if err := streams(pieces...)(n, w, r); err != nil {
				return err
			}
		}
		panic("canary: a mistake in a handler")
	}
}

// TestHowAStreamEndsIsHowItsRunEnds: an end marker is success, an error is
// never overwritten by one, and a broken body is never whole.
func TestHowAStreamEndsIsHowItsRunEnds(t *testing.T) {
	agent := func(frames ...string) []string {
		return append([]string{datum(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)}, frames...)
	}
	cases := []struct {
		name          string
		dialect       string
		backend       backend
		state, reason string
	}{
		{"marker", "openai-chat", streams(chatFrame("a"), chatDone), "completed", ""},
		{"marker, then cut", "openai-chat", breaks(chatFrame("a"), chatDone), "completed", ""},
		{"marker, then a panic", "openai-chat", panics(chatFrame("a"), chatDone), "completed", ""},
		{"no marker", "openai-chat", streams(chatFrame("a")), "failed", "upstream_truncated"},
		{"nothing at all", "openai-chat", streams(), "failed", "upstream_truncated"},
		{"cut", "openai-chat", breaks(chatFrame("a")), "failed", "upstream_truncated"},
		{"cut before a frame", "openai-chat", breaks(), "failed", "upstream_truncated"},
		{"half a marker", "openai-chat", streams(chatFrame("a"), "data: [DONE]"), "failed", "upstream_truncated"},
		{"error", "openai-chat", streams(chatFrame("a"), chatError), "failed", "upstream_error"},
		{"error, then marker", "openai-chat", streams(chatError, chatDone), "failed", "upstream_error"},
		{"reason, then no marker", "openai-chat", streams(chatFrame("a"), finish("stop")), "completed", ""},
		{"cut by length", "openai-chat", streams(finish("length"), chatDone), "completed", "length"},
		{"filtered", "openai-chat", streams(finish("content_filter"), chatDone), "completed", "content_filter"},
		{"panic", "openai-chat", panics(chatFrame("a")), "failed", "upstream_truncated"},
		{"handler's error in mid-body", "openai-chat", func(n int, w http.ResponseWriter, r *http.Request) error {
			return firstError(streams(chatFrame("a"))(n, w, r), errLostEarly)
		}, "failed", "upstream_truncated"},
		{"clean end", "generic", streams(data(2)...), "completed", ""},
		{"clean end of nothing", "generic", streams(), "completed", ""},
		{"cut", "generic", breaks(data(2)...), "failed", "upstream_truncated"},
		{"asks for input", "ag-ui", streams(agent(datum(`{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}`))...), "completed", "input_required"},
		{"says cancelled", "ag-ui", streams(agent(datum(`{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`))...), "cancelled", ""},
		{"says cancelled", "ai-ui-v1", streams(datum(`{"type":"abort"}`), chatDone), "cancelled", ""},
		{"ends with a question that was not final", "a2a", streams(taskStands("input-required")), "completed", "input_required"},
		{"goes on after a question, and ends", "a2a", streams(taskStands("input-required"), taskStands("working")), "failed", "upstream_truncated"},
		{"cut after a question", "a2a", breaks(taskStands("input-required")), "failed", "upstream_truncated"},
		{"lines", "generic", lines("1", "2"), "completed", ""},
	}
	for _, c := range cases {
		t.Run(c.dialect+" "+c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, c.backend, speaking(c.dialect))
				rec := s.Snapshot(t, s.ran(t, startChat()))
				if rec.State != c.state || rec.Reason() != c.reason || rec.Effect != "possible" {
					t.Errorf("got %s (%s), effect %s, want %s (%s)", rec.State, rec.Reason(), rec.Effect, c.state, c.reason)
				}
				if whole := rec.Snapshot.Complete; whole != (c.state == "completed") {
					t.Errorf("snapshot is complete: %v", whole)
				}
			})
		})
	}
}

// taskStands is a status of version 0.3 of A2A that is not the final one.
func taskStands(state string) string {
	return datum(`{"jsonrpc":"2.0","id":1,"result":{"kind":"status-update","taskId":"t","final":false,"status":{"state":"` + state + `"}}}`)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestARunThatEndsWithoutAnAnswer is told by a problem, also to a retry with
// its key, unless provably nothing was done: then the retry starts.
func TestARunThatEndsWithoutAnAnswer(t *testing.T) {
	cases := []struct {
		name          string
		first         backend
		status        int
		code          string
		state, reason string
		effect        string
		released      bool
	}{
		{"dial failure", func(int, http.ResponseWriter, *http.Request) error { return errDial }, 502, "upstream_unreachable", "failed", "upstream_unreachable", "none", true},
		{"lost", func(int, http.ResponseWriter, *http.Request) error { return errLostEarly }, 502, "upstream_truncated", "failed", "upstream_truncated", "possible", false},
		{"aborted", func(int, http.ResponseWriter, *http.Request) error { hangUp(); return nil }, 502, "upstream_truncated", "failed", "upstream_truncated", "possible", false},
		{"panic", panics(), 502, "upstream_truncated", "failed", "upstream_truncated", "possible", false},
		{"no answer in time", mute, 504, "upstream_timeout", "uncertain", "header_timeout", "possible", false},
		{"unknown encoding", encoded("br", []byte("x")), 502, "upstream_invalid", "failed", "upstream_error", "possible", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, inTurn(c.first, streams(data(1)...)), generic)
				answer := s.Do(t, startChat().Key("k-1"))
				run := answer.Run()
				if answer.Header.Get("X-Should-Retry") != "false" || run == "" {
					t.Errorf("got x-should-retry %q of run %q", answer.Header.Get("X-Should-Retry"), run)
				}
				if p := answer.Problem(c.status, c.code); p.RunID != run || p.Retryable != c.released {
					t.Errorf("got %+v", p)
				}
				rec := s.Snapshot(t, run)
				if rec.State != c.state || rec.Reason() != c.reason || rec.Effect != c.effect || rec.Frames.Format != "sse" {
					t.Errorf("got %s (%s), effect %s, format %s", rec.State, rec.Reason(), rec.Effect, rec.Frames.Format)
				}
				again := s.Do(t, startChat().Key("k-1"))
				if c.released {
					if again.Want(http.StatusOK).Run() == run {
						t.Error("the key was not released")
					}
					return
				}
				if again.Problem(c.status, c.code); again.Run() != run || s.calls.Load() != 1 {
					t.Errorf("got run %s and %d calls, want %s and 1", again.Run(), s.calls.Load(), run)
				}
				testkit.EndsAs(t, s.Resume(t, run, "").Rest(), c.state)
			})
		})
	}
}

// TestStatusesByWhichUpstreamSaysThatItDidNoWork release the key; the others
// are kept under it and given again.
func TestStatusesByWhichUpstreamSaysThatItDidNoWork(t *testing.T) {
	released := []int{400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 422, 425, 429, 529}
	kept := []int{200, 201, 302, 418, 500, 501, 502, 503, 504}
	check := func(status int, retryAfter string, free bool) {
		inBubble(t, func(t *testing.T) {
			s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
				if retryAfter != "" {
					w.Header().Set("Retry-After", retryAfter)
				}
				return answers(status, jsonType, `{"n":`+itoa(n)+`}`)(n, w, r)
			})
			first := s.Do(t, startChat().Key("k-1")).Want(status)
			body := string(first.Body())
			synctest.Wait()
			rec := s.Snapshot(t, first.Run())
			wantState, wantEffect := "completed", "possible"
			if status >= 400 {
				wantState = "failed"
			}
			if free {
				wantEffect = "none"
			}
			if rec.State != wantState || rec.Effect != wantEffect || status >= 400 && rec.Reason() != "upstream_status" {
				t.Errorf("%d: got %s (%s), effect %s, want %s, effect %s", status, rec.State, rec.Reason(), rec.Effect, wantState, wantEffect)
			}
			if offered := strings.Contains(strings.Join(rec.ClientActions, " "), "offer_retry"); offered != free {
				t.Errorf("%d: a retry is offered: %v", status, offered)
			}
			again := s.Do(t, startChat().Key("k-1")).Want(status)
			if replayed := string(again.Body()) == body && again.Header.Get("Idempotent-Replayed") == "true"; replayed == free {
				t.Errorf("%d: got the first answer again: %v, want %v", status, replayed, !free)
			}
		})
	}
	for _, status := range released {
		check(status, "", true)
	}
	for _, status := range kept {
		check(status, "", false)
	}
	check(http.StatusServiceUnavailable, "5", true)
	check(http.StatusInternalServerError, "5", false)
}

// TestARefusalThatIsAStreamIsARefusal all the same, also when it stays open
// after its marker.
func TestARefusalThatIsAStreamIsARefusal(t *testing.T) {
	for name, b := range map[string]backend{"ends": streams(chatFrame("a"), chatDone), "stays open": holds(chatFrame("a"), chatDone)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
					w.Header().Set("Content-Type", "text/event-stream")
					w.WriteHeader(http.StatusInternalServerError)
					return b(n, w, r)
				}, openaiChat)
				answer := s.Do(t, startChat().Key("k-1")).Want(http.StatusInternalServerError)
				answer.Bytes() //nolint:errcheck // how it ends is the record's to say
				if rec := s.Snapshot(t, answer.Run()); rec.State != "failed" || rec.Reason() != "upstream_status" {
					t.Errorf("got %s (%s)", rec.State, rec.Reason())
				}
			})
		})
	}
}

// TestARouteWithoutEffectsHasNone, by the operator's word.
func TestARouteWithoutEffectsHasNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, breaks(chatFrame("a")), openaiChat, func(c *proxy.Config) { c.NoSideEffects = true })
		rec := s.Snapshot(t, s.ran(t, startChat()))
		if rec.State != "failed" || rec.Effect != "none" || strings.Join(rec.ClientActions, " ") != "show_snapshot offer_retry" {
			t.Errorf("got %s, effect %s, %v", rec.State, rec.Effect, rec.ClientActions)
		}
	})
}

// TestAFrameAboveTheLimitEndsTheRun with the frames before it stored.
func TestAFrameAboveTheLimitEndsTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(chatFrame("a"), chatFrame(strings.Repeat("x", 2000))), openaiChat, func(c *proxy.Config) { c.Limits.Frame = 1000 })
		answer := s.Do(t, startChat())
		events := answer.Rest()
		if len(events) != 2 || !strings.Contains(events[1].Data, "frame_too_large") {
			t.Errorf("got %v, want the first frame and an error", testkit.Pairs(events))
		}
		if rec := s.Snapshot(t, answer.Run()); rec.State != "failed" || rec.Reason() != "frame_too_large" || *rec.Frames.LastSeq != 1 {
			t.Errorf("got %s (%s) with %d frames", rec.State, rec.Reason(), *rec.Frames.LastSeq)
		}
	})
}

// TestAnErrorBeforeTheFirstByteGoesThroughTheServersErrorRoutes, if it has any
// for it: with the cause, and with the run visible.
func TestAnErrorBeforeTheFirstByteGoesThroughTheServersErrorRoutes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := setup{host: plainHost{errorRoutes: true}, config: []configure{generic}}.open(t, func(int, http.ResponseWriter, *http.Request) error { return errDial })
		answer := s.Do(t, startChat().Key("k-1")).Want(http.StatusBadGateway)
		err := <-s.broken
		if answer.Run() == "" || !strings.HasPrefix(err.Error(), "502: upstream_unreachable") || !strings.Contains(err.Error(), errDial.Error()) {
			t.Errorf("got run %q and %v", answer.Run(), err)
		}
	})
}

// TestAnErrorOfARequestThatIsNoStartIsTheServers alone.
func TestAnErrorOfARequestThatIsNoStartIsTheServers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(int, http.ResponseWriter, *http.Request) error { return errDial })
		answer := s.Do(t, testkit.Ask{Path: "/"}).Want(http.StatusBadGateway)
		if body := answer.Body(); len(body) > 0 || <-s.broken != errDial { //nolint:errorlint // the very same
			t.Errorf("got %q", body)
		}
	})
}

// TestAFailureThatClientsOverlookIsFollowedByAnAbort: for each way to read it,
// but for those that show what the gateway itself says.
func TestAFailureThatClientsOverlookIsFollowedByAnAbort(t *testing.T) {
	for dialect, frame := range map[string]string{
		"cohere":              "event: content-delta\n" + datum(`{"type":"content-delta","delta":{"message":{"content":{"text":"Hel"}}}}`),
		"gemini-interactions": datum(`{"event_type":"step.delta","delta":{"type":"text","text":"Hel"}}`),
	} {
		t.Run(dialect, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, streams(frame), speaking(dialect))
				first := s.Do(t, startChat())
				bare := testkit.Resume(first.Run(), "").Query("control", "off")
				for what, a := range map[string]*testkit.Answer{"first": first, "control=off": s.Do(t, bare)} {
					if shown := a.RestBroken(); len(shown) != 2 || !strings.Contains(shown[1].Data, "upstream_truncated") {
						t.Errorf("%s: got %v, want the frame and the failure", what, testkit.Pairs(shown))
					}
				}
				testkit.EndsAs(t, s.Resume(t, first.Run(), "").Want(http.StatusOK).Rest(), "failed")
				if a := s.Do(t, bare.With("Accept", "application/x-ndjson")).Want(http.StatusOK); len(a.Body()) == 0 {
					t.Error("the envelopes are empty")
				}
			})
		})
	}
}
