package embeddedstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A bubble fails a test that leaves a goroutine behind.
func TestFiftyStoresLeaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			s := New(Options{})
			finished(t, s, ask("k"))
			s.Close()
			s.Close()
		}
	})
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		d, err := s.Admit(t.Context(), ask("k"))
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.Watch(t.Context(), d.Record.ID, true)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		select {
		case <-w.C:
		case <-time.After(time.Second):
			t.Error("got no hint that the store closed")
		}
		_, admit := s.Admit(t.Context(), ask("l"))
		_, read := s.Read(t.Context(), runregistry.PageQuery{Run: d.Record.ID})
		_, settle := s.Settle(t.Context(), d.Lease, &runregistry.Settlement{State: runregistry.Failed})
		_, list := s.List(t.Context(), runregistry.ListQuery{Subject: tester})
		_, current := s.Current(t.Context(), d.Record.Scope, d.Record.Conversation)
		for call, err := range map[string]error{"admit": admit, "read": read, "settle": settle, "list": list, "current": current} {
			if !errors.Is(err, runregistry.ErrUnavailable) {
				t.Errorf("%s: got error %v, want %v", call, err, runregistry.ErrUnavailable)
			}
		}
		w.Close()
		d.Watch.Close()
	})
}

func TestReadersMayLeaveAfterTheirRun(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	id := finished(t, s, ask("k"))
	w, err := s.Watch(t.Context(), id, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := s.Readers(t.Context(), id); !errors.Is(err, runregistry.ErrNoRun) {
		t.Errorf("got error %v, want %v", err, runregistry.ErrNoRun)
	}
}
