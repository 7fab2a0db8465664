package embeddedstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

// A configuration that is only validated must not touch the directory.
func TestADirectoryIsNotTouchedBeforeItIsUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	s := New(Options{Path: dir})
	if used := s.Used(); used != 0 {
		t.Errorf("got %d bytes used", used)
	}
	s.SetMemory(1 << 20)
	s.Close()
	s.Open() // too late
	if _, err := s.Load(t.Context(), runregistry.NewRunID(0)); !errors.Is(err, errClosed) {
		t.Errorf("got error %v, want %v", err, errClosed)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got the directory (%v), want it untouched", err)
	}
}

func TestOpenBeginsWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := New(Options{Path: dir})
		defer s.Close()
		s.Open()
		s.Open()
		synctest.Wait()
		if s.disk.journal.Load() == nil {
			t.Errorf("got a store that is not open: %v", s.disk.whyNot())
		}
	})
}

// Two stores on one directory are what two processes are: the lock belongs to
// the open file.
func TestASecondStoreWaitsForTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first := openIn(t, dir)
		id := finished(t, first, ask("k"))
		var told bytes.Buffer
		second := New(Options{Path: dir, Log: slog.New(slog.NewTextHandler(&told, nil))})
		defer second.Close()
		for i := range 3 {
			before := time.Now()
			_, err := second.Load(t.Context(), id)
			if !errors.Is(err, runregistry.ErrUnavailable) || !errors.Is(err, journal.ErrLocked) {
				t.Errorf("got error %v while another has the directory, want %v", err, journal.ErrLocked)
			}
			// The first waits for a directory that may just be given back.
			if waited := time.Since(before); waited > lockPatience || i > 0 && waited > 0 {
				t.Errorf("call %d: got an answer after %v", i, waited)
			}
		}
		time.Sleep(time.Minute)
		first.Close()
		time.Sleep(lockPoll)
		synctest.Wait()
		if rec, err := second.Load(t.Context(), id); err != nil || rec.State != runregistry.Completed {
			t.Errorf("got error %v once the directory was free", err)
		}
		second.Close()
		if n := strings.Count(told.String(), "WARN"); n != 1 {
			t.Errorf("got %d warnings, want 1: %s", n, told.String())
		}
	})
}

// A reload may close one store and open the next on its directory.
func TestADirectoryThatIsGivenBackIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first := openIn(t, dir)
		id := finished(t, first, ask("k"))
		second := New(Options{Path: dir})
		defer second.Close()
		second.Open()
		time.Sleep(lockPatience / 2)
		first.Close()
		if _, err := second.Load(t.Context(), id); err != nil {
			t.Errorf("got error %v, want the call to wait", err)
		}
	})
}

// A caller that is in a hurry does not wait for a directory that is read.
func TestACallerMayGiveUpBeforeTheDirectoryIsRead(t *testing.T) {
	s := New(Options{Path: t.TempDir()})
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	hurry := errors.New("in a hurry")
	cancel(hurry)
	if _, err := s.Load(ctx, runregistry.NewRunID(0)); !errors.Is(err, runregistry.ErrUnavailable) || !errors.Is(err, hurry) {
		t.Errorf("got error %v, want %v", err, hurry)
	}
}

// Damage that no crash explains is not passed over: what was claimed may be
// missing, and would be paid for twice.
func TestADamagedDirectoryIsUnavailableUntilItIsMovedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		id := finished(t, s, ask("k"))
		s.Close()
		openIn(t, dir).Close() // the base has it now, or a second log follows the first
		files, err := filepath.Glob(filepath.Join(dir, "*[0-9].*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("got files %v (%v)", files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(files[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		s = New(Options{Path: dir})
		defer s.Close()
		_, err = s.Admit(t.Context(), ask("k"))
		damage, ok := errors.AsType[*journal.DamageError](err)
		if !ok || damage.File != files[0] || !errors.Is(err, runregistry.ErrUnavailable) {
			t.Fatalf("got error %v, want damage of %s", err, files[0])
		}
		if err := os.Rename(dir, dir+"-damaged"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(openPoll)
		synctest.Wait()
		if _, err := s.Load(t.Context(), id); !errors.Is(err, runregistry.ErrNoRun) {
			t.Errorf("got error %v from an empty directory, want %v", err, runregistry.ErrNoRun)
		}
	})
}

// What a torn end had, in whole records, counts: cut a log at every byte of its
// last append, and all frames before that are there.
func TestATornEndCostsWhatWasNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		d, err := s.Admit(t.Context(), ask("k"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Intend(t.Context(), d.Lease); err != nil {
			t.Fatal(err)
		}
		var sizes []int64
		for i := range runregistry.Seq(3) {
			if _, err := s.Append(t.Context(), d.Lease, &runregistry.Batch{After: i, Frames: [][]byte{[]byte("data: frame\n\n")}}); err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, s.disk.journal.Load().Size())
		}
		name := filepath.Join(dir, "0000000000000001.log")
		for end := sizes[1]; end < sizes[2]; end++ {
			to := t.TempDir()
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(to, filepath.Base(name)), end); err != nil {
				t.Fatal(err)
			}
			again := openIn(t, to)
			rec, err := again.Load(t.Context(), d.Record.ID)
			if err != nil || rec.LastSeq != 2 || rec.State != runregistry.Uncertain || rec.FinalSeq != 3 {
				t.Fatalf("cut at %d: got %d frames, %s (%v)", end, rec.LastSeq, rec.State, err)
			}
			again.Close()
		}
	})
}
