package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// stallLimit is how long a reader may refuse to take bytes before it is
// closed; it can resume.
const stallLimit = 30 * time.Second

// deadlineSlack lets a write deadline serve several writes: moving it for each
// would cost more than the write's own bookkeeping.
const deadlineSlack = 5 * time.Second

// tailPage bounds what one write to a reader carries. It is small enough for
// the memory of a rendered page to be kept and used again.
const tailPage = 32 << 10

// tail reads the log of one run and writes one client. It never reads an
// upstream.
type tail struct {
	*renderer
	h      *Handler
	w      http.ResponseWriter
	ctrl   *http.ResponseController
	watch  *runregistry.Watch
	ended  <-chan struct{} // closed when this reader must make room
	after  runregistry.Seq
	state  runregistry.State // as this reader knows it, and whose run it is
	epoch  runregistry.Epoch
	page   []runregistry.Frame
	choose viewOf // decides the view anew with the first frames

	last     time.Time // last write
	deadline time.Time // write deadline in force
	quiet    *time.Timer
	standing *standing
	check    *time.Timer // fires when the reader is to be decided again
	stats    tailStats
	// away is since when the store has not answered; zero while it does.
	away time.Time
	// missing is since when the store has not known an active run.
	missing  time.Time
	poll     *time.Ticker // nil in a store of this process alone, which loses no hint
	throttle *throttle    // set for the client that waits for a plain body
	stranger bool         // the reader asked the backend and may not know us
}

// tailStats is what the span of a reader tells.
type tailStats struct {
	replayed  int // frames that were stored before the reader came
	live      int
	firstLive runregistry.Seq
}

// tailEnd is how a reader's stream ended.
type tailEnd uint8

const (
	tailWhole       tailEnd = iota // everything there is was delivered
	tailAborted                    // the end must not look like one
	tailInterrupted                // unfinished; the reader is told to come back
	tailGone                       // the client left or does not take bytes
)

// newTail returns the tail of one reader.
func (h *Handler) newTail(w http.ResponseWriter, v view, choose viewOf, rec *runregistry.Record, l links, watch *runregistry.Watch, s *seat, stands *standing) *tail {
	t := &tail{
		renderer: newRenderer(v, rec, l), choose: choose, h: h, w: w, ctrl: http.NewResponseController(w),
		watch: watch, ended: s.ended, state: runregistry.StateNone, last: time.Now(),
	}
	t.quiet = time.NewTimer(min(t.patience(), lookAfter))
	t.standing, t.check = stands, time.NewTimer(time.Until(stands.next))
	if h.deps.Engine.keeper != nil {
		t.poll = time.NewTicker(pollInterval)
	}
	return t
}

// awaitAnswer keeps a stream alive whose head was committed before upstream
// answered, and then takes upstream's answer for it: a stream goes on as an
// event stream, anything else can only be told as a failure.
func (t *tail) awaitAnswer(ctx context.Context) (end tailEnd, over bool) {
	for {
		if end, over := t.recheck(ctx); over {
			return end, true
		}
		rec, end, over := t.load(ctx)
		if over {
			return end, true
		}
		t.rec = rec
		switch answer := rec.Response; {
		case answer != nil && answer.Stream && answer.Status < http.StatusMultipleChoices:
			t.view = t.h.eventStream(rec, false)
			return tailWhole, false
		case rec.State.Terminal():
			return t.unstreamed(ctx), true
		}
		if end, over := t.wait(ctx); over {
			return end, true
		}
	}
}

// unstreamed ends a stream that was promised to the client, and to which
// upstream's answer does not fit: even a whole one is a failure here.
func (t *tail) unstreamed(ctx context.Context) tailEnd {
	if t.rec.State != runregistry.Completed {
		return t.finish(ctx)
	}
	if t.dialect = t.h.deps.Engine.dialectOf(t.rec); !t.canFail() {
		return tailAborted
	}
	t.out = t.out[:0]
	t.failure(t.rec.FinalSeq, failureOf(t.rec, t.links))
	if err := t.send(t.out); err != nil {
		return tailGone
	}
	return t.told()
}

// run delivers until the run ends, the client leaves, or the gateway drains.
func (t *tail) run(ctx context.Context) tailEnd {
	defer t.stopTimers()
	live := false
	for {
		if end, over := t.recheck(ctx); over {
			return end
		}
		page, err := t.h.deps.Engine.store.Read(ctx, runregistry.PageQuery{Run: t.rec.ID, After: t.after, Into: t.page[:0], MaxBytes: tailPage})
		if err != nil {
			if end, over := t.rideOut(ctx, err); over {
				return end
			}
			continue
		}
		t.answered()
		if end, ok := t.acquaint(ctx, &page); !ok {
			return end
		}
		if end, over := t.announce(ctx, &page); over {
			return end
		}
		if err := t.deliver(ctx, &page, live); err != nil {
			return tailGone
		}
		if page.More(t.after) {
			continue
		}
		if page.State.Terminal() {
			return t.finish(ctx)
		}
		if !t.follow {
			return tailWhole
		}
		live = true
		if end, over := t.wait(ctx); over {
			return end
		}
	}
}

