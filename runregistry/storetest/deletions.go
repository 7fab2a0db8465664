package storetest

import "github.com/caddy-agent-runs/caddy-agent-runs/runregistry"

var deletionTests = []test{
	{"an active run cannot be deleted", deleteActive},
	{"a deleted run is gone in every way", deleteGone},
	{"the key of a deleted run stays reserved", deleteKeepsKey},
	{"a key that was released is not reserved", deleteReleased},
	{"a conversation goes back to the run before", deleteInConversation},
	{"deleting again finds nothing", deleteAgain},
	{"a deleted delivery is not claimed", deleteDelivery},
}

func (f *fixture) remove(id runregistry.RunID) {
	f.Helper()
	if err := f.Delete(f.ctx, id); err != nil {
		f.Fatalf("deleting failed: %v", err)
	}
}

func deleteActive(f *fixture) {
	queued := f.start()
	f.wantErr("queued", f.Delete(f.ctx, queued.Record.ID), runregistry.ErrRunActive)
	l := f.running()
	f.wantErr("running", f.Delete(f.ctx, l.Run), runregistry.ErrRunActive)
	f.stop(l.Run)
	f.wantErr("cancelling", f.Delete(f.ctx, l.Run), runregistry.ErrRunActive)
	f.complete(l)
	f.remove(l.Run)
}

func deleteGone(f *fixture) {
	l := f.running(in("c"))
	f.advance(l, runregistry.Progress{UpstreamID: "up"})
	f.add(l, 0, "one")
	f.complete(l)
	f.remove(l.Run)
	f.wantGone(l.Run)
	f.wantUnknown("c")
	_, err := f.ByUpstream(f.ctx, runregistry.SubjectScope(alice), "up")
	f.wantErr("by upstream's id", err, runregistry.ErrNoRun)
	want(f, "runs listed", len(f.list(runregistry.ListQuery{}).Records), 0)
	f.wantErr("delivery", f.Deliver(f.ctx, l.Run, opened), runregistry.ErrNoRun)
	_, err = f.Stop(f.ctx, l.Run, "")
	f.wantErr("stop", err, runregistry.ErrNoRun)
}

func deleteKeepsKey(f *fixture) {
	l := f.running(keyed("k"))
	f.complete(l)
	f.remove(l.Run)
	f.wantErr("equal request", f.refused(keyed("k")), runregistry.ErrDeleted)
	f.wantErr("other request", f.refused(keyed("k"), body("other")), runregistry.ErrDeleted)
	f.start(keyed("l"))
	f.start(keyed("k"), by(bob))
}

func deleteReleased(f *fixture) {
	l := f.running(keyed("k"))
	f.end(l, runregistry.Settlement{State: runregistry.Failed, NoEffect: true, ReleaseKey: true})
	f.remove(l.Run)
	f.start(keyed("k"))
}

func deleteInConversation(f *fixture) {
	first := f.running(in("c"))
	f.complete(first)
	second := f.running(in("c"))
	f.complete(second)
	f.remove(second.Run)
	want(f, "current", f.current("c").ID, first.Run)
	f.remove(first.Run)
	f.wantUnknown("c")
}

func deleteAgain(f *fixture) {
	l := f.running()
	f.complete(l)
	f.remove(l.Run)
	f.wantErr("deleting again", f.Delete(f.ctx, l.Run), runregistry.ErrNoRun)
}

func deleteDelivery(f *fixture) {
	l := f.running(echo("hi"))
	f.deliver(l.Run, brokeEarly)
	f.complete(l)
	f.remove(l.Run)
	f.start(echo("hi"))
}
