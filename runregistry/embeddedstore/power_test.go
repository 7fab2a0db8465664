package embeddedstore

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal/smalldisk"
)

// afterPowerCut opens what a power cut at this moment would leave.
func afterPowerCut(t *testing.T, disk *smalldisk.Disk) *Store {
	t.Helper()
	to := t.TempDir()
	if err := disk.CutPower(to); err != nil {
		t.Fatal(err)
	}
	return openIn(t, to)
}

// Each call is followed by a power cut as soon as it returns, before anything
// else can sync for it.
func TestWhatMustSurviveAPowerCutIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		disk := smalldisk.New(dir)
		s := openOn(t, dir, disk)
		ctx := t.Context()
		d, err := s.Admit(ctx, ask("k"))
		if err != nil {
			t.Fatal(err)
		}
		d.Watch.Close()
		run := d.Lease.Run
		leaves := func(after string, want runregistry.State, frames runregistry.Seq) {
			t.Helper()
			again := afterPowerCut(t, disk)
			defer again.Close()
			rec, err := again.Load(ctx, run)
			if err != nil {
				t.Fatalf("%s: got error %v after the power cut", after, err)
			}
			if rec.State != want || rec.LastSeq != frames {
				t.Errorf("%s: got a %s run with %d frames after the power cut, want %s with %d", after, rec.State, rec.LastSeq, want, frames)
			}
		}
		leaves("admission", runregistry.Failed, 0) // opening ends it: it was not dispatched
		if _, err := s.Intend(ctx, d.Lease); err != nil {
			t.Fatal(err)
		}
		leaves("intent", runregistry.Uncertain, 0)

		before := disk.Syncs()
		if _, err := s.Append(ctx, d.Lease, &runregistry.Batch{Frames: [][]byte{[]byte("one"), []byte("two")}}); err != nil {
			t.Fatal(err)
		}
		if n := disk.Syncs() - before; n != 0 {
			t.Errorf("append: got %d syncs, want none for frames", n)
		}
		leaves("append", runregistry.Uncertain, 0)
		if _, err := s.Stop(ctx, run, ""); err != nil {
			t.Fatal(err)
		}
		leaves("stop", runregistry.Uncertain, 2)
		if _, err := s.Settle(ctx, d.Lease, &runregistry.Settlement{State: runregistry.Cancelled}); err != nil {
			t.Fatal(err)
		}
		leaves("settle", runregistry.Cancelled, 2)
		if err := s.Delete(ctx, run); err != nil {
			t.Fatal(err)
		}
		if _, err := afterPowerCut(t, disk).Load(ctx, run); !errors.Is(err, runregistry.ErrNoRun) {
			t.Errorf("delete: got error %v after the power cut, want %v", err, runregistry.ErrNoRun)
		}
	})
}
