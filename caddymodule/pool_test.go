package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestFirstRequestOpensTheStore: Caddy starts its apps in random order, so the
// http app may serve before ours has started.
func TestFirstRequestOpensTheStore(t *testing.T) {
	h, cancel := provisionedHandler(t, `{}`)
	defer cancel()
	shared := onlyEngine(t)
	if shared.opened() {
		t.Fatal("store of a provisioned handler: got an open one, want none")
	}
	passed := false
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { passed = true; return nil })
	if err := h.ServeHTTP(httptest.NewRecorder(), prepared(t, nil), next); err != nil {
		t.Fatalf("request before the app started: got %v, want no error", err)
	}
	if !passed || !shared.opened() {
		t.Errorf("request before the app started: got passed %t, store open %t, want both", passed, shared.opened())
	}
}

// TestRequestAfterTheEndIsRefused: an old connection may still bring one when
// nothing is left to serve it.
func TestRequestAfterTheEndIsRefused(t *testing.T) {
	h, cancel := provisionedHandler(t, `{}`)
	if _, err := h.engine.open(); err != nil {
		t.Fatal(err)
	}
	cancel()
	engines.Close()
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	err := h.ServeHTTP(httptest.NewRecorder(), prepared(t, nil), next)
	failed, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || failed.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("request after the end: got %v, want 503", err)
	}
}

// provisionedHandler loads a handler as a configuration does that is not
// started yet. cancel unloads it.
func provisionedHandler(t *testing.T, config string) (h *Handler, cancel func()) {
	t.Helper()
	cfg := &caddy.Config{Logging: silence(), StorageRaw: fileStorage(t), Admin: &caddy.AdminConfig{Disabled: true}}
	ctx, err := caddy.ProvisionContext(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = caddy.NewContext(ctx)
	loaded, err := ctx.LoadModuleByID("http.handlers.agent_runs", []byte(config))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	h, ok := loaded.(*Handler)
	if !ok {
		t.Fatalf("module: got a %T, want a handler", loaded)
	}
	return h, cancel
}

// TestDestructWaitsForTheLastRun: a request of an old configuration may have
// started one when its configuration was already gone. (Promise 4.)
func TestDestructWaitsForTheLastRun(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	c := u.next()
	c.frames <- token("one")
	reader.next()
	closed := make(chan error)
	go func() { closed <- onlyEngine(t).Destruct() }()
	reader.drained()
	select {
	case err := <-closed:
		t.Fatalf("destruction during a run: got %v, want it to wait", err)
	case <-c.gone:
		t.Fatal("destruction during a run: closed the backend, want it to wait")
	default:
	}
	c.finish()
	if err := <-closed; err != nil {
		t.Errorf("destruction after the run: got %v, want no error", err)
	}
}

// TestClosingTwiceIsHarmless: Stop closes, and Cleanup after it does again.
func TestClosingTwiceIsHarmless(t *testing.T) {
	shared, err := engines.acquire(Store{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.open(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := shared.close(context.Background()); err != nil {
			t.Errorf("closing: got %v, want no error", err)
		}
	}
	engines.release(shared, 0)
	if n := poolSize(); n != 0 {
		t.Errorf("engines after the release: got %d, want none", n)
	}
}
