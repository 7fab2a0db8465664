package embeddedstore

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal/smalldisk"
)

// dispatched starts a run.
func dispatched(t *testing.T, s *Store, key string) runregistry.Lease {
	t.Helper()
	return dispatch(t, s, ask(key))
}

// dispatch starts a run as it is asked for.
func dispatch(t *testing.T, s *Store, a *runregistry.Admission) runregistry.Lease {
	t.Helper()
	d, err := s.Admit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	d.Watch.Close()
	if _, err := s.Intend(t.Context(), d.Lease); err != nil {
		t.Fatal(err)
	}
	return d.Lease
}

func wantUnavailable(t *testing.T, doing string, err, why error) {
	t.Helper()
	if !errors.Is(err, runregistry.ErrUnavailable) || !errors.Is(err, why) {
		t.Errorf("%s: got error %v, want %v", doing, err, why)
	}
}

func TestAFullDiskRefusesNewRunsAndServesThoseUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		disk := smalldisk.New(dir)
		s := openOn(t, dir, disk)
		ctx := t.Context()
		ending, going := dispatched(t, s, "ending"), dispatched(t, s, "going")
		disk.Fill(10)
		_, err := s.Admit(ctx, ask("new"))
		wantUnavailable(t, "new run", err, journal.ErrFull)
		if len(s.claims.accounts[tester].keys) != 2 || len(s.runs.byID) != 2 {
			t.Error("got claims of a run that was refused")
		}
		if _, err := s.Settle(ctx, ending, &runregistry.Settlement{State: runregistry.Completed}); err != nil {
			t.Errorf("got error %v for the end of a run", err)
		}
		var last runregistry.Seq
		for err = nil; err == nil; {
			var done runregistry.Appended
			done, err = s.Append(ctx, going, &runregistry.Batch{After: last, Frames: [][]byte{bytes.Repeat([]byte("x"), 500)}})
			if err == nil {
				last = done.Last
			}
		}
		wantUnavailable(t, "frames beyond the reserve", err, journal.ErrFull)
		if last < 20 {
			t.Errorf("got %d frames into the reserve of %d bytes", last, s.disk.options.Reserve)
		}
		if p, err := s.Read(ctx, runregistry.PageQuery{Run: going.Run}); err != nil || p.Last != last {
			t.Errorf("got %d frames (%v), want the %d that were acknowledged", p.Last, err, last)
		}
		_, err = s.Admit(ctx, ask("new"))
		wantUnavailable(t, "new run", err, journal.ErrFull)

		disk.Empty()
		done, err := s.Append(ctx, going, &runregistry.Batch{After: last, Frames: [][]byte{[]byte("y")}})
		if err != nil || done.Last != last+1 {
			t.Errorf("got error %v with room again", err)
		}
		time.Sleep(mendPoll)
		synctest.Wait()
		if _, err := s.Admit(ctx, ask("new")); err != nil {
			t.Errorf("got error %v for a new run with room again", err)
		}
		synctest.Wait()
		again := killed(t, dir)
		sameStore(t, s, again)
	})
}

// Nothing of what could not be stored has happened.
func TestWhatCouldNotBeStoredHasNotHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		disk := smalldisk.New(dir)
		s := openOn(t, dir, disk)
		ctx := t.Context()
		old := finished(t, s, ask("old"))
		d, err := s.Admit(ctx, ask("queued"))
		if err != nil {
			t.Fatal(err)
		}
		busy := ask("busy")
		busy.Conversation, busy.Busy = d.Record.Conversation, runregistry.BusyReplace
		l := dispatched(t, s, "running")
		disk.Fill(0)
		for err = nil; err == nil; { // use up the reserve
			_, err = s.Append(ctx, l, &runregistry.Batch{After: s.runs.get(l.Run).rec.LastSeq, Frames: [][]byte{make([]byte, 4)}})
		}
		before := s.runs.get(l.Run).copyLocked()
		_, intent := s.Intend(ctx, d.Lease)
		_, settled := s.Settle(ctx, l, &runregistry.Settlement{State: runregistry.Completed})
		_, stopped := s.Stop(ctx, l.Run, "")
		_, queuedStop := s.Stop(ctx, d.Lease.Run, "")
		_, progress := s.Append(ctx, l, &runregistry.Batch{Progress: &runregistry.Progress{UpstreamID: "up"}})
		_, replaced := s.Admit(ctx, busy)
		for call, err := range map[string]error{
			"intend": intent, "settle": settled, "stop": stopped, "stop queued": queuedStop, "progress": progress, "replace": replaced,
			"bind": s.Bind(ctx, l, "alias"), "delete": s.Delete(ctx, old),
		} {
			wantUnavailable(t, call, err, journal.ErrFull)
		}
		if got := s.runs.get(l.Run).copyLocked(); got.Revision != before.Revision || got.State != before.State {
			t.Errorf("got a %s run at revision %d, want %s at %d", got.State, got.Revision, before.State, before.Revision)
		}
		if rec, err := s.Load(ctx, d.Lease.Run); err != nil || rec.State != runregistry.Queued {
			t.Errorf("got %s (%v), want the run still queued", rec.State, err)
		}
		if rec, err := s.Load(ctx, old); err != nil || rec.State != runregistry.Completed {
			t.Errorf("got error %v for a run that could not be deleted", err)
		}
		if err := s.Deliver(ctx, l.Run, runregistry.DeliveryOpened); err != nil {
			t.Errorf("got error %v for a delivery, which nothing depends on", err)
		}
		checkClaims(t, s)
		synctest.Wait() // whoever looks after the disk tries to take the reserve again
		sameStore(t, s, killed(t, dir))
	})
}

// An admission that may not survive a power cut is none, and an end that may
// not is told again once it does.
func TestADiskThatDoesNotSyncRefusesWhatMustBeDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		disk := smalldisk.New(dir)
		s := openOn(t, dir, disk)
		ctx := t.Context()
		l := dispatched(t, s, "running")
		disk.FailSync(errors.New("broken"))
		_, err := s.Admit(ctx, ask("new"))
		wantUnavailable(t, "new run", err, journal.ErrSick)
		if len(s.runs.byID) != 1 {
			t.Errorf("got %d runs, want the refused one gone", len(s.runs.byID))
		}
		if _, err := s.Append(ctx, l, &runregistry.Batch{Frames: [][]byte{[]byte("one")}}); err != nil {
			t.Errorf("got error %v for frames, which are not synced", err)
		}
		end := &runregistry.Settlement{State: runregistry.Completed}
		for range 2 {
			_, err = s.Settle(ctx, l, end)
			wantUnavailable(t, "settle", err, journal.ErrSick)
		}
		_, err = s.Admit(ctx, ask("new"))
		wantUnavailable(t, "new run", err, journal.ErrSick)
		disk.FailSync(nil)
		time.Sleep(2 * retryRewrite)
		synctest.Wait()
		rec, err := s.Settle(ctx, l, end)
		if !errors.Is(err, runregistry.ErrSettled) || errors.Is(err, runregistry.ErrUnavailable) || rec.State != runregistry.Completed {
			t.Errorf("got error %v, want %v: the end was stored", err, runregistry.ErrSettled)
		}
		if _, err := s.Admit(ctx, ask("new")); err != nil {
			t.Errorf("got error %v for a new run on a disk that works again", err)
		}
		synctest.Wait() // whoever looks after the disk tries to take the reserve again
		sameStore(t, s, killed(t, dir))
	})
}
