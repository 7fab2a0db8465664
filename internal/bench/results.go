package main

import (
	"slices"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/load"
)

// results are everything one run of the harness saw.
type results struct {
	compared []measured
	extras   []extra
}

// measured is one scenario on both sides, round by round.
type measured struct {
	scenario    scenario
	plain, ours []load.Result
}

func (m *measured) add(sd side, r load.Result) {
	if sd == plain {
		m.plain = append(m.plain, r)
	} else {
		m.ours = append(m.ours, r)
	}
}

// verdict is one judged number.
type verdict struct {
	scenario string
	goal     goal
	plain    float64
	ours     float64
	// spread of the two sides over the rounds, lowest and highest
	plainSpread, oursSpread [2]float64
}

func (m *measured) judge(g goal) verdict {
	p, o := m.values(m.plain, g), m.values(m.ours, g)
	return verdict{
		scenario: m.scenario.name, goal: g,
		plain: median(p), ours: median(o),
		plainSpread: [2]float64{slices.Min(p), slices.Max(p)},
		oursSpread:  [2]float64{slices.Min(o), slices.Max(o)},
	}
}

func (m *measured) values(rounds []load.Result, g goal) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = g.of(m.scenario, r)
	}
	return values
}

// figure is what the goal bounds: a ratio or a difference.
func (v verdict) figure() float64 {
	switch {
	case v.goal.added:
		return v.ours - v.plain
	case v.plain == 0:
		return 0
	default:
		return v.ours / v.plain
	}
}

func (v verdict) met() bool {
	if v.goal.atLeast {
		return v.figure() >= v.goal.limit
	}
	return v.figure() <= v.goal.limit
}

// median of an even number of values is the lower of the middle two, so that it
// is always a value that was seen.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
