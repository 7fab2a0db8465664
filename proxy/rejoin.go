package proxy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A backend that keeps the frames of a run can be asked for those after a
// position. So a run goes on when its connection broke, and when another
// process takes it over: with the same numbers, without a hole, a repetition,
// or a second generation.

// joining is how far the search for a run's stream got.
type joining struct {
	// possible: upstream can be asked for what follows a position.
	possible bool
	position string // of the last frame that was taken
	stored   string // the same, of the last that was stored
	// adopted: the run began in another process, whose ground is not known.
	adopted bool
	// sparse: upstream's numbers leave some out, so that a hole proves nothing.
	sparse bool
	// fresh: the stream was joined, and none of its frames is new yet.
	fresh bool
	// blind: a stream without positions was joined, and did not begin with all
	// that was made so far, so that nobody knows what is missing.
	blind bool
	// told is what such a stream began with, while nothing came after it.
	told []byte
	// retelling lays the joined stream over the log where it has no positions, and
	// torn tells that pieces may be missing since; see retell.go.
	retelling *retelling
	torn      bool
	// times counts the streams that were joined.
	times int
	// news is when the last frame came, or the search began; wait is how long to
	// rest before the next try, nothing after news.
	news time.Time
	wait time.Duration
	// opened is when the stream began that broke.
	opened time.Time
}

const (
	// joinPatience is how long a backend that gives no new frame is asked again
	// and again, and adoptPatience the same for a run that was taken over, whose
	// readers wait to be told.
	joinPatience  = 30 * time.Second
	adoptPatience = 10 * time.Second
	maxJoinRetry  = time.Second
)

// prepareJoin finds out whether the run's stream could be joined; p.mu must be
// held. Its position is kept from then on.
func (p *pump) prepareJoin() {
	if p.ground == nil || !p.stream || p.decoder != nil || p.status >= http.StatusBadRequest {
		return
	}
	p.join.opened = time.Now()
	_, err := p.bearings.join(&p.cfg.Join, "0")
	p.join.possible = err == nil || errors.Is(err, errUnknownVariable)
}

// passes reports whether a frame is one that the log does not have yet, and
// notes its position; p.mu must be held.
func (p *pump) passes(f *frame.Frame) bool {
	if !p.join.possible {
		return true
	}
	if p.retells() {
		return p.passesRetold(f)
	}
	if p.join.fresh && p.join.position == dialect.Whole {
		return p.passesFirst(f)
	}
	position := p.dialect.PositionOf(f)
	if position == "" || position == dialect.Whole && p.cfg.Join.configured() {
		return true
	}
	p.join.told = nil
	if reached := p.join.position; p.join.fresh && reached != "" {
		if dialect.Follows(position, reached) <= 0 {
			return false
		}
		if !p.join.sparse && dialect.Skips(position, reached) {
			p.cancel(errLogLost)
			return false
		}
		p.join.fresh = false
	} else if reached != "" && dialect.Skips(position, reached) {
		p.join.sparse = true
	}
	p.join.position = position
	p.join.news, p.join.wait = time.Now(), 0
	return true
}

// passesFirst takes the first frame of a joined stream that gives no positions.
// It has to hold all that was made so far: then what was said while nobody
// listened is in it. A backend that breaks off after it again and again says the
// same each time.
func (p *pump) passesFirst(f *frame.Frame) bool {
	if p.join.blind = p.join.blind || !p.dialect.Tells(f); p.join.blind {
		return false
	}
	p.join.fresh = false
	p.countJoin()
	if bytes.Equal(p.join.told, f.Data) {
		return false
	}
	p.join.told = bytes.Clone(f.Data)
	return true
}

// rejoins reports whether the run's stream, which came back as end says, is to
// be looked for again: it broke, or ended without saying how, and what follows
// can be asked for.
func (p *pump) rejoins(end ending) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.join.possible || p.join.position == "" || p.join.blind || p.over || p.ctx.Err() != nil || p.halt.begun || p.facts.ending || end.panicked != nil {
		return false
	}
	return p.broken(end) && time.Since(p.join.news) < p.joinPatience()
}

// broken reports whether a stream that said nothing about its end may not end as
// it did; p.mu must be held.
func (p *pump) broken(end ending) bool {
	if end.err != nil || end.aborted {
		return true
	}
	ends := p.dialect.CleanEnd || p.facts.outcome != dialect.OutcomeNone || p.facts.waiting && p.dialect.PausedEnd
	return !ends
}

func (p *pump) joinPatience() time.Duration {
	if p.join.adopted && p.join.times == 0 {
		return adoptPatience
	}
	return joinPatience
}

