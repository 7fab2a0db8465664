package proxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// steerable is a site whose backend takes input with the given statuses.
func steerable(t *testing.T, got *[]string, statuses ...int) *site {
	t.Helper()
	return newSite(t, steered(got, statuses...), openaiChat, canSteer)
}

func canSteer(c *proxy.Config) {
	c.Steer = proxy.Way{Method: http.MethodPut, Target: "/in/{conversation_id}"}
}

func steered(got *[]string, statuses ...int) backend {
	return func(_ int, w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			*got = append(*got, r.URL.Path+" "+string(body)+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Authorization"))
			status := statuses[min(len(*got), len(statuses))-1]
			if status < 0 {
				return errDial
			}
			w.WriteHeader(status)
			return nil
		}
		return holds(chatFrame("a"))(0, w, r)
	}
}

func steering(run, key, body string) testkit.Ask {
	return testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/steer", Body: body}.
		With("Content-Type", "application/x-in").With("Authorization", "Bearer steer").Key(key)
}

// TestSteerBringsInputOnceUnderItsKey.
func TestSteerBringsInputOnceUnderItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var got []string
		s := steerable(t, &got, http.StatusNoContent)
		answer := s.Do(t, startChat().With("X-Conversation-Id", "conv-1"))
		answer.Take(1)
		run := answer.Run()
		for range 3 {
			s.Do(t, steering(run, "k-1", "left")).Want(http.StatusAccepted)
		}
		if want := "/in/conv-1 left application/x-in k-1 Bearer steer"; len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q once", got, want)
		}
		s.Do(t, steering(run, "k-1", "right")).Problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		s.Do(t, steering(run, "k-2", "right")).Want(http.StatusAccepted)
		if len(got) != 2 {
			t.Errorf("got %d inputs, want two", len(got))
		}
	})
}

// TestSteerIsRefusedWhereItLeadsNowhere.
func TestSteerIsRefusedWhereItLeadsNowhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var got []string
		s := steerable(t, &got, http.StatusConflict)
		answer := s.Do(t, startChat())
		answer.Take(1)
		run := answer.Run()
		ask := steering(run, "k", "x")
		ask.Header.Del("Idempotency-Key")
		s.Do(t, ask).Problem(http.StatusBadRequest, "idempotency_key_missing")
		s.As("user-b").Do(t, steering(run, "k", "x")).Problem(http.StatusNotFound, "run_not_found")
		foreign := steering(run, "k", "x").With("Sec-Fetch-Site", "cross-site")
		foreign.Header.Del("Authorization")
		s.Do(t, foreign).Problem(http.StatusForbidden, "csrf_rejected")
		s.Do(t, steering(run, "k-1", "x")).Problem(http.StatusBadGateway, "upstream_invalid")
		s.Do(t, steering(run, "k-1", "x")).Problem(http.StatusBadGateway, "upstream_invalid")
		if len(got) != 1 {
			t.Errorf("got %d inputs, want one", len(got))
		}
		s.Stop(t, run)
		s.Do(t, steering(run, "k-2", "x")).Problem(http.StatusConflict, "run_not_steerable")

		plain := newSite(t, holds(chatFrame("a")), openaiChat)
		other := plain.Do(t, startChat())
		other.Take(1)
		plain.Do(t, steering(other.Run(), "k", "x")).Problem(http.StatusNotImplemented, "steer_unsupported")
	})
}

// TestASteerThatReachedNobodyMayBeTriedAgain under its key.
func TestASteerThatReachedNobodyMayBeTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var got []string
		s := steerable(t, &got, -1, http.StatusOK)
		answer := s.Do(t, startChat())
		answer.Take(1)
		s.Do(t, steering(answer.Run(), "k-1", "x")).Problem(http.StatusBadGateway, "upstream_unreachable")
		s.Do(t, steering(answer.Run(), "k-1", "x")).Want(http.StatusAccepted)
	})
}
