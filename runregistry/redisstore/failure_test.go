package redisstore_test

import (
	"context"
	"errors"
	"fmt"
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
		if f.Seq != runregistry.Seq(i+1) { //nolint:gosec // an index
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

func TestFrozenServerIsUnavailableAndGoesOn(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	s.redis.Freeze()
	began := time.Now()
	_, err := s.store.Append(t.Context(), l, batch(1, "two"))
	s.unavailable("append", err)
	if took := time.Since(began); took > 10*quick {
		t.Errorf("got the answer after %v, want it after about %v", took, quick)
	}
	s.everything(l)
	s.redis.Thaw()
	// The server carries out what it was sent while frozen: the append that
	// seemed lost, and perhaps a Stop and the end. None of it may come twice.
	testkit.Eventually(t, "the server answers", func() bool {
		_, err := s.store.Load(t.Context(), l.Run)
		return err == nil
	})
	last, err := s.store.Append(t.Context(), l, batch(1, "two"))
	if err == nil && last.Last > 2 {
		t.Errorf("got last %d, want at most 2", last.Last)
	}
	if got := s.log(s.other, l.Run); got != "one " && got != "one two " {
		t.Errorf("got frames %q, want each at most once", got)
	}
}

func TestServerThatIsDownIsUnavailableUntilItIsThere(t *testing.T) {
	s := newSite(t)
	s.redis.Kill()
	late := open(t, redisstore.Options{Addrs: []string{s.redis.Addr()}, Timeout: quick})
	_, err := late.Admit(t.Context(), admission("c"))
	s.unavailable("admission", err)
	s.redis.Start()
	testkit.Eventually(t, "the server answers", func() bool {
		_, err := late.Admit(t.Context(), admission("c"))
		return err == nil || errors.As(err, new(*runregistry.BusyError))
	})
}

func TestServerThatComesBackEmptyGetsTheRunAgain(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one", "two"))
	rec, err := s.store.Load(t.Context(), l.Run)
	if err != nil {
		t.Fatal(err)
	}
	s.redis.Kill()
	s.everything(l)
	s.redis.Start()
	testkit.Eventually(t, "the loss is told", func() bool {
		_, err := s.store.Append(t.Context(), l, batch(2, "three"))
		return errors.Is(err, runregistry.ErrNoRun)
	})
	if err := s.store.Restore(t.Context(), l, rec, batch(0, "one", "two")); err != nil {
		t.Fatal(err)
	}
	s.persist(l, batch(2, "three"))
	s.wantLog(l.Run, "one two three ")
	_, err = s.other.Admit(t.Context(), admission("c"))
	if !errors.As(err, new(*runregistry.BusyError)) {
		t.Errorf("got error %v, want that the conversation is busy", err)
	}
}

func TestReplicaThatBecameReadOnlyIsUnavailable(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	master := testkit.StartRedis(t)
	s.redis.Do("CONFIG", "SET", "replica-serve-stale-data", "yes")
	s.redis.Do("REPLICAOF", "127.0.0.1", "1")
	_, err := s.store.Append(t.Context(), l, batch(1, "two"))
	s.unavailable("append", err)
	_, err = s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed})
	s.unavailable("settle", err)
	_, err = s.store.Admit(t.Context(), admission("other"))
	s.unavailable("admission", err)
	s.redis.Do("REPLICAOF", "NO", "ONE")
	s.persist(l, batch(1, "two"))
	s.wantLog(l.Run, "one two ")
	_ = master
}

