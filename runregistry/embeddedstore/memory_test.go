package embeddedstore

import (
	"errors"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// admits reports whether the store takes one more run.
func admits(t *testing.T, s *Store) bool {
	t.Helper()
	a := ask("k")
	a.Key = runregistry.Digest{}
	d, err := s.Admit(t.Context(), a)
	if err == nil {
		d.Watch.Close()
		return true
	}
	if !errors.Is(err, runregistry.ErrUnavailable) {
		t.Fatalf("got error %v, want %v", err, runregistry.ErrUnavailable)
	}
	return false
}

func TestTheBoundCanChangeWhileTheStoreIsInUse(t *testing.T) {
	s := New(Options{Memory: 1})
	defer s.Close()
	if !admits(t, s) || admits(t, s) {
		t.Error("got a bound that does not hold")
	}
	if s.SetMemory(1 << 20); !admits(t, s) {
		t.Error("got a run refused below the new bound")
	}
	if s.SetMemory(1); admits(t, s) {
		t.Error("got a run above the new bound")
	}
	if s.SetMemory(0); !admits(t, s) {
		t.Error("got a run refused below the default bound")
	}
}

// The bound itself is already too much.
func TestTheBoundIsReachedWhenMemoryIsUsedUp(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	if !admits(t, s) || s.Used() != runOverhead {
		t.Fatalf("got %d bytes used by one run, want %d", s.Used(), runOverhead)
	}
	s.SetMemory(runOverhead + 1)
	if !admits(t, s) {
		t.Error("got a run refused below the bound")
	}
	s.SetMemory(s.Used())
	if admits(t, s) {
		t.Error("got a run at the bound")
	}
}

func TestMemoryIsThatOfFramesAndSnapshots(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	id := finished(t, s, ask("k"))
	if used := s.Used(); used < runOverhead+10_000+1000 || used > runOverhead+10_000+1000+1000 {
		t.Errorf("got %d bytes used by a frame of 10,000 and a snapshot of 1,000", used)
	}
	if err := s.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if used := s.Used(); used != 0 {
		t.Errorf("got %d bytes used by nothing", used)
	}
}
