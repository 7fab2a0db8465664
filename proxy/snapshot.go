package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// folding is the snapshot of one run as far as it was folded.
type folding struct {
	folder  dialect.Folder
	kind    frame.Kind
	through runregistry.Seq
	// holed is set when frames were trimmed before they were folded.
	holed  bool
	buffer []runregistry.Frame
	parsed frame.Frame
}

func newFolding(d *dialect.Dialect, kind frame.Kind) *folding {
	return &folding{folder: d.NewFolder(), kind: kind}
}

// catchUp folds the stored frames up to a position.
func (f *folding) catchUp(ctx context.Context, store runregistry.Reader, run runregistry.RunID, to runregistry.Seq) {
	for f.through < to {
		page, err := store.Read(ctx, runregistry.PageQuery{Run: run, After: f.through, Into: f.buffer})
		if errors.Is(err, runregistry.ErrExpired) && page.First > f.through+1 {
			f.holed, f.through = true, page.First-1
			continue
		}
		if err != nil || len(page.Frames) == 0 {
			f.holed = f.holed || err != nil
			return
		}
		f.add(page.Frames)
		f.buffer = page.Frames[:0]
	}
}

func (f *folding) add(frames []runregistry.Frame) {
	for i := range frames {
		frame.Parse(f.kind, frames[i].Data, &f.parsed)
		f.folder.Fold(uint64(frames[i].Seq), &f.parsed)
		f.through = frames[i].Seq
	}
}

// json returns the stored form of the snapshot of a run that has not completed.
func (f *folding) json() json.RawMessage {
	return f.finished(f.folder.Snapshot(), false)
}

// finished is the stored form of a snapshot of this folding.
func (f *folding) finished(s dialect.Snapshot, completed bool) json.RawMessage {
	s.Complete = completed && !f.holed
	s.Truncated = s.Truncated || f.holed
	data, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return data
}

// foldInto puts the final snapshot into a settlement.
func (p *pump) foldInto(s *runregistry.Settlement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stream || p.fold == nil {
		return
	}
	p.fold.catchUp(p.storeCtx, p.engine.store, p.lease.Run, p.last)
	folded := p.fold.folder.Snapshot()
	p.addLate(&folded)
	s.Progress = &runregistry.Progress{
		Snapshot: p.fold.finished(folded, s.State == runregistry.Completed), SnapshotSeq: p.fold.through,
	}
}

// snapshotOf returns the snapshot of a record: the stored one if it covers the
// log, else one folded from the stored frames.
func (e *Engine) snapshotOf(ctx context.Context, rec *runregistry.Record) json.RawMessage {
	if rec.State.Terminal() || rec.Snapshot != nil && rec.SnapshotSeq == rec.LastSeq {
		return rec.Snapshot
	}
	d, ok := e.dialects.Lookup(rec.Dialect)
	if !ok || rec.Response == nil || !rec.Response.Stream {
		return rec.Snapshot
	}
	f := newFolding(d, kindOf(rec.Format))
	f.catchUp(ctx, e.store, rec.ID, rec.LastSeq)
	if f.holed && rec.Snapshot != nil {
		return rec.Snapshot // the checkpoint saw the frames that are gone
	}
	return f.json()
}
