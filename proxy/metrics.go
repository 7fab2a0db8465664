package proxy

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// The names of all metrics. None has a label that a stranger can choose: no
// run, subject, conversation, key, path or model.
const (
	metricStarted      = "caddy_agent_runs_started_total"
	metricFinished     = "caddy_agent_runs_finished_total"
	metricActive       = "caddy_agent_runs_active"
	metricReaders      = "caddy_agent_runs_readers"
	metricFrames       = "caddy_agent_runs_frames_stored_total"
	metricFrameBytes   = "caddy_agent_runs_frame_bytes_stored_total"
	metricFirstFrame   = "caddy_agent_runs_time_to_first_frame_seconds"
	metricDuration     = "caddy_agent_runs_duration_seconds"
	metricResumes      = "caddy_agent_runs_resumes_total"
	metricRepeats      = "caddy_agent_runs_repeats_total"
	metricStops        = "caddy_agent_runs_stops_total"
	metricRefusals     = "caddy_agent_runs_refusals_total"
	metricUnproven     = "caddy_agent_runs_auth_failures_total"
	metricInputTokens  = "caddy_agent_runs_input_tokens_total"
	metricOutputTokens = "caddy_agent_runs_output_tokens_total"
	metricReaped       = "caddy_agent_runs_reaped_total"
	metricRepaired     = "caddy_agent_runs_tails_repaired_total"
	metricRestored     = "caddy_agent_runs_restored_total"
	metricReattached   = "caddy_agent_runs_reattached_total"
	metricStoreErrors  = "caddy_agent_runs_store_errors_total"
)

// Metrics are the counters of this process. They outlive configurations: each
// new registry gets the same collectors.
type Metrics struct {
	started      prometheus.Counter
	finished     *prometheus.CounterVec
	active       prometheus.Gauge
	readers      prometheus.Gauge
	frames       prometheus.Counter
	frameBytes   prometheus.Counter
	firstFrame   prometheus.Histogram
	duration     prometheus.Histogram
	resumes      *prometheus.CounterVec
	repeats      *prometheus.CounterVec
	stops        *prometheus.CounterVec
	refusals     *prometheus.CounterVec
	unproven     *prometheus.CounterVec
	inputTokens  prometheus.Counter
	outputTokens prometheus.Counter
	reaped       prometheus.Counter
	repaired     prometheus.Counter
	restored     prometheus.Counter
	reattached   prometheus.Counter
	storeErrors  *prometheus.CounterVec
}

// NewMetrics returns a fresh set.
func NewMetrics() *Metrics {
	return &Metrics{
		started:      counter(metricStarted, "Runs that were dispatched to a backend."),
		finished:     counters(metricFinished, "Runs that ended, by terminal state and reason.", "state", "reason"),
		active:       gauge(metricActive, "Runs that this process owns."),
		readers:      gauge(metricReaders, "Clients that read a run on this instance."),
		frames:       counter(metricFrames, "Frames that were stored."),
		frameBytes:   counter(metricFrameBytes, "Bytes of frames that were stored."),
		firstFrame:   histogram(metricFirstFrame, "Time from dispatch to the first frame.", 0.05, 2, 14),
		duration:     histogram(metricDuration, "Time from admission to the end of a run.", 0.25, 2, 16),
		resumes:      counters(metricResumes, "Requests that read a run from a position, by how they ended.", "result"),
		repeats:      counters(metricRepeats, "Starts that attached to an existing run, by what matched.", "match"),
		stops:        counters(metricStops, "Stops, by outcome.", "outcome"),
		refusals:     counters(metricRefusals, "Requests answered with a problem, by code.", "code"),
		unproven:     counters(metricUnproven, "Requests refused for what they came with as credentials, by reason.", "reason"),
		inputTokens:  counter(metricInputTokens, "Input tokens that backends reported."),
		outputTokens: counter(metricOutputTokens, "Output tokens that backends reported."),
		reaped:       counter(metricReaped, "Runs of dead owners that this process settled."),
		repaired:     counter(metricRepaired, "Lost tails that were stored again from the owner's window."),
		reattached:   counter(metricReattached, "Upstream streams that were joined again."),
		restored:     counter(metricRestored, "Runs that were written again into a store that had lost them."),
		storeErrors:  counters(metricStoreErrors, "Heartbeats that the store did not answer, by step.", "step"),
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func histogram(name, help string, start, factor float64, count int) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, factor, count),
	})
}

// Register adds the collectors to a registry; it is safe to call again with
// the same registry.
func (m *Metrics) Register(r prometheus.Registerer) error {
	for _, c := range m.collectors() {
		if err := r.Register(c); err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.started, m.finished, m.active, m.readers, m.frames, m.frameBytes, m.firstFrame, m.duration,
		m.resumes, m.repeats, m.stops, m.refusals, m.unproven, m.inputTokens, m.outputTokens,
		m.reaped, m.repaired, m.restored, m.reattached, m.storeErrors,
	}
}

var matchNames = map[runregistry.Match]string{
	runregistry.MatchKey:          "key",
	runregistry.MatchConversation: "conversation",
	runregistry.MatchDelivery:     "delivery",
}

func (m *Metrics) admitted(match runregistry.Match) {
	if name, repeat := matchNames[match]; repeat {
		m.repeats.WithLabelValues(name).Inc()
	}
}

func (m *Metrics) runStarted() {
	m.started.Inc()
	m.active.Inc()
}

func (m *Metrics) runEnded(r *runregistry.Record) {
	m.active.Dec()
	m.finished.WithLabelValues(r.State.String(), string(r.Reason)).Inc()
	m.duration.Observe(r.EndedAt.Sub(r.CreatedAt).Seconds())
	if first := since(r.DispatchedAt, r.FirstFrameAt); first > 0 {
		m.firstFrame.Observe(first.Seconds())
	}
	if r.Usage.Reported {
		m.inputTokens.Add(float64(max(r.Usage.InputTokens, 0)))
		m.outputTokens.Add(float64(max(r.Usage.OutputTokens, 0)))
	}
}

func (m *Metrics) framesStored(n, size int) {
	m.frames.Add(float64(n))
	m.frameBytes.Add(float64(size))
}

func (m *Metrics) stopped(r *runregistry.Record) {
	outcome := r.Cancel.Outcome
	if outcome == "" {
		outcome = runregistry.AlreadyTerminal
	}
	m.stops.WithLabelValues(string(outcome)).Inc()
}

// refused also counts why credentials were not good, which the answer does not
// tell.
func (m *Metrics) refused(p *Problem) {
	m.refusals.WithLabelValues(string(p.Code)).Inc()
	if reason := authz.Reason(p.Err); reason != "" {
		m.unproven.WithLabelValues(reason).Inc()
	}
}

func (m *Metrics) readerCame()           { m.readers.Inc() }
func (m *Metrics) readerLeft()           { m.readers.Dec() }
func (m *Metrics) resumed(result string) { m.resumes.WithLabelValues(result).Inc() }

func (m *Metrics) runReaped(*runregistry.Record) { m.reaped.Inc() }
func (m *Metrics) tailRepaired()                 { m.repaired.Inc() }
func (m *Metrics) runRestored()                  { m.restored.Inc() }
func (m *Metrics) runReattached()                { m.reattached.Inc() }
func (m *Metrics) storeFailed(step string)       { m.storeErrors.WithLabelValues(step).Inc() }
