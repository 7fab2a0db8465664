package storetest

import (
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var listTests = []test{
	{"a list is of one subject only", listIsOwn},
	{"pages together are the list", listPages},
	{"a list can be of one state or conversation", listFilters},
	{"a filtered list has no empty pages", listFilteredPages},
	{"a page is not moved by what happens between", listIsStable},
	{"a page is bounded", listBound},
	{"a token that no answer gave is refused", listMalformed},
}

var listOrderTests = []test{
	{"runs come newest first", listNewestFirst},
}

func (f *fixture) list(q runregistry.ListQuery) runregistry.List {
	f.Helper()
	if q.Subject == (runregistry.Subject{}) {
		q.Subject = alice
	}
	l, err := f.List(f.ctx, q)
	if err != nil {
		f.Fatalf("listing failed: %v", err)
	}
	return l
}

// listAll follows the tokens to the end; no run may come twice.
func (f *fixture) listAll(q runregistry.ListQuery) []runregistry.RunID {
	f.Helper()
	seen := make(map[runregistry.RunID]bool)
	var ids []runregistry.RunID
	for {
		l := f.list(q)
		if len(l.Records) > q.Bound() || len(l.Records) == 0 && l.Next != "" {
			f.Fatalf("got a page of %d with next %q, want 1 to %d", len(l.Records), l.Next, q.Bound())
		}
		for _, rec := range l.Records {
			if seen[rec.ID] {
				f.Fatalf("got %s twice", rec.ID)
			}
			seen[rec.ID] = true
			ids = append(ids, rec.ID)
		}
		if q.Page = l.Next; q.Page == "" {
			return ids
		}
	}
}

func listIsOwn(f *fixture) {
	want(f, "runs of nobody", len(f.listAll(runregistry.ListQuery{})), 0)
	l := f.running(shared)
	f.running(shared, by(bob))
	ids := f.listAll(runregistry.ListQuery{})
	want(f, "runs", len(ids), 1)
	want(f, "run", ids[0], l.Run)
}

func listPages(f *fixture) {
	started := make(map[runregistry.RunID]bool)
	for range 25 {
		started[f.running().Run] = true
	}
	for _, limit := range []int{1, 7, 24, 25, 26, 0} {
		ids := f.listAll(runregistry.ListQuery{Limit: limit})
		want(f, "runs", len(ids), len(started))
		for _, id := range ids {
			want(f, "known", started[id], true)
		}
	}
}

func listFilters(f *fixture) {
	a, b := f.running(in("a")), f.running(in("b"))
	f.complete(a)
	second := f.running(in("a"))
	f.bind(second, "alias")
	count := func(q runregistry.ListQuery) int { return len(f.listAll(q)) }
	want(f, "of a", count(runregistry.ListQuery{Conversation: "a"}), 2)
	want(f, "of the alias", count(runregistry.ListQuery{Conversation: "alias"}), 2)
	want(f, "of b", f.listAll(runregistry.ListQuery{Conversation: "b"})[0], b.Run)
	want(f, "of none", count(runregistry.ListQuery{Conversation: "x"}), 0)
	want(f, "running", count(runregistry.ListQuery{State: runregistry.Running}), 2)
	want(f, "completed", f.listAll(runregistry.ListQuery{State: runregistry.Completed})[0], a.Run)
	both := f.listAll(runregistry.ListQuery{State: runregistry.Running, Conversation: "a"})
	want(f, "running in a", len(both), 1)
}

func listFilteredPages(f *fixture) {
	for i := range 600 { // more than any engine looks at at once
		l := f.running()
		if i%200 == 0 {
			f.complete(l)
		}
	}
	q := runregistry.ListQuery{State: runregistry.Completed, Limit: 3}
	l := f.list(q)
	want(f, "records", len(l.Records), 3)
	want(f, "next", l.Next, "")
	q.Limit = 2
	want(f, "runs", len(f.listAll(q)), 3)
}

func listIsStable(f *fixture) {
	for range 4 {
		f.complete(f.running())
	}
	first := f.list(runregistry.ListQuery{Limit: 2})
	f.running()
	f.remove(first.Records[1].ID) // where the next page begins
	rest := f.listAll(runregistry.ListQuery{Limit: 2, Page: first.Next})
	want(f, "rest", len(rest), 2)
	for _, id := range rest {
		want(f, "seen before", id == first.Records[0].ID || id == first.Records[1].ID, false)
	}
}

func listBound(f *fixture) {
	for range 201 {
		f.running()
	}
	for limit, w := range map[int]int{0: 50, -1: 50, 200: 200, 1000: 200} {
		want(f, fmt.Sprintf("records for limit %d", limit), len(f.list(runregistry.ListQuery{Limit: limit}).Records), w)
	}
}

func listMalformed(f *fixture) {
	f.running()
	for _, token := range []string{"x", "!", "AA", "AAAA", "run_1", " ", "////////////////"} {
		_, err := f.List(f.ctx, runregistry.ListQuery{Subject: alice, Page: token})
		f.wantErr("page "+token, err, runregistry.ErrMalformedPage)
	}
}

func listNewestFirst(f *fixture) {
	var started []runregistry.RunID
	for range 10 {
		started = append(started, f.running().Run)
		time.Sleep(time.Second)
	}
	for _, limit := range []int{1, 3, 50} {
		for i, id := range f.listAll(runregistry.ListQuery{Limit: limit}) {
			want(f, "run", id, started[len(started)-1-i])
		}
	}
}

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
