package embeddedstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal/smalldisk"
)

// openOn opens a store in a directory whose files are on a disk, and waits for
// it.
func openOn(t *testing.T, dir string, disk *smalldisk.Disk) *Store {
	t.Helper()
	s := New(Options{Path: dir, Memory: 1 << 20})
	s.disk.options.Create = func(name string) (journal.File, error) {
		f, err := disk.Create(name)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	t.Cleanup(s.Close)
	if err := s.await(t.Context()); err != nil {
		t.Fatalf("got error %v, want the store open", err)
	}
	return s
}

// openIn is openOn for a disk without trouble.
func openIn(t *testing.T, dir string) *Store {
	t.Helper()
	return openOn(t, dir, smalldisk.New(dir))
}

// killed copies the directory of a store that is in use, as kill -9 would leave
// it, and opens the copy.
func killed(t *testing.T, dir string) *Store {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return openIn(t, to)
}

// Whatever callers did before the process was killed, and whatever a rewrite
// was at, the next process has all of it.
func TestAKilledProcessLosesNothingAfterAnyHistory(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crashingHistory(t, seed) })
		})
	}
}

func crashingHistory(t *testing.T, seed uint64) {
	t.Helper()
	dir := t.TempDir()
	s := openIn(t, dir)
	h := &history{T: t, s: s, rng: rand.New(rand.NewPCG(seed, 11))}
	check := func() {
		t.Helper()
		again := killed(t, dir)
		sameStore(t, s, again)
		again.Close()
	}
	checkSettled := func() {
		t.Helper()
		synctest.Wait() // the store may be at a rewrite of its own, and a copy takes longer than a kill
		check()
	}
	for range 8 {
		for range 40 {
			h.step()
		}
		checkSettled()
		err := s.disk.journal.Load().Rewrite(func(w *journal.Writer) error { // the keeper may wait for this, so no time may pass in it
			h.act()
			h.act()
			check()
			err := s.saveAll(w)
			h.act()
			h.act()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		checkSettled()
	}
}

// sameStore compares a store with what came back of it.
func sameStore(t *testing.T, s, again *Store) {
	t.Helper()
	checkClaims(t, again)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(time.Now(), everything)
	again.mu.Lock()
	defer again.mu.Unlock()
	if len(again.runs.byID) != len(s.runs.byID) {
		t.Errorf("got %d runs, want %d", len(again.runs.byID), len(s.runs.byID))
	}
	for id, r := range s.runs.byID {
		o := again.runs.byID[id]
		if o == nil {
			t.Fatalf("got no run %s, which is %s", id, r.rec.State)
		}
		sameRun(t, r, o)
		wantKey := s.claims.holdsKey(r) && r.rec.State != runregistry.Queued
		if got := again.claims.holdsKey(o); got != wantKey && !r.key.digest.IsZero() {
			t.Errorf("%s run: got key held %v, want %v", r.rec.State, got, wantKey)
		}
	}
	sameIndexes(t, s, again)
}

// sameRun compares a run with what came back of it. An active one has lost its
// owner; it has the frames, and the snapshot of the last checkpoint.
func sameRun(t *testing.T, r, o *run) {
	t.Helper()
	want, got := r.rec, o.rec
	want.Delivery, got.Delivery = runregistry.Delivery{}, runregistry.Delivery{}
	if want.State.Active() {
		if err := want.Settle(ownerLost(want.State), got.EndedAt); err != nil {
			t.Fatal(err)
		}
		if got.Reason != runregistry.ReasonOwnerLost {
			t.Errorf("got reason %q of a %s run, want %q", got.Reason, got.State, runregistry.ReasonOwnerLost)
		}
	}
	if !bytes.Equal(entry.AppendRecord(nil, 1, &got), entry.AppendRecord(nil, 1, &want)) {
		t.Errorf("got record %+v\nwant %+v", got, want)
	}
	if !bytes.Equal(got.Snapshot, want.Snapshot) || got.FirstSeq != want.FirstSeq {
		t.Errorf("got snapshot %q and first frame %d, want %q and %d", got.Snapshot, got.FirstSeq, want.Snapshot, want.FirstSeq)
	}
	if o.number != r.number || o.listed != r.listed || o.echo != r.echo || o.key != r.key || o.limits != r.limits {
		t.Errorf("got another run %d", o.number)
	}
	sameFrames(t, &r.log, &o.log)
	if r.deadline.index > 0 && !o.deadline.at.Equal(r.deadline.at) {
		t.Errorf("got deadline %v, want %v", o.deadline.at, r.deadline.at)
	}
}

func sameFrames(t *testing.T, want, got *frameLog) {
	t.Helper()
	if got.frames != want.frames || got.first() != want.first() {
		t.Fatalf("got %d frames from %d on, want %d from %d on", got.frames, got.first(), want.frames, want.first())
	}
	if want.frames == 0 {
		return
	}
	after := want.first() - 1
	for i, f := range want.page(nil, after, everything) {
		o := got.page(nil, after, everything)[i]
		if o.Seq != f.Seq || !bytes.Equal(o.Data, f.Data) || o.At.Sub(f.At).Abs() > time.Millisecond {
			t.Fatalf("got frame %d of %v, want %d of %v", o.Seq, o.At, f.Seq, f.At)
		}
	}
}

// sameIndexes compares what is found by other names than the id.
func sameIndexes(t *testing.T, s, again *Store) {
	t.Helper()
	if got, want := namings(again), namings(s); !reflect.DeepEqual(got, want) {
		t.Errorf("got conversations %v, want %v", got, want)
	}
	if got, want := reserved(again), reserved(s); !reflect.DeepEqual(got, want) {
		t.Errorf("got reserved keys %v, want %v", got, want)
	}
	for subject, acct := range s.claims.accounts {
		o := again.claims.accounts[subject]
		if len(acct.runs.slots) == 0 {
			continue // only keys, which were compared
		}
		if got, want := listing(o), listing(acct); !slices.Equal(got, want) {
			t.Errorf("got list %v, want %v", got, want)
		}
	}
	for name, r := range again.claims.upstreams {
		if r.rec.UpstreamID != name.id {
			t.Errorf("got a run with id %q by id %q", r.rec.UpstreamID, name.id)
		}
	}
}

// namings says for each name of a conversation which it is and how many runs
// carry it.
func namings(s *Store) map[place][2]int {
	names := make(map[place][2]int)
	for at, n := range s.claims.places {
		names[at] = [2]int{int(n.dialogue.number), n.carriers}
	}
	return names
}

func reserved(s *Store) map[heldKey]int64 {
	keys := make(map[heldKey]int64)
	for _, d := range s.agenda {
		if d.run == nil {
			keys[heldKey{d.subject, d.key}] = d.at.UnixNano()
		}
	}
	return keys
}

func listing(acct *account) (list []string) {
	if acct == nil {
		return nil
	}
	for number, r := range acct.runs.before(0) {
		list = append(list, fmt.Sprint(number, " ", r.id))
	}
	return list
}

// The state that a death leaves behind, and what may be done about it.
func TestOpeningEndsTheRunsOfEarlierProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		ctx := t.Context()
		leases := make(map[string]runregistry.Lease)
		for _, key := range []string{"queued", "running", "cancelling", "observed"} {
			d, err := s.Admit(ctx, ask(key))
			if err != nil {
				t.Fatal(err)
			}
			leases[key] = d.Lease
		}
		for _, key := range []string{"running", "cancelling", "observed"} {
			if _, err := s.Intend(ctx, leases[key]); err != nil {
				t.Fatal(err)
			}
		}
		_, stopped := s.Stop(ctx, leases["cancelling"].Run, "")
		_, seen := s.Append(ctx, leases["observed"], &runregistry.Batch{
			Frames: [][]byte{[]byte("one")}, Progress: &runregistry.Progress{Effect: runregistry.EffectObserved},
		})
		if err := errors.Join(stopped, seen); err != nil {
			t.Fatal(err)
		}
		again := killed(t, dir)
		for key, want := range map[string]struct {
			state  runregistry.State
			effect runregistry.Effect
			kept   bool
		}{
			"queued":     {runregistry.Failed, runregistry.EffectNone, false},
			"running":    {runregistry.Uncertain, runregistry.EffectPossible, true},
			"cancelling": {runregistry.Uncertain, runregistry.EffectPossible, true},
			"observed":   {runregistry.Uncertain, runregistry.EffectObserved, true},
		} {
			rec, err := again.Load(ctx, leases[key].Run)
			if err != nil {
				t.Fatal(err)
			}
			if rec.State != want.state || rec.Effect != want.effect || rec.Reason != runregistry.ReasonOwnerLost {
				t.Errorf("%s: got %s, effect %s, reason %s", key, rec.State, rec.Effect, rec.Reason)
			}
			d, err := again.Admit(ctx, ask(key))
			if err != nil {
				t.Fatal(err)
			}
			if kept := d.Match == runregistry.MatchKey && d.Record.ID == leases[key].Run; kept != want.kept {
				t.Errorf("%s: got match %d, want the key kept: %v", key, d.Match, want.kept)
			}
			if _, err := again.Append(ctx, leases[key], &runregistry.Batch{Frames: [][]byte{[]byte("late")}}); !errors.Is(err, runregistry.ErrSettled) {
				t.Errorf("%s: got error %v from the old owner, want %v", key, err, runregistry.ErrSettled)
			}
		}
	})
}

