package main

import (
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/load"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/source"
)

// scenario is one kind of load.
type scenario struct {
	// name stands in the report.
	name    string
	streams int
	// rate is frames per second and stream; 0 means a burst of frames each.
	rate, frames int
	settle       time.Duration
	window       time.Duration
	// goals are what of it is judged.
	goals []goal
}

// goal is one number of a scenario and how far the gateway may be from plain
// reverse_proxy.
type goal struct {
	name string
	unit string
	of   func(scenario, load.Result) float64
	// limit bounds ours/plain, or ours-plain when added is set.
	limit float64
	added bool
	// atLeast turns the limit into a lower one.
	atLeast bool
}

func cpuPerFrame(limit float64) goal {
	return goal{name: "gateway CPU per frame", unit: "us", limit: limit, of: func(_ scenario, r load.Result) float64 {
		return float64(r.Gateway) / float64(max(r.Frames, 1)) / 1e3
	}}
}

func delivered(limit float64) goal {
	return goal{name: "delivered frames", unit: "/s", limit: limit, atLeast: true, of: func(_ scenario, r load.Result) float64 {
		return r.Rate()
	}}
}

func latency(name string, limit float64, of func(load.Result) time.Duration) goal {
	return goal{name: "latency " + name, unit: "ms", limit: limit, added: true, of: func(_ scenario, r load.Result) float64 {
		return float64(of(r)) / 1e6
	}}
}

func memoryPerStream(limit float64) goal {
	return goal{name: "memory per stream", unit: "kB", limit: limit, added: true, of: func(s scenario, r load.Result) float64 {
		return r.RSSPerStream(s.streams) / 1e3
	}}
}

// The scenarios. Their goals are those of an embedded store.
var (
	paced100 = scenario{
		name: "100 streams x 50/s", streams: 100, rate: 50, settle: time.Second, window: 4 * time.Second,
		goals: []goal{
			latency("p50", 0.1, func(r load.Result) time.Duration { return r.P50 }),
			latency("p99", 2, func(r load.Result) time.Duration { return r.P99 }),
			cpuPerFrame(1.25),
		},
	}
	paced1000 = scenario{
		name: "1,000 streams x 50/s", streams: 1000, rate: 50, settle: time.Second, window: 4 * time.Second,
		goals: []goal{cpuPerFrame(1.25), delivered(0.9)},
	}
	bursts = scenario{
		name: "bursts, 50 streams x 20,000", streams: 50, frames: 20_000, settle: 500 * time.Millisecond,
		goals: []goal{cpuPerFrame(1.5), delivered(0.6)},
	}
	held1000 = scenario{
		name: "1,000 streams x 1/s", streams: 1000, rate: 1, settle: 500 * time.Millisecond, window: 2 * time.Second,
		goals: []goal{memoryPerStream(32)},
	}
	paced5000 = scenario{
		name: "5,000 streams x 4/s", streams: 5000, rate: 4, settle: 2 * time.Second, window: 6 * time.Second,
		goals: []goal{cpuPerFrame(1.25), delivered(0.9), memoryPerStream(32)},
	}
)

var (
	quick = program{
		scenarios: []scenario{paced100, paced1000, bursts, held1000},
		rounds:    3, bound: 10 * time.Minute,
	}
	full = program{
		scenarios: []scenario{paced100, paced1000, bursts, held1000, paced5000},
		rounds:    5, bound: 40 * time.Minute, extras: true,
	}
)

// filesNeeded returns how many open files one process needs at most: the
// gateway holds two sockets per stream.
func filesNeeded(all []scenario) uint64 {
	var most int
	for _, s := range all {
		most = max(most, s.streams)
	}
	return uint64(2*most + 500)
}

// plan returns what the client does in this scenario. The request is what an
// SDK would send.
func (s scenario) plan() load.Plan {
	query := fmt.Sprintf("rate=%d", s.rate)
	if s.rate == 0 {
		query = fmt.Sprintf("frames=%d", s.frames)
	}
	return load.Plan{
		Request: "POST " + source.Generate + "?" + query + " HTTP/1.1\r\n" +
			"Authorization: " + credential + "\r\nContent-Type: application/json\r\nAccept: application/json",
		Body:     `{"model":"bench","stream":true,"messages":[{"role":"user","content":"stream %d"}]}`,
		Streams:  s.streams,
		Settle:   s.settle,
		Window:   s.window,
		Patience: patience,
	}
}
