package storetest

import (
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

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
		f.add(l, i, strings.Repeat("x", int(i)%400)) //nolint:gosec // small
	}
	for _, limit := range []int{1, 100, 1000, 1 << 20} {
		var after runregistry.Seq
		for p := (runregistry.Page{Last: 1}); p.More(after); {
			p = f.page(runregistry.PageQuery{Run: l.Run, After: after, MaxBytes: limit})
			size := 0
			for _, fr := range p.Frames {
				after++
				want(f, "number", fr.Seq, after)
				want(f, "size", len(fr.Data), int(after-1)%400) //nolint:gosec // small
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