// errNoStream means that a call was not answered by the rest of the stream.
var errNoStream = errors.New("backend did not go on with the stream")

// rejoin asks for the rest of the stream until there is one, and reads it. The
// ending is that of the stream, or as it was when none was found.
func (p *pump) rejoin(end ending) (last ending, found bool) {
	p.beginSearch()
	for p.rejoins(end) && p.restJoin() {
		if !p.engine.trusted() || !p.recollect() {
			continue // the next try may be ours to make
		}
		e, err := p.joinCall()
		if err != nil {
			return end, false
		}
		w := &joinWriter{pump: p, reply: reply{header: http.Header{}}}
		err = p.readOn(w, e)
		switch {
		case w.joined:
			return ending{err: err, aborted: err != nil}, true
		case w.status != 0 && !w.again():
			p.log.Warn("stream of a run was not joined again", logRun(p.lease.Run), slog.Int("status", w.status), logError(err))
			return end, false
		}
	}
	return end, false
}

// beginSearch notes that a stream broke. One that lasted was silent for a reason,
// such as a tool that takes its time: the search begins now.
func (p *pump) beginSearch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.join.opened) >= joinPatience {
		p.join.news, p.join.wait = time.Now(), 0
	}
}

// restJoin rests before another try: a backend that takes the call and breaks
// off at once is not asked in a loop. It reports whether the run goes on.
func (p *pump) restJoin() bool {
	p.mu.Lock()
	wait := p.join.wait
	p.join.wait = min(max(2*wait, callRetry), maxJoinRetry)
	p.mu.Unlock()
	pause := time.NewTimer(wait)
	defer pause.Stop()
	select {
	case <-pause.C:
		return p.ctx.Err() == nil
	case <-p.ctx.Done():
		return false
	}
}

// joinCall is the call for what follows the last frame.
func (p *pump) joinCall() (*errand, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bearings.join(&p.cfg.Join, p.join.position)
}

// readOn makes the call and reads its answer.
func (p *pump) readOn(w *joinWriter, e *errand) error {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	w.unanswered = time.AfterFunc(callTimeout, func() { cancel(errNoAnswer) })
	defer w.unanswered.Stop()
	next, r, err := p.ground.prepare(ctx, e)
	if err != nil {
		return err
	}
	if err = contained(next, w, r); err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// joined begins another stream of the run; p.mu must be held.
func (p *pump) joined() {
	p.join.fresh, p.join.opened = true, time.Now()
	p.cutter = frame.New(p.kind, p.cfg.Limits.Frame)
	p.lastByte, p.lastSeen = time.Now(), time.Now()
	if !p.stuck {
		p.batch.reset()
	}
	if p.join.position == dialect.Whole {
		return // its first frame decides
	}
	p.countJoin()
	if err := p.commit(); err != nil {
		p.cancel(errLost)
	}
}

// countJoin notes that a stream was joined; p.mu must be held, and a commit has
// to follow.
func (p *pump) countJoin() {
	p.join.times++
	times := p.reattached()
	p.note(func(pr *runregistry.Progress) { pr.Reattached = times })
	p.engine.metrics.runReattached()
	p.log.Info("stream of a run was joined again", logRun(p.lease.Run), slog.Int("times", times))
}

// reattached counts the joined streams of all owners.
func (p *pump) reattached() int { return p.join.times + p.before }

// joinWriter takes the answer to a call that joins a stream.
type joinWriter struct {
	reply

	pump       *pump
	unanswered *time.Timer
	joined     bool // the answer is the stream
}

// WriteHeader implements [http.ResponseWriter].
func (w *joinWriter) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.unanswered.Stop()
	w.reply.WriteHeader(status)
	kind, ok := frame.KindOf(w.header.Get("Content-Type"))
	if !w.accepted() || w.header.Get("Content-Encoding") != "" {
		return
	}
	p := w.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.joined = ok && kind == p.kind && !p.over; w.joined {
		p.joined()
	}
}

// Write implements [http.ResponseWriter].
func (w *joinWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.joined {
		return 0, errNoStream
	}
	if err := w.pump.feed(b); err != nil {
		return 0, err
	}
	if w.pump.isBlind() {
		return 0, errNoStream
	}
	return len(b), nil
}

func (p *pump) isBlind() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.join.blind
}

// FlushError makes flushing through [http.ResponseController] succeed.
func (w *joinWriter) FlushError() error { return nil }

var _ http.ResponseWriter = (*joinWriter)(nil)
