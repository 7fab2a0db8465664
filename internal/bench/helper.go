package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/load"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/source"
)

// serveSource is the backend as a process: it prints its address and serves
// until its stdin ends.
func serveSource(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	runtime.GOMAXPROCS(1) // one goroutine does the work; more threads only look for it
	server, err := source.Listen(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, server.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	_, _ = io.Copy(io.Discard, stdin) // any end is the end
	return server.Close()
}

// outcome is what the load process prints.
type outcome struct {
	Result load.Result
	// Fault tells what was wrong with streams; empty if nothing was.
	Fault string
}

// runLoad is the client as a process: a plan on stdin, an outcome on stdout.
func runLoad(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	runtime.GOMAXPROCS(1)
	var plan load.Plan
	if err := json.NewDecoder(stdin).Decode(&plan); err != nil {
		return fmt.Errorf("reading plan: %w", err)
	}
	result, err := load.Run(ctx, plan)
	var out outcome
	if fault, ok := errors.AsType[*load.FaultError](err); ok {
		out.Fault = fault.Error()
	} else if err != nil {
		return err
	}
	out.Result = result
	return json.NewEncoder(stdout).Encode(out)
}
