package embeddedstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

const (
	// lockPoll and openPoll are how often a directory is tried again that another
	// process has, and one that could not be opened.
	lockPoll = 250 * time.Millisecond
	openPoll = 5 * time.Second
	// lockPatience is how long callers wait, too, for a directory that is just
	// being given back: by the store of the configuration before this one, or by
	// a process that ends.
	lockPatience = 500 * time.Millisecond
	handover     = 20 * time.Millisecond
	// mendPoll is how often it is looked whether a full disk has room again.
	mendPoll = time.Second
	// retryRewrite is the pause after a rewrite that failed.
	retryRewrite = 10 * time.Second
)

// keep opens the journal and looks after it until the store closes.
func (s *Store) keep() {
	if !s.openJournal() {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.disk.kick:
		case <-timer.C:
		}
		if wait, ok := s.tend(); ok {
			timer.Reset(wait)
		}
	}
}

// openJournal tries until it works. It reports false when the store was closed
// before.
func (s *Store) openJournal() bool {
	began := time.Now()
	for told := ""; ; {
		err := s.load()
		wait := handover
		if !errors.Is(err, journal.ErrLocked) || time.Since(began) >= lockPatience {
			wait = s.disk.opened(err)
		}
		switch {
		case err == nil:
			return true
		case errors.Is(err, errClosed) || wait == handover || told == err.Error():
		default:
			told = err.Error()
			s.disk.log.Warn("store cannot be opened yet", slog.Any("error", err))
		}
		select {
		case <-s.done:
			return false
		case <-time.After(wait):
		}
	}
}

// opened remembers how an attempt to open went, and returns when to try again.
func (d *disk) opened(err error) time.Duration {
	d.mu.Lock()
	d.failed = err
	d.mu.Unlock()
	select {
	case <-d.tried:
	default:
		close(d.tried)
	}
	if errors.Is(err, journal.ErrLocked) {
		return lockPoll
	}
	return openPoll
}

// tend does what is due for the journal. It returns when to look again, if not
// only on a kick.
func (s *Store) tend() (time.Duration, bool) {
	j := s.disk.journal.Load()
	ailing := j.Ailing()
	if errors.Is(ailing, journal.ErrFull) {
		ailing = j.Mend()
	}
	now := time.Now()
	oversize := j.Size() > s.disk.ceiling.Load()
	if s.disk.isDue(now, oversize || errors.Is(ailing, journal.ErrSick)) {
		s.rewrite(j, now)
		ailing = j.Ailing()
	}
	return s.disk.next(ailing != nil)
}

// isDue reports whether to rewrite now.
func (d *disk) isDue(now time.Time, pressing bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pressing && (d.due.IsZero() || d.due.After(now)) {
		d.due = now
	}
	return !d.due.IsZero() && !d.dueLocked().After(now)
}

// dueLocked is the time of the next rewrite; d.mu must be held.
func (d *disk) dueLocked() time.Time {
	if d.due.Before(d.resting) {
		return d.resting
	}
	return d.due
}

// next returns how long the keeper may sleep.
func (d *disk) next(ailing bool) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case ailing:
		return mendPoll, true
	case d.due.IsZero():
		return 0, false
	}
	return max(time.Until(d.dueLocked()), 0), true
}

// rewrite makes the disk hold what counts, and nothing else.
func (s *Store) rewrite(j *journal.Journal, began time.Time) {
	d := s.disk
	d.mu.Lock()
	d.due = time.Time{} // what becomes litter from now on is for the next
	d.mu.Unlock()
	err := j.Rewrite(s.saveAll)
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.resting = now.Add(rest * now.Sub(began))
		d.ceiling.Store(2*j.Size() + d.slack)
		return
	}
	d.due, d.resting = now, now.Add(retryRewrite)
	d.ceiling.Store(j.Size() + d.slack)
	if errors.Is(err, journal.ErrClosed) {
		return
	}
	d.log.Error("rewriting the store failed", slog.Any("error", fmt.Errorf("keeping %s: %w", d.options.Dir, err)))
}
