package runregistry

import "fmt"

// UnsafeRetryError means that a new attempt could repeat an effect of the last
// one, and that nobody confirmed it.
type UnsafeRetryError struct {
	Run    RunID // the last attempt
	Effect Effect
}

// Error implements error.
func (e *UnsafeRetryError) Error() string {
	return fmt.Sprintf("effect of %s is %s", e.Run, e.Effect)
}

// AttemptError means that a request names an attempt that comes after the next
// one.
type AttemptError struct{ Last int }

// Error implements error.
func (e *AttemptError) Error() string { return fmt.Sprintf("last attempt is %d", e.Last) }

// Retries decides about a request whose key last has, which is the newest
// attempt of an equal request. It reports true when a new attempt is to follow
// last, and false when an attempt that exists answers: last itself, or an
// earlier one that the admission names. Whoever asks for the same new attempt
// later finds it as last.
func (a *Admission) Retries(last *Record) (bool, error) {
	switch {
	case a.Attempt <= last.Attempt:
		return false, nil
	case a.Attempt > last.Attempt+1:
		return false, &AttemptError{Last: last.Attempt}
	case last.State.Active():
		return false, nil
	case last.Effect != EffectNone && !a.Confirmed:
		return false, &UnsafeRetryError{Run: last.ID, Effect: last.Effect}
	}
	return true, nil
}

// Names reports whether the admission asks for an attempt of that number: the
// one it names, or the last if it names none or the next.
func (a *Admission) Names(attempt, last int) bool {
	if a.Attempt == 0 || a.Attempt > last {
		return attempt == last
	}
	return attempt == a.Attempt
}

// Follow makes r the attempt after the one of that number.
func (r *Record) Follow(attempt int, last RunID) {
	r.Attempt, r.Previous = attempt+1, last
}
