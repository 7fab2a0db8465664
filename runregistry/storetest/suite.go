// Package storetest states the promises of [runregistry.Store] as tests that
// every engine passes.
//
// The groups of tests are the numbered promises of package runregistry. An
// engine calls [Run] where it is as real as it gets, [RunTimed] where it can
// live inside a synctest bubble, and [RunBounded] if its memory has a bound.
package storetest

import (
	"testing"
	"testing/synctest"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Open returns an empty store, which it closes in a cleanup of t.
type Open func(t *testing.T) runregistry.Store

// promise is a group of tests.
type promise struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(f *fixture)
}

// steady are the promises that need no clock.
func steady() []promise {
	return []promise{
		{"1 admission is one step", concat(keyTests, attemptTests, implicitTests, conversationTests, replacementTests, lineTests, limitTests, aliasTests, parallelTests)},
		{"2 a frame is visible after its append", readTests},
		{"3 numbers have no hole", concat(appendTests, progressTests)},
		{"4 settle is one step", concat(settleTests, stopTests, freeTests)},
		{"5 only a takeover ends ownership", fenceTests},
		{"6 hints may be lost, the log may not", concat(watchTests, interleaveTests)},
		{"7 lost is never silent", trimTests},
		{"8 what is deleted is gone", deletionTests},
		{"9 a page is bounded", pageTests},
		{"10 readers are counted", readerTests},
		{"lists and look-ups", concat(listTests, lookupTests)},
		{"every call", callTests},
	}
}

// timed are the promises about time.
func timed() []promise {
	return []promise{
		{"1 the newest broken delivery is claimed first", claimOrderTests},
		{"8 everything has a deadline", concat(retentionTests, keyWindowTests)},
		{"times of the record", clockTests},
		{"lists are newest first", listOrderTests},
	}
}

func concat(groups ...[]test) []test {
	var all []test
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// Run tests everything that needs no clock, in real time.
func Run(t *testing.T, open Open) {
	t.Helper()
	each(t, steady(), func(t *testing.T, run func(*fixture)) {
		run(newFixture(t, open(t)))
	})
}

// RunTimed tests everything, each test inside a synctest bubble of its own.
// Retention passes in no time, and a goroutine that outlives the store fails
// the test.
func RunTimed(t *testing.T, open Open) {
	t.Helper()
	each(t, append(steady(), timed()...), func(t *testing.T, run func(*fixture)) {
		synctest.Test(t, func(t *testing.T) { run(newFixture(t, open(t))) })
	})
}

// RunBounded tests a store whose memory is used up by frames of about the
// given number of bytes. It runs in real time.
func RunBounded(t *testing.T, memory int, open Open) {
	t.Helper()
	for _, tt := range boundedTests {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(newFixture(t, open(t)), memory)
		})
	}
}

func each(t *testing.T, promises []promise, run func(*testing.T, func(*fixture))) {
	t.Helper()
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			for _, tt := range p.tests {
				t.Run(tt.name, func(t *testing.T) { run(t, tt.run) })
			}
		})
	}
}
