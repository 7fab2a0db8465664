package embeddedstore

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

// Every change of a run is made in three moves, under its lock: decide on a copy
// of the record, journal, apply. What could not be journaled has not happened.

// appendChange tells how a record becomes next; r.mu must be held.
func (r *run) appendChange(b []byte, next *runregistry.Record) []byte {
	b = entry.AppendRecord(b, r.number, next)
	if n := len(next.Snapshot); n > 0 && (n != len(r.rec.Snapshot) || &next.Snapshot[0] != &r.rec.Snapshot[0]) {
		b = entry.AppendSnapshot(b, r.number, next.Snapshot)
	}
	return b
}

// commitLocked makes next the record of r, which goes on; r.mu must be held.
func (s *Store) commitLocked(r *run, next *runregistry.Record) (journal.Position, error) {
	at, err := s.record(journal.Running, func(b []byte) []byte { return r.appendChange(b, next) })
	if err == nil {
		r.rec = *next
	}
	return at, err
}

// recordBatch journals what an append stores; r.mu must be held.
func (s *Store) recordBatch(r *run, frames [][]byte, p *runregistry.Progress, now time.Time) error {
	switch {
	case s.disk == nil:
		return nil
	case p != nil:
		return s.recordProgress(r, frames, p, now)
	case len(frames) == 0:
		return nil
	}
	_, err := s.record(journal.Running, func(b []byte) []byte {
		return entry.AppendFrames(b, r.number, r.rec.LastSeq+1, now, frames)
	})
	return err
}

// recordProgress is recordBatch for frames that change more than the log.
func (s *Store) recordProgress(r *run, frames [][]byte, p *runregistry.Progress, now time.Time) error {
	next := r.rec
	next.Grow(len(frames), sizeOf(frames), now)
	changed := next.Advance(p)
	if !changed && len(frames) == 0 {
		return nil
	}
	_, err := s.record(journal.Running, func(b []byte) []byte {
		if len(frames) > 0 {
			b = entry.AppendFrames(b, r.number, r.rec.LastSeq+1, now, frames)
		}
		if changed {
			b = r.appendChange(b, &next)
		}
		return b
	})
	return err
}

// endingLocked tells the end of a run; r.mu and s.mu must be held.
func (s *Store) endingLocked(b []byte, r *run, next *runregistry.Record, end *runregistry.Settlement) []byte {
	t := s.claims.ties(r)
	t.Keyed = t.Keyed && !end.FreesKey(next)
	return entry.AppendTies(r.appendChange(b, next), r.number, t)
}

// finishLocked makes next, which is terminal, the record of r; r.mu and s.mu
// must be held.
func (s *Store) finishLocked(r *run, next *runregistry.Record, end *runregistry.Settlement) error {
	at, err := s.record(journal.Running, func(b []byte) []byte { return s.endingLocked(b, r, next, end) })
	if err != nil {
		return err
	}
	s.endedLocked(r, next, end, at)
	return nil
}

// endedLocked frees what only an active run claims, and starts the clocks; r.mu
// and s.mu must be held.
func (s *Store) endedLocked(r *run, next *runregistry.Record, end *runregistry.Settlement, at journal.Position) {
	was := r.rec.UpstreamID
	r.rec, r.ended = *next, at
	if r.rec.UpstreamID != was {
		s.claims.upstream(r, was)
	}
	s.claims.release(r)
	if end.FreesKey(&r.rec) {
		s.claims.freeKey(r)
	}
	r.log.seal()
	s.chargeLocked(r)
	s.scheduleLocked(r)
	r.watchers.wake()
}

// recordDelivery journals how the deliveries of a run stand, if it can: a full
// disk does not keep anybody from being served. r.mu must be held.
func (s *Store) recordDelivery(r *run) {
	_, _ = s.record(journal.New, func(b []byte) []byte {
		return entry.AppendDelivery(b, r.number, r.rec.Delivery)
	})
}
