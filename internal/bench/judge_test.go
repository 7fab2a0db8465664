package main

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/load"
)

// rounds returns one result per CPU time, each of 1,000 frames in a second.
func rounds(cpu ...time.Duration) (all []load.Result) {
	for _, c := range cpu {
		all = append(all, load.Result{Frames: 1000, Elapsed: time.Second, Gateway: c, P50: c / 10, RSSAfter: int64(c)})
	}
	return all
}

func TestMediansAreCompared(t *testing.T) {
	m := measured{
		scenario: scenario{name: "load", streams: 10},
		plain:    rounds(10*time.Millisecond, 90*time.Millisecond, 20*time.Millisecond),
		ours:     rounds(30*time.Millisecond, 25*time.Millisecond, 1*time.Millisecond),
	}
	v := m.judge(cpuPerFrame(1.25))
	if v.plain != 20 || v.ours != 25 {
		t.Errorf("got %v and %v us per frame, want the medians 20 and 25", v.plain, v.ours)
	}
	if v.figure() != 1.25 || !v.met() {
		t.Errorf("got ratio %v, met %t, want 1.25, met", v.figure(), v.met())
	}
	if v.plainSpread != [2]float64{10, 90} || v.oursSpread != [2]float64{1, 30} {
		t.Errorf("got spreads %v and %v, want lowest and highest round", v.plainSpread, v.oursSpread)
	}
}

func TestGoalsBoundRatiosDifferencesAndFloors(t *testing.T) {
	m := measured{
		scenario: scenario{streams: 1},
		plain:    rounds(10 * time.Millisecond),
		ours:     rounds(20 * time.Millisecond),
	}
	half := func(load.Result) time.Duration { return 0 }
	for name, c := range map[string]struct {
		goal goal
		met  bool
		text string
	}{
		"a ratio above its limit":      {cpuPerFrame(1.9), false, "2.00 x"},
		"a ratio below its limit":      {cpuPerFrame(2.1), true, "2.00 x"},
		"a difference above its limit": {latency("p50", 0.5, func(r load.Result) time.Duration { return r.P50 }), false, "+1.00 ms"},
		"a difference below its limit": {latency("p50", 1.5, func(r load.Result) time.Duration { return r.P50 }), true, "+1.00 ms"},
		"nothing added":                {latency("p99", 0.1, half), true, "+0.00 ms"},
		"a floor that is held":         {delivered(0.9), true, "1.00 x"},
		"a floor that is not held":     {delivered(1.1), false, "1.00 x"},
	} {
		v := m.judge(c.goal)
		if v.met() != c.met || v.comparison() != c.text {
			t.Errorf("%s: got %s, met %t, want %s, met %t", name, v.comparison(), v.met(), c.text, c.met)
		}
	}
}

func TestMedianIsAValueThatWasSeen(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestReportNamesEveryGoalAndWhatWasMissed(t *testing.T) {
	res := &results{
		compared: []measured{{
			scenario: scenario{name: "some load", streams: 1, goals: []goal{cpuPerFrame(1.5), delivered(0.5)}},
			plain:    rounds(10 * time.Millisecond),
			ours:     rounds(20 * time.Millisecond),
		}},
		extras: []extra{{scenario: "some readers", name: "memory", unit: "kB", ours: 3, limit: 4}},
	}
	rep := newReport(res, machine{cores: 2, rounds: 1})
	var text strings.Builder
	rep.print(&text)
	for form, shown := range map[string]string{"table": text.String(), "Markdown": string(rep.markdown("plot.svg"))} {
		for _, want := range []string{"some load", "gateway CPU per frame", "2.00 x", "<= 1.5 x", "MISSED", "delivered frames", "some readers", "<= 4.00 kB"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%s: got no %q in\n%s", form, want, shown)
			}
		}
	}
}
