package redisstore

import (
	"context"
	"strconv"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// batch is an append with frames of its own: the caller may use its buffers
// again although Redis is slow, and readers get these.
type batch struct {
	after    runregistry.Seq
	frames   [][]byte
	position string
	again    bool
	asked    question
}

func copyBatch(b *runregistry.Batch) *batch {
	size := 0
	for _, f := range b.Frames {
		size += len(f)
	}
	own := &batch{after: b.After, position: b.Position, again: b.Again, frames: make([][]byte, len(b.Frames))}
	data := make([]byte, 0, size)
	for i, f := range b.Frames {
		from := len(data)
		data = append(data, f...)
		own.frames[i] = data[from:len(data):len(data)]
	}
	return own
}

// append stores a batch. Progress is decided on the record as this instance
// wrote it last, and anew if somebody else changed it since.
func (s *Store) append(ctx context.Context, l runregistry.Lease, b *runregistry.Batch) (runregistry.Appended, error) {
	if err := s.usable(ctx, l.Run); err != nil {
		return runregistry.Appended{}, err
	}
	own := copyBatch(b)
	own.asked = s.tails.asking(l.Run)
	unsure := s.tails.unsure(l)
	for fresh := unsure || b.Again; ; fresh = true {
		e, n, err := s.progress(ctx, l, b.Progress, fresh, unsure)
		if err != nil {
			return runregistry.Appended{}, err
		}
		p, err := s.appendCall(l, own, e, n)
		if err != nil {
			return runregistry.Appended{}, err
		}
		r, err := s.writers[int(l.Run.Partition())%len(s.writers)].write(ctx, p)
		if err != nil {
			if n != nil {
				s.tails.unacknowledged(l)
			}
			return runregistry.Appended{}, err
		}
		if r.word() != "stale" {
			return s.appended(l, own, n, r)
		}
	}
}

// progress decides what the batch changes in the record: e becomes n, or both
// are nil. What this instance knows is enough to see a change, since the script
// compares; and to see none, unless a change may be under way that it does not
// know of. Then the record is written even as it is: under its new token that
// change is refused when it arrives.
func (s *Store) progress(ctx context.Context, l runregistry.Lease, p *runregistry.Progress, fresh, unsure bool) (e, n *entry, err error) {
	if p == nil {
		return nil, nil, nil
	}
	if !fresh {
		e = s.tails.written(l)
	}
	if e == nil {
		if e, err = s.load(ctx, l.Run); err != nil {
			return nil, nil, err
		}
		s.tails.found(l, e)
	}
	n = e.next()
	if e.rec.State == runregistry.Queued || e.rec.State.Terminal() || !n.rec.Advance(p) && !unsure {
		return nil, nil, nil
	}
	return e, n, nil
}

// written is the run as this instance knows it, or nil.
func (ts *tails) written(l runregistry.Lease) *entry {
	t := ts.get(l.Run)
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != l.Epoch {
		return nil
	}
	return t.entry
}

// found notes an owned run as it was just read.
func (ts *tails) found(l runregistry.Lease, e *entry) {
	if t := ts.get(l.Run); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.epoch == l.Epoch && e.rec.Epoch == l.Epoch {
			t.keepLocked(e)
		}
	}
}

// unacknowledged notes that a change of an owned run may or may not have been
// made, or may yet be made.
func (ts *tails) unacknowledged(l runregistry.Lease) {
	if t := ts.get(l.Run); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.entry, t.unsure = nil, true
	}
}

func (ts *tails) unsure(l runregistry.Lease) bool {
	t := ts.get(l.Run)
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsure && t.epoch == l.Epoch
}

func (s *Store) appendCall(l runregistry.Lease, b *batch, e, n *entry) (*params, error) {
	p := call(appendScript)
	p.keys = append(make([]string, 0, 4), s.keys.run(l.Run), s.keys.frames(l.Run))
	p.args = make([]any, 0, 20+len(b.frames))
	p.arg(epochText(l.Epoch), uint64(min(b.after, maxPosition)), len(b.frames), safetyMillis, s.verb(), s.keys.channel(l.Run), b.position, flag(b.again), flag(n != nil))
	if n != nil {
		if err := p.change(e, n); err != nil {
			return nil, err
		}
		s.upstream(p, e.rec.UpstreamID, n)
	}
	for _, f := range b.frames {
		p.args = append(p.args, f)
	}
	return p, nil
}

var safetyMillis = strconv.FormatInt(safety.Milliseconds(), 10)

// appended turns the script's answer into ours, and shows the frames to the
// readers here.
func (s *Store) appended(l runregistry.Lease, b *batch, n *entry, r reply) (runregistry.Appended, error) {
	switch r.word() {
	case "ok":
	case "gap":
		s.tails.doubt(l.Run)
		return runregistry.Appended{Last: r.seq(2)}, &runregistry.GapError{Last: r.seq(2)}
	case "queued":
		return runregistry.Appended{}, &runregistry.TransitionError{From: runregistry.Queued, To: runregistry.Running}
	case "settled":
		return runregistry.Appended{Last: r.seq(2)}, runregistry.ErrSettled
	default:
		return runregistry.Appended{}, outcome(r.word())
	}
	done := runregistry.Appended{
		Last: r.seq(2), Stopping: runregistry.State(r.number(3)) == runregistry.Cancelling, Revision: uint64(r.number(4)),
	}
	if t := s.tails.get(l.Run); t != nil {
		t.grown(l, b, n, r)
	}
	return done, nil
}

// grown takes what an append has stored. Readers are woken if anything changed.
func (t *tail) grown(l runregistry.Lease, b *batch, n *entry, r reply) {
	last, stored := r.seq(2), r.number(6)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n != nil && t.epoch == l.Epoch {
		t.keepLocked(n)
		t.unsure = false
	}
	st := t.stands
	st.state, st.last, st.revision, st.first = runregistry.State(r.number(3)), last, uint64(r.number(4)), r.seq(5)
	st.final = 0
	if t.known && st.revision < t.stands.revision {
		t.doubtLocked() // it was overtaken by a change
		t.wakeLocked()
		return
	}
	t.learnLocked(st, b.asked)
	frames := make([]runregistry.Frame, stored)
	for i := range frames {
		seq := last - runregistry.Seq(stored) + 1 + runregistry.Seq(i)
		frames[i] = runregistry.Frame{Seq: seq, At: moment(r.number(7)), Data: b.frames[seq-b.after-1]}
	}
	t.window.add(frames)
	if stored > 0 || n != nil {
		t.wakeLocked()
	}
}
