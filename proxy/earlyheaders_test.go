package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

func earlyHeaders(c *proxy.Config) { c.EarlyHeaders = 5 * time.Second }

// early starts a run whose head comes before upstream's, and returns it.
func early(t *testing.T, s *site) *testkit.Answer {
	t.Helper()
	began := time.Now()
	a := s.Do(t, startChat()).Want(http.StatusOK)
	if got := time.Since(began); got != 5*time.Second {
		t.Errorf("head came after %v, want 5s", got)
	}
	if a.Header.Get("Content-Type") != "text/event-stream" || a.Run() == "" || a.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("got %v", a.Header)
	}
	return a
}

// TestEarlyHeadersKeepAClientAliveUntilTheAnswerComes.
func TestEarlyHeadersKeepAClientAliveUntilTheAnswerComes(t *testing.T) {
	for name, config := range map[string][]configure{"known dialect": {openaiChat}, "auto": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, after(50*time.Second, streams(chatFrame("a"), chatDone)), append(config, earlyHeaders)...)
				began := time.Now()
				a := early(t, s)
				events := a.Rest()
				if testkit.CheckIDs(t, a.Run(), 1, events) != 3 || events[1].Data != "[DONE]" {
					t.Errorf("got %v", testkit.Pairs(events))
				}
				var alive []time.Duration
				for _, c := range a.Events.Comments {
					alive = append(alive, c.At.Sub(began))
				}
				if len(alive) != 3 || alive[0] != 20*time.Second || alive[2] != 50*time.Second {
					t.Errorf("got signs of life at %v, want every 15s from the head on", alive)
				}
			})
		})
	}
}

// TestAnAnswerInTimeComesAsItIs: early headers only bridge a silence.
func TestAnAnswerInTimeComesAsItIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(4*time.Second, answers(http.StatusTeapot, jsonType, "{}")), earlyHeaders)
		if got := string(s.Do(t, startChat()).Want(http.StatusTeapot).Body()); got != "{}" {
			t.Errorf("got %q", got)
		}
	})
}

// TestLinesAfterEarlyHeadersAreShownAsEvents: the client was promised those.
func TestLinesAfterEarlyHeadersAreShownAsEvents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(30*time.Second, func(_ int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", acceptNDJSON)
			if err := say(w, "{\"a\":1}\n"); err != nil {
				return err
			}
			if err := pause(r, time.Minute); err != nil {
				return err
			}
			return say(w, "{\"b\":2}\n")
		}), generic, earlyHeaders)
		a := early(t, s)
		events := a.Rest()
		if len(events) != 2 || events[0].Data != `{"a":1}` || events[1].Data != `{"b":2}` || testkit.CheckIDs(t, a.Run(), 1, events) != 3 {
			t.Errorf("got %q", a.Events.Raw())
		}
	})
}

// TestWhatCannotBeAStreamAfterEarlyHeadersIsAFailure in the dialect's words: a
// status can no longer tell.
func TestWhatCannotBeAStreamAfterEarlyHeadersIsAFailure(t *testing.T) {
	late := func(b backend) backend { return after(30*time.Second, b) }
	for name, b := range map[string]backend{
		"refusal": late(answers(http.StatusTooManyRequests, jsonType, `{"error":"later"}`)),
		"refusal in stream": late(func(n int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", acceptSSE)
			w.WriteHeader(http.StatusBadGateway)
			return say(w, chatFrame("no"))
		}),
		"plain answer":  late(answers(http.StatusOK, jsonType, `{"choices":[]}`)),
		"dial failure":  late(func(int, http.ResponseWriter, *http.Request) error { return errDial }),
		"lost":          late(func(int, http.ResponseWriter, *http.Request) error { return errLostEarly }),
		"broken stream": late(breaks(chatFrame("a"))),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, b, openaiChat, earlyHeaders)
				events := early(t, s).Rest()
				last := events[len(events)-1]
				if !strings.Contains(last.Data, `"error":{`) || !strings.Contains(last.Data, `"code":"failed"`) {
					t.Errorf("got %v, want the dialect's error", testkit.Pairs(events))
				}
				if name != "broken stream" && len(events) != 1 {
					t.Errorf("got %v before the error", testkit.Pairs(events))
				}
			})
		})
	}
	t.Run("generic", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newSite(t, late(answers(http.StatusOK, jsonType, `{}`)), generic, earlyHeaders)
			early(t, s).RestBroken()
		})
	})
}
