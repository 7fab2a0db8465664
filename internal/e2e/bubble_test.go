package e2e

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// bareHost is the least that a gateway needs around it.
type bareHost struct{}

func (bareHost) Detach(ctx context.Context, r *http.Request, _ proxy.About) *http.Request {
	return r.Clone(ctx)
}
func (bareHost) Impersonal(r *http.Request) *http.Request { return r.Clone(context.Background()) }
func (bareHost) Annotate(*http.Request, proxy.About)      {}
func (bareHost) Expand(_ *http.Request, template string, _ http.Header) string {
	return template
}
func (bareHost) OriginalPath(r *http.Request) string   { return r.URL.Path }
func (bareHost) Undelivered(error) bool                { return false }
func (bareHost) HandlesErrors(*http.Request, int) bool { return false }
func (bareHost) Error(_ int, err error) error          { return err }

// inProcess serves a stage behind a gateway without a process around it, for
// tests of time inside a bubble.
func inProcess(t *testing.T, stage *testkit.Stage, change ...func(*proxy.Config)) testkit.Client {
	t.Helper()
	store := embeddedstore.New(embeddedstore.Options{})
	quiet := slog.New(slog.DiscardHandler)
	metrics := proxy.NewMetrics()
	engine := proxy.NewEngine(store, quiet, metrics)
	cfg := proxy.DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	h, err := proxy.New(cfg, proxy.Deps{
		Engine: engine, Host: bareHost{}, Log: quiet, Metrics: metrics,
		Identity: &authz.Header{Subject: testkit.SubjectHeader, Trusted: func(*http.Request) bool { return true }},
	})
	if err != nil {
		t.Fatal(err)
	}
	backend := func(w http.ResponseWriter, r *http.Request) error {
		stage.ServeHTTP(w, r)
		return nil
	}
	c := testkit.ServePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.ServeHTTP(w, r, backend); err != nil {
			t.Errorf("handler returned %v", err)
		}
	}))
	t.Cleanup(func() {
		now, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("the test is over"))
		_ = engine.Close(now) // it reports the cause
		store.Close()
	})
	return c.As("user-a")
}
