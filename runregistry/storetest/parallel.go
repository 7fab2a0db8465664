package storetest

import (
	"fmt"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var parallelTests = []test{
	{"100 parallel equal requests with one key are one run", parallelKeyed},
	{"50 parallel equal requests without key and conversation are 50 runs", parallelKeyless},
	{"20 parallel requests in one conversation are one run", parallelConversation},
	{"20 parallel equal requests in one conversation are one run", parallelEchoes},
	{"50 parallel starts of a subject share its limit", parallelLimit},
	{"50 parallel starts in the tenant's scope share a subject's limit", parallelLimitOfTenant},
	{"50 parallel starts in both scopes share a subject's limit", parallelLimitOfBoth},
	{"20 parallel replacements leave one holder", parallelReplacements},
}

// outcome is what one of many parallel admissions got.
type outcome struct {
	decision *runregistry.Decision
	err      error
}

// race sends admissions at the same moment.
func (f *fixture) race(n int, request func(i int) *runregistry.Admission) []outcome {
	f.Helper()
	outcomes := make([]outcome, n)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		a := request(i)
		all.Go(func() {
			<-gate
			d, err := f.Admit(f.ctx, a)
			outcomes[i] = outcome{d, err}
		})
	}
	close(gate)
	all.Wait()
	f.Cleanup(func() {
		for _, o := range outcomes {
			if o.err == nil {
				o.decision.Watch.Close()
			}
		}
	})
	return outcomes
}

// count sorts outcomes into new runs, attached requests and errors, and
// collects the runs.
func count(outcomes []outcome) (started, attached, refused int, runs map[runregistry.RunID]bool) {
	runs = make(map[runregistry.RunID]bool)
	for _, o := range outcomes {
		switch {
		case o.err != nil:
			refused++
			continue
		case o.decision.Match == runregistry.MatchNone:
			started++
		default:
			attached++
		}
		runs[o.decision.Record.ID] = true
	}
	return started, attached, refused, runs
}

func (f *fixture) wantCount(outcomes []outcome, started, attached, refused int) {
	f.Helper()
	s, a, r, _ := count(outcomes)
	if s != started || a != attached || r != refused {
		f.Errorf("got %d started, %d attached, %d refused, want %d, %d, %d", s, a, r, started, attached, refused)
	}
}

func parallelKeyed(f *fixture) {
	outcomes := f.race(100, func(int) *runregistry.Admission { return ask(keyed("k"), echo("hi")) })
	f.wantCount(outcomes, 1, 99, 0)
	_, _, _, runs := count(outcomes)
	want(f, "runs", len(runs), 1)
	for id := range runs {
		want(f, "deliveries", f.load(id).Delivery.Pending, 100)
		n, err := f.Readers(f.ctx, id)
		if err != nil || n != 100 {
			f.Errorf("got %d readers and error %v, want 100", n, err)
		}
	}
}

func parallelKeyless(f *fixture) {
	outcomes := f.race(50, func(int) *runregistry.Admission { return ask(echo("hi")) })
	f.wantCount(outcomes, 50, 0, 0)
	_, _, _, runs := count(outcomes)
	want(f, "runs", len(runs), 50)
}

func parallelConversation(f *fixture) {
	outcomes := f.race(20, func(i int) *runregistry.Admission {
		return ask(in("c"), echo(fmt.Sprint("body ", i)))
	})
	f.wantCount(outcomes, 1, 0, 19)
	for _, o := range outcomes {
		if o.err != nil {
			f.wantBusy(o.err)
		}
	}
}

func parallelEchoes(f *fixture) {
	outcomes := f.race(20, func(int) *runregistry.Admission { return ask(in("c"), echo("hi")) })
	f.wantCount(outcomes, 1, 19, 0)
}

func parallelLimit(f *fixture) {
	f.wantSharedLimit(func(int) detail { return atMost(7) })
}

func parallelLimitOfTenant(f *fixture) {
	f.wantSharedLimit(func(int) detail { return shared })
}

// A store may keep the runs of the two scopes apart; the limit is of both.
func parallelLimitOfBoth(f *fixture) {
	f.wantSharedLimit(alternately)
}

// alternately puts every other request into the tenant's scope.
func alternately(i int) detail {
	if i%2 == 0 {
		return shared
	}
	return atMost(7)
}

// wantSharedLimit starts 50 runs at the same moment, of which 7 may be active.
func (f *fixture) wantSharedLimit(where func(i int) detail) {
	f.Helper()
	outcomes := f.race(50, func(i int) *runregistry.Admission { return ask(atMost(7), where(i)) })
	f.wantCount(outcomes, 7, 0, 43)
	for _, o := range outcomes {
		if o.err != nil {
			f.wantLimit(o.err, 7)
		}
	}
}

func parallelReplacements(f *fixture) {
	outcomes := f.race(20, func(int) *runregistry.Admission { return ask(in("c"), busy(runregistry.BusyReplace)) })
	f.wantCount(outcomes, 20, 0, 0)
	_, _, _, runs := count(outcomes)
	queued := 0
	for id := range runs {
		if f.load(id).State == runregistry.Queued {
			queued++
		}
	}
	want(f, "runs that hold the conversation", queued, 1)
	superseded := make(map[runregistry.RunID]bool)
	for _, o := range outcomes {
		superseded[o.decision.Superseded] = true
	}
	want(f, "distinct superseded runs and none", len(superseded), 20)
}
