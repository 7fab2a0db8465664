package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var sharedAdmissionTests = []sharedTest{
	{"a key answers on every instance", sharedKey},
	{"a conversation is busy on every instance", sharedConversation},
	{"a limit counts on every instance", sharedLimit},
	{"50 parallel starts on two instances share a subject's limit", sharedLimitRace},
	{"parallel equal requests to two instances are one run", sharedRace},
	{"a delivery that broke elsewhere is claimed once", sharedDelivery},
	{"a superseded run of another instance is stopped", sharedSuperseded},
	{"a conversation has one line, and who waits is woken by another instance", sharedLine},
}

func sharedKey(f *pair) {
	l := f.running(keyed("k"))
	f.other.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.complete(l)
	f.other.attached(l.Run, runregistry.MatchKey, keyed("k"))
	f.other.remove(l.Run)
	f.wantErr("deleted elsewhere", f.refused(keyed("k")), runregistry.ErrDeleted)
}

func sharedConversation(f *pair) {
	l := f.running(in("c"))
	want(f.fixture, "busy with", f.other.wantBusy(f.other.refused(in("c"), busy(runregistry.BusyReject))).Run, l.Run)
	want(f.fixture, "current", f.other.current("c").ID, l.Run)
	f.bind(l, "alias")
	f.other.wantBusy(f.other.refused(in("alias"), busy(runregistry.BusyReject)))
	f.complete(l)
	f.other.start(in("alias"))
}

func sharedLimit(f *pair) {
	f.start(atMost(2))
	l := f.other.running(atMost(2))
	f.wantLimit(f.refused(atMost(2)), 2)
	f.other.complete(l)
	f.start(atMost(2))
}

func sharedLine(f *pair) {
	l := f.running(in("c"))
	first, second := f.other.waits(), f.waits()
	w := f.other.watch(first.Record.ID, false)
	f.complete(l)
	for {
		if _, err := f.other.Intend(f.ctx, first.Lease); err == nil {
			break
		}
		f.other.awaken(w)
	}
	f.wantWaiting(second.Lease)
	f.stop(first.Record.ID)
	f.other.complete(first.Lease)
	f.intend(second.Lease)
}

func sharedLimitRace(f *pair) {
	for scope, where := range map[string]func(i int) detail{
		"the subject's": func(int) detail { return by(bob) },
		"the tenant's":  func(int) detail { return shared },
		"both":          func(i int) detail { return alternately(i / 2) },
	} {
		outcomes := f.raceBoth(50, func(i int) *runregistry.Admission { return ask(atMost(7), where(i)) })
		if started, _, refused, _ := count(outcomes); started != 7 || refused != 43 {
			f.Errorf("scope %s: got %d started and %d refused, want 7 and 43", scope, started, refused)
		}
		for _, o := range outcomes {
			if o.err != nil {
				f.wantLimit(o.err, 7)
				continue
			}
			f.stop(o.decision.Record.ID) // before the intent that is the end
		}
	}
}

func sharedRace(f *pair) {
	const requests = 40
	outcomes := f.raceBoth(requests, func(int) *runregistry.Admission { return ask(keyed("k"), in("c"), atMost(1)) })
	f.wantCount(outcomes, 1, requests-1, 0)
	_, _, _, runs := count(outcomes)
	for id := range runs {
		want(f.fixture, "deliveries", f.load(id).Delivery.Pending, requests)
	}
}

// raceBoth sends admissions to both instances in turn, at the same moment.
func (f *pair) raceBoth(n int, request func(i int) *runregistry.Admission) []outcome {
	f.Helper()
	outcomes := make([]outcome, n)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		to, a := []*fixture{f.fixture, f.other}[i%2], request(i)
		all.Go(func() {
			<-gate
			d, err := to.Admit(f.ctx, a)
			outcomes[i] = outcome{d, err}
		})
	}
	close(gate)
	all.Wait()
	f.Cleanup(func() {
		for _, o := range outcomes {
			if o.err == nil {
				o.decision.Watch.Close()
			}
		}
	})
	return outcomes
}

func sharedDelivery(f *pair) {
	l := f.running(echo("hi"))
	f.other.deliver(l.Run, brokeEarly)
	f.other.attached(l.Run, runregistry.MatchDelivery, echo("hi"))
	f.start(echo("hi"))
}

