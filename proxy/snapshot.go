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

// catchUp folds the stored frames up to a position. What was trimmed leaves a
// hole; when the log does not reach so far it returns a [*runregistry.GapError],
// and when it cannot be read why. Another call goes on from there.
func (f *folding) catchUp(ctx context.Context, store runregistry.Reader, run runregistry.RunID, to runregistry.Seq) error {
	for f.through < to {
		page, err := store.Read(ctx, runregistry.PageQuery{Run: run, After: f.through, Into: f.buffer})
		switch {
		case errors.Is(err, runregistry.ErrExpired) && page.First > f.through+1:
			f.holed, f.through = true, page.First-1
			continue
		case errors.Is(err, runregistry.ErrExpired): // nothing is stored
			f.holed = true
			return nil
		case err != nil:
			return err
		case len(page.Frames) == 0:
			return &runregistry.GapError{Last: page.Last}
		}
		f.add(page.Frames)
		f.buffer = page.Frames[:0]
	}
	return nil
}

// fold is a snapshot of a run as far as it can be read.
func (e *Engine) fold(ctx context.Context, d *dialect.Dialect, rec *runregistry.Record) *folding {
	f := newFolding(d, kindOf(rec.Format))
	if err := f.catchUp(ctx, e.store, rec.ID, rec.LastSeq); err != nil {
		f.holed = true
	}
	return f
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

// foldInto puts the final snapshot into a settlement. It fails when a frame
// cannot be read that must be there.
func (p *pump) foldInto(s *runregistry.Settlement) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stream || p.fold == nil {
		return nil
	}
	err := p.fold.catchUp(p.storeCtx, p.engine.store, p.lease.Run, p.last)
	mendable := p.mirror != nil && s.Reason != runregistry.ReasonLogLost
	if err != nil && (mendable || errors.Is(err, runregistry.ErrUnavailable)) {
		return err
	}
	p.fold.holed = p.fold.holed || err != nil
	folded := p.fold.folder.Snapshot()
	if p.torn() {
		p.fold.holed = !folded.Restate() || p.fold.holed
	}
	p.addLate(&folded)
	s.Progress = &runregistry.Progress{
		Snapshot: p.fold.finished(folded, s.State == runregistry.Completed), SnapshotSeq: p.fold.through,
	}
	return nil
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
	f := e.fold(ctx, d, rec)
	if f.holed && rec.Snapshot != nil {
		return rec.Snapshot // the checkpoint saw the frames that are gone
	}
	return f.json()
}
