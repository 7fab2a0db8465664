package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var interleaveTests = []test{
	{"an append at every interleaving of replay and tail is seen once", interleaveAppends},
	{"readers that come at any moment see the whole log once", interleaveReaders},
}

// stepper is a reader in slow motion: it subscribes first, then reads until
// there is nothing new, then waits for a hint and reads again.
type stepper struct {
	*fixture
	run   runregistry.RunID
	limit int // bytes per page
	watch *runregistry.Watch
	rest  bool // it waits for a hint
	after runregistry.Seq
	page  runregistry.Page
}

// step does one thing and reports whether the reader is at rest.
func (s *stepper) step() bool {
	switch {
	case s.watch == nil:
		s.watch = s.fixture.watch(s.run, true)
	case s.rest:
		select {
		case <-s.watch.C:
			s.rest = false
		default:
		}
	default:
		s.read()
	}
	return s.rest
}

func (s *stepper) read() {
	s.page = s.fixture.page(runregistry.PageQuery{Run: s.run, After: s.after, Into: s.page.Frames, MaxBytes: s.limit})
	for _, fr := range s.page.Frames {
		if s.after++; fr.Seq != s.after || string(fr.Data) != fmt.Sprint(s.after) {
			s.Fatalf("got frame %d with %q, want frame %d", fr.Seq, fr.Data, s.after)
		}
	}
	s.rest = len(s.page.Frames) == 0
}

// drain lets the reader go on until it has seen the end. A hint that is under
// way is waited for; none that is needed may be missing.
func (s *stepper) drain() {
	for !s.atEnd() {
		if s.step() && !s.atEnd() {
			s.awaken(s.watch)
			s.rest = false
		}
	}
}

func (s *stepper) atEnd() bool { return s.page.State.Terminal() && !s.page.More(s.after) }

const (
	interleavedFrames = 4
	interleavedSteps  = 7 // subscribe, and three times read and rest
)

// interleaveAppends puts every append, and then the end, before every step of
// a reader, in all combinations.
func interleaveAppends(f *fixture) {
	schedules := 0
	for _, limit := range []int{1, 2, 0} {
		eachSchedule(interleavedFrames+1, interleavedSteps, func(at []int) {
			schedules++
			f.interleave(at, limit)
		})
	}
	if schedules < 1000 {
		f.Errorf("got %d schedules, want all of them", schedules)
	}
}

// interleave runs one schedule: event i happens before step at[i].
func (f *fixture) interleave(at []int, limit int) {
	f.Helper()
	l := f.running()
	s := &stepper{fixture: f, run: l.Run, limit: limit}
	next := 0
	for step := range interleavedSteps + 1 {
		for ; next < len(at) && at[next] == step; next++ {
			if next == interleavedFrames {
				f.complete(l)
				continue
			}
			f.add(l, runregistry.Seq(next), fmt.Sprint(next+1)) //nolint:gosec // an index
		}
		s.step()
	}
	s.drain()
	s.watch.Close()
	if s.after != interleavedFrames {
		f.Fatalf("schedule %v: got %d frames, want %d", at, s.after, interleavedFrames)
	}
}

// eachSchedule calls use with every ascending choice of n steps.
func eachSchedule(n, steps int, use func(at []int)) {
	at := make([]int, n)
	var choose func(i, from int)
	choose = func(i, from int) {
		if i == n {
			use(at)
			return
		}
		for at[i] = from; at[i] <= steps; at[i]++ {
			choose(i+1, at[i])
		}
	}
	choose(0, 0)
}

func interleaveReaders(f *fixture) {
	const frames, readers = 300, 20
	l := f.running()
	var all sync.WaitGroup
	for i := range readers {
		joins := make(chan struct{})
		all.Go(func() {
			<-joins
			if n, err := f.tail(l.Run, 1+i*7); n != frames || err != nil {
				f.Errorf("reader %d: got %d frames and error %v, want %d frames", i, n, err, frames)
			}
		})
		f.addNumbers(l, i*frames/readers, (i+1)*frames/readers)
		close(joins)
	}
	f.complete(l)
	all.Wait()
}

// tail reads a run to its end as fast as it can, and counts its frames.
func (f *fixture) tail(run runregistry.RunID, limit int) (runregistry.Seq, error) {
	w, err := f.Watch(f.ctx, run, true)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	q := runregistry.PageQuery{Run: run, MaxBytes: limit}
	for {
		p, err := f.Read(f.ctx, q)
		if err != nil {
			return q.After, err
		}
		for _, fr := range p.Frames {
			if q.After++; fr.Seq != q.After || string(fr.Data) != fmt.Sprint(q.After) {
				return q.After, fmt.Errorf("frame %d holds %q in place %d", fr.Seq, fr.Data, q.After)
			}
		}
		switch {
		case len(p.Frames) > 0:
		case p.State.Terminal():
			return q.After, nil
		default:
			select {
			case <-w.C:
			case <-time.After(patience):
				return q.After, errors.New("no hint came")
			}
		}
		q.Into = p.Frames
	}
}

func (f *fixture) addNumbers(l runregistry.Lease, from, to int) {
	f.Helper()
	for n := from; n < to; n++ {
		f.add(l, runregistry.Seq(n), fmt.Sprint(n+1)) //nolint:gosec // an index
	}
}
