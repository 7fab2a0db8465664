package embeddedstore

import (
	"errors"
	"log/slog"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

// load opens the journal and makes the store what it tells. The runs of earlier
// processes end here: nobody reads their upstreams any more.
func (s *Store) load() error {
	d, began := s.disk, time.Now()
	p := newReplay(s.done)
	j, found, err := journal.Open(d.options, p.record)
	if err != nil {
		return err
	}
	now := time.Now()
	runs := p.kept(now)
	lost, err := orphan(j, runs, now)
	if err != nil {
		return errors.Join(err, j.Close())
	}
	s.restore(p, runs, now)
	d.ceiling.Store(2*j.Size() + d.slack)
	if found.Files > 0 {
		s.litter(0) // not all of what they hold counts
	}
	d.journal.Store(j)
	d.log.Info("store was opened",
		slog.Int("runs", len(runs)), slog.Int("owner_lost", lost), slog.Int("records", found.Records),
		slog.Int64("cut_bytes", found.Cut), slog.Duration("took", time.Since(began)))
	return nil
}

// orphan ends the runs whose owner died and journals that. It returns their
// number.
func orphan(j *journal.Journal, runs []*told, now time.Time) (lost int, err error) {
	var at journal.Position
	for _, t := range runs {
		t.cut()
		if t.rec.State.Terminal() {
			continue
		}
		lost++
		end := ownerLost(t.rec.State)
		if err := t.rec.Settle(end, now); err != nil {
			return lost, err
		}
		t.ties.Keyed = t.ties.Keyed && !end.FreesKey(&t.rec)
		at, err = j.Append(journal.Running, func(b []byte) []byte {
			b = entry.AppendRecord(b, t.number, &t.rec)
			return entry.AppendTies(b, t.number, t.ties)
		})
		if err != nil {
			return lost, err
		}
	}
	return lost, j.Sync(at)
}

// cut makes the run what it is without the process that served it: the log is
// what was found of it, and every delivery broke.
func (t *told) cut() {
	t.rec.FirstSeq = t.log.first()
	t.log.seal()
	d := &t.rec.Delivery
	d.BrokenEarly = d.BrokenEarly || d.Pending > 0
	d.BrokenLate = d.BrokenLate || d.Open > 0
	d.Pending, d.Open = 0, 0
}

// ownerLost is how a run ends whose owner died: without its dispatch intent
// nothing has happened, with it anything may have.
func ownerLost(state runregistry.State) *runregistry.Settlement {
	if state == runregistry.Queued {
		return &runregistry.Settlement{
			State: runregistry.Failed, Reason: runregistry.ReasonOwnerLost, NoEffect: true, ReleaseKey: true,
		}
	}
	return &runregistry.Settlement{
		State: runregistry.Uncertain, Reason: runregistry.ReasonOwnerLost, Upstream: runregistry.Unconfirmed,
	}
}

// restore enters what was told into the claims.
func (s *Store) restore(p *replay, runs []*told, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.births = p.last
	dialogues := make(map[uint64]*dialogue)
	for _, t := range runs {
		s.claims.restore(t.run, t.ties, dialogues)
		t.mu.Lock()
		s.chargeLocked(t.run)
		s.scheduleLocked(t.run)
		t.mu.Unlock()
		s.runs.add(t.run)
	}
	for k, until := range p.keys {
		if _, taken := s.claims.open(k.subject).keys[k.key]; !taken {
			s.reserveLocked(k.subject, k.key, until)
		}
	}
	s.sweepLocked(now, everything)
}
