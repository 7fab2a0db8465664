package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/load"
)

// harness starts what is measured and what measures it.
type harness struct {
	self   string // this program, which is also backend and client
	caddy  string
	dir    string // for the built binary, configurations and Caddy's own files
	out    io.Writer
	source *child
	addr   string // of the source
}

// newHarness builds the gateway unless binary names one, and starts the
// backend.
func newHarness(ctx context.Context, binary string, out io.Writer) (*harness, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "agent-runs-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	h := &harness{self: self, caddy: binary, dir: dir, out: out}
	if err := h.prepare(ctx); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *harness) prepare(ctx context.Context) error {
	if h.caddy == "" {
		h.caddy = filepath.Join(h.dir, "caddy")
		h.printf("building ./cmd/caddy\n")
		build := exec.CommandContext(ctx, "go", "build", "-o", h.caddy, "github.com/caddy-agent-runs/caddy-agent-runs/cmd/caddy")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building ./cmd/caddy: %w\n%s", err, text)
		}
	}
	reader, writer := io.Pipe()
	source, err := start(ctx, writer, "", h.self, roleSource)
	if err != nil {
		return err
	}
	h.source = source
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		return fmt.Errorf("reading address of the backend: %w", err)
	}
	h.addr = strings.TrimSpace(line)
	return nil
}

// Close ends the backend and removes every file of this run.
func (h *harness) Close() {
	if h.source != nil {
		h.source.stop()
	}
	os.RemoveAll(h.dir) // a leftover in the directory for such
}

func (h *harness) printf(format string, args ...any) {
	fmt.Fprintf(h.out, format, args...)
}

// run measures every scenario on both sides in turns.
func (h *harness) run(ctx context.Context, p program) (*results, error) {
	res := &results{}
	for _, s := range p.scenarios {
		m := measured{scenario: s}
		for round := range p.rounds {
			for _, sd := range turns(round) {
				r, err := h.measure(ctx, s, sd)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", s.name, sd.name, err)
				}
				h.printf("%-30s %-6s round %d: %8.0f frames/s, %6.2f us/frame, p50 %.3f ms, p99 %.2f ms, %5.1f MB\n",
					s.name, sd.name, round+1, r.Rate(), float64(r.CPUPerFrame())/1e3, float64(r.P50)/1e6, float64(r.P99)/1e6, float64(r.RSSAfter)/1e6)
				m.add(sd, r)
			}
		}
		res.compared = append(res.compared, m)
	}
	if !p.extras {
		return res, nil
	}
	var err error
	res.extras, err = h.extras(ctx)
	return res, err
}

// turns alternates who goes first, so that neither side always follows the
// other.
func turns(round int) []side {
	if round%2 == 0 {
		return []side{plain, ours}
	}
	return []side{ours, plain}
}

// measure runs one scenario once against a fresh gateway.
func (h *harness) measure(ctx context.Context, s scenario, sd side) (load.Result, error) {
	gw, err := h.gateway(ctx, sd)
	if err != nil {
		return load.Result{}, err
	}
	defer gw.stop()
	plan := s.plan()
	plan.Addr, plan.Gateway, plan.Numbered = gw.addr, gw.pid(), sd.numbered
	plan.Source, plan.Backend = h.addr, h.source.pid()
	return h.load(ctx, plan)
}

// load carries a plan out in a process of its own.
func (h *harness) load(ctx context.Context, plan load.Plan) (load.Result, error) {
	var stdout bytes.Buffer
	client, err := start(ctx, &stdout, "", h.self, roleLoad)
	if err != nil {
		return load.Result{}, err
	}
	encodeErr := json.NewEncoder(client.stdin).Encode(plan)
	if err := errors.Join(client.wait(), encodeErr); err != nil {
		return load.Result{}, fmt.Errorf("measuring: %w", err)
	}
	var out outcome
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		return load.Result{}, fmt.Errorf("reading result: %w", err)
	}
	if out.Fault != "" {
		return out.Result, errors.New(out.Fault)
	}
	return out.Result, nil
}

// gateway is a running Caddy.
type gateway struct {
	*child
	addr string
}

// gateway starts one side and waits until it answers.
func (h *harness) gateway(ctx context.Context, sd side) (*gateway, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(h.dir, "Caddyfile."+sd.name)
	if err := os.WriteFile(config, []byte(sd.caddyfile(addr, h.addr)), 0o600); err != nil {
		return nil, fmt.Errorf("writing configuration: %w", err)
	}
	data, err := os.MkdirTemp(h.dir, "data-") // each gateway begins without runs
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	c, err := start(ctx, nil, data, h.caddy, "run", "--adapter", "caddyfile", "--config", config)
	if err != nil {
		return nil, err
	}
	if err := answers(ctx, addr); err != nil {
		c.stop()
		return nil, fmt.Errorf("starting gateway: %w\n%s", err, c.output.String())
	}
	return &gateway{child: c, addr: addr}, nil
}

// freeAddr returns a loopback address that nobody listens on.
func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// answers waits until something accepts connections at addr.
func answers(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", addr, err)
		case <-tick.C:
		}
	}
}
