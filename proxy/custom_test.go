package proxy_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// speaksOwn configures a dialect of the site's own.
func speaksOwn(cfg *proxy.Config) {
	cfg.Custom = &dialect.Custom{
		CustomRule: dialect.CustomRule{Text: []string{"say"}, ID: "run", Error: []string{"oops"}},
		Done:       []string{"bye"}, Generate: []string{"/ask"}, Failure: `{"oops":{message}}`,
	}
}

// TestATableOfOnesOwnDecidesHowARunEnds: its marker, its error, its text and
// ids in the record, its failure on the wire.
func TestATableOfOnesOwnDecidesHowARunEnds(t *testing.T) {
	for _, c := range []struct {
		name          string
		backend       backend
		state, reason string
		wire          string
	}{
		{"marker", streams(datum(`{"run":"r-1","say":"hi"}`), datum("bye")), "completed", "", "data: bye"},
		{"no marker", streams(datum(`{"run":"r-1","say":"hi"}`)), "failed", "upstream_truncated", `data: {"oops":"The run failed before its answer was complete.`},
		{"error", streams(datum(`{"run":"r-1","say":"hi"}`), datum(`{"oops":"no"}`), datum("bye")), "failed", "upstream_error", `data: {"oops":"no"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, c.backend, speaksOwn)
				answer := s.Do(t, testkit.Ask{Path: "/ask", Body: `{"question":"?"}`}.With("Content-Type", "application/json"))
				body, err := answer.Bytes()
				if err != nil || !strings.Contains(string(body), c.wire) {
					t.Errorf("got %q, %v, want %q in it", body, err, c.wire)
				}
				synctest.Wait()
				run := answer.Run()
				rec := s.Snapshot(t, run)
				if rec.State != c.state || rec.Reason() != c.reason || rec.Snapshot.Text != "hi" || !strings.HasPrefix(rec.Upstream.Dialect, "custom-") {
					t.Errorf("got %s (%s), text %q, dialect %s, want %s (%s) and hi", rec.State, rec.Reason(), rec.Snapshot.Text, rec.Upstream.Dialect, c.state, c.reason)
				}
			})
		})
	}
}
