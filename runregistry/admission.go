package runregistry

import "time"

// Busy says what to do with a start in a conversation that has an active run.
type Busy uint8

// The policies. Auto replaces the active run when its owner asks and nobody
// reads it any more, which is what Stop-then-send looks like on the wire;
// otherwise it rejects.
const (
	BusyAuto Busy = iota
	BusyReject
	BusyReplace
	BusyAllow
)

// Admission asks for a run: for a new one, or for the one that the request
// repeats.
type Admission struct {
	Run          RunID // the id of a new run
	Subject      Subject
	Scope        Scope
	Route        string
	Conversation ConversationID
	Named        bool // the request itself names the conversation
	Busy         Busy
	// MayReplace is set when the caller has write access to a run of this
	// conversation even if it is not the owner.
	MayReplace bool

	// Key is the hash of the idempotency key; zero without a key.
	Key         Digest
	Fingerprint Digest
	// KeyConflict answers an active run of the same key with
	// [ErrRequestInProgress] instead of attaching to it.
	KeyConflict bool

	// Implicit is the fingerprint by which a request without a key may be taken
	// for a retry; zero switches that off.
	Implicit       Digest
	ImplicitWindow time.Duration
	// MidStream also matches a delivery that broke after its headers.
	MidStream bool

	// ActiveLimit is the number of active runs a subject may have; 0 is no
	// limit.
	ActiveLimit int

	Retention Retention
	Limits    LogLimits
	Release   string
	Resource  string
	Model     string
	Dialect   string
}

// LogLimits bound the stored log of one run. Above them the oldest frames are
// trimmed. Zero is no limit.
type LogLimits struct {
	Bytes  int64
	Frames int
}

// Match says why an admission found an existing run.
type Match uint8

// The matches.
const (
	MatchNone         Match = iota // a new run was started
	MatchKey                       // same idempotency key
	MatchConversation              // equal request in the conversation it keeps busy
	MatchDelivery                  // retry of a delivery that broke
)

// Decision is the outcome of an admission.
type Decision struct {
	Match  Match
	Record *Record
	// Lease is valid only for a new run.
	Lease Lease
	// Watch counts the caller as a reader of the run from the admission on. The
	// caller must close it.
	Watch *Watch
	// Superseded is the run that gave its conversation to the new one and is now
	// cancelling; empty in most cases.
	Superseded RunID
}

// Lease is the right to write one run.
type Lease struct {
	Run   RunID
	Epoch Epoch
}

// Batch is what one append stores: frames and what they changed.
type Batch struct {
	// After is the number of the last frame stored before this batch. The store
	// skips what it already has and refuses a hole.
	After  Seq
	Frames [][]byte
	// Progress travels with the frames in the same step; nil changes nothing.
	Progress *Progress
}

// Progress is a change of the record by its owner. Zero fields change nothing.
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
	// Snapshot is a checkpoint that covers the frames up to SnapshotSeq.
	Snapshot    []byte
	SnapshotSeq Seq
}

// Appended is the answer to an append.
type Appended struct {
	Last Seq // the last stored frame
	// Stopping tells that Stop was asked for: frames are no longer stored.
	Stopping bool
}

// Settlement ends a run.
type Settlement struct {
	State  State
	Reason Reason
	// Effect replaces the record's effect when NoEffect is set and none was
	// observed: upstream provably did no work.
	NoEffect bool
	// Upstream says how upstream took the Stop, if there was one.
	Upstream Confirmation
	// Marker tells that a positive end was seen: it stands even if a Stop came
	// between. The stored end marker counts as one.
	Progress *Progress
	// Forget drops the record with the claims: the answer cannot be replayed and
	// its delivery is over.
	Forget bool
}

// settledState decides which terminal state a settlement reaches. A Stop that
// came first turns every end into cancelled, unless the positive end was
// stored before it.
func (r *Record) settledState(s *Settlement) (State, Reason) {
	if r.State != Cancelling || r.Ending {
		return s.State, s.Reason
	}
	return Cancelled, r.Reason
}

