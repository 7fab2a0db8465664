// Package modeltest plays random stories on two gateways that share a store,
// and compares every moment of them with a model.
//
// The gateways are whole engines on a Redis double inside a synctest bubble; a
// story is a list of steps: starts, frames, viewers that come and go, Stops,
// deletions, instances that die or freeze, links that are cut, replies that get
// lost. Whatever happens, these laws hold:
//
//  1. A viewer sees the frames 1, 2, 3, ... of its run as upstream sent them,
//     over any number of connections to any instance, and then one end.
//  2. No frame is shown that the store does not hold.
//  3. A run has one terminal state for ever, and a cause for it: it is
//     completed only if upstream ended it properly, and lost only if something
//     was done to its owner.
//  4. A run is dispatched at most once, and so is a key while it is remembered;
//     never without the word of the store that its intent is stored.
//  5. A conversation is held by at most one run, and by none that has ended.
//  6. Nothing tells somebody else's run from one that does not exist.
//  7. Nothing is gone before its time, and every key has a deadline.
//  8. When all trouble is over every run ends.
package modeltest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "play the story of this seed alone")
	storyFlag = flag.Duration("stories", 0, "play stories of new seeds for so long")
)

// Stories of a run without flags. They take about 15 s of a processor
// under the race detector.
const (
	stories   = 8
	firstSeed = 1
	steps     = 30
)

// TestStoriesKeepTheLaws plays the same stories every time. For more of them:
//
//	go test ./internal/modeltest -stories 10m
//	go test ./internal/modeltest -seed 17
func TestStoriesKeepTheLaws(t *testing.T) {
	if *seedFlag != 0 {
		tell(t, *seedFlag)
		return
	}
	met := make(map[string]int)
	for seed := range uint64(stories) {
		for what, n := range tell(t, firstSeed+seed) {
			met[what] += n
		}
	}
	t.Logf("met %v", met)
	// Stories that nothing happens in would keep every law.
	for _, what := range []string{"completed", "cancelled", "frame", "end", "expired", "start 200", "start 409", "start 503"} {
		if met[what] == 0 {
			t.Errorf("no story had %q: got %v", what, met)
		}
	}
	for began := time.Now(); time.Since(began) < *storyFlag && !t.Failed(); {
		tell(t, rand.Uint64())
	}
}

// longEnough is after an owner that cannot renew has lost its runs.
const longEnough = 2*lease + 6*time.Second

// known are stories that chance seldom tells.
var known = map[string][]step{
	"an owner comes back to a run whose new owner is frozen": {
		{do: doStart, at: 0, conv: 1},
		{do: doFrames, n: 3},
		{do: doFreeze, at: 1, n: int(atTakeover)},
		{do: doFreeze, at: 0, n: int(now)},
		{do: doFrames, n: 1},
		{do: doWait, wait: longEnough},
		{do: doMend, at: 0},
		{do: doFrames, n: 3},
		{do: doWait, wait: lease / 3},
		{do: doFrames, n: 1},
		{do: doEnd},
		{do: doMend, at: 1},
	},
	"an owner freezes between the intent and the dispatch": {
		{do: doFreeze, at: 0, n: int(atIntent)},
		{do: doStart, at: 0, conv: 1, key: 1},
		{do: doWait, wait: longEnough},
		{do: doMend, at: 0},
		{do: doStart, slot: 1, at: 1, conv: 1, key: 1},
		{do: doFrames, n: 1},
	},
	"the reply to the intent is lost": {
		{do: doStart, at: 0, conv: 1, key: 1},
		{do: doLose, at: 0, n: 2},
		{do: doStart, slot: 1, at: 0, conv: 2, key: 2},
		{do: doWait, wait: time.Second},
		{do: doStart, slot: 2, at: 1, conv: 2, key: 2},
		{do: doMend, at: 0},
		{do: doStart, slot: 3, at: 0, conv: 2, key: 2},
	},
	"an intent is stored and its owner does not hear of it": {
		{do: doMiss, at: 0},
		{do: doStart, at: 0, conv: 1, key: 1},
		{do: doWait, wait: time.Second},
		{do: doStart, slot: 1, at: 1, conv: 1, key: 1},
		{do: doFrames, n: 2},
		{do: doWait, wait: longEnough},
		{do: doStart, slot: 2, at: 0, conv: 1, key: 1},
	},
	"the store is away while frames arrive, and again when the end does": {
		{do: doStart, at: 0, conv: 1},
		{do: doJoin, at: 1, viewer: 1},
		{do: doCut, at: 0},
		{do: doFrames, n: 2},
		{do: doWait, wait: time.Second},
		{do: doMend, at: 0},
		{do: doWait, wait: time.Second},
		{do: doCut, at: 0},
		{do: doFrames, n: 1},
		{do: doEnd},
		{do: doWait, wait: 3 * time.Second},
		{do: doMend, at: 0},
		{do: doStart, slot: 1, at: 1, conv: 1},
	},
}

// TestKnownStoriesKeepTheLaws.
func TestKnownStoriesKeepTheLaws(t *testing.T) {
	for name, story := range known {
		t.Run(name, func(t *testing.T) {
			for _, busy := range policies {
				if problems, met := play(t, busy, story); len(problems) > 0 {
					t.Errorf("got problems\n%s\nmet %v", summary(problems), met)
				}
			}
		})
	}
}

// policies for a busy conversation, one for each seed.
var policies = []runregistry.Busy{runregistry.BusyReject, runregistry.BusyAuto, runregistry.BusyReplace}

// tell plays the story of one seed. Its name is printed even if it panics.
func tell(t *testing.T, seed uint64) (met map[string]int) {
	t.Helper()
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		busy := policies[seed%uint64(len(policies))]
		story := plan(rand.New(rand.NewPCG(seed, 0)), steps)
		var problems []string
		problems, met = play(t, busy, story)
		if len(problems) == 0 {
			return
		}
		story, problems = shrink(story, problems, func(s []step) []string {
			problems, _ := play(t, busy, s)
			return problems
		})
		var lines strings.Builder
		for _, s := range story {
			fmt.Fprintf(&lines, "  %s\n", s)
		}
		t.Errorf("seed %d: got problems\n%s\nafter the %d steps\n%s", seed, summary(problems), len(story), lines.String())
	})
	return met
}

// patience bounds the search for a short reproduction.
const patience = time.Minute

// shrink leaves out steps as long as something stays wrong.
func shrink(story []step, problems []string, try func([]step) []string) ([]step, []string) {
	began := time.Now()
	for size := len(story) / 2; size > 0; size /= 2 {
		for from := 0; from < len(story) && time.Since(began) < patience; {
			shorter := slices.Concat(story[:from], story[min(from+size, len(story)):])
			if p := try(shorter); len(p) > 0 {
				story, problems = shorter, p
			} else {
				from += size
			}
		}
	}
	return story, problems
}

// TestShrinkFindsTheStepsThatMatter, and no others.
func TestShrinkFindsTheStepsThatMatter(t *testing.T) {
	story := plan(rand.New(rand.NewPCG(1, 0)), steps)
	needed := []step{story[3], story[17], story[21]}
	short, problems := shrink(story, []string{"wrong"}, func(s []step) []string {
		for _, n := range needed {
			if !slices.Contains(s, n) {
				return nil
			}
		}
		return []string{"still wrong"}
	})
	if !slices.Equal(short, needed) || problems[0] != "still wrong" {
		t.Errorf("got %v and %v, want %v", short, problems, needed)
	}
}
