package storetest

import "github.com/caddy-agent-runs/caddy-agent-runs/runregistry"

var lookupTests = []test{
	{"an unknown conversation has no run", lookupUnknown},
	{"the active run is current, else the last", lookupCurrent},
	{"a generated conversation is found too", lookupGenerated},
	{"a run is found by upstream's id in its scope", lookupUpstream},
	{"the later of two runs has upstream's id", lookupUpstreamTwice},
	{"a run has one id of upstream's at a time", lookupUpstreamMoves},
}

func lookupUnknown(f *fixture) {
	f.wantUnknown("c")
	f.wantUnknown("")
	f.running(in("c"), by(bob))
	f.wantUnknown("c")
	_, err := f.Load(f.ctx, runregistry.NewRunID(0))
	f.wantErr("loading", err, runregistry.ErrNoRun)
	_, err = f.Load(f.ctx, "")
	f.wantErr("loading without id", err, runregistry.ErrNoRun)
}

func lookupCurrent(f *fixture) {
	for range 3 {
		l := f.running(in("c"))
		want(f, "active", f.current("c").ID, l.Run)
		f.stop(l.Run)
		want(f, "stopping", f.current("c").ID, l.Run)
		f.complete(l)
		rec := f.current("c")
		want(f, "ended", rec.ID, l.Run)
		want(f, "state", rec.State, runregistry.Cancelled)
	}
}

func lookupGenerated(f *fixture) {
	d := f.start()
	want(f, "named", d.Record.Named, false)
	want(f, "current", f.current(d.Record.Conversation).ID, d.Record.ID)
}

func (f *fixture) wantUpstream(id string, run runregistry.RunID) {
	f.Helper()
	rec, err := f.ByUpstream(f.ctx, runregistry.SubjectScope(alice), id)
	if err != nil {
		f.Fatalf("looking up %s failed: %v", id, err)
	}
	want(f, "run of "+id, rec.ID, run)
}

func (f *fixture) wantNoUpstream(id string) {
	f.Helper()
	_, err := f.ByUpstream(f.ctx, runregistry.SubjectScope(alice), id)
	f.wantErr("looking up "+id, err, runregistry.ErrNoRun)
}

func lookupUpstream(f *fixture) {
	l := f.running()
	f.wantNoUpstream("up")
	f.wantNoUpstream("")
	f.advance(l, runregistry.Progress{UpstreamID: "up"})
	f.wantUpstream("up", l.Run)
	_, err := f.ByUpstream(f.ctx, runregistry.SubjectScope(bob), "up")
	f.wantErr("another scope", err, runregistry.ErrNoRun)
	f.complete(l)
	f.wantUpstream("up", l.Run)
}

func lookupUpstreamTwice(f *fixture) {
	first, second := f.running(), f.running()
	f.advance(first, runregistry.Progress{UpstreamID: "up"})
	f.advance(second, runregistry.Progress{UpstreamID: "up"})
	f.wantUpstream("up", second.Run)
	f.complete(first)
	f.remove(first.Run)
	f.wantUpstream("up", second.Run)
}

func lookupUpstreamMoves(f *fixture) {
	l := f.running()
	f.advance(l, runregistry.Progress{UpstreamID: "a"})
	f.advance(l, runregistry.Progress{UpstreamID: "b"})
	f.wantUpstream("b", l.Run)
	f.wantNoUpstream("a")
	f.stop(l.Run)
	f.advance(l, runregistry.Progress{UpstreamID: "c"}) // what is known late still counts
	f.wantUpstream("c", l.Run)
}
