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
	// BusyQueue waits in line for the conversation.
	BusyQueue
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
	// [*InProgressError] instead of attaching to it.
	KeyConflict bool
	// Attempt is the attempt under the key that the request names; 0 is the
	// last one, whichever that is. One more than the last, once that has ended,
	// asks for a new generation.
	Attempt int
	// Confirmed tells that a person accepted that an effect may happen again.
	Confirmed bool

	// Implicit is the fingerprint by which a request without a key may be taken
	// for a retry; zero switches that off.
	Implicit       Digest
	ImplicitWindow time.Duration
	// MidStream also matches a delivery that broke after its headers.
	MidStream bool

	// ActiveLimit is the number of active runs a subject may have, in all its
	// scopes and on all instances; 0 is no limit.
	ActiveLimit int

	Retention Retention
	Limits    LogLimits
	Release   string
	Resource  string
	Model     string
	Dialect   string
	// Origin is kept in the record.
	Origin []byte
}

// LogLimits bound the stored log of one run. Above them the oldest frames are
// trimmed. Zero is no limit.
type LogLimits struct {
	Bytes  int64
	Frames int
}

// Replaces reports whether the admission may take the conversation away from
// the run that b describes. A run whose end marker is stored keeps it for the
// moment until it settles.
func (a *Admission) Replaces(b *BusyError) bool {
	switch {
	case b.Ending:
		return false
	case a.Busy == BusyReplace:
		return b.Mine || a.MayReplace
	case a.Busy == BusyAuto:
		return b.Mine && b.Readers == 0
	default:
		return false
	}
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

// NewRecord returns the record of a run that an admission starts.
func (a *Admission) NewRecord(now time.Time) *Record {
	r := &Record{
		ID: a.Run, Subject: a.Subject, Scope: a.Scope, Route: a.Route,
		Conversation: a.Conversation, Named: a.Named, Attempt: 1,
		State: Queued, Epoch: 1, Release: a.Release, Resource: a.Resource,
		Model: a.Model, Dialect: a.Dialect, Format: FormatSSE, Origin: a.Origin,
		CreatedAt: now, ActivityAt: now, Fingerprint: a.Fingerprint, Retention: a.Retention, Revision: 1,
	}
	r.Delivery.begin()
	return r
}

// Resumes reports whether the admission, which carries no key, is the same
// request again in the conversation that r keeps busy. It must name that
// conversation itself: a generated one is nobody's.
func (a *Admission) Resumes(r *Record) bool {
	return a.Named && !r.Ending && (r.State == Queued || r.State == Running || r.State == Waiting) && answerable(r)
}

// Repeats reports whether the admission, which carries no key, may be taken
// for a retry of a delivery of r that broke: r is active or completed, was not
// stopped, was answered with success or not at all, and is young enough, and
// its log is whole. Nobody who did not name a run is told that it has expired.
func (a *Admission) Repeats(r *Record, now time.Time) bool {
	alive := r.State == Queued || r.State == Running || r.State == Waiting || r.State == Completed
	return alive && answerable(r) && r.whole(now) && now.Sub(r.CreatedAt) <= a.ImplicitWindow && r.Delivery.claimable(a.MidStream)
}

// whole reports whether the log can be read from its beginning.
func (r *Record) whole(now time.Time) bool {
	expired := r.State.Terminal() && !now.Before(r.FramesExpireAt)
	return r.LastSeq == 0 || r.FirstSeq == 1 && !expired
}

// answerable reports whether r may answer a request that does not say that it
// is a retry: nobody is given a refusal or a stopped run for a question that
// could be asked again.
func answerable(r *Record) bool {
	ok := r.Response == nil || r.Response.Status >= 200 && r.Response.Status <= 299
	return ok && r.Cancel.Version == 0
}
