package runregistry

import (
	"errors"
	"fmt"
)

// Outcomes that a caller branches on.
var (
	// ErrNoRun means that there is no such run, or that it was deleted or has
	// expired.
	ErrNoRun = errors.New("no such run")
	// ErrFenced means that another instance took the run over; the caller may
	// store nothing more.
	ErrFenced = errors.New("lease was taken over")
	// ErrSettled means that the run has already ended.
	ErrSettled = errors.New("run has ended")
	// ErrUnavailable means that the store cannot be reached or is full. Nothing
	// may be dispatched and nothing shown.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrExpired means that the frame asked for is no longer stored.
	ErrExpired = errors.New("frames have expired")
	// ErrKeyReused means that the idempotency key belongs to another request.
	ErrKeyReused = errors.New("idempotency key was used for another request")
	// ErrDeleted means that the key's run was deleted by its owner.
	ErrDeleted = errors.New("run was deleted")
	// ErrRunActive means that the run must end before this can be done.
	ErrRunActive = errors.New("run is active")
	// ErrTaken means that an alias already names something else.
	ErrTaken = errors.New("alias is taken")
)

// BusyError means that the conversation has an active run.
type BusyError struct {
	Run RunID
	// Mine tells that the caller owns it.
	Mine bool
	// Readers is the number of clients that read it, on all instances.
	Readers int
	// Ending tells that its end marker is stored: it will settle in a moment.
	Ending bool
}

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("conversation is busy with %s", e.Run) }

// InProgressError means that the key's run is active and the caller asked not
// to attach.
type InProgressError struct{ Run RunID }

// Error implements error.
func (e *InProgressError) Error() string { return fmt.Sprintf("request is in progress as %s", e.Run) }

// LimitError means that a limit of the subject is reached.
type LimitError struct {
	Limit string // name of the option
	Max   int
}

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("%s is limited to %d", e.Limit, e.Max) }

// GapError means that an append, or the end of the run, would leave a hole: the
// store's log ends at Last. The owner appends again from there.
type GapError struct{ Last Seq }

// Error implements error.
func (e *GapError) Error() string { return fmt.Sprintf("log ends at %d", e.Last) }

// TransitionError means that the state table forbids a move. It is a mistake
// of the caller, and nothing was changed.
type TransitionError struct{ From, To State }

// Error implements error.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("run cannot go from %s to %s", e.From, e.To)
}
