package redisstore_test

import (
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

func progress(state runregistry.State) *runregistry.Batch {
	return &runregistry.Batch{After: 1, Progress: &runregistry.Progress{State: state}}
}

// The change was made although its answer was lost. What the owner says next is
// not measured by what the owner knew before.
func TestProgressAfterALostReplyIsNotTakenForOldNews(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	s.persist(l, progress(runregistry.Running))
	s.link.LoseReply(0)
	_, err := s.store.Append(t.Context(), l, progress(runregistry.Waiting))
	s.unavailable("append", err)
	s.wantState(l.Run, runregistry.Waiting)
	s.persist(l, progress(runregistry.Running))
	s.wantState(l.Run, runregistry.Running)
}

// The change has not been made yet, and arrives when the owner has long moved
// on. It must not undo that.
func TestLateChangeDoesNotUndoALaterOne(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	deliver := s.link.HoldRequest(t)
	_, err := s.store.Append(t.Context(), l, progress(runregistry.Waiting))
	s.unavailable("append", err)
	s.wantState(l.Run, runregistry.Running)
	s.persist(l, progress(runregistry.Running))
	deliver()
	s.wantState(l.Run, runregistry.Running)
	s.persist(l, progress(runregistry.Waiting))
	s.wantState(l.Run, runregistry.Waiting)
}

// loseAnswer makes a call, again and again, until it is carried out: of its
// answers the last one is lost then, and one more every time before.
func (s *site) loseAnswer(call func() error, carriedOut func() bool) {
	s.Helper()
	for skip := range 20 {
		s.link.LoseReply(skip)
		err := call()
		if carriedOut() {
			s.unavailable("call", err)
			return
		}
	}
	s.Fatal("the call was never carried out")
}

func (s *site) wantState(id runregistry.RunID, want runregistry.State) {
	s.Helper()
	rec, err := s.other.Load(s.Context(), id)
	if err != nil || rec.State != want {
		s.Fatalf("got state %v and error %v, want %v", rec.State, err, want)
	}
}

// A run opened its conversation with a Bind whose answer was lost. Restored, it
// has it still.
func TestRestoreAfterALostReplyToBindKeepsTheConversation(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := newSite(t)
		l := s.running("")
		var rec *runregistry.Record
		s.loseAnswer(func() error { return s.store.Bind(t.Context(), l, "alias") }, func() bool {
			var err error
			rec, err = s.other.Load(t.Context(), l.Run)
			return err == nil && rec.Conversation == "alias"
		})
		if again {
			if err := s.store.Bind(t.Context(), l, "alias"); err != nil {
				t.Fatal(err)
			}
		}
		s.redis.Do("FLUSHALL")
		if err := s.store.Restore(t.Context(), l, rec, batch(0)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.other.Current(t.Context(), runregistry.SubjectScope(subject), "alias"); err != nil || got.ID != l.Run {
			t.Errorf("bound again %v: got %v and error %v, want %s in its conversation", again, got, err, l.Run)
		}
	}
}

func TestLostReplyToRestoreLosesNothing(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	rec, err := s.other.Load(t.Context(), l.Run)
	if err != nil {
		t.Fatal(err)
	}
	s.redis.Do("FLUSHALL")
	s.loseAnswer(func() error { return s.store.Restore(t.Context(), l, rec, batch(0, "one")) }, func() bool {
		_, err := s.other.Load(t.Context(), l.Run)
		return err == nil
	})
	if err := s.store.Restore(t.Context(), l, rec, batch(0, "one")); err != nil {
		t.Fatalf("the second try: got error %v, want none", err)
	}
	s.persist(l, batch(1, "two"))
	s.wantLog(l.Run, "one two ")
}

// An admission whose answer was lost is made again when another instance has
// taken the run over. The lease of that instance is not handed out.
func TestAdmissionSentAgainAfterATakeoverGetsNoLease(t *testing.T) {
	s := newSite(t)
	s.store.Hold("one", 50*time.Millisecond)
	a := admission("c")
	d, err := s.store.Admit(t.Context(), a) // the answer to this, which nobody got
	if err != nil {
		t.Fatal(err)
	}
	d.Watch.Close()
	testkit.Eventually(t, "the lease is taken over", func() bool {
		_, _, err := s.other.TakeOver(t.Context(), a.Run)
		return err == nil
	})
	if d, err = s.store.Admit(t.Context(), a); err == nil {
		t.Fatalf("got lease %+v, want none", d.Lease)
	}
	s.unavailable("second admission", err)
}

// A request that attaches is one delivery, however often it is sent.
func TestLostReplyToAnAttachmentCountsOnce(t *testing.T) {
	s := newSite(t)
	a := admission("c")
	a.Key = runregistry.Digest{1}
	attach := func(run runregistry.RunID) error {
		again := *a
		again.Run = run
		d, err := s.store.Admit(t.Context(), &again)
		if err == nil {
			t.Cleanup(d.Watch.Close) // not before: telling it is answered too
		}
		return err
	}
	pending := func() int {
		rec, err := s.other.Load(t.Context(), a.Run)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Delivery.Pending
	}
	for _, run := range []runregistry.RunID{a.Run, admission("c").Run} { // the scripts are known then
		if err := attach(run); err != nil {
			t.Fatal(err)
		}
	}
	second := admission("c").Run
	s.loseAnswer(func() error { return attach(second) }, func() bool { return pending() == 3 })
	if err := attach(second); err != nil || pending() != 3 {
		t.Fatalf("got %d deliveries and error %v, want three", pending(), err)
	}
}
