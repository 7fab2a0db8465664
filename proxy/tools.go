package proxy

import (
	"path"
	"slices"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Tools says what is known of the tools that a backend runs. Names are patterns
// of [path.Match]. A tool that is in neither list has effects.
type Tools struct {
	// ReadOnly tools have no effects.
	ReadOnly []string
	// Idempotent tools have effects that a repetition does not add to. Their
	// receipts say so.
	Idempotent []string
}

func named(patterns []string, name string) bool {
	return name != "" && slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// mark tells which receipts are of tools that may run again.
func (t *Tools) mark(s *dialect.Snapshot) {
	for i := range s.ToolReceipts {
		s.ToolReceipts[i].Idempotent = named(t.Idempotent, s.ToolReceipts[i].Name) || named(t.ReadOnly, s.ToolReceipts[i].Name)
	}
}

// learnEffect notes that the result of a tool was seen.
func (p *pump) learnEffect(f dialect.Facts) {
	if f.Observed && !named(p.cfg.Tools.ReadOnly, f.ToolName) {
		p.note(func(pr *runregistry.Progress) { pr.Effect = runregistry.EffectObserved })
	}
}

// foldLate folds a frame that came after a Stop and is not stored: a receipt in
// it still belongs to the record. p.mu must be held.
func (p *pump) foldLate(f *frame.Frame, facts dialect.Facts) {
	if p.halt.late == nil {
		p.halt.late = newFolding(p.dialect, p.kind)
		_ = p.halt.late.catchUp(p.storeCtx, p.engine.store, p.lease.Run, p.last) // it only counts the receipts before
		p.halt.receipts = len(p.halt.late.folder.Snapshot().ToolReceipts)
	}
	p.halt.late.folder.Fold(0, f)
	p.halt.receipt = p.halt.receipt || facts.Observed
}

// addLate adds the receipts that came after the Stop to the snapshot of what
// was stored. They have no number.
func (p *pump) addLate(s *dialect.Snapshot) {
	if !p.halt.receipt {
		return
	}
	all := p.halt.late.folder.Snapshot().ToolReceipts
	late := all[min(p.halt.receipts, len(all)):]
	s.ToolReceipts = append(s.ToolReceipts, late...)
	s.Unresolved = slices.DeleteFunc(s.Unresolved, func(c dialect.Call) bool {
		return slices.ContainsFunc(late, func(r dialect.Receipt) bool { return r.CallID == c.CallID })
	})
}
