package storetest

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var keyWindowTests = []test{
	{"a key is kept for its window after the end", keyWindow},
	{"a key without a window of its own is kept with the record", keyWindowDefault},
	{"a key whose frames have expired still answers", keyWithoutFrames},
	{"the key of a deleted run is reserved until its window ends", keyReserved},
	{"a key that starts anew keeps its own window", keyWindowAnew},
}

var claimOrderTests = []test{
	{"broken deliveries are claimed newest first", claimNewestFirst},
	{"a delivery can be claimed for a while", claimWindow},
	{"a delivery whose frames have expired is not claimed", claimExpired},
	{"a busy conversation is resumed however old its run is", claimConversation},
}

// Nobody who did not name the run can do anything with the news that it expired.
func claimExpired(f *fixture) {
	patient := func(a *runregistry.Admission) { a.ImplicitWindow = time.Hour }
	l := f.running(echo("hi"), patient)
	f.add(l, 0, "one")
	f.deliver(l.Run, brokeEarly)
	f.complete(l)
	time.Sleep(retention.Frames)
	f.start(echo("hi"), patient)
}

func keyWindow(f *fixture) {
	l := f.running(keyed("k"))
	time.Sleep(2 * retention.Record)
	f.complete(l)
	time.Sleep(retention.Key - tick)
	f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	time.Sleep(tick)
	f.start(keyed("k"), body("other"))
	f.load(l.Run) // the record stays
}

func keyWindowDefault(f *fixture) {
	for _, window := range []time.Duration{0, 1000 * time.Hour} {
		unset := func(a *runregistry.Admission) { a.Retention.Key = window }
		l := f.running(keyed("k"), unset)
		f.complete(l)
		time.Sleep(retention.Record - tick)
		f.attached(l.Run, runregistry.MatchKey, keyed("k"))
		time.Sleep(tick)
		f.complete(f.running(keyed("k"), unset))
		time.Sleep(retention.Record)
	}
}

func keyWithoutFrames(f *fixture) {
	l := f.running(keyed("k"))
	f.add(l, 0, "one")
	f.complete(l)
	time.Sleep(retention.Frames)
	d := f.attached(l.Run, runregistry.MatchKey, keyed("k"))
	want(f, "first number", d.Record.FirstSeq, 0)
	want(f, "last number", d.Record.LastSeq, 1)
}

func keyReserved(f *fixture) {
	l := f.running(keyed("k"))
	f.complete(l)
	time.Sleep(time.Hour)
	f.remove(l.Run)
	time.Sleep(retention.Key - time.Hour - tick)
	f.wantErr("before", f.refused(keyed("k")), runregistry.ErrDeleted)
	time.Sleep(tick)
	f.start(keyed("k"))

	late := f.running(keyed("late"))
	f.complete(late)
	time.Sleep(retention.Key)
	f.remove(late.Run)
	f.start(keyed("late"))
}

func keyWindowAnew(f *fixture) {
	first := f.running(keyed("k"))
	f.complete(first)
	time.Sleep(retention.Key)
	second := f.running(keyed("k"))
	f.complete(second)
	time.Sleep(retention.Record - retention.Key) // the first record expires
	f.wantGone(first.Run)
}

func claimNewestFirst(f *fixture) {
	var started []runregistry.RunID
	for range 5 {
		started = append(started, f.running(echo("hi")).Run)
		time.Sleep(time.Second)
	}
	for _, i := range []int{2, 0, 4, 1, 3} { // the order in which they break does not matter
		f.deliver(started[i], brokeEarly)
	}
	for i := range started {
		f.attached(started[len(started)-1-i], runregistry.MatchDelivery, echo("hi"))
	}
	f.start(echo("hi"))
}

func claimWindow(f *fixture) {
	l := f.running(echo("hi"))
	f.deliver(l.Run, brokeEarly)
	time.Sleep(time.Minute + tick)
	f.start(echo("hi"))
	patient := func(a *runregistry.Admission) { a.ImplicitWindow = 15 * time.Minute }
	f.attached(l.Run, runregistry.MatchDelivery, echo("hi"), patient)
	f.deliver(l.Run, brokeEarly)
	time.Sleep(14 * time.Minute)
	f.start(echo("hi"), patient)
}

func claimConversation(f *fixture) {
	l := f.running(in("c"), echo("hi"))
	time.Sleep(100 * time.Hour)
	f.attached(l.Run, runregistry.MatchConversation, in("c"), echo("hi"))
}

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
