package embeddedstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var tester = runregistry.Subject{Realm: "r", Sub: "tester"}

// ask asks for a run with a key, a conversation and short retention.
func ask(key string) *runregistry.Admission {
	return &runregistry.Admission{
		Run:          runregistry.NewRunID(0),
		Subject:      tester,
		Scope:        runregistry.SubjectScope(tester),
		Conversation: runregistry.NewConversationID(),
		Key:          runregistry.Digest([]byte((key + "................................")[:32])),
		Retention:    runregistry.Retention{Frames: time.Minute, Record: time.Hour, Key: 2 * time.Minute},
	}
}

// finished runs a run with one frame from admission to end.
func finished(t *testing.T, s *Store, a *runregistry.Admission) runregistry.RunID {
	t.Helper()
	ctx := t.Context()
	d, err := s.Admit(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	d.Watch.Close()
	_, intent := s.Intend(ctx, d.Lease)
	_, stored := s.Append(ctx, d.Lease, &runregistry.Batch{
		Frames: [][]byte{make([]byte, 10_000)}, Progress: &runregistry.Progress{UpstreamID: "up-" + string(a.Run)},
	})
	bound := s.Bind(ctx, d.Lease, runregistry.NewConversationID())
	_, settled := s.Settle(ctx, d.Lease, &runregistry.Settlement{State: runregistry.Completed, Progress: &runregistry.Progress{
		Snapshot: make([]byte, 1000),
	}})
	if err := errors.Join(intent, stored, bound, settled); err != nil {
		t.Fatal(err)
	}
	return a.Run
}

// wantEmpty checks that nothing of any run is left in the store.
func wantEmpty(t *testing.T, s *Store) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	left := map[string]int{
		"accounts":  len(s.claims.accounts),
		"places":    len(s.claims.places),
		"upstreams": len(s.claims.upstreams),
		"deadlines": len(s.agenda),
		"runs":      len(s.runs.byID),
		"bytes":     int(s.Used()),
	}
	for what, n := range left {
		if n != 0 {
			t.Errorf("got %d %s, want none", n, what)
		}
	}
}

func TestSweeperFreesWhatNobodyAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		for i := range 3 * sweepBatch {
			finished(t, s, ask("k"+string(rune('A'+i))))
		}
		full := s.Used()
		time.Sleep(time.Minute)
		synctest.Wait()
		if used := s.Used(); used > full/2 {
			t.Errorf("got %d of %d bytes used after the frames expired", used, full)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		wantEmpty(t, s)
	})
}

func TestSweeperWakesForADeadlineThatIsEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		finished(t, s, ask("late"))
		synctest.Wait()
		early := ask("early")
		early.Retention = runregistry.Retention{Record: time.Second}
		finished(t, s, early)
		time.Sleep(time.Second)
		synctest.Wait()
		if r := s.runs.get(early.Run); r != nil {
			t.Error("got a run past its deadline, want none")
		}
	})
}

func TestSweeperFreesReservedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		id := finished(t, s, ask("k"))
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		again := ask("k")
		if _, err := s.Admit(t.Context(), again); !errors.Is(err, runregistry.ErrDeleted) {
			t.Errorf("got error %v, want %v", err, runregistry.ErrDeleted)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wantEmpty(t, s)
	})
}

// unswept is a store without a sweeper: what it expires it expires on access.
func unswept(t *testing.T) *Store {
	t.Helper()
	s := New(Options{})
	s.Close()
	s.done = make(chan struct{})
	return s
}

func TestEveryCallSeesThatADeadlineHasPassed(t *testing.T) {
	calls := map[string]func(*Store, runregistry.RunID) error{
		"Load":   func(s *Store, id runregistry.RunID) error { _, err := s.Load(t.Context(), id); return err },
		"Watch":  func(s *Store, id runregistry.RunID) error { _, err := s.Watch(t.Context(), id, true); return err },
		"Stop":   func(s *Store, id runregistry.RunID) error { _, err := s.Stop(t.Context(), id, ""); return err },
		"Delete": func(s *Store, id runregistry.RunID) error { return s.Delete(t.Context(), id) },
		"Deliver": func(s *Store, id runregistry.RunID) error {
			return s.Deliver(t.Context(), id, runregistry.DeliveryDone)
		},
		"Read": func(s *Store, id runregistry.RunID) error {
			_, err := s.Read(t.Context(), runregistry.PageQuery{Run: id})
			return err
		},
		"Settle": func(s *Store, id runregistry.RunID) error {
			_, err := s.Settle(t.Context(), runregistry.Lease{Run: id, Epoch: 1}, &runregistry.Settlement{State: runregistry.Failed})
			return err
		},
		"ByUpstream": func(s *Store, id runregistry.RunID) error {
			_, err := s.ByUpstream(t.Context(), runregistry.SubjectScope(tester), "up-"+string(id))
			return err
		},
	}
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			s := unswept(t)
			id := finished(t, s, ask("k"))
			time.Sleep(time.Hour)
			if err := call(s, id); !errors.Is(err, runregistry.ErrNoRun) {
				t.Errorf("%s: got error %v, want %v", name, err, runregistry.ErrNoRun)
			}
			wantEmpty(t, s)
		})
	}
}

func TestFramesAndKeysExpireWithoutASweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unswept(t)
		a := ask("k")
		id := finished(t, s, a)
		time.Sleep(time.Minute)
		if _, err := s.Read(t.Context(), runregistry.PageQuery{Run: id}); !errors.Is(err, runregistry.ErrExpired) {
			t.Errorf("reading: got error %v, want %v", err, runregistry.ErrExpired)
		}
		if rec, err := s.Load(t.Context(), id); err != nil || rec.FirstSeq != 0 {
			t.Errorf("got record %+v and error %v, want one without frames", rec, err)
		}
		time.Sleep(time.Minute)
		again := *a
		again.Run = runregistry.NewRunID(0)
		if d, err := s.Admit(t.Context(), &again); err != nil || d.Match != runregistry.MatchNone {
			t.Errorf("got decision %+v and error %v, want a new run", d, err)
		}
	})
}
