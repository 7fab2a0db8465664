package embeddedstore

import (
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

// run is one run: its record, its log, and who watches it.
type run struct {
	// Fixed at its admission.
	id      runregistry.RunID
	number  entry.Run // unique in the store and its directory
	subject runregistry.Subject
	scope   runregistry.Scope
	key     request // zero digest: the start had no key
	echo    request // zero digest: nothing repeats it implicitly
	limits  runregistry.LogLimits
	// attempt is its number under its key, previous the attempt before it.
	attempt  int
	previous runregistry.RunID
	lined    bool // it had to wait for its conversation

	watchers hub
	deadline deadline // of what run.dueAtLocked says

	// Store.mu guards its place in the claims.
	account  *account
	dialogue *dialogue // nil without a conversation
	holding  bool      // it holds its conversation and counts in the limit
	listed   uint64    // its numbers in the rosters
	echoed   uint64
	spoken   uint64

	mu      sync.RWMutex // guards everything below
	rec     runregistry.Record
	log     frameLog
	charged int64            // what the store's memory account has for it
	ended   journal.Position // where its end is journaled
	gone    bool             // deleted or expired
}

// runOverhead is the memory of a run without frames and snapshot: record,
// index entries and locks, roughly.
const runOverhead = 2 << 10

// newRun is the run that an admission asks for; last, if not nil, is the attempt
// before it.
func newRun(a *runregistry.Admission, last *run, now time.Time) *run {
	r := &run{
		id: a.Run, subject: a.Subject, scope: a.Scope, limits: a.Limits,
		rec: *a.NewRecord(now),
	}
	if last != nil {
		r.rec.Follow(last.attempt, last.id)
	}
	r.attempt, r.previous = r.rec.Attempt, r.rec.Previous
	r.key = request{a.Route, a.Key}
	if a.Key.IsZero() {
		r.echo = request{a.Route, a.Implicit}
	}
	r.deadline.run = r
	return r
}

// snapshot returns the caller's own copy of the record.
func (r *run) snapshot() (*runregistry.Record, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.gone {
		return nil, runregistry.ErrNoRun
	}
	return r.copyLocked(), nil
}

// waits reports whether the run stands in the line of its conversation.
func (r *run) waits() bool {
	if !r.lined {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.rec.Lined
}

// copyLocked is snapshot for those who hold r.mu.
func (r *run) copyLocked() *runregistry.Record {
	rec := r.rec
	return &rec
}

// writableLocked reports why the holder of an epoch may not write, if so.
func (r *run) writableLocked(e runregistry.Epoch) error {
	switch {
	case r.gone:
		return runregistry.ErrNoRun
	case e != r.rec.Epoch:
		return runregistry.ErrFenced
	}
	return nil
}

// appendLocked stores a batch; see [Store.Append]. It reports whether anything
// changed. r.mu must be held.
func (s *Store) appendLocked(r *run, b *runregistry.Batch, now time.Time) (runregistry.Appended, bool, error) {
	done := runregistry.Appended{Last: r.rec.LastSeq}
	var frames [][]byte
	switch st := r.rec.State; {
	case st.Terminal():
		return done, false, runregistry.ErrSettled
	case st == runregistry.Queued:
		return runregistry.Appended{}, false, &runregistry.TransitionError{From: st, To: runregistry.Running}
	case st == runregistry.Cancelling:
		done.Stopping = true // no frame is stored any more
	case b.After > r.rec.LastSeq:
		return done, false, &runregistry.GapError{Last: r.rec.LastSeq}
	default:
		frames = r.missing(b)
	}
	if err := s.recordBatch(r, frames, b.Progress, now); err != nil {
		return done, false, err
	}
	if b.Position != "" && !done.Stopping {
		r.rec.Position = b.Position
	}
	stored := r.storeLocked(frames, now)
	changed := r.rec.Advance(b.Progress)
	done.Last, done.Revision = r.rec.LastSeq, r.rec.Revision
	return done, stored || changed, nil
}

// missing returns the frames of a batch that the log does not have yet.
func (r *run) missing(b *runregistry.Batch) [][]byte {
	known := r.rec.LastSeq - b.After
	if known >= runregistry.Seq(len(b.Frames)) {
		return nil
	}
	return b.Frames[known:]
}

// storeLocked puts frames at the end of the log.
func (r *run) storeLocked(frames [][]byte, now time.Time) bool {
	if len(frames) == 0 {
		return false
	}
	for i, f := range frames {
		r.log.append(r.rec.LastSeq+1+runregistry.Seq(i), f, now)
	}
	r.rec.Grow(len(frames), sizeOf(frames), now)
	r.log.trim(r.limits)
	r.rec.FirstSeq = r.log.first()
	return true
}

func sizeOf(frames [][]byte) (size int64) {
	for _, f := range frames {
		size += int64(len(f))
	}
	return size
}

// pageLocked reads frames; see [Store.Read].
func (r *run) pageLocked(q *runregistry.PageQuery) (runregistry.Page, error) {
	page := runregistry.Page{
		Frames: q.Into[:0],
		State:  r.rec.State,
		Epoch:  r.rec.Epoch,
		First:  r.rec.FirstSeq,
		Last:   r.rec.LastSeq,
		Final:  r.rec.FinalSeq,
	}
	switch {
	case q.After >= page.Last:
	case page.First == 0 || q.After+1 < page.First:
		return page, runregistry.ErrExpired
	default:
		limit := q.MaxBytes
		if limit <= 0 {
			limit = runregistry.PageBytes
		}
		page.Frames = r.log.page(page.Frames, q.After, limit)
	}
	return page, nil
}

// expireFramesLocked drops the log and keeps the record.
func (r *run) expireFramesLocked() {
	r.log.drop()
	r.rec.FirstSeq = 0
	r.rec.Revision++
}

// dueAtLocked returns when something about the ended run ends next.
func (r *run) dueAtLocked(keyed bool) time.Time {
	at := r.rec.ExpiresAt
	if keyed {
		at = earlier(at, r.rec.KeyExpiresAt())
	}
	if r.rec.FirstSeq > 0 {
		at = earlier(at, r.rec.FramesExpireAt)
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
