package storetest

import (
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

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
		f.add(l, i, strings.Repeat("x", 100+int(i)%50)) //nolint:gosec // small
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
