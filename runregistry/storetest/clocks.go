package storetest

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var clockTests = []test{
	{"every time of the record is that of its step", clockSteps},
	{"every frame has the time of its append", clockFrames},
	{"the time of Stop is that of the first", clockStop},
}

func (f *fixture) wantTime(what string, got, start time.Time, after time.Duration) {
	f.Helper()
	if d := got.Sub(start); d != after {
		f.Errorf("%s: got %v after the start, want %v", what, d, after)
	}
}

func clockSteps(f *fixture) {
	start := time.Now()
	d := f.start()
	time.Sleep(time.Second)
	f.intend(d.Lease)
	want(f, "first frame before any", f.load(d.Lease.Run).FirstFrameAt.IsZero(), true)
	time.Sleep(time.Second)
	f.add(d.Lease, 0, "one")
	time.Sleep(time.Second)
	f.add(d.Lease, 1, "two")
	time.Sleep(time.Second)
	f.add(d.Lease, 0, "one") // nothing new
	time.Sleep(time.Second)
	rec := f.complete(d.Lease)
	f.wantTime("created", rec.CreatedAt, start, 0)
	f.wantTime("dispatched", rec.DispatchedAt, start, 1*time.Second)
	f.wantTime("first frame", rec.FirstFrameAt, start, 2*time.Second)
	f.wantTime("last activity", rec.ActivityAt, start, 3*time.Second)
	f.wantTime("ended", rec.EndedAt, start, 5*time.Second)
	f.wantTime("frames expire", rec.FramesExpireAt, start, 5*time.Second+retention.Frames)
	f.wantTime("record expires", rec.ExpiresAt, start, 5*time.Second+retention.Record)
}

func clockFrames(f *fixture) {
	start := time.Now()
	l := f.running()
	const frames = 200 // several chunks of whatever an engine stores them in
	for i := range runregistry.Seq(frames) {
		time.Sleep(1234 * time.Millisecond)
		f.add(l, i, "a frame of some size, so that it takes its room")
	}
	f.complete(l)
	p := f.page(runregistry.PageQuery{Run: l.Run})
	want(f, "frames", len(p.Frames), frames)
	for i, fr := range p.Frames {
		f.wantTime("frame", fr.At, start, time.Duration(i+1)*1234*time.Millisecond)
	}
}

func clockStop(f *fixture) {
	l := f.running()
	start := time.Now()
	f.stop(l.Run)
	time.Sleep(time.Second)
	f.wantTime("stop", f.stop(l.Run).Cancel.RequestedAt, start, 0)
}
