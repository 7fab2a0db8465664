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
	for i := range 30 {
		l := f.running()
		if i%10 == 0 {
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
