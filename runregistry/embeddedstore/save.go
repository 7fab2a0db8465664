package embeddedstore

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

// saveAll writes everything that counts. Whatever was journaled before it was
// called has been applied once it holds the locks; whatever is journaled later
// is told again after it.
func (s *Store) saveAll(w *journal.Writer) error {
	starts, runs, keys := s.inventory()
	for i := range starts {
		if err := runs[i].save(w, &starts[i]); err != nil {
			return err
		}
	}
	for i := range keys {
		if err := w.Write(func(b []byte) []byte { return entry.AppendKey(b, &keys[i]) }); err != nil {
			return err
		}
	}
	return nil
}

// inventory lists the runs and the reserved keys of deleted ones.
func (s *Store) inventory() (starts []entry.Start, runs []*run, keys []entry.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(time.Now(), everything)
	runs = s.runs.all()
	starts = make([]entry.Start, len(runs))
	for i, r := range runs {
		starts[i] = r.start(s.claims.ties(r))
	}
	for _, d := range s.agenda {
		if d.run == nil {
			keys = append(keys, entry.Key{Subject: d.subject, Route: d.key.route, Digest: d.key.digest, Until: d.at})
		}
	}
	return starts, runs, keys
}

// start returns what is told about a run but its record. Store.mu must be held.
func (r *run) start(t entry.Ties) entry.Start {
	return entry.Start{
		Run: r.number, Listed: r.listed, Key: r.key.digest, Echo: r.echo.digest, Limits: r.limits, Ties: t,
	}
}

// save writes one run. Its lock is not held while it is written: frames do not
// change, and those that come meanwhile are in the journal.
func (r *run) save(w *journal.Writer, start *entry.Start) error {
	r.mu.RLock()
	gone := r.gone
	start.Record = r.rec
	r.mu.RUnlock()
	if gone {
		return nil
	}
	err := w.Write(func(b []byte) []byte {
		b = entry.AppendStart(b, start)
		if start.Record.Snapshot != nil {
			b = entry.AppendSnapshot(b, r.number, start.Record.Snapshot)
		}
		return b
	})
	q := runregistry.PageQuery{}
	for err == nil {
		page := r.pageForSave(&q, start.Record.LastSeq)
		if len(page) == 0 {
			return nil
		}
		err = w.Write(func(b []byte) []byte { return entry.AppendPage(b, r.number, page) })
		q.After, q.Into = page[len(page)-1].Seq, page
	}
	return err
}

// pageForSave returns the next frames up to a number. Those that were trimmed
// meanwhile are passed over.
func (r *run) pageForSave(q *runregistry.PageQuery, last runregistry.Seq) []runregistry.Frame {
	r.mu.RLock()
	defer r.mu.RUnlock()
	first := r.log.first()
	if r.gone || first == 0 {
		return nil
	}
	after := max(q.After, first-1)
	if after >= last {
		return nil
	}
	page := r.log.page(q.Into[:0], after, runregistry.PageBytes)
	return page[:min(uint64(len(page)), uint64(last-after))]
}
