package runregistry

import "time"

// Settlement ends a run.
type Settlement struct {
	State  State
	Reason Reason
	// NoEffect records effect none unless one was observed: upstream provably
	// did no work, or the operator says that the route has no effects.
	NoEffect bool
	// ReleaseKey frees the idempotency key: the same request may start anew. A
	// run with an effect keeps its key all the same.
	ReleaseKey bool
	// Upstream says how upstream took the Stop, if there was one.
	Upstream Confirmation
	// Progress is applied first.
	Progress *Progress
	// Last is the newest frame that was stored, as far as the owner knows; 0 asks
	// nothing of the log.
	Last Seq
	// Keep, if not zero, shortens the retention of everything about the run.
	Keep time.Duration
	// Told, if not nil, is what readers were told of a Stop with this very end,
	// which the store has lost since. It stands, whatever was asked meanwhile.
	Told *Cancel
}

// FreesKey reports whether the settlement that made r terminal frees its
// idempotency key: because it says so, or because nothing was ever dispatched.
// An effect that cannot be excluded always keeps the key.
func (s *Settlement) FreesKey(r *Record) bool {
	return r.Effect == EffectNone && (s.ReleaseKey || r.DispatchedAt.IsZero())
}

// Settle applies a settlement to an active record. Every engine uses it, so
// that all agree on the outcome of every race. It returns [ErrSettled] when
// the run has already ended, a [*TransitionError] for a move that the table
// forbids, and a [*GapError] when the log has lost its tail: what is repaired
// must be so before the end has a number. All leave the record as it is.
func (r *Record) Settle(s *Settlement, now time.Time) error {
	state, reason := r.settledState(s)
	switch {
	case r.State.Terminal():
		return ErrSettled
	case !s.State.Terminal() || !r.State.CanBecome(state):
		return &TransitionError{From: r.State, To: s.State}
	case r.LastSeq < s.Last:
		return &GapError{Last: r.LastSeq}
	}
	r.Advance(s.Progress)
	if s.NoEffect && r.Effect != EffectObserved {
		r.Effect = EffectNone
	}
	r.State, r.Reason = state, reason
	if s.Told != nil {
		r.Cancel = *s.Told
	} else if r.Cancel.Version > 0 {
		r.Cancel.Upstream = s.Upstream
		r.Cancel.Outcome = r.outcome()
	}
	r.close(s.Keep, now)
	return nil
}

// settledState decides which terminal state a settlement reaches. A Stop that
// came first turns every end into cancelled, unless the positive end was
// stored before it or the end was told before, or the owner cannot even say
// that upstream was closed.
func (r *Record) settledState(s *Settlement) (State, Reason) {
	if r.State != Cancelling || r.Ending || s.Told != nil || s.State == Uncertain {
		return s.State, s.Reason
	}
	return Cancelled, r.Reason
}

// close numbers the terminal frame and starts the retention clocks.
func (r *Record) close(keep time.Duration, now time.Time) {
	if keep > 0 {
		r.Retention = r.Retention.atMost(keep)
	}
	r.EndedAt, r.Lined = now, false
	r.FinalSeq = r.LastSeq + 1
	r.FramesExpireAt = now.Add(r.Retention.frames())
	r.ExpiresAt = now.Add(r.Retention.Record)
	r.Revision++
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

// Stop applies a Stop to a record and reports whether it changed anything. A
// queued run ends at once, since nothing was dispatched.
func (r *Record) Stop(reason Reason, now time.Time) bool {
	switch r.State {
	case Queued:
		r.Cancel = Cancel{Version: 1, RequestedAt: now}
		return r.Settle(stopQueued(reason), now) == nil
	case Running, Waiting:
		r.Cancel = Cancel{Version: r.Cancel.Version + 1, RequestedAt: now, Outcome: CancellationPending}
		r.State, r.Reason = Cancelling, reason
		r.Revision++
		return true
	case StateNone, Cancelling, Completed, Failed, Cancelled, Uncertain:
	}
	return false
}

// stopQueued is how a Stop settles a run that was not dispatched: there is
// nothing upstream that could still go on.
func stopQueued(reason Reason) *Settlement {
	return &Settlement{State: Cancelled, Reason: reason, NoEffect: true, ReleaseKey: true, Upstream: Confirmed}
}
