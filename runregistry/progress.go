package runregistry

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// Batch is what one append stores: frames and what they changed.
type Batch struct {
	// After is the number of the last frame stored before this batch. The store
	// skips what it already has and refuses a hole.
	After  Seq
	Frames [][]byte
	// Position is upstream's own name for the place after the last frame, stored
	// in the same step. Empty changes nothing. A store of one process need not
	// keep it beyond that process.
	Position string
	// Progress travels with the frames in the same step; nil changes nothing.
	Progress *Progress
	// Again tells that all of it was stored before and may be lost. Frames are put
	// back although Stop was asked for meanwhile.
	Again bool
}

// Progress is a change of the record by its owner. Zero fields change nothing.
// What it points to becomes part of the record and must not be changed
// afterwards.
type Progress struct {
	Response   *Response
	Format     Format
	Dialect    string
	Model      string
	UpstreamID string
	Release    string
	Effect     Effect // only grows
	Usage      *Usage
	State      State // Running or Waiting
	Ending     bool  // the end marker is among the frames
	Reattached int   // only grows
	// Snapshot is a checkpoint that covers the frames up to SnapshotSeq.
	Snapshot    []byte
	SnapshotSeq Seq
}

// Appended is the answer to an append.
type Appended struct {
	Last Seq // the last stored frame
	// Stopping tells that Stop was asked for: frames are no longer stored.
	Stopping bool
	// Revision is that of the record after the append. One that is lower than
	// what an earlier append said tells that a change of the record may be lost.
	Revision uint64
}

// Told is all that the owner of a run has told of it. A record that has lost
// some of that has it again when it is advanced by it; any other is not changed.
func (r *Record) Told() *Progress {
	p := &Progress{
		Response: r.Response, Format: r.Format, Dialect: r.Dialect, Model: r.Model, UpstreamID: r.UpstreamID, Release: r.Release,
		Effect: r.Effect, State: r.State, Ending: r.Ending, Reattached: r.Reattached, Snapshot: r.Snapshot, SnapshotSeq: r.SnapshotSeq,
	}
	if r.Usage.Reported {
		usage := r.Usage
		p.Usage = &usage
	}
	return p
}

// Intend applies the dispatch intent: from now on an effect is possible. It
// returns [ErrSettled] for a run that has ended, and a [*TransitionError] for
// one that was dispatched before: nothing is ever dispatched twice. Whether it
// is the run's turn is for the store to know.
func (r *Record) Intend(now time.Time) error {
	switch {
	case r.State.Terminal():
		return ErrSettled
	case r.State != Queued:
		return &TransitionError{From: r.State, To: Running}
	}
	r.State, r.DispatchedAt, r.ActivityAt, r.Lined = Running, now, now, false
	r.Effect = max(r.Effect, EffectPossible)
	r.Revision++
	return nil
}

// Advance applies progress and reports whether it changed anything; applying
// it twice is the same as applying it once. The effect only grows, and only
// the moves between running and waiting are progress. A run that was asked to
// stop still learns what happened, but no longer how it stands.
func (r *Record) Advance(p *Progress) bool {
	if p == nil {
		return false
	}
	changed := r.advanceState(p)
	if p.Effect > r.Effect {
		r.Effect, changed = p.Effect, true
	}
	if p.Reattached > r.Reattached {
		r.Reattached, changed = p.Reattached, true
	}
	if p.Response != nil && !p.Response.equal(r.Response) {
		r.Response, changed = p.Response, true
	}
	if p.Usage != nil && *p.Usage != r.Usage {
		r.Usage, changed = *p.Usage, true
	}
	if p.Snapshot != nil && (p.SnapshotSeq != r.SnapshotSeq || !bytes.Equal(p.Snapshot, r.Snapshot)) {
		r.Snapshot, r.SnapshotSeq, changed = p.Snapshot, p.SnapshotSeq, true
	}
	changed = r.advanceNames(p) || changed
	if changed {
		r.Revision++
	}
	return changed
}

func (r *Record) advanceState(p *Progress) (changed bool) {
	if r.State != Running && r.State != Waiting {
		return false
	}
	if (p.State == Running || p.State == Waiting) && p.State != r.State {
		r.State, changed = p.State, true
	}
	if p.Ending && !r.Ending {
		r.Ending, changed = true, true
	}
	return changed
}

func (r *Record) advanceNames(p *Progress) bool {
	changed := set(&r.Format, p.Format)
	changed = set(&r.Dialect, p.Dialect) || changed
	changed = set(&r.Model, p.Model) || changed
	changed = set(&r.UpstreamID, p.UpstreamID) || changed
	return set(&r.Release, p.Release) || changed
}

// set assigns v unless it is empty, and reports whether that changed anything.
func set[T ~string](dst *T, v T) bool {
	if v == "" || v == *dst {
		return false
	}
	*dst = v
	return true
}

func (p *Response) equal(o *Response) bool {
	return o != nil && p.Status == o.Status && p.Stream == o.Stream && p.Sized == o.Sized && p.Kept == o.Kept &&
		maps.EqualFunc(p.Header, o.Header, slices.Equal)
}

// Grow counts frames that were stored at the end of the log.
func (r *Record) Grow(frames int, size int64, now time.Time) {
	if frames == 0 {
		return
	}
	if r.LastSeq == 0 {
		r.FirstFrameAt, r.FirstSeq = now, 1
	}
	r.LastSeq += Seq(frames)
	r.Bytes += size
	r.ActivityAt = now
	r.Revision++
}

// Rename makes alias the name of the run's conversation; the name that it had
// becomes an alias.
func (r *Record) Rename(alias ConversationID) {
	if alias == r.Conversation {
		return
	}
	// A new slice: copies of the record share the old one.
	names := slices.DeleteFunc(slices.Clone(r.Aliases), func(c ConversationID) bool { return c == alias })
	if r.Conversation != "" {
		names = append(names, r.Conversation)
	}
	r.Aliases, r.Conversation = names, alias
	r.Revision++
}