func sharedSuperseded(f *pair) {
	orders := f.orders()
	l := f.running(in("c"))
	w := f.watch(l.Run, false)
	f.eventually("the other instance learns that nobody reads", func() bool {
		n, err := f.other.Readers(f.ctx, l.Run)
		return err == nil && n == 0
	})
	want(f.fixture, "superseded", f.other.start(in("c")).Superseded, l.Run)
	f.ordered(orders, l.Run)
	f.awaken(w)
	want(f.fixture, "state", f.load(l.Run).State, runregistry.Cancelling)
	want(f.fixture, "stopping", f.add(l, 0, "late").Stopping, true)
}

// orders are those to the fixture's instance, heard for sure from now on.
func (f *fixture) orders() <-chan runregistry.RunID {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	f.Cleanup(cancel)
	orders := f.leaser().Orders(ctx)
	f.eventually("orders arrive", func() bool {
		probe := f.running()
		f.stop(probe.Run)
		defer f.complete(probe)
		select {
		case id := <-orders:
			return id == probe.Run
		case <-time.After(20 * time.Millisecond):
			return false
		}
	})
	return orders
}

// ordered waits for one order; those of earlier probes may come late.
func (f *fixture) ordered(orders <-chan runregistry.RunID, id runregistry.RunID) {
	f.Helper()
	late := time.After(patience)
	for {
		select {
		case got := <-orders:
			if got == id {
				return
			}
		case <-late:
			f.Fatalf("no order for %s came", id)
		}
	}
}

var followTests = []sharedTest{
	{"whatever happens elsewhere is announced", followAnnounces},
	{"a frame is read elsewhere as soon as it is announced", followReads},
	{"large frames and batches are followed too", followLarge},
	{"readers elsewhere see the whole log once", followWhole},
	{"a change of the owner is seen by readers of a third instance", followTakeover},
	{"Stop from elsewhere reaches the owner", followStop},
	{"the end elsewhere is seen", followEnd},
}

func followAnnounces(f *pair) {
	d := f.start(in("c"))
	w := f.other.watch(d.Record.ID, false)
	for _, happens := range []func(){
		func() { f.intend(d.Lease) },
		func() { f.add(d.Lease, 0, "one") },
		func() { f.advance(d.Lease, runregistry.Progress{State: runregistry.Waiting}) },
		func() { f.bind(d.Lease, "alias") },
		func() { f.stop(d.Record.ID) },
		func() { f.complete(d.Lease) },
		func() { f.remove(d.Record.ID) },
	} {
		happens()
		f.other.awaken(w)
	}
	_, err := f.other.Read(f.ctx, runregistry.PageQuery{Run: d.Record.ID})
	f.wantErr("reading a deleted run", err, runregistry.ErrNoRun)
}

// next waits for frames after a position.
func (f *fixture) next(w *runregistry.Watch, id runregistry.RunID, after runregistry.Seq) []runregistry.Frame {
	f.Helper()
	for {
		if p := f.page(runregistry.PageQuery{Run: id, After: after}); len(p.Frames) > 0 {
			return p.Frames
		}
		f.awaken(w)
	}
}

func followReads(f *pair) {
	l := f.running()
	w := f.other.watch(l.Run, true)
	for i := range runregistry.Seq(50) {
		f.add(l, i, fmt.Sprint(i+1))
		got := f.other.next(w, l.Run, i)
		want(f.fixture, "frames", len(got), 1)
		want(f.fixture, "frame", string(got[0].Data), fmt.Sprint(i+1))
		want(f.fixture, "number", got[0].Seq, i+1)
	}
	rec := f.load(l.Run)
	p := f.other.page(runregistry.PageQuery{Run: l.Run, After: 49})
	want(f.fixture, "time", p.Frames[0].At, rec.ActivityAt)
}

func followTakeover(f *pair) {
	l := f.mortal().running()
	f.expired(l)
	w := f.other.watch(l.Run, true)
	want(f.fixture, "epoch", f.other.page(runregistry.PageQuery{Run: l.Run}).Epoch, l.Epoch)
	taken := f.takeOver(l.Run)
	f.other.awaken(w)
	want(f.fixture, "epoch after it", f.other.page(runregistry.PageQuery{Run: l.Run}).Epoch, taken.Epoch)
	want(f.fixture, "epoch for the new owner", f.page(runregistry.PageQuery{Run: l.Run}).Epoch, taken.Epoch)
}