func TestFullServerTakesTheEndOfARun(t *testing.T) {
	s := newSite(t, "maxmemory-policy noeviction")
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	s.redis.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := s.store.Admit(t.Context(), admission("other"))
	s.unavailable("admission", err)
	_, err = s.store.Append(t.Context(), l, batch(1, "two"))
	s.unavailable("append", err)
	renewals, err := s.store.Renew(t.Context(), []runregistry.Lease{l})
	if err != nil || renewals[0].Err != nil || renewals[0].Last != 1 {
		t.Errorf("renewing on a full server: got %v and error %v", renewals, err)
	}
	rec, err := s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed})
	if err != nil || rec.State != runregistry.Completed {
		t.Fatalf("settling on a full server: got %v and error %v", rec, err)
	}
	s.wantLog(l.Run, "one ")
	s.redis.Do("CONFIG", "SET", "maxmemory", "0")
	if _, err := s.store.Admit(t.Context(), admission("c")); err != nil {
		t.Errorf("the conversation is not free: %v", err)
	}
}

func TestScriptsThatAServerForgotAreSentAgain(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	for i := range runregistry.Seq(5) {
		s.redis.Do("SCRIPT", "FLUSH")
		if _, err := s.store.Append(t.Context(), l, batch(i, fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	s.redis.Do("SCRIPT", "FLUSH")
	if _, err := s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed}); err != nil {
		t.Fatal(err)
	}
	s.wantLog(l.Run, "1 2 3 4 5 ")
}

// In each row the answer to a call is lost; the call is made again, and must
// have been carried out once.
func TestLostRepliesLeaveNothingTwice(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context, s *site, l runregistry.Lease) error
	}{
		{"append", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Append(ctx, l, batch(1, "two"))
			return err
		}},
		{"append with progress", func(ctx context.Context, s *site, l runregistry.Lease) error {
			b := batch(1, "two")
			b.Progress = &runregistry.Progress{Model: "m", UpstreamID: "up"}
			_, err := s.store.Append(ctx, l, b)
			return err
		}},
		{"bind", func(ctx context.Context, s *site, l runregistry.Lease) error { return s.store.Bind(ctx, l, "alias") }},
		{"stop", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Stop(ctx, l.Run, "")
			return err
		}},
		{"renewal", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Renew(ctx, []runregistry.Lease{l})
			return err
		}},
		{"settle", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Settle(ctx, l, &runregistry.Settlement{State: runregistry.Completed})
			if errors.Is(err, runregistry.ErrSettled) {
				return nil // the first was carried out, and we are told so
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			l := s.running("c")
			s.persist(l, batch(0, "one"))
			ctx := t.Context()
			for try := 0; s.link.Lost() < 2; try++ {
				s.link.LoseReply()
				if err := tt.do(ctx, s, l); err != nil {
					s.unavailable(tt.name, err)
				}
				if try > 100 {
					t.Fatal("no reply was lost")
				}
			}
			s.link.Mend()
			if err := tt.do(ctx, s, l); err != nil {
				t.Fatalf("the last try failed: %v", err)
			}
			rec, err := s.other.Load(ctx, l.Run)
			if err != nil || rec.Cancel.Version > 1 || rec.LastSeq > 2 || rec.Bytes > 6 {
				t.Errorf("got %+v and error %v, want everything at most once", rec, err)
			}
		})
	}
}

func TestLostReplyToAnAdmissionStartsOnce(t *testing.T) {
	s := newSite(t)
	s.running("warm")
	a := admission("c")
	var d *runregistry.Decision
	for try := 0; d == nil || s.link.Lost() < 2; try++ {
		s.link.LoseReply()
		var err error
		if d, err = s.store.Admit(t.Context(), a); err != nil {
			s.unavailable("admission", err)
		}
		if try > 100 {
			t.Fatal("no reply was lost")
		}
	}
	if d.Match != runregistry.MatchNone || d.Lease.Run != a.Run || d.Record.Delivery.Pending != 1 {
		t.Errorf("got %+v, want the run that was started first", d)
	}
	d.Watch.Close()
	_, err := s.other.Admit(t.Context(), admission("c"))
	b, ok := errors.AsType[*runregistry.BusyError](err)
	if !ok || b.Run != a.Run {
		t.Errorf("got error %v, want that %s is active", err, a.Run)
	}
}