// The key belongs to the last attempt, and the earlier ones answer to their
// numbers.
func TestAttemptsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		again := ask("k")
		again.Attempt, again.Confirmed = 2, true
		first := finished(t, s, ask("k"))
		second := finished(t, s, again)
		reopened := killed(t, dir)
		for attempt, want := range map[int]runregistry.RunID{0: second, 1: first, 2: second} {
			a := ask("k")
			a.Attempt = attempt
			d, err := reopened.Admit(t.Context(), a)
			if err != nil || d.Record.ID != want {
				t.Fatalf("attempt %d: got %+v and error %v, want %s", attempt, d, err, want)
			}
			d.Watch.Close()
		}
		if rec, err := reopened.Load(t.Context(), second); err != nil || rec.Attempt != 2 || rec.Previous != first {
			t.Errorf("got %+v and error %v, want the second attempt, after %s", rec, err, first)
		}
	})
}

// A retry of a request whose answer the death cut off gets that answer.
func TestDeliveriesThatTheDeathBrokeMayBeClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		echo := func() *runregistry.Admission {
			a := ask("echo")
			a.Key, a.Implicit, a.ImplicitWindow = runregistry.Digest{}, a.Key, time.Minute
			return a
		}
		a := echo()
		finished(t, s, a)
		if _, err := s.Load(t.Context(), a.Run); err != nil {
			t.Fatal(err)
		}
		again := killed(t, dir)
		for _, want := range []runregistry.Match{runregistry.MatchDelivery, runregistry.MatchNone} {
			d, err := again.Admit(t.Context(), echo())
			if err != nil {
				t.Fatal(err)
			}
			if d.Match != want {
				t.Errorf("got match %d, want %d", d.Match, want)
			}
		}
	})
}

func TestRetentionGoesOnAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openIn(t, dir)
		ctx := t.Context()
		id := finished(t, s, ask("kept")) // frames 1 min, key 2 min, record 1 h
		deleted := finished(t, s, ask("deleted"))
		if err := s.Delete(ctx, deleted); err != nil {
			t.Fatal(err)
		}
		s.Close()
		time.Sleep(59 * time.Second)
		s = openIn(t, dir)
		if p, err := s.Read(ctx, runregistry.PageQuery{Run: id}); err != nil || len(p.Frames) != 1 {
			t.Errorf("got %d frames (%v) before their time, want 1", len(p.Frames), err)
		}
		if _, err := s.Admit(ctx, ask("deleted")); !errors.Is(err, runregistry.ErrDeleted) {
			t.Errorf("got error %v for the key of a deleted run, want %v", err, runregistry.ErrDeleted)
		}
		s.Close()
		time.Sleep(time.Second)
		s = openIn(t, dir)
		if _, err := s.Read(ctx, runregistry.PageQuery{Run: id}); !errors.Is(err, runregistry.ErrExpired) {
			t.Errorf("got error %v for frames past their time, want %v", err, runregistry.ErrExpired)
		}
		time.Sleep(time.Minute)
		for _, key := range []string{"kept", "deleted"} {
			if d, err := s.Admit(ctx, ask(key)); err != nil || d.Match != runregistry.MatchNone {
				t.Errorf("%s: got error %v, want a new run once the key's time is over", key, err)
			}
		}
		s.Close()
		time.Sleep(time.Hour)
		s = openIn(t, dir)
		if _, err := s.Load(ctx, id); !errors.Is(err, runregistry.ErrNoRun) {
			t.Errorf("got error %v for a record past its time, want %v", err, runregistry.ErrNoRun)
		}
	})
}
