package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// asking is a dialect whose frames say when the agent waits and goes on.
var asking = &dialect.Dialect{
	Name: "generic", Kind: frame.SSE, CleanEnd: true,
	NewReader: func() dialect.Reader { return askingReader{} }, NewFolder: genericDialect.NewFolder, Type: genericDialect.Type,
}

type askingReader struct{}

// Read implements [dialect.Reader].
func (askingReader) Read(f *frame.Frame) dialect.Facts {
	switch string(f.Data) {
	case "ask":
		return dialect.Facts{Waiting: 1}
	case "go on":
		return dialect.Facts{Waiting: -1}
	default:
		return dialect.Facts{}
	}
}

// asked runs a backend that speaks asking, and returns its run once it has
// settled together with how long it took. It is called in a bubble.
func asked(t *testing.T, cfg Config, next Next, during func(*runregistry.Record)) (*runregistry.Record, time.Duration) {
	t.Helper()
	store := embeddedstore.New(embeddedstore.Options{})
	defer store.Close()
	engine := NewEngine(store, slog.New(slog.DiscardHandler), NewMetrics())
	id := runregistry.NewRunID(0)
	d, err := store.Admit(t.Context(), &runregistry.Admission{Run: id, Conversation: "c", Retention: runregistry.Retention{Frames: time.Hour, Record: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	d.Watch.Close()
	if _, err := store.Intend(t.Context(), d.Lease); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	p := &pump{
		engine: engine, cfg: &cfg, log: slog.New(slog.DiscardHandler), lease: d.Lease, next: next, request: request, told: asking,
		span: runSpan{trace.SpanFromContext(ctx)}, ctx: ctx, cancel: cancel, storeCtx: context.Background(), began: time.Now(), header: make(http.Header), throttle: newThrottle(0),
	}
	began := time.Now()
	if !engine.enrol(p) {
		t.Fatal("the engine takes no runs")
	}
	engine.launch(p)
	time.Sleep(time.Minute)
	rec, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	during(rec)
	rec, err = engine.settled(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if err := engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rec, took
}

// plays sends frames with pauses between them, and then waits.
func plays(every time.Duration, frames ...string) Next {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, f := range frames {
			if _, err := w.Write([]byte("data: " + f + "\n\n")); err != nil {
				return err
			}
			select {
			case <-time.After(every):
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		}
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// TestIdleLimitsRestWhileTheAgentWaits for a person; the deadline does not.
func TestIdleLimitsRestWhileTheAgentWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Deadline = 3 * time.Hour
		rec, took := asked(t, cfg, plays(time.Second, "hello", "ask"), func(now *runregistry.Record) {
			if now.State != runregistry.Waiting {
				t.Errorf("got %s, want waiting", now.State)
			}
		})
		if rec.State != runregistry.Failed || rec.Reason != runregistry.ReasonDeadlineExceeded || took.Round(time.Minute) != 3*time.Hour {
			t.Errorf("got %s (%s) after %v, want the deadline after 3h", rec.State, rec.Reason, took)
		}
	})
}

// TestIdleLimitsCountAgainWhenTheAgentGoesOn.
func TestIdleLimitsCountAgainWhenTheAgentGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, took := asked(t, DefaultConfig(), plays(time.Hour, "ask", "go on"), func(now *runregistry.Record) {
			if now.State != runregistry.Waiting {
				t.Errorf("got %s, want waiting", now.State)
			}
		})
		if rec.State != runregistry.Failed || rec.Reason != runregistry.ReasonIdleTimeout || took.Round(time.Minute) != time.Hour+15*time.Minute {
			t.Errorf("got %s (%s) after %v, want 15 idle minutes after an hour", rec.State, rec.Reason, took)
		}
	})
}
