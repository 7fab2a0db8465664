package storetest

import "github.com/caddy-agent-runs/caddy-agent-runs/runregistry"

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