func followLarge(f *pair) {
	l := f.running()
	w := f.other.watch(l.Run, true)
	sent := []string{strings.Repeat("x", 100_000), "", "a:b\n3:c", strings.Repeat("é", 3000)}
	f.add(l, 0, sent...)
	f.add(l, 4, "five", "", "7:")
	sent = append(sent, "five", "", "7:")
	var got []string
	for len(got) < len(sent) {
		for _, fr := range f.other.next(w, l.Run, runregistry.Seq(len(got))) {
			got = append(got, string(fr.Data))
		}
	}
	want(f.fixture, "the same", slices.Equal(got, sent), true)
}

func followWhole(f *pair) {
	const frames, readers = 300, 10
	l := f.running()
	var all sync.WaitGroup
	for i := range readers {
		joins := make(chan struct{})
		all.Go(func() {
			<-joins
			if n, err := f.other.tail(l.Run, 1+i*50); n != frames || err != nil {
				f.Errorf("reader %d: got %d frames and error %v, want %d frames", i, n, err, frames)
			}
		})
		f.addNumbers(l, i*frames/readers, (i+1)*frames/readers)
		close(joins)
	}
	f.complete(l)
	all.Wait()
}

func followStop(f *pair) {
	orders := f.orders()
	l := f.running()
	f.add(l, 0, "one")
	w := f.watch(l.Run, true)
	f.other.stop(l.Run)
	f.ordered(orders, l.Run)
	f.awaken(w)
	want(f.fixture, "state read", f.page(runregistry.PageQuery{Run: l.Run, After: 1}).State, runregistry.Cancelling)
	want(f.fixture, "renewal", f.renew(l).Stopping, true)
	want(f.fixture, "append", f.send(l, &runregistry.Batch{After: 1, Progress: &runregistry.Progress{Model: "m"}}).Stopping, true)
	want(f.fixture, "model", f.other.load(l.Run).Model, "m")
}

func followEnd(f *pair) {
	l := f.running()
	f.add(l, 0, "one")
	w := f.other.watch(l.Run, true)
	want(f.fixture, "frames", len(f.other.next(w, l.Run, 0)), 1)
	f.complete(l)
	p := f.other.page(runregistry.PageQuery{Run: l.Run, After: 1})
	for p.State == runregistry.Running { // the first hint may be an earlier one
		f.other.awaken(w)
		p = f.other.page(runregistry.PageQuery{Run: l.Run, After: 1})
	}
	want(f.fixture, "state", p.State, runregistry.Completed)
	want(f.fixture, "final", p.Final, 2)
}

var sharedReaderTests = []sharedTest{
	{"readers of all instances are added up", sharedReaders},
	{"a conversation that is read elsewhere is not replaced", sharedReadersKeep},
}

func sharedReaders(f *pair) {
	l := f.running()
	here, there := f.watch(l.Run, true), f.other.watch(l.Run, true)
	f.other.watch(l.Run, true)
	f.other.watch(l.Run, false)
	f.wantReaders(l.Run, 3)
	f.other.wantReaders(l.Run, 3)
	want(f.fixture, "readers told by the renewal", f.renew(l).Readers, 3)
	there.Close()
	f.eventually("a reader is gone", func() bool { return f.renew(l).Readers == 2 })
	here.Close()
	f.wantReaders(l.Run, 1)
	f.eventually("the other reader is gone", func() bool {
		n, err := f.other.Readers(f.ctx, l.Run)
		return n == 1 && err == nil
	})
}

func sharedReadersKeep(f *pair) {
	l := f.running(in("c"))
	w := f.other.watch(l.Run, true)
	b := f.wantBusy(f.refused(in("c")))
	want(f.fixture, "busy", *b, runregistry.BusyError{Run: l.Run, Mine: true, Readers: 1})
	here := f.watch(l.Run, false)
	w.Close()
	f.eventually("nobody reads", func() bool {
		n, err := f.Readers(f.ctx, l.Run)
		return n == 0 && err == nil
	})
	here.Close()
	want(f.fixture, "superseded", f.start(in("c")).Superseded, l.Run)
}
