package storetest

import "github.com/caddy-agent-runs/caddy-agent-runs/runregistry"

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
