package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/load"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/source"
)

// extra is a number that plain reverse_proxy has no side of.
type extra struct {
	scenario string
	name     string
	unit     string
	ours     float64
	limit    float64
	atLeast  bool
}

func (e extra) met() bool {
	if e.atLeast {
		return e.ours >= e.limit
	}
	return e.ours <= e.limit
}

func (e extra) value() string { return withUnit(e.ours, e.unit) }

func (e extra) bound() string {
	if e.atLeast {
		return ">= " + withUnit(e.limit, e.unit)
	}
	return "<= " + withUnit(e.limit, e.unit)
}

// credential makes every request one subject, so that readers may read.
const credential = "Bearer bench"

// patience bounds each step of an extra.
const patience = 60 * time.Second

// extras measures what only agent_runs can do.
func (h *harness) extras(ctx context.Context) ([]extra, error) {
	var all []extra
	for _, measure := range []func(context.Context, *gateway) ([]extra, error){
		h.replays, h.fanOut, h.idleReaders, h.oneKey, h.longRun,
	} {
		gw, err := h.gateway(ctx, ours)
		if err != nil {
			return nil, err
		}
		found, err := measure(ctx, gw)
		gw.stop()
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			h.printf("%-30s %-28s %s\n", e.scenario, e.name, e.value())
		}
		all = append(all, found...)
	}
	return all, nil
}

// begin starts a run and leaves it: the run goes on without its client.
func (h *harness) begin(ctx context.Context, gw *gateway, query string) (runID string, err error) {
	body := strings.NewReader(`{"model":"bench","stream":true,"messages":[{"role":"user","content":"one"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+gw.addr+source.Generate+"?"+query, body)
	if err != nil {
		return "", fmt.Errorf("starting a run: %w", err)
	}
	req.Header.Set("Authorization", credential)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("starting a run: %w", err)
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("X-Run-Id"); id != "" {
		return id, nil
	}
	return "", fmt.Errorf("starting a run: got %s without X-Run-Id", resp.Status)
}

// readers is a plan of n readers of one run.
func (h *harness) readers(gw *gateway, runID string, n int) load.Plan {
	return load.Plan{
		Addr: gw.addr, Gateway: gw.pid(), Source: h.addr, Backend: h.source.pid(),
		Request: "GET /_runs/" + runID + "/events?control=off HTTP/1.1\r\nAuthorization: " + credential,
		Streams: n, Numbered: true, Patience: patience,
	}
}

// tell sends a control request to the backend and returns its answer.
func (h *harness) tell(ctx context.Context, method, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+h.addr+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("telling the backend: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("telling the backend: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// replays reads a finished run of 10,000 frames again and again.
func (h *harness) replays(ctx context.Context, gw *gateway) ([]extra, error) {
	const frames, times = 10_000, 15
	id, err := h.begin(ctx, gw, fmt.Sprintf("frames=%d", frames))
	if err != nil {
		return nil, err
	}
	plan := h.readers(gw, id, 1)
	plan.Whole = true
	// The first reader lets the burst go and sees it to its end.
	if _, err := h.load(ctx, plan); err != nil {
		return nil, err
	}
	plan.Source = ""
	var rates, firsts []float64
	for range times {
		r, err := h.load(ctx, plan)
		if err != nil {
			return nil, err
		}
		rates = append(rates, r.Rate())
		firsts = append(firsts, float64(r.FirstByte)/1e6)
	}
	name := "replay of 10,000 frames"
	return []extra{
		{scenario: name, name: "replayed frames", unit: "/s", ours: median(rates), limit: 1_000_000, atLeast: true},
		{scenario: name, name: "first frame", unit: "ms", ours: median(firsts), limit: 1},
	}, nil
}

// fanOut shows one run to 1,000 readers. The goal is about what the gateway
// does beside the write itself, so the cost of a bare write to as many sockets
// is taken off: what the backend spends when the same client reads from it
// directly.
func (h *harness) fanOut(ctx context.Context, gw *gateway) ([]extra, error) {
	direct := paced1000.plan()
	direct.Addr, direct.Source, direct.Backend = h.addr, h.addr, h.source.pid()
	bare, err := h.load(ctx, direct)
	if err != nil {
		return nil, err
	}
	id, err := h.begin(ctx, gw, "rate=50")
	if err != nil {
		return nil, err
	}
	plan := h.readers(gw, id, direct.Streams)
	plan.Settle, plan.Window = time.Second, 4*time.Second
	r, err := h.load(ctx, plan)
	if err != nil {
		return nil, err
	}
	return []extra{{
		scenario: "1,000 readers of one run", name: "CPU per frame beside the write", unit: "us",
		ours: float64(r.CPUPerFrame()-bare.BackendPerFrame()) / 1e3, limit: 1.5,
	}}, nil
}

// idleReaders lets 1,000 readers wait for a run that says nothing.
func (h *harness) idleReaders(ctx context.Context, gw *gateway) ([]extra, error) {
	id, err := h.begin(ctx, gw, "frames=2")
	if err != nil {
		return nil, err
	}
	plan := h.readers(gw, id, 1000)
	plan.Settle, plan.Window = 2*time.Second, 4*time.Second
	r, err := h.load(ctx, plan)
	if err != nil {
		return nil, err
	}
	name := "1,000 idle readers"
	return []extra{
		{scenario: name, name: "memory per reader", unit: "kB", ours: r.RSSPerStream(plan.Streams) / 1e3, limit: 16},
		{scenario: name, name: "gateway CPU", unit: "% of a core", ours: 100 * r.Gateway.Seconds() / r.Elapsed.Seconds(), limit: 0.5},
	}, nil
}

// oneKey sends 100 equal requests with one idempotency key at once.
func (h *harness) oneKey(ctx context.Context, gw *gateway) ([]extra, error) {
	plan := paced100.plan()
	plan.Addr, plan.Gateway, plan.Numbered = gw.addr, gw.pid(), true
	plan.Source, plan.Backend = h.addr, h.source.pid()
	plan.Request += "\r\nIdempotency-Key: bench"
	plan.Body = strings.ReplaceAll(plan.Body, "%d", "")
	plan.Window = time.Second
	before, err := h.calls(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := h.load(ctx, plan); err != nil {
		return nil, err
	}
	after, err := h.calls(ctx)
	return []extra{{
		scenario: "100 POSTs with one key", name: "upstream calls", unit: "",
		ours: float64(after - before), limit: 1,
	}}, err
}

// calls returns how many generations the backend has served.
func (h *harness) calls(ctx context.Context) (int, error) {
	text, err := h.tell(ctx, http.MethodGet, source.Calls)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// longRun compares a frame of one very long run with a frame of many short
// ones.
func (h *harness) longRun(ctx context.Context, gw *gateway) ([]extra, error) {
	var costs []float64
	for _, shape := range []scenario{{streams: 20, frames: 20_000}, {streams: 1, frames: 400_000}} {
		plan := shape.plan()
		plan.Addr, plan.Gateway, plan.Numbered = gw.addr, gw.pid(), true
		plan.Source, plan.Backend = h.addr, h.source.pid()
		r, err := h.load(ctx, plan)
		if err != nil {
			return nil, err
		}
		costs = append(costs, float64(r.CPUPerFrame()))
	}
	return []extra{{
		scenario: "one run of 400,000 frames", name: "CPU per frame to short runs", unit: "x",
		ours: costs[1] / max(costs[0], 1), limit: 1.25,
	}}, nil
}
