package proxy_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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
