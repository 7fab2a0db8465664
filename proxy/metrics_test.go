package proxy_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// family returns a metric by name.
func (s *site) family(t *testing.T, name string) *dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := s.metrics.Register(registry); err != nil {
		t.Fatalf("registering: %v", err)
	}
	all, err := registry.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f
		}
	}
	return nil
}

// gauge returns the value of a gauge without labels.
func (s *site) gauge(t *testing.T, name string) float64 {
	t.Helper()
	f := s.family(t, name)
	if f == nil {
		t.Fatalf("there is no metric %s", name)
	}
	return f.GetMetric()[0].GetGauge().GetValue()
}

// count returns the value of a counter, added up over its labels that match.
func (s *site) count(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	f := s.family(t, name)
	sum := 0.0
	for _, m := range f.GetMetric() {
		var has []string
		for _, l := range m.GetLabel() {
			has = append(has, l.GetName()+"="+l.GetValue())
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
			continue
		}
		sum += m.GetCounter().GetValue()
	}
	return sum
}

// TestMetricsSurviveAReload: the same registry and the next one get the same
// collectors.
func TestMetricsSurviveAReload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		registry := prometheus.NewRegistry()
		for range 3 {
			if err := s.metrics.Register(registry); err != nil {
				t.Fatal(err)
			}
		}
		s.ran(t, startChat())
		if got := s.count(t, "caddy_agent_runs_started_total"); got != 1 {
			t.Errorf("a new registry got %v starts, want 1", got)
		}
	})
}

// TestMetricsCountWhatHappened, without a label that a stranger can choose.
func TestMetricsCountWhatHappened(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(streams(data(3)...), breaks(data(1)...), holds(data(1)...)), generic)
		run := s.ran(t, startChat().Key("k-1"))
		s.ran(t, startChat().Key("k-1"))
		s.ran(t, testkit.Chat("conv-2", "hello"))
		held := s.Do(t, testkit.Chat("conv-3", "hello"))
		held.Take(1)
		if got := s.gauge(t, "caddy_agent_runs_active"); got != 1 {
			t.Errorf("got %v active runs, want 1", got)
		}
		s.Stop(t, held.Run())
		s.Stop(t, run)
		s.Do(t, testkit.Ask{Path: "/_runs/run_x"}).Want(http.StatusNotFound)
		s.As("").Do(t, testkit.Ask{Path: "/_runs/run_x"}).Want(http.StatusUnauthorized)
		s.Resume(t, run, "").Rest()
		s.Resume(t, run, testkit.Cursor(run, 4)).Want(http.StatusNoContent)
		for _, c := range []struct {
			name   string
			labels []string
			want   float64
		}{
			{"caddy_agent_runs_started_total", nil, 3},
			{"caddy_agent_runs_finished_total", []string{"state=completed"}, 1},
			{"caddy_agent_runs_finished_total", []string{"state=failed", "reason=upstream_truncated"}, 1},
			{"caddy_agent_runs_finished_total", []string{"state=cancelled"}, 1},
			{"caddy_agent_runs_frames_stored_total", nil, 5},
			{"caddy_agent_runs_repeats_total", []string{"match=key"}, 1},
			{"caddy_agent_runs_stops_total", []string{"outcome=cancelled_after_effect"}, 1},
			{"caddy_agent_runs_stops_total", []string{"outcome=already_terminal"}, 1},
			{"caddy_agent_runs_refusals_total", []string{"code=run_not_found"}, 1},
			{"caddy_agent_runs_refusals_total", []string{"code=token_invalid"}, 1},
			{"caddy_agent_runs_auth_failures_total", []string{"reason=credentials"}, 1},
			{"caddy_agent_runs_resumes_total", nil, 2},
		} {
			if got := s.count(t, c.name, c.labels...); got != c.want {
				t.Errorf("%s%v: got %v, want %v", c.name, c.labels, got, c.want)
			}
		}
	})
}
