package proxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestNewRefusesWhatOnlyItCanSee, in the operator's words.
func TestNewRefusesWhatOnlyItCanSee(t *testing.T) {
	for want, change := range map[string]configure{
		`dialect "latin" is unknown; allowed are auto, `: speaking("latin"),
		"reading cors": func(c *proxy.Config) { c.CORS = []string{"app.example"} },
	} {
		cfg := proxy.DefaultConfig()
		change(&cfg)
		log, m := slog.New(slog.DiscardHandler), proxy.NewMetrics()
		_, err := proxy.New(cfg, proxy.Deps{
			Engine: proxy.NewEngine(nil, log, m), Host: plainHost{}, Log: log, Metrics: m, Identity: authz.Anonymous{},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestReleaseAndResourceComeFromTheirTemplates: one from the answer, one from
// the request.
func TestReleaseAndResourceComeFromTheirTemplates(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("X-Agent-Release", "support-7")
			return streams(data(1)...)(n, w, r)
		}, generic, func(c *proxy.Config) { c.Release, c.Resource = "v:{release}", "scope-1" })
		run := s.ran(t, startChat())
		for _, path := range []string{"/_runs/" + run, "/_runs/" + run + "/events"} {
			raw := string(s.Do(t, testkit.Ask{Path: path}.With("Accept", acceptNDJSON)).Body())
			if !strings.Contains(raw, `"release_id":"v:support-7"`) || !strings.Contains(raw, `"resource_scope":"scope-1"`) {
				t.Errorf("%s: got %s", path, raw)
			}
		}
	})
}

// TestThePathsThroughTheGatewayAddNoDelay: what a backend flushes arrives, on
// requests that are no start and on resume paths that the backend answers.
func TestThePathsThroughTheGatewayAddNoDelay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			if _, err := io.WriteString(w, datum("1")); err != nil {
				return err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("flushing: %v", err)
			}
			if err := pause(r, time.Minute); err != nil {
				return err
			}
			_, err := io.Copy(w, strings.NewReader(datum("2")))
			return err
		})
		for _, path := range []string{"/feed", "/api/chat/c-1/stream"} {
			began := time.Now()
			a := s.Do(t, testkit.Ask{Path: path}).Want(http.StatusOK)
			a.Next()
			if got := time.Since(began); got != 0 {
				t.Errorf("%s: the first event came after %v", path, got)
			}
			if a.Next(); time.Since(began) != time.Minute {
				t.Errorf("%s: the second came after %v", path, time.Since(began))
			}
			a.Rest()
		}
	})
}

// TestBackendsMayFlushAndLookForAFlusher: everything written is already on its
// way.
func TestBackendsMayFlushAndLookForAFlusher(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			if err := say(w, datum("1")); err != nil {
				return err
			}
			w.(http.Flusher).Flush()
			return http.NewResponseController(w).Flush()
		}, generic)
		if got := s.state(t, s.ran(t, startChat())); got != "completed" {
			t.Errorf("got %s", got)
		}
	})
}

// TestAnEffectThatWasSeenIsNeverForgotten: the result of a tool outweighs the
// operator's word and every release.
func TestAnEffectThatWasSeenIsNeverForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, breaks(
			datum(`{"type":"tool-input-available","toolCallId":"call-1","toolName":"send_mail","input":{}}`),
			datum(`{"type":"tool-output-available","toolCallId":"call-1","output":"sent"}`),
		), speaking("ai-ui-v1"), func(c *proxy.Config) { c.NoSideEffects = true })
		run := s.ran(t, startChat())
		rec := s.Snapshot(t, run)
		if rec.State != "failed" || rec.Effect != "observed" || strings.Join(rec.ClientActions, " ") != "show_snapshot warn_external_action" {
			t.Errorf("got %s, effect %s, %v", rec.State, rec.Effect, rec.ClientActions)
		}
		if receipts := snapshotOf(t, s, run).ToolReceipts; len(receipts) != 1 || receipts[0].Name != "send_mail" || receipts[0].Seq != 2 {
			t.Errorf("got receipts %+v", receipts)
		}
	})
}
