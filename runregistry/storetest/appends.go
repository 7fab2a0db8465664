package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var appendTests = []test{
	{"frames get the numbers 1 to n", appendNumbers},
	{"an append sent twice changes nothing", appendTwice},
	{"an append that overlaps stores what is new", appendOverlaps},
	{"an append that would leave a hole is refused", appendGap},
	{"the caller may use its buffers again", appendKeepsNothing},
	{"frames of all sizes come back unchanged", appendSizes},
	{"a run that was not dispatched has no frames", appendQueued},
	{"a run that is to stop stores no frame", appendStopping},
	{"an ended run stores no frame", appendSettled},
	{"runs that are written in parallel do not mix", appendParallel},
}

func appendNumbers(f *fixture) {
	l := f.running()
	want(f, "last of the first", f.add(l, 0, "one").Last, 1)
	want(f, "last of the second", f.add(l, 1, "two", "three").Last, 3)
	f.wantFrames(l.Run, "one", "two", "three")
	rec := f.load(l.Run)
	want(f, "first number", rec.FirstSeq, 1)
	want(f, "last number", rec.LastSeq, 3)
	want(f, "final number while active", rec.FinalSeq, 0)
	want(f, "bytes", rec.Bytes, 11)
	want(f, "last of nothing", f.add(l, 3).Last, 3)
}

func appendTwice(f *fixture) {
	l := f.running()
	b := &runregistry.Batch{
		Frames: raw("one", "two"),
		Progress: &runregistry.Progress{
			Model: "m", UpstreamID: "up", Effect: runregistry.EffectObserved, State: runregistry.Waiting, Ending: true,
			Response: &runregistry.Response{Status: 200, Header: map[string][]string{"A": {"b"}}},
			Usage:    &runregistry.Usage{InputTokens: 1}, Snapshot: []byte(`{}`), SnapshotSeq: 2,
		},
	}
	f.send(l, b)
	before := f.load(l.Run)
	want(f, "last", f.send(l, b).Last, 2)
	after := f.load(l.Run)
	want(f, "revision", after.Revision, before.Revision)
	want(f, "bytes", after.Bytes, before.Bytes)
	want(f, "last activity", after.ActivityAt, before.ActivityAt)
	f.wantFrames(l.Run, "one", "two")
}

func appendOverlaps(f *fixture) {
	l := f.running()
	f.add(l, 0, "one", "two")
	want(f, "last", f.add(l, 1, "two", "three").Last, 3)
	want(f, "last", f.add(l, 0, "one").Last, 3)
	f.wantFrames(l.Run, "one", "two", "three")
}

func appendGap(f *fixture) {
	l := f.running()
	f.add(l, 0, "one")
	done, err := f.Append(f.ctx, l, &runregistry.Batch{
		After: 2, Frames: raw("three"), Progress: &runregistry.Progress{Model: "m"},
	})
	gap, ok := errors.AsType[*runregistry.GapError](err)
	if !ok || gap.Last != 1 || done.Last != 1 {
		f.Errorf("got error %v and last %d, want a gap after 1", err, done.Last)
	}
	f.wantFrames(l.Run, "one")
	want(f, "model", f.load(l.Run).Model, "")
}

func appendKeepsNothing(f *fixture) {
	l := f.running()
	buf := []byte("one")
	frames := [][]byte{buf}
	f.send(l, &runregistry.Batch{Frames: frames})
	copy(buf, "xxx")
	f.send(l, &runregistry.Batch{After: 1, Frames: frames})
	f.wantFrames(l.Run, "one", "xxx")
}

func appendSizes(f *fixture) {
	l := f.running()
	var sent []string
	for i, size := range []int{0, 1, 1000, 1024, 0, 5000, 70_000, 3, 65_536, 200_000, 1, 1} {
		frame := string(slices.Repeat([]byte{byte('a' + i)}, size))
		sent = append(sent, frame)
		f.add(l, runregistry.Seq(i), frame)
	}
	f.wantFrames(l.Run, sent...)
	f.complete(l)
	f.wantFrames(l.Run, sent...)
}

func appendQueued(f *fixture) {
	d := f.start()
	_, err := f.Append(f.ctx, d.Lease, &runregistry.Batch{Frames: raw("one")})
	if _, ok := errors.AsType[*runregistry.TransitionError](err); !ok {
		f.Errorf("got error %v, want a forbidden move", err)
	}
	want(f, "state", f.load(d.Record.ID).State, runregistry.Queued)
	f.wantFrames(d.Record.ID)
}

func appendStopping(f *fixture) {
	l := f.running()
	f.add(l, 0, "one")
	f.stop(l.Run)
	done := f.send(l, &runregistry.Batch{
		After: 1, Frames: raw("two"),
		Progress: &runregistry.Progress{
			Effect: runregistry.EffectObserved, Usage: &runregistry.Usage{OutputTokens: 7}, State: runregistry.Waiting, Ending: true,
		},
	})
	rec := f.load(l.Run)
	answer := runregistry.Appended{Last: 1, Stopping: true, Revision: rec.Revision}
	want(f, "answer", done, answer)
	want(f, "answer beyond the log", f.add(l, 5, "six"), answer)
	want(f, "effect", rec.Effect, runregistry.EffectObserved)
	want(f, "usage", rec.Usage.OutputTokens, 7)
	want(f, "state", rec.State, runregistry.Cancelling)
	want(f, "ending", rec.Ending, false)
	f.wantFrames(l.Run, "one")
}

func appendSettled(f *fixture) {
	l := f.running()
	f.complete(l)
	_, err := f.Append(f.ctx, l, &runregistry.Batch{Frames: raw("late"), Progress: &runregistry.Progress{Model: "m"}})
	f.wantErr("appending", err, runregistry.ErrSettled)
	f.wantFrames(l.Run)
	want(f, "model", f.load(l.Run).Model, "")
}

func appendParallel(f *fixture) {
	const runs, frames = 8, 200
	leases := make([]runregistry.Lease, runs)
	var writers sync.WaitGroup
	for i := range leases {
		leases[i] = f.running()
		writers.Go(func() {
			for n := range frames {
				b := &runregistry.Batch{After: runregistry.Seq(n), Frames: raw(fmt.Sprintf("%d/%d", i, n))}
				if _, err := f.Append(f.ctx, leases[i], b); err != nil {
					f.Errorf("append %d of run %d failed: %v", n, i, err)
					return
				}
			}
		})
	}
	writers.Wait()
	for i, l := range leases {
		for n, got := range f.frames(l.Run, 0) {
			if w := fmt.Sprintf("%d/%d", i, n); got != w {
				f.Fatalf("got frame %q, want %q", got, w)
			}
		}
		want(f, "last number", f.load(l.Run).LastSeq, frames)
	}
}