// deliver writes a page in one write and one flush.
func (t *tail) deliver(ctx context.Context, page *runregistry.Page, live bool) error {
	n := len(page.Frames)
	if n == 0 {
		return nil
	}
	t.page = page.Frames
	if t.rec.Response == nil {
		t.meet(ctx)
	}
	rendered := t.frames(page.Frames)
	if err := t.send(rendered); err != nil {
		return err
	}
	if t.throttle != nil {
		t.throttle.delivered(len(rendered))
	}
	t.after = page.Frames[n-1].Seq
	t.count(page.Frames, live)
	return nil
}

// acquaint takes the record anew with the first frames of a run whose reader
// came before them: until then format and dialect were not known. What cannot
// be shown in the format that the reader asked for ends so that it asks again.
func (t *tail) acquaint(ctx context.Context, page *runregistry.Page) (end tailEnd, ok bool) {
	if len(page.Frames) == 0 || t.rec.LastSeq > 0 {
		return 0, true
	}
	rec, end, over := t.load(ctx)
	if over {
		return end, false
	}
	v, err := t.choose(rec)
	if err != nil {
		return t.interrupt(), false
	}
	t.rec, t.view = rec, v
	return 0, true
}

// meet learns what upstream answered to a reader that came before the answer.
func (t *tail) meet(ctx context.Context) {
	if rec, err := t.h.deps.Engine.store.Load(ctx, t.rec.ID); err == nil {
		t.rec, t.dialect = rec, t.h.deps.Engine.dialectOf(rec)
	}
}

func (t *tail) count(frames []runregistry.Frame, live bool) {
	if !live {
		t.stats.replayed += len(frames)
		return
	}
	if t.stats.firstLive == 0 {
		t.stats.firstLive = frames[0].Seq
	}
	t.stats.live += len(frames)
}

// wait returns when there may be something new; over means that the stream
// ends instead.
func (t *tail) wait(ctx context.Context) (end tailEnd, over bool) {
	var poll <-chan time.Time
	if t.poll != nil {
		poll = t.poll.C
	}
	return t.stay(ctx, t.watch.C, poll, t.check.C)
}

func (t *tail) stopTimers() {
	t.quiet.Stop()
	t.check.Stop()
	if t.poll != nil {
		t.poll.Stop()
	}
}

// lookAfter is how often a silent reader is looked after at least: the deadline
// of its last write must not pass before the next one. Over HTTP/2 it would
// reset the stream by itself; over HTTP/1 it would break its end.
const lookAfter = 20 * time.Second

// patience is the silence after which a sign of life is due.
func (t *tail) patience() time.Duration {
	if t.every <= 0 || t.keepalive == "" {
		return time.Hour
	}
	return t.every
}

// keepAlive writes a sign of life when the silence was long enough. The timer
// is not moved by each write; it looks when it fires.
func (t *tail) keepAlive() error {
	patience := t.patience()
	left := patience - time.Since(t.last)
	if left > 0 {
		t.quiet.Reset(min(left, lookAfter))
		return t.extend(time.Now())
	}
	t.quiet.Reset(min(patience, lookAfter))
	if t.keepalive == "" {
		return t.extend(time.Now())
	}
	return t.send([]byte(t.keepalive))
}

// pieceSize is what a reader must take within [stallLimit] to count as one that
// does not stall: a large frame over a slow line takes longer as a whole.
const pieceSize = 64 << 10

// send is one write and one flush under a deadline. What is larger than a piece
// is written by pieces, each with its own.
func (t *tail) send(b []byte) error {
	for piece := range slices.Chunk(b, pieceSize) {
		now := time.Now()
		if t.deadline.Sub(now) < stallLimit {
			if err := t.extend(now); err != nil {
				return err
			}
		}
		if _, err := t.w.Write(piece); err != nil {
			return fmt.Errorf("writing to reader: %w", err)
		}
		t.last = now
	}
	if err := t.ctrl.Flush(); err != nil {
		return fmt.Errorf("flushing to reader: %w", err)
	}
	return nil
}

// extend moves the write deadline.
func (t *tail) extend(now time.Time) error {
	t.deadline = now.Add(stallLimit + deadlineSlack)
	if err := t.ctrl.SetWriteDeadline(t.deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("setting write deadline: %w", err)
	}
	return nil
}
