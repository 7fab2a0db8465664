package embeddedstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// canary is content that can be looked for.
const canary = "canary-5b1e"

// found returns the files of a directory that hold the canary.
func found(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(canary)) {
			names = append(names, e.Name())
		}
	}
	return names
}

// sing runs a run that has the canary in everything that is content.
func sing(t *testing.T, s *Store, key string, keep time.Duration) runregistry.RunID {
	t.Helper()
	ctx := t.Context()
	a := ask(key)
	a.Conversation = canary
	d, err := s.Admit(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Intend(ctx, d.Lease); err != nil {
		t.Fatal(err)
	}
	b := &runregistry.Batch{Frames: [][]byte{[]byte(canary)}, Progress: &runregistry.Progress{Model: canary, Snapshot: []byte(canary)}}
	if _, err := s.Append(ctx, d.Lease, b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(ctx, d.Lease, &runregistry.Settlement{State: runregistry.Completed, Keep: keep}); err != nil {
		t.Fatal(err)
	}
	return a.Run
}

func TestWhatIsDeletedIsGoneFromTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		id := sing(t, s, "k", 0)
		if len(found(t, dir)) == 0 {
			t.Fatal("got no canary on the disk, want one to delete")
		}
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(erasure)
		synctest.Wait()
		if names := found(t, dir); names != nil {
			t.Errorf("got the canary in %v a minute after the deletion", names)
		}
		other := finished(t, s, ask("other"))
		s.Close()
		s = openIn(t, dir)
		if _, err := s.Load(t.Context(), other); err != nil {
			t.Errorf("got error %v for a run that was not deleted", err)
		}
	})
}

func TestWhatExpiresIsGoneFromTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		sing(t, s, "k", time.Second)
		time.Sleep(time.Second + forgetting)
		synctest.Wait()
		if names := found(t, dir); names != nil {
			t.Errorf("got the canary in %v after its time", names)
		}
	})
}

// Frames go long before their run: its record, and what it says, stay.
func TestFramesThatExpireAreGoneFromTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		a := ask("k")
		l := dispatch(t, s, a)
		_, stored := s.Append(t.Context(), l, &runregistry.Batch{Frames: [][]byte{[]byte(canary)}})
		_, settled := s.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed, Progress: &runregistry.Progress{Model: "m"}})
		if err := errors.Join(stored, settled); err != nil {
			t.Fatal(err)
		}
		time.Sleep(a.Retention.Frames - 1)
		synctest.Wait()
		if len(found(t, dir)) == 0 {
			t.Fatal("got no canary on the disk while frames are kept, want one to expire")
		}
		time.Sleep(1 + forgetting)
		synctest.Wait()
		if names := found(t, dir); names != nil {
			t.Errorf("got the frames in %v after their time", names)
		}
		rec, err := killed(t, dir).Load(t.Context(), a.Run)
		if err != nil || rec.State != runregistry.Completed || rec.Model != "m" {
			t.Errorf("got error %v for a run whose frames expired, want its record", err)
		}
	})
}

// What expired while no process ran goes when the next one opens.
func TestOpeningDropsWhatExpiredMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		sing(t, s, "k", time.Second)
		s.Close()
		time.Sleep(time.Minute)
		openIn(t, dir)
		synctest.Wait()
		if names := found(t, dir); names != nil {
			t.Errorf("got the canary in %v after its time", names)
		}
	})
}

// A run that goes on for ever under a bound keeps about twice that bound, and
// the runs beside it, which have long expired, keep nothing.
func TestALongRunDoesNotPinTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		s.disk.slack = 64 << 10
		s.disk.ceiling.Store(s.disk.slack)
		a := ask("long")
		a.Limits = runregistry.LogLimits{Bytes: 100 << 10}
		d, err := s.Admit(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Intend(t.Context(), d.Lease); err != nil {
			t.Fatal(err)
		}
		var most int64
		for i := range runregistry.Seq(5000) {
			if _, err := s.Append(t.Context(), d.Lease, &runregistry.Batch{After: i, Frames: [][]byte{make([]byte, 1000)}}); err != nil {
				t.Fatal(err)
			}
			most = max(most, s.disk.journal.Load().Size())
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if bound := int64(2*(110<<10) + 64<<10 + 20_000); most > bound {
			t.Errorf("got %d bytes on the disk for a run bounded to %d, want at most %d", most, a.Limits.Bytes, bound)
		}
		again := killed(t, dir)
		p, err := again.Read(t.Context(), runregistry.PageQuery{Run: a.Run, After: 4900})
		if err != nil || p.Last != 5000 || len(p.Frames) != 100 {
			t.Errorf("got %d frames up to %d (%v), want the newest", len(p.Frames), p.Last, err)
		}
	})
}

// Many deletions do not keep the disk busy.
func TestARewriteIsFollowedByARest(t *testing.T) {
	d := newDisk(Options{})
	now := time.Now()
	d.due, d.resting = now, now.Add(time.Minute)
	if d.isDue(now, true) || d.isDue(now.Add(time.Minute-1), false) {
		t.Error("got a rewrite during the rest")
	}
	if !d.isDue(now.Add(time.Minute), false) {
		t.Error("got no rewrite after the rest")
	}
}
