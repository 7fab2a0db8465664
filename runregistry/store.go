package runregistry

import (
	"context"
	"time"
)

// Store keeps runs. It is the only seam to storage; storetest states its
// promises as tests that every engine passes. Every method is safe for
// concurrent use, and every error not named here wraps [ErrUnavailable]; that
// of a context that ended also wraps the context's cause.
type Store interface {
	Admitter
	Writer
	Reader
	Commander
}

// Admitter decides about starts.
type Admitter interface {
	// Admit decides, in this order: key, implicit retry, conversation, limit. It
	// claims everything a new run needs or nothing. Sent again with the id of a
	// run that it started, it answers as the first time. Errors: [*BusyError],
	// [ErrKeyReused], [*InProgressError], [ErrDeleted], [*LimitError].
	Admit(ctx context.Context, a *Admission) (*Decision, error)
}

// Writer is what the owner of a run does with it. Every method compares the
// epoch and returns [ErrFenced] when it is old, [ErrNoRun] when the run is
// gone, and [ErrSettled] when it has ended.
type Writer interface {
	// Intend stores that the run is about to be dispatched: queued becomes
	// running, before the first upstream byte. A second one is a
	// [*TransitionError], so that nothing is dispatched twice; whoever lost the
	// reply to the first settles the run instead. With [ErrSettled] the settled
	// record is returned too: Stop came first. A run that waits in line gets the
	// conversation in the same step, and [ErrInLine] while it is not its turn.
	Intend(ctx context.Context, l Lease) (*Record, error)
	// Append stores frames and progress in one step. It returns a [*GapError]
	// when the store lacks frames before the batch, and a [*TransitionError] for
	// a run that was not dispatched. It does not keep the frames of the batch.
	Append(ctx context.Context, l Lease, b *Batch) (Appended, error)
	// Bind makes alias another name of the run's conversation within its scope;
	// the record then carries the alias. [ErrTaken] leaves everything as it is.
	Bind(ctx context.Context, l Lease, alias ConversationID) error
	// Settle ends the run. The first finisher wins: a later one gets the settled
	// record together with [ErrSettled]. Forbidden moves are a
	// [*TransitionError].
	Settle(ctx context.Context, l Lease, s *Settlement) (*Record, error)
}

// Reader is what anybody who may see a run does with it.
type Reader interface {
	// Load returns the record of a run.
	Load(ctx context.Context, id RunID) (*Record, error)
	// Read returns the frames after a position. It returns [ErrExpired] when the
	// next frame is no longer stored; the page then still says where the run
	// stands. Without anything new, and beyond the end of the log, it returns an
	// empty page at once. The terminal frame is made from the record and is in
	// no page.
	Read(ctx context.Context, q PageQuery) (Page, error)
	// Watch announces changes of a run. With reading set it counts as a reader
	// until it is closed.
	Watch(ctx context.Context, id RunID, reading bool) (*Watch, error)
	// Current returns the run that an active look-up is about: the active run of
	// the conversation, else its last one. [ErrNoRun] when there is none.
	Current(ctx context.Context, s Scope, c ConversationID) (*Record, error)
	// List returns a subject's runs, newest first. [ErrMalformedPage] for a token
	// that no answer gave.
	List(ctx context.Context, q ListQuery) (List, error)
	// ByUpstream returns the run of a scope that carries upstream's id.
	ByUpstream(ctx context.Context, s Scope, upstreamID string) (*Record, error)
}

// Commander is what an authorized caller asks of a run.
type Commander interface {
	// Stop asks the owner to stop; asking again changes nothing. The record shows
	// what it led to so far.
	Stop(ctx context.Context, id RunID, why Reason) (*Record, error)
	// Deliver counts an event of one delivery.
	Deliver(ctx context.Context, id RunID, e DeliveryEvent) error
	// Delete removes an ended run; its key stays reserved until its window ends.
	// [ErrRunActive] for a run that has not ended.
	Delete(ctx context.Context, id RunID) error
	// Readers returns the number of readers on all instances.
	Readers(ctx context.Context, id RunID) (int, error)
}

// Frame is one stored piece of a run. Data must not be changed.
type Frame struct {
	Seq  Seq
	At   time.Time
	Data []byte
}

// PageQuery asks for the frames after a position.
type PageQuery struct {
	Run   RunID
	After Seq
	// Into is reused for the page's frames, so that a reader need not allocate:
	// pass the frames of the previous page.
	Into []Frame
	// MaxBytes bounds the page; it holds at least one frame. 0 means
	// [PageBytes].
	MaxBytes int
}

// Bounds of a page: the default number of bytes, and how many frames it holds
// at most, since every frame costs its reader a header.
const (
	PageBytes  = 256 << 10
	PageFrames = 1024
)

// Page is a piece of a log, together with where the run stood when it was
// read.
type Page struct {
	Frames []Frame
	State  State
	Epoch  Epoch // grows when another instance takes the run over
	First  Seq   // oldest stored frame; 0 when none is stored
	Last   Seq   // newest frame that was ever stored
	Final  Seq   // the terminal frame's number; 0 while the run is active
}

// More reports whether stored frames follow the page.
func (p *Page) More(after Seq) bool {
	if n := len(p.Frames); n > 0 {
		after = p.Frames[n-1].Seq
	}
	return after < p.Last
}

// ListQuery asks for a page of a subject's runs.
type ListQuery struct {
	Subject      Subject
	Conversation ConversationID // empty: all
	State        State          // StateNone: all
	Limit        int            // see Bound
	// Page is the token of the previous answer, or empty.
	Page string
}

// Bounds of a list.
const (
	defaultListLimit = 50
	maxListLimit     = 200
)

// Bound returns the number of records that the answer holds at most: Limit,
// 50 when it is not positive, never more than 200.
func (q ListQuery) Bound() int {
	if q.Limit <= 0 {
		return defaultListLimit
	}
	return min(q.Limit, maxListLimit)
}

// List is a page of records, newest first.
type List struct {
	Records []*Record
	// Next is the token of the next page, or empty.
	Next string
}

// Watch says "look again": frames or another state, the end, the deletion, or
// that the last reader left. Signals may be merged and may be lost; a watcher
// also polls.
type Watch struct {
	// C has capacity 1.
	C     <-chan struct{}
	close func()
}

// NewWatch is for engines: close ends the watch and must be safe to call once.
func NewWatch(c <-chan struct{}, closeWatch func()) *Watch {
	return &Watch{C: c, close: closeWatch}
}

// Close ends the watch. It may be called more than once, by one goroutine.
func (w *Watch) Close() {
	if w != nil && w.close != nil {
		w.close()
		w.close = nil
	}
}
