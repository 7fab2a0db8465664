package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// site is one instance and the means to break what it stands on.
type site struct {
	*testing.T
	redis *testkit.Redis
	link  *testkit.Link
	store *redisstore.Store
	// other is a second instance, which is not behind the link.
	other *redisstore.Store
}

// quick is a time-out that lets a test of an outage go on.
const quick = 500 * time.Millisecond

func newSite(t *testing.T, settings ...string) *site {
	t.Helper()
	r := testkit.StartRedis(t, settings...)
	link := testkit.NewLink(t, r.Addr())
	s := &site{
		T: t, redis: r, link: link,
		store: open(t, redisstore.Options{Addrs: []string{link.Addr()}, Timeout: quick}),
		other: open(t, redisstore.Options{Addrs: []string{r.Addr()}, Timeout: quick}),
	}
	s.store.Hold("one", time.Hour)
	s.other.Hold("two", time.Hour)
	return s
}

var subject = runregistry.Subject{Realm: "chat", Issuer: "session", Sub: "s"}

func admission(c runregistry.ConversationID) *runregistry.Admission {
	scope := runregistry.SubjectScope(subject)
	return &runregistry.Admission{
		Run:     runregistry.NewRunID(runregistry.PartitionOf(string(scope))),
		Subject: subject, Scope: scope, Route: "chat", Conversation: c, Named: true, Busy: runregistry.BusyReject,
		Retention: runregistry.Retention{Frames: time.Minute, Record: time.Hour},
	}
}

// running starts and dispatches a run.
func (s *site) running(c runregistry.ConversationID) runregistry.Lease {
	s.Helper()
	d, err := s.store.Admit(s.Context(), admission(c))
	if err == nil {
		d.Watch.Close()
		_, err = s.store.Intend(s.Context(), d.Lease)
	}
	if err != nil {
		s.Fatal(err)
	}
	testkit.Eventually(s, "the store has told that nobody reads", func() bool {
		n, err := s.other.Readers(s.Context(), d.Lease.Run)
		return err == nil && n == 0
	})
	return d.Lease
}

func batch(after runregistry.Seq, frames ...string) *runregistry.Batch {
	b := &runregistry.Batch{After: after}
	for _, f := range frames {
		b.Frames = append(b.Frames, []byte(f))
	}
	return b
}

// persist appends until the store takes it, as an owner does.
func (s *site) persist(l runregistry.Lease, b *runregistry.Batch) runregistry.Seq {
	s.Helper()
	var done runregistry.Appended
	testkit.Eventually(s, "an append succeeds", func() bool {
		var err error
		if done, err = s.store.Append(s.Context(), l, b); err != nil && !errors.Is(err, runregistry.ErrUnavailable) {
			s.Fatal(err)
		}
		return err == nil
	})
	return done.Last
}

func (s *site) unavailable(doing string, err error) {
	s.Helper()
	if !errors.Is(err, runregistry.ErrUnavailable) {
		s.Errorf("%s: got error %v, want %v", doing, err, runregistry.ErrUnavailable)
	}
}

// everything checks that each call says that the store is unavailable.
func (s *site) everything(l runregistry.Lease) {
	s.Helper()
	ctx := s.Context()
	_, err := s.store.Admit(ctx, admission("other"))
	s.unavailable("admission", err)
	_, err = s.store.Append(ctx, l, batch(1, "two"))
	s.unavailable("append", err)
	_, err = s.store.Append(ctx, l, &runregistry.Batch{After: 1, Progress: &runregistry.Progress{Model: "m"}})
	s.unavailable("progress", err)
	_, err = s.store.Settle(ctx, l, &runregistry.Settlement{State: runregistry.Completed})
	s.unavailable("settle", err)
	_, err = s.store.Load(ctx, l.Run)
	s.unavailable("load", err)
	_, err = s.store.Read(ctx, runregistry.PageQuery{Run: runregistry.NewRunID(5)})
	s.unavailable("read", err)
	_, err = s.store.Watch(ctx, runregistry.NewRunID(5), true)
	s.unavailable("watch", err)
	_, err = s.store.Renew(ctx, []runregistry.Lease{l})
	s.unavailable("renewal", err)
	_, err = s.store.Stop(ctx, l.Run, "")
	s.unavailable("stop", err)
	_, err = s.store.Expired(ctx, 10)
	s.unavailable("expired", err)
	_, _, err = s.store.TakeOver(ctx, l.Run)
	s.unavailable("takeover", err)
	_, err = s.store.List(ctx, runregistry.ListQuery{Subject: subject})
	s.unavailable("list", err)
}

// log reads all frames on an instance.
func (s *site) log(from *redisstore.Store, id runregistry.RunID) string {
	s.Helper()
	p, err := from.Read(s.Context(), runregistry.PageQuery{Run: id})
	if err != nil {
		s.Fatal(err)
	}
	text := ""
	for i, f := range p.Frames {
		if f.Seq != runregistry.Seq(i+1) {
			s.Fatalf("got frame %d in place %d", f.Seq, i+1)
		}
		text += string(f.Data) + " "
	}
	return text
}

func (s *site) wantLog(id runregistry.RunID, want string) {
	s.Helper()
	for name, from := range map[string]*redisstore.Store{"the owner": s.store, "the other": s.other} {
		if got := s.log(from, id); got != want {
			s.Errorf("%s: got frames %q, want %q", name, got, want)
		}
	}
}
