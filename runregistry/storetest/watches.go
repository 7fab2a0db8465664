package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var watchTests = []test{
	{"whatever happens to a run is announced", watchAnnounces},
	{"every watcher is told", watchEverybody},
	{"a closed watch is told nothing, and closing twice is harmless", watchClosed},
	{"what happened before the watch is for the read to find", watchThenRead},
	{"a run that does not exist cannot be watched", watchUnknown},
}

var readerTests = []test{
	{"reading watches count until they are closed", readersCount},
	{"an admission counts its caller", readersOfAdmission},
	{"the others are told that the last reader left", readersLeave},
	{"readers of an ended run count too", readersAfterEnd},
}

func watchAnnounces(f *fixture) {
	d := f.start(in("c"))
	w := f.watch(d.Record.ID, false)
	for _, happens := range []func(){
		func() { f.intend(d.Lease) },
		func() { f.add(d.Lease, 0, "one") },
		func() { f.advance(d.Lease, runregistry.Progress{State: runregistry.Waiting}) },
		func() { f.stop(d.Record.ID) },
		func() { f.advance(d.Lease, runregistry.Progress{Usage: &runregistry.Usage{InputTokens: 1}}) },
		func() { f.complete(d.Lease) },
		func() { f.remove(d.Record.ID) },
	} {
		happens()
		f.awaken(w)
	}
	_, err := f.Read(f.ctx, runregistry.PageQuery{Run: d.Record.ID})
	f.wantErr("reading a deleted run", err, runregistry.ErrNoRun)
}

func watchEverybody(f *fixture) {
	l := f.running()
	watches := make([]*runregistry.Watch, 50)
	for i := range watches {
		watches[i] = f.watch(l.Run, i%2 == 0)
	}
	for i := range runregistry.Seq(3) {
		f.add(l, i, "x")
		for _, w := range watches {
			f.awaken(w)
		}
	}
}

func watchClosed(f *fixture) {
	l := f.running()
	first, gone, last := f.watch(l.Run, true), f.watch(l.Run, true), f.watch(l.Run, true)
	gone.Close()
	gone.Close()
	f.add(l, 0, "x")
	f.awaken(first)
	f.awaken(last)
	select {
	case <-gone.C:
		f.Error("got a hint on a closed watch")
	default:
	}
	f.wantReaders(l.Run, 2)
}

func watchThenRead(f *fixture) {
	l := f.running()
	f.add(l, 0, "one")
	w := f.watch(l.Run, true)
	f.wantFrames(l.Run, "one")
	select {
	case <-w.C:
		f.Error("got a hint, want none before anything happened")
	default:
	}
}

func watchUnknown(f *fixture) {
	_, err := f.Watch(f.ctx, runregistry.NewRunID(0), true)
	f.wantErr("watching", err, runregistry.ErrNoRun)
}

func (f *fixture) wantReaders(id runregistry.RunID, n int) {
	f.Helper()
	got, err := f.Readers(f.ctx, id)
	if err != nil {
		f.Fatalf("counting readers failed: %v", err)
	}
	want(f, "readers", got, n)
}

func readersCount(f *fixture) {
	l := f.running()
	f.wantReaders(l.Run, 0)
	a, b := f.watch(l.Run, true), f.watch(l.Run, true)
	f.watch(l.Run, false)
	f.wantReaders(l.Run, 2)
	a.Close()
	f.wantReaders(l.Run, 1)
	a.Close()
	f.wantReaders(l.Run, 1)
	b.Close()
	f.wantReaders(l.Run, 0)
}

func readersOfAdmission(f *fixture) {
	d := f.start(keyed("k"))
	f.wantReaders(d.Record.ID, 1)
	again := f.admit(keyed("k"))
	f.wantReaders(d.Record.ID, 2)
	d.Watch.Close()
	again.Watch.Close()
	f.wantReaders(d.Record.ID, 0)
}

// A start that waits for the reader of the run before it watches for this.
func readersLeave(f *fixture) {
	d := f.start(in("c"))
	w := f.watch(d.Record.ID, false)
	f.wantBusy(f.refused(in("c")))
	d.Watch.Close()
	f.awaken(w)
	f.start(in("c"))
}

func readersAfterEnd(f *fixture) {
	l := f.running()
	f.complete(l)
	w := f.watch(l.Run, true)
	f.wantReaders(l.Run, 1)
	w.Close()
	f.wantReaders(l.Run, 0)
}

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
			f.add(l, runregistry.Seq(next), strconv.Itoa(next+1))
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
		f.add(l, runregistry.Seq(n), strconv.Itoa(n+1))
	}
}
