package embeddedstore

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
)

// replay rebuilds runs from what the journal tells.
type replay struct {
	stop <-chan struct{} // closed: give up
	runs map[entry.Run]*told
	keys map[heldKey]time.Time // reserved, and until when
	last entry.Run             // the highest number that was ever given
	bad  error
}

// told is a run as far as the journal was read.
type told struct {
	*run
	ties entry.Ties
	// What came with the frames of the step that is being read.
	frames int
	bytes  int64
	at     time.Time
}

// heldKey is a key of a subject.
type heldKey struct {
	subject runregistry.Subject
	key     request
}

func newReplay(stop <-chan struct{}) *replay {
	return &replay{stop: stop, runs: make(map[entry.Run]*told), keys: make(map[heldKey]time.Time)}
}

// record hears one record of the journal.
func (p *replay) record(b []byte) error {
	select {
	case <-p.stop:
		return errClosed
	default:
	}
	return errors.Join(entry.Read(b, p), p.bad)
}

// Start implements [entry.Listener].
func (p *replay) Start(s *entry.Start) {
	p.last = max(p.last, s.Run)
	rec := &s.Record
	r := &run{
		id: rec.ID, number: s.Run, subject: rec.Subject, scope: rec.Scope, limits: s.Limits, listed: s.Listed,
		key: request{rec.Route, s.Key}, attempt: rec.Attempt, previous: rec.Previous, rec: *rec,
	}
	if !s.Echo.IsZero() {
		r.echo = request{rec.Route, s.Echo}
	}
	r.deadline.run = r
	p.runs[s.Run] = &told{run: r, ties: s.Ties}
}

// of returns a run. What is told about a run that is not known was told while
// a base was written without it: it had gone.
func (p *replay) of(r entry.Run) *told {
	p.last = max(p.last, r)
	return p.runs[r]
}

// Record implements [entry.Listener].
func (p *replay) Record(r entry.Run, rec *runregistry.Record) {
	if t := p.of(r); t != nil {
		rec.Snapshot = t.rec.Snapshot
		t.rec = *rec
	}
}

// Ties implements [entry.Listener].
func (p *replay) Ties(r entry.Run, ties entry.Ties) {
	if t := p.of(r); t != nil {
		t.ties = ties
	}
}

// Snapshot implements [entry.Listener].
func (p *replay) Snapshot(r entry.Run, snapshot []byte) {
	if t := p.of(r); t != nil {
		t.rec.Snapshot = bytes.Clone(snapshot)
	}
}

// Frame implements [entry.Listener]. A base may lack frames that were trimmed
// while it was written; then the log begins behind them.
func (p *replay) Frame(r entry.Run, f runregistry.Frame) {
	t := p.of(r)
	if t == nil {
		return
	}
	next := t.log.first() + runregistry.Seq(t.log.frames)
	if t.log.frames > 0 && f.Seq > next {
		t.log.drop()
	}
	if t.log.frames == 0 || f.Seq >= next {
		t.log.append(f.Seq, f.Data, f.At)
	}
	if f.Seq > t.rec.LastSeq {
		t.frames, t.bytes, t.at = t.frames+1, t.bytes+int64(len(f.Data)), f.At
		if f.Seq != t.rec.LastSeq+runregistry.Seq(t.frames) {
			p.bad = entry.ErrMalformed // a hole
		}
	}
}

// Frames implements [entry.Listener].
func (p *replay) Frames(r entry.Run) {
	t := p.of(r)
	if t == nil {
		return
	}
	t.rec.Grow(t.frames, t.bytes, t.at)
	t.frames, t.bytes = 0, 0
	t.log.trim(t.limits)
}

// Delivery implements [entry.Listener].
func (p *replay) Delivery(r entry.Run, d runregistry.Delivery) {
	if t := p.of(r); t != nil {
		t.rec.Delivery = d
	}
}

// Gone implements [entry.Listener].
func (p *replay) Gone(r entry.Run) {
	p.of(r)
	delete(p.runs, r)
}

// Key implements [entry.Listener].
func (p *replay) Key(k *entry.Key) {
	p.keys[heldKey{k.Subject, request{k.Route, k.Digest}}] = k.Until
}

// kept returns the runs that have not expired, in the order of their admission.
func (p *replay) kept(now time.Time) []*told {
	maps.DeleteFunc(p.runs, func(_ entry.Run, t *told) bool {
		return t.rec.State.Terminal() && !now.Before(t.rec.ExpiresAt)
	})
	return slices.SortedFunc(maps.Values(p.runs), func(a, b *told) int { return cmp.Compare(a.number, b.number) })
}
