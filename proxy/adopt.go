package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// adopt goes on with a run of an owner that died, if its backend keeps the
// frames and this process has a way to ask for them. It reports whether it did;
// otherwise the run is the caller's to settle.
func (e *Engine) adopt(lease runregistry.Lease, rec *runregistry.Record) bool {
	h, way, b, ok := e.wayOn(rec)
	if !ok {
		return false
	}
	p := h.adoptPump(lease, rec, way, b)
	if !e.enrol(p) {
		p.cancel(errLost)
		p.span.End()
		return false
	}
	e.metrics.active.Inc()
	e.pump(p, p.run)
	return true
}

// joinable reports whether the backend of a run gives the frames after a
// position to whoever asks.
func joinable(rec *runregistry.Record) bool {
	return (rec.State == runregistry.Running || rec.State == runregistry.Waiting) && rec.Position != ""
}

// wayOn finds what it takes to ask for the rest of a run's stream; ok is false
// when this process cannot.
func (e *Engine) wayOn(rec *runregistry.Record) (h *Handler, way *ground, b bearings, ok bool) {
	h, way, ok = e.routes.of(rec)
	b = bearingsOf(rec)
	if !ok || !joinable(rec) || b.dialect == nil || rec.Response == nil || !rec.Response.Stream {
		return nil, nil, b, false
	}
	call, err := b.join(&h.cfg.Join, rec.Position)
	return h, way, b, err == nil && way.reaches(call)
}

// yields reports whether a run of a dead owner is better left for a moment to
// an instance that can go on with it, as this one cannot.
func (k *keeper) yields(ctx context.Context, id runregistry.RunID) bool {
	rec, err := k.engine.store.Load(ctx, id)
	if err != nil || !joinable(rec) {
		return false
	}
	if _, _, _, able := k.engine.wayOn(rec); able {
		return false
	}
	since, seen := k.left[id]
	if !seen {
		since = time.Now()
		k.left[id] = since
	}
	return time.Since(since) < yieldPatience
}

// yieldPatience is how long other instances have for it.
const yieldPatience = 4 * time.Second

// adoptPump is the pump of a run that began elsewhere.
func (h *Handler) adoptPump(lease runregistry.Lease, rec *runregistry.Record, way *ground, b bearings) *pump {
	ctx, cancel := context.WithCancelCause(detached())
	ctx, span := h.startRunSpan(ctx, ctx, rec)
	cfg := h.cfg
	cfg.FrameRetention, cfg.RecordRetention = rec.Retention.Frames, rec.Retention.Record
	p := &pump{
		engine: h.deps.Engine, cfg: &cfg, log: h.deps.Log, lease: lease, host: h.deps.Host,
		span: span, subject: h.pseudonym(callerOf(rec.Subject)), ctx: ctx, cancel: cancel, storeCtx: context.WithoutCancel(ctx),
		began: rec.DispatchedAt, header: make(http.Header), throttle: newThrottle(h.cfg.Limits.RunBytes),
		ground: way, bearings: b, before: rec.Reattached, mirror: rec,
		status: rec.Response.Status, stream: true, kind: kindOf(rec.Format), dialect: b.dialect, detected: true, reader: b.dialect.NewReader(),
		last: rec.LastSeq, bytes: rec.Bytes, fold: newFolding(b.dialect, kindOf(rec.Format)), lastByte: time.Now(), lastSeen: time.Now(),
		join: joining{possible: true, adopted: true, position: rec.Position, stored: rec.Position, news: time.Now()},
	}
	p.window.last = rec.LastSeq
	p.sink = frame.Sink{Frame: p.take}
	return p
}

// recall reads the stored frames again for what they told.
func (p *pump) recall() {
	if err := p.retrace(p.remember); err != nil {
		p.log.Warn("frames of a run that was taken over were not read again", logRun(p.lease.Run), logError(err))
	}
}

// retrace visits the stored frames; p.mu is held meanwhile. The error is that of
// the store, and [runregistry.ErrExpired] when the beginning was trimmed, for all
// that the rest was visited.
func (p *pump) retrace(visit func(*frame.Frame)) (trimmed error) {
	var parsed frame.Frame
	var page runregistry.Page
	for after := runregistry.Seq(0); after < p.last; {
		var err error
		page, err = p.engine.store.Read(p.storeCtx, runregistry.PageQuery{Run: p.lease.Run, After: after, Into: page.Frames})
		if page.First > after+1 && err != nil {
			after, trimmed = page.First-1, err
			continue
		}
		if err != nil {
			return err
		}
		if len(page.Frames) == 0 {
			return &runregistry.GapError{Last: page.Last}
		}
		p.mu.Lock()
		for i := range page.Frames {
			frame.Parse(p.kind, page.Frames[i].Data, &parsed)
			visit(&parsed)
		}
		p.mu.Unlock()
		after = page.Frames[len(page.Frames)-1].Seq
	}
	return trimmed
}

// remember is learn for a frame that is stored; p.mu must be held.
func (p *pump) remember(f *frame.Frame) {
	told := p.reader.Read(f)
	p.learnOutcome(told)
	p.facts.ending = p.facts.ending || told.End
	if told.Waiting != 0 {
		p.facts.waiting = told.Waiting > 0
	}
}

// handBack leaves a run to whichever instance can go on with it: its lease ends
// now. It reports whether there is anything to go on with.
func (p *pump) handBack() bool {
	leaser, shared := p.engine.store.(runregistry.Leaser)
	if !shared || !p.join.possible || p.join.position == "" || p.status == 0 {
		return false
	}
	if err := p.flush(p.engine.closing); err != nil {
		p.log.Warn("frames were not stored before the run was handed back", logRun(p.lease.Run), logError(err))
	}
	if err := leaser.Release(p.storeCtx, p.lease); err != nil {
		p.log.Warn("lease of a run was not handed back and will expire", logRun(p.lease.Run), logError(err))
	}
	p.disowned()
	return true
}
