package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/proc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) // stop was called
	}
}

// The first argument names what to do. The last two are how the harness starts
// its own helpers.
const (
	roleQuick  = "quick"
	roleFull   = "full"
	roleSource = "source"
	roleLoad   = "load"
)

var errUsage = errors.New("usage: bench quick|full [-rounds n] [-caddy binary] [-write docs/performance.md]")

func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case roleSource:
		return serveSource(ctx, os.Stdin, os.Stdout)
	case roleLoad:
		return runLoad(ctx, os.Stdin, os.Stdout)
	case roleQuick:
		return compare(ctx, quick, args[1:], os.Stdout)
	case roleFull:
		return compare(ctx, full, args[1:], os.Stdout)
	default:
		return errUsage
	}
}

// program is one choice of what to measure.
type program struct {
	scenarios []scenario
	rounds    int
	extras    bool          // also what only agent_runs can do
	bound     time.Duration // the whole run
}

func compare(ctx context.Context, p program, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", p.rounds, "how often each side is measured")
	binary := flags.String("caddy", "", "a built Caddy with agent_runs; empty builds ./cmd/caddy")
	write := flags.String("write", "", "also write this report, and its plot beside it")
	if err := flags.Parse(args); err != nil {
		return errors.Join(err, errUsage)
	}
	p.rounds = max(*rounds, 1)
	ctx, cancel := context.WithTimeoutCause(ctx, p.bound, fmt.Errorf("took longer than %v", p.bound))
	defer cancel()
	if err := proc.RaiseFiles(filesNeeded(p.scenarios)); err != nil {
		return err
	}
	h, err := newHarness(ctx, *binary, out)
	if err != nil {
		return err
	}
	defer h.Close()
	began := time.Now()
	results, err := h.run(ctx, p)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	rep := newReport(results, machine{
		cores: runtime.NumCPU(), goVersion: runtime.Version(), load: proc.LoadAverage(), took: time.Since(began), rounds: p.rounds,
	})
	rep.print(out)
	if *write == "" {
		return nil
	}
	return rep.write(ctx, *write)
}
