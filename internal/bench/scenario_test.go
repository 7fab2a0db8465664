package main

import (
	"strings"
	"testing"
)

func TestSidesDifferInOneLine(t *testing.T) {
	a := strings.Split(plain.caddyfile("127.0.0.1:1", "127.0.0.1:2"), "\n")
	b := strings.Split(ours.caddyfile("127.0.0.1:1", "127.0.0.1:2"), "\n")
	if len(b) != len(a)+1 {
		t.Fatalf("got %d and %d lines, want one more", len(a), len(b))
	}
	added := 0
	for _, line := range b {
		if strings.TrimSpace(line) == "agent_runs" {
			added++
			continue
		}
		if !strings.Contains(strings.Join(a, "\n"), line) {
			t.Errorf("got line %q on one side only", line)
		}
	}
	if added != 1 {
		t.Errorf("got agent_runs %d times, want once", added)
	}
}

func TestSidesTakeTurnsInGoingFirst(t *testing.T) {
	for round := range 4 {
		first, second := turns(round)[0], turns(round)[1]
		if first == second {
			t.Errorf("round %d: got %s twice", round, first.name)
		}
		if round > 0 && first == turns(round - 1)[0] {
			t.Errorf("round %d: got %s first again", round, first.name)
		}
	}
}

func TestPlansAskForWhatTheScenarioSays(t *testing.T) {
	for _, p := range []program{quick, full} {
		for _, s := range p.scenarios {
			plan := s.plan()
			query := "?rate="
			if s.rate == 0 {
				query = "?frames="
			}
			if !strings.Contains(plan.Request, query) || plan.Streams != s.streams || len(s.goals) == 0 {
				t.Errorf("%s: got %q for %d streams with %d goals", s.name, plan.Request, plan.Streams, len(s.goals))
			}
			if s.rate > 0 && plan.Window == 0 {
				t.Errorf("%s: got a paced load without a window, which never ends", s.name)
			}
		}
	}
	if got := filesNeeded(quick.scenarios); got < 2000 {
		t.Errorf("got %d files, want two for each of 1,000 streams", got)
	}
}
