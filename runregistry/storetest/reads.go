package storetest

import (
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var readTests = []test{
	{"nothing is read before the append returned", readNothing},
	{"a read starts after its position", readAfter},
	{"a page says where the run stands", readStands},
	{"beyond the end there is nothing, and no error", readBeyond},
	{"frames have the time of their append", readTimes},
	{"frames stay whole while the log grows", readStays},
}

func readNothing(f *fixture) {
	d := f.start()
	f.wantFrames(d.Record.ID)
	f.intend(d.Lease)
	f.wantFrames(d.Record.ID)
	f.add(d.Lease, 0, "one")
	f.wantFrames(d.Record.ID, "one")
}

func readAfter(f *fixture) {
	l := f.running()
	f.add(l, 0, "one", "two", "three")
	for after, w := range map[runregistry.Seq]int{0: 3, 1: 2, 2: 1, 3: 0} {
		want(f, "frames", len(f.frames(l.Run, after)), w)
	}
}

func readStands(f *fixture) {
	l := f.running()
	f.add(l, 0, "one", "two")
	p := f.page(runregistry.PageQuery{Run: l.Run, After: 1})
	want(f, "state", p.State, runregistry.Running)
	want(f, "first", p.First, 1)
	want(f, "last", p.Last, 2)
	want(f, "final", p.Final, 0)
	f.complete(l)
	p = f.page(runregistry.PageQuery{Run: l.Run, After: 2})
	want(f, "frames", len(p.Frames), 0)
	want(f, "state", p.State, runregistry.Completed)
	want(f, "last", p.Last, 2)
	want(f, "final", p.Final, 3)
}

func readBeyond(f *fixture) {
	l := f.running()
	f.add(l, 0, "one")
	for _, after := range []runregistry.Seq{1, 2, 1000, 1<<64 - 1} {
		p := f.page(runregistry.PageQuery{Run: l.Run, After: after})
		want(f, "frames", len(p.Frames), 0)
		want(f, "last", p.Last, 1)
	}
	empty := f.running()
	f.complete(empty)
	want(f, "final of an empty run", f.page(runregistry.PageQuery{Run: empty.Run}).Final, 1)
}

func readTimes(f *fixture) {
	l := f.running()
	f.add(l, 0, "one")
	f.add(l, 1, "two")
	rec := f.load(l.Run)
	p := f.page(runregistry.PageQuery{Run: l.Run})
	last := rec.FirstFrameAt.Add(-1e6) // times are kept to the millisecond
	for _, fr := range p.Frames {
		if fr.At.Before(last) || fr.At.After(rec.ActivityAt) {
			f.Errorf("frame %d: got time %v, want one from %v to %v", fr.Seq, fr.At, last, rec.ActivityAt)
		}
		last = fr.At
	}
}

// What a reader holds must not change under it, whatever the log does.
func readStays(f *fixture) {
	l := f.running(func(a *runregistry.Admission) { a.Limits.Frames = 3 })
	f.add(l, 0, "one", "two")
	p := f.page(runregistry.PageQuery{Run: l.Run})
	for i := range runregistry.Seq(50) {
		f.add(l, 2+i, "more")
	}
	f.complete(l)
	if err := f.Delete(f.ctx, l.Run); err != nil {
		f.Fatal(err)
	}
	want(f, "first frame", string(p.Frames[0].Data), "one")
	want(f, "second frame", string(p.Frames[1].Data), "two")
}

var pageTests = []test{
	{"a page has no more bytes than asked for", pageBytes},
	{"a page has at least one frame", pageOne},
	{"a page has a bound by default", pageDefault},
	{"a page has no more frames than its bound", pageFrames},
	{"pages together are the log", pageWhole},
	{"a page reuses its caller's frames", pageReuse},
}

func pageBytes(f *fixture) {
	l := f.running()
	f.add(l, 0, "12345", "12345", "12345")
	for limit, w := range map[int]int{5: 1, 9: 1, 10: 2, 14: 2, 15: 3, 99: 3} {
		p := f.page(runregistry.PageQuery{Run: l.Run, MaxBytes: limit})
		want(f, "frames", len(p.Frames), w)
		want(f, "more", p.More(0), w < 3)
	}
}

func pageOne(f *fixture) {
	l := f.running()
	big := strings.Repeat("x", runregistry.PageBytes+1)
	f.add(l, 0, big, big)
	want(f, "frames by default", len(f.page(runregistry.PageQuery{Run: l.Run}).Frames), 1)
	want(f, "frames", len(f.page(runregistry.PageQuery{Run: l.Run, MaxBytes: 1}).Frames), 1)
}

func pageDefault(f *fixture) {
	l := f.running()
	frame := strings.Repeat("x", runregistry.PageBytes/4)
	f.add(l, 0, frame, frame, frame, frame, frame)
	want(f, "frames", len(f.page(runregistry.PageQuery{Run: l.Run}).Frames), 4)
}

func pageFrames(f *fixture) {
	l := f.running()
	many := make([][]byte, runregistry.PageFrames+1)
	f.send(l, &runregistry.Batch{Frames: many})
	p := f.page(runregistry.PageQuery{Run: l.Run})
	want(f, "frames", len(p.Frames), runregistry.PageFrames)
	want(f, "more", p.More(0), true)
	want(f, "frames in all", len(f.frames(l.Run, 0)), len(many))
}

func pageWhole(f *fixture) {
	l := f.running()
	const frames = 500
	for i := range runregistry.Seq(frames) {
		f.add(l, i, strings.Repeat("x", int(i)%400))
	}
	for _, limit := range []int{1, 100, 1000, 1 << 20} {
		var after runregistry.Seq
		for p := (runregistry.Page{Last: 1}); p.More(after); {
			p = f.page(runregistry.PageQuery{Run: l.Run, After: after, MaxBytes: limit})
			size := 0
			for _, fr := range p.Frames {
				after++
				want(f, "number", fr.Seq, after)
				want(f, "size", len(fr.Data), int(after-1)%400)
				size += len(fr.Data)
			}
			if size > limit && len(p.Frames) > 1 {
				f.Fatalf("got a page of %d bytes, want at most %d", size, limit)
			}
		}
		want(f, "frames", after, frames)
	}
}

func pageReuse(f *fixture) {
	l := f.running()
	f.add(l, 0, "one", "two")
	into := make([]runregistry.Frame, 5, 8)
	p := f.page(runregistry.PageQuery{Run: l.Run, Into: into})
	want(f, "frames", len(p.Frames), 2)
	want(f, "same memory", &p.Frames[0], &into[0])
	p = f.page(runregistry.PageQuery{Run: l.Run, After: 2, Into: p.Frames})
	want(f, "frames at the tail", len(p.Frames), 0)
}

var trimTests = []test{
	{"frames above their number are trimmed from the oldest", trimFrames},
	{"bytes above their bound are trimmed by whole frames", trimBytes},
	{"the newest frame stays, however large", trimKeepsNewest},
	{"who comes for a trimmed frame is told", trimIsTold},
	{"a long log is trimmed exactly", trimLong},
	{"a run without limits is not trimmed", trimNothing},
}

func limited(l runregistry.LogLimits) detail {
	return func(a *runregistry.Admission) { a.Limits = l }
}

// wantFirst checks where the log begins, in the record and in pages.
func (f *fixture) wantFirst(id runregistry.RunID, first runregistry.Seq) {
	f.Helper()
	want(f, "first number of the record", f.load(id).FirstSeq, first)
	p := f.page(runregistry.PageQuery{Run: id, After: first - 1})
	want(f, "first number of the page", p.First, first)
	want(f, "number of the first frame", p.Frames[0].Seq, first)
}

func trimFrames(f *fixture) {
	l := f.running(limited(runregistry.LogLimits{Frames: 3}))
	f.add(l, 0, "1", "2", "3")
	f.wantFirst(l.Run, 1)
	f.add(l, 3, "4")
	f.wantFirst(l.Run, 2)
	f.add(l, 4, "5", "6", "7", "8", "9")
	f.wantFirst(l.Run, 7)
	rec := f.load(l.Run)
	want(f, "last number", rec.LastSeq, 9)
	want(f, "bytes ever stored", rec.Bytes, 9)
}

func trimBytes(f *fixture) {
	l := f.running(limited(runregistry.LogLimits{Bytes: 10}))
	f.add(l, 0, "1234", "1234", "12")
	f.wantFirst(l.Run, 1)
	f.add(l, 3, "1")
	f.wantFirst(l.Run, 2)
	f.add(l, 4, "123")
	f.wantFirst(l.Run, 2)
	f.add(l, 5, "1")
	f.wantFirst(l.Run, 3)
}

func trimKeepsNewest(f *fixture) {
	l := f.running(limited(runregistry.LogLimits{Bytes: 10, Frames: 1}))
	f.add(l, 0, "1", strings.Repeat("x", 1000))
	f.wantFirst(l.Run, 2)
}

func trimIsTold(f *fixture) {
	l := f.running(limited(runregistry.LogLimits{Frames: 2}))
	f.add(l, 0, "1", "2", "3", "4")
	for _, after := range []runregistry.Seq{0, 1} {
		p, err := f.Read(f.ctx, runregistry.PageQuery{Run: l.Run, After: after})
		f.wantErr("reading what was trimmed", err, runregistry.ErrExpired)
		want(f, "frames", len(p.Frames), 0)
		want(f, "first number told", p.First, 3)
		want(f, "last number told", p.Last, 4)
		want(f, "state told", p.State, runregistry.Running)
	}
	want(f, "frames", len(f.frames(l.Run, 2)), 2)
}

func trimLong(f *fixture) {
	const kept = 700
	l := f.running(limited(runregistry.LogLimits{Frames: kept}))
	for i := range runregistry.Seq(3000) {
		f.add(l, i, strings.Repeat("x", 100+int(i)%50))
		if last := i + 1; last%377 == 0 && last > kept {
			f.wantFirst(l.Run, last-kept+1)
			want(f, "frames", len(f.frames(l.Run, last-kept)), kept)
		}
	}
}

func trimNothing(f *fixture) {
	l := f.running()
	for i := range runregistry.Seq(2000) {
		f.add(l, i, "frame")
	}
	f.wantFirst(l.Run, 1)
}
