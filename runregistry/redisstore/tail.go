package redisstore

import (
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// trusted is how long a reader believes what it knows of a run without asking
// Redis: a hint may have been lost.
const trusted = 2 * time.Second

// standing is where a run stands.
type standing struct {
	state              runregistry.State
	first, last, final runregistry.Seq
	framesUntil, until time.Time
	revision           uint64
	epoch              runregistry.Epoch
}

func standingOf(e *entry) standing {
	r := &e.rec
	return standing{r.State, r.FirstSeq, r.LastSeq, r.FinalSeq, r.FramesExpireAt, r.ExpiresAt, r.Revision, r.Epoch}
}

// tail is what this instance knows of one run that it owns or that somebody
// here watches.
type tail struct {
	id    runregistry.RunID
	clock *clock

	mu       sync.Mutex // guards everything below
	watchers []*watcher
	readers  int
	// epoch is that of this instance's lease; 0: somebody else's run.
	epoch runregistry.Epoch
	entry *entry // of an owned run, as last written; nil: it must be read
	held  claims // of an owned run
	// unsure is set while the outcome of a change by the owner is not known.
	unsure bool

	known   bool // there is a standing
	stands  standing
	checked time.Time // since when it is believed; zero: it is not
	heard   uint64    // highest revision that was ever announced
	at      question  // what was learned so far
	window  window

	alarm *time.Timer // wakes the watchers when frames or record expire
	leave func()      // ends the subscription; nil: none
	line  func()      // ends that of a run that waits in line; nil: none
}

type watcher struct {
	c       chan struct{}
	at      int // index in tail.watchers
	reading bool
}

// question remembers what was known when Redis was asked something, so that an
// answer that was overtaken is not believed.
type question struct {
	turn   uint64 // grows with everything that is learned
	doubts uint64 // grows with every change that was announced but not told
}

// learnLocked takes what Redis answered. If more was learned meanwhile an answer
// counts only if it knows no less; it is believed only if it knows all that was
// announced.
func (t *tail) learnLocked(st standing, asked question) {
	overtaken := asked != t.at
	if t.known && overtaken && st.revision < t.stands.revision {
		return
	}
	if t.known && st.last < t.stands.last {
		t.window.cut(st.last)
	}
	t.known, t.stands = true, st
	if !overtaken || asked.doubts == t.at.doubts && st.revision >= t.heard {
		t.checked = time.Now()
	}
	t.at.turn++
	t.setAlarmLocked()
}

// keepLocked remembers an owned run as it is stored.
func (t *tail) keepLocked(e *entry) { t.entry, t.held = e, e.claims }

func (t *tail) learn(st standing, asked question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learnLocked(st, asked)
}

// asking returns what to hand to learnLocked together with the answer.
func (t *tail) asking() question {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// doubtLocked makes the next read ask Redis.
func (t *tail) doubtLocked() {
	t.checked = time.Time{}
	t.at.doubts++
}

func (t *tail) wakeLocked() {
	for _, w := range t.watchers {
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}

// setAlarmLocked announces what time alone changes.
func (t *tail) setAlarmLocked() {
	if !t.stands.state.Terminal() || len(t.watchers) == 0 {
		return
	}
	now := t.clock.now()
	left := t.stands.until.Sub(now)
	if f := t.stands.framesUntil.Sub(now); f > 0 {
		left = min(left, f)
	}
	if left <= 0 {
		return
	}
	if t.alarm != nil {
		t.alarm.Stop()
	}
	// A moment later, since the two clocks are not the same.
	t.alarm = time.AfterFunc(left+50*time.Millisecond, t.ring)
}

func (t *tail) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubtLocked()
	t.wakeLocked()
	t.setAlarmLocked()
}

func (t *tail) restLocked() {
	if t.alarm != nil {
		t.alarm.Stop()
	}
}

// page reads from memory; ok is false when Redis must be asked. now is the
// server's time.
func (t *tail) page(q *runregistry.PageQuery, now time.Time) (page runregistry.Page, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := &t.stands
	if !t.known || time.Since(t.checked) >= trusted || st.state.Terminal() && !now.Before(st.framesUntil) {
		return page, false
	}
	page = runregistry.Page{Frames: q.Into[:0], State: st.state, Epoch: st.epoch, First: st.first, Last: st.last, Final: st.final}
	if q.After >= st.last {
		return page, true
	}
	if q.After+1 < st.first || !t.window.covers(q.After, st.last) {
		return page, false
	}
	page.Frames = t.window.page(page.Frames, q.After, q.MaxBytes)
	return page, true
}
