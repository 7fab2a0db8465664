package storetest

import (
	"errors"
	"fmt"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var lineTests = []test{
	{"a free conversation has no line", lineOfNone},
	{"the first in line gets the conversation, in the order of admission", lineInOrder},
	{"the ninth in line is refused", lineIsFull},
	{"a look-up names the run that the others wait for", lineIsNotCurrent},
	{"who waits counts in the limit", lineCounts},
	{"who leaves the line makes room", lineIsLeft},
	{"a Stop ends a waiting run before any effect", lineIsStopped},
	{"other policies find a line busy", lineIsBusy},
	{"a replacement sends the whole line away", lineIsReplaced},
	{"a waiting run repeats nothing and keeps its key", lineKeepsKey},
	{"20 parallel requests are one run and a line of eight", lineInParallel},
	{"who waits is woken when its turn has come", lineWakes},
}

func queue(details ...detail) []detail {
	return append([]detail{in("c"), busy(runregistry.BusyQueue)}, details...)
}

// waits takes a place in line.
func (f *fixture) waits(details ...detail) *runregistry.Decision {
	f.Helper()
	d := f.start(queue(details...)...)
	want(f, "in line", d.Record.Lined, true)
	f.wantWaiting(d.Lease)
	return d
}

func (f *fixture) wantWaiting(l runregistry.Lease) {
	f.Helper()
	_, err := f.Intend(f.ctx, l)
	f.wantErr("intent of a waiting run", err, runregistry.ErrInLine)
	want(f, "state", f.load(l.Run).State, runregistry.Queued)
}

func lineOfNone(f *fixture) {
	d := f.start(queue()...)
	want(f, "in line", d.Record.Lined, false)
	f.intend(d.Lease)
	nowhere := f.start(busy(runregistry.BusyQueue), func(a *runregistry.Admission) { a.Conversation = "" })
	want(f, "in line", nowhere.Record.Lined, false)
	f.intend(nowhere.Lease)
}

func lineInOrder(f *fixture) {
	active := f.running(in("c"))
	first, second := f.waits(), f.waits()
	f.complete(active)
	f.wantWaiting(second.Lease)
	late := f.waits()
	f.intend(first.Lease)
	rec := f.load(first.Record.ID)
	want(f, "in line", rec.Lined, false)
	want(f, "state", rec.State, runregistry.Running)
	f.wantWaiting(second.Lease)
	f.complete(first.Lease)
	f.wantWaiting(late.Lease)
	f.intend(second.Lease)
	f.complete(second.Lease)
	f.intend(late.Lease)
}

func lineIsFull(f *fixture) {
	active := f.running(in("c"))
	for range runregistry.MaxLine {
		f.waits()
	}
	want(f, "busy with", f.wantBusy(f.refused(queue()...)).Run, active.Run)
	f.start(in("d"), busy(runregistry.BusyQueue))
}

func lineIsNotCurrent(f *fixture) {
	active := f.running(in("c"))
	first := f.waits()
	f.waits()
	want(f, "current", f.current("c").ID, active.Run)
	f.complete(active)
	want(f, "current", f.current("c").ID, first.Record.ID)
	f.intend(first.Lease)
	want(f, "current", f.current("c").ID, first.Record.ID)
}

func lineCounts(f *fixture) {
	f.running(in("c"))
	f.waits(atMost(2))
	f.wantLimit(f.refused(queue(atMost(2))...), 2)
}

func lineIsLeft(f *fixture) {
	f.running(in("c"))
	var all []*runregistry.Decision
	for range runregistry.MaxLine {
		all = append(all, f.waits())
	}
	f.end(all[3].Lease, runregistry.Settlement{
		State: runregistry.Failed, Reason: runregistry.ReasonQueueTimeout, NoEffect: true, ReleaseKey: true,
	})
	f.waits()
	f.wantBusy(f.refused(queue()...))
}

func lineIsStopped(f *fixture) {
	active := f.running(in("c"))
	d := f.waits(keyed("k"))
	rec := f.stop(d.Record.ID)
	want(f, "state", rec.State, runregistry.Cancelled)
	want(f, "outcome", rec.Cancel.Outcome, runregistry.CancelledBeforeEffect)
	want(f, "in line", f.load(d.Record.ID).Lined, false)
	next := f.waits(keyed("k"))
	_, err := f.Intend(f.ctx, d.Lease)
	f.wantErr("intent of a stopped run", err, runregistry.ErrSettled)
	f.complete(active)
	f.intend(next.Lease)
	f.remove(d.Record.ID)
}

func lineIsBusy(f *fixture) {
	active := f.running(in("c"))
	waiting := f.waits()
	want(f, "busy with", f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject))).Run, active.Run)
	f.complete(active)
	want(f, "busy with", f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject))).Run, waiting.Record.ID)
	want(f, "busy with", f.wantBusy(f.refused(in("c"))).Run, waiting.Record.ID)
	beside := f.start(in("c"), busy(runregistry.BusyAllow))
	f.intend(beside.Lease)
	f.intend(waiting.Lease)
}

func lineIsReplaced(f *fixture) {
	active := f.running(in("c"))
	first, second := f.waits(), f.waits()
	d := f.start(in("c"), busy(runregistry.BusyReplace))
	want(f, "in line", d.Record.Lined, false)
	want(f, "state", f.load(active.Run).State, runregistry.Cancelling)
	for _, waiting := range []*runregistry.Decision{first, second} {
		rec := f.load(waiting.Record.ID)
		want(f, "state of a waiting run", rec.State, runregistry.Cancelled)
		want(f, "reason of a waiting run", rec.Reason, runregistry.ReasonSuperseded)
	}
	f.intend(d.Lease)
}

func lineKeepsKey(f *fixture) {
	f.running(in("c"), echo("hi"))
	d := f.waits(keyed("k"))
	f.attached(d.Record.ID, runregistry.MatchKey, queue(keyed("k"))...)
	broken := f.waits(echo("ho"))
	f.deliver(broken.Record.ID, brokeEarly)
	f.attached(broken.Record.ID, runregistry.MatchDelivery, queue(echo("ho"))...)
}

func lineInParallel(f *fixture) {
	all := f.race(20, func(i int) *runregistry.Admission { return ask(queue(body(fmt.Sprint(i)))...) })
	f.wantCount(all, 1+runregistry.MaxLine, 0, 20-1-runregistry.MaxLine)
	waiting := 0
	for _, o := range all {
		if o.err != nil {
			f.wantBusy(o.err)
			continue
		}
		_, err := f.Intend(f.ctx, o.decision.Lease)
		switch {
		case errors.Is(err, runregistry.ErrInLine):
			waiting++
		case err != nil:
			f.Errorf("got error %v", err)
		}
	}
	want(f, "waiting runs", waiting, runregistry.MaxLine)
}

func lineWakes(f *fixture) {
	active := f.running(in("c"))
	first, second := f.waits(), f.waits()
	w := f.watch(first.Record.ID, false)
	f.complete(active)
	f.awaken(w)
	for {
		if _, err := f.Intend(f.ctx, first.Lease); err == nil {
			break
		}
		f.awaken(w)
	}
	w = f.watch(second.Record.ID, false)
	f.stop(first.Record.ID)
	f.complete(first.Lease)
	f.awaken(w)
}
