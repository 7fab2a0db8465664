package embeddedstore

import (
	"container/heap"
	"math"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// deadline is the next moment at which something of a run ends, or at which
// the reserved key of a deleted run does.
type deadline struct {
	at    time.Time
	index int // in the agenda, from 1; 0: not in it
	// unix repeats at for those who do not hold the claims' lock; 0: none.
	unix atomic.Int64

	run     *run // nil for a reserved key:
	subject runregistry.Subject
	key     request
}

// passed reports whether the deadline is over. It takes no lock.
func (d *deadline) passed() bool {
	at := d.unix.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

// agenda is a heap of deadlines, the earliest first.
type agenda []*deadline

// Len implements [heap.Interface].
func (a agenda) Len() int { return len(a) }

// Less implements [heap.Interface].
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }

// Swap implements [heap.Interface].
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}

// Push implements [heap.Interface].
func (a *agenda) Push(x any) {
	d := x.(*deadline)
	*a = append(*a, d)
	d.index = len(*a)
}

// Pop implements [heap.Interface].
func (a *agenda) Pop() any {
	old := *a
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	d.index = 0
	return d
}

// put sets a deadline, in place of the one it had. It reports whether it is
// now the earliest.
func (a *agenda) put(d *deadline, at time.Time) bool {
	d.at = at
	d.unix.Store(at.UnixNano())
	if d.index > 0 {
		heap.Fix(a, d.index-1)
	} else {
		heap.Push(a, d)
	}
	return d.index == 1
}

// drop removes a deadline.
func (a *agenda) drop(d *deadline) {
	if d.index > 0 {
		heap.Remove(a, d.index-1)
	}
	d.unix.Store(0)
}

// scheduleLocked sets the next deadline of a run that has ended; r.mu and s.mu
// must be held.
func (s *Store) scheduleLocked(r *run) {
	if s.agenda.put(&r.deadline, r.dueAtLocked(s.claims.holdsKey(r))) {
		s.kickSweeper()
	}
}

// reserveLocked keeps the key of a deleted run until its window ends; s.mu must
// be held.
func (s *Store) reserveLocked(subject runregistry.Subject, key request, until time.Time) {
	s.claims.reserve(subject, key)
	if s.agenda.put(&deadline{subject: subject, key: key}, until) {
		s.kickSweeper()
	}
}

// kickSweeper makes the sweeper look at the agenda again.
func (s *Store) kickSweeper() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// everything is a bound of a sweep that is none.
const everything = math.MaxInt

// sweepBatch is how many deadlines the sweeper handles while it holds the lock
// that admissions wait for.
const sweepBatch = 128

// sweepLocked ends what is due, at most limit of it, and returns the earliest
// deadline that is left; nil without any. s.mu must be held.
func (s *Store) sweepLocked(now time.Time, limit int) *deadline {
	for len(s.agenda) > 0 {
		d := s.agenda[0]
		if limit == 0 || now.Before(d.at) {
			return d
		}
		limit--
		if d.run != nil {
			s.endLocked(d.run, now)
			continue
		}
		s.agenda.drop(d)
		s.claims.unreserve(d.subject, d.key)
	}
	return nil
}

// endLocked ends what is due of one run: its frames, its key, itself.
func (s *Store) endLocked(r *run, now time.Time) {
	defer r.watchers.wake()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.rec.ExpiresAt) {
		s.removeLocked(r)
		return
	}
	if !now.Before(r.rec.KeyExpiresAt()) {
		s.claims.freeKey(r)
	}
	if r.rec.FirstSeq > 0 && !now.Before(r.rec.FramesExpireAt) {
		r.expireFramesLocked()
		s.litter(forgetting)
		s.chargeLocked(r)
	}
	s.scheduleLocked(r)
}

// sweep runs until the store closes.
func (s *Store) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.kick:
		case <-timer.C:
		}
		s.mu.Lock()
		next := s.sweepLocked(time.Now(), sweepBatch)
		if next != nil {
			timer.Reset(time.Until(next.at))
		}
		s.mu.Unlock()
	}
}