// Settle applies a settlement to an active record. Every engine uses it, so
// that all agree on the outcome of every race. It returns false when the run
// has already ended.
func (r *Record) Settle(s *Settlement, now time.Time) bool {
	if r.State.Terminal() {
		return false
	}
	r.Advance(s.Progress)
	stopped := r.Cancel.Version > 0
	if s.NoEffect && r.Effect != EffectObserved {
		r.Effect = EffectNone
	}
	r.State, r.Reason = r.settledState(s)
	if stopped {
		r.Cancel.Upstream = s.Upstream
		r.Cancel.Outcome = r.outcome()
	}
	r.EndedAt = now
	r.FinalSeq = r.LastSeq + 1
	r.FramesExpireAt = now.Add(r.Retention.Frames)
	r.ExpiresAt = now.Add(r.Retention.Record)
	r.Revision++
	return true
}

func (r *Record) outcome() Outcome {
	switch {
	case r.State != Cancelled:
		return AlreadyTerminal
	case r.Effect == EffectNone:
		return CancelledBeforeEffect
	default:
		return CancelledAfterEffect
	}
}

// Advance applies progress; the effect only grows.
func (r *Record) Advance(p *Progress) {
	if p == nil {
		return
	}
	r.Revision++
	r.Effect = max(r.Effect, p.Effect)
	r.Ending = r.Ending || p.Ending && r.State != Cancelling
	if p.State != StateNone && r.State != Cancelling && r.State.CanBecome(p.State) {
		r.State = p.State
	}
	if p.Response != nil {
		r.Response = p.Response
	}
	if p.Usage != nil {
		r.Usage = *p.Usage
	}
	if p.Snapshot != nil {
		r.Snapshot, r.SnapshotSeq = p.Snapshot, p.SnapshotSeq
	}
	setIf(&r.Format, p.Format)
	setIf(&r.Dialect, p.Dialect)
	setIf(&r.Model, p.Model)
	setIf(&r.UpstreamID, p.UpstreamID)
	setIf(&r.Release, p.Release)
}

func setIf[T ~string](dst *T, v T) {
	if v != "" {
		*dst = v
	}
}

// Stop applies a Stop to a record and reports whether it changed anything. A
// queued run ends at once, since nothing was dispatched.
func (r *Record) Stop(reason Reason, now time.Time) bool {
	switch r.State {
	case Queued:
		r.Cancel = Cancel{Version: 1, RequestedAt: now}
		return r.Settle(&Settlement{State: Cancelled, Reason: reason, NoEffect: true, Upstream: Confirmed}, now)
	case Running, Waiting:
		r.Cancel = Cancel{Version: r.Cancel.Version + 1, RequestedAt: now, Outcome: CancellationPending}
		r.State, r.Reason = Cancelling, reason
		r.Revision++
		return true
	case StateNone, Cancelling, Completed, Failed, Cancelled, Uncertain:
	}
	return false
}

// NewRecord returns the record of a run that an admission starts.
func (a *Admission) NewRecord(now time.Time) *Record {
	r := &Record{
		ID: a.Run, Subject: a.Subject, Scope: a.Scope, Route: a.Route,
		Conversation: a.Conversation, Named: a.Named, Attempt: 1,
		State: Queued, Epoch: 1, Release: a.Release, Resource: a.Resource,
		Model: a.Model, Dialect: a.Dialect, Format: FormatSSE,
		CreatedAt: now, ActivityAt: now, Fingerprint: a.Fingerprint, Retention: a.Retention, Revision: 1,
	}
	r.Delivery.begin()
	return r
}

// Repeats reports whether the admission, which carries no key, may be taken
// for a retry of a delivery of r that broke: r is active or completed, was not
// stopped, was answered with success or not at all, and is young enough.
func (a *Admission) Repeats(r *Record, now time.Time) bool {
	alive := r.State == Queued || r.State == Running || r.State == Waiting || r.State == Completed
	if r.Response != nil && (r.Response.Status < 200 || r.Response.Status > 299) {
		alive = false
	}
	return alive && r.Cancel.Version == 0 && now.Sub(r.CreatedAt) <= a.ImplicitWindow && r.Delivery.claimable(a.MidStream)
}

// Attach counts one more delivery of r.
func (r *Record) Attach() { r.Delivery.begin() }
