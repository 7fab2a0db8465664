package faultstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/faultstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/storetest"
)

func wrap(t *testing.T) *faultstore.Store {
	t.Helper()
	inner := embeddedstore.New(embeddedstore.Options{})
	t.Cleanup(inner.Close)
	return faultstore.Wrap(inner)
}

func TestWithoutCommandItIsTheStoreItWraps(t *testing.T) {
	storetest.RunTimed(t, func(t *testing.T) runregistry.Store { return wrap(t) })
}

var (
	subject = runregistry.Subject{Realm: "r", Sub: "s"}
	scope   = runregistry.SubjectScope(subject)
)

func ask() *runregistry.Admission {
	return &runregistry.Admission{
		Run: runregistry.NewRunID(0), Subject: subject, Scope: scope,
		Conversation: runregistry.NewConversationID(),
		Retention:    runregistry.Retention{Frames: time.Hour, Record: time.Hour},
	}
}

// running starts and dispatches a run that nobody reads.
func running(t *testing.T, s *faultstore.Store) runregistry.Lease {
	t.Helper()
	d, err := s.Admit(t.Context(), ask())
	if err == nil {
		d.Watch.Close()
		_, err = s.Intend(t.Context(), d.Lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.Lease
}

// each makes every call once.
func each(ctx context.Context, s *faultstore.Store, l runregistry.Lease) map[faultstore.Call]error {
	errs := make(map[faultstore.Call]error)
	_, errs[faultstore.Admit] = s.Admit(ctx, ask())
	_, errs[faultstore.Intend] = s.Intend(ctx, l)
	_, errs[faultstore.Append] = s.Append(ctx, l, &runregistry.Batch{Frames: [][]byte{[]byte("x")}})
	errs[faultstore.Bind] = s.Bind(ctx, l, "alias")
	_, errs[faultstore.Settle] = s.Settle(ctx, l, &runregistry.Settlement{State: runregistry.Completed})
	_, errs[faultstore.Load] = s.Load(ctx, l.Run)
	_, errs[faultstore.Read] = s.Read(ctx, runregistry.PageQuery{Run: l.Run})
	_, errs[faultstore.Watch] = s.Watch(ctx, l.Run, true)
	_, errs[faultstore.Current] = s.Current(ctx, scope, "alias")
	_, errs[faultstore.List] = s.List(ctx, runregistry.ListQuery{Subject: subject})
	_, errs[faultstore.ByUpstream] = s.ByUpstream(ctx, scope, "up")
	_, errs[faultstore.Stop] = s.Stop(ctx, l.Run, "")
	errs[faultstore.Deliver] = s.Deliver(ctx, l.Run, runregistry.DeliveryDone)
	_, errs[faultstore.Readers] = s.Readers(ctx, l.Run)
	errs[faultstore.Delete] = s.Delete(ctx, l.Run)
	return errs
}

func wantErr(t *testing.T, doing faultstore.Call, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", doing, got, want)
	}
}

func TestEveryCallFailsAndLeavesNoTrace(t *testing.T) {
	s := wrap(t)
	l := running(t, s)
	before, err := s.Load(t.Context(), l.Run)
	if err != nil {
		t.Fatal(err)
	}
	s.Down()
	errs := each(t.Context(), s, l)
	for call, err := range errs {
		wantErr(t, call, err, runregistry.ErrUnavailable)
	}
	if len(errs) != 15 {
		t.Errorf("got %d calls, want all 15", len(errs))
	}
	s.Up()
	after, err := s.Load(t.Context(), l.Run)
	if err != nil || after.Revision != before.Revision {
		t.Errorf("got record %+v and error %v, want an unchanged one", after, err)
	}
}

func TestEveryCallCanLoseItsReply(t *testing.T) {
	s := wrap(t)
	l := running(t, s)
	s.Plan(faultstore.Any, 15, faultstore.LoseReply())
	for call, err := range each(t.Context(), s, l) {
		wantErr(t, call, err, runregistry.ErrUnavailable)
	}
	if _, err := s.Load(t.Context(), l.Run); !errors.Is(err, runregistry.ErrNoRun) {
		t.Errorf("got error %v, want that the run was deleted", err)
	}
}

// What the caller of a lost reply never saw it cannot close.
func TestALostReplyLeavesNoReader(t *testing.T) {
	s := wrap(t)
	a := ask()
	s.Plan(faultstore.Admit, 1, faultstore.LoseReply())
	s.Plan(faultstore.Watch, 1, faultstore.LoseReply())
	if _, err := s.Admit(t.Context(), a); !errors.Is(err, runregistry.ErrUnavailable) {
		t.Fatalf("got error %v, want %v", err, runregistry.ErrUnavailable)
	}
	if _, err := s.Watch(t.Context(), a.Run, true); !errors.Is(err, runregistry.ErrUnavailable) {
		t.Fatalf("got error %v, want %v", err, runregistry.ErrUnavailable)
	}
	if n, err := s.Readers(t.Context(), a.Run); n != 0 || err != nil {
		t.Errorf("got %d readers and error %v, want none", n, err)
	}
}

func TestPlansAreUsedUpInOrder(t *testing.T) {
	s := wrap(t)
	l := running(t, s)
	s.Plan(faultstore.Any, 1, faultstore.FailWith(runregistry.ErrExpired))
	s.Plan(faultstore.Load, 2, faultstore.FailWith(runregistry.ErrFenced))
	s.Plan(faultstore.Load, 1, faultstore.Fail())
	wants := []error{runregistry.ErrFenced, runregistry.ErrFenced, runregistry.ErrUnavailable, runregistry.ErrExpired, nil, nil}
	for _, want := range wants {
		_, err := s.Load(t.Context(), l.Run)
		wantErr(t, faultstore.Load, err, want)
	}
	if n := s.Calls(faultstore.Load); n != len(wants) {
		t.Errorf("got %d loads counted, want %d", n, len(wants))
	}
	if n := s.Calls(faultstore.Any); n != len(wants)+2 {
		t.Errorf("got %d calls counted, want %d", n, len(wants)+2)
	}
}

func TestADelayedCallArrivesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wrap(t)
		l := running(t, s)
		s.Plan(faultstore.Append, 1, faultstore.Delay(3*time.Second))
		start := time.Now()
		if _, err := s.Append(t.Context(), l, &runregistry.Batch{Frames: [][]byte{{1}}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("got an answer after %v, want 3s", took)
		}
	})
}

func TestADelayedCallIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wrap(t)
		l := running(t, s)
		s.Plan(faultstore.Append, 1, faultstore.Delay(3*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Append(ctx, l, &runregistry.Batch{Frames: [][]byte{{1}}})
		wantErr(t, faultstore.Append, err, runregistry.ErrUnavailable)
		wantErr(t, faultstore.Append, err, context.DeadlineExceeded)
		rec, err := s.Load(t.Context(), l.Run)
		if err != nil || rec.LastSeq != 0 {
			t.Errorf("got record %+v and error %v, want no frame", rec, err)
		}
	})
}

func TestAHeldCallWaitsForItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wrap(t)
		l := running(t, s)
		held := s.Hold(faultstore.Append)
		stored := make(chan error, 1)
		go func() {
			_, err := s.Append(t.Context(), l, &runregistry.Batch{Frames: [][]byte{{1}}})
			stored <- err
		}()
		<-held.Arrived
		if rec, err := s.Load(t.Context(), l.Run); err != nil || rec.LastSeq != 0 {
			t.Errorf("got record %+v and error %v, want no frame yet", rec, err)
		}
		held.Release()
		held.Release()
		wantErr(t, faultstore.Append, <-stored, nil)
		if _, err := s.Append(t.Context(), l, &runregistry.Batch{After: 1}); err != nil {
			t.Errorf("after the release: got error %v", err)
		}
	})
}

func TestAHeldCallIsGivenUp(t *testing.T) {
	s := wrap(t)
	l := running(t, s)
	held := s.Hold(faultstore.Any)
	defer held.Release()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := s.Load(ctx, l.Run)
	wantErr(t, faultstore.Load, err, runregistry.ErrUnavailable)
	wantErr(t, faultstore.Load, err, why)
}

func TestHintsCanBeLost(t *testing.T) {
	s := wrap(t)
	l := running(t, s)
	hearing, err := s.Watch(t.Context(), l.Run, true)
	if err != nil {
		t.Fatal(err)
	}
	defer hearing.Close()
	s.LoseHints()
	deaf, err := s.Watch(t.Context(), l.Run, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), l, &runregistry.Batch{Frames: [][]byte{{1}}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-deaf.C:
		t.Error("got a hint, want it lost")
	case <-hearing.C:
	}
	deaf.Close()
	if n, err := s.Readers(t.Context(), l.Run); n != 1 || err != nil {
		t.Errorf("got %d readers and error %v, want 1", n, err)
	}
}
