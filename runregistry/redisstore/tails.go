package redisstore

import (
	"sync"
	"sync/atomic"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// tails are the runs that this instance owns or watches.
type tails struct {
	clock  *clock
	stamps atomic.Uint64

	mu    sync.Mutex // guards everything below; taken before a tail's lock
	byRun map[runregistry.RunID]*tail
	dirty map[runregistry.RunID]bool // whose readers Redis should be told

	partings sync.Mutex // guards leaving; taken last
	leaving  []func()   // subscriptions to end
}

func newTails(c *clock) *tails {
	return &tails{clock: c, byRun: make(map[runregistry.RunID]*tail), dirty: make(map[runregistry.RunID]bool)}
}

func (ts *tails) get(id runregistry.RunID) *tail {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byRun[id]
}

// asking is the question about a run that is about to be asked.
func (ts *tails) asking(id runregistry.RunID) question {
	if t := ts.get(id); t != nil {
		return t.asking()
	}
	return question{}
}

// openLocked returns the tail of a run, a new one if need be.
func (ts *tails) openLocked(id runregistry.RunID) *tail {
	t := ts.byRun[id]
	if t == nil {
		t = &tail{id: id, clock: ts.clock}
		ts.byRun[id] = t
	}
	return t
}

// closeLocked forgets a tail that nobody needs; t.mu must be held.
func (ts *tails) closeLocked(t *tail) {
	if t.epoch == 0 {
		ts.stepUpLocked(t)
	}
	if len(t.watchers) == 0 && t.epoch == 0 {
		t.restLocked()
		if t.leave != nil {
			ts.part(t.leave)
			t.leave = nil
		}
		delete(ts.byRun, t.id)
	}
}

// with calls use with the tail of a run, if there is one, and forgets the tail
// if it is no longer needed.
func (ts *tails) with(id runregistry.RunID, use func(t *tail)) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byRun[id]
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	use(t)
	ts.closeLocked(t)
}

// owned notes that this instance has just written a run.
func (ts *tails) owned(e *entry, epoch runregistry.Epoch) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.openLocked(e.rec.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch > epoch {
		return
	}
	t.epoch = epoch
	t.keepLocked(e)
	if !e.rec.Lined {
		ts.stepUpLocked(t)
	}
	t.learnLocked(standingOf(e), e.asked)
	t.wakeLocked()
}

// changed notes another state of a run.
func (ts *tails) changed(e *entry) {
	ts.with(e.rec.ID, func(t *tail) {
		t.entry, t.held = nil, e.claims // the owner reads the rest again
		t.learnLocked(standingOf(e), e.asked)
		t.wakeLocked()
	})
}

// ended notes the end of a run.
func (ts *tails) ended(e *entry) {
	ts.with(e.rec.ID, func(t *tail) {
		t.epoch, t.entry = 0, nil
		t.learnLocked(standingOf(e), e.asked)
		t.wakeLocked()
	})
}

// gone notes that a run was deleted.
func (ts *tails) gone(id runregistry.RunID) {
	ts.with(id, func(t *tail) {
		t.epoch, t.entry, t.known = 0, nil, false
		t.window.drop()
		t.doubtLocked()
		t.wakeLocked()
	})
}

// disown notes that a lease is over.
func (ts *tails) disown(l runregistry.Lease) {
	ts.with(l.Run, func(t *tail) {
		if t.epoch == l.Epoch {
			t.epoch, t.entry = 0, nil
		}
		t.doubtLocked()
		t.wakeLocked()
	})
}

// doubt makes readers look at Redis again, and the owner read the record before
// it changes it.
func (ts *tails) doubt(id runregistry.RunID) {
	ts.with(id, func(t *tail) {
		t.entry = nil
		t.doubtLocked()
		t.wakeLocked()
	})
}

// join adds a watcher, and returns how many readers there are now and the
// number of this news.
func (ts *tails) join(id runregistry.RunID, reading bool) (t *tail, w *watcher, readers int, stamp uint64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t = ts.openLocked(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	w = &watcher{c: make(chan struct{}, 1), at: len(t.watchers), reading: reading}
	t.watchers = append(t.watchers, w)
	if reading {
		t.readers++
	}
	t.setAlarmLocked()
	return t, w, t.readers, ts.stamps.Add(1)
}

// leave removes a watcher. When nobody reads any more the others are told: a
// start may wait for just that.
func (ts *tails) leave(id runregistry.RunID, w *watcher) {
	ts.with(id, func(t *tail) {
		last := len(t.watchers) - 1
		t.watchers[w.at] = t.watchers[last]
		t.watchers[w.at].at = w.at
		t.watchers[last] = nil
		t.watchers = t.watchers[:last]
		if !w.reading {
			return
		}
		ts.dirty[id] = true
		if t.readers--; t.readers == 0 {
			t.wakeLocked()
		}
	})
}

// reading returns the number of readers here.
func (ts *tails) reading(id runregistry.RunID) int {
	t := ts.get(id)
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readers
}

// count is the number of readers of a run, with the number of this news.
type count struct {
	run   runregistry.RunID
	n     int
	stamp uint64
}

// counts returns what Redis should be told: of the runs where somebody left,
// and if all is set of every active run that is read here.
func (ts *tails) counts(all bool) []count {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if all {
		for id, t := range ts.byRun {
			t.mu.Lock()
			if t.readers > 0 && (!t.known || !t.stands.state.Terminal()) {
				ts.dirty[id] = true
			}
			t.mu.Unlock()
		}
	}
	news := make([]count, 0, len(ts.dirty))
	for id := range ts.dirty {
		n := 0 // nobody is left here
		if t := ts.byRun[id]; t != nil {
			t.mu.Lock()
			n = t.readers
			t.mu.Unlock()
		}
		news = append(news, count{id, n, ts.stamps.Add(1)})
	}
	clear(ts.dirty)
	return news
}

// part ends a subscription soon. The tail's lock may be held.
func (ts *tails) part(leave func()) {
	ts.partings.Lock()
	defer ts.partings.Unlock()
	ts.leaving = append(ts.leaving, leave)
}

// farewells returns the subscriptions that nobody needs any more. Ending one
// takes a round trip, which nobody waits for.
func (ts *tails) farewells() []func() {
	ts.partings.Lock()
	defer ts.partings.Unlock()
	all := ts.leaving
	ts.leaving = nil
	return all
}

func (ts *tails) wakeAll() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byRun {
		t.mu.Lock()
		t.wakeLocked()
		t.mu.Unlock()
	}
}

// rest stops all alarms.
func (ts *tails) rest() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byRun {
		t.mu.Lock()
		t.restLocked()
		t.mu.Unlock()
	}
}
