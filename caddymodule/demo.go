package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/demo"
)

// demoAgent serves the scripted agent on the loopback interface, as an
// application behind Caddy would be.
type demoAgent struct {
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
}

// startDemo listens on a free port.
func startDemo() (*demoAgent, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the demo agent: %w", err)
	}
	a := &demoAgent{
		listener: listener,
		server:   &http.Server{Handler: demo.Handler(), ReadHeaderTimeout: time.Minute},
	}
	a.serving.Go(func() {
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the demo agent stopped", slog.Any("error", err))
		}
	})
	return a, nil
}

// address is where the agent listens.
func (a *demoAgent) address() string { return a.listener.Addr().String() }

// Close ends all answers and waits for the server.
func (a *demoAgent) Close() error {
	err := a.server.Close()
	a.serving.Wait()
	if err != nil {
		return fmt.Errorf("stopping the demo agent: %w", err)
	}
	return nil
}
